//! The texts themselves, read once from the files beside this one.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::Language;

/// One text in every language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text {
    pub id: &'static str,
    pub en: &'static str,
    pub ru: &'static str,
}

impl Text {
    pub(super) fn in_language(&self, language: Language) -> &'static str {
        match language {
            Language::En => self.en,
            Language::Ru => self.ru,
        }
    }
}

pub(super) const FILES: &[(&str, &str)] = &[
    ("status", include_str!("catalogue/status.txt")),
    ("trouble", include_str!("catalogue/trouble.txt")),
    ("cause", include_str!("catalogue/cause.txt")),
    ("alert", include_str!("catalogue/alert.txt")),
    ("why", include_str!("catalogue/why.txt")),
    ("bots", include_str!("catalogue/bots.txt")),
    ("desk", include_str!("catalogue/desk.txt")),
    ("check", include_str!("catalogue/check.txt")),
    ("init", include_str!("catalogue/init.txt")),
    ("heard", include_str!("catalogue/heard.txt")),
    ("board", include_str!("catalogue/board.txt")),
];

static TEXTS: LazyLock<BTreeMap<&'static str, Text>> =
    LazyLock::new(|| FILES.iter().flat_map(|(_, file)| read(file)).map(|text| (text.id, text)).collect());

pub(super) fn find(id: &str) -> Option<&'static Text> {
    TEXTS.get(id)
}

pub(super) fn all() -> impl Iterator<Item = &'static Text> {
    TEXTS.values()
}

/// Id, English, Russian, an empty line; a line with `#` is a remark. The tests find what is not so.
pub(super) fn read(file: &'static str) -> Vec<Text> {
    let mut texts = Vec::new();
    let mut lines: Vec<&'static str> = Vec::new();
    for line in file.lines().map(str::trim).chain([""]).filter(|line| !line.starts_with('#')) {
        match line {
            "" => {
                if let [id, en, ru] = lines[..] {
                    texts.push(Text { id, en, ru });
                }
                lines.clear();
            }
            line => lines.push(line),
        }
    }
    texts
}
