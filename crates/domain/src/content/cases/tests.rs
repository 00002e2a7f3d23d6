//! What holds for any posts whatever: totality, determinism, bounds, and the merges that must never happen.

use proptest::prelude::*;

use super::book::hash_of_id;
use super::index::{CANDIDATES_MAX, CANDIDATES_PER_KEY, MEMBERS_MAX};
use super::marks::{Coat, Mark};
use super::reference::Closing;
use super::sketch::{NameSketch, PlaceSketch};
use super::weigh::{Crowd, Ground, weigh};
use super::*;
use crate::content::picture::{PICTURE_NEAR_DISTANCE, PICTURE_SAME_DISTANCE};
use crate::content::similarity::TextSketch;
use crate::content::{Animal, Kind, Sex};
use crate::ids::CaseId;

fn few<T: std::fmt::Debug + Clone + 'static>(values: &'static [T]) -> impl Strategy<Value = Vec<T>> {
    proptest::sample::subsequence(values.to_vec(), 0..=values.len().min(3))
}

fn strings(values: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    few(values).prop_map(|values| values.into_iter().map(str::to_owned).collect())
}

fn some_of(values: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(values.to_vec()).prop_map(str::to_owned))
}

const WORDS: &str =
    "манишка хромает овраг лохматый поликлиника бубенчик сторож теплица гармонь карамель вагон якорь";

prop_compose! {
    fn any_identity()(
        post_id in 1i64..40,
        owner_id in prop::sample::select(vec![-1i64, -2, -3]),
        date in 0i64..400,
        refers in proptest::collection::vec(1i64..40, 0..2),
        kind in prop::sample::select(Kind::ALL.to_vec()),
        animal in prop::sample::select(Animal::ALL.to_vec()),
        sex in prop::sample::select(vec![Sex::M, Sex::F, Sex::Unknown]),
        phones in strings(&["+79010000001", "+79010000002", "+79010000003"]),
        accounts in few(&[7u64, 8]),
        names in strings(&["рич", "жужа", "тимка"]),
    ) -> Sketch {
        Sketch {
            origin: Origin { owner_id, post_id },
            date: date * 86_400,
            refers: refers.into_iter().map(|post_id| Origin { owner_id: -1, post_id }).collect(),
            links: Vec::new(), kind, animal, sex, animal_sure: true, sex_sure: true, phones, accounts,
            names: names.iter().map(|name| NameSketch::new(name)).collect(),
            people: Vec::new(), breed: None, age_months: None, coat: Coat(0), marks: Vec::new(),
            city: None, home_city: None, places: Vec::new(), referred: Vec::new(), when_day: None,
            text: TextSketch::default(), pictures: Vec::new(), closing: Closing::None,
            repeat: false, follow_up: false, litter: false, remaining: false, kind_sure: true, many: false, wordless: false,
        }
    }
}

prop_compose! {
    fn any_sketch()(
        identity in any_identity(),
        breed in some_of(&["йорк", "хаски"]),
        age in proptest::option::of((0u16..200, 0u16..200)),
        coat in 0u16..16,
        looks in few(&["красн", "рыж", "прав"]),
        cities in (some_of(&["пермь", "омск"]), some_of(&["пермь", "омск"])),
        places in strings(&["широтн", "лесобаз", "ленинск"]),
        numbers in strings(&["12", "156"]),
        when_day in proptest::option::of(0i64..400),
        words in proptest::sample::subsequence(WORDS.split(' ').collect::<Vec<_>>(), 0..12),
        photos in few(&["a", "a~", "b", "c"]),
        closing in prop::sample::select(vec![Closing::None, Closing::Owner, Closing::Finder, Closing::Home, Closing::Unsaid]),
        flags in any::<[bool; 5]>(),
    ) -> Sketch {
        Sketch {
            breed,
            age_months: age,
            coat: Coat(coat),
            marks: looks.iter().map(|look| Mark { thing: "ухо".to_owned(), look: (*look).to_owned() }).collect(),
            city: cities.0,
            home_city: cities.1,
            referred: places.clone(),
            places: places.into_iter().map(|word| PlaceSketch { words: vec![word], numbers: numbers.clone() }).collect(),
            when_day,
            text: TextSketch::new(words),
            pictures: photos.iter().map(|photo| hash_of_id(photo)).collect(),
            closing: if identity.kind == Kind::Reunited { closing } else { Closing::None },
            repeat: flags[0], follow_up: flags[1], litter: flags[2], remaining: false, kind_sure: true, many: flags[3], wordless: flags[4],
            ..identity
        }
    }
}

/// A case of the given posts.
fn case_of(id: i64, sketches: Vec<Sketch>) -> CaseRecord {
    let mut sketches = sketches.into_iter();
    let first = sketches.next().expect("a case has a post");
    let mut record = CaseRecord::open(CaseId(id), first);
    sketches.for_each(|sketch| record.absorb(sketch));
    record
}

fn weighed(sketch: &Sketch, record: &CaseRecord) -> super::weigh::Weighing {
    weigh(sketch, record, &Crowd::count(sketch, std::slice::from_ref(record)))
}

proptest! {
    #[test]
    fn any_post_gets_the_same_answer_twice(posts in proptest::collection::vec(any_sketch(), 1..20)) {
        let mut books = [CaseBook::new(), CaseBook::new()];
        for post in posts {
            let [one, other] = &mut books;
            prop_assert_eq!(one.take_in(post.clone()), other.take_in(post));
        }
    }

    #[test]
    fn the_order_of_the_candidates_does_not_matter(
        sketch in any_sketch(),
        posts in proptest::collection::vec(any_sketch(), 0..8),
        turn in 0usize..8,
    ) {
        let mut records: Vec<CaseRecord> =
            posts.into_iter().enumerate().map(|(at, post)| case_of(at as i64 + 1, vec![post])).collect();
        let first = decide(&sketch, &records);
        let turn = if records.is_empty() { 0 } else { turn % records.len() };
        records.rotate_left(turn);
        prop_assert_eq!(first, decide(&sketch, &records));
    }

    #[test]
    fn the_score_is_the_sum_of_its_reasons(sketch in any_sketch(), post in any_sketch()) {
        let weighing = weighed(&sketch, &case_of(1, vec![post]));
        prop_assert_eq!(weighing.score, weighing.reasons.iter().map(|reason| reason.points).sum::<i32>());
    }

    #[test]
    fn a_strangers_found_post_never_joins_a_lost_one(lost in any_sketch(), found in any_sketch()) {
        let lost = Sketch { kind: Kind::Lost, closing: Closing::None, ..lost };
        let mut found = Sketch { kind: Kind::Found, closing: Closing::None, ..found };
        // A stranger has another phone.
        found.phones.retain(|phone| !lost.phones.contains(phone));
        prop_assert!(!weighed(&found, &case_of(1, vec![lost.clone()])).is_same(&found));
        prop_assert!(!weighed(&lost, &case_of(1, vec![found])).is_same(&lost));
    }

    #[test]
    fn other_species_sexes_and_names_never_join(sketch in any_sketch(), post in any_sketch()) {
        let weighing = weighed(&sketch, &case_of(1, vec![post.clone()]));
        // A copy with the same picture over the same words may correct a name or a sex.
        let copied = weighing.reasons.iter().any(|reason| matches!(reason.ground, Ground::SameText | Ground::CloseText));
        // What singles the animal out goes before a name that may have been misread.
        let has = |ground: Ground| weighing.reasons.iter().any(|reason| reason.ground == ground && reason.points > 0);
        let shown = has(Ground::Picture) && (has(Ground::Phone) || has(Ground::NamedPlace));
        prop_assume!(!weighing.reposted && !copied);
        let known = |animal: Animal| !matches!(animal, Animal::Unknown | Animal::Several);
        let species = known(sketch.animal) && known(post.animal) && sketch.animal != post.animal;
        let sexes = sketch.sex != Sex::Unknown && post.sex != Sex::Unknown && sketch.sex != post.sex;
        let lost_names = sketch.kind == Kind::Lost && post.kind == Kind::Lost
            && !sketch.names.is_empty() && !post.names.is_empty()
            && sketch.names.iter().all(|name| !post.names.contains(name));
        if species || sexes || lost_names && !shown {
            prop_assert!(!weighing.is_same(&sketch), "{:?}", weighing);
        }
    }

    #[test]
    fn a_case_remembers_a_bounded_number_of_posts(posts in proptest::collection::vec(any_sketch(), 1..40)) {
        let (first, last, count) = (posts[0].clone(), posts[posts.len() - 1].clone(), posts.len());
        let record = case_of(1, posts);
        prop_assert!(record.members.len() <= MEMBERS_MAX);
        prop_assert_eq!(record.posts as usize, count);
        prop_assert_eq!(&record.members[0], &first);
        prop_assert_eq!(&record.members[record.members.len() - 1], &last);
    }

    #[test]
    fn a_lookup_is_bounded_however_many_cases_share_a_key(posts in proptest::collection::vec(any_sketch(), 60..90)) {
        let mut book = CaseBook::new();
        let probe = posts[0].clone();
        for post in posts {
            book.remember(None, post);
        }
        let found = match candidates(&probe, &book) { Ok(found) => found, Err(never) => match never {} };
        prop_assert!(found.len() <= CANDIDATES_MAX);
        let unique: std::collections::BTreeSet<_> = found.iter().collect();
        prop_assert_eq!(unique.len(), found.len());
        let under = match book.find(&lookup_keys(&probe), CANDIDATES_PER_KEY) { Ok(under) => under, Err(never) => match never {} };
        prop_assert!(under.iter().all(|found| found.cases.len() <= CANDIDATES_PER_KEY));
    }

    #[test]
    fn a_record_survives_its_json(posts in proptest::collection::vec(any_sketch(), 1..4)) {
        let record = case_of(1, posts);
        let json = serde_json::to_string(&record).unwrap();
        prop_assert_eq!(serde_json::from_str::<CaseRecord>(&json).unwrap(), record);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_words_make_a_bounded_sketch(
        text in "(\\PC{0,40}|#[а-я_]{1,9} |wall-?[0-9]{1,22}_[0-9]{0,22} |[0-9 ()-]{8,24}| с | из ){0,40}",
        copied in "\\PC{0,200}",
        owner_id: i64,
        post_id: i64,
        date: i64,
        other_date: i64,
    ) {
        use crate::content::{Copied, Post, analyse};
        let copy = Copied { owner_id: post_id, post_id: owner_id, date: 0, text: copied };
        let post = Post { owner_id, post_id, date, text, copy_history: vec![copy], ..Post::default() };
        let analysis = analyse(&post);
        let sketch = Sketch::new(&post, &analysis.facts, &analysis.cleaned, &[]);
        prop_assert_eq!(&sketch, &Sketch::new(&post, &analysis.facts, &analysis.cleaned, &[]));
        let bounded = [sketch.refers.len(), sketch.links.len(), sketch.phones.len(), sketch.names.len(), sketch.places.len()];
        prop_assert!(bounded.iter().all(|count| *count <= super::sketch::SKETCH_ITEMS_MAX));
        let mut book = CaseBook::new();
        book.take_in(sketch.clone());
        book.take_in(Sketch { date: other_date, ..sketch });
    }
}

#[test]
fn a_changed_picture_id_stands_for_a_near_picture() {
    let distance = hash_of_id("p1").distance(hash_of_id("p1~"));
    assert!((1..=PICTURE_SAME_DISTANCE).contains(&distance));
    assert!(hash_of_id("p1").distance(hash_of_id("p2")) > PICTURE_NEAR_DISTANCE);
    assert!(picture_keys(hash_of_id("p1")).iter().any(|key| picture_keys(hash_of_id("p1~")).contains(key)));
}

#[test]
fn the_newest_cases_under_a_hot_key_are_kept() {
    let mut book = CaseBook::new();
    let hot = |post_id: i64| {
        let mut sketch = plain(post_id);
        sketch.phones = vec!["+79010000001".to_owned()];
        sketch
    };
    for post_id in 1..=100 {
        book.remember(None, hot(post_id));
    }
    let key = lookup_keys(&hot(101)).into_iter().find(|key| key.kind == KeyKind::Phone).unwrap();
    let Ok(found) = book.find(&[key], CANDIDATES_PER_KEY);
    let newest: Vec<i64> = found[0].cases.iter().map(|case| case.0).collect();
    assert_eq!(newest, (85..=100).rev().collect::<Vec<_>>());
}

#[test]
fn a_name_is_like_its_parts_and_forms() {
    let like = |one: &str, other: &str| NameSketch::new(one).is_like(&NameSketch::new(other));
    assert!(like("Капитан Сильвер", "Сильвер"));
    assert!(like("Муська", "Муську"));
    assert!(!like("Капитан Сильвер", "Капитан Флинт"));
    assert!(!like("Марс", "Марсель"));
    assert!(like("Найдушка", "Найда"));
    assert!(like("Тишка", "Тиша"));
    assert!(like("Кнопочка", "Кнопа"));
    assert!(!like("Рада", "Радж"));
}

#[test]
fn a_guessed_name_or_kind_gives_way_to_the_same_picture_and_number() {
    let shown = |post_id: i64, name: &str, stated: bool| {
        let mut sketch = plain(post_id);
        sketch.phones = vec!["+79010000001".to_owned()];
        sketch.pictures = vec![hash_of_id("p1")];
        sketch.names = vec![NameSketch { stated, ..NameSketch::new(name) }];
        sketch
    };
    let joins = |second: Sketch| {
        let mut book = CaseBook::new();
        let first = book.take_in(shown(1, "Веста", true)).unwrap().0;
        book.take_in(second).unwrap().0 == first
    };
    assert!(joins(shown(2, "Кекс", false)));
    let found = |kind_sure: bool| Sketch {
        kind: Kind::Found,
        kind_sure,
        names: Vec::new(),
        ..shown(3, "Веста", true)
    };
    assert!(joins(found(false)));
    let mut stranger = found(true);
    stranger.phones.clear();
    assert!(!joins(stranger));
}

#[test]
fn what_is_left_of_a_litter_is_its_story() {
    let litter = |post_id: i64, litter: bool, remaining: bool| {
        let mut sketch = plain(post_id);
        sketch.kind = Kind::Adoption;
        sketch.phones = vec!["+79010000001".to_owned()];
        Sketch { litter, remaining, ..sketch }
    };
    let mut book = CaseBook::new();
    let first = book.take_in(litter(1, true, false)).unwrap().0;
    assert_eq!(book.take_in(litter(2, false, true)).unwrap().0, first);
    assert_ne!(book.take_in(litter(3, false, false)).unwrap().0, first);
}

/// A post that says nothing but where it stands.
fn plain(post_id: i64) -> Sketch {
    use crate::content::{Cleaned, Fact, Facts, Post};
    let facts = Facts {
        version: 1,
        kind: Fact::silent(Kind::Lost),
        unsure: false,
        nearly: None,
        animal: Fact::silent(Animal::Cat),
        sex: Fact::silent(Sex::Unknown),
        phones: Vec::new(),
        contact_names: Vec::new(),
        pet_names: Vec::new(),
        breed: None,
        age: None,
        colours: Vec::new(),
        city: None,
        place: None,
        other_places: Vec::new(),
        when: None,
        vk_accounts: Vec::new(),
        reward: None,
        flags: Vec::new(),
        home_city: None,
    };
    Sketch::new(&Post { owner_id: -1, post_id, ..Post::default() }, &facts, &Cleaned::default(), &[])
}
