//! What a word looks like, without the words around it.

/// Nouns that finish a name begun by an adjective.
pub(super) fn geographic(word: &str) -> bool {
    [
        "гор",
        "озер",
        "полян",
        "рощ",
        "слобод",
        "ключ",
        "бор",
        "лог",
        "пруд",
        "реч",
        "рек",
        "остров",
        "мыс",
        "ручь",
        "балк",
        "луг",
        "пол",
        "сторон",
        "берег",
        "пустош",
        "дол",
        "мост",
        "холм",
        "высот",
        "бугор",
        "бугр",
        "горк",
        "дач",
        "угл",
        "уголок",
        "гай",
        "хутор",
    ]
    .iter()
    .any(|stem| word.starts_with(stem) && word.chars().count() <= stem.chars().count() + 4)
}

pub(super) fn is_prepositional_start(word: &str) -> bool {
    matches!(word, "на" | "в" | "по")
}

pub(super) fn ends_like_adjective(word: &str) -> bool {
    [
        "ая", "яя", "ой", "ей", "ого", "его", "ом", "ем", "ую", "юю", "ый", "ий", "ое", "ее", "ым", "им",
        "ых", "их", "ые", "ие", "ому",
    ]
    .iter()
    .any(|ending| word.ends_with(ending))
}
