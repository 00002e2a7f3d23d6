//! Tables: source in, text and marks out. A mark is written `type@from+length`, with its address or user after it.

use super::*;

struct Nobody;

impl Names for Nobody {
    fn name_of(&self, id: i64) -> Option<String> {
        (id == 7).then(|| "Мария Иванова".to_owned())
    }

    fn id_of(&self, username: &str) -> Option<i64> {
        (username == "vet_bot").then_some(42)
    }
}

fn shown(source: &str, format: Format) -> String {
    let styled = read(source, format, &Nobody);
    let mut out = styled.text.clone();
    for mark in styled.marks {
        out += &format!(" | {}@{}+{}", mark.look.name(), mark.from, mark.length);
        match mark.look {
            Look::Link(url) => out += &format!(" {url}"),
            Look::User { id: Some(id), .. } => out += &format!(" {id}"),
            _ => {}
        }
    }
    out
}

#[test]
fn markdown_becomes_text_and_marks() {
    let table = [
        ("plain", "plain"),
        ("**x**", "x | strong@0+1"),
        ("__x__", "x | strong@0+1"),
        ("*x* _y_", "x y | emphasized@0+1 | emphasized@2+1"),
        ("***x***", "x | emphasized@0+1 | strong@0+1"),
        ("~~x~~ ++y++ ^^z^^", "x y z | strikethrough@0+1 | underline@2+1 | highlighted@4+1"),
        ("~x~ +y+ ^z^", "~x~ +y+ ^z^"),
        ("C++ and C++", "C++ and C++"),
        ("`a*b*`", "a*b* | monospaced@0+4"),
        ("``a`b``", "a`b | monospaced@0+3"),
        ("`a\nb`", "a b | monospaced@0+3"),
        ("```x```", "x | monospaced@0+1"),
        ("```\nfn a()\n\nb\n```\nc", "fn a()\n\nb\nc | monospaced@0+9"),
        ("```rust\nx", "x | monospaced@0+1"),
        ("# Title\ntext", "Title\ntext | heading@0+5"),
        ("#tag", "#tag"),
        ("> a\n> b\nc", "a\nb\nc | quote@0+3"),
        ("[t](https://max.ru/a)", "t | link@0+1 https://max.ru/a"),
        ("[t](https://a.b/c_(d))", "t | link@0+1 https://a.b/c_(d)"),
        ("[t](<https://a.b/c d> \"title\")", "t | link@0+1 https://a.b/c d"),
        ("[**t** u](https://a.b)", "t u | link@0+3 https://a.b | strong@0+1"),
        ("[t] (https://a.b)", "[t] (https://a.b)"),
        ("[t]()", "[t]()"),
        ("[a [b](https://x.y) c](https://z.w)", "[a b c](https://z.w) | link@3+1 https://x.y"),
        ("[Маша](max://user/7)!", "Мария Иванова! | user_mention@0+13 7"),
        ("**[Маша](max://user/7)** и", "Мария Иванова и | strong@0+13 | user_mention@0+13 7"),
        ("[Кто-то](max://user/8)", "Кто-то | user_mention@0+6 8"),
        ("\\*x\\* \\a", "*x* \\a"),
        ("**x", "**x"),
        ("x**", "x**"),
        ("** x **", "** x **"),
        ("snake_case_name", "snake_case_name"),
        ("при**вет**ы", "приветы | strong@3+3"),
        ("🐕 **Рекс** 🐕", "🐕 Рекс 🐕 | strong@3+4"),
        ("**a\nb**", "a\nb | strong@0+3"),
        ("**a\n\nb**", "**a\n\nb**"),
        ("- item\n1. item", "- item\n1. item"),
        ("**a *b* c**", "a b c | strong@0+5 | emphasized@2+1"),
        (
            "`@vet_bot` @vet_bot a@vet_bot @nobody",
            "@vet_bot @vet_bot a@vet_bot @nobody | monospaced@0+8 | user_mention@9+8 42",
        ),
        ("", ""),
        ("``", "``"),
        ("[", "["),
        ("](", "]("),
        ("[x](", "[x]("),
        ("****", "****"),
    ];
    for (source, expected) in table {
        assert_eq!(shown(source, Format::Markdown), expected, "{source:?}");
    }
}

#[test]
fn html_becomes_text_and_marks() {
    let table = [
        ("<b>x</b><strong>y</strong>", "xy | strong@0+1 | strong@1+1"),
        ("<i>x</i> <em>y</em>", "x y | emphasized@0+1 | emphasized@2+1"),
        ("<s>x</s><del>y</del>", "xy | strikethrough@0+1 | strikethrough@1+1"),
        ("<u>x</u><ins>y</ins>", "xy | underline@0+1 | underline@1+1"),
        ("<code>x</code><pre>y</pre>", "xy | monospaced@0+1 | monospaced@1+1"),
        ("<mark>x</mark>", "x | highlighted@0+1"),
        ("<h1>x</h1><h2>y</h2>", "xy | heading@0+1"),
        ("<blockquote>x</blockquote>", "x | quote@0+1"),
        ("<a href=\"https://a.b/?x=1&amp;y=2\">t</a>", "t | link@0+1 https://a.b/?x=1&y=2"),
        ("<A HREF='https://a.b'>t</A>", "t | link@0+1 https://a.b"),
        ("<a href=https://a.b>t</a>", "t | link@0+1 https://a.b"),
        ("<a class=x>t</a>", "t"),
        ("<a href=\"max://user/7\">Маша</a>", "Мария Иванова | user_mention@0+13 7"),
        ("<b><i>x</b>y</i>", "xy | emphasized@0+2 | strong@0+1"),
        ("<b>x", "x | strong@0+1"),
        ("x</b>", "x"),
        ("<span style=\"a>b\">x</span><br/>y", "xy"),
        ("1 < 2 & 3 > 2 &lt;b&gt; &#39; &#x41; &nope;", "1 < 2 & 3 > 2 <b> ' A &nope;"),
        ("<!-- no -->x", "x"),
        ("<b", "<b"),
        ("<", "<"),
        ("&", "&"),
        ("<b></b>", ""),
        ("**x**", "**x**"),
        ("🐕<b>Р</b>", "🐕Р | strong@2+1"),
        ("<code>@vet_bot</code> @vet_bot", "@vet_bot @vet_bot | monospaced@0+8 | user_mention@9+8 42"),
    ];
    for (source, expected) in table {
        assert_eq!(shown(source, Format::Html), expected, "{source:?}");
    }
}

#[test]
fn plain_text_is_literal_and_still_mentions() {
    assert_eq!(shown("**x** <b> @vet_bot", Format::Plain), "**x** <b> @vet_bot | user_mention@10+8 42");
}

#[test]
fn the_first_address_is_found_in_text_and_in_links() {
    let check = |source: &str, format: Format, expected: Option<&str>| {
        let found = read(source, format, &Nobody).first_address();
        assert_eq!(found.as_deref(), expected, "{source:?}");
    };
    check("см. https://max.ru/a, там", Format::Plain, Some("https://max.ru/a"));
    check("[t](https://a.b) https://c.d", Format::Markdown, Some("https://a.b"));
    check("no address, http:// neither", Format::Plain, None);
    check("[x](max://user/7)", Format::Markdown, None);
}

/// Everything that two fragments of syntax can make together is read without a panic and with marks inside the text.
#[test]
fn odd_combinations_stay_inside_their_text() {
    let pieces = [
        "**",
        "*",
        "_",
        "__",
        "~~",
        "++",
        "^^",
        "`",
        "```",
        "[",
        "](https://a.b)",
        "](",
        ")",
        "\\",
        "> ",
        "# ",
        "\n",
        "<b>",
        "</b>",
        "<a href=\"",
        "\">",
        "<!--",
        "-->",
        "&lt;",
        "&",
        "🐕",
        "й",
        " ",
        "@vet_bot",
        "max://user/7)",
    ];
    for a in pieces {
        for b in pieces {
            for c in pieces {
                for source in [format!("{a}{b}{c}"), format!("x{a}y{b}z{c}x{b}{a}")] {
                    for format in [Format::Plain, Format::Markdown, Format::Html] {
                        let styled = read(&source, format, &Nobody);
                        let length = units(&styled.text);
                        let inside = styled
                            .marks
                            .iter()
                            .all(|mark| mark.from + mark.length <= length && mark.length > 0);
                        assert!(inside, "{source:?} {format:?} {styled:?}");
                    }
                }
            }
        }
    }
}
