//! What an animal looks like, as far as stems can tell: coat colours and distinctive marks
//! ("красный ошейник в горох", "рыжее ухо", "шрам на лапе").
//!
//! A mark is a noun of body or gear with the word beside it; two posts that share one probably mean one animal.
//! Reads stems of cleaned text only and must not know what a post is for.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::content::lexicon::WordHasher;
use crate::content::similarity::{WordSet, is_stop, stem, stemmed};

type WordMap<T> = HashMap<String, T, BuildHasherDefault<WordHasher>>;

/// Marks kept of one post.
pub const MARKS_MAX: usize = 24;

/// A distinctive mark: the thing, and the word that makes it special (empty when the thing itself does).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Mark {
    pub thing: String,
    pub look: String,
}

/// A set of coat colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coat(pub u16);

impl Coat {
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn shares(self, other: Coat) -> bool {
        self.0 & other.0 != 0
    }

    /// Nothing in common although both are named.
    pub fn contradicts(self, other: Coat) -> bool {
        !self.is_empty() && !other.is_empty() && !self.shares(other)
    }

    pub fn insert(&mut self, other: Coat) {
        self.0 |= other.0;
    }
}

/// Finds the marks in the stems of a text, in its order.
pub fn marks(stems: &[String]) -> Vec<Mark> {
    let mut found = Vec::new();
    for (index, word) in stems.iter().enumerate() {
        let Some(thing) = thing(word) else { continue };
        if rare(thing) {
            found.push(Mark { thing: thing.to_owned(), look: String::new() });
        }
        for look in looks(stems, index) {
            found.push(Mark { thing: thing.to_owned(), look });
        }
        if found.len() >= MARKS_MAX {
            break;
        }
    }
    found.sort();
    found.dedup();
    found.truncate(MARKS_MAX);
    found
}

/// Finds the colours of the coat: colour words that do not belong to gear or eyes.
pub fn coat(stems: &[String]) -> Coat {
    let mut coat = Coat::default();
    for (index, word) in stems.iter().enumerate() {
        if let Some(colour) = colour(word)
            && !beside_gear(stems, index)
        {
            coat.insert(colour);
        }
    }
    coat
}

/// True for a word of body or gear, which is never a place.
pub fn is_thing(stem: &str) -> bool {
    thing(stem).is_some()
}

/// The words beside a thing that may describe it: one before, three after, a linking "в" or "с" skipped.
fn looks(stems: &[String], index: usize) -> Vec<String> {
    let before = index.checked_sub(1).and_then(|at| stems.get(at));
    let after = stems.iter().skip(index + 1).filter(|word| !is_stop(word)).take(3);
    before.into_iter().chain(after).filter(|word| describes(word)).cloned().collect()
}

/// A describing word: a colour, or one of the looks people use to tell animals apart.
pub fn describes(stem: &str) -> bool {
    static LOOKS: LazyLock<WordSet> = LazyLock::new(|| stemmed(LOOK_WORDS));
    colour(stem).is_some() || LOOKS.contains(stem)
}

fn beside_gear(stems: &[String], index: usize) -> bool {
    let gear = |at: Option<usize>| at.and_then(|at| stems.get(at)).is_some_and(|word| is_gear(word));
    let next_is_colour = stems.get(index + 1).is_some_and(|word| colour(word).is_some());
    gear(index.checked_add(1)) || (gear(index.checked_sub(1)) && !next_is_colour)
}

fn is_gear(stem: &str) -> bool {
    static GEAR: LazyLock<WordSet> = LazyLock::new(|| stemmed(GEAR_WORDS));
    GEAR.contains(stem)
}

/// The canonical form of a noun of body or gear.
fn thing(stem: &str) -> Option<&'static str> {
    static THINGS: LazyLock<WordMap<&'static str>> = LazyLock::new(|| {
        let lines = THING_WORDS.lines().filter_map(|line| Some((line.split_whitespace().next()?, line)));
        lines
            .flat_map(|(name, line)| line.split_whitespace().map(move |word| (self::stem(word), name)))
            .collect()
    });
    THINGS.get(stem).copied()
}

/// Things so unusual that having one is a mark by itself.
fn rare(thing: &str) -> bool {
    RARE_THINGS.split_whitespace().any(|rare| rare == thing)
}

fn colour(stem: &str) -> Option<Coat> {
    static COLOURS: LazyLock<WordMap<u16>> = LazyLock::new(|| {
        let lines = COLOUR_WORDS.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate();
        lines
            .flat_map(|(bit, line)| line.split_whitespace().map(move |word| (self::stem(word), 1 << bit)))
            .collect()
    });
    if let Some(bits) = COLOURS.get(stem) {
        return Some(Coat(*bits | if *bits == TRICOLOUR { BLACK | WHITE | RED } else { 0 }));
    }
    // "чернобелый", "рыжебелая": the first half ends in о or е.
    let (first, rest) = stem.match_indices(['о', 'е']).find_map(|(at, join)| {
        let first = COLOURS.get(&stem[..at])?;
        Some((*first, &stem[at + join.len()..]))
    })?;
    if rest.is_empty() {
        return Some(Coat(first));
    }
    COLOURS.get(rest).map(|bits| Coat(*bits | first))
}

const BLACK: u16 = 1;
const WHITE: u16 = 1 << 1;
const RED: u16 = 1 << 3;
const TRICOLOUR: u16 = 1 << 5;

/// One family of coat colours a line, in the order of the bits.
const COLOUR_WORDS: &str = "
черный черная черненький
белый белая беленький белоснежный
серый серая серенький дымчатый голубой пепельный серебристый волчий мышиный сизый
рыжий рыжая рыженький персиковый палевый бежевый кремовый песочный золотистый абрикосовый светлорыжий огненный медовый
коричневый шоколадный кофейный бурый каштановый
трехцветный трехцветная черепаховый триколор
зеленый
желтый
синий красный розовый фиолетовый оранжевый
";

/// One thing a line, its canonical name first.
const THING_WORDS: &str = "
ошейник ошейника ошейником
шлейка шлейкой шлея
комбинезон
поводок поводка
веревка веревкой бечевка
цепь цепью цепочка
бант бантик
резинка резиночка
колокольчик бубенчик
адресник жетон медальон подвеска
маячок
платок бандана
попона
ухо уши ушко ушки ушами ушах
глаз глаза глазами глазки глазик
нос носик
хвост хвоста хвостом
лапа лапы лапу лапка лапе лапках
грудь грудка грудке
живот животе пузо брюхо
бок боку
спина спине
шея шее
подбородок
лоб лбу
клык зуб
пятно пятном пятна пятнышко
шрам шрамик рубец
родинка
полоса полоска
манишка галстук галстучек
носочки перчатки
проплешина залысина
порез зарубка надрыв
клеймо
протез
бельмо
шишка опухоль
";

const RARE_THINGS: &str =
    "шрам родинка проплешина порез клеймо протез бельмо шишка веревка цепь колокольчик маячок";

const GEAR_WORDS: &str =
    "ошейник шлейка комбинезон поводок бант бантик резинка резиночка колокольчик адресник жетон
платок бандана попона глаза глаз глазами веревка шерстка подвеска";

const LOOK_WORDS: &str = "левый левая правый правая задний задняя передний передняя разный разные надорванный рваный
сломанный слепой купированный белый горох горошек клетка клетку полоска полоску камуфляжный кожаный брезентовый
тряпочный металлический светящийся вязаный капроновый строгий мутный больной отсутствует нету короткий бубликом
сердечко сердечком кисточка кисточками закрученный голубой желтый янтарный";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::similarity::stems;

    fn check_marks(text: &str, expected: &[(&str, &str)]) {
        let found = marks(&stems(text.split_whitespace()));
        for (thing, look) in expected {
            let mark = Mark {
                thing: (*thing).to_owned(),
                look: if look.is_empty() { String::new() } else { stem(look) },
            };
            assert!(found.contains(&mark), "{mark:?} not in {found:?}");
        }
    }

    fn check_coat(text: &str, expected: u16) {
        assert_eq!(coat(&stems(text.split_whitespace())).0, expected, "{text}");
    }

    #[test]
    fn a_mark_is_a_thing_and_its_look_in_any_order() {
        check_marks("в красном ошейнике в горох", &[("ошейник", "красный"), ("ошейник", "горох")]);
        check_marks("ошейник тряпочный красный в горох", &[("ошейник", "красный")]);
        check_marks("белая одно ухо рыжее", &[("ухо", "рыжее")]);
        check_marks("белую с рыжим ухом", &[("ухо", "рыжее")]);
        check_marks("на лапке шрам", &[("шрам", "")]);
    }

    #[test]
    fn colours_of_gear_and_eyes_are_not_the_coat() {
        check_coat("рыжий кот в синем ошейнике", RED);
        check_coat("серая кошка глаза зеленые", 1 << 2);
        check_coat("белый с черным пятном", BLACK | WHITE);
    }

    #[test]
    fn compound_colours_name_both() {
        check_coat("чернобелый", BLACK | WHITE);
        check_coat("черно белая", BLACK | WHITE);
        check_coat("рыжебелый", RED | WHITE);
    }

    #[test]
    fn colours_contradict_only_when_nothing_is_shared() {
        assert!(Coat(BLACK).contradicts(Coat(RED)));
        assert!(!Coat(BLACK | WHITE).contradicts(Coat(WHITE)));
        assert!(!Coat(0).contradicts(Coat(RED)));
        check_coat("трехцветная", TRICOLOUR | BLACK | WHITE | RED);
    }
}
