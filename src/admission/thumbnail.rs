//! [`Thumbnail`]: the few sizes a picture is asked for in, however many a stranger can think of.

use crate::limits::{THUMBNAIL_CROPS, THUMBNAIL_SCALES};

/// How a thumbnail fits its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThumbnailMethod {
    /// Cut to the size.
    Crop,
    /// Made smaller until it fits.
    Scale,
}

/// A size, and how a picture fits it. Thumbnails are fetched and kept in six of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThumbnailSize {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// How it fits.
    pub method: ThumbnailMethod,
}

/// A thumbnail, of a size that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thumbnail {
    size: ThumbnailSize,
    animated: bool,
}

impl ThumbnailSize {
    const LARGEST: Self = {
        let [.., (width, height)] = THUMBNAIL_SCALES;
        Self { width, height, method: ThumbnailMethod::Scale }
    };

    /// The six, smallest first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let of = |method| move |(width, height)| Self { width, height, method };
        let crops = THUMBNAIL_CROPS.into_iter().map(of(ThumbnailMethod::Crop));
        crops.chain(THUMBNAIL_SCALES.into_iter().map(of(ThumbnailMethod::Scale)))
    }
}

impl Thumbnail {
    /// The smallest of the six that is no smaller than asked, one of the asked method before others; the largest if none is.
    ///
    /// ```
    /// use portcullis::media::{Thumbnail, ThumbnailMethod, ThumbnailSize};
    ///
    /// let asked = ThumbnailSize { width: 64, height: 64, method: ThumbnailMethod::Crop };
    /// let thumbnail = Thumbnail::no_smaller_than(asked, false);
    /// assert_eq!((thumbnail.size().width, thumbnail.size().height), (96, 96));
    /// ```
    #[must_use]
    pub fn no_smaller_than(asked: ThumbnailSize, animated: bool) -> Self {
        let large_enough = |size: &ThumbnailSize| size.width >= asked.width && size.height >= asked.height;
        let of_method = ThumbnailSize::all().filter(|size| size.method == asked.method).find(large_enough);
        let size = of_method.or_else(|| ThumbnailSize::all().find(large_enough)).unwrap_or(ThumbnailSize::LARGEST);
        Self { size, animated }
    }

    /// Its size.
    #[must_use]
    pub fn size(self) -> ThumbnailSize {
        self.size
    }

    /// Whether it may move.
    #[must_use]
    pub fn animated(self) -> bool {
        self.animated
    }
}

impl ThumbnailMethod {
    /// The word of the `method` parameter.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crop => "crop",
            Self::Scale => "scale",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_size_is_the_smallest_that_will_do() {
        use ThumbnailMethod::{Crop, Scale};
        for (width, height, method, expected) in [
            (0, 0, Scale, (320, 240, Scale)),
            (32, 32, Crop, (32, 32, Crop)),
            (33, 1, Crop, (96, 96, Crop)),
            (97, 97, Crop, (320, 240, Scale)),
            (32, 32, Scale, (320, 240, Scale)),
            (320, 240, Scale, (320, 240, Scale)),
            (320, 241, Scale, (640, 480, Scale)),
            (800, 600, Crop, (800, 600, Scale)),
            (801, 1, Scale, (1600, 1200, Scale)),
            (u32::MAX, u32::MAX, Crop, (1600, 1200, Scale)),
        ] {
            let size = Thumbnail::no_smaller_than(ThumbnailSize { width, height, method }, false).size();
            assert_eq!((size.width, size.height, size.method), expected, "{width}x{height}");
        }
    }

    #[test]
    fn nobody_can_ask_for_more_than_six_sizes() {
        let asked = (0..2000).flat_map(|side| [(side, side), (side, 1), (1, side)]);
        let sizes: HashSet<_> = asked
            .flat_map(|(width, height)| {
                [ThumbnailMethod::Crop, ThumbnailMethod::Scale]
                    .map(|method| Thumbnail::no_smaller_than(ThumbnailSize { width, height, method }, false).size())
            })
            .collect();
        assert_eq!(sizes.len(), 6);
    }
}
