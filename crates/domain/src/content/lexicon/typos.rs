//! Spelling mistakes that Russian writers make: letters that sound alike, and slips of the finger.
//! Only words that decide a fact are looked for this way; names and places never are.

/// What a word sounds like: unstressed vowels, voiced endings, soft signs and doubled letters made equal.
pub(super) fn sound(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut before = ' ';
    let mut letters = word.chars().peekable();
    while let Some(letter) = letters.next() {
        // A voiced consonant sounds voiceless only at the end and before a voiceless one.
        let muted = letters
            .peek()
            .is_none_or(|next| matches!(next, 'п' | 'т' | 'к' | 'ф' | 'с' | 'ш' | 'щ' | 'х' | 'ц' | 'ч'));
        let heard = match letter {
            'о' if matches!(before, 'ж' | 'ш' | 'ч') => 'и',
            'а' | 'о' => 'а',
            'е' | 'и' | 'ы' | 'я' | 'э' => 'и',
            'ю' => 'у',
            'ь' | 'ъ' => continue,
            'б' if muted => 'п',
            'д' if muted => 'т',
            'г' if muted => 'к',
            'з' if muted => 'с',
            'в' if muted => 'ф',
            'ж' if muted => 'ш',
            'щ' => 'ш',
            other => other,
        };
        if heard == before {
            continue;
        }
        // `тся`, `ться` and `ца` sound the same.
        if heard == 'с' && before == 'т' {
            out.pop();
            out.push('ц');
            before = 'ц';
            continue;
        }
        out.push(heard);
        before = heard;
    }
    out
}

/// Slips of one finger: a letter missed, or two swapped.
pub(super) fn slips(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let mut out = Vec::with_capacity(letters.len() * 2);
    for skip in 1..letters.len() {
        out.push(letters.iter().enumerate().filter(|(index, _)| *index != skip).map(|(_, l)| *l).collect());
    }
    for swap in 0..letters.len().saturating_sub(1) {
        let mut swapped = letters.clone();
        swapped.swap(swap, swap + 1);
        if swapped != letters {
            out.push(swapped.into_iter().collect());
        }
    }
    for (index, letter) in letters.iter().enumerate() {
        for neighbour in neighbours(*letter).chars() {
            let mut struck = letters.clone();
            struck[index] = neighbour;
            out.push(struck.into_iter().collect());
        }
    }
    out
}

/// Keys beside a key on the Russian layout.
fn neighbours(letter: char) -> &'static str {
    match letter {
        'а' => "впк",
        'б' => "ью",
        'в' => "ыа",
        'г' => "нш",
        'д' => "лж",
        'е' => "кн",
        'ж' => "дэ",
        'и' => "мт",
        'к' => "уе",
        'л' => "од",
        'м' => "си",
        'н' => "ег",
        'о' => "рл",
        'п' => "ар",
        'р' => "по",
        'с' => "чм",
        'т' => "иь",
        'у' => "цк",
        'ч' => "яс",
        'ш' => "гщ",
        'ы' => "фв",
        'я' => "ч",
        _ => "",
    }
}
