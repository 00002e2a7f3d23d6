//! VK's mention syntax inside plain text: read where it came from VK, disarmed where it would go to VK.

use domain::message::Message;

use crate::render::markup::{Href, Role, Run};

/// Bytes of one `[target|words]`; longer ones stay as they stand.
const MENTION_BYTES_MAX: usize = 512;

/// Keeps a mention from being read as one: invisible, no width, no line break.
pub const WORD_JOINER: char = '\u{2060}';

/// The body as runs. In a post from VK `[id1|Анна]` becomes a link to the page of id1: it is often the only contact.
pub fn body_runs(message: &Message, text: &str) -> Vec<Run> {
    let is_from_vk = message.origin.as_ref().is_some_and(|origin| origin.source == crate::vk::NAME);
    if !is_from_vk {
        return vec![Run::plain(text, Role::Body)];
    }
    let mut runs = Vec::new();
    let mut plain_from = 0;
    let mut from = 0;
    while let Some(open) = text[from..].find('[').map(|at| at + from) {
        let Some((run, end)) = mention(&text[open..]) else {
            from = open + 1;
            continue;
        };
        runs.push(Run::plain(&text[plain_from..open], Role::Body));
        runs.push(run);
        from = open + end;
        plain_from = from;
    }
    runs.push(Run::plain(&text[plain_from..], Role::Body));
    runs.retain(|run| !run.text.is_empty());
    runs
}

/// `[id1|Анна]` at the start of a text, and where it ends.
fn mention(text: &str) -> Option<(Run, usize)> {
    // Another bracket ends the search: a wall of brackets is read once, not once per bracket.
    let end = text.bytes().take(MENTION_BYTES_MAX).skip(1).position(|byte| b"[]\n".contains(&byte))? + 1;
    if text.as_bytes()[end] != b']' {
        return None;
    }
    let (target, words) = text.get(1..end)?.split_once('|')?;
    let words = words.trim();
    if words.is_empty() {
        return None;
    }
    let page = ["id", "club", "public", "event"].iter().find_map(|kind| target.strip_prefix(kind));
    let is_page = page.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
    let address = if is_page { format!("https://vk.com/{target}") } else { target.to_owned() };
    let href = Href::new(&address).filter(|_| is_page || domain::message::is_web_address(&address))?;
    Some((Run { href: Some(href), ..Run::plain(words, Role::Body) }, end + 1))
}

/// Puts a word joiner into everything that VK would read as a mention: `[x|y]`, `@name`, `@все`, `*name`.
/// Works across runs, and a second time changes nothing.
pub fn disarm(runs: Vec<Run>) -> Vec<Run> {
    let whole: String = runs.iter().map(|run| run.text.as_str()).collect();
    if !whole.contains(['[', '@', '*']) {
        return runs;
    }
    let last_bar = whole.rfind('|').unwrap_or(0);
    let mut before = None;
    let mut chars = whole.char_indices().peekable();
    let mut armed = Vec::new();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        if is_armed(before, c, next, at < last_bar) {
            armed.push(at + c.len_utf8());
        }
        before = Some(c);
    }
    insert(runs, &armed)
}

fn is_armed(before: Option<char>, c: char, next: Option<char>, has_bar_after: bool) -> bool {
    let Some(next) = next else { return false };
    let is_word_start = before.is_none_or(|before| !before.is_alphanumeric() && before != '_');
    match c {
        '[' => has_bar_after && (next.is_ascii_alphanumeric() || next == '@' || next == '*'),
        '@' => is_word_start && (next.is_alphanumeric() || next == '_'),
        '*' => is_word_start && next.is_ascii_alphanumeric(),
        _ => false,
    }
}

/// A word joiner at each of the byte offsets, which count over all runs together.
fn insert(runs: Vec<Run>, offsets: &[usize]) -> Vec<Run> {
    let mut offsets = offsets.iter().copied().peekable();
    let mut start = 0;
    let mut out = Vec::with_capacity(runs.len());
    for run in runs {
        let mut text = String::with_capacity(run.text.len());
        let mut from = 0;
        // An offset at the end of a run belongs to it: the joiner follows the sign it disarms.
        while let Some(at) = offsets.next_if(|at| *at <= start + run.text.len()) {
            text.push_str(&run.text[from..at - start]);
            text.push(WORD_JOINER);
            from = at - start;
        }
        text.push_str(&run.text[from..]);
        start += run.text.len();
        out.push(run.with_text(text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::message::Origin;

    fn read(text: &str) -> String {
        let origin = Origin { source: crate::vk::NAME.into(), ..Origin::default() };
        let message = Message { origin: Some(origin), ..Message::default() };
        body_runs(&message, text)
            .iter()
            .map(|run| match &run.href {
                Some(href) => format!("<{}→{}>", run.text, href.as_str()),
                None => run.text.clone(),
            })
            .collect()
    }

    #[test]
    fn mentions_of_a_vk_post_become_links() {
        assert_eq!(
            read("Звоните [id15|Анне] или [club7|нам]!"),
            "Звоните <Анне→https://vk.com/id15> или <нам→https://vk.com/club7>!"
        );
        assert_eq!(read("[https://vk.com/wall-1_2|пост]"), "<пост→https://vk.com/wall-1_2>");
        for plain in [
            "[id|x]",
            "[idx|x]",
            "[javascript:x|y]",
            "[id1|]",
            "[id1 x]",
            "[[id1",
            "массив[1|2]",
            "[tg://a|b]",
        ] {
            assert_eq!(read(plain), plain);
        }
    }

    fn disarmed(pieces: &[&str]) -> String {
        let runs = pieces.iter().map(|piece| Run::plain(*piece, Role::Body)).collect();
        let once = disarm(runs);
        assert_eq!(disarm(once.clone()), once, "idempotent");
        once.iter().map(|run| run.text.replace(WORD_JOINER, "¦")).collect()
    }

    #[test]
    fn mentions_going_to_vk_are_disarmed() {
        assert_eq!(disarmed(&["@all и @все, [id1|x], *id1 (x)"]), "@¦all и @¦все, [¦id1|x], *¦id1 (x)");
        assert_eq!(disarmed(&["@", "all"]), "@¦all", "also across runs");
        assert_eq!(disarmed(&["кот@example.org 2*x [1] a | b"]), "кот@example.org 2*x [¦1] a | b");
    }
}
