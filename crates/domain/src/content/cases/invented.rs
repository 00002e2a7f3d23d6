//! Invented posts by number, for measuring lookups over many known cases.
//! The same number always gives the same post; the crowding is that of life: common names, a few streets that everyone
//! lives in, and volunteers whose phone stands in one post of ten.

use super::marks::Coat;
use super::reference::Closing;
use super::sketch::{NameSketch, Origin, PlaceSketch, Sketch};
use crate::content::picture::PictureHash;
use crate::content::similarity::{SIGNATURE_ROWS, TextSketch, mix};
use crate::content::{Animal, Kind, Sex};

const SOURCES: u64 = 18;
const TOWNS: u64 = 9;
const NAMES: u64 = 300;
const STREETS_PER_TOWN: u64 = 400;
const VOLUNTEERS: u64 = 40;
const WORDS: u64 = 6_000;

/// The post of this number; seconds pass from one to the next.
pub fn invented(number: u64) -> Sketch {
    let mut dice = Dice(mix(number ^ 0x5eed));
    let source = dice.below(SOURCES);
    let town = format!("город{}", source % TOWNS);
    let kind = [
        Kind::Lost,
        Kind::Lost,
        Kind::Lost,
        Kind::Found,
        Kind::Found,
        Kind::Adoption,
        Kind::Sighting,
        Kind::Fundraising,
    ][dice.below(8) as usize];
    Sketch {
        origin: Origin { owner_id: -(source as i64) - 1, post_id: number as i64 + 1 },
        date: 1_700_000_000 + number as i64 * 40,
        refers: Vec::new(),
        links: Vec::new(),
        kind,
        kind_sure: true,
        animal: if dice.below(2) == 0 { Animal::Dog } else { Animal::Cat },
        sex: [Sex::M, Sex::F, Sex::Unknown][dice.below(3) as usize],
        animal_sure: true,
        sex_sure: true,
        phones: phones(&mut dice, number),
        accounts: Vec::new(),
        people: vec![2_100_000_000 + dice.below(1 << 30)],
        names: if dice.below(3) == 0 { Vec::new() } else { vec![name(common(&mut dice, NAMES))] },
        breed: None,
        age_months: None,
        coat: Coat(1 << dice.below(6)),
        marks: Vec::new(),
        city: (dice.below(2) == 0).then(|| town.clone()),
        home_city: Some(town),
        places: vec![PlaceSketch {
            words: vec![format!("улица{}", common(&mut dice, STREETS_PER_TOWN))],
            numbers: vec![(1 + dice.below(200)).to_string()],
        }],
        referred: Vec::new(),
        when_day: Some(19_000 + (number / 2_000) as i64),
        text: text(&mut dice),
        pictures: (0..1 + dice.below(2))
            .map(|_| PictureHash { across: dice.next(), down: dice.next() })
            .collect(),
        closing: Closing::None,
        repeat: false,
        follow_up: false,
        litter: false,
        remaining: false,
        many: false,
        wordless: false,
    }
}

fn name(number: u64) -> NameSketch {
    let name = format!("имя{number}");
    NameSketch { stems: vec![name.clone()], name, stated: true }
}

/// Telling words of which some are common to many, and a signature that nobody shares.
fn text(dice: &mut Dice) -> TextSketch {
    let mut telling: Vec<u32> = (0..20 + dice.below(30)).map(|_| mix(common(dice, WORDS)) as u32).collect();
    telling.sort_unstable();
    telling.dedup();
    TextSketch { telling, signature: (0..SIGNATURE_ROWS).map(|_| dice.next() as u32).collect() }
}

/// One post in ten names a volunteer, the others a number of their own.
fn phones(dice: &mut Dice, number: u64) -> Vec<String> {
    let volunteer = dice.below(10) == 0;
    let digits = if volunteer { dice.below(VOLUNTEERS) } else { VOLUNTEERS + number };
    vec![format!("+7901{digits:07}")]
}

/// Small numbers come often, large ones seldom.
fn common(dice: &mut Dice, range: u64) -> u64 {
    let (one, other) = (dice.below(range), dice.below(range));
    one.min(other).min(dice.below(range))
}

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, range: u64) -> u64 {
        self.next() % range
    }
}
