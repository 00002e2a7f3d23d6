//! What is kept of a post for telling cases apart: small, comparable, storable as JSON beside the case.
//! Built from the post and its facts; must not know other posts.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::marks::{Coat, Mark, coat, is_thing, marks};
use super::reference::{Closing, closing, continues, referred_places, remains};
use crate::content::picture::PictureHash;
use crate::content::similarity::{
    TextSketch, WORDS_MAX, is_stop, is_telling, stable_hash, stem, stems, word_hash,
};
use crate::content::{Animal, Cleaned, Evidence, Fact, Facts, Flag, Kind, Post, Sex, TextRef, VkAccount};

/// Pictures kept of one post; an album has ten.
pub const SKETCH_PICTURES_MAX: usize = 10;
/// Phones, names, places and accounts kept of one post.
pub const SKETCH_ITEMS_MAX: usize = 12;
/// Bytes of text scanned for account numbers and wall links.
const SCAN_BYTES_MAX: usize = 20_000;

/// A post as the case rules see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sketch {
    pub origin: Origin,
    /// Unix seconds.
    pub date: i64,
    /// Posts that this one reposts.
    pub refers: Vec<Origin>,
    /// Posts that it links to.
    pub links: Vec<Origin>,
    pub kind: Kind,
    /// No other kind is nearly as likely.
    #[serde(default = "sure")]
    pub kind_sure: bool,
    pub animal: Animal,
    pub sex: Sex,
    /// The species is read from a word for it, not from a hint or a usual name.
    pub animal_sure: bool,
    /// The sex is read from a word for it, not from a name or an ending.
    pub sex_sure: bool,
    pub phones: Vec<String>,
    /// Bank cards and other long numbers, hashed: never shown.
    pub accounts: Vec<u64>,
    /// People named by link or mention.
    pub people: Vec<u64>,
    pub names: Vec<NameSketch>,
    pub breed: Option<String>,
    pub age_months: Option<(u16, u16)>,
    pub coat: Coat,
    pub marks: Vec<Mark>,
    pub city: Option<String>,
    pub home_city: Option<String>,
    pub places: Vec<PlaceSketch>,
    /// Stems after "с" at the beginning: "котёнок с Мельникайте" points back to a known place.
    pub referred: Vec<String>,
    /// Days since 1970-01-01.
    pub when_day: Option<i64>,
    pub text: TextSketch,
    pub pictures: Vec<PictureHash>,
    pub closing: Closing,
    pub repeat: bool,
    pub follow_up: bool,
    pub litter: bool,
    /// Some of them are left: "осталась одна".
    #[serde(default)]
    pub remaining: bool,
    pub many: bool,
    /// Nothing to read in the post itself or what it reposts.
    pub wordless: bool,
}

/// Where a post was published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub owner_id: i64,
    pub post_id: i64,
}

/// A pet's name: lower case with `ё` folded, and the stems of its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameSketch {
    pub name: String,
    pub stems: Vec<String>,
    /// The post says that this is the name (`кличка Рич`, `кот Рич`); otherwise it only stands where a name stands.
    #[serde(default = "sure")]
    pub stated: bool,
}

fn sure() -> bool {
    true
}

/// A place by the stems of its telling words and the numbers in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceSketch {
    pub words: Vec<String>,
    pub numbers: Vec<String>,
}

impl Sketch {
    /// Sketches a post; `pictures` are the looks of its photos.
    pub fn new(post: &Post, facts: &Facts, cleaned: &Cleaned, pictures: &[PictureHash]) -> Sketch {
        let own = &own_facts(facts);
        let words = words_without_tags(post, cleaned);
        let stems = stems(words.iter().copied());
        let places = places(own);
        Sketch {
            origin: Origin { owner_id: post.owner_id, post_id: post.post_id },
            date: post.date,
            refers: few(copied_origins(post)),
            links: few(texts(post).flat_map(wall_links)),
            kind: facts.kind.value,
            kind_sure: !facts.unsure,
            animal: facts.animal.value,
            sex: facts.sex.value,
            animal_sure: !guessed(&facts.animal, &["animal.hint", "animal.usual", "animal.sum"]),
            sex_sure: !guessed(&facts.sex, &["sex.name", "sex.verb", "sex.adjective", "sex.sum"]),
            phones: own.phone_numbers().take(SKETCH_ITEMS_MAX).map(str::to_owned).collect(),
            accounts: accounts(post, facts),
            people: people(facts),
            names: names(own),
            breed: facts.breed.as_ref().map(|breed| fold(&breed.value)),
            age_months: facts.age.as_ref().map(|age| (age.value.from_months, age.value.to_months)),
            coat: coat(&stems),
            marks: marks(&stems),
            city: facts.city.as_ref().map(|city| fold(&city.value)),
            home_city: facts.home_city.as_deref().map(fold),
            places,
            referred: referred_places(&words),
            when_day: facts.when.as_ref().map(|when| day_number(when.value)),
            text: TextSketch::new(stems.iter().map(String::as_str)),
            pictures: pictures
                .iter()
                .copied()
                .filter(|hash| hash.is_telling())
                .take(SKETCH_PICTURES_MAX)
                .collect(),
            closing: closing(facts.kind.value, &words),
            repeat: facts.flag(Flag::Repeat),
            follow_up: facts.flag(Flag::FollowUp) || continues(&words),
            litter: facts.flag(Flag::Litter),
            remaining: remains(facts.kind.value, &words),
            many: facts.flag(Flag::ManyAnimals),
            wordless: words.is_empty(),
        }
    }

    /// The same post without anything that words alone say: it joins a case by its pictures, links and reposts, or not
    /// at all. For posts that name no phone, and not both an animal and a place, where that is wanted.
    pub fn without_words(self) -> Sketch {
        Sketch {
            names: Vec::new(),
            breed: None,
            marks: Vec::new(),
            places: Vec::new(),
            referred: Vec::new(),
            when_day: None,
            text: TextSketch::default(),
            ..self
        }
    }

    /// The city the post speaks of, or else its source's home.
    pub fn any_city(&self) -> Option<&str> {
        self.city.as_deref().or(self.home_city.as_deref())
    }

    /// Says enough about one animal that another animal's post would read differently.
    pub fn is_generic(&self) -> bool {
        self.text.is_generic() && self.phones.is_empty() && self.names.is_empty() && self.accounts.is_empty()
    }
}

/// A finder who reposts somebody's search speaks of another case: the number, the name and the place of the search are
/// not the finder's.
fn own_facts(facts: &Facts) -> Cow<'_, Facts> {
    let copied = |evidence: &[Evidence]| {
        !evidence.is_empty() && evidence.iter().all(|evidence| matches!(evidence.span.text, TextRef::Copy(_)))
    };
    let told_here = facts.kind.evidence.first().is_some_and(|evidence| evidence.span.text == TextRef::Own);
    if facts.kind.value != Kind::Found || !told_here {
        return Cow::Borrowed(facts);
    }
    let mut own = facts.clone();
    own.phones.retain(|phone| !copied(&phone.evidence));
    own.pet_names.retain(|name| !copied(&name.evidence));
    own.other_places.retain(|place| !copied(&place.evidence));
    own.place = own.place.filter(|place| !copied(&place.evidence));
    Cow::Owned(own)
}

/// The strongest rule that speaks for a fact is one of those that may err.
fn guessed<T>(fact: &Fact<T>, rules: &[&str]) -> bool {
    // Without a word of its own the value is a sum of small things.
    fact.evidence.first().is_none_or(|evidence| rules.contains(&evidence.rule.as_ref()))
}

/// Lower case with `ё` folded, so that spellings compare equal.
pub fn fold(text: &str) -> String {
    text.to_lowercase().replace('ё', "е")
}

fn day_number(date: jiff::civil::Date) -> i64 {
    let epoch = jiff::civil::date(1970, 1, 1);
    i64::from((date - epoch).get_days())
}

fn copied_origins(post: &Post) -> impl Iterator<Item = Origin> {
    let known = post.copy_history.iter().filter(|copied| copied.owner_id != 0 && copied.post_id != 0);
    known.map(|copied| Origin { owner_id: copied.owner_id, post_id: copied.post_id })
}

/// Each once, in order, at most `SKETCH_ITEMS_MAX`.
fn few(origins: impl Iterator<Item = Origin>) -> Vec<Origin> {
    let mut kept = Vec::new();
    for origin in origins {
        if !kept.contains(&origin) && kept.len() < SKETCH_ITEMS_MAX {
            kept.push(origin);
        }
    }
    kept
}

/// Links of the form `wall-123_45` in a text.
fn wall_links(text: &str) -> Vec<Origin> {
    let scanned = head(text, SCAN_BYTES_MAX);
    scanned.match_indices("wall").filter_map(|(at, _)| wall_link(&scanned[at + 4..])).collect()
}

fn wall_link(rest: &str) -> Option<Origin> {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-' && c != '_').unwrap_or(rest.len());
    let (owner, post) = rest[..end].split_once('_')?;
    Some(Origin { owner_id: owner.parse().ok()?, post_id: post.parse().ok()? })
}

/// Numbers of ten to nineteen digits that are not contacts: cards and numbers for transfers.
fn accounts(post: &Post, facts: &Facts) -> Vec<u64> {
    let phones: BTreeSet<String> = facts.phone_numbers().map(last_ten).collect();
    let mut found: Vec<u64> = texts(post)
        .flat_map(long_numbers)
        .filter(|digits| !phones.contains(&last_ten(digits)))
        .map(|digits| stable_hash(last_sixteen(&digits).as_bytes()))
        .take(SKETCH_ITEMS_MAX)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn long_numbers(text: &str) -> Vec<String> {
    let mut numbers = Vec::new();
    let mut digits = String::new();
    let (mut gap, mut before) = (0, ' ');
    for c in head(text, SCAN_BYTES_MAX).chars().chain(std::iter::once('\n')) {
        if c.is_ascii_digit() {
            // Digits after a letter are an id or a link.
            if !digits.is_empty() || !(before.is_alphabetic() || matches!(before, '_' | '/' | '-')) {
                digits.push(c);
            }
            gap = 0;
        } else if !digits.is_empty() && gap < 2 && matches!(c, ' ' | '-' | '(' | ')' | '.' | '\u{a0}') {
            gap += 1;
        } else {
            if (10..=19).contains(&digits.len()) {
                numbers.push(std::mem::take(&mut digits));
            }
            digits.clear();
            gap = 0;
            before = c;
        }
    }
    numbers
}

fn last_ten(digits: &str) -> String {
    digits.chars().rev().take(10).collect()
}

/// Cards keep all sixteen digits; telephone numbers lose their varying first one.
fn last_sixteen(digits: &str) -> String {
    if digits.len() == 11 { digits[1..].to_owned() } else { digits.to_owned() }
}

fn people(facts: &Facts) -> Vec<u64> {
    let users = facts.vk_accounts.iter().filter_map(|account| match account.value {
        VkAccount::User(id) => Some(id),
        _ => None,
    });
    users.take(SKETCH_ITEMS_MAX).collect()
}

fn names(facts: &Facts) -> Vec<NameSketch> {
    let breed = facts.breed.as_ref().map(|breed| fold(&breed.value));
    let mut names: Vec<NameSketch> = Vec::new();
    let stated = |name: &Fact<String>| name.evidence.first().is_some_and(|why| is_stating(&why.rule));
    let told = facts.pet_names.iter().flat_map(|fact| {
        fact.value.split(',').map(|name| NameSketch { stated: stated(fact), ..NameSketch::new(name) })
    });
    for name in told {
        // "Лайка" and "Малыш" are what people call any such animal.
        let personal = !is_endearment(&name) && breed.as_ref() != Some(&name.name);
        if personal && !name.stems.is_empty() && !names.contains(&name) && names.len() < SKETCH_ITEMS_MAX {
            names.push(name);
        }
    }
    names
}

/// Rules of names by which the post itself says that it is one.
fn is_stating(rule: &str) -> bool {
    matches!(
        rule,
        "names.nickname"
            | "names.by_name"
            | "names.called"
            | "names.answers"
            | "names.after_noun"
            | "names.described"
            | "names.heading"
            | "names.meet"
            | "names.form"
            | "names.our"
    )
}

/// Words that people call any animal by.
fn is_endearment(name: &NameSketch) -> bool {
    const ENDEARMENTS: &str = "малыш малышка малышок кроха крошка крохотуля красавец красавчик красавица пушистик зайка лапочка \
        солнышко потеряшка найденыш хвостик мальчик девочка мальчишка девчонка старичок старушка бедолага бедняжка \
        кот кошка котик котенок котята пес собака собачка щенок щенки малыши братья сестры";
    static WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| ENDEARMENTS.split_whitespace().collect());
    WORDS.contains(name.name.as_str())
}

impl NameSketch {
    pub fn new(name: &str) -> NameSketch {
        let name = fold(name.trim());
        let stems =
            name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(stem).collect();
        NameSketch { name, stems, stated: true }
    }

    /// Whether two names may be one, endings aside: "Сильвер" is "Капитан Сильвер", "Капитан Флинт" is not.
    pub fn is_like(&self, other: &NameSketch) -> bool {
        let within = |short: &NameSketch, long: &NameSketch| {
            !short.stems.is_empty() && short.stems.iter().all(|word| long.stems.contains(word))
        };
        within(self, other) || within(other, self) || pet_form(&self.name) == pet_form(&other.name)
    }
}

/// A name without what makes it tender: `Найдушка` and `Найда`, `Тишка` and `Тиша` are one animal.
fn pet_form(name: &str) -> &str {
    const TENDER: [&str; 16] = [
        "юшенька",
        "ушенька",
        "юшка",
        "ушка",
        "енька",
        "онька",
        "очка",
        "ечка",
        "ичка",
        "уня",
        "уся",
        "юня",
        "юся",
        "ька",
        "ик",
        "ка",
    ];
    const NAME_LETTERS: usize = 3;
    let short = TENDER
        .iter()
        .find_map(|ending| name.strip_suffix(ending).filter(|rest| rest.chars().count() >= NAME_LETTERS));
    let rest = short.unwrap_or(name);
    let bare = rest.strip_suffix(['а', 'я', 'ь', 'й', 'о', 'е', 'и']).unwrap_or(rest);
    if bare.chars().count() >= NAME_LETTERS { bare } else { rest }
}

fn places(facts: &Facts) -> Vec<PlaceSketch> {
    let city = facts.city.as_ref().map(|city| stem(&fold(&city.value)));
    let home = facts.home_city.as_deref().map(|city| stem(&fold(city)));
    facts
        .place
        .iter()
        .chain(&facts.other_places)
        .take(SKETCH_ITEMS_MAX)
        .map(|place| place_sketch(&place.value, &[city.as_deref(), home.as_deref()]))
        .filter(|place| !place.words.is_empty())
        .collect()
}

fn place_sketch(place: &str, cities: &[Option<&str>]) -> PlaceSketch {
    let folded = fold(place);
    let mut sketch = PlaceSketch { words: Vec::new(), numbers: Vec::new() };
    for word in folded.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let stem = stem(word);
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            sketch.numbers.push(word.to_owned());
        } else if place_word(&stem) && !cities.contains(&Some(stem.as_str())) && !sketch.words.contains(&stem)
        {
            sketch.words.push(stem);
        }
    }
    sketch
}

/// A word that names a place rather than saying what sort of place it is.
fn place_word(stem: &str) -> bool {
    !is_stop(stem)
        && is_telling(stem)
        && stem.chars().count() >= 3
        && !is_thing(stem)
        && !is_sort_of_place(stem)
}

fn is_sort_of_place(stem: &str) -> bool {
    use std::sync::LazyLock;
    static SORTS: LazyLock<BTreeSet<String>> =
        LazyLock::new(|| SORTS_OF_PLACE.split_whitespace().map(self::stem).collect());
    SORTS.contains(stem)
}

const SORTS_OF_PLACE: &str = "
улица переулок проспект площадь бульвар шоссе тракт трасса набережная парк сквер лес озеро река пруд мост школа сад садик
детский магазин рынок тц трц жк снт днт дачи деревня село поселок станция вокзал автовокзал остановка конечная больница
поликлиника аптека гараж гаражи заправка азс мкр квартал корпус подъезд этаж центр частный сектор километр поворот
перекресток кольцо стройка завод церковь храм почта банк пятерочка магнит парковка двор дворы овраг поле берег левый
правый территория площадка подвал балкон промзона дорога переезд крыльцо
";

/// The words of a post without those of its hashtags: tags of the group say nothing of the animal.
fn words_without_tags<'a>(post: &Post, cleaned: &'a Cleaned) -> Vec<&'a str> {
    let mut tags = hashtag_words(post);
    let words: Vec<&str> = cleaned.tokens().take(WORDS_MAX).collect();
    // Tags mostly stand at the end, so the same word is taken away from there.
    let mut kept: Vec<&str> = words
        .into_iter()
        .rev()
        .filter(|word| match tags.get_mut(*word) {
            Some(count) if *count > 0 => {
                *count -= 1;
                false
            }
            _ => true,
        })
        .collect();
    kept.reverse();
    kept
}

/// How often each word comes from a hashtag, whole and in its parts.
fn hashtag_words(post: &Post) -> BTreeMap<String, usize> {
    let mut words = BTreeMap::new();
    for text in texts(post) {
        for tag in head(text, SCAN_BYTES_MAX).split('#').skip(1) {
            let tag = tag.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '@').next().unwrap_or("");
            let tag = fold(tag);
            let whole = tag.replace(['_', '@'], "");
            let parts = tag.split(['_', '@']).filter(|part| !part.is_empty() && *part != whole);
            for word in parts.map(str::to_owned).chain([whole.clone()]) {
                *words.entry(word).or_insert(0) += 1;
            }
        }
    }
    words
}

fn texts(post: &Post) -> impl Iterator<Item = &str> {
    std::iter::once(post.text.as_str()).chain(post.copy_history.iter().map(|copied| copied.text.as_str()))
}

/// At most `bytes` of a text, cut on a character border.
fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The hash under which a stem is found in a text sketch.
pub fn stem_hash(stem: &str) -> u32 {
    word_hash(stem)
}
