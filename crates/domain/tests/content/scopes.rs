//! What stands in a post and is not said of its animal: the group's footer, an old post, a place where it was not.

use domain::content::{Analysis, Facts, Home, Post, analyse};

fn read(text: &str) -> Analysis {
    let home = Home { city: Some("Екатеринбург".to_owned()), utc_offset_minutes: 300 };
    analyse(&Post { text: text.to_owned(), date: 1_763_190_000, home, ..Post::default() })
}

const FOOTER: &str = "\nПотеряли? Нашли собаку или кошку?\nПрисылайте в предложку, публикуем бесплатно";

/// The footer of the group changes neither the facts nor the words that are compared.
#[test]
fn a_post_is_read_alike_with_and_without_the_footer_of_its_group() {
    for text in [
        "Пропал попугай Кеша, зелёный, Мира 5. 8 943 000 00 01",
        "Рич дома! Нашёлся у соседей, спасибо",
        "Отдаём котёнка, мальчик, лоток знает",
        "Бегает хаски у школы 12, в красном ошейнике",
        "Завтра субботник в приюте «Хвост», приходите все",
    ] {
        let (plain, under) = (read(text), read(&format!("{text}{FOOTER}")));
        let told = |facts: &Facts| {
            let place = facts.place.as_ref().map(|fact| fact.value.clone());
            let names: Vec<String> = facts.pet_names.iter().map(|fact| fact.value.clone()).collect();
            (facts.kind.value, facts.animal.value, facts.sex.value, place, names)
        };
        assert_eq!(told(&plain.facts), told(&under.facts), "{text}");
        assert_eq!(plain.cleaned.text, under.cleaned.text, "{text}");
    }
}

#[test]
fn an_update_outweighs_the_old_post_below_it() {
    for (text, kind) in [
        (
            "UPD. НАШЁЛСЯ! Всем спасибо\n————\nПропал Тузик, терьер, чёрный. Сорвался на Садовой, кто видел, звоните",
            "reunited",
        ),
        ("Нашлась!\nБыло:\nПропала кошка Муся, серая, помогите найти", "reunited"),
        (
            "Так и не вернулся\n————\nПропал Тузик, терьер, чёрный. Сорвался на Садовой, кто видел, звоните",
            "lost",
        ),
    ] {
        assert_eq!(read(text).facts.kind.value.name(), kind, "{text}");
    }
    let facts = read("Нашлась!\nБыло:\nПропала кошка Муся, серая").facts;
    assert_eq!(facts.pet_names[0].value, "Муся", "an old post still tells who it is");
}

#[track_caller]
fn check_place(text: &str, place: Option<&str>, others: &[&str]) {
    let facts = read(text).facts;
    assert_eq!(facts.place.as_ref().map(|fact| fact.value.as_str()), place, "{text}");
    let got: Vec<&str> = facts.other_places.iter().map(|fact| fact.value.as_str()).collect();
    assert_eq!(got, others, "{text}");
}

#[test]
fn the_place_where_the_animal_was_not_is_not_its_place() {
    check_place("Пропал кот не на Рахова, а на Чапаева", Some("на Чапаева"), &[]);
    check_place("Пропал кот, в Закамске его нет, искали", None, &[]);
    check_place("Пропала кошка, это не Мира 5, а Садовая 7", Some("Садовая 7"), &[]);
    check_place("Ищем кота везде, кроме Закамска. Пропал у ТЦ «Радуга»", Some("ТЦ «Радуга»"), &[]);
}

#[test]
fn what_is_denied_beside_a_place_leaves_the_place() {
    check_place("Кошка не вернулась домой на Рахова 5", Some("на Рахова 5"), &[]);
    check_place("На Мира 5 нет кота с самого утра, пропал", Some("На Мира 5"), &[]);
    check_place("Пропал кот не далеко от магазина Магнит", Some("магазина Магнит"), &[]);
}

#[test]
fn districts_of_large_cities_are_known_by_their_names() {
    check_place("Эльмаш, найден пёс, рыжий", Some("Эльмаш"), &[]);
    check_place("Пропал кот на Уралмаше, рыжий", Some("на Уралмаше"), &[]);
    check_place("Пропал пёс, Ботаника, звоните", Some("Ботаника"), &[]);
    let facts = read("Эльмаш. Найден пёс, рыжий").facts;
    assert_eq!((facts.city, facts.pet_names), (None, Vec::new()), "a district is neither a city nor a name");
    let named = read("Пропал кот по кличке Уктус").facts;
    assert_eq!((named.place, named.pet_names[0].value.as_str()), (None, "Уктус"));
    let everyday = read("Ботаника нам не нужна, найден кот").facts;
    assert_eq!(everyday.place, None);
}
