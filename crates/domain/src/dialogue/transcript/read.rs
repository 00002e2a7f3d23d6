//! Takes a transcript apart: blocks of one doing and what is expected after it.

use super::super::fault::{Fault, nearest};
use crate::span;
use crate::time::Span;

/// What `=` may ask for.
pub(super) const FACTS: &[&str] =
    &["state", "rule", "mode", "verdict", "slot", "toast", "subscription", "handoff", "call", "misses"];
const HAPPENINGS: &[&str] = &[
    "duplicate",
    "blocked",
    "stop",
    "return",
    "start",
    "photo",
    "sticker",
    "late",
    "answer",
    "failed",
    "platform",
];

#[derive(Debug, Clone, PartialEq)]
pub struct Transcript {
    pub blocks: Vec<Block>,
    /// The file, line by line; `bless` writes it again.
    pub(super) lines: Vec<String>,
}

/// One thing that happens, and what must follow.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub line: usize,
    pub doing: Doing,
    /// The bot's messages; `None`: the author did not say.
    pub replies: Vec<Line>,
    pub facts: Vec<Wanted>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Doing {
    Write(String),
    Press(String),
    /// A picture, with the words under it.
    Photo(String),
    Sticker,
    Start,
    Stop,
    Blocked,
    Returned,
    /// The platform delivers the last thing once more.
    Duplicate,
    /// Words that come out of order, so much older than the newest.
    Late(Span, String),
    Operator(String),
    Answer(String, Vec<(String, String)>),
    Failed(String),
    Pass(Span),
    /// A time of the calendar, in the zone of the rules.
    Clock(String),
    Platform(String),
}

/// A message of the bot as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub line: usize,
    pub text: String,
    /// Rows of titles; `None`: the author did not say.
    pub buttons: Option<Vec<Vec<String>>>,
    pub photo: Option<String>,
}

/// A fact that must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub line: usize,
    pub key: String,
    pub value: String,
}

pub fn read(text: &str) -> Result<Transcript, Vec<Fault>> {
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut reader = Reader { blocks: Vec::new(), faults: Vec::new() };
    for (index, line) in lines.iter().enumerate() {
        reader.line(index + 1, line.trim_start_matches('\u{feff}'));
    }
    match reader.faults.is_empty() {
        true => Ok(Transcript { blocks: reader.blocks, lines }),
        false => Err(reader.faults),
    }
}

/// One line as somebody types it into a chat: what happens, or words without the sign before them.
pub fn doing(line: &str) -> Result<Doing, String> {
    let bare = line.trim();
    if let Some(rest) = bare.strip_prefix("operator>") {
        return Ok(Doing::Operator(rest.trim().to_owned()));
    }
    match bare.chars().next() {
        Some('@') => time(bare[1..].trim()),
        Some('!') if bare.len() > 1 => happening(bare[1..].trim()),
        Some('>') => Ok(said(bare[1..].trim())),
        _ => Ok(said(bare)),
    }
}

struct Reader {
    blocks: Vec<Block>,
    faults: Vec<Fault>,
}

impl Reader {
    fn line(&mut self, n: usize, line: &str) {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with('#') {
            return;
        }
        let read = if let Some(rest) = is_answer(bare) {
            self.answer(n, rest.trim())
        } else if let Some(rest) = bare.strip_prefix("operator>") {
            self.doing(n, Ok(Doing::Operator(rest.trim().to_owned())))
        } else if let Some(rest) = bare.strip_prefix('>') {
            self.doing(n, Ok(said(rest.trim())))
        } else if let Some(rest) = bare.strip_prefix('@') {
            self.doing(n, time(rest.trim()))
        } else if let Some(rest) = bare.strip_prefix('!') {
            self.doing(n, happening(rest.trim()))
        } else if let Some(rest) = bare.strip_prefix('=') {
            self.facts(n, rest.trim())
        } else if line.starts_with([' ', '\t']) {
            self.more(bare)
        } else {
            Err("a line begins with one of: > (the person), ‹ (the bot), @ (time), = (facts), ! (something happens), operator>, # (a remark)".to_owned())
        };
        if let Err(wrong) = read {
            self.faults.push(Fault::error(n, wrong));
        }
    }

    fn doing(&mut self, line: usize, doing: Result<Doing, String>) -> Result<(), String> {
        self.blocks.push(Block { line, doing: doing?, replies: Vec::new(), facts: Vec::new() });
        Ok(())
    }

    fn last(&mut self) -> Result<&mut Block, String> {
        self.blocks.last_mut().ok_or_else(|| "nothing has happened yet; begin with `> …`".to_owned())
    }

    fn answer(&mut self, line: usize, text: &str) -> Result<(), String> {
        let reply = Line { line, text: text.to_owned(), buttons: None, photo: None };
        self.last()?.replies.push(reply);
        Ok(())
    }

    /// A further line of a message: words, buttons or a picture.
    fn more(&mut self, text: &str) -> Result<(), String> {
        let nothing = "an indented line goes on with a message of the bot, but there is none above it";
        let reply = self.last()?.replies.last_mut().ok_or(nothing)?;
        if let Some(row) = titles(text) {
            reply.buttons.get_or_insert_default().push(row);
        } else if let Some(photo) = text.strip_prefix("(photo ").and_then(|rest| rest.strip_suffix(')')) {
            reply.photo = Some(photo.trim().to_owned());
        } else {
            if !reply.text.is_empty() {
                reply.text.push('\n');
            }
            reply.text.push_str(text);
        }
        Ok(())
    }

    fn facts(&mut self, line: usize, text: &str) -> Result<(), String> {
        for fact in text.split(';').map(str::trim).filter(|fact| !fact.is_empty()) {
            let (key, value) = fact.split_once(char::is_whitespace).unwrap_or((fact, ""));
            if !FACTS.contains(&key) {
                return Err(unknown("fact", key, FACTS));
            }
            let wanted = Wanted { line, key: key.to_owned(), value: value.trim().to_owned() };
            self.last()?.facts.push(wanted);
        }
        Ok(())
    }
}

fn is_answer(line: &str) -> Option<&str> {
    line.strip_prefix('‹').or_else(|| line.strip_prefix('<'))
}

fn said(text: &str) -> Doing {
    match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(title) if !title.contains(['[', ']']) => Doing::Press(title.trim().to_owned()),
        _ => Doing::Write(text.to_owned()),
    }
}

fn time(text: &str) -> Result<Doing, String> {
    if let Some(rest) = text.strip_prefix('+') {
        let passed = span::parse(rest).ok_or_else(|| format!("`+{rest}` is not + and {}", span::FORM))?;
        return Ok(Doing::Pass(passed));
    }
    let at = text.replacen(' ', "T", 1);
    let fits = at.parse::<jiff::civil::DateTime>().is_ok();
    fits.then_some(Doing::Clock(at)).ok_or_else(|| {
        format!("`{text}` is neither time that passes (+31m) nor a time such as 2027-01-03 12:00")
    })
}

fn happening(text: &str) -> Result<Doing, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    Ok(match name {
        "duplicate" => Doing::Duplicate,
        "blocked" => Doing::Blocked,
        "stop" => Doing::Stop,
        "return" => Doing::Returned,
        "start" => Doing::Start,
        "photo" => Doing::Photo(rest.to_owned()),
        "sticker" => Doing::Sticker,
        "platform" => Doing::Platform(rest.to_owned()),
        "failed" => Doing::Failed(rest.to_owned()),
        "late" => {
            let (span, words) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let late =
                span::parse(span).ok_or("write how late and what was said, such as `! late 5m доставка`")?;
            Doing::Late(late, words.trim().to_owned())
        }
        "answer" => {
            let (service, fields) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            let field =
                |part: &str| part.split_once('=').map(|(k, v)| (k.trim().to_owned(), v.trim().to_owned()));
            let fields = fields.split(';').filter(|part| !part.trim().is_empty()).map(field);
            let fields = fields.collect::<Option<Vec<_>>>();
            let fields = fields.ok_or(
                "write the fields of the answer, such as `! answer orders status=в пути; day=завтра`",
            )?;
            Doing::Answer(service.to_owned(), fields)
        }
        other => return Err(unknown("happening", other, HAPPENINGS)),
    })
}

fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    format!("no {what} is called `{name}`; {hint}")
}

/// `[Да] [Нет]` and nothing else.
fn titles(text: &str) -> Option<Vec<String>> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let titles: Vec<String> = inner.split(']').map(|title| title.trim_start().to_owned()).collect();
    let fits =
        |(n, title): (usize, &String)| if n == 0 { !title.contains('[') } else { title.starts_with('[') };
    let whole = titles.iter().enumerate().all(fits);
    whole.then(|| titles.iter().map(|title| title.trim_start_matches('[').trim().to_owned()).collect())
}
