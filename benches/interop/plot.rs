//! A picture of a soak: one panel for each quantity, one above the other, over the same time.

use svg::Document;
use svg::node::element::{Line, Polyline, Text};

use crate::samples::{SERIES, Sample, Series};

const WIDTH: f64 = 900.0;
const PANEL_HEIGHT: f64 = 110.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 30.0;
/// Within a panel, above and below the curve.
const GAP: f64 = 24.0;
const INK: &str = "#334155";
const CURVE: &str = "#b45309";

/// # Panics
/// Without a sample.
pub(crate) fn plot(samples: &[Sample]) -> String {
    let seconds = samples.last().unwrap().at.as_secs_f64().max(1.0);
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a handful")]
    let height = PANEL_HEIGHT * SERIES.len() as f64 + TOP + 20.0;
    let mut picture = Document::new()
        .set("viewBox", (0.0, 0.0, WIDTH, height))
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .set("style", "background:#fff")
        .add(text(10.0, 18.0, "start", &format!("portcullis serve under mixed load, {:.0} minutes", seconds / 60.0)));
    let mut top = TOP;
    for series in &SERIES {
        picture = panel(picture, series, samples, seconds, top);
        top += PANEL_HEIGHT;
    }
    let minutes = |share: f64| format!("{:.1} min", seconds * share / 60.0);
    for (share, anchor) in [(0.0, "start"), (0.5, "middle"), (1.0, "end")] {
        picture = picture.add(text(x(share), top + 10.0, anchor, &minutes(share)));
    }
    picture.to_string()
}

fn panel(picture: Document, series: &Series, samples: &[Sample], seconds: f64, top: f64) -> Document {
    let most = samples.iter().map(series.of).max().unwrap_or_default().max(1);
    #[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "a picture")]
    let share = |value: u64| value as f64 / most as f64;
    let (bottom, height) = (top + PANEL_HEIGHT - GAP / 4.0, PANEL_HEIGHT - GAP * 1.25);
    let points: Vec<String> = samples
        .iter()
        .map(|sample| {
            let y = bottom - height * share((series.of)(sample));
            format!("{:.1},{y:.1}", x(sample.at.as_secs_f64() / seconds))
        })
        .collect();
    let shown = if series.unit == "KiB" { format!("{} MiB", most.div_ceil(1024)) } else { most.to_string() };
    picture
        .add(Line::new().set("x1", LEFT).set("x2", WIDTH - 10.0).set("y1", bottom).set("y2", bottom).set("stroke", INK))
        .add(text(LEFT, top + GAP / 2.0, "start", series.name))
        .add(text(LEFT - 6.0, bottom - height + 4.0, "end", &shown))
        .add(text(LEFT - 6.0, bottom, "end", "0"))
        .add(
            Polyline::new()
                .set("points", points.join(" "))
                .set("fill", "none")
                .set("stroke", CURVE)
                .set("stroke-width", 1.5),
        )
}

fn x(share: f64) -> f64 {
    LEFT + (WIDTH - 10.0 - LEFT) * share
}

fn text(x: f64, y: f64, anchor: &str, words: &str) -> Text {
    Text::new(words).set("x", x).set("y", y).set("text-anchor", anchor).set("fill", INK)
}
