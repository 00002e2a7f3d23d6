//! JSONL: one post a line, as `rupor analyse` reads them. A line that is no post is named and passed over.

use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use anyhow::Context;
use domain::content::Post;
use domain::ids::WorkspaceId;
use domain::message::{Origin, is_web_address};
use platforms::platform::Network;
use serde::{Deserialize, Serialize};
use serde_json::json;
use store::{Progress, Source, Store};

use super::{PollError, Polled, Reader};
use crate::ingest::{PublishRules, RawPicture, RawPost, in_a_run, take_in};

/// Lines of one step.
const LINES_MAX: usize = 500;
/// Lines of one step of an import: few enough that somebody who waits sees it move.
const IMPORT_LINES: usize = 200;
/// Bytes of one line: a post of 50 000 characters is a tenth of it.
const LINE_BYTES_MAX: usize = 2_000_000;

/// What a piece of a file held.
#[derive(Debug, Default)]
struct Piece {
    posts: Vec<RawPost>,
    /// Line numbers are not known from the middle of a file, so the place is told in bytes.
    bad: Vec<String>,
    /// Where the next piece begins.
    end: u64,
    more: bool,
}

/// A file as a source: goes on where it ended, so that lines may be added to it.
pub(super) async fn poll(
    reader: &Reader<'_>,
    source: &Source,
    rules: &PublishRules,
) -> Result<Polled, PollError> {
    let start = source.cursor["at"].as_u64().unwrap_or(0);
    let piece = read_piece(&source.address, start, LINES_MAX).await?;
    for bad in &piece.bad {
        tracing::warn!(source = source.name, bad, "a line was passed over");
    }
    let cursor = json!({"at": piece.end, "interval_ms": source.cursor["interval_ms"]});
    let progress = Progress {
        source_id: source.source_id,
        owner: reader.settings.owner.clone(),
        cursor: cursor.clone(),
    };
    let mut counts =
        take_in(reader.store, reader.network, source.workspace_id, rules, &piece.posts, Some(progress))
            .await?;
    counts.skipped += i32::try_from(piece.bad.len()).unwrap_or(i32::MAX);
    Ok(Polled { counts, cursor, more: piece.more })
}

/// The posts that would be taken in next.
pub(super) async fn look(source: &Source) -> Result<Vec<RawPost>, PollError> {
    let start = source.cursor["at"].as_u64().unwrap_or(0);
    Ok(read_piece(&source.address, start, LINES_MAX).await?.posts)
}

/// What one step of an import did, and where the next one begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportStep {
    pub seen: i32,
    pub stored: i32,
    pub skipped: i32,
    pub enqueued: i32,
    /// What was passed over, in words.
    pub bad: Vec<String>,
    pub end: u64,
    pub more: bool,
}

/// Takes in the posts of a file from byte `at` on, at most `IMPORT_LINES` lines. Safe to do again: known posts are
/// only counted.
pub async fn import_step(
    store: &Store,
    network: &Network,
    workspace: WorkspaceId,
    rules: &PublishRules,
    path: &Path,
    at: u64,
) -> anyhow::Result<ImportStep> {
    let address = path.display().to_string();
    let piece = read_piece(&address, at, IMPORT_LINES).await?;
    let work = async {
        let counts = take_in(store, network, workspace, rules, &piece.posts, None).await?;
        let error = (!piece.bad.is_empty()).then(|| format!("{} lines could not be read", piece.bad.len()));
        Ok((counts, error))
    };
    let counts = in_a_run(store, workspace, &format!("file:{address}"), work).await?;
    Ok(ImportStep {
        seen: counts.seen,
        stored: counts.stored,
        skipped: counts.skipped,
        enqueued: counts.enqueued,
        bad: piece.bad,
        end: piece.end,
        more: piece.more,
    })
}

async fn read_piece(address: &str, start: u64, lines: usize) -> anyhow::Result<Piece> {
    let path = address.trim().to_owned();
    tokio::task::spawn_blocking(move || piece(Path::new(&path), start, lines))
        .await
        .context("reading a file")?
}

fn piece(path: &Path, start: u64, lines: usize) -> anyhow::Result<Piece> {
    let mut file = std::fs::File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.seek(SeekFrom::Start(start)).with_context(|| format!("reading {}", path.display()))?;
    let mut reader = BufReader::new(file);
    let mut piece = Piece { end: start, ..Piece::default() };
    let mut line = Vec::new();
    for _ in 0..lines {
        line.clear();
        let n = reader.read_until(b'\n', &mut line).with_context(|| format!("reading {}", path.display()))?;
        // A last line without its end is still being written, unless it is whole already.
        if n == 0 || (!line.ends_with(b"\n") && serde_json::from_slice::<Post>(&line).is_err()) {
            return Ok(piece);
        }
        let at = piece.end;
        piece.end += n as u64;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match read_line(&line) {
            Ok(post) => piece.posts.push(post),
            Err(error) => piece.bad.push(format!("{} at byte {at}: not a post: {error}", path.display())),
        }
    }
    piece.more = true;
    Ok(piece)
}

fn read_line(line: &[u8]) -> Result<RawPost, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("{} bytes in one line, at most {LINE_BYTES_MAX}", line.len()));
    }
    let post: Post = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if post.owner_id == 0 || post.post_id == 0 {
        return Err("owner_id and post_id must not be 0".to_owned());
    }
    Ok(raw(post))
}

fn raw(post: Post) -> RawPost {
    let (owner_id, post_id) = (post.owner_id, post.post_id);
    let walls = platforms::walls::usual();
    let platform = walls.map_or("file", |(platform, _)| platform.name());
    let pictures = post.photos.iter().filter(|photo| is_web_address(photo));
    RawPost {
        source: format!("{platform}:{owner_id}"),
        origin_id: post_id.to_string(),
        origin: Origin {
            source: platform.into(),
            owner_id: Some(owner_id),
            post_id: Some(post_id),
            url: walls.map(|(_, walls)| walls.post_page(owner_id, post_id)),
            date: Some(post.date),
            edited: None,
        },
        pictures: pictures
            .map(|url| RawPicture { key: url.clone(), url: url.clone(), ..RawPicture::default() })
            .collect(),
        text: post.text,
        copies: post.copy_history,
        ..RawPost::default()
    }
}
