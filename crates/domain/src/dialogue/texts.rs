//! What the bot says by itself, to people who write and to those at the desk; the file may say it in other words.

macro_rules! texts {
    ($($key:ident: $text:literal $(with $($name:literal),+)?;)+) => {
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Texts {
            $(pub $key: String,)+
        }

        impl Default for Texts {
            fn default() -> Texts {
                Texts { $($key: $text.to_owned(),)+ }
            }
        }

        impl Texts {
            /// Every text by its key in the file, with the names in braces that only it may have.
            pub(super) fn by_key(&mut self) -> Vec<(&'static str, &mut String, &'static [&'static str])> {
                vec![$((stringify!($key), &mut self.$key, &[$($($name),+)?]),)+]
            }
        }
    };
}

texts! {
    fallback: "Не понял вас. Спросите, пожалуйста, иначе.";
    offer: "Уточните, пожалуйста: вы об этом?";
    invalid: "Не получилось разобрать ответ.";
    stale: "Эта кнопка уже не действует.";
    flood: "Слишком много сообщений подряд. Подождите, пожалуйста, минуту.";
    handoff: "Передаю ваш вопрос человеку. Он ответит здесь же.";
    closed: "Передаю ваш вопрос человеку. Сейчас мы закрыты, ответим {when}." with "when";
    nobody: "На это я ответить не могу. Спросите, пожалуйста, иначе.";
    stop: "Больше не пишу. Чтобы вернуться, напишите /start.";
    subscribe: "Подписаться на новости";
    subscribed: "Готово: будем присылать вам новости. Отписаться можно командой /stop.";
    yes: "Да";
    no: "Нет";
    desk_handoff: "нужен человек";
    desk_fallback: "бот не понял";
    desk_invalid: "не получается ответить на вопрос «{question}»" with "question";
    desk_turns: "беседа затянулась: больше {n} сообщений" with "n";
    desk_steps: "правила ходят по кругу";
    desk_waits: "ждёт ответа";
    desk_end: "закрыто: {why}" with "why";
    desk_closed: "оператор закончил разговор";
    desk_silent: "давно никто не пишет";
    desk_left: "собеседник ушёл";
    desk_photo: "[фото]";
    desk_other: "[вложение: {kind}]" with "kind";
    desk_edited: "[исправлено]";
    desk_unknown: "#A{number}: такой беседы нет" with "number";
    desk_words: "#A{number}: передаются только слова, напишите ответ текстом" with "number";
}

impl Texts {
    /// Whether people who write read it; what people at the desk read has no slots.
    pub(super) fn is_for_desk(key: &str) -> bool {
        key.starts_with("desk_")
    }
}

/// The text with the one thing that only it may name.
pub fn with(text: &str, name: &str, value: impl std::fmt::Display) -> String {
    text.replace(&format!("{{{name}}}"), &value.to_string())
}
