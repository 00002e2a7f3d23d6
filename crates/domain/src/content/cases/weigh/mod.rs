//! Weighs one post against one known case: what speaks for one story, what against, what forbids it.
//! Every point has a sentence; must not know which case wins.

mod circumstance;
mod identity;
mod look;

use std::borrow::Borrow;

use serde::{Deserialize, Serialize};

use self::circumstance::{OTHER_DAY_TOLD, weigh_place, weigh_time, weigh_town};
use self::identity::{
    OTHER_NAME, brings_own_picture, is_series, shared_name, weigh_contacts, weigh_names, weigh_next_find,
    weigh_origin, weigh_pictures, weigh_text,
};
use self::look::weigh_look;
use super::index::CaseRecord;
use super::reference::Closing;
use super::sketch::{NameSketch, Sketch, stem_hash};
use super::weights::*;
use crate::content::{Animal, Kind, Sex};
use crate::ids::CaseId;

/// What a reason is about; rules ask for these, never for points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    Repost,
    Link,
    Picture,
    Phone,
    Account,
    Person,
    Name,
    /// Some words in common, most of them, nearly all of them.
    Text,
    CloseText,
    SameText,
    /// A place that singles out; `Place` when it does not.
    NamedPlace,
    Place,
    Reference,
    Mark,
    Breed,
    Look,
    Time,
    Town,
    Story,
}

/// One thing that speaks for or against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub ground: Ground,
    pub words: String,
    pub points: i32,
}

/// The sum for one case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Weighing {
    pub score: i32,
    pub reasons: Vec<Reason>,
    /// What forbids the merge, whatever the score.
    pub vetoes: Vec<String>,
    /// Something singles this animal out: a number, a name, a picture, its own words.
    pub identified: bool,
    /// The post is, or points at, a post that the case holds.
    pub reposted: bool,
    /// Points taken off for what was only guessed.
    pub guessed: i32,
    /// A post of the case came from the same source.
    pub same_source: bool,
    /// A finder's happy end for an owner's case, or the other way: right only if no case of its own side claims it.
    pub other_voice: bool,
    /// An animal of which a town has few.
    pub rare: bool,
    /// Lost against found: at best the other side of one story.
    pub opposed: bool,
}

impl Weighing {
    fn add(&mut self, ground: Ground, points: i32, words: impl Into<String>) {
        if points != 0 {
            self.score += points;
            self.reasons.push(Reason { ground, words: words.into(), points });
        }
    }

    fn identify(&mut self, ground: Ground, points: i32, words: impl Into<String>) {
        self.identified = true;
        self.add(ground, points, words);
    }

    /// Something of this ground speaks for one story.
    fn has(&self, ground: Ground) -> bool {
        self.reasons.iter().any(|reason| reason.ground == ground && reason.points > 0)
    }

    /// A number, a picture or the place it came from: more than a name.
    pub fn points_at_it(&self) -> bool {
        self.reposted
            || [Ground::Phone, Ground::Picture, Ground::Reference].iter().any(|ground| self.has(*ground))
    }

    /// A number or a picture of the case.
    pub fn shows_it(&self) -> bool {
        self.has(Ground::Phone) || self.has(Ground::Picture)
    }

    /// Its name is the name of the case.
    pub fn calls_it(&self) -> bool {
        self.has(Ground::Name)
    }

    fn forbid(&mut self, words: impl Into<String>) {
        self.vetoes.push(words.into());
    }

    pub fn is_same(&self, sketch: &Sketch) -> bool {
        let enough = if sketch.wordless { SAME_SCORE_WORDLESS } else { SAME_SCORE };
        self.vetoes.is_empty() && !self.opposed && self.identified && self.score >= enough
    }

    /// Fits nearly as well as the best one, so that neither can be taken; a guess does not decide between two.
    pub fn rivals(&self, best: &Weighing) -> bool {
        self.reposted == best.reposted
            && self.other_voice == best.other_voice
            && best.score - (self.score - self.guessed) < AMBIGUOUS_MARGIN
    }

    pub fn is_related(&self) -> bool {
        self.opposed && self.vetoes.is_empty() && self.score >= RELATED_SCORE
    }
}

/// How many of the cases looked at share a thing with the post: what many share identifies none.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    pub phones: Vec<(String, usize)>,
    pub people: Vec<(u64, usize)>,
    pub names: usize,
    /// Several numbers or names, each known from another case: a list of stories.
    pub is_list: bool,
}

impl Crowd {
    pub fn count(sketch: &Sketch, records: &[impl Borrow<CaseRecord>]) -> Crowd {
        let holding = |test: &dyn Fn(&Sketch) -> bool| -> Vec<CaseId> {
            let held = records.iter().map(Borrow::borrow).filter(|record| record.members.iter().any(test));
            held.map(|record| record.id).collect()
        };
        let phones: Vec<(String, Vec<CaseId>)> = sketch
            .phones
            .iter()
            .map(|phone| (phone.clone(), holding(&|member| member.phones.contains(phone))))
            .collect();
        let people = sketch
            .people
            .iter()
            .map(|person| (*person, holding(&|member| member.people.contains(person)).len()));
        let mut alone: Vec<CaseId> = phones
            .iter()
            .filter_map(|(_, cases)| if let [case] = cases[..] { Some(case) } else { None })
            .collect();
        alone.sort_unstable();
        alone.dedup();
        Crowd {
            people: people.collect(),
            names: namesakes(sketch, records),
            is_list: alone.len() > 1 || tells_of_several(sketch, records),
            phones: phones.into_iter().map(|(phone, cases)| (phone, cases.len())).collect(),
        }
    }
}

/// The words name animals of several cases that share a number with the post: "один уехал домой, другая ждёт".
fn tells_of_several(sketch: &Sketch, records: &[impl Borrow<CaseRecord>]) -> bool {
    let ours = |member: &Sketch| member.phones.iter().any(|phone| sketch.phones.contains(phone));
    let told = |name: &&NameSketch| {
        sketch.names.iter().any(|own| own.is_like(name))
            || name.stems.iter().any(|stem| stem.chars().count() >= 4 && sketch.text.tells(stem_hash(stem)))
    };
    let members =
        records.iter().flat_map(|record| record.borrow().members.iter()).filter(|member| ours(member));
    let mut names = members.flat_map(|member| &member.names).filter(told);
    let first = names.next();
    first.is_some_and(|first| names.any(|name| !name.is_like(first)))
}

/// Cases of an animal of the same name; a happy end can only mean those that are still open.
fn namesakes(sketch: &Sketch, records: &[impl Borrow<CaseRecord>]) -> usize {
    let waiting = |record: &CaseRecord| sketch.kind != Kind::Reunited || record.closed_at.is_none();
    let named =
        |record: &CaseRecord| record.members.iter().any(|member| shared_name(sketch, member).is_some());
    records.iter().map(Borrow::borrow).filter(|record| waiting(record) && named(record)).count()
}

/// Weighs a post against a case.
pub fn weigh(sketch: &Sketch, record: &CaseRecord, crowd: &Crowd) -> Weighing {
    let mut weighing = Weighing::default();
    let case = Case { record };
    weigh_origin(&mut weighing, sketch, case);
    weigh_pictures(&mut weighing, sketch, case);
    weigh_contacts(&mut weighing, sketch, case, crowd);
    weigh_names(&mut weighing, sketch, case, crowd);
    weigh_text(&mut weighing, sketch, case);
    weigh_place(&mut weighing, sketch, case);
    weigh_look(&mut weighing, sketch, case);
    weigh_next_find(&mut weighing, sketch);
    weigh_time(&mut weighing, sketch, case);
    weigh_town(&mut weighing, sketch, case);
    weigh_sides(&mut weighing, sketch, case);
    weigh_litter(&mut weighing, sketch, case);
    corroborate(&mut weighing, sketch, case);
    forbid_generic(&mut weighing, sketch, case, crowd);
    forbid_coincidence(&mut weighing, sketch, case);
    forbid_other_event(&mut weighing, sketch, case);
    trust_identity(&mut weighing, sketch, case);
    weighing.reasons.sort_by_key(|reason| -reason.points.abs());
    weighing
}

/// The members of a case, asked together.
#[derive(Clone, Copy)]
struct Case<'a> {
    record: &'a CaseRecord,
}

impl<'a> Case<'a> {
    fn members(self) -> impl Iterator<Item = &'a Sketch> {
        self.record.members.iter()
    }

    fn any(self, test: impl Fn(&Sketch) -> bool) -> bool {
        self.members().any(test)
    }

    fn has_kind(self, kind: Kind) -> bool {
        self.record.last_of(kind).is_some()
    }

    /// The case was announced in this kind before; sightings and thanks come from anyone.
    fn announced(self, kind: Kind) -> bool {
        !matches!(kind, Kind::Sighting | Kind::Reunited) && self.has_kind(kind)
    }

    /// The member that says best which species it is.
    fn animal(self) -> Option<&'a Sketch> {
        let known = |member: &&Sketch| member.animal != Animal::Unknown;
        self.members().filter(known).find(|member| member.animal_sure).or_else(|| self.members().find(known))
    }

    /// The member that says best which sex it is.
    fn sex(self) -> Option<&'a Sketch> {
        let known = |member: &&Sketch| member.sex != Sex::Unknown;
        self.members().filter(known).find(|member| member.sex_sure).or_else(|| self.members().find(known))
    }
}

/// Lost and found are two sides; a closing post ends one of them.
fn weigh_sides(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let owner = case.has_kind(Kind::Lost);
    let finder = !owner && (case.has_kind(Kind::Found) || case.has_kind(Kind::Adoption));
    // Whoever gives the owner's number with the animal's name or picture is no stranger, unless they come with a repost.
    let shown = weighing.has(Ground::Name) || weighing.has(Ground::Picture);
    let stranger = weighing.reposted || !(weighing.has(Ground::Phone) && shown);
    weighing.opposed = match sketch.kind {
        Kind::Lost => finder && stranger,
        Kind::Found => owner && stranger,
        Kind::Adoption => owner,
        _ => false,
    };
    // A kind that is only guessed does not part what is the same post or the same picture and number.
    let same = weighing.reposted || weighing.has(Ground::Picture) && weighing.has(Ground::Phone);
    weighing.opposed &= sketch.kind_sure || !same;
    let other_voice = match sketch.closing {
        Closing::Finder | Closing::Home => owner,
        Closing::Owner => finder && !case.has_kind(Kind::Adoption),
        Closing::None | Closing::Unsaid => false,
    };
    weighing.other_voice = other_voice && !weighing.reposted;
    if sketch.kind == Kind::Reunited && case.record.closed_at.is_none() {
        let points = if sketch.closing == Closing::Unsaid { CLOSES_UNSAID } else { CLOSES };
        weighing.add(Ground::Story, points, "ends an open case");
    }
    if sketch.kind == Kind::Sighting && owner && weighing.has(Ground::Name) {
        weighing.add(Ground::Story, SIGHTED, "seen, and called by its name");
    }
    if (sketch.follow_up || sketch.repeat) && !weighing.opposed {
        weighing.add(Ground::Story, FOLLOW_UP, "says that it continues a story");
    }
    let again = matches!(sketch.kind, Kind::Lost | Kind::Found | Kind::Sighting);
    let text_same = weighing.has(Ground::SameText);
    if let Some(closed_at) = case.record.closed_at
        && again
        && sketch.date > closed_at
        && !weighing.reposted
        && !text_same
    {
        weighing.forbid("the case was closed before");
    }
}

/// "Осталась одна", from the same number: what is left of a litter is the litter's story.
fn weigh_litter(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let same = weighing.has(Ground::Phone) || weighing.has(Ground::Person);
    let young = case.any(|member| member.litter || member.remaining);
    if sketch.remaining && same && young && case.any(|member| member.animal == sketch.animal) {
        weighing.identify(Ground::Story, LITTER_LEFT, "what is left of a litter");
    }
}

/// Things that single nobody out alone, but together do: a name that is only mentioned beside a place or a person, a
/// place beside the same words or marks.
fn corroborate(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let has = |grounds: &[Ground]| grounds.iter().any(|ground| weighing.has(*ground));
    let named = has(&[Ground::Name])
        && has(&[
            Ground::Story,
            Ground::Person,
            Ground::Place,
            Ground::NamedPlace,
            Ground::Text,
            Ground::Mark,
        ]);
    let somewhere = has(&[Ground::Place, Ground::NamedPlace]);
    let placed = has(&[Ground::NamedPlace]) && has(&[Ground::Text, Ground::Mark, Ground::Person]);
    let known = has(&[Ground::Person]) && has(&[Ground::Place, Ground::NamedPlace, Ground::Phone]);
    let looks = somewhere && has(&[Ground::Mark]) && has(&[Ground::Breed, Ground::Text])
        || somewhere && has(&[Ground::Breed]) && has(&[Ground::Text]);
    // A happy end, told where the story began, ends the one story that fits.
    let ends = sketch.kind == Kind::Reunited
        && case.record.closed_at.is_none()
        && weighing.same_source
        && (has(&[Ground::NamedPlace, Ground::Mark, Ground::Person]) || weighing.rare);
    let referred = has(&[Ground::Reference]) && has(&[Ground::Phone]);
    if named || !is_series(sketch.kind) && (placed || known || looks || ends) {
        weighing.identified = true;
    }
    if referred {
        weighing.add(Ground::Reference, PHONE_REFERRED, "and gives its number");
    }
}

/// A name that was only guessed gives way to what singles the animal out: the same picture with the same phone is the
/// same animal. Species and sex need nothing here: they forbid only where both posts state them. Not in a series:
/// shelters put all their animals into one form under one banner.
fn trust_identity(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let has = |grounds: &[Ground]| grounds.iter().any(|ground| weighing.has(*ground));
    let pictured = has(&[Ground::Picture]);
    let identity = pictured && has(&[Ground::Phone, Ground::NamedPlace]) && !is_series(sketch.kind);
    let stated = |sketch: &Sketch| sketch.names.iter().any(|name| name.stated);
    let guessed = !is_series(sketch.kind)
        && (pictured || weighing.score >= RENAMED_SCORE)
        && !(stated(sketch) && case.any(stated));
    if (identity || guessed) && weighing.vetoes.iter().any(|veto| veto == OTHER_NAME) {
        weighing.vetoes.retain(|veto| veto != OTHER_NAME);
        weighing.add(Ground::Name, RENAMED, "another name");
    }
}

/// Phrases that anyone writes, with different pictures, are different animals.
fn forbid_generic(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>, crowd: &Crowd) {
    let pictured = !sketch.pictures.is_empty() && case.any(|member| !member.pictures.is_empty());
    if pictured && sketch.is_generic() && !weighing.identified {
        weighing.forbid("a phrase that anyone writes, with another picture");
    }
    let alone = weighing.reasons.iter().all(|reason| {
        reason.points < 0
            || matches!(reason.ground, Ground::Picture | Ground::Look | Ground::Time | Ground::Town)
    });
    let worded = !sketch.wordless && sketch.text.is_generic();
    let called = !sketch.phones.is_empty();
    if weighing.has(Ground::Picture) && alone && worded && called && case.announced(sketch.kind) {
        weighing.forbid("a phrase that anyone writes, under a picture that others use");
    }
    let digest = sketch.many || crowd.is_list || case.members().all(|member| member.many);
    let literal = weighing.reposted || weighing.has(Ground::SameText) || weighing.has(Ground::Picture);
    if digest && !literal {
        weighing.forbid("a list of several stories");
    }
}

/// Two announcements of one kind with other phones, other places and other words share a name or a picture by chance:
/// names are common, and groups decorate posts with one banner.
fn forbid_coincidence(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let against =
        |ground: Ground| weighing.reasons.iter().any(|reason| reason.ground == ground && reason.points < 0);
    let words =
        [Ground::Text, Ground::CloseText, Ground::SameText].iter().any(|ground| weighing.has(*ground));
    let elsewhere = against(Ground::Phone) && against(Ground::Place);
    // Neighbours: one street and a common name, but nothing that an owner would repeat.
    let strangers = against(Ground::Phone) && against(Ground::Picture) && !weighing.has(Ground::NamedPlace);
    let both = weighing.has(Ground::Name) && weighing.has(Ground::Picture);
    if case.announced(sketch.kind)
        && elsewhere
        && !words
        && !both
        && !weighing.has(Ground::Mark)
        && !weighing.reposted
    {
        weighing.forbid("another phone, another place and other words");
    }
    if case.announced(sketch.kind) && strangers && !weighing.has(Ground::Mark) && !weighing.reposted {
        weighing.forbid("another phone, other pictures and not the same place");
    }
}

/// An announcement that names another day than those before it tells of another event, unless it says the same words:
/// an animal that is lost again months later, a second one of the same owner, the next find of the same finder.
fn forbid_other_event(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let other_day = weighing.reasons.iter().any(|reason| reason.words == OTHER_DAY_TOLD);
    if !other_day || weighing.reposted || weighing.has(Ground::SameText) {
        return;
    }
    let silent_s = sketch.date.saturating_sub(case.record.last_seen_at);
    if silent_s > OLD_S {
        weighing.forbid("another day, after months of silence");
    }
    let alike = [Ground::Name, Ground::CloseText, Ground::Mark].iter().any(|ground| weighing.has(*ground));
    let other_pictures =
        weighing.reasons.iter().any(|reason| reason.ground == Ground::Picture && reason.points < 0);
    if other_pictures && !alike {
        weighing.forbid("another day, with other pictures and other words");
    }
    // Groups put one banner under every post; what counts is a picture that the case does not have.
    if sketch.kind == Kind::Found && brings_own_picture(sketch, case) {
        weighing.forbid("another day, and a picture of its own: the next find");
    }
}
