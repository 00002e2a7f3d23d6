//! The table of weights: one feature a line, with the points it gives in hundredths.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use super::Question;
use crate::content::lexicon::WordHasher;
use crate::content::lexicon::morph::key;

/// The line that every post shows.
const BIAS: &str = "bias";

/// The weights of one question.
#[derive(Debug, Default, Clone)]
pub struct Table {
    bias: Vec<i16>,
    lines: HashMap<u64, Line, BuildHasherDefault<WordHasher>>,
    weights: Vec<(u8, i16)>,
    /// One bit for each line: most features stand in no line, and this is small enough to stay near the processor.
    sieve: Vec<u64>,
}

/// Bits of the sieve; with some ten thousand lines nine of ten strangers are told at once.
const SIEVE_BITS: usize = 1 << 17;

fn sieve_place(feature: u64) -> (usize, u64) {
    let bit = (feature >> 20) as usize % SIEVE_BITS;
    (bit / 64, 1 << (bit % 64))
}

/// Where the weights of a feature stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Line {
    from: u32,
    to: u32,
}

impl Table {
    /// Reads `family:first+second answer=points …` lines.
    pub fn read(question: Question, text: &str) -> Result<Table, String> {
        let answers = question.answers();
        let mut table =
            Table { bias: vec![0; answers.len()], sieve: vec![0; SIEVE_BITS / 64], ..Table::default() };
        for (number, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong =
                || format!("weights of {}, line {}: {line:?} is no weight", question.name(), number + 1);
            let mut parts = line.split(' ');
            let name = parts.next().ok_or_else(wrong)?;
            let from = table.weights.len() as u32;
            for part in parts {
                let (answer, points) = part.split_once('=').ok_or_else(wrong)?;
                let answer = answers.iter().position(|known| *known == answer).ok_or_else(wrong)?;
                let points: i16 = points.parse().map_err(|_| wrong())?;
                if name == BIAS {
                    table.bias[answer] = points;
                } else {
                    table.weights.push((answer as u8, points));
                }
            }
            if name != BIAS {
                let (word, bit) = sieve_place(key_of(name));
                table.sieve[word] |= bit;
                table.lines.insert(key_of(name), Line { from, to: table.weights.len() as u32 });
            }
        }
        Ok(table)
    }

    pub fn line(&self, feature: u64) -> Option<Line> {
        let (word, bit) = sieve_place(feature);
        let may_be = self.sieve.get(word).is_some_and(|known| known & bit != 0);
        if may_be { self.lines.get(&feature).copied() } else { None }
    }

    /// The answers that a line speaks of, with its points in hundredths.
    pub fn points(&self, line: Option<Line>) -> &[(u8, i16)] {
        line.map_or(&[], |line| &self.weights[line.from as usize..line.to as usize])
    }

    pub fn bias(&self) -> &[i16] {
        &self.bias
    }

    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// The weights of every question.
#[derive(Debug, Default, Clone)]
pub struct Weights {
    tables: [Table; 3],
}

impl Weights {
    pub fn new(kind: Table, animal: Table, sex: Table) -> Weights {
        Weights { tables: [kind, animal, sex] }
    }

    pub fn of(&self, question: Question) -> &Table {
        &self.tables[question as usize]
    }
}

const KIND: &str = include_str!("weights/kind.weights");
const ANIMAL: &str = include_str!("weights/animal.weights");
const SEX: &str = include_str!("weights/sex.weights");

static WEIGHTS: LazyLock<Result<Weights, String>> = LazyLock::new(|| read_all(texts()));
/// What is asked where the weights are damaged: no program comes so far, because it asks `ready` first.
static NONE: LazyLock<Weights> = LazyLock::new(Weights::default);

fn read_all(texts: [(Question, &str); 3]) -> Result<Weights, String> {
    let read = |(question, text)| {
        Table::read(question, text).map_err(|error| {
            format!("the weights of posts inside this program are damaged ({error}); install it again")
        })
    };
    let [kind, animal, sex] = texts;
    Ok(Weights::new(read(kind)?, read(animal)?, read(sex)?))
}

/// The fitted weights. Their text is part of the program.
pub fn weights() -> &'static Weights {
    WEIGHTS.as_ref().unwrap_or(&NONE)
}

/// Whether the weights can be read.
pub fn ready() -> Result<(), &'static str> {
    WEIGHTS.as_ref().map(|_| ()).map_err(String::as_str)
}

/// The texts behind `weights`, for the test that fits them again.
pub fn texts() -> [(Question, &'static str); 3] {
    let [kind, animal, sex] = Question::ALL;
    [(kind, KIND), (animal, ANIMAL), (sex, SEX)]
}

/// The number of `family:first+second`.
fn key_of(name: &str) -> u64 {
    let (family, parts) = name.split_once(':').unwrap_or((name, ""));
    let parts: Vec<u64> = parts.split('+').map(key).collect();
    join(family, &parts)
}

pub(super) fn join(family: &str, parts: &[u64]) -> u64 {
    let mut sum = key(family);
    for part in parts {
        sum = (sum.rotate_left(17) ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_weights_are_a_clear_error() {
        assert_eq!(ready(), Ok(()));
        for (line, text) in [(1, "bias lost=many"), (2, "bias lost=1\nsays:кот pet=4"), (1, "says:кот lost")]
        {
            let mut damaged = texts();
            damaged[0].1 = text;
            let error = read_all(damaged).unwrap_err();
            let named = format!("damaged (weights of kind, line {line}: ");
            assert!(error.contains(&named) && error.ends_with("install it again"), "{error}");
        }
    }
}
