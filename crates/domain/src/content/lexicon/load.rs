//! Reads the data files into the dictionary. Runs once; an unreadable line is a defect that a test finds.

use super::inflect::{self, Gender};
use super::{City, District, Entry, Group, Lexicon, Species, morph, typos};
use crate::content::{Animal, Colour, Sex};

const WORDS: &str = include_str!("data/words.txt");
const SPECIES: &str = include_str!("data/species.txt");
const COLOURS: &str = include_str!("data/colours.txt");
const TRAITS: &str = include_str!("data/traits.txt");
const NUMBERS: &str = include_str!("data/numbers.txt");
const PEOPLE: &str = include_str!("data/people.txt");
const PETS: &str = include_str!("data/pets.txt");
const CITIES: &str = include_str!("data/cities.txt");
const DISTRICTS: &str = include_str!("data/districts.txt");

const MONTHS: [&str; 12] = [
    "январь",
    "февраль",
    "март",
    "апрель",
    "май",
    "июнь",
    "июль",
    "август",
    "сентябрь",
    "октябрь",
    "ноябрь",
    "декабрь",
];
const WEEKDAYS: [&str; 7] =
    ["понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье"];

pub(super) fn load() -> Lexicon {
    let mut builder = Builder::default();
    builder.words();
    builder.numbers();
    builder.species();
    builder.colours();
    builder.traits();
    builder.calendar();
    builder.people();
    builder.pets();
    builder.cities();
    builder.districts();
    builder.literals();
    builder.typos();
    builder.glued_heads();
    builder.lexicon
}

#[derive(Default)]
struct Builder {
    lexicon: Lexicon,
    /// Entries that may be reached through a spelling mistake.
    forgiving: Vec<(String, u32)>,
    /// Of these, the ones that decide a fact: slips of the finger are forgiven too.
    decisive: Vec<(String, u32)>,
}

/// One item of a data file: a word, how it declines, and the letters that say more of it.
struct Item<'a> {
    lemma: &'a str,
    oblique: Option<&'a str>,
    flags: &'a str,
}

fn item(text: &str) -> Item<'_> {
    let (word, flags) = text.split_once('/').unwrap_or((text, ""));
    let (lemma, oblique) = match word.split_once('>') {
        Some((lemma, oblique)) => (lemma, Some(oblique)),
        None => (word, None),
    };
    Item { lemma, oblique, flags }
}

impl Item<'_> {
    fn gender(&self) -> Gender {
        for flag in self.flags.chars() {
            match flag {
                'm' => return Gender::Masculine,
                'f' => return Gender::Feminine,
                'n' => return Gender::Neuter,
                'p' => return Gender::Plural,
                'i' => return Gender::Fixed,
                'a' => return Gender::Adjective,
                _ => {}
            }
        }
        inflect::guess(self.lemma)
    }

    fn flag(&self, flag: char) -> bool {
        self.flags.contains(flag)
    }
}

fn fold(word: &str) -> String {
    word.to_lowercase().replace('ё', "е")
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'))
}

impl Builder {
    fn entry(&mut self, form: &str) -> (&mut Entry, u32) {
        let next = self.lexicon.entries.len() as u32;
        let index = *self.lexicon.forms.entry(form.into()).or_insert(next);
        if index == next {
            self.lexicon.entries.push(Entry::default());
        }
        (&mut self.lexicon.entries[index as usize], index)
    }

    fn group(&mut self, name: &str) -> Group {
        let next = Group(self.lexicon.group_names.len() as u16);
        *self.lexicon.group_names.entry(name.to_owned()).or_insert(next)
    }

    fn words(&mut self) {
        // The two groups that the tokeniser names come first, so that their numbers are constants.
        let mut open = (self.group("abbreviation"), false, false);
        self.group("unit");
        let glued = self.group("glued_start");
        for line in lines(WORDS) {
            if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let mut parts = head.split(' ');
                let name = parts.next().unwrap_or_default();
                let flags: Vec<&str> = parts.collect();
                open = (self.group(name), flags.contains(&"typo"), flags.contains(&"glue"));
                continue;
            }
            for word in line.split_whitespace() {
                for form in expand(word) {
                    let form = fold(&form);
                    let (entry, index) = self.entry(&form);
                    entry.add(open.0);
                    if open.2 {
                        entry.add(glued);
                    }
                    if open.1 {
                        self.forgiving.push((form.clone(), index));
                        self.decisive.push((form, index));
                    }
                }
            }
        }
    }

    fn species(&mut self) {
        let mut animal = (Animal::Unknown, false);
        for line in lines(SPECIES) {
            if let Some(head) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                let (name, hint) = head.split_once(' ').map_or((head, false), |(name, _)| (name, true));
                let found = Animal::ALL.into_iter().find(|animal| animal.name() == name);
                animal = (found.unwrap_or_default(), hint);
                continue;
            }
            for text in line.split_whitespace() {
                match text.strip_prefix('^') {
                    Some(lemma) => self.species_hint(animal.0, lemma),
                    None => self.one_species(animal.0, animal.1, &item(text)),
                }
            }
        }
    }

    /// What one species does (`^лаять`), in every form that the dictionary of the language has.
    fn species_hint(&mut self, animal: Animal, lemma: &str) {
        let (sex, gender) = (Sex::Unknown, Sex::Unknown);
        let species = Species { animal, noun: false, sex, gender, breed: None, young: false };
        for form in morph::forms(lemma) {
            let (entry, _) = self.entry(&fold(&form));
            if entry.species.is_none() && entry.number.is_none() {
                entry.species = Some(species);
            }
        }
    }

    fn one_species(&mut self, animal: Animal, hint: bool, item: &Item<'static>) {
        let gender = item.gender();
        let young = item.flag('y');
        let sex = if item.flag('M') {
            Sex::M
        } else if item.flag('F') {
            Sex::F
        } else {
            Sex::Unknown
        };
        let breed = item.flag('b').then(|| {
            self.lexicon.breeds.push(item.lemma);
            (self.lexicon.breeds.len() - 1) as u16
        });
        let grammar = match gender {
            Gender::Masculine => Sex::M,
            Gender::Feminine => Sex::F,
            Gender::Adjective if item.lemma.ends_with("ая") => Sex::F,
            Gender::Adjective => Sex::M,
            _ => Sex::Unknown,
        };
        let noun = !(hint || item.flag('h'));
        let species = Species { animal, noun, sex, gender: grammar, breed, young };
        let mut forms = inflect::decline(item.lemma, item.oblique, gender, true);
        if item.lemma.ends_with("енок") {
            forms.extend(young_plural(item.lemma));
        }
        for (form, cases) in forms {
            let form = fold(&form);
            let (entry, index) = self.entry(&form);
            // `сорок` is a number long before it is a crowd of magpies.
            if entry.number.is_some() {
                continue;
            }
            // One animal in the nominative wins over a crowd in the genitive: `такс`, `пёс`.
            let one = |cases: u8| cases & inflect::case::NOM != 0 && cases & inflect::case::PLURAL == 0;
            let crowd = entry.species.is_some_and(|known| known.animal == animal && noun)
                && one(cases)
                && !one(entry.cases);
            if crowd || entry.species.is_none_or(|known| !known.noun && noun) {
                entry.species = Some(species);
                entry.cases = cases;
            } else if entry.species == Some(species) {
                entry.cases |= cases;
            }
            let common = matches!(animal, Animal::Dog | Animal::Cat) || form.chars().count() >= 7;
            if noun && breed.is_none() && form.chars().count() >= 5 && common {
                self.forgiving.push((form, index));
            }
        }
    }

    fn colours(&mut self) {
        let group = self.group("agreeing");
        for line in lines(COLOURS) {
            let Some((name, words)) = line.split_once(':') else { continue };
            let Some(colour) = colour(name) else { continue };
            for word in words.split_whitespace() {
                let forms = if is_adjective(word) {
                    inflect::adjective(word)
                } else {
                    inflect::decline(word, None, inflect::guess(word), false)
                };
                for (form, _) in forms {
                    let (entry, _) = self.entry(&fold(&form));
                    entry.colour = Some(colour);
                    entry.add(group);
                }
            }
        }
    }

    fn traits(&mut self) {
        let group = self.group("agreeing");
        for word in lines(TRAITS).flat_map(str::split_whitespace) {
            for (form, _) in inflect::adjective(word) {
                self.entry(&fold(&form)).0.add(group);
            }
        }
    }

    fn numbers(&mut self) {
        for line in lines(NUMBERS) {
            let mut words = line.split_whitespace();
            let value = words.next().and_then(|value| value.parse::<u16>().ok());
            for word in words {
                self.entry(word).0.number = value;
            }
        }
    }

    fn calendar(&mut self) {
        for (index, month) in MONTHS.iter().enumerate() {
            for (form, cases) in inflect::decline(month, None, Gender::Masculine, false) {
                if cases & inflect::case::PLURAL == 0 {
                    self.entry(&form).0.month = Some(index as u8 + 1);
                }
            }
        }
        for (index, day) in WEEKDAYS.iter().enumerate() {
            for (form, cases) in inflect::decline(day, None, inflect::guess(day), false) {
                if cases & inflect::case::PLURAL == 0 {
                    self.entry(&form).0.weekday = Some(index as u8 + 1);
                }
            }
        }
    }

    fn people(&mut self) {
        for (name, sex) in named(PEOPLE) {
            for (form, _) in name_forms(name, sex) {
                let (entry, _) = self.entry(&fold(&form));
                if entry.person.is_none() {
                    entry.person = Some((name, sex));
                }
            }
        }
    }

    fn pets(&mut self) {
        for pass in [true, false] {
            for (name, sex, animal) in pet_names() {
                for (form, cases) in name_forms(name, sex) {
                    let nominative = cases & inflect::case::NOM != 0;
                    // `о Дымке` is said of Дымка far more often than of Дымок.
                    let rare = cases == inflect::case::LOC && sex == Sex::M;
                    if nominative != pass || rare || cases & inflect::case::PLURAL != 0 {
                        continue;
                    }
                    let (entry, _) = self.entry(&fold(&form));
                    if entry.pet.is_none() {
                        entry.pet_animal = animal;
                    }
                    match entry.pet {
                        None => entry.pet = Some((name, sex)),
                        // The same name for both: the name alone tells nothing of the sex.
                        Some((known, other)) if known == name && other != sex => {
                            entry.pet = Some((name, Sex::Unknown));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }

    fn cities(&mut self) {
        for text in lines(CITIES).flat_map(str::split_whitespace) {
            let (text, alias_of) =
                text.split_once('=').map_or((text, None), |(text, name)| (text, Some(name)));
            let needs_marker = text.ends_with('!');
            self.city(&item(text.trim_end_matches('!')), alias_of, needs_marker);
        }
    }

    fn city(&mut self, item: &Item<'_>, alias_of: Option<&str>, needs_marker: bool) {
        let shown = alias_of.unwrap_or(item.lemma).replace('_', " ");
        let name: &'static str = Box::leak(shown.into_boxed_str());
        if alias_of.is_none() && self.lexicon.cities.iter().any(|city| city.name == name) {
            return;
        }
        let words: Vec<&str> = item.lemma.split('_').collect();
        let folded: Vec<String> = words.iter().map(|word| fold(word)).collect();
        let index = self.lexicon.cities.len() as u16;
        self.lexicon.cities.push(City { name, words: folded.clone(), needs_marker });
        let Some(last) = words.last() else { return };
        self.glued_city(&folded, index);
        for (form, cases) in city_forms(last, item) {
            let (entry, _) = self.entry(&fold(&form));
            entry.cities.push(index);
            if entry.species.is_none() {
                entry.cases |= cases;
            }
        }
    }

    /// `#нижнийновгород`, `#уланудэ`: hashtags write a name of several words as one, which is a town of its own here.
    fn glued_city(&mut self, words: &[String], of: u16) {
        let glued: String = words.concat().replace('-', "");
        if words.concat() == glued && words.len() == 1 {
            return;
        }
        let index = self.lexicon.cities.len() as u16;
        let name = self.lexicon.cities[usize::from(of)].name;
        self.lexicon.cities.push(City { name, words: vec![glued.clone()], needs_marker: false });
        let (entry, _) = self.entry(&glued);
        entry.cities.push(index);
        entry.cases |= inflect::case::NOM;
    }

    /// One city a line, then its districts. They are no group: words of groups are everyday words.
    fn districts(&mut self) {
        for line in lines(DISTRICTS) {
            let Some((city, names)) = line.split_once(": ") else { continue };
            let city = city.replace('_', " ");
            let Some(city) = self.lexicon.cities.iter().position(|known| known.name == city) else {
                continue;
            };
            for text in names.split_whitespace() {
                self.district(&item(text.trim_end_matches('!')), city as u16, text.ends_with('!'));
            }
        }
    }

    fn district(&mut self, item: &Item<'_>, city: u16, needs_marker: bool) {
        let names: Vec<&str> = item.lemma.split('_').collect();
        let words: Vec<String> = names.iter().map(|word| fold(word)).collect();
        if let Some(known) = self.lexicon.districts.iter_mut().find(|known| known.words == words) {
            known.needs_marker |= needs_marker;
            return known.cities.push(city);
        }
        let index = self.lexicon.districts.len() as u16;
        self.lexicon.districts.push(District { words, cities: vec![city], needs_marker });
        let Some(last) = names.last() else { return };
        for (form, _) in city_forms(last, item) {
            let (entry, _) = self.entry(&fold(&form));
            if !entry.districts.contains(&index) {
                entry.districts.push(index);
            }
        }
    }

    /// Words that only the patterns of the rules name.
    fn literals(&mut self) {
        for word in crate::content::pattern::literals() {
            let name = format!("'{word}");
            let group = self.group(&name);
            self.entry(word).0.add(group);
            for form in morph::same_deed(word) {
                self.entry(&form).0.add(group);
            }
        }
    }

    fn glued_heads(&mut self) {
        let glued = self.group("glued_start");
        let forms = self.lexicon.forms.iter();
        let heads = forms.filter(|form| self.lexicon.entries[*form.1 as usize].has(glued));
        self.lexicon.glued_heads = heads.map(|form| super::head_of(form.0)).collect();
    }

    fn typos(&mut self) {
        let forgiving = std::mem::take(&mut self.forgiving);
        for (form, index) in &forgiving {
            if form.chars().count() < super::TYPO_LETTERS_MIN {
                continue;
            }
            self.lexicon.sounds.entry(typos::sound(form).into()).or_insert(*index);
        }
        for (form, index) in &std::mem::take(&mut self.decisive) {
            if form.chars().count() < 6 {
                continue;
            }
            for slip in typos::slips(form) {
                let long = slip.chars().count() >= 6;
                if long && !self.lexicon.forms.contains_key(slip.as_str()) {
                    self.lexicon.slips.entry(slip.into()).or_insert(*index);
                }
            }
        }
    }
}

/// `%word`, `&word`, `~word`, `=word`, `^word` or the word itself.
fn expand(word: &str) -> Vec<String> {
    let rest = &word[word.chars().next().map_or(0, char::len_utf8)..];
    match word.chars().next() {
        Some('%') => {
            let item = item(rest);
            let forms = inflect::decline(item.lemma, item.oblique, item.gender(), true);
            forms.into_iter().map(|form| form.0).collect()
        }
        Some('&') => inflect::adjective(rest).into_iter().map(|form| form.0).collect(),
        Some('~') => past(rest),
        Some('^') => morph::forms(rest),
        Some('=') => ["", "а", "о", "ы"].iter().map(|ending| format!("{rest}{ending}")).collect(),
        _ => vec![word.to_owned()],
    }
}

/// The past tense in all genders: `убежал`, `потерялся`.
fn past(verb: &str) -> Vec<String> {
    match verb.strip_suffix("ся") {
        Some(stem) => vec![verb.to_owned(), format!("{stem}ась"), format!("{stem}ось"), format!("{stem}ись")],
        None => ["", "а", "о", "и"].iter().map(|ending| format!("{verb}{ending}")).collect(),
    }
}

fn young_plural(lemma: &str) -> Vec<inflect::Form> {
    let stem = lemma.trim_end_matches("енок");
    let soft = if lemma.ends_with("чонок") { "ат" } else { "ят" };
    let plural = inflect::case::PLURAL;
    [("а", 1), ("", 2 | 8), ("ам", 4), ("ами", 16), ("ах", 32)]
        .iter()
        .map(|(ending, cases)| (format!("{stem}{soft}{ending}"), cases | plural))
        .collect()
}

fn is_adjective(word: &str) -> bool {
    ["ый", "ий", "ой"].iter().any(|ending| word.ends_with(ending))
}

fn colour(name: &str) -> Option<Colour> {
    Some(match name {
        "black" => Colour::Black,
        "white" => Colour::White,
        "grey" => Colour::Grey,
        "red" => Colour::Red,
        "brown" => Colour::Brown,
        "fawn" => Colour::Fawn,
        "tabby" => Colour::Tabby,
        "tricolour" => Colour::Tricolour,
        "blue" => Colour::Blue,
        "green" => Colour::Green,
        "yellow" => Colour::Yellow,
        "spotted" => Colour::Spotted,
        _ => return None,
    })
}

fn named(text: &'static str) -> impl Iterator<Item = (&'static str, Sex)> {
    lines(text).flat_map(|line| {
        let (sex, names) = line.split_once(':').unwrap_or(("", ""));
        let sex = if sex == "m" { Sex::M } else { Sex::F };
        names.split_whitespace().map(move |name| (name, sex))
    })
}

/// `m dog: Полкан …`: the gender, and the species that the name is usual for, if any.
fn pet_names() -> impl Iterator<Item = (&'static str, Sex, Animal)> {
    lines(PETS).flat_map(|line| {
        let (head, names) = line.split_once(':').unwrap_or(("", ""));
        let (sex, animal) = head.split_once(' ').unwrap_or((head, ""));
        let sex = if sex == "m" { Sex::M } else { Sex::F };
        let animal = Animal::ALL.into_iter().find(|known| known.name() == animal).unwrap_or_default();
        names.split_whitespace().map(move |name| (name, sex, animal))
    })
}

fn name_forms(name: &str, sex: Sex) -> Vec<inflect::Form> {
    let gender = match name.chars().last() {
        Some('а' | 'я') => Gender::Feminine,
        Some('ь') if sex == Sex::F => Gender::Feminine,
        Some('о' | 'е' | 'и' | 'у' | 'э' | 'ю' | 'ы') => Gender::Fixed,
        _ if sex == Sex::F => Gender::Fixed,
        _ => Gender::Masculine,
    };
    if is_adjective(name) && name.chars().count() > 4 {
        return inflect::adjective(name);
    }
    // A vowel drops out of the endings -ок, -ек, -ец.
    let oblique = ["ок", "ек", "ёк"].iter().find(|ending| name.ends_with(**ending)).and_then(|ending| {
        let stem = name.trim_end_matches(ending);
        let soft = if stem.ends_with('л') && *ending != "ок" { "ь" } else { "" };
        (gender == Gender::Masculine && stem.chars().count() >= 3).then(|| format!("{stem}{soft}к"))
    });
    inflect::decline(name, oblique.as_deref(), gender, true)
}

/// `Каменск-Уральский`: both halves decline.
fn adjective_tail(name: &str) -> Vec<inflect::Form> {
    let Some((head, tail)) = name.split_once('-') else { return inflect::adjective(name) };
    let heads = inflect::decline(head, None, inflect::guess(head), false);
    let mut forms = Vec::new();
    for (tail, cases) in inflect::adjective(tail) {
        for (head, other) in heads.iter().filter(|form| form.1 & inflect::case::PLURAL == 0) {
            if cases & other != 0 {
                forms.push((format!("{head}-{tail}"), cases & other));
            }
        }
    }
    forms
}

fn city_forms(last: &str, item: &Item<'_>) -> Vec<inflect::Form> {
    let multiword = item.lemma.contains('_');
    if item.flags.is_empty()
        && multiword
        && (is_adjective(last) || last.ends_with("ая") || last.ends_with("ое"))
    {
        return inflect::adjective(last);
    }
    if multiword
        && (last.ends_with("ны") || last.ends_with("ки") || last.ends_with("ды") || last.ends_with("ни"))
    {
        return inflect::decline(last, None, Gender::Plural, false);
    }
    if last.ends_with("ский") || last.ends_with("цкий") {
        return adjective_tail(last);
    }
    if item.flags.is_empty() && last.ends_with("ое") {
        return inflect::adjective(last);
    }
    if let Some((head, tail)) = last.split_once("-на-") {
        let forms = inflect::decline(head, None, Gender::Masculine, false);
        return forms.into_iter().map(|(form, cases)| (format!("{form}-на-{tail}"), cases)).collect();
    }
    inflect::decline(last, item.oblique, item.gender(), false)
}
