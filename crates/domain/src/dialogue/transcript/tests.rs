use expect_test::{Expect, expect};

use super::super::Rules;
use super::*;

const RULES: &str = r#"
start = "menu"
subscribe = "never"
fallback = ["Не понял.", { handoff = true }]
operators = { channel = "support" }
slots.order.kind = "number"
intents.cancel.any = ["отмена"]
[states.menu]
say = "Чем помочь?"
buttons = ["Заказ"]
[[states.menu.rules]]
name = "order"
on = { text = "заказ" }
goto = "order"
[[rules]]
name = "cancel"
on = { intent = "cancel" }
interrupt = true
goto = "menu"
[states.order]
ask = { slot = "order", say = "Номер?" }
next = "done"
idle = { after = "30m", goto = "menu" }
[states.done]
say = "Заказ {order} принят."
end = true
"#;

#[track_caller]
fn check(text: &str, expected: Expect) {
    let rules = Rules::read(RULES).unwrap();
    let faults = match read(text) {
        Ok(transcript) => play(&rules, &transcript).faults,
        Err(faults) => faults,
    };
    let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
    expected.assert_eq(&faults.join("\n"));
}

#[test]
fn a_dialogue_that_goes_as_it_is_written_has_no_faults() {
    let text = "# как есть
> /start
‹ Чем помочь?
  [Заказ]
> [Заказ]
‹ Номер?
= state order; rule order
! duplicate
@ +31m
‹ Чем помочь? [Заказ]
= state menu
> [Заказ]
< Номер?
> отмена
= state menu; rule cancel
> заказ
‹ Номер?
> 17
‹ Заказ 17 принят.
> что?
‹ Не понял.
> что?
‹ Передаю ваш вопрос человеку. Он ответит здесь же.
= mode human; handoff open
> ау
= handoff forward
operator> Здравствуйте!
‹ Здравствуйте!
operator> /close
= mode bot
! blocked
= mode stopped; subscription gone
";
    check(text, expect![[""]]);
}

#[test]
fn what_went_otherwise_is_told_with_its_line() {
    let text = "> /start
‹ Чем могу помочь?
  [Заказ]
> заказ
> отмена
‹ Чем помочь?
  [Заказы]
‹ И ещё.
= state order
> [Возврат]
";
    check(
        text,
        expect![[r#"
            line 2: error: expected «Чем могу помочь?», but the bot said «Чем помочь?»
            line 4: error: the bot also said «Номер?», which is not expected here
            line 6: error: expected the buttons [Заказы], but they are [Заказ]
            line 8: error: expected the bot to say «И ещё.», but it said nothing more
            line 9: error: expected state order, but it is menu
            line 10: error: no button is called [Возврат]; shown were [Заказ]"#]],
    );
}

#[test]
fn a_line_that_cannot_be_read_says_what_could_be_meant() {
    check(
        "привет\n> да\n! blokced\n= sate menu\n@ +5\n  ещё",
        expect![[r#"
            line 1: error: a line begins with one of: > (the person), ‹ (the bot), @ (time), = (facts), ! (something happens), operator>, # (a remark)
            line 3: error: no happening is called `blokced`; did you mean `blocked`?
            line 4: error: no fact is called `sate`; did you mean `state`?
            line 5: error: `+5` is not + and a number with its unit, such as 500ms, 10s, 5m, 72h or 7d
            line 6: error: an indented line goes on with a message of the bot, but there is none above it"#]],
    );
}

#[test]
fn blessing_writes_what_was_said_and_then_nothing_is_wrong() {
    let text = "# начало\n> /start\n‹ Привет\n\n> заказ\n= state menu; rule order\n> отмена\n";
    let rules = Rules::read(RULES).unwrap();
    let transcript = read(text).unwrap();
    let blessed = bless(&transcript, &play(&rules, &transcript));
    expect![[r#"
        # начало
        > /start
        ‹ Чем помочь?
          [Заказ]

        > заказ
        = state order; rule order
        > отмена
        ‹ Чем помочь?
          [Заказ]
    "#]]
    .assert_eq(&blessed);
    assert!(play(&rules, &read(&blessed).unwrap()).faults.is_empty());
}
