use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::imageops::FilterType;
use image::{DynamicImage, ExtendedColorType, ImageEncoder, Rgb, RgbImage};
use proptest::prelude::*;

use super::*;

/// Draws a scene that only its seed knows: a sky, a ground and a dozen soft blobs.
fn scene(seed: u64, width: u32, height: u32) -> DynamicImage {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut chance = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / f64::from(1 << 24)
    };
    let (sky, ground, horizon) = (chance() * 255.0, chance() * 255.0, 0.2 + chance() * 0.6);
    let blobs: Vec<[f64; 5]> = (0..14)
        .map(|_| [chance(), chance(), 0.03 + chance() * 0.2, 0.03 + chance() * 0.2, chance() * 255.0])
        .collect();
    DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |column, row| {
        let (x, y) = (f64::from(column) / f64::from(width), f64::from(row) / f64::from(height));
        let mut level = if y < horizon { sky } else { ground } + 20.0 * (x - y);
        for [center_x, center_y, radius_x, radius_y, shade] in &blobs {
            let far = ((x - center_x) / radius_x).powi(2) + ((y - center_y) / radius_y).powi(2);
            if far < 1.0 {
                level = level * far + shade * (1.0 - far);
            }
        }
        let level = level.clamp(0.0, 255.0) as u8;
        Rgb([level, level / 2 + 40, 255 - level / 3])
    }))
}

fn jpeg(picture: &DynamicImage, quality: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, quality).encode_image(picture).unwrap();
    bytes
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pixels = vec![0u8; width as usize * height as usize];
    PngEncoder::new(Cursor::new(&mut bytes))
        .write_image(&pixels, width, height, ExtendedColorType::L8)
        .unwrap();
    bytes
}

fn cropped(picture: &DynamicImage, per_mille: [u32; 4]) -> DynamicImage {
    let (width, height) = (picture.width(), picture.height());
    let [left, right, top, bottom] = per_mille;
    let (x, y) = (width * left / 1000, height * top / 1000);
    picture.crop_imm(x, y, width - x - width * right / 1000, height - y - height * bottom / 1000)
}

#[test]
fn the_cost_of_a_picture_is_known_from_its_header() {
    // 233 KB that unfold into half a gigabyte: wide pixels of sixteen bits.
    let mut deep = Vec::new();
    let pixels = vec![0u8; 1_000 * 500 * 8];
    PngEncoder::new(Cursor::new(&mut deep))
        .write_image(&pixels, 1_000, 500, ExtendedColorType::Rgba16)
        .unwrap();
    assert_eq!(picture_cost(&deep), Ok(1_000 * 500 * 10));
    assert_eq!(picture_cost(&deep[..100]), picture_cost(&deep), "the pixels are not looked at");
    assert_eq!(picture_cost(&jpeg(&scene(1, 64, 48), 80)), Ok(64 * 48 * 5));
    assert_eq!(
        picture_cost(&png(7_000, 7_000)),
        Err(PictureError::TooManyPixels { width: 7_000, height: 7_000 })
    );
    assert!(picture_cost("Пропал кот".as_bytes()).is_err());
}

const SEEDS: std::ops::Range<u64> = 1..21;

/// Checks that every scene stays within `limit` bits of itself after `change`.
fn check(limit: u32, change: impl Fn(&DynamicImage) -> DynamicImage) {
    for seed in SEEDS {
        let original = scene(seed, 240, 180);
        let distance = hash_picture(&original).distance(hash_picture(&change(&original)));
        assert!(distance <= limit, "seed {seed}: {distance} bits of at most {limit}");
    }
}

#[test]
fn a_picture_saved_again_is_the_same_picture() {
    check(PICTURE_SAME_DISTANCE, |picture| image::load_from_memory(&jpeg(picture, 35)).unwrap());
}

#[test]
fn a_picture_scaled_down_and_saved_again_is_the_same_picture() {
    check(PICTURE_SAME_DISTANCE, |picture| {
        let small = picture.resize_exact(160, 120, FilterType::Triangle);
        image::load_from_memory(&jpeg(&small, 60)).unwrap()
    });
}

#[test]
fn a_picture_made_brighter_is_the_same_picture() {
    check(PICTURE_SAME_DISTANCE, |picture| picture.brighten(12));
}

#[test]
fn a_picture_cropped_a_little_is_near() {
    check(PICTURE_NEAR_DISTANCE, |picture| cropped(picture, [20, 20, 20, 20]));
    check(PICTURE_NEAR_DISTANCE, |picture| cropped(picture, [0, 40, 0, 0]));
    check(PICTURE_NEAR_DISTANCE, |picture| cropped(picture, [0, 0, 40, 0]));
}

#[test]
fn copies_of_a_picture_share_a_band() {
    for seed in SEEDS {
        let original = scene(seed, 240, 180);
        let copy = image::load_from_memory(&jpeg(&original, 50)).unwrap();
        let (one, other) = (hash_picture(&original).bands(), hash_picture(&copy).bands());
        assert!(one.iter().zip(&other).any(|(left, right)| left == right), "seed {seed}");
    }
}

#[test]
fn different_pictures_are_far_apart() {
    let hashes: Vec<_> = SEEDS.map(|seed| hash_picture(&scene(seed, 320, 240))).collect();
    for (index, one) in hashes.iter().enumerate() {
        for other in &hashes[index + 1..] {
            assert!(one.distance(*other) > PICTURE_NEAR_DISTANCE + 8, "{one} {other}");
        }
    }
}

#[test]
fn a_plain_surface_tells_nothing() {
    let plain = DynamicImage::ImageRgb8(RgbImage::from_pixel(100, 100, Rgb([200, 180, 30])));
    assert!(!hash_picture(&plain).is_telling());
    assert!(hash_picture(&scene(3, 100, 100)).is_telling());
}

#[test]
fn transparent_pixels_count_as_white() {
    let clear = DynamicImage::ImageRgba8(image::RgbaImage::from_pixel(64, 64, image::Rgba([0, 0, 0, 0])));
    let white = DynamicImage::ImageRgb8(RgbImage::from_pixel(64, 64, Rgb([255, 255, 255])));
    assert_eq!(hash_picture(&clear), hash_picture(&white));
}

#[test]
fn tiny_pictures_have_a_hash_too() {
    for (width, height) in [(1, 1), (1, 9), (9, 1), (3, 5), (8, 8)] {
        hash_picture(&scene(5, width, height));
    }
}

#[test]
fn a_pixel_flood_is_refused_by_its_header() {
    // Some hundred kilobytes unfold to 49 megapixels.
    let flood = png(7_000, 7_000);
    assert!(flood.len() < 1_000_000);
    assert_eq!(picture_hash(&flood), Err(PictureError::TooManyPixels { width: 7_000, height: 7_000 }));
    assert_eq!(picture_hash(&png(10_001, 1)), Err(PictureError::TooManyPixels { width: 10_001, height: 1 }));
}

#[test]
fn a_header_that_lies_about_its_size_is_refused() {
    let mut liar = png(16, 16);
    // Width and height of the IHDR chunk; its checksum is then wrong as well.
    liar[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
    assert!(picture_hash(&liar).is_err());
}

#[test]
fn too_many_bytes_are_refused_unread() {
    let bytes = vec![0u8; PICTURE_BYTES_MAX + 1];
    assert_eq!(picture_hash(&bytes), Err(PictureError::TooManyBytes { bytes: bytes.len() }));
}

#[test]
fn what_is_no_picture_is_refused() {
    assert_eq!(picture_hash(b""), Err(PictureError::UnknownFormat));
    assert_eq!(picture_hash("Пропал кот".as_bytes()), Err(PictureError::UnknownFormat));
    assert!(matches!(picture_hash(&jpeg(&scene(1, 64, 64), 80)[..40]), Err(PictureError::Unreadable(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_give_a_hash_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400), head in 0usize..4) {
        let head: &[u8] = [&b""[..], &b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &b"\xff\xd8\xff\xe0"[..], &b"RIFF\x40\0\0\0WEBPVP8 "[..]][head];
        let _ = picture_hash(&[head, &bytes].concat());
    }

    #[test]
    fn distance_is_symmetric_and_zero_only_for_equals(a: u64, b: u64, c: u64, d: u64) {
        let (one, other) = (PictureHash { across: a, down: b }, PictureHash { across: c, down: d });
        prop_assert_eq!(one.distance(other), other.distance(one));
        prop_assert_eq!(one.distance(other) == 0, one == other);
    }
}
