//! The species the post is about: nouns and breeds vote, other animals that are only mentioned do not.
//! It must not know the name or the sex.

use std::sync::LazyLock;

use crate::content::lexicon::{Group, Species, case, lexicon};
use crate::content::tokens::{Gap, Reading, Token};
use crate::content::{Animal, Colour, Evidence, Fact, Kind, Sex};

/// A noun for the animal.
const NOUN: f32 = 4.0;
/// A breed names the animal itself more surely than the bare species.
const BREED: f32 = 5.0;
/// A thing or a habit that goes with one species.
const HINT: f32 = 1.0;
/// The first noun of a text is usually the subject.
const FIRST: f32 = 2.0;
/// Told in the sentence of the event.
const EVENT: f32 = 3.0;
/// `с кошками`, `к собакам`: company, not the subject.
const COMPANY: f32 = 0.15;
const PLURAL: f32 = 0.6;
const TAG: f32 = 0.8;
const COMMUNITY: f32 = 0.1;
/// A name that is usual for one species, where nothing else tells.
const USUAL_NAME: f32 = 0.9;
/// `у меня своя кошка`: the author's own animal in a post about a stranger.
const AUTHORS_OWN: f32 = 0.3;
/// A second species this strong makes the post about several.
const SECOND: f32 = 0.62;
const SECOND_AD: f32 = 0.3;

/// The species, and the noun that stands for the subject.
#[derive(Debug)]
pub struct Subject {
    pub animal: Fact<Animal>,
    /// The strongest noun: its grammar tells which agreement counts.
    pub noun: Option<(usize, Species)>,
    mentions: Vec<Mention>,
    totals: [f32; 5],
}

impl Subject {
    /// What the rules gave to a species.
    pub fn total(&self, animal: Animal) -> f32 {
        self.totals.get(animal as usize).copied().unwrap_or(0.0)
    }

    /// The same mentions, read as being about this animal.
    pub fn about(self, reading: &Reading<'_>, value: Animal) -> Subject {
        if value == self.animal.value {
            return self;
        }
        let (evidence, noun) = evidence_of(reading, &self.mentions, value);
        Subject { animal: Fact { value, evidence }, noun, ..self }
    }
}

#[derive(Debug, Clone, Copy)]
struct Mention {
    index: usize,
    species: Species,
    weight: f32,
}

pub(super) fn subject(reading: &Reading<'_>, kind: Kind, event: &[u32]) -> Subject {
    let mut mentions = mentions(reading, kind, event);
    if mentions.iter().all(|mention| mention.weight < USUAL_NAME)
        && !matches!(kind, Kind::News | Kind::Other | Kind::Ad)
    {
        mentions.extend(usual_name(reading).or_else(|| usual_colour(reading)));
    }
    let mut totals = [0.0_f32; 5];
    for mention in &mentions {
        totals[mention.species.animal as usize] += mention.weight;
    }
    cap_repeats(&mentions, &mut totals);
    let value = decide(&totals, &mentions, kind, plural_event(reading, event));
    let (evidence, noun) = evidence_of(reading, &mentions, value);
    Subject { animal: Fact { value, evidence }, noun, mentions, totals }
}

/// The words that show the animal, and its noun.
fn evidence_of(
    reading: &Reading<'_>,
    mentions: &[Mention],
    value: Animal,
) -> (Vec<Evidence>, Option<(usize, Species)>) {
    let shown: Vec<&Mention> = match value {
        Animal::Several => {
            mentions.iter().filter(|mention| mention.species.noun && mention.weight >= 2.0).take(3).collect()
        }
        _ => strongest(mentions, |mention| mention.species.animal == value).into_iter().collect(),
    };
    let mut evidence = Vec::new();
    for mention in shown {
        let rule = match (mention.species.noun, mention.species.breed.is_some()) {
            (true, true) => "animal.breed",
            (true, false) => "animal.noun",
            (false, _) if mention.weight == USUAL_NAME => "animal.usual",
            (false, _) => "animal.hint",
        };
        evidence.push(reading.evidence(rule, mention.index, mention.index));
    }
    let noun = strongest(mentions, |mention| {
        mention.species.noun && (value == Animal::Several || mention.species.animal == value)
    });
    (evidence, noun.map(|mention| (mention.index, mention.species)))
}

fn strongest(mentions: &[Mention], fits: impl Fn(&Mention) -> bool) -> Option<&Mention> {
    let mut best: Option<&Mention> = None;
    for mention in mentions.iter().filter(|mention| fits(mention)) {
        if best.is_none_or(|best| mention.weight > best.weight) {
            best = Some(mention);
        }
    }
    best
}

fn mentions(reading: &Reading<'_>, kind: Kind, event: &[u32]) -> Vec<Mention> {
    let mut found: Vec<Mention> = Vec::new();
    let mut first_noun = true;
    for (index, token) in reading.tokens.iter().enumerate() {
        let Some(species) = token.entry().and_then(|entry| entry.species) else { continue };
        if token.mention || reading.in_footer(token) || (token.quoted && species.noun && token.capital()) {
            continue;
        }
        // `Белка`, `Лис`: a hint with a capital is a name; in public posts a hint says nothing.
        let public = matches!(kind, Kind::News | Kind::Ad | Kind::Other);
        let name =
            token.capital() && !token.tag && (token.gap < Gap::Emoji || species.animal == Animal::Other);
        if !species.noun && (name || public) {
            continue;
        }
        let mut weight = weigh(reading, index, token, species, kind);
        if species.noun && !token.tag && weight >= 2.0 {
            if first_noun {
                weight += FIRST;
            }
            first_noun = false;
            if event.binary_search(&token.sentence).is_ok() {
                weight += EVENT;
            }
        }
        found.push(Mention { index, species, weight });
    }
    found
}

/// `Барсик`, `Полкан`: names that nearly always mean one species.
fn usual_name(reading: &Reading<'_>) -> Option<Mention> {
    reading.tokens.iter().enumerate().find_map(|(index, token)| {
        let entry = token.entry()?;
        let usual = entry.pet_animal != Animal::Unknown
            && token.capital()
            && !token.mention
            && !token.quoted
            && entry.person.is_none();
        let species = Species {
            animal: entry.pet_animal,
            noun: false,
            sex: Sex::Unknown,
            gender: Sex::Unknown,
            breed: None,
            young: false,
        };
        usual.then_some(Mention { index, species, weight: USUAL_NAME })
    })
}

/// `трёхцветная`, said of cats far more often than of dogs.
fn usual_colour(reading: &Reading<'_>) -> Option<Mention> {
    let index = reading.tokens.iter().position(|token| {
        !token.tag && token.entry().is_some_and(|entry| entry.colour == Some(Colour::Tricolour))
    })?;
    let (sex, gender) = (Sex::Unknown, Sex::Unknown);
    let species = Species { animal: Animal::Cat, noun: false, sex, gender, breed: None, young: false };
    Some(Mention { index, species, weight: USUAL_NAME })
}

fn weigh(reading: &Reading<'_>, index: usize, token: &Token, species: Species, kind: Kind) -> f32 {
    let mut weight = match (species.noun, species.breed.is_some()) {
        (true, true) => BREED,
        (true, false) => NOUN,
        (false, true) => 2.0,
        (false, false) => HINT,
    };
    let cases = token.entry().map_or(0, |entry| entry.cases);
    let plural = species.noun && cases & case::PLURAL != 0;
    if token.tag {
        let alone = community_tag(reading, index);
        return weight * TAG * if plural { PLURAL } else { 1.0 } * if alone { COMMUNITY } else { 1.0 };
    }
    if plural && !species.young {
        weight *= PLURAL;
    }
    if token.quoted && kind == Kind::Other {
        return weight * COMPANY * 0.5;
    }
    if !species.noun {
        return weight;
    }
    let before = (index > 0 && token.gap < Gap::Comma).then(|| &reading.tokens[index - 1]);
    let word_before = before.map_or("", |before| reading.word(before));
    let public = matches!(kind, Kind::Ad | Kind::News | Kind::Other);
    let counted = before.is_some_and(|before| {
        before.is_number() || before.entry().is_some_and(|entry| entry.number.is_some())
    });
    let crowd = !(public || counted || species.young && kind == Kind::Adoption);
    if crowd && is_company(word_before, cases, plural) || compares(reading, index) {
        return weight * COMPANY;
    }
    let stranger = matches!(kind, Kind::Found | Kind::Sighting | Kind::Adoption);
    let own = matches!(
        word_before,
        "моя"
            | "мой"
            | "свой"
            | "своя"
            | "мою"
            | "моего"
            | "свою"
            | "своего"
            | "моей"
            | "мои"
            | "моих"
    );
    let after = reading.tokens.get(index + 1).filter(|next| next.gap <= Gap::Space);
    let own = own
        || after
            .is_some_and(|next| matches!(reading.word(next), "мой" | "моя" | "мои") && !reading.opens(index));
    if stranger && own {
        return weight * AUTHORS_OWN;
    }
    let pet = matches!(species.animal, Animal::Dog | Animal::Cat);
    if word_before == "без" || !pet && is_food(cases) && !reading.opens(index) {
        return weight * COMPANY;
    }
    weight
}

/// `кормим курицей`, `гречка с индейкой`: what is eaten stands in the instrumental.
fn is_food(cases: u8) -> bool {
    cases & case::INS != 0 && cases & (case::NOM | case::ACC | case::GEN) == 0
}

/// `#дворняжка76`: a species and the number of a region name a community, not the animal.
fn community_tag(reading: &Reading<'_>, index: usize) -> bool {
    let sentence = reading.tokens[index].sentence;
    let same = |at: Option<usize>| {
        at.and_then(|at| reading.tokens.get(at)).filter(|token| token.sentence == sentence && token.tag)
    };
    let before = same(index.checked_sub(1));
    before.is_none() && same(Some(index + 1)).is_some_and(|next| next.is_number())
}

fn is_company(before: &str, cases: u8, plural: bool) -> bool {
    let crowd = plural && cases & case::NOM == 0;
    let preposition = matches!(
        before,
        "с" | "со"
            | "к"
            | "ко"
            | "на"
            | "от"
            | "про"
            | "за"
            | "других"
            | "другими"
            | "другим"
            | "чужих"
            | "всех"
    );
    crowd || (preposition && plural) || matches!(before, "других" | "другими" | "другим" | "чужих")
}

/// `похож на лису`, `как у терьера`: a comparison.
fn compares(reading: &Reading<'_>, index: usize) -> bool {
    let back = |steps: usize| index.checked_sub(steps).map_or("", |at| reading.word(&reading.tokens[at]));
    let like = |word: &str| word.starts_with("похож") || matches!(word, "как" | "будто" | "словно" | "типа");
    like(back(1)) || (matches!(back(1), "на" | "у") && like(back(2)))
}

/// The same word over and over counts three times at most.
fn cap_repeats(mentions: &[Mention], totals: &mut [f32; 5]) {
    for (slot, total) in totals.iter_mut().enumerate() {
        let mut weights: Vec<f32> = mentions
            .iter()
            .filter(|mention| mention.species.animal as usize == slot)
            .map(|mention| mention.weight)
            .collect();
        weights.sort_by(|left, right| right.total_cmp(left));
        *total = weights.iter().take(3).sum();
    }
}

/// `ушли пёс и кошка`: the verb of the event is in the plural.
fn plural_event(reading: &Reading<'_>, event: &[u32]) -> bool {
    static GROUPS: LazyLock<[Option<Group>; 3]> =
        LazyLock::new(|| ["lost_v", "escape_v", "leave_v"].map(|name| lexicon().group(name)));
    reading.tokens.iter().any(|token| {
        let word = reading.word(token);
        let plural = word.ends_with("ли") || word.ends_with("лись");
        plural
            && event.binary_search(&token.sentence).is_ok()
            && GROUPS.iter().flatten().any(|group| token.is(*group))
    })
}

fn decide(totals: &[f32; 5], mentions: &[Mention], kind: Kind, plural: bool) -> Animal {
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by(|left, right| totals[*right].total_cmp(&totals[*left]));
    let (first, second) = (order[0], order[1]);
    if totals[first] < 0.5 {
        return Animal::Unknown;
    }
    let public = matches!(kind, Kind::Ad | Kind::News | Kind::Other);
    let needed = if public || plural { SECOND_AD } else { SECOND };
    let named = |slot: usize| {
        mentions.iter().any(|mention| {
            mention.species.animal as usize == slot
                && mention.species.noun
                && mention.weight >= if public { 2.0 } else { 5.0 }
        })
    };
    if named(first) && named(second) && totals[second] >= totals[first] * needed {
        return Animal::Several;
    }
    Animal::ALL[first]
}
