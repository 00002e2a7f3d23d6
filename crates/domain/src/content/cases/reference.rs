//! How a post points back at an earlier one: "котёнок с Мельникайте", and whose story a closing post ends.
//! Reads words of cleaned text only.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::content::Kind;
use crate::content::lexicon::lexicon;
use crate::content::lexicon::morph::{self, Pos, bit};
use crate::content::similarity::{is_stop, stem};

/// A reference stands at the beginning of a post, within this many words.
const REFERENCE_WORDS: usize = 12;

/// Whose story a closing post ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closing {
    /// Not a closing post.
    #[default]
    None,
    /// The owner's: the lost animal is back.
    Owner,
    /// The finder's: the owner turned up, or the animal stays.
    Finder,
    /// The shelter's: a home was found.
    Home,
    /// A happy end that does not say whose.
    Unsaid,
}

/// Reads from whose side a post of kind `reunited` is written.
pub fn closing(kind: Kind, words: &[&str]) -> Closing {
    if kind != Kind::Reunited {
        return Closing::None;
    }
    let tables = Phrases::get();
    let turned_out = words.iter().any(|word| matches!(*word, "оказался" | "оказалась" | "оказалось"));
    let handed_over = near(words, &tables.masters, &tables.turned_up);
    if turned_out || handed_over || near(words, &tables.keep, &tables.ourselves) {
        Closing::Finder
    } else if near(words, &tables.settled, &tables.home)
        || words.iter().take(LEAVING_WORDS).any(|word| matches!(*word, "уехал" | "уехала" | "уехали"))
        || words.iter().any(|word| word.starts_with("пристроен"))
    {
        Closing::Home
    } else if words.iter().any(|word| tables.came_back.contains(*word)) {
        Closing::Owner
    } else {
        Closing::Unsaid
    }
}

/// A word of each set within four neighbouring words.
fn near(words: &[&str], heads: &BTreeSet<&str>, tails: &BTreeSet<&str>) -> bool {
    let holds = |window: &[&str], set: &BTreeSet<&str>| window.iter().any(|word| set.contains(word));
    let windows = words.windows(NEAR_WORDS.min(words.len()).max(1));
    windows.into_iter().any(|window| holds(window, heads) && holds(window, tails))
}

const NEAR_WORDS: usize = 4;
/// "Гоша уехал!": who says so at the beginning has given it away.
const LEAVING_WORDS: usize = 3;

/// Stems after "с", "из" or "от" at the beginning of a text, before anything has happened in it.
pub fn referred_places(words: &[&str]) -> Vec<String> {
    let mut referred = Vec::new();
    let mut words = words.iter().take(REFERENCE_WORDS);
    while let Some(word) = words.next() {
        if happens(word) {
            break;
        }
        if matches!(*word, "с" | "со" | "из" | "от") {
            let after = words.clone().take(3).filter(|word| !is_stop(&stem(word)) && !is_verb(word));
            referred.extend(after.map(|word| stem(word)));
        }
    }
    referred
}

/// The post says at its beginning that it continues a story: "по собаке с остановки", "ещё один телефон".
pub fn continues(words: &[&str]) -> bool {
    let beginning = &words[..words.len().min(REFERENCE_WORDS)];
    let animal = |word: &&str| Phrases::get().animals.contains(&stem(word));
    let about = beginning.first().is_some_and(|word| matches!(*word, "по" | "про"))
        && beginning.iter().skip(1).take(3).any(animal);
    let to_a_post = beginning
        .windows(2)
        .any(|window| matches!(window, ["посту" | "поста" | "объявлению", "о" | "про" | "об"]));
    let again = beginning.windows(3).any(|window| {
        matches!(window, ["еще", "один" | "второй" | "другой", "телефон" | "номер" | "контакт"])
    });
    let reminds = beginning.iter().take(REMINDING_WORDS).any(|word| {
        matches!(*word, "помните" | "помнишь" | "upd" | "апд" | "апдейт" | "продолжение" | "дополнение")
    });
    let on_the_matter = beginning.windows(2).any(|window| matches!(window, ["по", "поводу"]));
    about || to_a_post || again || reminds || on_the_matter
}

/// A reminder is among the first words.
const REMINDING_WORDS: usize = 4;

/// "Осталась одна", "осталось двое", "последний": part of a litter has found its homes.
pub fn remains(kind: Kind, words: &[&str]) -> bool {
    let beginning = &words[..words.len().min(2 * REFERENCE_WORDS)];
    let left = |word: &&str| {
        matches!(*word, "остался" | "осталась" | "осталось" | "остались" | "последний" | "последняя")
    };
    matches!(kind, Kind::Adoption | Kind::Reunited) && beginning.iter().any(left)
}

/// What somebody does is no place to come from.
fn is_verb(word: &str) -> bool {
    let morph = morph::known(lexicon(), word).morph;
    happens(word) || morph.pos == Pos::Verb && morph.is(bit::KNOWN)
}

/// A verb that begins a story of its own: what follows is not a reference.
fn happens(word: &str) -> bool {
    Phrases::get().happens.contains(word)
}

struct Phrases {
    masters: BTreeSet<&'static str>,
    turned_up: BTreeSet<&'static str>,
    keep: BTreeSet<&'static str>,
    ourselves: BTreeSet<&'static str>,
    settled: BTreeSet<&'static str>,
    home: BTreeSet<&'static str>,
    came_back: BTreeSet<&'static str>,
    happens: BTreeSet<&'static str>,
    animals: BTreeSet<String>,
}

impl Phrases {
    fn get() -> &'static Phrases {
        static PHRASES: LazyLock<Phrases> = LazyLock::new(|| Phrases {
            masters: words(
                "хозяин хозяева хозяйка хозяйке хозяйку хозяйки хозяину хозяевам хозяев хозяина владелец владельцы владельцу родители",
            ),
            turned_up: words(
                "нашлись нашелся нашлась нашли объявились объявился объявилась отозвались отозвался забрали забрал забрала \
                 передали передан передана вернули отдали отдан отдана приехали воссоединились воссоединился",
            ),
            keep: words("оставили оставила оставил остается осталась остался остались оставляем оставляю"),
            ourselves: words("себе себя нас меня нами"),
            settled: words(
                "уехал уехала уехали пристроен пристроена пристроены обрел обрела обрели нашел нашла нашли",
            ),
            home: words("дом домой семью семье семья руки"),
            came_back: words(
                "вернулся вернулась вернулись нашелся нашлась нашлись нашли пришел пришла дома отбой",
            ),
            happens: words(
                "пропал пропала пропали потерялся потерялась потерялись убежал убежала сбежал сбежала ушел ушла исчез \
                 исчезла найден найдена найдены нашел нашла подобрал подобрала подобрали выпал выпала выпрыгнул сорвался \
                 сорвалась вылетел вылетела вышел вышла выбежал выбежала",
            ),
            animals: stems_of(
                "собаке собаку собачке псу пса псе щенку щенка щенке щенкам коту кота коте кошке кошку котенку котенка котятам \
                 попугаю животному",
            ),
        });
        &PHRASES
    }
}

fn words(words: &'static str) -> BTreeSet<&'static str> {
    words.split_whitespace().collect()
}

fn stems_of(words: &str) -> BTreeSet<String> {
    words.split_whitespace().map(stem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_closing(text: &str, expected: Closing) {
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(closing(Kind::Reunited, &words), expected, "{text}");
    }

    #[test]
    fn a_closing_post_says_whose_story_it_ends() {
        check_closing("спаниель с остановки хозяева нашлись", Closing::Finder);
        check_closing("отдали хозяину всем спасибо", Closing::Finder);
        check_closing("никто не признал оставили у себя", Closing::Finder);
        check_closing("шаман уехал домой теперь у него свой двор", Closing::Home);
        check_closing("рич дома худой но живой", Closing::Owner);
        check_closing("байкал вернулся своим ходом", Closing::Owner);
        check_closing("жужа дома нашли рабочие на стройке", Closing::Owner);
        check_closing("пушок нашел дом", Closing::Home);
        check_closing("барсик пристроен живет теперь в сарапуле", Closing::Home);
        check_closing("бигль оказался бубликом", Closing::Finder);
        check_closing("отбой тревоги", Closing::Owner);
        check_closing("ура всем спасибо", Closing::Unsaid);
    }

    #[test]
    fn only_reunited_posts_close() {
        assert_eq!(closing(Kind::Lost, &["дома"]), Closing::None);
    }

    #[test]
    fn a_follow_up_says_so_at_its_beginning() {
        let check = |text: &str| continues(&text.split_whitespace().collect::<Vec<_>>());
        assert!(check("к посту про британца с мильчакова вот еще один телефон"));
        assert!(check("по собаке с остановки пионер это альма"));
        assert!(!check("пропал кот помогите найти"));
    }

    #[test]
    fn a_reference_stands_before_the_story() {
        let referred = |text: &str| referred_places(&text.split_whitespace().collect::<Vec<_>>());
        assert!(referred("котенок с мельникайте 97 теперь у меня").contains(&stem("мельникайте")));
        assert!(referred("рыжая с веревкой с лесобазы поймана").contains(&stem("лесобазы")));
        assert!(referred("хозяин нашелся песель с закиева уже дома").contains(&stem("закиева")));
        assert!(referred("пропал кот с балкона на широтной").is_empty());
    }
}
