//! The third act: a customer of a shop and its bot, with the rules of `examples/shop`, and people who take over.
//! On MAX a whole dialogue is played; on the other platforms one question, so that a reader can go on by hand.

use std::time::Instant;

use anyhow::{Context, bail};
use sandbox::chats::{Message, Side};
use sandbox::{Name, Sandbox};
use serde_json::{Value, json};

use super::{LOOK_EVERY, PATIENCE, World, refused};

/// The example as it stands in the tree.
pub(super) const FILES: [(&str, &str); 6] = [
    ("shop/shop.toml", include_str!("../../../../examples/shop/shop.toml")),
    ("shop/faq.dialogue", include_str!("../../../../examples/shop/faq.dialogue")),
    ("shop/operator.dialogue", include_str!("../../../../examples/shop/operator.dialogue")),
    ("shop/return.dialogue", include_str!("../../../../examples/shop/return.dialogue")),
    ("shop/status.dialogue", include_str!("../../../../examples/shop/status.dialogue")),
    ("shop/subscription.dialogue", include_str!("../../../../examples/shop/subscription.dialogue")),
];
pub(super) const TOKENS: [(Name, &str); 3] = [
    (Name::Max, "invented-max-token-of-the-shop"),
    (Name::Telegram, "97600:invented-token-of-the-shop-bot-aaaa"),
    (Name::Vk, "invented-community-token-of-the-shop"),
];
const SHOP: &str = "Магазин «Ромашка»";
/// The community of the shop, as `city.toml` names it.
const GROUP: i64 = 97_600;
const DESK: i64 = -97_600_000_000_004;
/// The chats with the customer.
const CUSTOMER: i64 = 97_600_501;
const CUSTOMER_NAME: &str = "Ольга";
const OPERATOR_NAME: &str = "Ирина из магазина";

/// What somebody does, and what the customer reads then.
enum Turn {
    Writes(&'static str, &'static str),
    Presses(&'static str, &'static str),
    OperatorWrites(&'static str),
}

const DIALOGUE: [Turn; 8] = [
    Turn::Writes("Здравствуйте!", "Здравствуйте! Это магазин «Ромашка». Чем помочь?"),
    Turn::Presses(
        "Доставка",
        "Доставка по России 2–4 дня, от 300 ₽. Самовывоз бесплатно: Москва, ул. Садовая, 7.",
    ),
    Turn::Writes(
        "куртка не подошла, хочу вернуть",
        "Оформим возврат. Напишите номер заказа, например AB-123456.",
    ),
    Turn::Writes("AB-123456", "Почему возвращаете?"),
    Turn::Presses("Не подошёл размер", "Пришлите фото вещи."),
    Turn::Presses("Без фото", "Возврат заказа AB-123456, причина: Не подошёл размер. Всё верно?"),
    // Outside the hours of the shop it also says when somebody will answer.
    Turn::Presses(
        "Да",
        "Заявка на возврат заказа AB-123456 принята. Человек ответит здесь же, деньги вернутся за 3–10 дней.",
    ),
    Turn::OperatorWrites("Ольга, здравствуйте! Курьер заберёт куртку завтра с 10 до 12, удобно?"),
];
const ELSEWHERE: Turn = Turn::Writes(
    "сколько стоит доставка?",
    "Доставка по России 2–4 дня, от 300 ₽. Самовывоз бесплатно: Москва, ул. Садовая, 7.",
);

/// Who takes part, as the sandbox knows them.
pub(super) fn settle_in(sandbox: &Sandbox) -> anyhow::Result<()> {
    for (platform, token) in TOKENS {
        let mut account = json!({"platform": platform.as_str(), "token": token, "name": SHOP});
        account["kind"] = if platform == Name::Vk { "community" } else { "bot" }.into();
        if platform == Name::Vk {
            account["id"] = GROUP.to_string().into();
        }
        sandbox.add_account(&account).map_err(refused)?;
    }
    let customer =
        json!({"platform": "telegram", "id": CUSTOMER, "type": "private", "first_name": CUSTOMER_NAME});
    sandbox.add_chat(&customer).map_err(refused)?;
    let desk = json!({"platform": "max", "id": DESK, "type": "chat", "title": "Операторы «Ромашки»"});
    sandbox.add_chat(&desk).map_err(refused)?;
    Ok(())
}

/// Plays the dialogue and compares every answer; tells both sides of it.
pub(crate) async fn run(
    world: &World,
    mut tell: impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    tell("a customer and the bot of a shop on MAX, by the rules of examples/shop")?;
    for turn in &DIALOGUE {
        wrong.extend(play(world, Name::Max, turn, &mut tell).await?);
    }
    hand_back(world).await?;
    // A community hears from its first poll on.
    let listens = || async {
        let rows = world.sandbox.core().ledger.rows(Name::Vk);
        Ok(rows.iter().any(|row| row.method == "a_check"))
    };
    world.wait_until("the community of the shop listens", listens).await?;
    for platform in [Name::Telegram, Name::Vk] {
        wrong.extend(play(world, platform, &ELSEWHERE, &mut |_| Ok(())).await?);
    }
    tell("  … and one question on Telegram and VK each: answered there")?;
    Ok(wrong)
}

async fn play(
    world: &World,
    platform: Name,
    turn: &Turn,
    tell: &mut impl FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Option<String>> {
    let before = answers(world, platform).len();
    let expected = match turn {
        Turn::Writes(text, answer) => {
            tell(&format!("  {CUSTOMER_NAME:>6}: {text}"))?;
            write(world, platform, CUSTOMER, CUSTOMER_NAME, text)?;
            answer
        }
        Turn::Presses(title, answer) => {
            tell(&format!("  {CUSTOMER_NAME:>6}: [{title}]"))?;
            let press = button(world, platform, title)
                .with_context(|| format!("the bot offers no button «{title}»"))?;
            world.sandbox.inject(platform, &press).map_err(refused)?;
            answer
        }
        Turn::OperatorWrites(text) => {
            let number = number(world).await?;
            write(world, platform, DESK, OPERATOR_NAME, &format!("{number} {text}"))?;
            text
        }
    };
    // Outside its hours the bot also says when somebody will answer, at the same time as people do.
    let is_awaited = |answer: &Message| !matches!(turn, Turn::OperatorWrites(_)) || answer.text == *expected;
    let answer = answer(world, platform, before, is_awaited).await?;
    let who = if matches!(turn, Turn::OperatorWrites(_)) { "human" } else { "bot" };
    tell(&format!("  {who:>6}: {}{}", answer.text, shown_buttons(&answer)))?;
    let is_right = answer.text == *expected;
    Ok((!is_right).then(|| format!("the customer read «{}» instead of «{expected}»", answer.text)))
}

fn write(world: &World, platform: Name, chat: i64, from: &str, text: &str) -> anyhow::Result<()> {
    let token = TOKENS.iter().find(|(of, _)| *of == platform).map(|(_, token)| token);
    let update = json!({"chat": chat, "from": from, "text": text, "account": token});
    world.sandbox.inject(platform, &update).map_err(refused)?;
    Ok(())
}

/// What the customer was told so far.
fn answers(world: &World, platform: Name) -> Vec<Message> {
    let all = world.sandbox.core().chats.messages(platform, &CUSTOMER.to_string());
    all.into_iter().filter(|message| message.author.side != Side::User).collect()
}

async fn answer(
    world: &World,
    platform: Name,
    before: usize,
    is_awaited: impl Fn(&Message) -> bool,
) -> anyhow::Result<Message> {
    let begun = Instant::now();
    loop {
        if let Some(new) = answers(world, platform).into_iter().skip(before).find(&is_awaited) {
            return Ok(new);
        }
        if begun.elapsed() > PATIENCE {
            bail!(
                "waited {} s in vain for an answer of the shop on {}",
                PATIENCE.as_secs(),
                platform.as_str()
            );
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// What a press on the newest button of this name does.
fn button(world: &World, platform: Name, title: &str) -> Option<Value> {
    let messages = answers(world, platform);
    let mut newest_first = messages.iter().rev().flat_map(|message| message.buttons.iter().flatten());
    newest_first.find(|button| button.text == title)?.press.clone()
}

fn shown_buttons(message: &Message) -> String {
    message.buttons.iter().flatten().map(|button| format!(" [{}]", button.text)).collect()
}

/// The number by which operators answer: the first word of what they were told.
async fn number(world: &World) -> anyhow::Result<String> {
    let desk = || world.sandbox.core().chats.messages(Name::Max, &DESK.to_string());
    world.wait_until("the operators were told", || async { Ok(!desk().is_empty()) }).await?;
    let first = desk().into_iter().next().context("the operators were told nothing")?;
    Ok(first.text.split_whitespace().next().unwrap_or_default().to_owned())
}

/// The bot answers again.
async fn hand_back(world: &World) -> anyhow::Result<()> {
    let said = || world.sandbox.core().chats.messages(Name::Max, &DESK.to_string()).len();
    let before = said();
    write(world, Name::Max, DESK, OPERATOR_NAME, &format!("{} /close", number(world).await?))?;
    // The operator's own line, and the bot's that it is closed.
    world.wait_until("the dialogue was handed back", || async { Ok(said() >= before + 2) }).await
}
