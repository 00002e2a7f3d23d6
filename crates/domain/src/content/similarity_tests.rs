use proptest::prelude::*;

use super::*;

fn sketch(text: &str) -> TextSketch {
    let stems = stems(text.split_whitespace());
    TextSketch::new(stems.iter().map(String::as_str))
}

const LOST: &str = "пропал кот рыжий с белой манишкой ушел через балкон на улице ромашковой хромает на заднюю лапу откликается \
                    на пельмень ждем домой звоните в любое время";

#[test]
fn inflected_words_have_one_stem() {
    assert_eq!(stem("лесобазе"), stem("лесобазы"));
    assert_eq!(stem("широтная"), stem("широтной"));
    assert_eq!(stem("ошейник"), stem("ошейником"));
    assert_eq!(stem("галерея"), stem("галереи"));
}

#[test]
fn the_words_of_every_announcement_tell_nothing() {
    assert!(sketch("пропал кот помогите найти пожалуйста звоните в любое время").telling.len() <= 2);
    assert!(sketch("пропала кошка помогите").is_generic());
    assert!(!sketch(LOST).is_generic());
}

#[test]
fn group_tags_tell_nothing() {
    for tag in ["лапапомощи59", "42хвоста", "найденасобакасаратов"] {
        assert!(!is_telling(&stem(tag)), "{tag} {}", stem(tag));
    }
}

#[test]
fn a_shortened_copy_is_contained_in_the_original() {
    let overlap =
        sketch("пропал рыжий кот с белой манишкой улица ромашковая хромает на лапу").overlap(&sketch(LOST));
    assert!(overlap.share >= 0.8, "{overlap:?}");
}

#[test]
fn a_copy_with_a_line_added_meets_the_original_in_a_band() {
    let (original, copy) = (sketch(LOST), sketch(&format!("повтор нашелся дома спасибо всем {LOST}")));
    assert!(original.bands().any(|band| copy.bands().any(|other| band == other)));
    assert!(original.resemblance(&copy) > 0.6);
}

#[test]
fn different_texts_have_little_in_common() {
    let other = sketch(
        "найдена овчарка на трассе у заправки в брезентовой шлейке прихрамывает молодая сука живет в гараже",
    );
    let overlap = sketch(LOST).overlap(&other);
    assert!(overlap.share < 0.3 && overlap.resemblance < 0.1, "{overlap:?}");
}

#[test]
fn the_signature_never_changes() {
    // Stored in databases: a change needs a new version and a rebuild of the index.
    let sketch = sketch("рыжий кот с манишкой");
    assert_eq!(sketch.telling.len(), 2);
    assert_eq!(stable_hash("кот".as_bytes()), stable_hash("кот".as_bytes()));
    expect_test::expect!["e10772b6b8d86242"]
        .assert_eq(&format!("{:016x}", stable_hash("манишка".as_bytes())));
}

proptest! {
    #[test]
    fn any_words_have_a_sketch_of_bounded_size(text in "\\PC{0,600}") {
        let sketch = sketch(&text);
        prop_assert!(sketch.telling.len() <= TELLING_MAX);
        prop_assert!(sketch.signature.len() == SIGNATURE_ROWS || sketch.signature.is_empty());
        prop_assert_eq!(sketch.bands().count(), sketch.signature.len() / BAND_ROWS);
    }

    #[test]
    fn overlap_is_symmetric(one in "([а-я]{1,6} ){0,30}", other in "([а-я]{1,6} ){0,30}") {
        let (one, other) = (sketch(&one), sketch(&other));
        prop_assert_eq!(one.overlap(&other), other.overlap(&one));
    }
}
