//! Where and when: places, references back to a place, days and towns.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::super::marks::{describes, is_thing};
use super::super::sketch::{PlaceSketch, Sketch, stem_hash};
use super::super::weights::*;
use super::{Case, Ground, Weighing};
use crate::content::Kind;
use crate::content::lexicon::lexicon;
use crate::content::similarity::stem;

pub(super) fn weigh_place(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let pairs = case
        .members()
        .flat_map(|member| &member.places)
        .flat_map(|known| sketch.places.iter().map(move |own| place_points(own, known)));
    let (points, words) = pairs.max_by_key(|(points, _)| *points).unwrap_or((0, String::new()));
    let mentioned = mentioned_place(sketch, case);
    if points > 0 {
        let ground = if points >= PLACE_NAMED { Ground::NamedPlace } else { Ground::Place };
        weighing.add(ground, points, words);
    } else if let Some(word) = &mentioned {
        weighing.add(Ground::Place, PLACE_MENTIONED, format!("mentions the place «{word}»"));
    } else if told_elsewhere(sketch, case) && !weighing.reposted {
        weighing.add(Ground::Place, OTHER_PLACE, "another place");
    }
    if points >= PLACE_EXACT && !case.announced(sketch.kind) {
        weighing.identified = true;
    }
    weigh_reference(weighing, sketch, case);
}

/// Both name places; a sighting may lie anywhere, because animals walk.
fn told_elsewhere(sketch: &Sketch, case: Case<'_>) -> bool {
    sketch.kind != Kind::Sighting
        && !sketch.places.is_empty()
        && case.any(|member| !member.places.is_empty() && member.kind != Kind::Sighting)
}

pub(super) fn weigh_reference(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    // An owner tells a story from its beginning, and a shelter gives away many "с Лесной"; only another voice, or a
    // post that says "к посту про …", points back.
    let own_story = sketch.kind == Kind::Lost || case.announced(sketch.kind);
    if own_story && !sketch.follow_up {
        return;
    }
    let placed = |word: &&String| case.any(|member| names_place(member, word));
    let told = |word: &&String| {
        !is_thing(word) && !describes(word) && case.any(|member| member.text.tells(stem_hash(word)))
    };
    if let Some(word) = sketch.referred.iter().find(placed) {
        weighing.identify(Ground::Reference, REFERENCE, format!("speaks of the one from «{word}»"));
    } else if let Some(word) = sketch.referred.iter().find(told) {
        weighing.identify(Ground::Reference, REFERENCE_WORD, format!("speaks of the one from «{word}»"));
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

/// Districts and streets that nearly every town has, and districts of large cities: a hundred thousand people live there.
fn is_district(stem: &str) -> bool {
    static DISTRICTS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let known = lexicon().districts.iter().filter(|district| !district.needs_marker);
        let known = known.flat_map(|district| district.words.iter().map(String::as_str));
        DISTRICT_WORDS.split_whitespace().chain(known).map(self::stem).collect()
    });
    DISTRICTS.contains(stem)
}

const DISTRICT_WORDS: &str = "
ленинский советский октябрьский кировский калининский первомайский центральный заводской железнодорожный фрунзенский
дзержинский свердловский индустриальный промышленный московский пролетарский красноармейский северный южный западный
восточный ленина мира победы советская октябрьская
";

pub(super) const OTHER_DAY_TOLD: &str = "another day";

pub(super) fn weigh_time(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let gap = sketch.date.saturating_sub(case.record.last_seen_at).saturating_abs();
    let again = matches!(sketch.kind, Kind::Lost | Kind::Found | Kind::Sighting);
    if !weighing.reposted {
        let (points, words) = match gap {
            gap if gap <= FRESH_S => (FRESH, "seen in the last days"),
            gap if gap <= RECENT_S => (RECENT, "seen in the last weeks"),
            gap if gap <= OLD_S => (0, ""),
            gap if gap <= STALE_S && again => (OLD_INCIDENT, "not seen for two months"),
            gap if gap <= STALE_S => (OLD, "not seen for two months"),
            _ => (STALE, "not seen for half a year"),
        };
        weighing.add(Ground::Time, points, words);
    }
    let Some(own) = sketch.when_day else { return };
    let days = case.members().filter_map(|member| Some((member.kind, (member.when_day? - own).abs())));
    let days: Vec<(Kind, i64)> = days.collect();
    let same_kind = days.iter().filter(|(kind, _)| *kind == sketch.kind).map(|(_, apart)| *apart).min();
    match days.iter().map(|(_, apart)| *apart).min() {
        Some(0) => weighing.add(Ground::Time, SAME_DAY, "same day"),
        Some(1) => weighing.add(Ground::Time, NEXT_DAY, "a day apart"),
        _ if same_kind.is_some_and(|apart| apart >= OTHER_DAY_MIN) && !weighing.reposted => {
            weighing.add(Ground::Time, OTHER_DAY, OTHER_DAY_TOLD);
        }
        _ => {}
    }
}

pub(super) fn weigh_town(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    if case.any(|member| member.origin.owner_id == sketch.origin.owner_id) {
        weighing.same_source = true;
        weighing.add(Ground::Town, SAME_SOURCE, "same source");
    } else if case.any(|member| sketch.any_city().is_some() && member.any_city() == sketch.any_city()) {
        weighing.add(Ground::Town, SAME_TOWN, "same town");
    }
    if case.any(|member| sketch.city.is_some() && member.city == sketch.city) {
        weighing.add(Ground::Town, SAME_CITY, "both name the town");
    }
    // A happy end may name the town of the new home.
    let moved = sketch.kind == Kind::Reunited && weighing.same_source;
    if weighing.reposted || moved {
        return;
    }
    let relations = case.members().map(|member| town_points(sketch, member));
    if let Some(points) = relations.max()
        && points < 0
    {
        weighing.add(Ground::Town, points, "another town");
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
        // One source writes about its neighbours too, and does not name the town every time.
        _ if sketch.home_city == member.home_city => 0,
        _ => match (sketch.any_city(), member.any_city()) {
            (Some(own), Some(known)) if own != known => OTHER_HOME,
            _ => 0,
        },
    }
}
