//! Posts that look wrongly read, and what a volunteer is told about them.

use domain::content::{Post, explained};
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
            kind found: 3.1 points ahead of sighting; for it: the rules together +5.2, «Кто потерял» +0.3, «в» +0.2, «Прибилась» +0.2; against: that no telephone is given -0.8, «ошейнике» -0.5, «собаку» -0.4
            animal dog: 4.3 points ahead of unknown; for it: «собаку» +2.9, the rules together +2.1, «ошейнике» +0.7, «в» +0.4; against: how common it is -1.7, «к» -0.2, «Пропала» -0.2
            sex unknown: 4.0 points ahead of f; for it: the rules together +2.3, «собаку» +1.8, who speaks and how +1.3, the names in it +0.9; against: what the verbs and adjectives agree with -2.7, «потерял» -0.3, «Прибилась» -0.3
        "#]],
    );
}

#[test]
fn a_happy_end_that_tells_the_whole_story_is_explained() {
    check(
        "Неделю искали Рича, пропал с дачи, и вот он дома. Спасибо всем!",
        &expect![[r#"
            kind reunited: 5.7 points ahead of other; for it: the rules together +3.7, «Рича» +1.2, «с» +0.8, «дома» +0.6; against: «искали» -1.4, «Спасибо всем» -0.8, «пропал» -0.3
            animal unknown: 1.1 points ahead of dog; for it: how common it is +1.7, «Спасибо» +0.9, «Неделю» +0.5, «всем» +0.5; against: the rules together -1.5, «дома» -0.5, «с» -0.4
            sex m: 8.7 points ahead of f; for it: the rules together +3.6, what the verbs and adjectives agree with +2.1, who speaks and how +1.9, the names in it +0.7; against: «искали» -0.4, «дома» -0.3, «пропал» -0.3
        "#]],
    );
}

#[test]
fn a_question_that_looks_like_a_search_is_explained() {
    check(
        "А если кот пропал, куда звонить? У соседки такое было",
        &expect![[r#"
            kind other: 0.4 points ahead of lost, which is close: unsure; for it: that no telephone is given +0.9, «было» +0.8, «кот» +0.4, how long it is +0.4; against: the rules together -2.2
            animal cat: 3.2 points ahead of unknown; for it: «кот» +2.8, the rules together +2.6, «У» +0.6, «соседки» +0.1; against: how common it is -1.7, «звонить» -0.3, «А» -0.2
            sex m: 4.4 points ahead of unknown; for it: the rules together +3.5, what kind of post it is +0.7, «соседки» +0.6, what the verbs and adjectives agree with +0.4; against: the names in it -0.8, how common it is -0.5
        "#]],
    );
}

#[test]
fn a_name_without_a_species_is_explained() {
    check(
        "Полкан дома!",
        &expect![[r#"
            kind reunited: 6.2 points ahead of other; for it: the rules together +3.8, «Полкан» +1.2, «дома» +0.6, who speaks and how +0.4
            animal dog: 0.1 points ahead of unknown, which is close: unsure; for it: the rules together +1.5, «дома» +0.5; against: how common it is -1.7, what kind of post it is -0.2
            sex m: 3.4 points ahead of f; for it: the rules together +2.8, the names in it +0.7, what kind of post it is +0.4, who speaks and how +0.2; against: what the verbs and adjectives agree with -0.3, «дома» -0.3
        "#]],
    );
}

#[test]
fn an_advertisement_with_a_lost_dog_in_it_is_explained() {
    check(
        "У соседки пропала собака и нашлась благодаря маячку! Скидка 20 % по промокоду, доставка бесплатно",
        &expect![[r#"
            kind ad: 3.5 points ahead of reunited; for it: «20» +1.2, «доставка» +0.9, «Скидка» +0.8, «собака» +0.7; against: that no telephone is given -0.6, «и» -0.6, the rules together -0.6
            animal dog: 4.2 points ahead of several; for it: the rules together +2.7, «собака» +1.2, how common it is +0.9, «У» +0.3; against: «Скидка» -0.4, «доставка» -0.3, «бесплатно» -0.2
            sex unknown: 3.6 points ahead of f; for it: «собака» +1.8, the rules together +1.5, the names in it +0.9, «пропала» +0.4; against: what the verbs and adjectives agree with -1.0, «соседки» -0.4, «нашлась» -0.2
        "#]],
    );
}
