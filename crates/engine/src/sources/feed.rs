//! RSS, Atom and JSON feeds. What is not a feed says so; an entry without an id is known by its link.

use domain::message::Origin;
use feed_rs::model::Entry;
use platforms::egress::FetchError;
use serde_json::json;
use store::{Progress, Source};

use super::{PollError, Polled, Reader};
use crate::ingest::{Desk, RawPicture, RawPost, take_in};

/// Bytes of one feed.
const FEED_BYTES_MAX: usize = 10_000_000;
/// Entries of one reading: the newest come first in every feed worth its name.
const ENTRIES_MAX: usize = 200;

pub(super) async fn poll(reader: &Reader<'_>, source: &Source, desk: &Desk) -> Result<Polled, PollError> {
    let address = source.address.trim();
    let page = reader.network.egress.fetch_page(address, FEED_BYTES_MAX).await;
    let bytes = page.map_err(|error| refused(address, &error))?;
    let mut posts = parse(&source.name, address, &bytes)?;
    posts.sort_by_key(|post| post.origin.date);
    let cursor = json!({"entries": posts.len(), "interval_ms": source.cursor["interval_ms"]});
    let progress = Progress {
        source_id: source.source_id,
        owner: reader.settings.owner.clone(),
        cursor: cursor.clone(),
    };
    let counts =
        take_in(reader.store, reader.network, source.workspace_id, desk, &posts, Some(progress)).await?;
    Ok(Polled { counts, cursor, more: false })
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

/// Pure: the bytes of a feed into posts.
pub(super) fn parse(name: &str, address: &str, bytes: &[u8]) -> Result<Vec<RawPost>, PollError> {
    let feed = feed_rs::parser::parse(bytes).map_err(|error| {
        let what = if looks_like_html(bytes) { "it is a web page" } else { "it cannot be read" };
        PollError::Refused {
            why: format!("feed {address}: not a feed, {what} ({error}); look for its RSS or Atom address"),
            retry_after: None,
        }
    })?;
    Ok(feed.entries.into_iter().take(ENTRIES_MAX).map(|entry| raw(name, entry)).collect())
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
    RawPost {
        source: format!("feed:{name}"),
        origin_id: entry.id,
        origin: Origin {
            source: "feed".into(),
            url,
            date: entry.published.or(entry.updated).map(|date| date.timestamp()),
            edited: entry.updated.map(|date| date.timestamp()),
            ..Origin::default()
        },
        title: entry.title.map(|title| plain(&title.content)),
        text: plain(&body),
        pictures: pictures
            .into_iter()
            .map(|url| RawPicture { key: url.clone(), url, ..RawPicture::default() })
            .collect(),
        ..RawPost::default()
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
