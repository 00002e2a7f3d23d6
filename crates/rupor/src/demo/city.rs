//! The invented city: its walls, what is written on them, and what readers of the channels must see of it.
//!
//! Nobody here exists: towns, pets, phones and pictures are made up. The expected list is written by hand beside the
//! posts; it is not worked out by the code that it judges.

use sandbox::Name;
use serde_json::{Value, json};

use super::judge::{Line, Verb};

/// Walls that are read.
pub(super) const OVERHEARD: i64 = -97_501;
pub(super) const STRAYS: i64 = -97_502;
pub(super) const NEIGHBOURS: i64 = -97_503;
/// A wall that nobody reads; things are reposted from it.
const ELSEWHERE: i64 = -97_509;

/// The channels of `city.toml`, as the sandbox knows them.
pub(super) const CHANNELS: [(&str, Name, i64); 4] = [
    ("telegram", Name::Telegram, -1_009_750_000_001),
    ("district", Name::Telegram, -1_009_750_000_002),
    ("vk", Name::Vk, -97_500),
    ("max", Name::Max, -97_500_000_000_003),
];
/// The channel that is banned and comes back.
pub(super) const BANNED: &str = "district";

/// How places are called on the sandbox page.
pub(super) const FACES: [(Name, i64, &str, &str); 7] = [
    (Name::Telegram, -1_009_750_000_001, "channel", "Потеряшки Верхнелипска"),
    (Name::Telegram, -1_009_750_000_002, "channel", "Заречный район · питомцы"),
    (Name::Max, -97_500_000_000_003, "chat", "Потеряшки · чат"),
    (Name::Vk, -97_500, "group", "Ищем питомцев · Верхнелипск"),
    (Name::Vk, OVERHEARD, "group", "Подслушано · Верхнелипск"),
    (Name::Vk, STRAYS, "group", "Помощь животным · Верхнелипск"),
    (Name::Vk, NEIGHBOURS, "group", "Соседи · Заречный район"),
];

/// A post of one of the walls.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub wall: i64,
    pub post: Value,
}

fn sample(wall: i64, id: i64, text: &str, photos: &[&str]) -> Sample {
    Sample { wall, post: json!({"id": id, "text": text, "photos": photos}) }
}

fn repost(wall: i64, id: i64, from: (i64, i64), text: &str, photos: &[&str]) -> Sample {
    let inner = json!({"owner_id": from.0, "id": from.1, "text": text, "photos": photos});
    Sample { wall, post: json!({"id": id, "text": "", "copy_history": [inner]}) }
}

const BARSIK: &str = "Пропал кот Барсик, серый полосатый, три года, пушистый хвост. \
     Ушёл с улицы Садовой, дом 5. Звоните в любое время: +7 975 000-00-02";
const GRAF: &str = "Убежал хаски Граф, кобель, голубые глаза, чёрно-белый, без ошейника. \
     Видели на улице Речной. Телефон хозяина 8 (975) 000-00-05";

/// What stands on the walls at first.
pub(super) fn originals() -> Vec<Sample> {
    let mut ad = sample(OVERHEARD, 3, "Пропал аппетит у кота? Корм со скидкой 30 % до конца недели!", &[]);
    ad.post["marked_as_ads"] = 1.into();
    vec![
        sample(
            OVERHEARD,
            1,
            "Пропала собака! Убежала такса Буся, рыжая, в красном ошейнике, в районе парка Победы. \
             Очень ждём дома! Телефон 8 975 000-00-01",
            &["буся", "буся на диване"],
        ),
        sample(OVERHEARD, 2, "Новости города: в субботу в центре перекроют движение из-за ярмарки.", &[]),
        ad,
        sample(OVERHEARD, 4, "https://vk.com/wall-97509_77", &[]),
        sample(OVERHEARD, 5, BARSIK, &["барсик"]),
        sample(
            STRAYS,
            1,
            "Найден пёс: овчарка, кобель, с ошейником, бегает на улице Мира. \
             Ищем хозяев! Тел. +7 975 000-00-03",
            &["овчарка"],
        ),
        sample(
            STRAYS,
            2,
            "Потерялась кошка Мурка, трёхцветная, стерилизована, боится людей. \
             Пропала на улице Лесной, дом 12. Звоните +7 975 000-00-04",
            &["мурка"],
        ),
        sample(STRAYS, 3, GRAF, &[]),
        repost(
            NEIGHBOURS,
            1,
            (ELSEWHERE, 5),
            "Пропала кошка Ляля, сиамская, голубые глаза, ушла с улицы Полевой. Тел. +7 975 000-00-06",
            &["ляля"],
        ),
    ]
}

/// The same stories again on other walls: in other words with the same phone, with the same picture compressed once
/// more, and as a repost.
pub(super) fn copies() -> Vec<Sample> {
    vec![
        sample(
            STRAYS,
            4,
            "Друзья, помогите найти таксу Бусю! Потерялась рыжая девочка, на шее красный ошейник, \
             парк Победы. +7 (975) 000-00-01",
            &["буся~"],
        ),
        sample(
            NEIGHBOURS,
            2,
            "Пропал кот Барсик, серый полосатый, пушистый хвост. Ушёл с улицы Садовой, дом 5.",
            &["барсик~"],
        ),
        repost(NEIGHBOURS, 3, (OVERHEARD, 5), BARSIK, &["барсик"]),
        sample(
            NEIGHBOURS,
            4,
            "Репост! Пропала трёхцветная кошка Мурка, улица Лесная. Кто видел, звоните: 8 975 000 00 04",
            &["мурка~"],
        ),
    ]
}

/// The hopeful end of one story.
pub(super) fn reunion() -> Sample {
    sample(STRAYS, 5, "Мурка нашлась, она дома! Спасибо всем, кто помогал. +7 975 000-00-04", &["мурка"])
}

/// The post that is edited, and its new words.
pub(super) fn edit() -> (i64, i64, Value) {
    (STRAYS, 3, json!({"text": format!("{GRAF}. Вознаграждение!")}))
}

/// Every message that readers were shown, every change of one, and what they find at the end; in any order.
pub(super) fn expected() -> Vec<Line> {
    let mut lines = Vec::new();
    for (channel, platform, _) in CHANNELS {
        let mut line = |verb, heading: &str, (wall, post), photos, phone: &str| {
            lines.push(Line {
                channel: channel.to_owned(),
                verb,
                // VK has no bold.
                heading: if platform == Name::Vk { heading.to_uppercase() } else { heading.to_owned() },
                link: format!("https://vk.com/wall{wall}_{post}"),
                photos,
                phone: phone.to_owned(),
            });
        };
        let (busya, barsik, graf) = ("🔎 Пропала собака Буся", "🔎 Пропал кот Барсик", "🔎 Пропал пёс Граф");
        let (murka, lyalya, found) = ("🔎 Пропала кошка Мурка", "🔎 Пропала кошка Ляля", "✅ Найден пёс");
        line(Verb::Said, busya, (OVERHEARD, 1), 2, "+79750000001");
        line(Verb::Said, barsik, (OVERHEARD, 5), 1, "+79750000002");
        line(Verb::Said, murka, (STRAYS, 2), 1, "+79750000004");
        line(Verb::Said, graf, (STRAYS, 3), 0, "+79750000005");
        line(Verb::Said, lyalya, (NEIGHBOURS, 1), 1, "+79750000006");
        if channel == BANNED {
            line(Verb::Said, found, (STRAYS, 1), 1, "+79750000003");
            line(Verb::Stands, found, (STRAYS, 1), 1, "+79750000003");
        }
        line(Verb::Changed, graf, (STRAYS, 3), 0, "+79750000005");
        // Nobody is to be called any more.
        line(Verb::Changed, "🎉 Дома! Спасибо", (STRAYS, 2), 0, "");
        line(Verb::Stands, busya, (OVERHEARD, 1), 2, "+79750000001");
        line(Verb::Stands, barsik, (OVERHEARD, 5), 1, "+79750000002");
        line(Verb::Stands, "🎉 Дома! Спасибо", (STRAYS, 2), 1, "");
        line(Verb::Stands, graf, (STRAYS, 3), 0, "+79750000005");
        line(Verb::Stands, lyalya, (NEIGHBOURS, 1), 1, "+79750000006");
    }
    lines
}
