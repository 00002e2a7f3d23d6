//! The fingerprint, version 1: its bytes are published, so these tests are a contract.

use domain::content::fingerprint::{fingerprint, fingerprint_source};
use domain::content::{Post, analyse};

fn read(text: &str, strict: bool) -> (Option<String>, Option<String>) {
    let analysis = analyse(&Post { text: text.to_owned(), ..Post::default() });
    (
        fingerprint_source(&analysis.facts, &analysis.cleaned, strict),
        fingerprint(&analysis.facts, &analysis.cleaned, strict),
    )
}

fn print(text: &str) -> String {
    read(text, false).1.expect("a fingerprint")
}

#[test]
fn the_published_vectors_hold() {
    let vectors = [
        (
            "Пермь. Пропал кот Барсик, 8 (943) 120-45-67",
            "phones=+79431204567|animal=cat|sex=m|loc=пермь|t=sha1:",
            "08fcc21cde658d741b5f24dc5124bfc5af5157e2",
        ),
        (
            "Найдена собака возле рынка, чья?",
            "phones=|animal=dog|sex=|loc=возле рынка|t=sha1:6390cda448e2dd9b43800ad888ff372271353b71",
            "a20350eed5a0ed35cc06c1a78f9975ae1812120d",
        ),
        (
            "Помогите найти!",
            "phones=|animal=|sex=|loc=|t=sha1:2afe189fa534ac8d0746ab1b64caecb672c316d9",
            "b07a30ea9468516e11fa19f91ffcdf27c1160eec",
        ),
    ];
    for (text, source, hash) in vectors {
        assert_eq!(read(text, false), (Some(source.to_owned()), Some(hash.to_owned())), "{text}");
    }
}

#[test]
fn spelling_does_not_change_it() {
    let same = [
        "Найдена рыжая собака возле рынка, чья?",
        "  Найдена   рыжая\n\nсобака возле рынка, чья?  ",
        "Найдена рыжая собака возле рынка — чья?!!",
        "🐕🐕 Найдена рыжая собака возле рынка, чья? 🙏",
        "Нaйденa рыжaя сoбaкa вoзле рынкa, чья?",
        "НАЙДЕНА рыжая собака возле рынка, чья?",
        "Найдена рыжая собака возле рынка чья",
        "Найдена ры-жая собака возле рынка, чья?",
        "Найдена рыжая собака возле рын\u{200b}ка, чья? https://vk.com/wall-1_2 [id1|Автор]",
    ];
    let first = print(same[0]);
    for text in same {
        assert_eq!(print(text), first, "{text}");
    }
    let phones = [
        "Пропал кот. 8 943 120 45 67",
        "Пропал кот. +7 (943) 120-45-67",
        "Пропал кот. восемь девятьсот сорок три сто двадцать сорок пять шестьдесят семь",
    ];
    assert!(phones.iter().all(|text| print(text) == print(phones[0])));
}

#[test]
fn another_phone_animal_or_sex_changes_it() {
    let base = print("Пропал кот. 8 943 120 45 67");
    assert_ne!(print("Пропал кот. 8 943 120 45 68"), base);
    assert_ne!(print("Пропал пёс. 8 943 120 45 67"), base);
    assert_ne!(print("Пропала кошка. 8 943 120 45 67"), base);
    assert_ne!(print("Найдена собака у рынка"), print("Найдена собака у парка"));
}

#[test]
fn without_a_phone_the_strict_form_needs_animal_and_place() {
    assert_eq!(read("Помогите найти!", true).1, None);
    assert_eq!(read("Пропал кот, помогите", true).1, None);
    assert!(read("Пермь. Пропал кот", true).1.is_some());
    assert!(read("Помогите найти! 8 943 120 45 67", true).1.is_some());
}

#[test]
fn only_the_first_four_hundred_characters_count() {
    let long = format!("Пропал кот {}", "очень ".repeat(100));
    let longer = format!("{long} и ещё много других слов");
    assert_eq!(print(&long), print(&longer));
}

/// Changes that people and clients make without meaning to.
fn respellings(text: &str) -> Vec<(&'static str, String)> {
    let alike = |letter: char| match letter {
        'а' => 'a',
        'е' => 'e',
        'о' => 'o',
        'с' => 'c',
        'р' => 'p',
        'А' => 'A',
        'С' => 'C',
        'О' => 'O',
        other => other,
    };
    // Only words that keep a letter of their own: a word of look-alikes alone is Latin to anybody.
    let folded = |word: &str| {
        let kept = word.chars().any(|letter| ('а'..='я').contains(&letter) && alike(letter) == letter);
        if kept && !word.contains(['/', '@', '[', '|']) {
            word.chars().map(alike).collect()
        } else {
            word.to_owned()
        }
    };
    let words: Vec<String> = text.split(' ').map(folded).collect();
    vec![
        ("double spaces", text.replace(' ', "  ")),
        ("spaces at the ends", format!("  {text}\n\n")),
        ("no-break spaces", text.replace(' ', "\u{a0}")),
        ("emoji at the ends", format!("🐾🐾 {text} 🙏")),
        ("more marks", text.replace('!', "!!!")),
        ("zero-width", text.replace(' ', " \u{200b}")),
        ("look-alikes", words.join(" ")),
        ("decomposed", text.replace('й', "и\u{306}").replace('ё', "е\u{308}")),
        ("without ё", text.replace('ё', "е").replace('Ё', "Е")),
    ]
}

#[test]
fn respelling_a_post_of_the_corpus_does_not_change_it() {
    let corpus = include_str!("../../testdata/pets-dev.jsonl");
    let mut changed = Vec::new();
    for line in corpus.lines() {
        let post: Post = serde_json::from_str(line).expect("a post");
        let first = print(&post.text);
        for (change, text) in respellings(&post.text) {
            if print(&text) != first {
                changed.push(format!(
                    "{change}: {:?} | {:?}",
                    read(&post.text, false).0,
                    read(&text, false).0
                ));
            }
        }
    }
    assert!(changed.is_empty(), "{}\n{}", changed.len(), changed.join("\n"));
}
