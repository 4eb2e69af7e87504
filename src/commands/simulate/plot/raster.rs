//! A picture in pixels, with a font of its own.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

use super::chart::{HEIGHT, WIDTH};

/// Pixels for each unit of the picture, so that it stays sharp where it is enlarged.
const PIXELS: u32 = 2;

const FONTS: [&[u8]; 2] = [include_bytes!("roboto/Roboto-Regular.ttf"), include_bytes!("roboto/Roboto-Bold.ttf")];

pub(super) fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    for font in FONTS {
        options.fontdb_mut().load_font_data(font.to_vec());
    }
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let mut pixels = Pixmap::new(WIDTH * PIXELS, HEIGHT * PIXELS).ok_or("a picture of no size")?;
    let [across, down] = [WIDTH, HEIGHT].map(|units| units * PIXELS);
    let scale = Transform::from_scale(2.0, 2.0);
    debug_assert_eq!((pixels.width(), pixels.height()), (across, down));
    resvg::render(&tree, scale, &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}
