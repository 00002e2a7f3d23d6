//! What a picture looks like, in 128 bits: the same photo saved again, scaled or cropped a little gives nearly
//! the same bits, another photo does not.
//!
//! The bytes come from strangers, so everything is bounded before it is decoded: the header is read first and a
//! picture that would unfold into too much is refused with a typed error.
//! This module must not know where pictures come from or what they are attached to.

use std::fmt;
use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};
use serde::{Deserialize, Serialize};

/// Compressed bytes; the largest photo any of the platforms hands out is 20 MB.
pub const PICTURE_BYTES_MAX: usize = 32 << 20;
/// Pixels after decoding: 40 megapixels, more than a phone camera makes and 160 MB at four bytes each.
pub const PICTURE_PIXELS_MAX: u64 = 40_000_000;
/// Pixels of one side.
pub const PICTURE_SIDE_MAX: u32 = 10_000;
/// What the decoder may allocate, its output included.
pub const PICTURE_ALLOCATION_MAX: u64 = 256 << 20;

/// Up to here two hashes are the same picture saved again or scaled.
pub const PICTURE_SAME_DISTANCE: u32 = 10;
/// Up to here they are the same picture cropped or retouched; unrelated photos lie near 64.
pub const PICTURE_NEAR_DISTANCE: u32 = 22;
/// Neighbouring cells must differ by this many levels of 255 to count, so that flat areas do not flicker.
const LEVEL_STEP: i32 = 3;
/// Fewer set bits than this, and the picture is a plain surface that would match every other plain surface.
pub const PICTURE_BITS_MIN: u32 = 12;

/// Cells of the grid, one way; the other way has one more.
const GRID: usize = 8;
/// Lookup keys of one picture.
pub const PICTURE_BANDS: usize = 8;
const BAND_BITS: usize = 128 / PICTURE_BANDS;

/// The look of a picture: which of two neighbouring cells is brighter, across and down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PictureHash {
    pub across: u64,
    pub down: u64,
}

impl PictureHash {
    /// How many of the 128 bits differ.
    pub fn distance(self, other: PictureHash) -> u32 {
        (self.across ^ other.across).count_ones() + (self.down ^ other.down).count_ones()
    }

    pub fn is_near(self, other: PictureHash) -> bool {
        self.distance(other) <= PICTURE_NEAR_DISTANCE
    }

    /// False for plain surfaces, whose hash means nothing.
    pub fn is_telling(self) -> bool {
        let ones = self.across.count_ones() + self.down.count_ones();
        (PICTURE_BITS_MIN..=128 - PICTURE_BITS_MIN).contains(&ones)
    }

    /// Pieces of the hash, of which near pictures share at least one with high probability.
    ///
    /// Eight pieces of 16 bits: all copies within 7 bits share one for certain, within 16 bits in two cases of three.
    pub fn bands(self) -> [u16; PICTURE_BANDS] {
        let bits = (u128::from(self.across) << 64) | u128::from(self.down);
        std::array::from_fn(|band| (bits >> (band * BAND_BITS)) as u16)
    }
}

impl fmt::Display for PictureHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}{:016x}", self.across, self.down)
    }
}

/// Why a picture has no hash.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    #[error("picture of {bytes} bytes: at most {PICTURE_BYTES_MAX} are read; send a smaller file")]
    TooManyBytes { bytes: usize },
    #[error(
        "picture of {width}×{height}: at most {PICTURE_SIDE_MAX} a side and {PICTURE_PIXELS_MAX} pixels are decoded; scale it down"
    )]
    TooManyPixels { width: u32, height: u32 },
    #[error("picture would unfold into more than {PICTURE_ALLOCATION_MAX} bytes; scale it down")]
    TooMuchMemory,
    #[error("picture format is not known: JPEG, PNG and WebP are")]
    UnknownFormat,
    #[error("picture cannot be read: {0}")]
    Unreadable(String),
}

/// Bytes of memory that hashing this file will need, from its header alone: the decoded picture, its brightness, and
/// what the decoder keeps beside them. Nothing is decoded.
pub fn picture_cost(bytes: &[u8]) -> Result<u64, PictureError> {
    if bytes.len() > PICTURE_BYTES_MAX {
        return Err(PictureError::TooManyBytes { bytes: bytes.len() });
    }
    catch_unwind(AssertUnwindSafe(|| cost(bytes)))
        .unwrap_or_else(|_| Err(PictureError::Unreadable("the decoder gave up".to_owned())))
}

fn cost(bytes: &[u8]) -> Result<u64, PictureError> {
    let reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| PictureError::Unreadable(error.to_string()))?;
    let format = reader.format().ok_or(PictureError::UnknownFormat)?;
    let mut decoder = reader.into_decoder().map_err(refusal)?;
    let (width, height) = decoder.dimensions();
    check_size((width, height))?;
    let pixels = u64::from(width) * u64::from(height);
    let decoded = decoder.total_bytes();
    // Turning makes a second copy.
    let turned = match decoder.orientation().map_err(refusal)? {
        Orientation::NoTransforms => 0,
        _ => decoded,
    };
    // A progressive JPEG keeps every coefficient until its last scan; WebP decodes into planes first.
    let beside = match format {
        ImageFormat::Jpeg if bytes.windows(2).any(|marker| marker == [0xff, 0xc2]) => 6 * pixels,
        ImageFormat::WebP => 4 * pixels,
        _ => 0,
    };
    Ok(decoded.saturating_add(turned).saturating_add(beside).saturating_add(2 * pixels))
}

/// Hashes the bytes of a JPEG, PNG or WebP file.
pub fn picture_hash(bytes: &[u8]) -> Result<PictureHash, PictureError> {
    if bytes.len() > PICTURE_BYTES_MAX {
        return Err(PictureError::TooManyBytes { bytes: bytes.len() });
    }
    // A decoder that panics on hostile bytes has told us only that they are not a picture.
    catch_unwind(AssertUnwindSafe(|| decode(bytes)))
        .unwrap_or_else(|_| Err(PictureError::Unreadable("the decoder gave up".to_owned())))
        .map(|picture| hash_picture(&picture))
}

/// Hashes a decoded picture.
pub fn hash_picture(picture: &DynamicImage) -> PictureHash {
    let light = Light::of(picture);
    let wide = light.grid(GRID + 1, GRID);
    let tall = light.grid(GRID, GRID + 1);
    let mut hash = PictureHash { across: 0, down: 0 };
    for row in 0..GRID {
        for column in 0..GRID {
            let bit = row * GRID + column;
            let across = wide[row * (GRID + 1) + column + 1] - wide[row * (GRID + 1) + column];
            let down = tall[(row + 1) * GRID + column] - tall[row * GRID + column];
            hash.across |= u64::from(across > LEVEL_STEP) << bit;
            hash.down |= u64::from(down > LEVEL_STEP) << bit;
        }
    }
    hash
}

/// Reads the header, refuses what is too large, and only then decodes, turned as the camera meant it.
fn decode(bytes: &[u8]) -> Result<DynamicImage, PictureError> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| PictureError::Unreadable(error.to_string()))?;
    if reader.format().is_none() {
        return Err(PictureError::UnknownFormat);
    }
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(PICTURE_SIDE_MAX);
    limits.max_image_height = Some(PICTURE_SIDE_MAX);
    limits.max_alloc = Some(PICTURE_ALLOCATION_MAX);
    reader.limits(limits);
    let dimensions = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .map_err(|error| PictureError::Unreadable(error.to_string()))?
        .into_dimensions()
        .map_err(refusal)?;
    check_size(dimensions)?;
    let mut decoder = reader.into_decoder().map_err(refusal)?;
    if decoder.total_bytes() > PICTURE_ALLOCATION_MAX {
        return Err(PictureError::TooMuchMemory);
    }
    let orientation = decoder.orientation().map_err(refusal)?;
    let mut picture = DynamicImage::from_decoder(decoder).map_err(refusal)?;
    picture.apply_orientation(orientation);
    Ok(picture)
}

fn check_size((width, height): (u32, u32)) -> Result<(), PictureError> {
    let too_long = width > PICTURE_SIDE_MAX || height > PICTURE_SIDE_MAX;
    if too_long || u64::from(width) * u64::from(height) > PICTURE_PIXELS_MAX {
        return Err(PictureError::TooManyPixels { width, height });
    }
    Ok(())
}

fn refusal(error: ImageError) -> PictureError {
    match error {
        ImageError::Limits(_) => PictureError::TooMuchMemory,
        ImageError::Unsupported(_) => PictureError::UnknownFormat,
        other => PictureError::Unreadable(other.to_string()),
    }
}

/// Brightness of every pixel, transparent ones on white, as sums from the corner so that any cell is four reads.
struct Light {
    width: usize,
    height: usize,
    sums: Vec<u64>,
}

/// Larger pictures are thinned to about this many columns and rows first: the cells are far coarser anyway.
const LIGHT_SIDE_MAX: usize = 512;

impl Light {
    fn of(picture: &DynamicImage) -> Light {
        let (full_width, full_height) = (picture.width() as usize, picture.height() as usize);
        let (across, down) =
            (full_width.div_ceil(LIGHT_SIDE_MAX).max(1), full_height.div_ceil(LIGHT_SIDE_MAX).max(1));
        let (width, height) = (full_width.div_ceil(across).max(1), full_height.div_ceil(down).max(1));
        let mut sums = vec![0u64; (width + 1) * (height + 1)];
        for row in 0..height {
            let mut line = 0u64;
            // A band at a time: one of a large picture fits into the caches, a copy of all of it would sweep them for everybody.
            let (top, bottom) = (row * down, ((row + 1) * down).min(full_height));
            let band =
                picture.crop_imm(0, top as u32, picture.width(), (bottom - top) as u32).to_luma_alpha8();
            for column in 0..width {
                line += u64::from(block_level(&band, column * across, across));
                sums[(row + 1) * (width + 1) + column + 1] = sums[row * (width + 1) + column + 1] + line;
            }
        }
        Light { width, height, sums }
    }

    /// Mean level of every cell of a grid; cells may overlap by a pixel when the picture is tiny.
    fn grid(&self, columns: usize, rows: usize) -> Vec<i32> {
        let mut levels = Vec::with_capacity(columns * rows);
        for row in 0..rows {
            let (top, bottom) = cell(row, rows, self.height);
            for column in 0..columns {
                let (left, right) = cell(column, columns, self.width);
                levels.push(self.mean(left, right, top, bottom));
            }
        }
        levels
    }

    fn mean(&self, left: usize, right: usize, top: usize, bottom: usize) -> i32 {
        let at = |row: usize, column: usize| self.sums[row * (self.width + 1) + column];
        let sum = at(bottom, right) + at(top, left) - at(top, right) - at(bottom, left);
        let count = ((right - left) * (bottom - top)) as u64;
        i32::try_from(sum / count.max(1)).unwrap_or(0)
    }
}

/// Where cell `index` of `count` begins and ends on a side of `length`; never empty.
fn cell(index: usize, count: usize, length: usize) -> (usize, usize) {
    let start = (index * length / count).min(length - 1);
    let end = ((index + 1) * length / count).clamp(start + 1, length);
    (start, end)
}

/// Mean level of a block of a band.
fn block_level(band: &image::GrayAlphaImage, left: usize, across: usize) -> u8 {
    let (mut sum, mut count) = (0u32, 0u32);
    for row in 0..band.height() {
        for column in left..(left + across).min(band.width() as usize) {
            let [level, alpha] = band.get_pixel(column as u32, row).0;
            sum += (u32::from(level) * u32::from(alpha) + 255 * (255 - u32::from(alpha))) / 255;
            count += 1;
        }
    }
    (sum / count.max(1)) as u8
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
