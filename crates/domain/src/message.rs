//! What a message is: the normalised content that is stored once and rendered for every channel.
//! It knows nothing of platforms, their limits or their markup; those belong to `platforms`.

use serde::{Deserialize, Serialize};

/// The payload of a message as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Message {
    /// What the post is for, by its name in `content`: `lost`, `found`, `news` …; empty when nobody asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// A heading; when absent, the kind has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Plain text: never markup.
    pub text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub media: Vec<Media>,
    /// Phones in E.164, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub phones: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub city: Option<String>,
    /// Street, district or landmark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The animal that the post is about, as far as it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pet: Option<Pet>,
    /// What the post was for before its story ended; empty while it goes on.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub was: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Rows of buttons under the message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buttons: Vec<Vec<Button>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What programs hear in the place of the words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<serde_json::Value>,
    /// The text has places that are filled in for each person.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub personal: bool,
}

impl Message {
    /// A message of words alone.
    pub fn text(text: impl Into<String>) -> Message {
        Message { text: text.into(), ..Message::default() }
    }

    /// Where the reader finds the original; always a web address.
    pub fn source_link(&self) -> Option<String> {
        self.origin.as_ref().and_then(Origin::link)
    }
}

/// What a heading needs to know of an animal; empty words are unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pet {
    /// `dog`, `cat`, `bird`, `rodent`, `other`, `several`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub animal: String,
    /// The post's own noun in its dictionary form, where the species alone says little: `попугай`, `кролик`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub noun: String,
    /// `m` or `f`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sex: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// A puppy, a kitten.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub young: bool,
    /// More than one animal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub many: bool,
}

/// Where a message came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Origin {
    /// The kind of source: `vk`, `feed`, `push`, `file`, `cli` …
    pub source: String,
    /// The wall of a VK post; negative for communities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub post_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<i64>,
    /// Unix seconds of the last edit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edited: Option<i64>,
}

impl Origin {
    fn link(&self) -> Option<String> {
        self.url.as_deref().filter(|url| is_web_address(url)).map(str::to_owned)
    }
}

/// Bytes of an address that every platform takes (MAX names 2048 for links).
pub const URL_BYTES_MAX: usize = 2048;

/// Whether a text is an `http` or `https` address that can be printed as it is.
pub fn is_web_address(text: &str) -> bool {
    let rest = match text.split_once("://") {
        Some((scheme, rest))
            if scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https") =>
        {
            rest
        }
        _ => return false,
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let printable = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"\\^`{|}".contains(c);
    text.len() <= URL_BYTES_MAX && !host.is_empty() && text.chars().all(printable)
}

/// A picture, a video or a file of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Media {
    pub kind: MediaKind,
    /// SHA-256 of the bytes in lower-case hex: the key of `media_origin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    /// Where the bytes can be fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A page where a person can see it; shown when the bytes cannot be sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_s: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_name: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    #[default]
    Photo,
    Video,
    /// A silent loop: GIF or its video form.
    Animation,
    Document,
    Audio,
}

impl MediaKind {
    pub const ALL: [MediaKind; 5] =
        [MediaKind::Photo, MediaKind::Video, MediaKind::Animation, MediaKind::Document, MediaKind::Audio];

    pub fn as_str(self) -> &'static str {
        match self {
            MediaKind::Photo => "photo",
            MediaKind::Video => "video",
            MediaKind::Animation => "animation",
            MediaKind::Document => "document",
            MediaKind::Audio => "audio",
        }
    }
}

impl std::fmt::Display for MediaKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One button: words, and what a press does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub text: String,
    #[serde(flatten)]
    pub press: Press,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Press {
    /// Opens a web address.
    Url(String),
    /// Comes back to the bot as this text.
    Callback(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_reads_back_as_it_was_written() {
        let message = Message {
            kind: "lost".into(),
            text: "Пропала собака".into(),
            media: vec![Media { blob: Some("ab".repeat(32)), ..Media::default() }],
            buttons: vec![vec![
                Button { text: "Карта".into(), press: Press::Url("https://example.org/m".into()) },
                Button { text: "Видел".into(), press: Press::Callback("seen:1".into()) },
            ]],
            origin: Some(Origin {
                source: "wall".into(),
                owner_id: Some(-990_000_101),
                post_id: Some(7),
                ..Origin::default()
            }),
            ..Message::default()
        };
        let json = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&json).unwrap(), message, "{json}");
        assert!(json.contains(r#"{"text":"Видел","callback":"seen:1"}"#), "{json}");
    }

    #[test]
    fn a_message_of_words_alone_is_short_json() {
        assert_eq!(serde_json::to_string(&Message::text("да")).unwrap(), r#"{"text":"да"}"#);
        assert_eq!(serde_json::from_str::<Message>(r#"{"text":"да"}"#).unwrap(), Message::text("да"));
    }

    #[test]
    fn only_web_addresses_become_source_links() {
        let check = |url: &str, expected: bool| {
            let origin = Origin { url: Some(url.into()), ..Origin::default() };
            assert_eq!(origin.link().is_some(), expected, "{url}");
        };
        check("https://example.org/a?b=1#c", true);
        check("HTTP://example.org", true);
        check("https://пример.рф/кот", true);
        check("javascript:alert(1)", false);
        check("tg://user?id=1", false);
        check("https://", false);
        check("https://example.org/a b", false);
        check("https://example.org/\"><b>", false);
        check(&format!("https://example.org/{}", "a".repeat(URL_BYTES_MAX)), false);
    }
}
