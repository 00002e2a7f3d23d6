//! Secrets: tokens, proxy addresses, addresses that carry a token in their path.
//!
//! None of these types can be printed: `Debug` says what it is, never what it holds, and there is no `Display`.
//! What a platform sends back may repeat a token; `Redactor` takes it out before a text leaves this crate.

use std::collections::HashSet;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use url::Url;

/// What stands where a secret stood.
pub const REDACTED: &str = "[secret]";

/// Pieces of a secret at least this long are taken out of foreign texts.
const WINDOW_BYTES: usize = 8;

/// A bot or community token.
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    pub fn new(token: impl Into<String>) -> Token {
        Token(SecretString::from(token.into()))
    }

    pub(crate) fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl Token {
    /// HMAC-SHA256 in base64 with the key of a `whsec_` secret; `None`: it does not sign.
    pub(crate) fn signature(&self, content: &[u8]) -> Option<String> {
        Some(crate::base64::encode(&hmac_sha256(&signing_key(self.expose())?, content)))
    }

    pub(crate) fn signs(&self) -> bool {
        signing_key(self.expose()).is_some()
    }
}

/// The bytes of a signing secret as Standard Webhooks writes it: `whsec_` and base64.
pub(crate) fn signing_key(secret: &str) -> Option<Vec<u8>> {
    crate::base64::decode(secret.strip_prefix("whsec_")?).filter(|key| !key.is_empty())
}

/// RFC 2104 over SHA-256.
fn hmac_sha256(key: &[u8], content: &[u8]) -> Vec<u8> {
    const BLOCK: usize = 64;
    let key = if key.len() > BLOCK { Sha256::digest(key).to_vec() } else { key.to_vec() };
    let pad = |with: u8| {
        let mut block = [with; BLOCK];
        block.iter_mut().zip(&key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(content).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token([secret])")
    }
}

/// An address that must not be printed: a token in its path, an upload session in its query, a proxy password.
#[derive(Clone)]
pub struct SecretUrl {
    url: Url,
    /// What logs and errors say instead, e.g. `telegram sendMessage`.
    label: String,
}

impl SecretUrl {
    pub fn new(url: Url, label: impl Into<String>) -> SecretUrl {
        SecretUrl { url, label: label.into() }
    }

    pub fn label(&self) -> &str {
        &self.label
    }

    pub(crate) fn expose(&self) -> &Url {
        &self.url
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretUrl({})", self.label)
    }
}

/// Compares a secret that came from outside with ours, in a time that does not depend on either.
///
/// Both sides are hashed first, so that neither the length nor a common beginning shows.
pub fn same_secret(given: &[u8], expected: &[u8]) -> bool {
    let (given, expected) = (Sha256::digest(given), Sha256::digest(expected));
    given.as_slice().ct_eq(expected.as_slice()).into()
}

/// SHA-256 in lower-case hex: what is kept of a secret that only has to be recognised.
pub fn sha256(secret: &[u8]) -> String {
    Sha256::digest(secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Takes secrets, and pieces of them, out of texts that others wrote.
#[derive(Default)]
pub struct Redactor {
    windows: HashSet<[u8; WINDOW_BYTES]>,
    /// Secrets too short for a window are matched whole.
    short: Vec<String>,
}

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Redactor {
        let mut redactor = Redactor::default();
        for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
            if secret.len() < WINDOW_BYTES {
                redactor.short.push(secret.to_owned());
            }
            let windows = secret.as_bytes().windows(WINDOW_BYTES);
            redactor.windows.extend(windows.filter_map(|window| <[u8; WINDOW_BYTES]>::try_from(window).ok()));
        }
        redactor
    }

    pub fn text(&self, text: &str) -> String {
        let mut hidden = vec![false; text.len()];
        for (at, window) in text.as_bytes().windows(WINDOW_BYTES).enumerate() {
            if self.windows.contains(window) {
                hidden[at..at + WINDOW_BYTES].fill(true);
            }
        }
        for secret in &self.short {
            for (at, found) in text.match_indices(secret.as_str()) {
                hidden[at..at + found.len()].fill(true);
            }
        }
        without(text, &hidden)
    }

    /// Every string in it, keys included.
    pub fn json(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, value)| (self.text(&key), self.json(value))).collect()
            }
            other => other,
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor([secret])")
    }
}

/// The text with every hidden run replaced by one mark. A character with any hidden byte is hidden whole.
fn without(text: &str, hidden: &[bool]) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut in_secret = false;
    for (at, character) in text.char_indices() {
        let secret = hidden[at..at + character.len_utf8()].contains(&true);
        match (secret, in_secret) {
            (true, false) => clean.push_str(REDACTED),
            (true, true) => {}
            (false, _) => clean.push(character),
        }
        in_secret = secret;
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "7700:AAF-canary_0123456789abcdef";

    #[test]
    fn a_secret_and_every_long_piece_of_it_leave_the_text() {
        let redactor = Redactor::new([SECRET]);
        assert_eq!(redactor.text("до 7700:AAF-canary_0123456789abcdef после"), "до [secret] после");
        assert_eq!(redactor.text("cut 7700:AAF-can"), "cut [secret]");
        assert_eq!(redactor.text("7700%3AAAF-canary_0123456789abcdef"), "7700%3A[secret]");
        assert_eq!(redactor.text("nothing here: 7700"), "nothing here: 7700");
    }

    #[test]
    fn a_short_secret_is_taken_out_whole() {
        let redactor = Redactor::new(["pass", ""]);
        assert_eq!(redactor.text("my pass, my pas"), "my [secret], my pas");
    }

    #[test]
    fn keys_and_values_of_json_are_cleaned() {
        let redactor = Redactor::new([SECRET]);
        let value = serde_json::json!({"error": {SECRET: [1, SECRET, "да"]}});
        let clean = redactor.json(value).to_string();
        assert!(!clean.contains("canary"), "{clean}");
        assert!(clean.contains("да"));
    }

    #[test]
    fn secrets_do_not_print() {
        let url = SecretUrl::new(Url::parse("https://a.test/bot1:x/getMe").unwrap(), "telegram getMe");
        assert_eq!(format!("{:?} {url:?}", Token::new(SECRET)), "Token([secret]) SecretUrl(telegram getMe)");
    }

    #[test]
    fn only_the_very_same_secret_is_the_same() {
        assert!(same_secret(b"abc", b"abc"));
        for other in [&b""[..], b"ab", b"abcd", b"abC", b"abc\0"] {
            assert!(!same_secret(other, b"abc"));
        }
    }
}
