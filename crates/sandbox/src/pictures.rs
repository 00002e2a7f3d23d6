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

fn colour(chance: &mut StdRng, low: f32, high: f32) -> Colour {
    [chance.random_range(low..high), chance.random_range(low..high), chance.random_range(low..high)]
}

fn mixed(a: Colour, b: Colour, share: f32) -> Colour {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * share)
}

/// Sky above a tilted horizon, ground with stripes below.
fn background(chance: &mut StdRng) -> RgbImage {
    let (sky, haze) = (colour(chance, 90.0, 235.0), colour(chance, 130.0, 255.0));
    let (near, far) = (colour(chance, 30.0, 170.0), colour(chance, 60.0, 200.0));
    let level = chance.random_range(0.25..0.7f32);
    let tilt = chance.random_range(-0.25..0.25f32);
    let stripes = chance.random_range(4.0..24.0f32);
    RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let (u, v) = (x as f32 / WIDTH as f32, y as f32 / HEIGHT as f32);
        let horizon = level + tilt * (u - 0.5);
        let tone = if v < horizon {
            mixed(sky, haze, v / horizon)
        } else {
            let depth = (v - horizon) / (1.0 - horizon);
            let wave = ((depth * stripes).sin() * 0.5 + 0.5) * 0.25;
            mixed(far, near, (depth * 0.75 + wave).min(1.0))
        };
        Rgb(tone.map(|channel| channel.clamp(0.0, 255.0) as u8))
    })
}

/// A house, a bush or a stone: a box or an ellipse with its own shade.
fn thing(picture: &mut RgbImage, chance: &mut StdRng) {
    let tone = colour(chance, 20.0, 230.0);
    let centre = (chance.random_range(0.0..1.0f32), chance.random_range(0.15..0.9f32));
    let radius = (chance.random_range(0.04..0.2f32), chance.random_range(0.05..0.22f32));
    let square = chance.random_bool(0.5);
    paint(picture, centre, radius, tone, |u, v| if square { u.abs().max(v.abs()) } else { u.hypot(v) });
}

/// Body, head, two ears, tail and eyes, somewhere near the middle.
fn animal(picture: &mut RgbImage, chance: &mut StdRng) {
    let fur = colour(chance, 15.0, 245.0);
    let dark = fur.map(|channel| channel * 0.55);
    let (x, y) = (chance.random_range(0.3..0.7f32), chance.random_range(0.5..0.75f32));
    let size = chance.random_range(0.11..0.2f32);
    let facing = if chance.random_bool(0.5) { 1.0 } else { -1.0 };
    let round = |u: f32, v: f32| u.hypot(v);
    let (head_x, head_y) = (x + facing * size * 1.1, y - size * 0.9);
    paint(picture, (x - facing * size * 1.3, y - size * 0.3), (size * 0.6, size * 0.16), dark, round);
    paint(picture, (x, y), (size * 1.2, size * 0.75), fur, round);
    for ear in [-0.4, 0.4] {
        paint(picture, (head_x + size * ear, head_y - size * 0.6), (size * 0.17, size * 0.4), dark, round);
    }
    paint(picture, (head_x, head_y), (size * 0.55, size * 0.6), mixed(fur, [255.0; 3], 0.12), round);
    for eye in [-0.2, 0.2] {
        let at = (head_x + size * eye, head_y - size * 0.08);
        paint(picture, at, (size * 0.07, size * 0.09), [18.0, 16.0, 14.0], round);
    }
    paint(picture, (head_x, head_y + size * 0.22), (size * 0.1, size * 0.07), [40.0, 24.0, 24.0], round);
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
                picture.put_pixel(x, y, Rgb(lit.map(|channel| channel.clamp(0.0, 255.0) as u8)));
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
