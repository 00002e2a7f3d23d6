//! Bytes that were uploaded, by their SHA-256, served to the page and to the platforms' download paths.
//! Bounded: the oldest bytes go first; whoever asks for them later is told that they are gone.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sha2::{Digest, Sha256};

/// What is known of some stored bytes.
#[derive(Clone, Debug)]
pub struct Stored {
    pub sha256: String,
    pub bytes: Bytes,
    pub mime: &'static str,
    /// Of a picture that could be read.
    pub size: Option<(u32, u32)>,
}

/// The store.
#[derive(Debug)]
pub struct MediaStore {
    shelf: Mutex<Shelf>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    by_hash: HashMap<String, Stored>,
    ages: VecDeque<String>,
    n_bytes: usize,
}

impl MediaStore {
    pub fn new(bytes_max: usize) -> MediaStore {
        MediaStore { shelf: Mutex::default(), bytes_max }
    }

    /// Keeps bytes; the same bytes are kept once.
    pub fn put(&self, bytes: &Bytes) -> Stored {
        let sha256 = sha256_hex(bytes);
        if let Some(stored) = self.get(&sha256) {
            return stored;
        }
        let stored = Stored { sha256, bytes: bytes.clone(), mime: sniff(bytes), size: picture_size(bytes) };
        let mut shelf = self.shelf();
        shelf.n_bytes += bytes.len();
        shelf.ages.push_back(stored.sha256.clone());
        shelf.by_hash.insert(stored.sha256.clone(), stored.clone());
        while shelf.n_bytes > self.bytes_max {
            let Some(oldest) = shelf.ages.pop_front() else { break };
            let gone = shelf.by_hash.remove(&oldest).map_or(0, |gone| gone.bytes.len());
            shelf.n_bytes -= gone;
        }
        stored
    }

    pub fn get(&self, sha256: &str) -> Option<Stored> {
        self.shelf().by_hash.get(sha256).cloned()
    }

    /// Where the page finds the bytes.
    pub fn url(sha256: &str) -> String {
        format!("/_/media/{sha256}")
    }

    /// Number of files and of bytes.
    pub fn held(&self) -> (usize, usize) {
        let shelf = self.shelf();
        (shelf.by_hash.len(), shelf.n_bytes)
    }

    pub fn clear(&self) {
        *self.shelf() = Shelf::default();
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lower-case hex of the SHA-256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The media type by the first bytes.
pub fn sniff(bytes: &[u8]) -> &'static str {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => "image/jpeg",
        [0x89, b'P', b'N', b'G', ..] => "image/png",
        [b'G', b'I', b'F', b'8', ..] => "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => "image/webp",
        [_, _, _, _, b'f', b't', b'y', b'p', ..] => "video/mp4",
        [b'%', b'P', b'D', b'F', ..] => "application/pdf",
        [b'P', b'K', 3, 4, ..] => "application/zip",
        [b'I', b'D', b'3', ..] => "audio/mpeg",
        [b'O', b'g', b'g', b'S', ..] => "audio/ogg",
        _ => "application/octet-stream",
    }
}

/// Width and height from the header of a picture; pixels are not decoded.
fn picture_size(bytes: &[u8]) -> Option<(u32, u32)> {
    if let [b'G', b'I', b'F', b'8', _, _, w0, w1, h0, h1, ..] = bytes {
        return Some((u32::from(u16::from_le_bytes([*w0, *w1])), u32::from(u16::from_le_bytes([*h0, *h1]))));
    }
    let reader = image::ImageReader::new(std::io::Cursor::new(bytes)).with_guessed_format().ok()?;
    reader.into_dimensions().ok()
}
