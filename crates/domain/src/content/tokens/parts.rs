//! The parts of a text by its lines: the heading, the body, an old post below its update, the footer of the group.
//!
//! What a group writes under every post (`Потеряли? Нашли? Пишите в предложку`) is told by its words and its place,
//! never by being repeated: the same post gives the same parts, whatever was read before.
//! One walk over the tokens and one back. It must not know what a post is for.

use std::ops::Range;
use std::sync::LazyLock;

use super::{Gap, Reading, Token, TokenKind};
use crate::content::lexicon::{Group, lexicon};
use crate::content::normalise::{EMOJI, Normal};

/// Which part of its text a sentence belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Part {
    /// A short first line with more below it.
    Heading,
    #[default]
    Body,
    /// An earlier post that an update stands above.
    Old,
    /// What the group writes under every post.
    Footer,
}

const HEADING_WORDS_MAX: usize = 6;
const FOOTER_WORDS_MAX: usize = 20;
const FOOTER_LINES_MAX: usize = 4;
/// As many digits are a telephone, and that belongs to the post.
const PHONE_DIGITS_MIN: u32 = 7;
/// So many marks and nothing else in a line divide what stands above from what stands below.
const DIVIDER_MARKS_MIN: usize = 3;

#[derive(Debug)]
struct Line {
    tokens: Range<usize>,
    /// A line of dashes or the like stands above.
    divided: bool,
}

struct Words {
    strong: Option<Group>,
    weak: Option<Group>,
    lost: Option<Group>,
    found: Option<Group>,
    /// What an update says: the animal is back, the search is over, something is added.
    news: [Option<Group>; 3],
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let group = |name: &str| lexicon().group(name);
    Words {
        strong: group("footer"),
        weak: group("footer_weak"),
        lost: group("lost_t"),
        found: group("found_v"),
        news: ["returned_v", "close_v", "addition"].map(group),
    }
});

/// The part of every sentence.
pub(super) fn parts(reading: &Reading<'_>, normals: &[Normal]) -> Vec<Part> {
    let mut parts = vec![Part::Body; reading.questions.len()];
    let lines = lines(&reading.tokens, normals);
    reading.count(2 * reading.tokens.len());
    for text in lines.chunk_by(|above, below| text_of(reading, above) == text_of(reading, below)) {
        let (old, footer) = (old(reading, text), footer(reading, text));
        let [first, below @ ..] = text else { continue };
        let told = |line: &Line| {
            !says_nothing(reading, line) && !footer.iter().any(|known| known.tokens == line.tokens)
        };
        if below.iter().any(told) && words(&reading.tokens[first.tokens.clone()]) <= HEADING_WORDS_MAX {
            set(reading, &mut parts, first, Part::Heading);
        }
        old.iter().for_each(|line| set(reading, &mut parts, line, Part::Old));
        footer.iter().for_each(|line| set(reading, &mut parts, line, Part::Footer));
    }
    parts
}

fn text_of(reading: &Reading<'_>, line: &Line) -> u8 {
    reading.tokens[line.tokens.start].text
}

/// Sentences never cross lines.
fn set(reading: &Reading<'_>, parts: &mut [Part], line: &Line, part: Part) {
    for token in &reading.tokens[line.tokens.clone()] {
        parts[token.sentence as usize] = part;
    }
}

/// Hashtags stand in sentences of their own, so a line may hold several.
fn lines(tokens: &[Token], normals: &[Normal]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut text = u8::MAX;
    for (index, token) in tokens.iter().enumerate() {
        let opens = token.text != text;
        // Most tokens stand in the line of the one before.
        if let Some(line) = lines.last_mut().filter(|_| !opens && token.gap < Gap::Line) {
            line.tokens.end = index + 1;
            continue;
        }
        let normal = normals.get(usize::from(token.text)).map_or("", |normal| normal.text.as_str());
        let from = if opens { 0 } else { tokens[index - 1].end as usize };
        let between = normal.get(from..token.start as usize).unwrap_or_default();
        match lines.last_mut() {
            Some(line) if !opens && !between.contains('\n') => line.tokens.end = index + 1,
            _ => lines.push(Line { tokens: index..index + 1, divided: between.split('\n').any(is_divider) }),
        }
        text = token.text;
    }
    lines
}

fn is_divider(line: &str) -> bool {
    let mark =
        |character: char| matches!(character, '-' | '—' | '–' | '_' | '=' | '*' | '~' | '•' | '+' | EMOJI);
    let line = line.trim();
    line.chars().all(mark) && (line.chars().count() >= DIVIDER_MARKS_MIN || line.starts_with(EMOJI))
}

fn words(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| token.kind != TokenKind::Link).count()
}

fn is(token: &Token, group: Option<Group>) -> bool {
    group.is_some_and(|group| token.is(group))
}

/// What stands below a divider or `было:` when the lines above it tell how the story went on.
fn old<'l>(reading: &Reading<'_>, lines: &'l [Line]) -> &'l [Line] {
    let mut looked = 0;
    for (at, line) in lines.iter().enumerate().skip(1) {
        if !line.divided && !says_it_is_old(reading, line) {
            continue;
        }
        let mut above = lines[looked..at].iter().flat_map(|line| line.tokens.clone());
        if above.any(|index| is_update(reading, index)) {
            return &lines[at..];
        }
        looked = at;
    }
    &[]
}

fn is_update(reading: &Reading<'_>, index: usize) -> bool {
    let token = &reading.tokens[index];
    let denied = reading.tokens[index.saturating_sub(2)..index].iter().any(|before| {
        before.sentence == token.sentence && matches!(reading.word(before), "не" | "если" | "пока" | "когда")
    });
    WORDS.news.iter().any(|group| is(token, *group)) && !denied && !reading.asks(index)
}

/// `Было:`, `Старый пост`.
fn says_it_is_old(reading: &Reading<'_>, line: &Line) -> bool {
    let word =
        |at: usize| reading.tokens[line.tokens.clone()].get(at).map_or("", |token| reading.word(token));
    let colon = || {
        let next = reading.tokens.get(line.tokens.start + 1);
        next.is_none_or(|next| next.gap >= Gap::Colon)
    };
    match (word(0), word(1)) {
        ("было" | "ранее" | "старое", _) if colon() => true,
        (first, second) => {
            matches!(first, "старый" | "прошлый" | "исходный" | "прежний" | "старое" | "прежнее" | "исходное")
                && matches!(second, "пост" | "текст" | "объявление")
        }
    }
}

/// The last lines of a text that speak of the group and not of an animal; tags and links may stand among them.
fn footer<'l>(reading: &Reading<'_>, lines: &'l [Line]) -> Vec<&'l Line> {
    let mut found: Vec<&Line> = Vec::new();
    for line in lines.iter().skip(1).rev() {
        if says_nothing(reading, line) {
            continue;
        }
        if found.len() == FOOTER_LINES_MAX || !is_footer(reading, line, !found.is_empty()) {
            break;
        }
        found.push(line);
    }
    found
}

/// Only tags, links and mentions.
fn says_nothing(reading: &Reading<'_>, line: &Line) -> bool {
    let tokens = &reading.tokens[line.tokens.clone()];
    tokens.iter().all(|token| token.tag || token.mention || token.kind == TokenKind::Link)
}

fn is_footer(reading: &Reading<'_>, line: &Line, above_footer: bool) -> bool {
    let tokens = &reading.tokens[line.tokens.clone()];
    let numbers = tokens.iter().filter(|token| token.is_number() && !token.mention);
    let digits: u32 = numbers.map(|token| token.end - token.start).sum();
    if digits >= PHONE_DIGITS_MIN || words(tokens) > FOOTER_WORDS_MAX {
        return false;
    }
    if tokens.iter().any(|token| is(token, WORDS.strong)) {
        return true;
    }
    let has = |group: Option<Group>| tokens.iter().any(|token| is(token, group));
    // `Потеряли? Нашли?` right above what says where to write.
    let asked = above_footer && reading.asks(line.tokens.start) && has(WORDS.lost) && has(WORDS.found);
    let mut weak: Vec<u64> =
        tokens.iter().filter(|token| is(token, WORDS.weak)).map(|token| token.morph.lemma).collect();
    weak.sort_unstable();
    weak.dedup();
    asked || weak.len() + usize::from(line.divided) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::TextRef;
    use crate::content::normalise::normalise;

    /// One letter a line: heading, body, old, footer; `-` is a line without words.
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let reading = Reading::new(vec![text], vec![normalise(TextRef::Own, text)]);
        let mut at = 0;
        let got: String = text
            .split('\n')
            .map(|line| {
                let words = line.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty());
                let Some(word) = words.map(str::to_lowercase) else { return '-' };
                let token = (at..reading.tokens.len())
                    .find(|index| reading.word(&reading.tokens[*index]).starts_with(&word.replace('ё', "е")));
                at = token.unwrap_or(at);
                match reading.part(&reading.tokens[at]) {
                    Part::Heading => 'H',
                    Part::Body => 'B',
                    Part::Old => 'O',
                    Part::Footer => 'F',
                }
            })
            .collect();
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn what_a_group_writes_under_every_post_is_its_footer() {
        check("Пропал кот Барсик, рыжий\nПотеряли? Нашли? Пишите в предложку, публикуем бесплатно.", "BF");
        check(
            "Пропал кот Барсик\nРыжий\n\nПотеряли? Нашли?\nПрисылайте в предложку [club1|Наш город]",
            "HB-FF",
        );
        check("Бегает собака у школы\nот подписчика, вопросы не к админам!\n#город #собака", "BFB");
        check("Пропал кот\nЕсли животное уже дома, напишите [id1|модератору], пост закроем.", "BF");
        check("Пропал кот\nНашёлся — сообщите, снимем объявление", "BF");
    }

    #[test]
    fn what_belongs_to_the_post_is_no_footer() {
        check("Барсик дома!\nСпасибо за репосты!", "HB");
        check("Котёнок на дереве, утром орал\nСнимем сами, лестница есть", "HB");
        check("Пишите в предложку", "B");
        check("Пропал кот\nПишите админу или звоните 8 901 000-00-01", "HB");
        check("Кто потерял щенка? Нашли у школы", "B");
        check("Внимание\nПотеряли собаку? Мы нашли её у школы", "HB");
    }

    #[test]
    fn an_old_post_stands_below_its_update() {
        check("ОБНОВЛЕНИЕ: нашлась, всем спасибо\n-----\nПропала кошка Муся, серая", "H-O");
        check("Барсик вернулся!\nБыло:\nПропал кот Барсик", "HOO");
        check("Нашёлся\nСтарый пост\nПропал кот Барсик", "HOO");
        check("Ушёл и не вернулся\n-----\nСерый, пушистый кот", "H-B");
        check("Пропал кот\n-----\nСерый, пушистый", "H-B");
    }
}
