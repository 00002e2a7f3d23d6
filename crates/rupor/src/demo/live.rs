//! The endless play: every few seconds something happens in the city, until somebody presses Ctrl-C.
//! What happens follows from the number of the act alone, so that two demos tell the same stories.

use std::time::Duration;

use super::city::{NEIGHBOURS, OVERHEARD, STRAYS, Sample};
use super::{World, city};

/// Time between two acts: slow enough to watch.
const ACT_EVERY: Duration = Duration::from_secs(4);
/// Ids of these posts start above those of the fixed play.
const FIRST_POST: i64 = 1_000;
/// A ban lasts so many acts of each round.
const ROUND: u64 = 12;
const BAN_AT: u64 = 3;
const PARDON_AT: u64 = 7;

const WALLS: [i64; 3] = [OVERHEARD, STRAYS, NEIGHBOURS];
/// Lost, home again, and whether the animal takes a name of the first list or of the second.
const PETS: [(&str, &str, usize); 6] = [
    ("пропал кот", "Нашёлся кот", 0),
    ("пропала собака", "Нашлась собака", 1),
    ("убежал спаниель", "Нашёлся спаниель", 0),
    ("пропала кошка", "Нашлась кошка", 1),
    ("потерялся лабрадор", "Нашёлся лабрадор", 0),
    ("убежала лайка", "Нашлась лайка", 1),
];
/// Of different lengths and with no common divisor, so that pairs come back only after hours.
const NAMES: [&[&str]; 2] = [
    &["Тимка", "Чип", "Кекс", "Гром", "Лунтик", "Пират", "Оскар", "Зевс", "Умка", "Фунтик", "Дик"],
    &[
        "Альма",
        "Дымка",
        "Вьюга",
        "Ночка",
        "Рыжуля",
        "Ася",
        "Герда",
        "Зорька",
        "Пальма",
        "Симка",
        "Жужа",
        "Яна",
        "Тучка",
    ],
];
const LOOKS: [&str; 5] =
    ["с белой грудкой", "в синем ошейнике", "хромает на переднюю лапу", "без уха", "в зелёной шлейке"];
const STREETS: [&str; 7] = ["Кленовой", "Озёрной", "Берёзовой", "Вишнёвой", "Солнечной", "Луговой", "Тихой"];

/// Goes on with new posts, copies, bans and happy ends; only a failure ends it.
pub(crate) async fn go_on(
    world: &World,
    mut tell: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for act in 0_u64.. {
        tokio::time::sleep(ACT_EVERY).await;
        world.write(&[original(act)])?;
        tell(&format!("a post on {}: {}", wall_name(wall(act)), name(act)))?;
        if act % 2 == 1 {
            world.write(&[copy(act - 1)])?;
            tell(&format!("a copy of the post about {} on {}", name(act - 1), wall_name(wall(act))))?;
        }
        if act % 6 == 5 {
            world.write(&[reunion(act - 4)])?;
            tell(&format!("{} is home again: the case is closed", name(act - 4)))?;
        }
        match act % ROUND {
            BAN_AT => {
                world.ban()?;
                tell(&format!("the bot is thrown out of the channel {}", city::BANNED))?;
            }
            PARDON_AT => {
                world.pardon().await?;
                tell(&format!("the bot is back in {}: what waited is sent", city::BANNED))?;
            }
            _ => {}
        }
    }
    Ok(())
}

pub(super) fn original(act: u64) -> Sample {
    let ((lost, _, _), look) = (pet(act), look(act));
    let text = format!(
        "Внимание! Сегодня {lost} {}, {look}. Ищем в районе улицы {}, дом {}. Телефон {}",
        name(act),
        street(act),
        act % 40 + 1,
        phone(act)
    );
    sample(wall(act), act, 0, &text, &picture(act))
}

/// On another wall, in other words, with the picture as it comes back from a repost.
pub(super) fn copy(act: u64) -> Sample {
    let ((lost, _, _), look) = (pet(act), look(act));
    let text = format!(
        "Друзья, репост! На улице {} {lost} {}: {look}. Кто видел, звоните {}",
        street(act),
        name(act),
        phone(act)
    );
    sample(wall(act + 1), act, 1, &text, &format!("{}~", picture(act)))
}

pub(super) fn reunion(act: u64) -> Sample {
    let (_, found, _) = pet(act);
    let text = format!("{found} {}, дома! Спасибо всем за помощь! {}", name(act), phone(act));
    sample(wall(act), act, 2, &text, &picture(act))
}

fn sample(wall: i64, act: u64, n: i64, text: &str, picture: &str) -> Sample {
    let id = FIRST_POST + i64::try_from(act).unwrap_or_default() * 3 + n;
    Sample { wall, post: serde_json::json!({"id": id, "text": text, "photos": [picture]}) }
}

fn pet(act: u64) -> (&'static str, &'static str, usize) {
    nth(&PETS, act)
}

fn name(act: u64) -> &'static str {
    nth(NAMES[pet(act).2], act)
}

fn look(act: u64) -> &'static str {
    nth(&LOOKS, act)
}

fn nth<T: Copy>(list: &[T], n: u64) -> T {
    list[usize::try_from(n % list.len() as u64).unwrap_or_default()]
}

fn street(act: u64) -> &'static str {
    nth(&STREETS, act)
}

fn wall(act: u64) -> i64 {
    nth(&WALLS, act)
}

fn wall_name(wall: i64) -> &'static str {
    city::FACES.iter().find(|(_, id, _, _)| *id == wall).map_or("a wall", |(_, _, _, name)| name)
}

fn picture(act: u64) -> String {
    format!("{} {act}", name(act))
}

/// Every story has a phone of its own, none of them a real one.
fn phone(act: u64) -> String {
    let number = act + 10_000;
    format!("+7 975 {:03}-{:02}-{:02}", number / 10_000 % 1_000, number / 100 % 100, number % 100)
}
