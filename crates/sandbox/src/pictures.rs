//! Sample photographs, drawn from nothing but their name and the seed.
//! The same name is always the same picture; a name that ends in `~` is that picture changed a little
//! (cropped, scaled, dimmed and compressed harder), as it comes back from a repost.
//! Two names differ in everything an image comparison looks at: sky, ground, animal, place of things.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{DynamicImage, Rgb, RgbImage};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sha2::{Digest, Sha256};

const WIDTH: u32 = 800;
const HEIGHT: u32 = 600;
/// Drawn pictures kept for the next request.
const CACHED_MAX: usize = 128;
/// Longest name that is drawn.
pub const NAME_BYTES_MAX: usize = 200;

/// Draws pictures and remembers the latest.
#[derive(Debug)]
pub struct Pictures {
    seed: u64,
    drawn: Mutex<HashMap<String, Bytes>>,
}

impl Pictures {
    pub fn new(seed: u64) -> Pictures {
        Pictures { seed, drawn: Mutex::default() }
    }

    /// The picture `name` as JPEG; `name~` is its altered copy.
    pub fn jpeg(&self, name: &str) -> Bytes {
        if let Some(bytes) = self.drawn.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return bytes.clone();
        }
        let bytes = match name.strip_suffix('~') {
            None => encoded(&drawn(self.seed, name), 88),
            Some(original) => encoded(&altered(&drawn(self.seed, original)), 62),
        };
        let mut kept = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= CACHED_MAX {
            kept.clear();
        }
        kept.insert(name.to_owned(), bytes.clone());
        bytes
    }
}

fn encoded(picture: &RgbImage, quality: u8) -> Bytes {
    let mut out = Cursor::new(Vec::new());
    // Encoding into memory fails only for sizes beyond what JPEG can hold.
    drop(JpegEncoder::new_with_quality(&mut out, quality).encode_image(picture));
    out.into_inner().into()
}

/// Loses 3 % at the edges, a fifth of the size and a little light.
fn altered(picture: &RgbImage) -> RgbImage {
    let (dx, dy) = (WIDTH * 3 / 200, HEIGHT * 3 / 200);
    let cropped = imageops::crop_imm(picture, dx, dy, WIDTH - 2 * dx, HEIGHT - 2 * dy).to_image();
    let scaled = imageops::resize(&cropped, WIDTH * 4 / 5, HEIGHT * 4 / 5, FilterType::Triangle);
    DynamicImage::ImageRgb8(scaled).brighten(-8).into_rgb8()
}

fn drawn(seed: u64, name: &str) -> RgbImage {
    let digest = Sha256::digest(name.as_bytes());
    let mut key = [0u8; 32];
    key.copy_from_slice(&digest);
    for (byte, salt) in key.iter_mut().zip(seed.to_le_bytes()) {
        *byte ^= salt;
    }
    let mut chance = StdRng::from_seed(key);
    let mut picture = background(&mut chance);
    for _ in 0..chance.random_range(3..7) {
        thing(&mut picture, &mut chance);
    }
    animal(&mut picture, &mut chance);
    grain(&mut picture, &mut chance);
    picture
}

type Colour = [f32; 3];

const SKIES: &[Colour] = &[
    [120.0, 175.0, 230.0],
    [190.0, 205.0, 215.0],
    [238.0, 190.0, 150.0],
    [96.0, 118.0, 150.0],
    [205.0, 225.0, 240.0],
];
const GROUNDS: &[Colour] = &[
    [110.0, 150.0, 80.0],
    [150.0, 125.0, 90.0],
    [232.0, 236.0, 240.0],
    [120.0, 120.0, 122.0],
    [190.0, 160.0, 100.0],
    [70.0, 100.0, 60.0],
];
const THINGS: &[Colour] = &[
    [170.0, 90.0, 70.0],
    [90.0, 130.0, 70.0],
    [200.0, 190.0, 170.0],
    [90.0, 100.0, 115.0],
    [60.0, 90.0, 140.0],
    [140.0, 110.0, 80.0],
];
const FURS: &[Colour] = &[
    [205.0, 125.0, 60.0],
    [60.0, 52.0, 48.0],
    [235.0, 228.0, 215.0],
    [125.0, 118.0, 112.0],
    [150.0, 105.0, 70.0],
    [222.0, 185.0, 135.0],
];

/// One of the palette, a little changed.
fn colour(chance: &mut StdRng, palette: &[Colour]) -> Colour {
    let base = palette[chance.random_range(0..palette.len())];
    base.map(|channel| channel + chance.random_range(-22.0..22.0f32))
}

fn mixed(a: Colour, b: Colour, share: f32) -> Colour {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * share)
}

fn pixel(tone: Colour) -> Rgb<u8> {
    Rgb(tone.map(|channel| channel.clamp(0.0, 255.0) as u8))
}

/// Sky above a tilted horizon, ground with stripes below.
fn background(chance: &mut StdRng) -> RgbImage {
    let sky = colour(chance, SKIES);
    let haze = mixed(sky, [250.0, 246.0, 238.0], 0.6);
    let far = colour(chance, GROUNDS);
    let near = mixed(far, [30.0, 26.0, 22.0], chance.random_range(0.1..0.5f32));
    let level = chance.random_range(0.25..0.65f32);
    let tilt = chance.random_range(-0.25..0.25f32);
    let stripes = chance.random_range(4.0..24.0f32);
    RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let (u, v) = (x as f32 / WIDTH as f32, y as f32 / HEIGHT as f32);
        let horizon = level + tilt * (u - 0.5);
        if v < horizon {
            return pixel(mixed(sky, haze, v / horizon));
        }
        let depth = (v - horizon) / (1.0 - horizon);
        let wave = ((depth * stripes).sin() * 0.5 + 0.5) * 0.25;
        pixel(mixed(far, near, (depth * 0.75 + wave).min(1.0)))
    })
}

fn round(u: f32, v: f32) -> f32 {
    u.hypot(v)
}

fn square(u: f32, v: f32) -> f32 {
    u.abs().max(v.abs())
}

/// A house, a bush or a stone: a box or an ellipse with its own shade.
fn thing(picture: &mut RgbImage, chance: &mut StdRng) {
    let tone = colour(chance, THINGS);
    let centre = (chance.random_range(0.0..1.0f32), chance.random_range(0.15..0.8f32));
    let radius = (chance.random_range(0.04..0.2f32), chance.random_range(0.05..0.22f32));
    let shape = if chance.random_bool(0.5) { square } else { round };
    paint(picture, centre, radius, tone, shape);
}

/// A cat with pointed ears or a dog with hanging ones, somewhere near the middle.
fn animal(picture: &mut RgbImage, chance: &mut StdRng) {
    let fur = colour(chance, FURS);
    let dark = fur.map(|channel| channel * 0.62);
    let light = mixed(fur, [255.0, 250.0, 240.0], 0.45);
    let (x, y) = (chance.random_range(0.32..0.68f32), chance.random_range(0.52..0.7f32));
    let size = chance.random_range(0.12..0.19f32);
    let facing = if chance.random_bool(0.5) { 1.0 } else { -1.0 };
    let is_dog = chance.random_bool(0.5);
    let at = |dx: f32, dy: f32| (x + facing * size * dx, y + size * dy);
    let by = |rx: f32, ry: f32| (size * rx, size * ry);
    paint(picture, at(-1.35, -0.45), by(0.5, 0.14), dark, round);
    for leg in [-0.75, -0.4, 0.35, 0.7] {
        paint(picture, at(leg, 0.85), by(0.14, 0.65), dark, square);
    }
    paint(picture, at(0.0, 0.0), by(1.15, 0.68), fur, round);
    let patch = chance.random_range(-0.5..0.4f32);
    paint(picture, at(patch, -0.1), by(0.38, 0.36), light, round);
    paint(picture, at(1.1, -0.85), by(0.55, 0.56), mixed(fur, light, 0.25), round);
    let (spread, lift, ear) =
        if is_dog { (0.52, -0.8, by(0.16, 0.45)) } else { (0.34, -1.4, by(0.17, 0.34)) };
    paint(picture, at(1.1 - spread, lift), ear, dark, round);
    paint(picture, at(1.1 + spread, lift), ear, dark, round);
    paint(picture, at(1.18, -0.65), by(0.3, 0.24), light, round);
    for eye in [0.92, 1.3] {
        paint(picture, at(eye, -0.98), by(0.07, 0.09), [18.0, 16.0, 14.0], round);
    }
    paint(picture, at(1.18, -0.74), by(0.1, 0.08), [36.0, 24.0, 24.0], round);
}

/// Paints where `distance` of the scaled offset from the centre is below one, lighter towards the top.
fn paint(
    picture: &mut RgbImage,
    centre: (f32, f32),
    radius: (f32, f32),
    tone: Colour,
    distance: impl Fn(f32, f32) -> f32,
) {
    let (w, h) = (WIDTH as f32, HEIGHT as f32);
    let from = |middle: f32, reach: f32, size: f32| ((middle - reach) * size).max(0.0) as u32;
    let (right, bottom) =
        (((centre.0 + radius.0) * w).min(w) as u32, ((centre.1 + radius.1) * h).min(h) as u32);
    for y in from(centre.1, radius.1, h)..bottom {
        for x in from(centre.0, radius.0, w)..right {
            let (u, v) = ((x as f32 / w - centre.0) / radius.0, (y as f32 / h - centre.1) / radius.1);
            if distance(u, v) < 1.0 {
                let lit = mixed(tone, [255.0; 3], (0.18 - v * 0.18).clamp(0.0, 0.36));
                picture.put_pixel(x, y, pixel(lit));
            }
        }
    }
}

/// A little noise, so that files are as large as photographs.
fn grain(picture: &mut RgbImage, chance: &mut StdRng) {
    for pixel in picture.pixels_mut() {
        let noise = chance.random_range(-6..=6i16);
        pixel.0 = pixel.0.map(|channel| (i16::from(channel) + noise).clamp(0, 255) as u8);
    }
}
