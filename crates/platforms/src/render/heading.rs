//! The title that a post gets from its facts: «Пропала собака Буся», «Найден кот», «Котята ищут дом».
//! Russian grammar and nothing else; what is not known is left out, down to «Пропал питомец».

use domain::message::Pet;

/// What stands on top of a post: the icon of its kind, and words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heading {
    pub icon: &'static str,
    pub words: String,
}

/// On top of a post whose story has ended.
pub const CLOSED: (&str, &str) = ("🎉", "Дома! Спасибо");

/// Icon and title of a kind, with the animal in them as far as it is known.
pub fn heading(kind: &str, pet: Option<&Pet>) -> Heading {
    let unknown = Pet::default();
    let pet = pet.unwrap_or(&unknown);
    let noun = noun(pet);
    let named = named(noun.nominative, &pet.name);
    let is_known = *pet != Pet { sex: pet.sex.clone(), young: pet.young, ..Pet::default() };
    let (icon, words) = match kind {
        "lost" => ("🔎", format!("{} {named}", noun.agree(["Пропал", "Пропала", "Пропали"]))),
        "found" => ("✅", format!("{} {named}", noun.agree(["Найден", "Найдена", "Найдены"]))),
        // The name would have to be declined.
        "sighting" => ("👀", format!("Видели {}", noun.accusative)),
        "adoption" if is_known => {
            ("🏠", format!("{} {} дом", capital(&named), noun.agree(["ищет", "ищет", "ищут"])))
        }
        "adoption" => ("🏠", "Ищет дом".to_owned()),
        "fundraising" if !pet.name.is_empty() => ("💳", format!("Нужна помощь: {named}")),
        "fundraising" if is_known => ("💳", format!("Нужна помощь {}", noun.dative)),
        "fundraising" => ("💳", "Нужна помощь".to_owned()),
        "reunited" => ("🎉", format!("{} дома", capital(&named))),
        _ => return Heading::default(),
    };
    Heading { icon, words }
}

/// A noun for an animal.
#[derive(Debug, Clone, Copy)]
struct Noun {
    gender: Gender,
    nominative: &'static str,
    accusative: &'static str,
    dative: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum Gender {
    Masculine,
    Feminine,
    Plural,
}

use Gender::{Feminine, Masculine, Plural};

impl Noun {
    const fn new(
        gender: Gender,
        nominative: &'static str,
        accusative: &'static str,
        dative: &'static str,
    ) -> Noun {
        Noun { gender, nominative, accusative, dative }
    }

    /// The form of a word that goes with the noun: masculine, feminine, plural.
    fn agree(self, [masculine, feminine, plural]: [&'static str; 3]) -> &'static str {
        match self.gender {
            Masculine => masculine,
            Feminine => feminine,
            Plural => plural,
        }
    }
}

/// Nouns of the post's own, as `domain::content::pet` gives them.
const OWN: [Noun; 19] = [
    Noun::new(Masculine, "попугай", "попугая", "попугаю"),
    Noun::new(Feminine, "канарейка", "канарейку", "канарейке"),
    Noun::new(Masculine, "кенар", "кенара", "кенару"),
    Noun::new(Masculine, "голубь", "голубя", "голубю"),
    Noun::new(Feminine, "сова", "сову", "сове"),
    Noun::new(Masculine, "хомяк", "хомяка", "хомяку"),
    Noun::new(Feminine, "крыса", "крысу", "крысе"),
    Noun::new(Feminine, "шиншилла", "шиншиллу", "шиншилле"),
    Noun::new(Feminine, "морская свинка", "морскую свинку", "морской свинке"),
    Noun::new(Masculine, "дегу", "дегу", "дегу"),
    Noun::new(Masculine, "кролик", "кролика", "кролику"),
    Noun::new(Masculine, "хорёк", "хорька", "хорьку"),
    Noun::new(Feminine, "черепаха", "черепаху", "черепахе"),
    Noun::new(Masculine, "ёж", "ежа", "ежу"),
    Noun::new(Masculine, "енот", "енота", "еноту"),
    Noun::new(Feminine, "коза", "козу", "козе"),
    Noun::new(Feminine, "лошадь", "лошадь", "лошади"),
    Noun::new(Feminine, "птица", "птицу", "птице"),
    Noun::new(Masculine, "питомец", "питомца", "питомцу"),
];

fn noun(pet: &Pet) -> Noun {
    let male = pet.sex == "m" || pet.sex.is_empty() && is_male_name(&pet.name);
    match (pet.animal.as_str(), pet.many, pet.young) {
        ("dog", true, true) => Noun::new(Plural, "щенки", "щенков", "щенкам"),
        ("dog", true, false) => Noun::new(Plural, "собаки", "собак", "собакам"),
        ("dog", false, true) => Noun::new(Masculine, "щенок", "щенка", "щенку"),
        ("dog", false, false) if male => Noun::new(Masculine, "пёс", "пса", "псу"),
        ("dog", false, false) => Noun::new(Feminine, "собака", "собаку", "собаке"),
        ("cat", true, true) => Noun::new(Plural, "котята", "котят", "котятам"),
        ("cat", true, false) => Noun::new(Plural, "кошки", "кошек", "кошкам"),
        ("cat", false, true) => Noun::new(Masculine, "котёнок", "котёнка", "котёнку"),
        ("cat", false, false) if male => Noun::new(Masculine, "кот", "кота", "коту"),
        ("cat", false, false) => Noun::new(Feminine, "кошка", "кошку", "кошке"),
        (_, true, _) => Noun::new(Plural, "питомцы", "питомцев", "питомцам"),
        (animal, false, _) => {
            let wanted = match (pet.noun.as_str(), animal) {
                ("", "bird") => "птица",
                (noun, _) => noun,
            };
            let [.., pet] = OWN;
            OWN.into_iter().find(|noun| noun.nominative == wanted).unwrap_or(pet)
        }
    }
}

/// Where the sex is not known: a name that ends in a consonant is nearly always a male one.
fn is_male_name(name: &str) -> bool {
    let last = name.chars().next_back().and_then(|c| c.to_lowercase().next());
    last.is_some_and(|c| "бвгджзйклмнпрстфхцчшщ".contains(c))
}

fn named(noun: &str, name: &str) -> String {
    if name.is_empty() { noun.to_owned() } else { format!("{noun} {name}") }
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pet(animal: &str, sex: &str, name: &str) -> Pet {
        Pet { animal: animal.into(), sex: sex.into(), name: name.into(), ..Pet::default() }
    }

    #[test]
    fn every_kind_agrees_with_every_animal() {
        let many = |animal: &str, young| Pet { many: true, young, ..pet(animal, "", "") };
        let parrot = Pet { noun: "попугай".into(), ..pet("bird", "m", "Кеша") };
        let table = [
            (
                Pet::default(),
                [
                    "Пропал питомец",
                    "Найден питомец",
                    "Видели питомца",
                    "Ищет дом",
                    "Нужна помощь",
                    "Питомец дома",
                ],
            ),
            (
                pet("dog", "f", "Буся"),
                [
                    "Пропала собака Буся",
                    "Найдена собака Буся",
                    "Видели собаку",
                    "Собака Буся ищет дом",
                    "Нужна помощь: собака Буся",
                    "Собака Буся дома",
                ],
            ),
            (
                pet("dog", "m", "Рич"),
                [
                    "Пропал пёс Рич",
                    "Найден пёс Рич",
                    "Видели пса",
                    "Пёс Рич ищет дом",
                    "Нужна помощь: пёс Рич",
                    "Пёс Рич дома",
                ],
            ),
            (
                pet("dog", "", ""),
                [
                    "Пропала собака",
                    "Найдена собака",
                    "Видели собаку",
                    "Собака ищет дом",
                    "Нужна помощь собаке",
                    "Собака дома",
                ],
            ),
            (
                pet("cat", "m", ""),
                ["Пропал кот", "Найден кот", "Видели кота", "Кот ищет дом", "Нужна помощь коту", "Кот дома"],
            ),
            (
                pet("cat", "", "Граф"),
                [
                    "Пропал кот Граф",
                    "Найден кот Граф",
                    "Видели кота",
                    "Кот Граф ищет дом",
                    "Нужна помощь: кот Граф",
                    "Кот Граф дома",
                ],
            ),
            (
                pet("cat", "", "Мася"),
                [
                    "Пропала кошка Мася",
                    "Найдена кошка Мася",
                    "Видели кошку",
                    "Кошка Мася ищет дом",
                    "Нужна помощь: кошка Мася",
                    "Кошка Мася дома",
                ],
            ),
            (
                pet("", "f", "Буся"),
                [
                    "Пропал питомец Буся",
                    "Найден питомец Буся",
                    "Видели питомца",
                    "Питомец Буся ищет дом",
                    "Нужна помощь: питомец Буся",
                    "Питомец Буся дома",
                ],
            ),
            (
                parrot,
                [
                    "Пропал попугай Кеша",
                    "Найден попугай Кеша",
                    "Видели попугая",
                    "Попугай Кеша ищет дом",
                    "Нужна помощь: попугай Кеша",
                    "Попугай Кеша дома",
                ],
            ),
            (
                pet("bird", "", ""),
                [
                    "Пропала птица",
                    "Найдена птица",
                    "Видели птицу",
                    "Птица ищет дом",
                    "Нужна помощь птице",
                    "Птица дома",
                ],
            ),
            (
                many("cat", true),
                [
                    "Пропали котята",
                    "Найдены котята",
                    "Видели котят",
                    "Котята ищут дом",
                    "Нужна помощь котятам",
                    "Котята дома",
                ],
            ),
            (
                many("dog", false),
                [
                    "Пропали собаки",
                    "Найдены собаки",
                    "Видели собак",
                    "Собаки ищут дом",
                    "Нужна помощь собакам",
                    "Собаки дома",
                ],
            ),
            (
                many("several", false),
                [
                    "Пропали питомцы",
                    "Найдены питомцы",
                    "Видели питомцев",
                    "Питомцы ищут дом",
                    "Нужна помощь питомцам",
                    "Питомцы дома",
                ],
            ),
        ];
        for (pet, expected) in table {
            let kinds = ["lost", "found", "sighting", "adoption", "fundraising", "reunited"];
            let told = kinds.map(|kind| heading(kind, Some(&pet)).words);
            assert_eq!(told, expected.map(str::to_owned), "{pet:?}");
        }
    }

    #[test]
    fn other_kinds_have_no_heading() {
        assert_eq!(heading("news", Some(&pet("dog", "f", "Буся"))), Heading::default());
        assert_eq!(heading("", None), Heading::default());
    }
}
