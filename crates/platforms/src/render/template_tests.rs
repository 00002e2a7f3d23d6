//! What templates can do, and how each mistake is named.

use domain::message::{Message, Pet};
use expect_test::{Expect, expect};

use super::clean::{BODY_MARK, LINK_MARK};
use super::samples::{LINK, post};
use super::template::{DEFAULT, Fields, check, frame};
use crate::part::{Action, ChannelSettings, Part, Render};

fn print(source: &str, message: &Message) -> String {
    let link = crate::walls::source_link(message);
    let fields = Fields {
        message,
        markup: true,
        body: &message.text,
        has_body: !message.text.is_empty(),
        source_link: link.as_deref(),
        media_pages: &[],
        media_count: message.media.len(),
    };
    match frame(Some(source), &fields) {
        Ok(runs) => runs.iter().map(|run| run.text.replace(BODY_MARK, "BODY")).collect(),
        Err(error) => format!("{error}"),
    }
}

fn expect_output(source: &str, expected: &Expect) {
    expected.assert_eq(&print(source, &post("текст", vec![])));
}

#[test]
fn a_template_knows_the_fields_of_a_post() {
    expect_output(
        "{{ kind }}|{{ icon }}|{{ title }}|{{ body }}|{{ phones|join('; ') }}|{{ where }}|{{ city }}|{{ place }}|{{ url }}|\
         {{ source }}|{{ owner_id }}|{{ post_id }}|{{ media_count }}|{{ tags|length }}|{{ city|upper }}|{{ city|lower }}",
        &expect![
            "lost|🔎|Пропал питомец|BODY|+79990001122|Казань, улица Мира|Казань|улица Мира|https://vk.com/wall-990000101_77|vk|-990000101|77|0|0|КАЗАНЬ|казань"
        ],
    );
    expect_output(
        "{% if kind == 'lost' and 'мира' in place|lower %}да{% else %}нет{% endif %}",
        &expect!["да"],
    );
    expect_output(
        "{% for phone in phones %}{{ loop.index }}) {{ phone[:5] }}{% endfor %}",
        &expect!["1) +7999"],
    );
}

/// A post about one dog, as `engine` makes it.
fn about_busya() -> Message {
    let pet = Pet { animal: "dog".into(), sex: "f".into(), name: "Буся".into(), ..Pet::default() };
    Message { pet: Some(pet), ..post("Рыжая, тел. 8 (999) 000-11-22", vec![]) }
}

#[test]
fn a_template_knows_the_facts_of_a_post() {
    let source = "{{ title }}|{{ heading }}|{{ animal }}|{{ sex }}|{{ pet_name }}|{{ phones|join(',') }}|\
                  {{ numbers|join(',') }}|{{ numbers_said|join(',') }}|{{ was }}|{{ markup }}|{{ kind }}";
    let check = |message: &Message, expected: &str| assert_eq!(print(source, message), expected);
    let mut message = about_busya();
    check(
        &message,
        "Пропала собака Буся|Пропала собака Буся|dog|f|Буся|+79990001122||+7 999 000-11-22||True|lost",
    );
    message.text = "Рыжая".into();
    check(
        &message,
        "Пропала собака Буся|Пропала собака Буся|dog|f|Буся|+79990001122|+7 999 000-11-22|||True|lost",
    );
    (message.kind, message.was) = ("reunited".into(), "lost".into());
    check(&message, "Дома! Спасибо|Дома! Спасибо|dog|f|Буся||||🔎 Пропала собака Буся|True|reunited");
}

#[test]
fn the_default_tells_a_post_and_its_end() {
    let closed = Message { kind: "reunited".into(), was: "lost".into(), ..about_busya() };
    let html = |message: &Message| wire(crate::telegram::render::render, message);
    let plain = |message: &Message| wire(crate::vk::render::render, message);
    expect![[r#"
        🔎 <b>Пропала собака Буся</b>

        Рыжая, тел. 8 (999) 000-11-22

        📍 Казань, улица Мира
        🔗 https://vk.com/wall-990000101_77"#]]
    .assert_eq(&html(&about_busya()));
    expect![[r#"
        🎉 <b>Дома! Спасибо</b>

        <s>🔎 Пропала собака Буся</s>

        <s>Рыжая, тел. (номер убран)</s>

        🔗 https://vk.com/wall-990000101_77"#]]
    .assert_eq(&html(&closed));
    expect![[r#"
        🔎 ПРОПАЛА СОБАКА БУСЯ

        Рыжая, тел. 8 (999) 000-11-22

        📍 Казань, улица Мира
        🔗 https://vk.com/wall-990000101_77"#]]
    .assert_eq(&plain(&about_busya()));
    expect![[r#"
        🎉 ДОМА! СПАСИБО

        Поиск закончен, звонить не нужно. Текст объявления:

        🔎 Пропала собака Буся
        Рыжая, тел. (номер убран)

        🔗 https://vk.com/wall-990000101_77"#]]
    .assert_eq(&plain(&closed));
}

fn wire(render: Render, message: &Message) -> String {
    let settings = ChannelSettings { target: "-1001".into(), ..ChannelSettings::default() };
    match render(&Action::Send, message, &settings).unwrap().parts.as_slice() {
        [Part::Text(part)] => part.text.as_str().to_owned(),
        parts => panic!("{parts:?}"),
    }
}

#[test]
fn a_number_that_a_cut_takes_from_the_text_stands_below_it() {
    let long = format!("{} Тел. 8 999 000-11-22", "слово ".repeat(700));
    let message = Message { text: long, ..about_busya() };
    let text = wire(crate::telegram::render::render, &message);
    assert!(text.contains("…\n\n📞 +7 999 000-11-22\n📍"), "{text}");
}

#[test]
fn foreign_fields_stay_words() {
    let mut message = post("x", vec![]);
    message.title = Some("<a href=\"tg://user?id=1\">\u{202E}админ</a> {{ url }}\u{FDD1}".into());
    assert_eq!(print("{{ title }}", &message), "<a href=\"tg://user?id=1\">админ</a> {{ url }}");
    assert!(!print("{{ title }}", &message).contains(LINK_MARK));
    message.origin = None;
    assert_eq!(print("[{{ url }}]", &message), "[]");
    assert_eq!(print("{{ url }}", &post("x", vec![])), LINK);
}

#[test]
fn each_mistake_is_named() {
    expect_output("{{ titel }}", &expect!["template: undefined value: `titel` is undefined in line 1"]);
    expect_output(
        "{% if title %}",
        &expect!["template: syntax error: unexpected end of input, expected end of block in line 1"],
    );
    expect_output(
        "{{ title",
        &expect!["template: syntax error: unexpected end of input, expected end of variable block in line 1"],
    );
    expect_output(
        "{{ phones }}",
        &expect!["template: invalid operation: a sequence cannot be printed; use join in line 1"],
    );
    expect_output("{{ title|nope }}", &expect!["template: unknown filter: filter nope is unknown in line 1"]);
    expect_output("{{ body }}{{ body }}", &expect!["template: the body is printed more than once"]);
    expect_output(
        "<div>{{ body }}</div>",
        &expect![
            "template: unknown tag <div>; known are b, i, u, s, code, spoiler, a and ifcut; write &lt; for a plain <"
        ],
    );
    expect_output("<a href=\"{{ body }}\">x</a>", &expect!["template: the body cannot be an address"]);
    expect_output("{% set x = 1 %}", &expect!["template: {% set %} is not available; there are if and for"]);
    expect_output(
        "{%- autoescape false %}{{ title }}{% endautoescape %}",
        &expect!["template: {% autoescape %} is not available; there are if and for"],
    );
    expect_output(
        "{% include 'x' %}",
        &expect!["template: {% include %} is not available; there are if and for"],
    );
    expect_output(&"x".repeat(20_000), &expect!["template: 20000 bytes long, 16384 at most"]);
}

#[test]
fn no_template_grows_without_bounds() {
    let nested = |open: &str, depth: usize| {
        format!("{}{{{{ x }}}}{}", open.repeat(depth), "{% endfor %}".repeat(depth))
    };
    // Each level doubles the text: thirty levels are a gigabyte.
    expect_output(
        &format!("{{% for x in ['aa'] %}}{}{{% endfor %}}", nested("{% for x in [x ~ x] %}", 30)),
        &expect!["template: the operator ~ is not available; print the pieces one after the other"],
    );
    expect_output(
        &format!("{{% for x in ['aa'] %}}{}{{% endfor %}}", nested("{% for x in [[x, x]|join('')] %}", 17)),
        &expect!["template: invalid operation: join makes too long a text in line 1"],
    );
    expect_output(
        "{{ 'a' * 1000000000 }}",
        &expect!["template: the operator * is not available; print the pieces one after the other"],
    );
    expect_output("{{ '\\u0041' }}", &expect![[r#"template: \ inside quotes is not available"#]]);
    let long = format!(
        "{{% for a in '{0}' %}}{{% for b in '{0}' %}}{{% for c in '{0}' %}}{{{{ title }}}}{1}",
        "0".repeat(100),
        "{% endfor %}".repeat(3)
    );
    expect_output(&long, &expect!["template: engine ran out of fuel in line 1"]);
    let loud = format!(
        "{{% for a in '{0}' %}}{{% for b in '{0}' %}}{1}{2}",
        "0".repeat(60),
        "слово ".repeat(20),
        "{% endfor %}".repeat(2)
    );
    expect_output(&loud, &expect!["template: prints more than 131072 bytes"]);
    expect_output(&"{{ url }}".repeat(9), &expect!["template: the source link is printed more than 8 times"]);
}

#[test]
fn a_template_is_checked_before_a_post_depends_on_it() {
    check(DEFAULT).unwrap();
    check("{% for phone in phones %}<b>{{ phone }}</b>{% endfor %}").unwrap();
    assert!(
        check("{% for phone in phones %}<b>{{ phone }}{% endfor %}").is_err(),
        "also what only a full post would show"
    );
}
