//! Facts as flat tags for routing and listings: `kind:lost`, `animal:dog`, `city:пермь`, `has:phone`.
//! A tag is `key:value` in lower case with `_` for spaces; the keys and the closed sets of values are listed here,
//! so that a route with a misspelt tag can be refused instead of never matching.

use std::collections::BTreeSet;

use super::{Animal, Colour, Facts, Flag, Kind, Sex};

/// Tags kept of one message.
pub const TAGS_MAX: usize = 64;

/// What else is known of a message besides its facts.
#[derive(Debug, Clone, Copy, Default)]
pub struct TagContext<'a> {
    /// The name of the source, as configured.
    pub source: Option<&'a str>,
    /// The platform it came from, for example `vk`.
    pub platform: Option<&'a str>,
    pub photos: usize,
    pub videos: usize,
    pub reposted: bool,
}

/// The tags of a message, sorted.
pub fn tags(facts: &Facts, context: TagContext<'_>) -> BTreeSet<String> {
    let mut tags = Tags::default();
    tags.add("kind", facts.kind.value.name());
    tags.add("animal", facts.animal.value.name());
    tags.add("sex", facts.sex.value.name());
    if let Some(city) = &facts.city {
        tags.add("city", &city.value);
    }
    if let Some(home) = &facts.home_city {
        tags.add("home", home);
    }
    // Where a post may be read: the town it names, else its source's.
    if let Some(town) = facts.city.as_ref().map(|city| &city.value).or(facts.home_city.as_ref()) {
        tags.add("town", town);
    }
    if let Some(breed) = &facts.breed {
        tags.add("breed", &breed.value);
    }
    for colour in &facts.colours {
        tags.add("colour", colour_name(colour.value));
    }
    for flag in &facts.flags {
        tags.add("flag", flag_name(flag.value));
    }
    for (thing, present) in possessions(facts, context) {
        if present {
            tags.add("has", thing);
        }
    }
    for (key, value) in [("source", context.source), ("platform", context.platform)] {
        if let Some(value) = value {
            tags.add(key, value);
        }
    }
    tags.done
}

/// What `has:` may say, and whether it is so.
fn possessions(facts: &Facts, context: TagContext<'_>) -> [(&'static str, bool); 12] {
    [
        ("phone", !facts.phones.is_empty()),
        ("photo", context.photos > 0),
        ("video", context.videos > 0),
        ("name", !facts.pet_names.is_empty()),
        ("city", facts.city.is_some()),
        ("place", facts.place.is_some()),
        ("when", facts.when.is_some()),
        ("breed", facts.breed.is_some()),
        ("age", facts.age.is_some()),
        ("reward", facts.reward.is_some()),
        ("account", !facts.vk_accounts.is_empty()),
        ("repost", context.reposted),
    ]
}

/// The key of a tag, with its values when they are a closed set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Values {
    Any,
    OneOf(Vec<&'static str>),
}

/// Every key a tag may have.
pub const TAG_KEYS: [&str; 12] =
    ["kind", "animal", "sex", "city", "home", "town", "breed", "colour", "flag", "has", "source", "platform"];

/// The values a key may have; `None` for a key that does not exist.
pub fn tag_values(key: &str) -> Option<Values> {
    let values = match key {
        "kind" => Values::OneOf(Kind::ALL.map(Kind::name).to_vec()),
        "animal" => Values::OneOf(Animal::ALL.map(Animal::name).to_vec()),
        "sex" => Values::OneOf([Sex::M, Sex::F, Sex::Unknown].map(Sex::name).to_vec()),
        "colour" => Values::OneOf(COLOURS.map(colour_name).to_vec()),
        "flag" => Values::OneOf(FLAGS.map(flag_name).to_vec()),
        "has" => Values::OneOf(HAS.to_vec()),
        key if TAG_KEYS.contains(&key) => Values::Any,
        _ => return None,
    };
    Some(values)
}

const HAS: [&str; 12] = [
    "phone", "photo", "video", "name", "city", "place", "when", "breed", "age", "reward", "account", "repost",
];

const COLOURS: [Colour; 12] = [
    Colour::Black,
    Colour::White,
    Colour::Grey,
    Colour::Red,
    Colour::Brown,
    Colour::Fawn,
    Colour::Tabby,
    Colour::Tricolour,
    Colour::Blue,
    Colour::Green,
    Colour::Yellow,
    Colour::Spotted,
];

const FLAGS: [Flag; 8] = [
    Flag::Repeat,
    Flag::FollowUp,
    Flag::Wanted,
    Flag::Litter,
    Flag::ManyAnimals,
    Flag::Injured,
    Flag::Dead,
    Flag::OnBehalf,
];

/// A value as it stands in a tag.
pub fn tag_value(value: &str) -> String {
    let folded = value.trim().to_lowercase().replace('ё', "е");
    folded.split_whitespace().collect::<Vec<_>>().join("_")
}

#[derive(Default)]
struct Tags {
    done: BTreeSet<String>,
}

impl Tags {
    fn add(&mut self, key: &str, value: &str) {
        let value = tag_value(value);
        if !value.is_empty() && self.done.len() < TAGS_MAX {
            self.done.insert(format!("{key}:{value}"));
        }
    }
}

fn colour_name(colour: Colour) -> &'static str {
    match colour {
        Colour::Black => "black",
        Colour::White => "white",
        Colour::Grey => "grey",
        Colour::Red => "red",
        Colour::Brown => "brown",
        Colour::Fawn => "fawn",
        Colour::Tabby => "tabby",
        Colour::Tricolour => "tricolour",
        Colour::Blue => "blue",
        Colour::Green => "green",
        Colour::Yellow => "yellow",
        Colour::Spotted => "spotted",
    }
}

fn flag_name(flag: Flag) -> &'static str {
    match flag {
        Flag::Repeat => "repeat",
        Flag::FollowUp => "follow_up",
        Flag::Wanted => "wanted",
        Flag::Litter => "litter",
        Flag::ManyAnimals => "many_animals",
        Flag::Injured => "injured",
        Flag::Dead => "dead",
        Flag::OnBehalf => "on_behalf",
    }
}
