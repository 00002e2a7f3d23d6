//! The sex: explicit words first, then the name, then what agrees with the animal.
//! Gender that the noun forces (`собака убежала`, `щенок рыжий`) says nothing.

use std::sync::LazyLock;

use crate::content::lexicon::{Group, Species, case, lexicon};
use crate::content::tokens::{Gap, Reading, Token};
use crate::content::{Animal, Evidence, Kind, Sex};

const EXPLICIT: f32 = 6.0;
const NEUTERED: f32 = 5.0;
const NAME: f32 = 3.0;
const NAME_GUESS: f32 = 1.0;
const VERB: f32 = 2.0;
const ADJECTIVE: f32 = 1.5;
/// Agreement that the noun forces.
const FORCED: f32 = 0.0;
/// Two readings closer than this leave the sex open.
const CLEAR: f32 = 1.6;
const ENOUGH: f32 = 1.5;

/// What the rules say of the sex.
#[derive(Debug, Default)]
pub struct Votes {
    pub male: f32,
    pub female: f32,
    best: [Option<(f32, &'static str, usize)>; 2],
    pub explicit: [bool; 2],
    /// Said in so many words of one animal: `кобель`, `мальчик`, `кастрирован`.
    said: [bool; 2],
    /// The same by the word for the dog itself.
    dog: [bool; 2],
    /// `два мальчика`, `две девочки`: counted, so there are several.
    pub litter: [bool; 2],
    pub names: Vec<NameGender>,
    /// How often a rule has spoken for a sex: repeats add less and less.
    counted: Vec<(&'static str, usize, usize)>,
}

impl Votes {
    /// What the votes alone would make of it.
    pub fn rules(&self) -> Sex {
        let has = |sex: Sex| self.names.iter().any(|name| name.sex == sex);
        let mixed = has(Sex::M) && has(Sex::F) || self.litter[0] && self.litter[1];
        let (more, less) = (self.male.max(self.female), self.male.min(self.female));
        if mixed || more < ENOUGH || more < less * CLEAR {
            return Sex::Unknown;
        }
        if self.male >= self.female { Sex::M } else { Sex::F }
    }

    /// The sex that the post states, if it states one and says nothing against it.
    pub fn stated(&self) -> Option<Sex> {
        let counted = self.litter[0] || self.litter[1];
        match (self.said, self.explicit) {
            _ if counted => None,
            ([true, false], [_, false]) => Some(Sex::M),
            ([false, true], [false, _]) => Some(Sex::F),
            _ => None,
        }
    }

    /// The same, where the word for the dog itself counts too: `кобель`, `сука`.
    pub fn stated_or_named(&self) -> Option<Sex> {
        let counted = self.litter[0] || self.litter[1];
        let dog = match (self.dog, self.explicit) {
            _ if counted => None,
            ([true, false], [_, false]) => Some(Sex::M),
            ([false, true], [false, _]) => Some(Sex::F),
            _ => None,
        };
        self.stated().or(dog)
    }

    /// The strongest word for a sex.
    pub fn evidence(&self, reading: &Reading<'_>, sex: Sex) -> Vec<Evidence> {
        let slot = match sex {
            Sex::M => 0,
            Sex::F => 1,
            Sex::Unknown => return Vec::new(),
        };
        self.best[slot].iter().map(|(_, rule, index)| reading.evidence(rule, *index, *index)).collect()
    }

    fn add(&mut self, sex: Sex, weight: f32, rule: &'static str, index: usize) {
        if weight <= 0.0 {
            return;
        }
        let slot = match sex {
            Sex::M => 0,
            Sex::F => 1,
            Sex::Unknown => return,
        };
        let times = match self.counted.iter_mut().find(|seen| (seen.0, seen.1) == (rule, slot)) {
            Some(seen) => {
                seen.2 += 1;
                seen.2 - 1
            }
            None => {
                self.counted.push((rule, slot, 1));
                0
            }
        };
        let weight = if times == 0 { weight } else { weight / (2 * times) as f32 };
        if slot == 0 {
            self.male += weight;
        } else {
            self.female += weight;
        }
        if self.best[slot].is_none_or(|best| weight > best.0) {
            self.best[slot] = Some((weight, rule, index));
        }
        if weight >= EXPLICIT {
            self.explicit[slot] = true;
        }
    }
}

struct Groups {
    male: Option<Group>,
    female: Option<Group>,
    castrated: Option<Group>,
    spayed: Option<Group>,
    agreeing: Option<Group>,
    verbs: [Option<Group>; 7],
}

/// Names already recognised: their gender, as the dictionary or their ending tells it.
#[derive(Debug, Clone, Copy)]
pub struct NameGender {
    pub index: usize,
    pub sex: Sex,
    pub known: bool,
}

pub(super) fn votes(
    reading: &Reading<'_>,
    kind: Kind,
    animal: Animal,
    noun: Option<(usize, Species)>,
    names: &[NameGender],
) -> Votes {
    static GROUPS: LazyLock<Groups> = LazyLock::new(groups);
    let mut votes = Votes::default();
    for (index, token) in reading.tokens.iter().enumerate() {
        if token.mention || token.entry().is_none() || reading.in_footer(token) {
            continue;
        }
        let mother = noun.is_some_and(|(at, species)| species.young && at != index);
        explicit(reading, index, token, animal, mother, &GROUPS, &mut votes);
        // Public posts speak of animals in general, not of one that a verb could agree with.
        if !matches!(kind, Kind::Other | Kind::News | Kind::Ad) {
            agreement(reading, index, token, noun, &GROUPS, &mut votes);
        }
    }
    for name in names {
        votes.add(name.sex, if name.known { NAME } else { NAME_GUESS }, "sex.name", name.index);
    }
    votes.names = names.to_vec();
    votes
}

fn groups() -> Groups {
    let group = |name: &str| lexicon().group(name);
    Groups {
        male: group("male"),
        female: group("female"),
        castrated: group("castrated_m"),
        spayed: group("spayed_f"),
        agreeing: group("agreeing"),
        verbs: ["lost_v", "escape_v", "leave_v", "returned_v", "stray_v", "found_p", "adopted_p"].map(group),
    }
}

fn is(token: &Token, group: Option<Group>) -> bool {
    group.is_some_and(|group| token.is(group))
}

fn explicit(
    reading: &Reading<'_>,
    index: usize,
    token: &Token,
    animal: Animal,
    mother: bool,
    groups: &Groups,
    votes: &mut Votes,
) {
    let Some(entry) = token.entry() else { return };
    if let Some(species) = entry.species.filter(|species| species.sex != Sex::Unknown) {
        let same = animal == Animal::Unknown || species.animal == animal;
        let mut weight = noun_weight(reading, index, token, species, entry.cases);
        // `котята от домашней кошки`: the mother, not the subject.
        if mother && (entry.cases & case::NOM == 0 || entry.cases & case::PLURAL != 0) {
            weight = 0.0;
        }
        if same {
            votes.add(species.sex, weight, "sex.noun", index);
            // `кобель`, `сука`: of a dog these words are said to tell the sex.
            let told = species.animal == Animal::Dog && species.breed.is_none() && weight >= EXPLICIT;
            votes.dog[usize::from(species.sex == Sex::F)] |= told;
        }
    }
    if token.tag {
        return;
    }
    for (group, sex) in [(groups.male, Sex::M), (groups.female, Sex::F)] {
        if is(token, group) {
            let weight = word_weight(reading, index, token);
            votes.add(sex, weight, "sex.word", index);
            votes.said[usize::from(sex == Sex::F)] |= weight >= EXPLICIT;
            votes.litter[usize::from(sex == Sex::F)] |= is_counted(reading, index);
        }
    }
    if is(token, groups.castrated) {
        votes.add(Sex::M, NEUTERED, "sex.neutered", index);
        votes.said[0] = true;
    } else if is(token, groups.spayed) {
        votes.add(Sex::F, NEUTERED, "sex.neutered", index);
        votes.said[1] = true;
    }
}

/// `кот` and `кошка` tell the sex of the one animal, not of a crowd, a tag or the company it keeps.
fn noun_weight(reading: &Reading<'_>, index: usize, token: &Token, species: Species, cases: u8) -> f32 {
    if token.tag {
        return if species.breed.is_some() || cases & case::PLURAL != 0 { 0.0 } else { 1.6 };
    }
    let before = (index > 0 && token.gap < Gap::Comma).then(|| reading.word(&reading.tokens[index - 1]));
    let before = before.unwrap_or("");
    let aside = matches!(before, "моя" | "мой" | "свой" | "своя" | "как" | "других") && !reading.opens(index);
    let after = reading.tokens.get(index + 1).filter(|next| next.gap <= Gap::Space);
    let mine = after.is_some_and(|next| matches!(reading.word(next), "мой" | "моя" | "наш" | "наша"));
    if token.quoted || aside || mine && !reading.opens(index) {
        return 0.5;
    }
    let plural =
        cases & case::PLURAL != 0 && cases & (case::NOM | case::ACC | case::INS | case::DAT | case::LOC) != 0;
    if plural {
        // `кошки` may be the genitive of one; without a preposition before it, it is a crowd.
        let described = before.ends_with("ой") || before.ends_with("ей");
        let one = cases & case::GEN != 0
            && (described || matches!(before, "от" | "у" | "нет" | "для" | "хозяев" | "хозяина" | "без"));
        return if one { 2.0 } else { 0.0 };
    }
    if matches!(before, "с" | "на" | "к" | "про" | "под") && cases & (case::NOM) == 0 && !reading.opens(index)
    {
        return 0.8;
    }
    // Told of in passing: not the subject of a sentence, and not where people open.
    if cases & case::NOM == 0 && !reading.opens(index) {
        return EXPLICIT / 2.0;
    }
    EXPLICIT
}

/// `девочка` may be a child with a name and an age, or everybody who reads.
fn word_weight(reading: &Reading<'_>, index: usize, token: &Token) -> f32 {
    let next = reading.tokens.get(index + 1).filter(|next| next.sentence == token.sentence);
    let word = reading.word(token);
    let crowd = matches!(
        word,
        "девочки"
            | "мальчики"
            | "девчонки"
            | "мальчишки"
            | "девочкам"
            | "мальчишкам"
            | "мальчишек"
            | "мальчиков"
            | "девочек"
    );
    if crowd && !is_counted(reading, index) {
        return 0.0;
    }
    let child = next.is_some_and(|next| {
        next.gap <= Gap::Space
            && next.capital()
            && next.entry().is_some_and(|entry| entry.person.is_some())
            && reading.tokens.get(index + 2).is_some_and(|age| age.is_number())
    });
    if child { 0.3 } else { EXPLICIT }
}

/// A numeral stands right before.
fn is_counted(reading: &Reading<'_>, index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| &reading.tokens[before]);
    before.is_some_and(|before| {
        before.is_number() || before.entry().is_some_and(|entry| entry.number.is_some())
    })
}

fn agreement(
    reading: &Reading<'_>,
    index: usize,
    token: &Token,
    noun: Option<(usize, Species)>,
    groups: &Groups,
    votes: &mut Votes,
) {
    if token.tag {
        return;
    }
    let verb = groups.verbs.iter().any(|group| is(token, *group));
    if !verb && !is(token, groups.agreeing) {
        return;
    }
    let word = reading.word(token);
    let sex = if verb { verb_gender(word) } else { adjective_gender(word) };
    let Some(sex) = sex else { return };
    if !verb && !stands_free(reading, index) {
        return;
    }
    let factor = agreement_factor(nearest_noun(reading, index).or(noun), sex);
    let weight = if verb { VERB } else { ADJECTIVE };
    let rule = if verb { "sex.verb" } else { "sex.adjective" };
    votes.add(sex, weight * factor, rule, index);
}

/// The animal noun of the same sentence that the word agrees with.
fn nearest_noun(reading: &Reading<'_>, index: usize) -> Option<(usize, Species)> {
    const REACH: usize = 6;
    let sentence = reading.tokens[index].sentence;
    let noun = |at: usize| {
        let token = reading.tokens.get(at).filter(|token| token.sentence == sentence && !token.tag)?;
        let entry = token.entry()?;
        let subject = entry.cases & case::NOM != 0 || entry.cases & case::ACC != 0;
        entry.species.filter(|species| species.noun && subject).map(|species| (at, species))
    };
    (1..=REACH).find_map(|step| index.checked_sub(step).and_then(noun).or_else(|| noun(index + step)))
}

/// What agreement is worth, given the noun that may force it.
fn agreement_factor(noun: Option<(usize, Species)>, sex: Sex) -> f32 {
    let Some((_, species)) = noun else { return 1.0 };
    if species.sex != Sex::Unknown {
        return 0.5;
    }
    if species.gender == Sex::Unknown {
        return 1.0;
    }
    // Against the grammar of the noun: the writer thinks of the animal (`лабрадор, шоколадная`).
    if species.gender != sex {
        return 1.1;
    }
    // A masculine breed word with masculine verbs counts; the young and plain species words do not.
    if sex == Sex::M && species.breed.is_some() && !species.young { 0.8 } else { FORCED }
}

/// An adjective that describes the animal itself stands alone in the list, or before its noun.
fn stands_free(reading: &Reading<'_>, index: usize) -> bool {
    let token = &reading.tokens[index];
    match reading.tokens.get(index + 1) {
        None => true,
        Some(next) if next.gap >= Gap::Comma || next.text != token.text => true,
        Some(next) => {
            let entry = next.entry();
            entry.is_some_and(|entry| entry.species.is_some_and(|species| species.noun))
                || matches!(reading.word(next), "с" | "со" | "и" | "в" | "но" | "без" | "окрас")
        }
    }
}

fn verb_gender(word: &str) -> Option<Sex> {
    if word.ends_with("лась") || word.ends_with("ла") || word.ends_with("на") || word.ends_with("та")
    {
        return Some(Sex::F);
    }
    let plural = word.ends_with('и')
        || word.ends_with("ись")
        || word.ends_with('о')
        || word.ends_with("ось")
        || word.ends_with('ы');
    if plural {
        return None;
    }
    let male = word.ends_with("лся")
        || word.ends_with('л')
        || word.ends_with("ен")
        || word.ends_with("ан")
        || word.ends_with("ез")
        || word.ends_with("ся");
    male.then_some(Sex::M)
}

fn adjective_gender(word: &str) -> Option<Sex> {
    if ["ая", "яя", "ую", "юю"].iter().any(|ending| word.ends_with(ending)) {
        return Some(Sex::F);
    }
    ["ый", "ий", "ого", "его"].iter().any(|ending| word.ends_with(ending)).then_some(Sex::M)
}
