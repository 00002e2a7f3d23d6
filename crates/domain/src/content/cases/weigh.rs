//! Weighs one post against one known case: what speaks for one story, what against, what forbids it.
//! Every point has a sentence; must not know which case wins.

use serde::{Deserialize, Serialize};

use super::index::CaseRecord;
use super::marks::is_thing;
use super::reference::Closing;
use super::sketch::{PlaceSketch, Sketch, same_name, stem_hash};
use super::weights::*;
use crate::content::picture::PICTURE_SAME_DISTANCE;
use crate::content::similarity::stem;
use crate::content::{Animal, Kind, Sex};

/// One thing that speaks for or against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
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
    /// A post of the case came from the same source.
    pub same_source: bool,
    /// Lost against found: at best the other side of one story.
    pub opposed: bool,
}

impl Weighing {
    fn add(&mut self, points: i32, words: impl Into<String>) {
        if points != 0 {
            self.score += points;
            self.reasons.push(Reason { words: words.into(), points });
        }
    }

    fn identify(&mut self, points: i32, words: impl Into<String>) {
        self.identified = true;
        self.add(points, words);
    }

    fn forbid(&mut self, words: impl Into<String>) {
        self.vetoes.push(words.into());
    }

    pub fn is_same(&self, sketch: &Sketch) -> bool {
        let enough = if sketch.wordless { SAME_SCORE_WORDLESS } else { SAME_SCORE };
        self.vetoes.is_empty() && !self.opposed && self.identified && self.score >= enough
    }

    pub fn is_related(&self) -> bool {
        self.opposed && self.vetoes.is_empty() && self.score >= RELATED_SCORE
    }
}

/// How many of the cases looked at share a thing with the post: what many share identifies none.
#[derive(Debug, Clone, Default)]
pub struct Crowd {
    pub phones: Vec<(String, usize)>,
    pub names: usize,
}

impl Crowd {
    pub fn count(sketch: &Sketch, records: &[impl std::borrow::Borrow<CaseRecord>]) -> Crowd {
        let phones = sketch.phones.iter().map(|phone| {
            let holds =
                |record: &CaseRecord| record.members.iter().any(|member| member.phones.contains(phone));
            (phone.clone(), records.iter().filter(|record| holds((*record).borrow())).count())
        });
        let named =
            |record: &CaseRecord| record.members.iter().any(|member| shared_name(sketch, member).is_some());
        Crowd {
            phones: phones.collect(),
            names: records.iter().filter(|record| named((*record).borrow())).count(),
        }
    }
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
    weigh_time(&mut weighing, sketch, case);
    weigh_town(&mut weighing, sketch, case);
    weigh_sides(&mut weighing, sketch, case);
    weigh_generic(&mut weighing, sketch, case);
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

    fn animal(self) -> Animal {
        self.members()
            .map(|member| member.animal)
            .find(|animal| *animal != Animal::Unknown)
            .unwrap_or_default()
    }

    fn sex(self) -> Sex {
        self.members().map(|member| member.sex).find(|sex| *sex != Sex::Unknown).unwrap_or_default()
    }
}

fn weigh_origin(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let known = |member: &Sketch| {
        member.refers.contains(&sketch.origin)
            || sketch.refers.iter().any(|origin| *origin == member.origin || member.refers.contains(origin))
    };
    if case.any(known) {
        weighing.reposted = true;
        weighing.identify(REPOST, "repost of a post in this case");
    }
}

fn weigh_pictures(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let pairs = case
        .members()
        .flat_map(|member| &member.pictures)
        .flat_map(|known| sketch.pictures.iter().map(|own| own.distance(*known)));
    let Some(nearest) = pairs.min() else { return };
    if nearest <= PICTURE_SAME_DISTANCE {
        weighing.identify(PICTURE_SAME, "same picture");
    } else if nearest <= crate::content::picture::PICTURE_NEAR_DISTANCE {
        weighing.identify(PICTURE_NEAR, "same picture, changed a little");
    } else if !weighing.reposted {
        weighing.add(OTHER_PICTURES, "other pictures");
    }
}

fn weigh_contacts(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>, crowd: &Crowd) {
    let shared: Vec<_> =
        crowd.phones.iter().filter(|(phone, _)| case.any(|member| member.phones.contains(phone))).collect();
    if let Some((phone, cases)) = shared.iter().min_by_key(|(_, cases)| *cases) {
        let full = phone_points(sketch, case);
        let divisor = PHONE_CROWD_DIVISOR[(*cases).saturating_sub(1).min(PHONE_CROWD_DIVISOR.len() - 1)];
        let words = if divisor > 1 {
            format!("phone {phone} that stands in {cases} cases")
        } else {
            format!("phone {phone}")
        };
        if full / divisor >= PHONE_FINDER {
            weighing.identified = true;
        }
        weighing.add(full / divisor, words);
        if shared.len() > 1 && *cases == 1 {
            weighing.add(PHONE_SECOND, "a second phone too");
        }
    } else if !sketch.phones.is_empty() && !sketch.follow_up && case.any(|member| !member.phones.is_empty()) {
        weighing.add(OTHER_PHONES, "other phones");
    }
    if sketch.accounts.iter().any(|account| case.any(|member| member.accounts.contains(account))) {
        weighing.identify(ACCOUNT, "same account for transfers");
    }
    if sketch.people.iter().any(|person| case.any(|member| member.people.contains(person))) {
        weighing.add(PERSON, "same person named");
    }
}

fn phone_points(sketch: &Sketch, case: Case<'_>) -> i32 {
    let shelter = |kind: Kind| matches!(kind, Kind::Adoption | Kind::Fundraising | Kind::Ad | Kind::Other);
    if shelter(sketch.kind) && case.any(|member| shelter(member.kind)) {
        PHONE_SHELTER
    } else if case.has_kind(Kind::Lost) && !shelter(sketch.kind) {
        PHONE_OWNER
    } else {
        PHONE_FINDER
    }
}

fn weigh_names(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>, crowd: &Crowd) {
    if let Some(name) = case.members().find_map(|member| shared_name(sketch, member)) {
        let points = if crowd.names > 1 { NAME_CROWD } else { NAME };
        weighing.identify(points, format!("name {name}"));
        return;
    }
    let named = case.any(|member| !member.names.is_empty());
    if named && !sketch.names.is_empty() {
        weigh_other_name(weighing, sketch, case);
    } else if named && sketch.names.is_empty() && case.any(|member| mentions_name(sketch, member)) {
        weighing.add(NAME_MENTIONED, "its name is mentioned");
    }
}

/// Another name is another animal, except where a finder had to invent the first one.
fn weigh_other_name(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let invented =
        |member: &Sketch| member.names.is_empty() || matches!(member.kind, Kind::Found | Kind::Sighting);
    let owner_speaks = matches!(sketch.closing, Closing::Finder | Closing::Unsaid);
    if case.members().all(invented) && (owner_speaks || sketch.kind == Kind::Adoption) {
        weighing.add(RENAMED, "another name, as the owner says");
    } else if !weighing.reposted {
        weighing.forbid("another name");
    }
}

fn shared_name<'a>(sketch: &'a Sketch, member: &Sketch) -> Option<&'a str> {
    let names = sketch.names.iter().find(|name| member.names.iter().any(|known| same_name(name, known)));
    names.map(String::as_str)
}

fn mentions_name(sketch: &Sketch, member: &Sketch) -> bool {
    let words =
        member.names.iter().flat_map(|name| name.split_whitespace()).filter(|word| word.chars().count() >= 3);
    words.map(stem).any(|word| sketch.text.tells(stem_hash(&word)))
}

fn weigh_text(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let overlaps = case.members().map(|member| sketch.text.overlap(&member.text));
    let best = overlaps.fold((0, ""), |best, overlap| {
        let points = if overlap.share >= TEXT_SAME_SHARE && overlap.common >= TEXT_SAME_COMMON {
            (TEXT_SAME, "same words")
        } else if overlap.share >= TEXT_CLOSE_SHARE && overlap.common >= TEXT_CLOSE_COMMON {
            (TEXT_CLOSE, "mostly the same words")
        } else if overlap.share >= TEXT_SOME_SHARE && overlap.common >= TEXT_SOME_COMMON {
            (TEXT_SOME, "some of the same words")
        } else {
            (0, "")
        };
        if points.0 > best.0 { points } else { best }
    });
    let series = is_series(sketch.kind) && !weighing.identified;
    let points = if series { best.0 / TEXT_SERIES_DIVISOR } else { best.0 };
    if best.0 >= TEXT_CLOSE && !series {
        weighing.identified = true;
    }
    weighing.add(points, best.1);
}

fn is_series(kind: Kind) -> bool {
    matches!(kind, Kind::Adoption | Kind::Fundraising | Kind::Other | Kind::Ad | Kind::News)
}

fn weigh_place(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let pairs = case
        .members()
        .flat_map(|member| &member.places)
        .flat_map(|known| sketch.places.iter().map(move |own| place_points(own, known)));
    let (points, words) = pairs.max_by_key(|(points, _)| *points).unwrap_or((0, String::new()));
    let mentioned = mentioned_place(sketch, case);
    if points > 0 {
        weighing.add(points, words);
    } else if let Some(word) = &mentioned {
        weighing.add(PLACE_MENTIONED, format!("mentions the place «{word}»"));
    } else if !sketch.places.is_empty() && case.any(|member| !member.places.is_empty()) && !weighing.reposted
    {
        weighing.add(OTHER_PLACE, "another place");
    }
    if points >= PLACE_EXACT && !case.has_kind(sketch.kind) {
        weighing.identified = true;
    }
    weigh_reference(weighing, sketch, case);
}

fn weigh_reference(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    // An owner tells a story from its beginning; only "к посту про …" points back.
    if sketch.kind == Kind::Lost && !sketch.follow_up {
        return;
    }
    let placed = |word: &&String| case.any(|member| names_place(member, word));
    let told = |word: &&String| !is_thing(word) && case.any(|member| member.text.tells(stem_hash(word)));
    if let Some(word) = sketch.referred.iter().find(placed) {
        weighing.identify(REFERENCE, format!("speaks of the one from «{word}»"));
    } else if let Some(word) = sketch.referred.iter().find(told) {
        weighing.identify(REFERENCE_WORD, format!("speaks of the one from «{word}»"));
    }
}

fn names_place(member: &Sketch, word: &str) -> bool {
    member.places.iter().any(|place| place.words.iter().any(|known| known == word))
}

fn mentioned_place(sketch: &Sketch, case: Case<'_>) -> Option<String> {
    let known = case.members().flat_map(|member| &member.places).flat_map(|place| &place.words);
    let theirs = known.filter(|word| !is_district(word)).find(|word| sketch.text.tells(stem_hash(word)));
    let own = sketch.places.iter().flat_map(|place| &place.words).filter(|word| !is_district(word));
    let ours = || own.into_iter().find(|word| case.any(|member| member.text.tells(stem_hash(word))));
    theirs.or_else(ours).cloned()
}

fn place_points(own: &PlaceSketch, known: &PlaceSketch) -> (i32, String) {
    let shared: Vec<&String> = own.words.iter().filter(|word| known.words.contains(word)).collect();
    let Some(word) = shared.iter().find(|word| !is_district(word)).or(shared.first()) else {
        return (0, String::new());
    };
    if is_district(word) {
        return (PLACE_DISTRICT, format!("same district «{word}»"));
    }
    let both_numbered = !own.numbers.is_empty() && !known.numbers.is_empty();
    if both_numbered && own.numbers.iter().any(|number| known.numbers.contains(number)) {
        (PLACE_EXACT, format!("same place «{word}» with its number"))
    } else if both_numbered {
        (PLACE_STREET, format!("same street «{word}», another number"))
    } else {
        (PLACE_NAMED, format!("same place «{word}»"))
    }
}

/// Districts and streets that nearly every town has.
fn is_district(stem: &str) -> bool {
    use std::collections::BTreeSet;
    use std::sync::LazyLock;
    static DISTRICTS: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| DISTRICT_WORDS.split_whitespace().map(self::stem).collect());
    DISTRICTS.contains(stem)
}

const DISTRICT_WORDS: &str = "
ленинский советский октябрьский кировский калининский первомайский центральный заводской железнодорожный фрунзенский
дзержинский свердловский индустриальный промышленный московский пролетарский красноармейский северный южный западный
восточный ленина мира победы советская октябрьская
";

fn weigh_look(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    weigh_species(weighing, sketch, case);
    let marks: Vec<_> = sketch
        .marks
        .iter()
        .filter(|mark| case.any(|member| member.marks.contains(mark)))
        .take(MARKS_COUNTED)
        .collect();
    // Two animals of one street may look alike, but the same announcement would not be made twice by strangers;
    // a sighting and a search for the same look at the same place are one story.
    let placed =
        weighing.reasons.iter().any(|reason| reason.points == PLACE_NAMED || reason.points == PLACE_EXACT);
    let other_voice = !case.has_kind(sketch.kind);
    if other_voice && (marks.len() >= 2 || (placed && !marks.is_empty())) {
        weighing.identified = true;
    }
    for mark in marks {
        weighing.add(MARK, format!("same mark: {} {}", mark.thing, mark.look).trim_end().to_owned());
    }
    if case.any(|member| member.coat.shares(sketch.coat)) {
        weighing.add(COAT, "same colour");
    } else if case.any(|member| member.coat.contradicts(sketch.coat)) {
        weighing.add(OTHER_COAT, "another colour");
    }
    weigh_breed(weighing, sketch, case);
    let apart = |member: &Sketch| match (sketch.age_months, member.age_months) {
        (Some(own), Some(known)) => ages_apart(own, known) >= OTHER_AGE_MONTHS,
        _ => false,
    };
    if case.any(apart) {
        weighing.add(OTHER_AGE, "another age");
    }
    if sketch.animal != Animal::Unknown && case.members().all(|member| member.litter != sketch.litter) {
        weighing.add(OTHER_COUNT, "one animal against several");
    }
}

fn ages_apart(one: (u16, u16), other: (u16, u16)) -> i32 {
    let gap = i32::from(one.0.max(other.0)) - i32::from(one.1.min(other.1));
    gap.max(0)
}

fn weigh_species(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    match (sketch.animal, case.animal()) {
        (Animal::Unknown, _) | (_, Animal::Unknown) => {}
        (own, known) if own == known => weighing.add(ANIMAL, format!("both {}", own.name())),
        (Animal::Several, _) | (_, Animal::Several) => {
            weighing.add(OTHER_COUNT, "one species against several");
        }
        _ if weighing.reposted => {}
        (own, known) => weighing.forbid(format!("{} against {}", own.name(), known.name())),
    }
    match (sketch.sex, case.sex()) {
        (Sex::Unknown, _) | (_, Sex::Unknown) => {}
        (own, known) if own == known => weighing.add(SEX, "same sex"),
        _ if weighing.reposted => {}
        _ => weighing.forbid("another sex"),
    }
}

fn weigh_breed(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let Some(own) = &sketch.breed else { return };
    let known: Vec<&String> = case.members().filter_map(|member| member.breed.as_ref()).collect();
    if known.iter().any(|breed| same_breed(own, breed)) {
        weighing.add(BREED, format!("both {own}"));
    } else if !known.is_empty() {
        weighing.add(OTHER_BREED, "another breed");
    }
}

/// "метис лабрадора" and "лабрадор" may be one dog.
fn same_breed(one: &str, other: &str) -> bool {
    one == other || one.contains(other) || other.contains(one)
}

fn weigh_time(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let gap = sketch.date - case.record.last_seen_at;
    if !weighing.reposted {
        let (points, words) = match gap.abs() {
            gap if gap <= FRESH_S => (FRESH, "seen in the last days"),
            gap if gap <= RECENT_S => (RECENT, "seen in the last weeks"),
            gap if gap <= OLD_S => (0, ""),
            gap if gap <= STALE_S => (OLD, "not seen for two months"),
            _ => (STALE, "not seen for half a year"),
        };
        weighing.add(points, words);
    }
    let Some(own) = sketch.when_day else { return };
    let days = case.members().filter_map(|member| Some((member.kind, (member.when_day? - own).abs())));
    let days: Vec<(Kind, i64)> = days.collect();
    let same_kind = days.iter().filter(|(kind, _)| *kind == sketch.kind).map(|(_, apart)| *apart).min();
    match days.iter().map(|(_, apart)| *apart).min() {
        Some(0) => weighing.add(SAME_DAY, "same day"),
        Some(1) => weighing.add(NEXT_DAY, "a day apart"),
        _ if same_kind.is_some_and(|apart| apart >= OTHER_DAY_MIN) && !weighing.reposted => {
            weighing.add(OTHER_DAY, "another day");
        }
        _ => {}
    }
}

fn weigh_town(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    if case.any(|member| member.origin.owner_id == sketch.origin.owner_id) {
        weighing.same_source = true;
        weighing.add(SAME_SOURCE, "same source");
    } else if case.any(|member| sketch.any_city().is_some() && member.any_city() == sketch.any_city()) {
        weighing.add(SAME_TOWN, "same town");
    }
    if case.any(|member| sketch.city.is_some() && member.city == sketch.city) {
        weighing.add(SAME_CITY, "both name the town");
    }
    if weighing.reposted {
        return;
    }
    let relations = case.members().map(|member| town_points(sketch, member));
    if let Some(points) = relations.max()
        && points < 0
    {
        weighing.add(points, "another town");
    }
}

fn town_points(sketch: &Sketch, member: &Sketch) -> i32 {
    match (&sketch.city, &member.city) {
        (Some(own), Some(known)) => {
            if own == known {
                0
            } else {
                OTHER_CITY
            }
        }
        (None, None) => match (&sketch.home_city, &member.home_city) {
            (Some(own), Some(known)) if own != known => OTHER_HOME,
            _ => 0,
        },
        _ => match (sketch.any_city(), member.any_city()) {
            (Some(own), Some(known)) if own != known && sketch.home_city != member.home_city => OTHER_HOME,
            (Some(own), Some(known)) if own != known => OTHER_CITY_HOME,
            _ => 0,
        },
    }
}

/// Lost and found are two sides; a closing post ends one of them.
fn weigh_sides(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let owner = case.has_kind(Kind::Lost);
    let finder = !owner && (case.has_kind(Kind::Found) || case.has_kind(Kind::Adoption));
    weighing.opposed = match (sketch.kind, sketch.closing) {
        (Kind::Lost, _) => finder,
        (Kind::Found | Kind::Adoption, _) => owner,
        (Kind::Reunited, Closing::Finder | Closing::Home) => owner,
        _ => false,
    };
    if weighing.reposted && matches!(sketch.kind, Kind::Reunited) {
        weighing.opposed = false;
    }
    if sketch.kind == Kind::Reunited && !weighing.opposed && case.record.closed_at.is_none() {
        let points = if sketch.closing == Closing::Unsaid { CLOSES_UNSAID } else { CLOSES };
        weighing.add(points, "ends an open case");
    }
    if (sketch.follow_up || sketch.repeat) && !weighing.opposed {
        weighing.add(FOLLOW_UP, "says that it continues a story");
    }
    let again = matches!(sketch.kind, Kind::Lost | Kind::Found | Kind::Sighting);
    let text_same = weighing.reasons.iter().any(|reason| reason.points == TEXT_SAME);
    if let Some(closed_at) = case.record.closed_at
        && again
        && sketch.date > closed_at
        && !weighing.reposted
        && !text_same
    {
        weighing.forbid("the case was closed before");
    }
}

/// Phrases that anyone writes, with different pictures, are different animals.
fn weigh_generic(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let other_pictures = weighing.reasons.iter().any(|reason| reason.points == OTHER_PICTURES);
    if other_pictures && sketch.is_generic() && !weighing.identified {
        weighing.forbid("a phrase that anyone writes, with another picture");
    }
    let digest = sketch.many || case.members().all(|member| member.many);
    let literal = weighing.reposted || weighing.reasons.iter().any(|reason| reason.points >= TEXT_SAME);
    if digest && !literal {
        weighing.forbid("a list of several stories");
    }
}
