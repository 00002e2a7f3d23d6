//! RSS, Atom and JSON feeds. What is not a feed says so; an entry without an id is known by its link, and one without
//! a link by its words, so that it is the same entry at every reading.

use domain::message::Origin;
use feed_rs::model::Entry;
use platforms::egress::FetchError;
use quick_xml::Reader;
use quick_xml::encoding::DecodingReader;
use quick_xml::events::Event;
use serde_json::json;
use store::{Progress, Source};

use super::{PollError, Polled};
use crate::ingest::{PublishRules, RawPicture, RawPost, take_in};

/// Bytes of one feed.
const FEED_BYTES_MAX: usize = 10_000_000;
/// Entries of one reading, the newest of them.
const ENTRIES_MAX: usize = 200;
/// Elements inside each other. Feeds for people need a dozen; the parser calls itself for each level, and a feed that
/// is nothing but levels would use up the stack and end the process.
const DEPTH_MAX: usize = 200;

pub(super) async fn poll(
    reader: &super::Reader<'_>,
    source: &Source,
    rules: &PublishRules,
) -> Result<Polled, PollError> {
    let Parsed { title, posts } = look(reader, source).await?;
    let title = title.as_deref().or_else(|| super::title(source));
    let cursor = json!({"entries": posts.len(), "title": title, "interval_ms": source.cursor["interval_ms"]});
    let progress = Progress {
        source_id: source.source_id,
        owner: reader.settings.owner.clone(),
        cursor: cursor.clone(),
    };
    let counts =
        take_in(reader.store, reader.network, source.workspace_id, rules, &posts, Some(progress)).await?;
    Ok(Polled { counts, cursor, more: false })
}

/// A feed as it was read.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) title: Option<String>,
    pub(super) posts: Vec<RawPost>,
}

/// What the feed shows now, the oldest first.
pub(super) async fn look(reader: &super::Reader<'_>, source: &Source) -> Result<Parsed, PollError> {
    let address = source.address.trim();
    if address.contains(domain::shown::MASK) {
        let why = format!(
            "feed {address}: the key of this node does not open its address; set it again with `rupor apply`"
        );
        return Err(PollError::Refused { why, retry_after: None });
    }
    let page = reader.network.egress.fetch_page(address, FEED_BYTES_MAX).await;
    let bytes = page.map_err(|error| refused(address, &error))?;
    let (name, from) = (source.name.clone(), address.to_owned());
    // A large feed takes its time, and a broken parser must not take others along.
    let parsed = tokio::task::spawn_blocking(move || parse(&name, &from, &bytes)).await;
    let mut parsed = parsed.map_err(|_| broken(address))??;
    parsed.posts.sort_by_key(|post| post.origin.date);
    Ok(parsed)
}

fn refused(address: &str, error: &FetchError) -> PollError {
    let remedy = match error {
        FetchError::Refused(_) => "give a public http or https address",
        FetchError::Status(404 | 410) => "check the address of the feed",
        FetchError::TooLarge(_) => "that is no feed for people; check the address",
        _ => "it is tried again later",
    };
    PollError::Refused { why: format!("feed {address}: {error}; {remedy}"), retry_after: None }
}

fn broken(address: &str) -> PollError {
    let why = format!("feed {address}: the parser broke on it; that is a fault of rupor, please report it");
    PollError::Refused { why, retry_after: None }
}

/// Pure: the bytes of a feed into posts.
pub(super) fn parse(name: &str, address: &str, bytes: &[u8]) -> Result<Parsed, PollError> {
    if !is_json(bytes) && depth(bytes) > DEPTH_MAX {
        let why = format!(
            "feed {address}: more than {DEPTH_MAX} elements inside each other; that is no feed for people, \
             check the address"
        );
        return Err(PollError::Refused { why, retry_after: None });
    }
    // What has no id of its own gets one below: the parser would draw a new one at every reading.
    let parser = feed_rs::parser::Builder::new().id_generator(|_, _, _| String::new()).build();
    let mut feed = parser.parse(bytes).map_err(|error| {
        let what = if looks_like_html(bytes) { "it is a web page" } else { "it cannot be read" };
        PollError::Refused {
            why: format!("feed {address}: not a feed, {what} ({error}); look for its RSS or Atom address"),
            retry_after: None,
        }
    })?;
    feed.entries.sort_by_key(|entry| std::cmp::Reverse(entry.published.or(entry.updated)));
    let title = feed.title.and_then(|title| domain::shown::title(&plain(&title.content)));
    let posts = feed.entries.into_iter().take(ENTRIES_MAX).map(|entry| raw(name, entry)).collect();
    Ok(Parsed { title, posts })
}

/// How many elements of XML stand inside each other at the deepest place, as the reader below the parser of feeds sees it:
/// a count of our own would be talked out of levels by quotes, comments, declarations and encodings.
fn depth(bytes: &[u8]) -> usize {
    let mut reader = Reader::from_reader(DecodingReader::new(bytes));
    reader.config_mut().trim_markup_names_in_closing_tags = true;
    let (mut buffer, mut depth, mut deepest) = (Vec::new(), 0_usize, 0_usize);
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer) {
            Ok(Event::Start(_)) => depth += 1,
            Ok(Event::End(_)) => depth = depth.saturating_sub(1),
            Ok(Event::Decl(declaration)) => {
                if let Some(encoding) = declaration.encoder() {
                    reader.get_mut().set_encoding(encoding);
                }
            }
            // Nobody reads on behind a mistake.
            Ok(Event::Eof) | Err(_) => return deepest,
            Ok(_) => {}
        }
        deepest = deepest.max(depth);
    }
}

/// A feed of JSON has no elements, and its own reader has its own bound.
fn is_json(bytes: &[u8]) -> bool {
    bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|first| *first == b'{')
}

fn looks_like_html(bytes: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(1_000)]).to_lowercase();
    head.contains("<html") || head.contains("<!doctype html")
}

fn raw(name: &str, entry: Entry) -> RawPost {
    let link = entry.links.iter().find(|link| link.rel.as_deref().is_none_or(|rel| rel == "alternate"));
    let url = link.or(entry.links.first()).map(|link| link.href.clone());
    let body = entry.content.and_then(|content| content.body);
    let body = body.or_else(|| entry.summary.map(|summary| summary.content)).unwrap_or_default();
    let media = entry.media.iter().flat_map(|media| &media.content).filter(|content| {
        content.content_type.as_ref().is_some_and(|kind| kind.to_string().starts_with("image/"))
    });
    let enclosures = media.filter_map(|content| content.url.as_ref().map(ToString::to_string));
    let mut pictures: Vec<String> = enclosures.chain(images(&body)).collect();
    pictures.dedup();
    let title = entry.title.map(|title| plain(&title.content));
    let text = plain(&body);
    RawPost {
        source: format!("feed:{name}"),
        origin_id: own_id(&entry.id, url.as_deref(), title.as_deref(), &text),
        origin: Origin {
            source: "feed".into(),
            url,
            date: entry.published.or(entry.updated).map(|date| date.timestamp()),
            edited: entry.updated.map(|date| date.timestamp()),
            ..Origin::default()
        },
        title,
        text,
        pictures: pictures
            .into_iter()
            .map(|url| RawPicture { key: url.clone(), url, ..RawPicture::default() })
            .collect(),
        ..RawPost::default()
    }
}

/// Its own id, else its link, else what it says: the same at every reading.
fn own_id(id: &str, url: Option<&str>, title: Option<&str>, text: &str) -> String {
    let given = [Some(id), url].into_iter().flatten().map(str::trim).find(|name| !name.is_empty());
    match given {
        Some(name) => name.to_owned(),
        None => {
            let words = [title.unwrap_or_default(), text].join("\n");
            format!("words:{}", &blake3::hash(words.as_bytes()).to_hex()[..32])
        }
    }
}

/// The addresses of `<img src="…">`.
fn images(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for tag in html.split("<img").skip(1) {
        let tag = tag.split('>').next().unwrap_or_default();
        let source = tag.split_once("src=").map(|(_, rest)| rest.trim_start());
        let Some(quote) = source.and_then(|source| source.chars().next()).filter(|c| *c == '"' || *c == '\'')
        else {
            continue;
        };
        let address = source.and_then(|source| source.split(quote).nth(1)).unwrap_or_default();
        let address = entities(address);
        if domain::message::is_web_address(&address) {
            found.push(address);
        }
    }
    found
}

/// Words without markup: paragraphs and breaks become lines.
fn plain(html: &str) -> String {
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        // A lone sign is a sign, not a tag.
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '!') {
            text.push('<');
            rest = tag;
            continue;
        }
        let Some((name, after)) = tag.split_once('>') else {
            rest = "";
            break;
        };
        let name = name.trim_start_matches('/').to_ascii_lowercase();
        let breaks = ["br", "p", "div", "li", "h1", "h2", "h3", "h4", "tr", "blockquote"];
        let word: &str = name.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        if breaks.contains(&word) {
            text.push('\n');
        }
        rest = after;
    }
    text.push_str(rest);
    let text = entities(&text);
    let lines: Vec<String> =
        text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

/// The few entities that feeds use; `&amp;` last, so that nothing is decoded twice.
fn entities(text: &str) -> String {
    let named = [("&nbsp;", "\u{a0}"), ("&quot;", "\""), ("&#39;", "'"), ("&apos;", "'"), ("&laquo;", "«")];
    let more = [
        ("&raquo;", "»"),
        ("&mdash;", "—"),
        ("&ndash;", "–"),
        ("&hellip;", "…"),
        ("&lt;", "<"),
        ("&gt;", ">"),
    ];
    let decoded =
        named.iter().chain(&more).fold(text.to_owned(), |text, (name, sign)| text.replace(name, sign));
    decoded.replace("&amp;", "&")
}
