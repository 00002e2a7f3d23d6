//! Whether readers saw what they should: the ledger of the sandbox as lines, compared with the expected ones.
//! Pure; it knows nothing of the product's own rows, which might be wrong in the same way as what was sent.

use sandbox::Name;
use sandbox::chats::Message;
use sandbox::ledger::Row;

use super::city::CHANNELS;

/// One request that readers noticed, or one message as it stands at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Line {
    pub channel: String,
    pub verb: Verb,
    pub heading: String,
    /// The post that it tells of.
    pub link: String,
    pub photos: usize,
    /// The first phone of the text, digits and a plus.
    pub phone: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Said,
    /// An edit; what it leaves alone, such as pictures, it does not name.
    Changed,
    /// Not a request: what a reader who comes now finds.
    Stands,
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verb = match self.verb {
            Verb::Said => "said",
            Verb::Changed => "changed",
            Verb::Stands => "shows",
        };
        let Line { channel, heading, link, photos, phone, .. } = self;
        write!(f, "{channel}: {verb} {heading:?} {link} {phone} with {photos} photos")
    }
}

/// Where the ledger differs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub missing: Vec<Line>,
    pub unexpected: Vec<Line>,
}

impl Difference {
    pub(crate) fn is_none(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty()
    }
}

/// The accepted requests of a ledger that readers notice.
pub(super) fn lines(platform: Name, rows: &[Row]) -> Vec<Line> {
    rows.iter().filter(|row| row.accepted).filter_map(|row| line(platform, row)).collect()
}

/// What a reader who comes now finds in a channel, an album as one.
pub(super) fn standing(channel: &str, messages: &[Message]) -> Vec<Line> {
    let photos = |message: &Message| match &message.album {
        Some(_) => messages.iter().filter(|other| other.album == message.album).map(|m| m.media.len()).sum(),
        None => message.media.len(),
    };
    let with_words = messages.iter().filter(|message| !message.text.is_empty());
    let line = |message: &Message| Line {
        channel: channel.to_owned(),
        verb: Verb::Stands,
        heading: message.text.lines().next().map(bare).unwrap_or_default(),
        link: link(&message.text),
        photos: photos(message),
        phone: phone(&message.text),
    };
    with_words.map(line).collect()
}

/// Both ways, counting repeats.
pub(super) fn compare(expected: &[Line], seen: &[Line]) -> Difference {
    let mut unexpected = seen.to_vec();
    let mut missing = Vec::new();
    for line in expected {
        match unexpected.iter().position(|other| other == line) {
            Some(at) => drop(unexpected.remove(at)),
            None => missing.push(line.clone()),
        }
    }
    Difference { missing, unexpected }
}

fn line(platform: Name, row: &Row) -> Option<Line> {
    let verb = verb(platform, &row.method)?;
    let text = row.text.as_deref().unwrap_or_default();
    Some(Line {
        channel: channel(platform, row),
        verb,
        heading: text.lines().next().map(bare).unwrap_or_default(),
        link: link(text),
        photos: if verb == Verb::Said { row.media.len() } else { 0 },
        phone: phone(text),
    })
}

/// Uploads, readings and probes change nothing that a reader sees.
fn verb(platform: Name, method: &str) -> Option<Verb> {
    match (platform, method) {
        (Name::Telegram, method) if method.starts_with("send") && method != "sendChatAction" => {
            Some(Verb::Said)
        }
        (Name::Telegram, method) if method.starts_with("edit") => Some(Verb::Changed),
        (Name::Vk, "wall.post") | (Name::Max, "POST /messages") => Some(Verb::Said),
        (Name::Vk, "wall.edit") | (Name::Max, "PUT /messages") => Some(Verb::Changed),
        _ => None,
    }
}

fn channel(platform: Name, row: &Row) -> String {
    let chat = row.chat.as_i64().or_else(|| row.chat.as_str()?.parse().ok());
    let known = CHANNELS.iter().find(|(_, of, target)| *of == platform && Some(*target) == chat);
    known.map_or_else(|| format!("{} {}", platform.as_str(), row.chat), |(name, _, _)| (*name).to_owned())
}

/// A heading without its markup.
fn bare(line: &str) -> String {
    line.replace("<b>", "").replace("</b>", "").replace("**", "").trim().to_owned()
}

fn link(text: &str) -> String {
    let Some(at) = text.find("https://vk.com/wall") else {
        return String::new();
    };
    let belongs = |c: char| c.is_ascii_alphanumeric() || ":/._-".contains(c);
    text[at..].chars().take_while(|c| belongs(*c)).collect()
}

/// The first number that people would dial, without what they put between its digits.
fn phone(text: &str) -> String {
    let between = |c: &char| c.is_ascii_digit() || " ()-+\u{a0}".contains(*c);
    let starts = text.match_indices(['+', '8']).map(|(at, _)| &text[at..]);
    let digits =
        |from: &str| -> String { from.chars().take_while(between).filter(char::is_ascii_digit).collect() };
    let found = starts.map(digits).find(|digits| digits.len() == 11);
    found.map_or_else(String::new, |digits| format!("+7{}", &digits[1..]))
}
