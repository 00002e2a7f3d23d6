//! Questions about characters, with the answer for Russian first: the general tables are slow, and most text
//! that is read here is Cyrillic.

/// A letter of any alphabet.
pub(super) fn is_letter(character: char) -> bool {
    match character {
        'а'..='я' | 'А'..='Я' | 'a'..='z' | 'A'..='Z' | 'ё' | 'Ё' => true,
        '\0'..='\u{7f}' => false,
        other => other.is_alphabetic(),
    }
}

/// A letter or a digit of any script.
pub(super) fn is_letter_or_digit(character: char) -> bool {
    match character {
        'а'..='я' | 'А'..='Я' | 'a'..='z' | 'A'..='Z' | '0'..='9' | 'ё' | 'Ё' => true,
        '\0'..='\u{7f}' => false,
        other => other.is_alphanumeric(),
    }
}

pub(super) fn is_upper(character: char) -> bool {
    match character {
        'А'..='Я' | 'A'..='Z' | 'Ё' => true,
        'а'..='я' | '\0'..='\u{7f}' | 'ё' => false,
        other => other.is_uppercase(),
    }
}

pub(super) fn is_lower(character: char) -> bool {
    match character {
        'а'..='я' | 'a'..='z' | 'ё' => true,
        'А'..='Я' | '\0'..='\u{7f}' | 'Ё' => false,
        other => other.is_lowercase(),
    }
}

/// Nothing but small Russian letters (without `ё`) and digits, which every folding leaves as they are.
pub(super) fn is_plain_lower(text: &str) -> bool {
    text.chars().all(|character| matches!(character, 'а'..='я' | '0'..='9'))
}

/// Adds the character in lower case, `ё` as `е`.
pub(super) fn push_lower(out: &mut String, character: char) {
    match character {
        'а'..='я' => out.push(character),
        'А'..='Я' => out.push(char::from_u32(character as u32 + 32).unwrap_or(character)),
        'ё' | 'Ё' => out.push('е'),
        '\0'..='\u{7f}' => out.push(character.to_ascii_lowercase()),
        other => out.extend(other.to_lowercase()),
    }
}
