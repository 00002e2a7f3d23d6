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
    lines: HashMap<u64, (u32, u32), BuildHasherDefault<WordHasher>>,
    weights: Vec<(u8, i16)>,
}

impl Table {
    /// Reads `family:first+second answer=points …` lines.
    pub fn read(question: Question, text: &str) -> Result<Table, String> {
        let answers = question.answers();
        let mut table = Table { bias: vec![0; answers.len()], ..Table::default() };
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
                table.lines.insert(key_of(name), (from, table.weights.len() as u32));
            }
        }
        Ok(table)
    }

    pub fn of(&self, feature: u64) -> &[(u8, i16)] {
        let Some((from, to)) = self.lines.get(&feature) else { return &[] };
        &self.weights[*from as usize..*to as usize]
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

static WEIGHTS: LazyLock<Weights> = LazyLock::new(|| {
    let table = |question, text| Table::read(question, text).unwrap_or_default();
    let [kind, animal, sex] = Question::ALL;
    Weights::new(table(kind, KIND), table(animal, ANIMAL), table(sex, SEX))
});

/// The fitted weights. Their text is part of the program, and a test reads it line by line.
pub fn weights() -> &'static Weights {
    &WEIGHTS
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
