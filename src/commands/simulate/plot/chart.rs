//! The picture itself: three panels over one axis of time.
//!
//! Colours are of Okabe and Ito's palette, which people who do not see red and green apart can tell from each other; every
//! curve is named where it runs.

use std::fmt::Write as _;
use std::time::Duration;

use portcullis::simulation::{Curve, SpanKind};
use svg::Document;
use svg::node::element::{Circle, Description, Group, Line, Path, Rectangle, Text, Title};

use super::scale::{Scale, count_marks, time_marks};
use super::{Gate, Picture, Run};

pub(super) const WIDTH: u32 = 1200;
pub(super) const HEIGHT: u32 = 800;

const LEFT: f64 = 84.0;
const RIGHT: f64 = 1170.0;
const FONTS: &str = "Roboto, 'Helvetica Neue', Arial, sans-serif";

const INK: &str = "#1a1a1a";
const FAINT_INK: &str = "#595959";
const GRID: &str = "#e3e3e3";
const WITHOUT: &str = "#d55e00";
const WITH: &str = "#0072b2";
const HELD: &str = "#e69f00";
const LIMIT: &str = "#007a5a";
const OPEN: &str = "#8c8c8c";
const CLOSED: &str = "#dceefb";

/// Columns of the upper panel.
const COLUMNS: u32 = 1086;
/// The size of a dot, from its middle.
const DOT: f64 = 4.5;

/// Where each panel begins and ends, from the top.
const AT_WORK: (f64, f64) = (132.0, 452.0);
const SLOTS: (f64, f64) = (532.0, 632.0);
const BREAKER: (f64, f64) = (694.0, 720.0);

pub(super) fn draw(picture: &Picture) -> Document {
    let time = Scale { low: LEFT, high: RIGHT, most: picture.length.as_secs_f64() };
    let mut drawing = Group::new().set("font-family", FONTS).set("font-size", 15).set("fill", INK);
    drawing =
        drawing.add(label(LEFT - 60.0, 40.0, &picture.title, "start").set("font-size", 25).set("font-weight", 700));
    drawing = drawing.add(label(LEFT - 60.0, 68.0, &picture.subtitle, "start").set("fill", FAINT_INK));
    drawing = drawing.add(at_work(picture, time)).add(slots(&picture.gate, time)).add(breaker(&picture.gate, time));
    drawing = drawing.add(time_axis(picture.length, time));
    if let Some((at, what)) = &picture.mark {
        drawing = drawing.add(mark(time.time(*at), what));
    }
    Document::new()
        .set("viewBox", (0, 0, WIDTH, HEIGHT))
        .set("width", WIDTH)
        .set("height", HEIGHT)
        .set("role", "img")
        .add(Title::new(picture.title.clone()))
        .add(Description::new().add(svg::node::Text::new(spoken(picture))))
        .add(Rectangle::new().set("width", WIDTH).set("height", HEIGHT).set("fill", "#ffffff"))
        .add(drawing)
}

/// The picture in words, for who cannot see it.
fn spoken(picture: &Picture) -> String {
    let Picture { subtitle, without, with, .. } = picture;
    format!("{subtitle} {}: {}. {}: {}.", without.label, without.detail, with.label, with.detail)
}

fn at_work(picture: &Picture, time: Scale) -> Group {
    let (top, bottom) = AT_WORK;
    let most = picture.without.at_work.peak(Duration::ZERO, picture.length).0;
    let marks = count_marks(most.saturating_mul(picture.headroom_percent).div_ceil(100));
    let count = counts(top, bottom, &marks);
    let mut panel =
        heading(top, "Pages the homeserver is working on at once, abandoned ones included").add(grid(&marks, count));
    let shape = |run: &Run| steps(&by_column(&run.at_work, picture.length), picture.length, time, count);
    let closed = |run: &Run| format!("{} V {} H {} Z", shape(run), rounded(bottom), rounded(LEFT));
    for (run, colour, opacity) in [(&picture.without, WITHOUT, 0.14), (&picture.with, WITH, 0.30)] {
        panel = panel
            .add(Path::new().set("d", closed(run)).set("fill", colour).set("fill-opacity", opacity))
            .add(line(&shape(run), colour, 2.0));
    }
    let left = time.time(picture.length.mul_f64(0.03));
    let with_at = match picture.mark {
        None => (time.time(picture.length.mul_f64(0.62)), bottom - 52.0),
        // A line from top to bottom may stand anywhere: both names go where there is none.
        Some(_) => (left, top + 82.0),
    };
    panel.add(named((left, top + 34.0), &picture.without, WITHOUT)).add(named(with_at, &picture.with, WITH))
}

/// The most that a curve is in each column of the picture: what lies closer together nobody sees.
fn by_column(curve: &Curve, length: Duration) -> Curve {
    let column = length / COLUMNS;
    Curve::of_steps((0..COLUMNS).map(|index| {
        let from = column * index;
        (from, curve.peak(from, from.saturating_add(column)).0)
    }))
}

/// The gate's limit and the slots that are held.
fn slots(gate: &Gate, time: Scale) -> Group {
    let (top, bottom) = SLOTS;
    let length = Duration::from_secs_f64(time.most);
    let most = gate.limit.peak(Duration::ZERO, length).0.max(gate.held.peak(Duration::ZERO, length).0);
    let marks: Vec<usize> = (0..=most.max(2)).collect();
    let count = counts(top, bottom, &marks);
    let held = format!("{} V {} H {} Z", steps(&gate.held, length, time, count), rounded(bottom), rounded(LEFT));
    heading(top, "One gate: its limit, and the slots that calls which timed out still hold")
        .add(key(RIGHT - 236.0, top - 17.0, HELD, 12.0, "slots held (15 min)"))
        .add(key(RIGHT - 60.0, top - 17.0, LIMIT, 3.0, "limit"))
        .add(grid(&marks, count))
        .add(Path::new().set("d", held).set("fill", HELD).set("fill-opacity", 0.75))
        .add(line(&steps(&gate.limit, length, time, count), LIMIT, 3.0))
}

fn breaker(gate: &Gate, time: Scale) -> Group {
    let (top, bottom) = BREAKER;
    let bar = |from: f64, to: f64, colour| {
        Rectangle::new()
            .set("x", rounded(from))
            .set("y", rounded(top))
            .set("width", rounded(to - from))
            .set("height", rounded(bottom - top))
            .set("fill", colour)
    };
    let let_through = format!("Its breaker, and the {} calls it let through", super::thousands(gate.admissions.len()));
    let mut panel = heading(top - 8.0, &let_through)
        .add(key(RIGHT - 446.0, top - 25.0, CLOSED, 12.0, "closed"))
        .add(key(RIGHT - 360.0, top - 25.0, OPEN, 12.0, "open: nothing goes out"))
        .add(key(RIGHT - 164.0, top - 25.0, WITH, 12.0, "probing"))
        .add(
            Circle::new()
                .set("cx", rounded(RIGHT - 54.0))
                .set("cy", rounded(top - 19.0))
                .set("r", DOT)
                .set("fill", WITH),
        )
        .add(label(RIGHT - 44.0, top - 14.0, "a call", "start").set("fill", FAINT_INK))
        .add(bar(LEFT, RIGHT, CLOSED));
    for span in &gate.breaker {
        let (from, to) = (time.time(span.from), time.time(span.to));
        panel = match span.kind {
            SpanKind::Open => panel.add(bar(from, to, OPEN)),
            SpanKind::Probing => panel.add(bar(from, (from + 1.0).max(to), WITH)),
        };
    }
    let middle = f64::midpoint(top, bottom);
    for (first, last) in dots(&gate.admissions, time) {
        // One call is a dot; where they are closer than dots, they are a bar with round ends.
        let dot = Rectangle::new()
            .set("x", rounded(first - DOT))
            .set("y", rounded(middle - DOT))
            .set("width", rounded(last - first + 2.0 * DOT))
            .set("height", rounded(2.0 * DOT))
            .set("rx", DOT);
        panel = panel.add(dot.set("fill", WITH).set("stroke", "#ffffff").set("stroke-width", 1.2));
    }
    panel
}

/// Calls that would be drawn over each other, as one from the first to the last of them.
fn dots(admissions: &[Duration], time: Scale) -> Vec<(f64, f64)> {
    let mut dots: Vec<(f64, f64)> = Vec::new();
    for at in admissions.iter().map(|at| time.time(*at)) {
        match dots.last_mut() {
            Some((_, last)) if at - *last < 2.0 * DOT => *last = at,
            _ => dots.push((at, at)),
        }
    }
    dots
}

fn time_axis(length: Duration, time: Scale) -> Group {
    let bottom = BREAKER.1;
    let mut axis = Group::new();
    for (at, text) in time_marks(length) {
        let at = time.time(at);
        for (from, to) in [(AT_WORK.1, AT_WORK.1 + 6.0), (SLOTS.1, SLOTS.1 + 6.0), (bottom, bottom + 6.0)] {
            axis = axis.add(straight((at, from), (at, to), FAINT_INK));
        }
        for below in [AT_WORK.1, bottom] {
            axis = axis.add(label(at, below + 22.0, &text, "middle").set("fill", FAINT_INK));
        }
    }
    axis.add(label(f64::midpoint(LEFT, RIGHT), bottom + 50.0, "time since the beginning (hours:minutes)", "middle"))
}

/// A line through the panels, and not through the legends between them.
fn mark(at: f64, what: &str) -> Group {
    let mut line = Group::new();
    for (top, bottom) in [AT_WORK, SLOTS, BREAKER] {
        line = line.add(straight((at, top), (at, bottom), INK).set("stroke-dasharray", "6 4"));
    }
    line.add(label(at + 8.0, AT_WORK.0 + 12.0, what, "start"))
}

fn counts(top: f64, bottom: f64, marks: &[usize]) -> Scale {
    let most = marks.last().copied().unwrap_or(1);
    Scale { low: bottom, high: top, most: f64::from(u32::try_from(most).unwrap_or(u32::MAX)) }
}

fn grid(marks: &[usize], count: Scale) -> Group {
    let mut lines = Group::new();
    for mark in marks {
        let height = count.count(*mark);
        let colour = if *mark == 0 { FAINT_INK } else { GRID };
        lines = lines
            .add(straight((LEFT, height), (RIGHT, height), colour))
            .add(label(LEFT - 10.0, height + 5.0, &super::thousands(*mark), "end").set("fill", FAINT_INK));
    }
    lines
}

/// The outline of a curve: along, then up or down.
fn steps(curve: &Curve, length: Duration, time: Scale, count: Scale) -> String {
    let mut outline = format!("M {} {}", rounded(LEFT), rounded(count.count(curve.at(Duration::ZERO))));
    for (at, value) in curve.steps().iter().filter(|(at, _)| *at > Duration::ZERO && *at < length) {
        let _ = write!(outline, " H {} V {}", rounded(time.time(*at)), rounded(count.count(*value)));
    }
    let _ = write!(outline, " H {}", rounded(RIGHT));
    outline
}

fn heading(panel_top: f64, text: &str) -> Group {
    Group::new().add(label(LEFT - 60.0, panel_top - 14.0, text, "start").set("font-weight", 700))
}

/// A curve's name and figures, beside it, with a little white around them where they cross a line.
fn named((x, y): (f64, f64), run: &Run, colour: &str) -> Group {
    let halo = Group::new().set("stroke", "#ffffff").set("stroke-width", 4).set("stroke-opacity", 0.7);
    halo.set("paint-order", "stroke")
        .set("stroke-linejoin", "round")
        .add(label(x, y, &run.label, "start").set("font-weight", 700).set("fill", colour).set("font-size", 17))
        .add(label(x, y + 20.0, &run.detail, "start"))
}

/// An entry of a legend: a patch of colour and what it stands for.
fn key(x: f64, y: f64, colour: &str, thickness: f64, text: &str) -> Group {
    let patch = Rectangle::new()
        .set("x", rounded(x))
        .set("y", rounded(y + 6.0 - thickness / 2.0))
        .set("width", 20)
        .set("height", rounded(thickness))
        .set("fill", colour);
    Group::new().add(patch).add(label(x + 27.0, y + 11.0, text, "start").set("fill", FAINT_INK))
}

fn label(x: f64, y: f64, text: &str, anchor: &str) -> Text {
    Text::new(text).set("x", rounded(x)).set("y", rounded(y)).set("text-anchor", anchor)
}

fn line(outline: &str, colour: &str, width: f64) -> Path {
    Path::new().set("d", outline).set("fill", "none").set("stroke", colour).set("stroke-width", width)
}

fn straight((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) -> Line {
    Line::new()
        .set("x1", rounded(x1))
        .set("y1", rounded(y1))
        .set("x2", rounded(x2))
        .set("y2", rounded(y2))
        .set("stroke", colour)
}

/// To a tenth: finer than anybody sees, and the same on every machine.
fn rounded(place: f64) -> String {
    let text = format!("{place:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}
