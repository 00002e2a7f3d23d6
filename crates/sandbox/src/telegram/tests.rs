//! Tables of markup: what is written, what is shown, and the server's words for what is wrong.

use super::entities::{self, Argument, Formatted};

/// `text | kind@offset+length[argument] …`
fn shown(formatted: &Formatted) -> String {
    let mut line = formatted.text.clone();
    for (i, entity) in formatted.entities.iter().enumerate() {
        let argument = match &entity.argument {
            Argument::None => String::new(),
            Argument::Url(text) | Argument::Language(text) | Argument::Emoji(text) => format!("[{text}]"),
            Argument::User(number) | Argument::Time(number) => format!("[{number}]"),
        };
        let bar = if i == 0 { " |" } else { "" };
        line += &format!("{bar} {}@{}+{}{argument}", entity.kind.name(), entity.offset, entity.length);
    }
    line
}

fn check(parse_mode: &str, table: &[(&str, &str)]) {
    for (written, expected) in table {
        let got = entities::format(written, parse_mode, None)
            .map_or_else(|error| format!("ERROR {error}"), |f| shown(&f));
        assert_eq!(got, *expected, "{parse_mode} {written:?}");
    }
}

#[test]
fn html_becomes_text_and_entities() {
    check(
        "HTML",
        &[
            ("plain", "plain"),
            ("<b>Пропал</b> кот", "Пропал кот | bold@0+6"),
            (
                "<strong>a</strong><em>b</em><ins>c</ins><del>d</del>",
                "abcd | bold@0+1 italic@1+1 underline@2+1 strikethrough@3+1",
            ),
            ("<B>a</B>", "a | bold@0+1"),
            ("😀<b>я</b>", "😀я | bold@2+1"),
            ("<b>bold <i>both</i></b>", "bold both | bold@0+9 italic@5+4"),
            ("<b>a</b><b>b</b>", "ab | bold@0+2"),
            ("<a href=\"https://example.com\">x</a>", "x | text_link@0+1[https://example.com/]"),
            (
                "<a href='http://Example.com/A?b=1&amp;c=2'>x</a>",
                "x | text_link@0+1[http://example.com/A?b=1&c=2]",
            ),
            ("<a>example.com</a>", "example.com | text_link@0+11[http://example.com/]"),
            ("<a href=\"nowhere\">x</a>", "x"),
            ("<a href=\"tg://user?id=7\">x</a>", "x | text_mention@0+1[7]"),
            ("<code>a</code> <pre>b</pre>", "a b | code@0+1 pre@2+1"),
            ("<pre><code class=\"language-rust\">fn</code></pre>", "fn | pre@0+2[rust]"),
            ("<code class=\"language-rust\">fn</code>", "fn | code@0+2"),
            ("<b>x <code>y</code> z</b>", "x y z | bold@0+2 code@2+1 bold@3+2"),
            ("<span class=\"tg-spoiler\">a</span><tg-spoiler>b</tg-spoiler>", "ab | spoiler@0+2"),
            ("<blockquote>a</blockquote>", "a | blockquote@0+1"),
            ("<blockquote expandable>a</blockquote>", "a | expandable_blockquote@0+1"),
            (
                "<tg-emoji emoji-id=\"5368324170671202286\">👍</tg-emoji>",
                "👍 | custom_emoji@0+2[5368324170671202286]",
            ),
            ("<b></b>x", "x"),
            ("<b>x</>", "x | bold@0+1"),
            ("&lt;&gt;&amp;&quot; &nbsp; &apos; & &#1103; &#x44f; &lt", "<>&\" &nbsp; &apos; & я я <"),
            ("&#xD83D;&#xDE00;", "😀"),
            ("a > b", "a > b"),
            ("  \n<b> x</b>  \n", " x | bold@0+2"),
            ("<b>  \n</b>x", "x"),
            ("a\r\nb", "a\nb"),
        ],
    );
}

#[test]
fn html_errors_are_the_servers() {
    check(
        "html",
        &[
            ("x <p>", "ERROR can't parse entities: Unsupported start tag \"p\" at byte offset 2"),
            ("я<br/>", "ERROR can't parse entities: Unsupported start tag \"br/\" at byte offset 2"),
            ("1 < 2", "ERROR can't parse entities: Unsupported start tag \"\" at byte offset 2"),
            ("a <b", "ERROR can't parse entities: Unclosed start tag at byte offset 2"),
            ("<a href", "ERROR can't parse entities: Unclosed start tag \"a\" at byte offset 0"),
            ("<a href=", "ERROR can't parse entities: Unclosed start tag \"a\" at byte offset 0"),
            ("<a href=\"x", "ERROR can't parse entities: Unclosed start tag at byte offset 0"),
            (
                "<a =\"x\">",
                "ERROR can't parse entities: Empty attribute name in the tag \"a\" at byte offset 0",
            ),
            (
                "<a href=x_y>z</a>",
                "ERROR can't parse entities: Unexpected end of name token at byte offset 8",
            ),
            (
                "<span class=\"red\">x</span>",
                "ERROR can't parse entities: Tag \"span\" must have class \"tg-spoiler\" at byte offset 0",
            ),
            ("x</b>", "ERROR can't parse entities: Unexpected end tag at byte offset 1"),
            ("<b>x</b", "ERROR can't parse entities: Unclosed end tag at byte offset 4"),
            (
                "<b><i>x</b></i>",
                "ERROR can't parse entities: Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\"",
            ),
            ("<b>x", "ERROR can't parse entities: Can't find end tag corresponding to start tag \"b\""),
            (
                "<tg-emoji emoji-id=\"cat\">x</tg-emoji>",
                "ERROR can't parse entities: Invalid custom emoji identifier specified",
            ),
            (
                "&#xD83D; x",
                "ERROR can't parse entities: Text contains invalid Unicode characters after decoding HTML entities, check for unmatched surrogate code units",
            ),
        ],
    );
}

#[test]
fn markdown_v2_becomes_text_and_entities() {
    check(
        "MarkdownV2",
        &[
            (
                "*bold* _it_ __under__ ~gone~ ||hid|| `c`",
                "bold it under gone hid c | bold@0+4 italic@5+2 underline@8+5 strikethrough@14+4 spoiler@19+3 code@23+1",
            ),
            ("*bold _both_*", "bold both | bold@0+9 italic@5+4"),
            ("1\\. пункт\\!", "1. пункт!"),
            ("[x](https://example.com/a\\)b)", "x | text_link@0+1[https://example.com/a)b]"),
            ("[x](tg://user?id=9)", "x | text_mention@0+1[9]"),
            ("```rust\nfn\n```", "fn | pre@0+2[rust]"),
            ("```\nfn```", "fn | pre@0+2"),
            (">a\n>b\nc", "a\nb\nc | blockquote@0+3"),
            (">a||", "a | expandable_blockquote@0+1"),
            ("![👍](tg://emoji?id=5368324170671202286)", "👍 | custom_emoji@0+2[5368324170671202286]"),
            ("`a.b`", "a.b | code@0+3"),
        ],
    );
}

#[test]
fn markdown_errors_are_the_servers() {
    check(
        "markdownv2",
        &[
            (
                "1. a",
                "ERROR can't parse entities: Character '.' is reserved and must be escaped with the preceding '\\'",
            ),
            (
                "a | b",
                "ERROR can't parse entities: Character '|' is reserved and must be escaped with the preceding '\\'",
            ),
            (
                "a > b",
                "ERROR can't parse entities: Character '>' is reserved and must be escaped with the preceding '\\'",
            ),
            ("x *bold", "ERROR can't parse entities: Can't find end of Bold entity at byte offset 2"),
            ("__x", "ERROR can't parse entities: Can't find end of Underline entity at byte offset 0"),
            ("```rust\nx", "ERROR can't parse entities: Can't find end of PreCode entity at byte offset 0"),
            ("[x](http://a.b", "ERROR can't parse entities: Can't find end of a URL at byte offset 4"),
            ("![x]", "ERROR can't parse entities: Custom emoji entity must contain a tg://emoji URL"),
        ],
    );
    check(
        "Markdown",
        &[
            (
                "*b* _i_ `c` [x](example.com)",
                "b i c x | bold@0+1 italic@2+1 code@4+1 text_link@6+1[http://example.com/]",
            ),
            ("snake\\_case", "snake_case"),
            ("a _b", "ERROR can't parse entities: Can't find end of the entity starting at byte offset 2"),
        ],
    );
    check("BBCode", &[("x", "ERROR unsupported parse_mode")]);
}

#[test]
fn the_server_finds_addresses_names_and_tags_by_itself() {
    check(
        "",
        &[
            ("https://example.com/a?b=1.", "https://example.com/a?b=1. | url@0+25"),
            ("см. vk.com/wall-1_2, там", "см. vk.com/wall-1_2, там | url@4+15"),
            ("конец.начало", "конец.начало"),
            ("a@b.com и @durov", "a@b.com и @durov | email@0+7 mention@10+6"),
            (
                "#кот $USD /start@some_bot",
                "#кот $USD /start@some_bot | hashtag@0+4 cashtag@5+4 bot_command@10+15",
            ),
            ("тел. +7 900 000-00-01!", "тел. +7 900 000-00-01! | phone_number@5+16"),
            ("😀 @some_name", "😀 @some_name | mention@3+10"),
        ],
    );
    check("HTML", &[("<code>@durov</code> <b>@durov</b>", "@durov @durov | code@0+6 mention@7+6 bold@7+6")]);
}

#[test]
fn no_input_breaks_the_parsers() {
    let pieces = [
        "<", "b>", "</b>", "&#x", "*", "_", "`", "[", "](", ")", "|", ">", "\n", "\\", "я", "😀", "&",
        "a href=", "\"",
    ];
    let mut state = 1u64;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += pieces[(state >> 33) as usize % pieces.len()];
        }
        for mode in ["", "html", "markdown", "markdownv2"] {
            let Ok(formatted) = entities::format(&text, mode, None) else { continue };
            let length = formatted.text.encode_utf16().count();
            assert!(formatted.entities.iter().all(|e| e.length > 0 && e.end() <= length), "{mode} {text:?}");
        }
    }
}
