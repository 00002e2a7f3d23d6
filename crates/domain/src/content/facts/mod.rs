//! The vocabulary of facts: what can be recognised in a post, and the words it was recognised by.
//! Closed sets are enums with the names of the corpus; nothing here knows how a fact is found.

mod accounts;
mod animal;
mod city;
mod district;
mod kind;
mod names;
mod phones;
mod place;
pub mod read;
mod sex;
pub mod shows;
mod traits;
mod when;

pub use place::shown_place;

use std::borrow::Cow;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

/// The texts of every rule table.
pub fn tables() -> impl Iterator<Item = &'static str> {
    [kind::TABLE, traits::TABLE].into_iter()
}

/// The patterns of every rule table, for the dictionary and for the tests.
pub fn patterns() -> impl Iterator<Item = &'static str> {
    tables().flat_map(crate::content::pattern::lines).filter_map(|line| line.map(|line| line.3).ok())
}

/// What a post is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The owner looks for the pet.
    Lost,
    /// Somebody has it and looks for the owner.
    Found,
    /// Seen or sitting somewhere; nobody has it.
    Sighting,
    /// The story ended well.
    Reunited,
    /// Looks for a home.
    Adoption,
    Fundraising,
    News,
    Ad,
    /// Only links or mentions and a word or two.
    Link,
    /// Nothing to read.
    Empty,
    #[default]
    Other,
}

impl Kind {
    pub const ALL: [Kind; 11] = [
        Kind::Lost,
        Kind::Found,
        Kind::Sighting,
        Kind::Reunited,
        Kind::Adoption,
        Kind::Fundraising,
        Kind::News,
        Kind::Ad,
        Kind::Link,
        Kind::Empty,
        Kind::Other,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Lost => "lost",
            Kind::Found => "found",
            Kind::Sighting => "sighting",
            Kind::Reunited => "reunited",
            Kind::Adoption => "adoption",
            Kind::Fundraising => "fundraising",
            Kind::News => "news",
            Kind::Ad => "ad",
            Kind::Link => "link",
            Kind::Empty => "empty",
            Kind::Other => "other",
        }
    }

    /// Kinds that report an incident with a place and a day.
    pub fn is_incident(self) -> bool {
        matches!(self, Kind::Lost | Kind::Found | Kind::Sighting | Kind::Reunited)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Animal {
    Dog,
    Cat,
    Bird,
    Rodent,
    /// Rabbit, ferret and every other species.
    Other,
    /// Different species in one post.
    Several,
    #[default]
    Unknown,
}

impl Animal {
    pub const ALL: [Animal; 7] = [
        Animal::Dog,
        Animal::Cat,
        Animal::Bird,
        Animal::Rodent,
        Animal::Other,
        Animal::Several,
        Animal::Unknown,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Animal::Dog => "dog",
            Animal::Cat => "cat",
            Animal::Bird => "bird",
            Animal::Rodent => "rodent",
            Animal::Other => "other",
            Animal::Several => "several",
            Animal::Unknown => "unknown",
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sex {
    M,
    F,
    #[default]
    Unknown,
}

impl Sex {
    pub fn name(self) -> &'static str {
        match self {
            Sex::M => "m",
            Sex::F => "f",
            Sex::Unknown => "unknown",
        }
    }
}

/// Which text of the post a span points into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TextRef {
    #[default]
    Own,
    /// Index into `copy_history`.
    Copy(u16),
}

/// Byte offsets into the original text, always on character borders.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span {
    pub text: TextRef,
    pub start: u32,
    pub end: u32,
}

/// Why a fact is believed: the rule, where it fired, and the user's own words there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// `family.rule`, for example `sex.noun`.
    pub rule: Cow<'static, str>,
    pub span: Span,
    pub words: String,
}

/// A value with the words it came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact<T> {
    pub value: T,
    /// Strongest first; empty when the value is the default because nothing spoke.
    pub evidence: Vec<Evidence>,
}

impl<T> Fact<T> {
    pub fn new(value: T, evidence: Evidence) -> Fact<T> {
        Fact { value, evidence: vec![evidence] }
    }

    pub fn silent(value: T) -> Fact<T> {
        Fact { value, evidence: Vec::new() }
    }
}

/// A telephone number in E.164, for example `+79010000001`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phone(pub String);

/// A person or community named by link or mention.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VkAccount {
    User(u64),
    Community(u64),
    /// A screen name, lower case.
    Name(String),
}

/// How old the animal is said to be, in months, from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Age {
    pub from_months: u16,
    pub to_months: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    Black,
    White,
    Grey,
    Red,
    Brown,
    Fawn,
    Tabby,
    Tricolour,
    Blue,
    Green,
    Yellow,
    Spotted,
}

/// Something about the post that other rules or the routes may want to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// A repeated announcement ("повтор", "поднимаем", "всё ещё ищем").
    Repeat,
    /// Adds to an earlier post ("ещё один телефон", "к посту про …").
    FollowUp,
    /// The author wants to take or adopt an animal, and has none.
    Wanted,
    /// A litter or a group of one species.
    Litter,
    /// Several different animals, each with its own story.
    ManyAnimals,
    /// The animal is hurt or ill.
    Injured,
    /// The animal is dead.
    Dead,
    /// Posted on behalf of somebody else.
    OnBehalf,
}

/// Everything recognised in one post.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// `FACTS_VERSION` of the rules that found them.
    pub version: u16,
    pub kind: Fact<Kind>,
    /// Another kind is nearly as likely.
    #[serde(default)]
    pub unsure: bool,
    /// Which, when it is unsure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearly: Option<Kind>,
    pub animal: Fact<Animal>,
    pub sex: Fact<Sex>,
    /// Sorted by number, unique; contacts only, never cards.
    pub phones: Vec<Fact<Phone>>,
    /// People to call, nominative.
    pub contact_names: Vec<Fact<String>>,
    /// Nominative, in the order of the text.
    pub pet_names: Vec<Fact<String>>,
    /// Canonical name of the breed, lower case.
    pub breed: Option<Fact<String>>,
    pub age: Option<Fact<Age>>,
    /// In the order of the text, unique.
    pub colours: Vec<Fact<Colour>>,
    /// Nominative; only when the post names it.
    pub city: Option<Fact<String>>,
    /// The best fragment, in the post's own words.
    pub place: Option<Fact<String>>,
    /// Every other place fragment, in the order of the text.
    pub other_places: Vec<Fact<String>>,
    /// The day of the event that the post reports.
    pub when: Option<Fact<Date>>,
    /// In the order of the text, unique.
    pub vk_accounts: Vec<Fact<VkAccount>>,
    /// The sum in roubles when named.
    pub reward: Option<Fact<Option<u64>>>,
    /// In the order of the enum, unique.
    pub flags: Vec<Fact<Flag>>,
    /// The source's home city: a fallback that the post itself does not name.
    pub home_city: Option<String>,
}

impl Facts {
    pub fn flag(&self, flag: Flag) -> bool {
        self.flags.iter().any(|fact| fact.value == flag)
    }

    /// The numbers alone, sorted.
    pub fn phone_numbers(&self) -> impl Iterator<Item = &str> {
        self.phones.iter().map(|fact| fact.value.0.as_str())
    }
}
