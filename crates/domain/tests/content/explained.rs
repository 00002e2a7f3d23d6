//! Posts that look wrongly read, and what a volunteer is told about them.

use domain::content::{Post, analyse, explained};
use expect_test::{Expect, expect};

fn check(text: &str, expected: &Expect) {
    let post = Post { text: text.to_owned(), date: 1_763_190_000, ..Post::default() };
    let lines: Vec<String> = explained(&post)
        .iter()
        .map(|reason| format!("{} {}: {reason}\n", reason.question.name(), reason.answer))
        .collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn a_find_that_speaks_of_a_loss_is_explained() {
    check(
        "Кто потерял собаку? Прибилась к нам, рыжая, в ошейнике. Пропала, видно, давно",
        &expect![[r#"
            kind found: 3.0 points ahead of sighting; for it: the rules, by «Прибилась», «Кто потерял» +4.9, «Кто потерял» +0.3, «Прибилась» +0.2, who speaks and how +0.1; against: that no telephone is given -0.8, «собаку» -0.5, «ошейнике» -0.5
            animal dog: 4.2 points ahead of unknown; for it: «собаку» +3.1, the rules, by «собаку» +1.8, «ошейнике» +0.6, what kind of post it is +0.4; against: how common it is -1.8, «Кто» -0.2, «Пропала» -0.1
            sex unknown: 3.3 points ahead of f; for it: the rules together +1.9, «собаку» +1.6, who speaks and how +1.2, «Кто» +1.0; against: what the verbs and adjectives agree with -2.5, «потерял» -0.6, «рыжая» -0.4
        "#]],
    );
}

#[test]
fn a_happy_end_that_tells_the_whole_story_is_explained() {
    check(
        "Неделю искали Рича, пропал с дачи, и вот он дома. Спасибо всем!",
        &expect![[r#"
            kind reunited: 5.1 points ahead of other; for it: the rules, by «он дома», «Спасибо всем» +3.4, «Рича» +1.2, «с» +0.7, «дома» +0.7; against: «искали» -1.6, «Спасибо всем» -0.8, «пропал» -0.3
            animal unknown: 1.0 points ahead of dog; for it: how common it is +1.8, «Спасибо» +0.9, «Неделю» +0.4, «всем» +0.4; against: the rules together -1.2, «дома» -0.5, «он» -0.2
            sex m: 8.0 points ahead of unknown; for it: who speaks and how +2.5, what the verbs and adjectives agree with +2.4, «Рича» +1.0, the names in it +1.0; against: how common it is -0.8, «пропал» -0.6
        "#]],
    );
}

#[test]
fn a_question_that_looks_like_a_search_is_explained() {
    check(
        "А если кот пропал, куда звонить? У соседки такое было",
        &expect![[r#"
            kind other: 0.4 points ahead of lost, which is close: unsure; for it: «было» +0.8, that no telephone is given +0.8, how long it is +0.4, «кот» +0.4; against: the rules together -2.1
            animal cat: 2.2 points ahead of unknown; for it: «кот» +2.9, the rules, by «кот» +2.4, «У» +0.5, «соседки» +0.1; against: how common it is -1.8, what kind of post it is -0.5, «если кот» -0.2
            sex m: 0.9 points ahead of unknown; for it: the rules, by «кот» +2.3, what kind of post it is +0.4, «пропал» +0.3, «соседки» +0.2; against: how common it is -0.8, who speaks and how -0.7, the names in it -0.7
        "#]],
    );
}

#[test]
fn a_name_without_a_species_is_explained() {
    check(
        "Полкан дома!",
        &expect![[r#"
            kind reunited: 6.1 points ahead of other; for it: the rules, by «Полкан дома» +3.7, «Полкан» +1.2, «дома» +0.7, who speaks and how +0.4
            animal unknown: 0.1 points ahead of dog, which is close: unsure; for it: how common it is +1.8; against: the rules together -1.2, «дома» -0.5
            sex m: 1.9 points ahead of unknown; for it: who speaks and how +1.0, the names in it +1.0, what kind of post it is +0.3, the rules, by «Полкан» +0.3; against: how common it is -0.8
        "#]],
    );
}

#[test]
fn an_advertisement_with_a_lost_dog_in_it_is_explained() {
    check(
        "У соседки пропала собака и нашлась благодаря маячку! Скидка 20 % по промокоду, доставка бесплатно",
        &expect![[r#"
            kind ad: 3.9 points ahead of reunited; for it: «20» +1.2, «доставка» +0.8, «пропала» +0.8, «собака» +0.7; against: that no telephone is given -0.6, the rules together -0.6, «и» -0.5
            animal dog: 3.2 points ahead of several; for it: the rules, by «собака» +2.4, «собака» +1.3, how common it is +0.9, «пропала» +0.1; against: what kind of post it is -0.8, «Скидка» -0.3, «доставка» -0.3
            sex unknown: 5.6 points ahead of f; for it: the rules together +2.1, «собака» +1.6, who speaks and how +1.2, the names in it +0.9; against: what the verbs and adjectives agree with -0.8, «нашлась» -0.6, «соседки» -0.2
        "#]],
    );
}

/// The explanation says what the facts say, and why that is not what the sum says.
#[test]
fn an_answer_that_is_not_the_best_of_its_sum_is_explained() {
    check(
        "Мост через реку красят в зелёный цвет, работы продлятся до октября",
        &expect![[r#"
        kind other: no rule knows it, so it is something else and unsure; the sum alone says news, 0.5 points ahead of other; for it: the rules together +1.2, «зелёный» +0.2; against: «до» -0.5, how common it is -0.3, «октября» -0.2
        animal unknown: 3.5 points ahead of dog; for it: the rules together +2.1, how common it is +1.8, what kind of post it is +0.3; against: «Мост» -0.1
        sex unknown: 3.6 points ahead of f; for it: the rules together +2.1, the names in it +0.9, how common it is +0.5, what kind of post it is +0.3; against: who speaks and how -0.1
    "#]],
    );
    check(
        "По подъезду: владелец мальчик Тимур с 9 этажа, грызуна звать Ракета, передан в целости",
        &expect![[r#"
            kind reunited: 2.1 points ahead of news; for it: «звать» +0.9, «Тимур» +0.7, «мальчик» +0.5, «передан» +0.4; against: «9» -1.1, the rules together -0.9
            animal rodent: 1.0 points ahead of unknown; for it: «звать» +0.8, «грызуна» +0.7, «мальчик» +0.7, «с» +0.6; against: the rules together -2.3, how common it is -2.3
            sex m: the post states it, and the sum only hesitates; the sum alone says unknown, 1.2 points ahead of m; for it: how common it is +0.8, «владелец» +0.6, «передан» +0.6, «мальчик» +0.4; against: the rules, by «мальчик» -1.1, what the verbs and adjectives agree with -0.4
        "#]],
    );
    for text in ["Мост через реку красят в зелёный цвет, работы продлятся до октября", "Полкан дома!"]
    {
        let post = Post { text: text.to_owned(), date: 1_763_190_000, ..Post::default() };
        let facts = analyse(&post).facts;
        let told = [facts.kind.value.name(), facts.animal.value.name(), facts.sex.value.name()];
        let answers: Vec<&str> = explained(&post).iter().map(|reason| reason.answer).collect();
        assert_eq!(answers, told, "{text}");
    }
}

/// A word whose own gender is a thing's says nothing of the animal, and is never shown as if it did.
#[test]
fn a_collar_is_no_evidence_of_a_sex() {
    let posts = [
        "Пропала собака, на шее красный ошейник, хвост крючком",
        "Прибился щенок, ошейник кожаный, рядом лежала чёрная сумка",
        "Сбежала такса Моника, шлейка синяя, адресник круглый",
        "Найден хаски, ошейник красный, поводок оборван, зовём Граф",
    ];
    for text in posts {
        let post = Post { text: text.to_owned(), date: 1_763_190_000, ..Post::default() };
        let sums = explained(&post).into_iter().filter(|reason| reason.question.name() == "sex");
        let mut words: Vec<String> = sums.flat_map(|reason| reason.said).map(|said| said.what).collect();
        words.extend(analyse(&post).facts.sex.evidence.into_iter().map(|evidence| evidence.words));
        let things = [
            "ошейник",
            "красн",
            "кожан",
            "чёрн",
            "сумк",
            "шлейк",
            "син",
            "адресник",
            "кругл",
            "поводок",
            "хвост",
        ];
        for word in words.iter().map(|word| word.to_lowercase()) {
            assert!(!things.iter().any(|thing| word.contains(thing)), "{text}: {word}");
        }
    }
}
