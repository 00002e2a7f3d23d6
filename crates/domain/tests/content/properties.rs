//! What holds for any text: total, linear, offsets on character borders, normalise idempotent.

use domain::content::normalise::normalise;
use domain::content::{Copied, Evidence, Facts, Post, TextRef, analyse};
use proptest::prelude::*;

fn post(text: &str) -> Post {
    Post { text: text.to_owned(), date: 1_763_190_000, ..Post::default() }
}

fn evidence(facts: &Facts) -> Vec<&Evidence> {
    let mut all: Vec<&Evidence> = Vec::new();
    all.extend(facts.kind.evidence.iter().chain(&facts.animal.evidence).chain(&facts.sex.evidence));
    all.extend(facts.phones.iter().flat_map(|fact| &fact.evidence));
    all.extend(facts.contact_names.iter().chain(&facts.pet_names).flat_map(|fact| &fact.evidence));
    all.extend(facts.breed.iter().chain(&facts.city).chain(&facts.place).flat_map(|fact| &fact.evidence));
    all.extend(facts.other_places.iter().flat_map(|fact| &fact.evidence));
    all.extend(facts.when.iter().flat_map(|fact| &fact.evidence));
    all.extend(facts.colours.iter().flat_map(|fact| &fact.evidence));
    all.extend(facts.vk_accounts.iter().flat_map(|fact| &fact.evidence));
    all.extend(facts.flags.iter().flat_map(|fact| &fact.evidence));
    all
}

fn holds_for(post: &Post) {
    let analysis = analyse(post);
    for item in evidence(&analysis.facts) {
        let text = match item.span.text {
            TextRef::Own => &post.text,
            TextRef::Copy(index) => &post.copy_history[usize::from(index)].text,
        };
        let words = text.get(item.span.start as usize..item.span.end as usize);
        assert_eq!(words, Some(item.words.as_str()), "{item:?}");
    }
    let numbers: Vec<&str> = analysis.facts.phone_numbers().collect();
    assert!(numbers.is_sorted() && numbers.iter().all(|number| number.starts_with('+')));
    assert!(!analysis.cleaned.text.contains("  "));
}

/// Words that make rules fire, strung together with anything between them.
fn fragments() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "Пропал",
        "кот",
        "Барсик",
        "ул.",
        "Мира",
        "31",
        "8",
        "943",
        "120-45-67",
        "вчера",
        "#пропал_кот_Пермь",
        "@club1",
        "[id1|Имя]",
        "[id1|",
        "https://vk.com/id5",
        "найдена",
        "собака",
        "«Солнечный»",
        "в",
        "на",
        "г.",
        "Пермь",
        "в ночь на 9-е",
        "кличка",
        "зовут",
        "карта",
        "2200",
        "0000",
        "девятьсот",
        "ноль",
        "СНТ",
        "…",
        "8️⃣",
        "ё",
        "е\u{308}",
        "🙏",
        "\u{200b}",
        "-",
        "/",
        "(",
        ")",
        "\n",
        "?",
        "!",
        ".",
        "28.08.25",
        "5",
        "числа",
        "ПPOПAЛA",
        "Тоня,",
        "дворняга",
        "Нового",
        "года",
        "№",
        "янында",
        "1О",
        "44-1О",
    ]);
    let parts = prop_oneof![4 => words.prop_map(str::to_owned), 1 => "\\PC{0,6}", 1 => any::<char>().prop_map(String::from)];
    let glue = prop::sample::select(vec![" ", "", ", ", ". ", " - "]);
    prop::collection::vec((parts, glue), 0..60)
        .prop_map(|parts| parts.into_iter().map(|(part, glue)| part + glue).collect())
}

proptest! {
    #[test]
    fn any_text_is_read_and_evidence_is_on_character_borders(text in "\\PC{0,300}") {
        holds_for(&post(&text));
    }

    #[test]
    fn any_mixture_of_telling_words_is_read(text in fragments(), copy in fragments()) {
        let copy = Copied { text: copy, date: 1_763_000_000, ..Copied::default() };
        holds_for(&Post { copy_history: vec![copy], ..post(&text) });
    }

    #[test]
    fn normalise_is_idempotent(text in prop_oneof![fragments(), "\\PC{0,200}".prop_map(String::from), any::<String>()]) {
        let once = normalise(TextRef::Own, &text);
        let twice = normalise(TextRef::Own, &once.text);
        prop_assert_eq!(&once.text, &twice.text);
    }

    /// Mentions whose brackets, account or label shrink while they are read.
    #[test]
    fn normalise_is_idempotent_for_mentions_that_shrink(
        parts in prop::collection::vec(prop::sample::select(vec![
            "[", "]", "|", "id1", "club2", "［", "］", "｜", "\u{200b}", "\u{301}", "i", "d", "1", "K\u{fe00}", " ", "\n",
            "\u{2028}", "🙏", "a", "Имя", "A", "Пpо", "         ", "\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}\u{200b}",
        ]), 0..40),
    ) {
        let once = normalise(TextRef::Own, &parts.concat());
        let twice = normalise(TextRef::Own, &once.text);
        prop_assert_eq!(&once.text, &twice.text);
    }

    #[test]
    fn every_border_of_normalised_text_leads_back_to_a_border(text in any::<String>()) {
        let normal = normalise(TextRef::Own, &text);
        for (at, character) in normal.text.char_indices() {
            let (start, end) = normal.original(at, at + character.len_utf8());
            prop_assert!(text.get(start as usize..end as usize).is_some_and(|words| !words.is_empty()));
        }
    }

    #[test]
    fn any_date_and_offset_is_taken(date in any::<i64>(), offset in any::<i32>()) {
        let mut post = post("Вчера, 31 декабря, в ночь на 1-е и в новогоднюю ночь пропал кот, неделю назад");
        (post.date, post.home.utc_offset_minutes) = (date, offset);
        holds_for(&post);
    }
}

/// A label behind more than a hundred invisible characters was text at first and a mention when read again.
#[test]
fn a_mention_whose_text_shrinks_is_read_the_same_twice() {
    let invisible = "\u{200b}".repeat(150);
    for text in [
        format!("[id1|Имя{invisible}] пропал кот"),
        format!("[id1|{}Имя] пропал кот", " ".repeat(150)),
        format!("[i{invisible}d1|Имя] пропал кот"),
        "［id1｜Имя］ пропал кот".to_owned(),
        "[\u{301}id1|Имя]\u{301} пропал кот".to_owned(),
    ] {
        let once = normalise(TextRef::Own, &text);
        assert_eq!(once.text.trim_start(), "Имя пропал кот", "{text:?}");
        assert_eq!(once.text, normalise(TextRef::Own, &once.text).text, "{text:?}");
    }
    let open = "[id1|Имя\nпропал кот [рыжий]";
    assert_eq!(normalise(TextRef::Own, open).text, open, "a label does not run over its line");
}

#[test]
fn huge_and_odd_posts_are_read() {
    for text in [
        "пропал кот ".repeat(10_000),
        format!("и{}", "\u{301}".repeat(100_000)),
        "8 943 120 45 67 ".repeat(7_000),
        "[id1|".repeat(20_000),
        "[id1|".repeat(20_000) + "]",
        "[\u{200b}".repeat(20_000),
        "#пропал".repeat(15_000),
        "А".repeat(100_000),
        "Пермь, ".repeat(15_000),
        "ул. Мира 5, кот Барсик, ".repeat(4_000),
        "9".repeat(100_000),
        "«".repeat(50_000),
        "\u{202e}\u{200b}".repeat(30_000),
        "https://vk.com/id1 ".repeat(5_000),
        // A hundred thousand words in one clause.
        "кот видел чужого пса и бежал ".repeat(17_000),
        "Пишите в предложку\n".repeat(6_000),
        "нашёлся\n-----\n".repeat(6_000),
    ] {
        holds_for(&post(&text));
    }
}

/// Work is counted in tokens that rules look at: ten times the text is ten times the work.
#[test]
fn work_grows_with_the_length_and_no_faster() {
    for piece in [
        "пропал кот Барсик ул. Мира 5, ",
        "8 943 120 45 67 Анна ",
        "вчера видели собаку на Мира. ",
        "Пермь ",
        "не не не кто если ",
        "найдена ",
        "карта 2200 ",
        "кот видел чужого пса и бежал ",
        "Барсик убежал Мурка нашлась ",
        "на Уралмаше ",
        "Пишите в предложку\n",
        "нашёлся\n-----\n",
    ] {
        let steps = |times: usize| analyse(&post(&piece.repeat(times))).steps;
        let (once, tenfold) = (steps(300), steps(3_000));
        assert!(tenfold <= once * 11, "{piece}: {once} steps, then {tenfold}");
    }
}
