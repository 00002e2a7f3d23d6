//! What singles an animal out: the post itself, its pictures, contacts, names and words.

use super::super::reference::Closing;
use super::super::sketch::{Sketch, stem_hash};
use super::super::weights::*;
use super::{Case, Crowd, Ground, Weighing};
use crate::content::Kind;
use crate::content::picture::{PICTURE_NEAR_DISTANCE, PICTURE_SAME_DISTANCE};

pub(super) fn weigh_origin(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let known = |member: &Sketch| {
        member.refers.contains(&sketch.origin)
            || sketch.refers.iter().any(|origin| *origin == member.origin || member.refers.contains(origin))
    };
    if case.any(known) {
        weighing.reposted = true;
        weighing.identify(Ground::Repost, REPOST, "repost of a post in this case");
    } else if case
        .any(|member| sketch.links.contains(&member.origin) || member.links.contains(&sketch.origin))
    {
        weighing.identify(Ground::Link, LINK, "links to a post in this case");
    }
}

pub(super) fn weigh_pictures(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let pairs = case
        .members()
        .flat_map(|member| &member.pictures)
        .flat_map(|known| sketch.pictures.iter().map(|own| own.distance(*known)));
    let Some(nearest) = pairs.min() else { return };
    if nearest <= PICTURE_SAME_DISTANCE {
        weighing.identify(Ground::Picture, PICTURE_SAME, "same picture");
    } else if nearest <= PICTURE_NEAR_DISTANCE {
        weighing.identify(Ground::Picture, PICTURE_NEAR, "same picture, changed a little");
    } else if case.announced(sketch.kind) && !weighing.reposted {
        // Another author, or the happy end, brings pictures of its own; a repeat would show the old ones.
        weighing.add(Ground::Picture, OTHER_PICTURES, "other pictures");
    }
}

/// A finder's second post with other pictures is the next find, unless place and marks say that it is not.
pub(super) fn weigh_next_find(weighing: &mut Weighing, sketch: &Sketch) {
    let other = weighing.reasons.iter().any(|reason| reason.ground == Ground::Picture && reason.points < 0);
    let described = weighing.has(Ground::NamedPlace) && weighing.has(Ground::Mark);
    if sketch.kind == Kind::Found && other && !described {
        weighing.add(Ground::Picture, FINDS_AGAIN, "whoever finds may find again");
    }
}

/// A picture of the post that is like none of a case that has pictures.
pub(super) fn brings_own_picture(sketch: &Sketch, case: Case<'_>) -> bool {
    let known = || case.members().flat_map(|member| &member.pictures);
    let is_new = |own: &crate::content::picture::PictureHash| {
        known().all(|known| own.distance(*known) > PICTURE_NEAR_DISTANCE)
    };
    known().next().is_some() && sketch.pictures.iter().any(is_new)
}

pub(super) fn weigh_contacts(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>, crowd: &Crowd) {
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
        weighing.add(Ground::Phone, full / divisor, words);
        if shared.len() > 1 && *cases == 1 {
            weighing.add(Ground::Phone, PHONE_SECOND, "a second phone too");
        }
    } else if !sketch.phones.is_empty() && !sketch.follow_up && case.any(|member| !member.phones.is_empty()) {
        weighing.add(Ground::Phone, OTHER_PHONES, "other phones");
    }
    if sketch.accounts.iter().any(|account| case.any(|member| member.accounts.contains(account))) {
        weighing.add(Ground::Account, ACCOUNT, "same account for transfers");
    }
    let shared = |person: &u64| case.any(|member| member.people.contains(person));
    if crowd.people.iter().any(|(person, cases)| *cases <= PERSON_CASES_MAX && shared(person)) {
        weighing.add(Ground::Person, PERSON, "same person named");
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

pub(super) fn weigh_names(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>, crowd: &Crowd) {
    if let Some(name) = case.members().find_map(|member| shared_name(sketch, member)) {
        let points = if crowd.names > 1 { NAME_CROWD } else { NAME };
        weighing.identify(Ground::Name, points, format!("name {name}"));
        return;
    }
    let named = case.any(|member| !member.names.is_empty());
    if named && !sketch.names.is_empty() {
        weigh_other_name(weighing, sketch, case);
    } else if case.any(|member| mentions_name(sketch, member) || mentions_name(member, sketch)) {
        weighing.add(Ground::Name, NAME_MENTIONED, "its name is mentioned");
    }
}

/// Another name is another animal, except where a finder had to invent the first one.
pub(super) fn weigh_other_name(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
    let invented =
        |member: &Sketch| member.names.is_empty() || matches!(member.kind, Kind::Found | Kind::Sighting);
    let owner_speaks = matches!(sketch.closing, Closing::Finder | Closing::Unsaid);
    if case.members().all(invented) && (owner_speaks || sketch.kind == Kind::Adoption) {
        weighing.add(Ground::Name, RENAMED, "another name, as the owner says");
    } else if !weighing.reposted {
        weighing.forbid(OTHER_NAME);
    }
}

pub(super) fn shared_name<'a>(sketch: &'a Sketch, member: &Sketch) -> Option<&'a str> {
    let shared = sketch.names.iter().find(|name| member.names.iter().any(|known| name.is_like(known)));
    shared.map(|name| name.name.as_str())
}

/// The name of `named` stands in the words of a post that has none.
fn mentions_name(post: &Sketch, named: &Sketch) -> bool {
    let stems = named.names.iter().flat_map(|name| &name.stems);
    stems.filter(|stem| stem.chars().count() >= 3).any(|stem| post.text.tells(stem_hash(stem)))
}

pub(super) fn weigh_text(weighing: &mut Weighing, sketch: &Sketch, case: Case<'_>) {
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
    let ground = match best.0 {
        TEXT_SAME => Ground::SameText,
        TEXT_CLOSE => Ground::CloseText,
        _ => Ground::Text,
    };
    weighing.add(ground, points, best.1);
    let strange = |member: &Sketch| {
        !member.text.is_generic() && sketch.text.overlap(&member.text).share < OTHER_WORDS_SHARE
    };
    let same_kind = case.members().filter(|member| member.kind == sketch.kind);
    if !sketch.text.is_generic()
        && !weighing.has(Ground::Name)
        && case.announced(sketch.kind)
        && same_kind.into_iter().all(strange)
    {
        weighing.add(Ground::Text, OTHER_WORDS, "other words");
    }
}

pub(super) fn is_series(kind: Kind) -> bool {
    matches!(kind, Kind::Adoption | Kind::Fundraising | Kind::Other | Kind::Ad | Kind::News)
}

pub(super) const OTHER_NAME: &str = "another name";
pub(super) const OTHER_SEX: &str = "another sex";
