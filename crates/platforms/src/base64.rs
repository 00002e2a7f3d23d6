//! Base64 (RFC 4648 §4): signatures of webhooks, photos that come inside JSON.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word =
            chunk.iter().fold(0_u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for n in 0..4 {
            let letter = LETTERS[(word >> (18 - 6 * n)) as usize & 63];
            text.push(if n <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// `None` for anything that is not base64; the padding may be missing.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let letters = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for chunk in letters.chunks(4) {
        let mut word = 0_u32;
        for letter in chunk {
            word = word << 6 | u32::from(value(*letter)?);
        }
        word <<= 6 * (4 - chunk.len());
        let n_bytes = (chunk.len() * 6) / 8;
        if n_bytes == 0 {
            return None;
        }
        bytes.extend_from_slice(&word.to_be_bytes()[1..=n_bytes]);
    }
    Some(bytes)
}

fn value(letter: u8) -> Option<u8> {
    match letter {
        b'A'..=b'Z' => Some(letter - b'A'),
        b'a'..=b'z' => Some(letter - b'a' + 26),
        b'0'..=b'9' => Some(letter - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_there_and_back() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode("Zm9vYg").as_deref(), Some(b"foob".as_slice()));
        for wrong in ["Z", "Zg=a", "Жg==", "Zm9v\n"] {
            assert_eq!(decode(wrong), None, "{wrong:?}");
        }
    }
}
