//! The animal of a post as a heading tells it. Prefers silence to a guess: a wrong name in a title is worse than none.

use super::lexicon::{Species, lexicon};
use super::{Animal, Facts, Flag, Sex};
use crate::message::Pet;

/// Months up to which a dog is a puppy and a cat a kitten.
const YOUNG_MONTHS_MAX: u16 = 4;
const NAME_LETTERS: std::ops::RangeInclusive<usize> = 2..=16;

/// How the words for an animal begin, and the noun of a title.
const NOUNS: [(&str, &str); 30] = [
    ("попуг", "попугай"),
    ("волнист", "попугай"),
    ("корел", "попугай"),
    ("неразлуч", "попугай"),
    ("какаду", "попугай"),
    ("жако", "попугай"),
    ("какарик", "попугай"),
    ("канар", "канарейка"),
    ("кенар", "кенар"),
    ("голуб", "голубь"),
    ("сова", "сова"),
    ("хом", "хомяк"),
    ("джунгар", "хомяк"),
    ("крыс", "крыса"),
    ("шиншил", "шиншилла"),
    ("свинк", "морская свинка"),
    ("морсвин", "морская свинка"),
    ("дегу", "дегу"),
    ("крол", "кролик"),
    ("крольч", "кролик"),
    ("хорек", "хорёк"),
    ("хорёк", "хорёк"),
    ("хорьк", "хорёк"),
    ("фретк", "хорёк"),
    ("череп", "черепаха"),
    ("ежик", "ёж"),
    ("ёж", "ёж"),
    ("енот", "енот"),
    ("коза", "коза"),
    ("лошад", "лошадь"),
];

/// What a heading may say of the animal; nothing when nothing is known.
pub fn pet(facts: &Facts) -> Option<Pet> {
    let animal = facts.animal.value;
    let many = animal == Animal::Several || facts.flag(Flag::Litter) || facts.flag(Flag::ManyAnimals);
    let pet = Pet {
        animal: if animal == Animal::Unknown { String::new() } else { animal.name().to_owned() },
        noun: noun(facts),
        sex: if facts.sex.value == Sex::Unknown { String::new() } else { facts.sex.value.name().to_owned() },
        name: if many { String::new() } else { name(facts) },
        young: is_young(facts),
        many,
    };
    (pet != Pet::default()).then_some(pet)
}

/// The word that named the animal, where the species is too wide a word for a title.
fn noun(facts: &Facts) -> String {
    if !matches!(facts.animal.value, Animal::Bird | Animal::Rodent | Animal::Other) {
        return String::new();
    }
    let words = facts.animal.evidence.first().map_or("", |evidence| evidence.words.as_str()).to_lowercase();
    let is_of_it =
        species(&words).is_some_and(|species| species.noun && species.animal == facts.animal.value);
    let noun = NOUNS.iter().find(|(stem, _)| is_of_it && words.starts_with(stem));
    noun.map_or_else(String::new, |(_, noun)| (*noun).to_owned())
}

fn species(words: &str) -> Option<Species> {
    lexicon().find(&words.to_lowercase()).and_then(|entry| entry.species)
}

/// The one name of the one animal, if it looks like a name.
fn name(facts: &Facts) -> String {
    let [name] = facts.pet_names.as_slice() else { return String::new() };
    let name = name.value.trim();
    let plain = |c: char| c.is_alphabetic() || c == '-' || c == ' ';
    let is_name = NAME_LETTERS.contains(&name.chars().count())
        && name.chars().all(plain)
        && name.starts_with(char::is_uppercase)
        && !name.chars().nth(1).is_some_and(char::is_uppercase);
    if is_name { name.to_owned() } else { String::new() }
}

fn is_young(facts: &Facts) -> bool {
    if !matches!(facts.animal.value, Animal::Dog | Animal::Cat) {
        return false;
    }
    let told = facts.animal.evidence.first().and_then(|evidence| species(&evidence.words));
    let little = facts.age.as_ref().is_some_and(|age| age.value.to_months <= YOUNG_MONTHS_MAX);
    told.is_some_and(|species| species.young) || little
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::{Post, analyse};

    fn check(text: &str, expected: &str) {
        let post = Post { text: text.to_owned(), ..Post::default() };
        let told = serde_json::to_value(pet(&analyse(&post).facts)).unwrap();
        assert_eq!(told.to_string(), expected, "{text}");
    }

    #[test]
    fn a_pet_is_what_the_post_says_of_it() {
        check("Пропала собака Буся, рыжая, убежала с дачи", r#"{"animal":"dog","name":"Буся","sex":"f"}"#);
        check("Пропал кот Барсик! Серый, пушистый.", r#"{"animal":"cat","name":"Барсик","sex":"m"}"#);
        check(
            "Улетел волнистый попугай Кеша",
            r#"{"animal":"bird","name":"Кеша","noun":"попугай","sex":"m"}"#,
        );
        check("Котята ищут дом, 2 месяца, едят сами", r#"{"animal":"cat","many":true,"young":true}"#);
        check("Сегодня хорошая погода", "null");
    }
}
