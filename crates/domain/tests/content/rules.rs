//! The rule families one by one: text in, fact out.

use domain::content::facts::{patterns, tables};
use domain::content::lexicon::lexicon;
use domain::content::{Facts, Flag, Home, Post, analyse, pattern};

/// Read as if written in Perm on Saturday, 15 November 2025, at noon.
fn facts(text: &str) -> Facts {
    let home = Home { city: Some("Пермь".to_owned()), utc_offset_minutes: 300 };
    analyse(&Post { text: text.to_owned(), date: 1_763_190_000, home, ..Post::default() }).facts
}

fn check_kind(cases: &[(&str, &str)]) {
    for (text, kind) in cases {
        let facts = facts(text);
        assert_eq!(facts.kind.value.name(), *kind, "{text}\n{:?}", facts.kind.evidence);
    }
}

#[test]
fn every_line_of_the_tables_is_a_rule() {
    for line in tables().flat_map(pattern::lines) {
        let (name, _, weight, _) = line.expect("a rule");
        assert!(name.contains('.') && weight > 0, "{name}");
    }
    assert_eq!(pattern::unknown_groups(lexicon()), Vec::<&str>::new());
    assert!(patterns().count() > 200);
}

#[test]
fn found_and_reunited_are_told_apart() {
    check_kind(&[
        ("Найден пёс на Мира, ищем хозяина! 8 943 000 00 01", "found"),
        ("Нашёлся, дома! Всем спасибо", "reunited"),
        ("Хозяин нашёлся, собаку забрали", "reunited"),
        ("Потеряшка! Прибилась к нам во двор, накормили, спит. Чья? 8 943 000 00 01", "found"),
        ("Если хозяева не найдутся, оставлю себе. Пока у меня в гараже, кормлю", "found"),
    ]);
}

#[test]
fn adoption_stories_that_begin_with_a_find_are_adoption() {
    check_kind(&[
        (
            "Подобрали зимой, вылечили. Кошка стерилизована, лоток знает, ищет дом. 8 943 000 00 01",
            "adoption",
        ),
        (
            "Нашли его на трассе, хозяев искали месяц. Теперь отдаём в добрые руки. Пёс кастрирован",
            "adoption",
        ),
    ]);
}

#[test]
fn a_search_that_goes_on_is_lost() {
    check_kind(&[
        ("Муся вернулась сама! А вот Барсика пока нет. Ищем, серый кот, Мира 5", "lost"),
        ("К посту про британца с Мира — вот ещё один телефон: 8 943 000 00 01", "lost"),
        ("Поиски продолжаются, Рекса до сих пор не нашли", "lost"),
    ]);
}

#[test]
fn posts_with_nothing_to_read_have_their_own_kinds() {
    check_kind(&[
        ("", "empty"),
        ("🙏🙏", "empty"),
        ("https://vk.com/wall-1_2", "link"),
        ("[club1|Группа] 👈", "link"),
    ]);
}

#[test]
fn own_text_decides_over_the_repost() {
    let copy = domain::content::Copied {
        text: "Пропал кот Барсик, Мира 5".to_owned(), ..Default::default()
    };
    let post =
        Post { text: "Нашёлся! Дома!".to_owned(), copy_history: vec![copy], ..Post::default() };
    let facts = analyse(&post).facts;
    assert_eq!((facts.kind.value.name(), facts.animal.value.name()), ("reunited", "cat"));
}

#[test]
fn phones_are_read_in_every_spelling() {
    let cases = [
        ("8 (943) 120-45-67", "+79431204567"),
        ("+7 943 120 45 67", "+79431204567"),
        ("7.943.120.45.67", "+79431204567"),
        ("9431204567", "+79431204567"),
        ("8 9 4 3 - 1 2 0 - 4 5 - 6 7", "+79431204567"),
        ("8️⃣9️⃣4️⃣3️⃣1️⃣2️⃣0️⃣4️⃣5️⃣6️⃣7️⃣", "+79431204567"),
        ("8➖943➖120➖45➖67", "+79431204567"),
        ("8-943-12О-45-67", "+79431204567"),
        ("восемь девятьсот сорок три сто двадцать сорок пять шестьдесят семь", "+79431204567"),
        ("8(384-2)00-14-15", "+73842001415"),
        ("(383) 000-12-13", "+73830001213"),
        ("Тел.89431204567Олеся", "+79431204567"),
        ("+375 29 000 00 01", "+375290000001"),
    ];
    for (text, number) in cases {
        let facts = facts(&format!("Пропал кот, звоните {text}"));
        assert_eq!(facts.phone_numbers().collect::<Vec<_>>(), [number], "{text}");
    }
}

#[test]
fn a_number_that_nobody_answers_is_no_contact() {
    check_phones(&[
        (
            "Пропал кот. Номер 8 943 120-45-67 в посте про него не отвечает, звоните 8 943 120-45-68",
            &["+79431204568"],
        ),
        ("Пропал кот, 8 943 120-45-67, ночью не отвечаю", &["+79431204567"]),
    ]);
}

fn check_phones(cases: &[(&str, &[&str])]) {
    for (text, numbers) in cases {
        assert_eq!(facts(text).phone_numbers().collect::<Vec<_>>(), *numbers, "{text}");
    }
}

#[test]
fn letters_may_stand_for_digits_anywhere_in_a_number() {
    check_phones(&[
        ("Пропал кот, звоните 8 9O7 4OO 63 I2", &["+79074006312"]),
        ("Потерялась такса. Тел. 8-943-З2О-О7-15", &["+79433200715"]),
        ("Найден щенок, 8 943 oo1 22 33", &["+79430012233"]),
        ("Ищем кота, 8 943 120 45 67 в любое время", &["+79431204567"]),
        ("Пропал пёс 8 943 120 45 67, о находке сообщите", &["+79431204567"]),
    ]);
}

#[test]
fn a_second_number_may_be_told_by_its_last_digits() {
    check_phones(&[
        ("Пропал кот, 8 943 120 45 71 или 72", &["+79431204571", "+79431204572"]),
        ("Ищем собаку. Звонить 8-943-120-45-76/78", &["+79431204576", "+79431204578"]),
        ("Пропал кот, 8 943 120 45 71 или 2 подъезд, квартира Ивановых", &["+79431204571"]),
        ("Пропала такса, 8 943 120 45 71, ей 12 лет", &["+79431204571"]),
    ]);
}

#[test]
fn a_number_that_the_post_takes_back_is_no_contact() {
    check_phones(&[
        ("Номер 8 943 120 45 67 неверный, звоните 8 943 120 45 68. Ищем кота", &["+79431204568"]),
        ("Не звоните на 8 943 120 45 67, там мошенники! Наш телефон 8 943 777 00 11", &["+79437770011"]),
        ("Пропал кот. 8 943 120 45 67 больше не работает, пишите 8 943 120 45 69", &["+79431204569"]),
        ("Найден пёс. Номер прежний 8 943 120 45 67", &["+79431204567"]),
        (
            "Найден пёс, 8 943 120 45 67, если не отвечаю — Вера 8 943 120 45 68",
            &["+79431204567", "+79431204568"],
        ),
        ("Сбор на лечение, Сбер 8 943 120 45 67 (переводы и вопросы)", &["+79431204567"]),
    ]);
}

#[test]
fn numbers_in_the_addresses_of_messengers_are_contacts() {
    check_phones(&[
        ("Пропал кот, пишите https://wa.me/79431204567", &["+79431204567"]),
        ("Пропал кот, t.me/+79431204567", &["+79431204567"]),
        ("Ищем таксу: viber://chat?number=%2B79431204567", &["+79431204567"]),
        ("Найдена кошка, api.whatsapp.com/send?phone=79431204567", &["+79431204567"]),
        ("Наш канал t.me/poteryashki", &[]),
        ("Пост https://vk.com/wall-89431204567_12", &[]),
    ]);
}

#[test]
fn cards_and_other_numbers_are_not_phones() {
    for text in [
        "Карта 2200 0000 4417 9051",
        "Карта 2200000044179051",
        "Перевод по СБП на номер 8-976-500-20-02",
        "собрано 11 200 из 46 500 руб.",
        "28.08.2025 в 19:30",
        "дома 29,31 и 33, вес 2,5 кг",
        "https://vk.com/id89431204567",
    ] {
        assert_eq!(facts(text).phones.len(), 0, "{text}");
    }
}

#[test]
fn a_contact_beside_a_purse_is_kept() {
    let facts = facts("Сбор на операцию. Карта 2200 0000 4417 9051. Вопросы по телефону 8 976 511 30 03");
    assert_eq!(facts.phone_numbers().collect::<Vec<_>>(), ["+79765113003"]);
    assert_eq!(facts.kind.value.name(), "fundraising");
}

#[test]
fn sex_is_told_by_words_names_and_agreement() {
    let cases = [
        ("Пропал кабель овчарки", "m"),
        ("Пропала собака, рыжая", "unknown"),
        ("Найден щенок, чёрный, маленький", "unknown"),
        ("Убежал мопс, бежевый", "m"),
        ("Ищем: лабрадор Боня, шоколадная", "f"),
        ("Пропала кошка", "f"),
        ("Отдам щенков: две девочки и один мальчик", "unknown"),
        ("Кот или кошка, не разобрали, найден в подъезде", "unknown"),
    ];
    for (text, sex) in cases {
        assert_eq!(facts(text).sex.value.name(), sex, "{text}");
    }
}

#[test]
fn the_animal_is_the_subject_and_not_its_company() {
    let cases = [
        ("Отдам пса, с кошками дружит, кошек не гоняет", "dog"),
        ("Найдена кошка. У меня свой пёс, оставить не могу", "cat"),
        ("Пропал рыжий пёс, похож на лису", "dog"),
        ("Пропали собака Лайма и кот Персик", "several"),
        ("Улетела корелла, серая", "bird"),
        ("Сбежал хомяк", "rodent"),
        ("Найден хорёк", "other"),
        ("Пропал британец, голубой", "cat"),
    ];
    for (text, animal) in cases {
        assert_eq!(facts(text).animal.value.name(), animal, "{text}");
    }
}

#[test]
fn names_are_nominative_and_people_are_not_pets() {
    let cases: [(&str, &[&str]); 10] = [
        ("Пропал кот, кличка Филя", &["Филя"]),
        ("Пропала собака по кличке «Найда»", &["Найда"]),
        ("Ищем кота Барсика, Мира 5", &["Барсик"]),
        ("Убежал пёс, откликается на Рекса", &["Рекс"]),
        ("Пропал мопс Тайсон. 8 943 120 45 67 Эльвира", &["Тайсон"]),
        ("Пропали две собаки: кобель Алтай и сука Искра", &["Алтай", "Искра"]),
        ("ПРОПАЛ ПЁС, КЛИЧКА ГРОМ, 7 ЛЕТ", &["Гром"]),
        ("Найден кот. Хозяйка Вероника, отзовитесь", &[]),
        ("Приют «Верный» просит помощи: закончился корм", &[]),
        ("Марсель нашёлся! Всем спасибо", &["Марсель"]),
    ];
    for (text, names) in cases {
        let facts = facts(text);
        let got: Vec<&str> = facts.pet_names.iter().map(|name| name.value.as_str()).collect();
        assert_eq!(got, names, "{text}");
    }
    let contacts = facts("Пропал кот. Звонить Наталья Сергеевна 8 943 120 45 67").contact_names;
    assert_eq!(contacts[0].value, "Наталья Сергеевна");
}

#[test]
fn the_city_is_the_town_of_the_incident() {
    let cases = [
        ("Пермь! Пропал кот", Some("Пермь")),
        ("Пропал кот в Набережных Челнах", Some("Набережные Челны")),
        ("Пропал кот. #потеряшки #кемерово", Some("Кемерово")),
        ("г. Орёл, пропал кот", Some("Орёл")),
        ("Питер! Пропал кот", Some("Санкт-Петербург")),
        ("Пропал кот, похож на орла", None),
        ("Подобрали на трассе под Кунгуром, ищет дом", None),
        ("Пропал кот, ул. Пермякова", None),
        ("Депутаты Тюменской областной думы приняли закон о собаках", None),
        ("Юрга. Пропал пёс, вёз его в Кемерово на выставку", Some("Юрга")),
        ("Пропал кот в Октябрьском районе", None),
        ("Пропал кот в Октябрьске", Some("Октябрьск")),
    ];
    for (text, city) in cases {
        assert_eq!(facts(text).city.map(|city| city.value).as_deref(), city, "{text}");
    }
    assert_eq!(facts("Пропал кот").home_city.as_deref(), Some("Пермь"));
}

#[test]
fn places_are_found_by_their_markers() {
    let cases = [
        ("Пропал кот, ул. Мильчакова 31", "ул. Мильчакова 31"),
        ("Пропал кот, Соколовая, 18/40", "Соколовая, 18/40"),
        ("Найдена собака возле рынка", "возле рынка"),
        ("Убежал пёс в СНТ «Надежда»", "СНТ «Надежда»"),
        ("Пропал кот, посёлок Юбилейный", "посёлок Юбилейный"),
        ("Видели собаку на остановке «Пионер»", "остановке «Пионер»"),
        ("Пермь, Закамск. Пропал кот", "Закамск"),
        ("Найден щенок на Рахова/Кутякова", "Рахова/Кутякова"),
    ];
    for (text, place) in cases {
        let got = facts(text).place.map(|place| place.value).unwrap_or_default();
        assert!(got.contains(place), "{text}: {got:?}");
    }
    assert_eq!(facts("Пропал кот, на улице холодно").place, None);
    assert_eq!(facts("Пропал кот, откликается на Лео").place, None);
}

#[test]
fn days_are_counted_from_the_post() {
    let cases = [
        ("Пропал кот сегодня", Some("2025-11-15")),
        ("Вчера вечером пропал кот", Some("2025-11-14")),
        ("Позавчера пропал кот", Some("2025-11-13")),
        ("Пропал кот в пятницу", Some("2025-11-14")),
        ("Пропал кот 28.08.25", Some("2025-08-28")),
        ("Пропал кот 30 октября", Some("2025-10-30")),
        ("Пропал кот 31 декабря", Some("2024-12-31")),
        ("Пропал кот 5 числа", Some("2025-11-05")),
        ("В ночь с 5 на 6 ноября пропал кот", Some("2025-11-05")),
        ("Кот пропал в ночь на 9-е", Some("2025-11-08")),
        ("Кот пропал три дня назад", Some("2025-11-12")),
        ("Этой ночью пропал кот", Some("2025-11-15")),
        ("Третий день нет кота, пропал недавно", None),
        ("Пропал кот. В пятницу уезжаем, помогите найти", None),
    ];
    for (text, day) in cases {
        let got = facts(text).when.map(|when| when.value.to_string());
        assert_eq!(got.as_deref(), day, "{text}");
    }
}

#[test]
fn misspelled_and_glued_words_are_read() {
    check_kind(&[
        ("памагите найти сабаку", "lost"),
        ("Пропалкот!Рыжий,Мира 5", "lost"),
        ("НайденаСобака,девочка,забрали домой", "found"),
        ("ПPOПAЛA KOШKA", "lost"),
        ("#пропаласобака42", "lost"),
    ]);
    assert_eq!(facts("ПPOПAЛA KOШKA").animal.value.name(), "cat");
    assert_eq!(facts("пропола сабака").animal.value.name(), "dog");
}

#[test]
fn a_word_of_every_day_is_a_name_where_only_an_animal_can_stand() {
    let name = |text: &str| facts(text).pet_names.iter().map(|name| name.value.clone()).collect::<Vec<_>>();
    assert_eq!(name("Клюква вчера уехала в новый дом! Спасибо всем"), ["Клюква"]);
    assert_eq!(
        name("Отчёт по Винтику: операция прошла, собрано 4 000 руб., карта 2200 0000 4417 9051"),
        ["Винтик"]
    );
    assert_eq!(name("Пропала такса! Ищем Сардельку третий день, помогите найти"), ["Сарделька"]);
    assert_eq!(name("Шлейка порвалась, пропал пёс, ищем"), Vec::<String>::new());
}

#[test]
fn who_is_meant_is_told_by_name_and_verb() {
    let sex = |text: &str| facts(text).sex.value.name();
    assert_eq!(sex("Пельмень нашёлся, спасибо всем!"), "m");
    assert_eq!(sex("Тайга дома! Сидела у соседей в сарае"), "f");
    assert_eq!(sex("Забрала с улицы щенка, накормила, отмыла. Чей?"), "unknown");
}

#[test]
fn a_post_that_no_rule_knows_is_no_news() {
    let facts = facts("Над рекой поднялся туман, мост закрыт, троллейбусы повернули на проспект");
    assert_eq!((facts.kind.value.name(), facts.unsure), ("other", true), "{:?}", facts.kind.evidence);
}

#[test]
fn flags_and_smaller_facts() {
    let lost = facts("ПОВТОР! Пропала немецкая овчарка, 3 года, чёрная. Вознаграждение 15 тыс. [id5|Автор]");
    assert!(lost.flag(Flag::Repeat));
    assert_eq!(lost.breed.map(|breed| breed.value).as_deref(), Some("немецкая овчарка"));
    assert_eq!(lost.age.map(|age| age.value.from_months), Some(36));
    assert_eq!(lost.reward.map(|reward| reward.value), Some(Some(15_000)));
    assert_eq!(lost.vk_accounts.len(), 1);
    assert!(facts("Возьму котёнка в дар").flag(Flag::Wanted));
    assert!(facts("К посту про таксу: ещё один телефон 8 943 120 45 67").flag(Flag::FollowUp));
}

#[test]
fn evidence_points_at_the_users_own_words() {
    let text = "🆘 ПPOПAЛ кот  Фи\u{301}ля, г. Пермь";
    let facts = facts(text);
    let name = &facts.pet_names[0].evidence[0];
    assert_eq!(name.words, "Фи\u{301}ля");
    assert_eq!(&text[name.span.start as usize..name.span.end as usize], "Фи\u{301}ля");
    assert_eq!(facts.kind.evidence[0].words, "ПPOПAЛ");
}
