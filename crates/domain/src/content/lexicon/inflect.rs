//! Russian declension, good enough to recognise words: from a dictionary form to the forms people write.
//! It may make forms that nobody uses; it must not know what any word means.

/// Bits of the grammatical case a form can stand for.
pub mod case {
    pub const NOM: u8 = 1;
    pub const GEN: u8 = 2;
    pub const DAT: u8 = 4;
    pub const ACC: u8 = 8;
    pub const INS: u8 = 16;
    pub const LOC: u8 = 32;
    pub const PLURAL: u8 = 64;
}

use case::{ACC, DAT, GEN, INS, LOC, NOM, PLURAL};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gender {
    Masculine,
    Feminine,
    Neuter,
    /// Plural only: `Набережные Челны`, `дачи`.
    Plural,
    /// Never changes: `хаски`, `Сочи`.
    Fixed,
    /// Declined as an adjective: `Железнодорожный`.
    Adjective,
}

/// One written form and the cases it can stand for.
pub type Form = (String, u8);

/// The gender that the ending suggests; `ь` is taken for masculine unless told.
pub fn guess(lemma: &str) -> Gender {
    let last = lemma.chars().last().unwrap_or(' ');
    match last {
        'а' | 'я' => Gender::Feminine,
        'о' | 'е' => Gender::Neuter,
        'и' | 'у' | 'ю' | 'ы' | 'э' => Gender::Fixed,
        _ => Gender::Masculine,
    }
}

/// Every form of a noun. `oblique` is the stem of the other cases where a vowel drops out (`щенок`, `щенк`).
pub fn decline(lemma: &str, oblique: Option<&str>, gender: Gender, animate: bool) -> Vec<Form> {
    match gender {
        Gender::Fixed => vec![(lemma.to_owned(), NOM | GEN | DAT | ACC | INS | LOC)],
        Gender::Adjective => adjective(lemma),
        Gender::Feminine => feminine(lemma, oblique),
        Gender::Masculine => masculine(lemma, oblique, animate),
        Gender::Neuter => neuter(lemma),
        Gender::Plural => plural(lemma),
    }
}

fn join(stem: &str, endings: &[(&str, u8)]) -> Vec<Form> {
    endings.iter().map(|(ending, cases)| (format!("{stem}{ending}"), *cases)).collect()
}

fn cut(word: &str, letters: usize) -> &str {
    let mut end = word.len();
    for (index, _) in word.char_indices().rev().take(letters) {
        end = index;
    }
    &word[..end]
}

fn last(word: &str) -> char {
    word.chars().last().unwrap_or(' ')
}

fn is_velar_or_sibilant(letter: char) -> bool {
    matches!(letter, 'г' | 'к' | 'х' | 'ж' | 'ч' | 'ш' | 'щ')
}

fn is_sibilant(letter: char) -> bool {
    matches!(letter, 'ж' | 'ч' | 'ш' | 'щ' | 'ц')
}

fn masculine(lemma: &str, oblique: Option<&str>, animate: bool) -> Vec<Form> {
    let acc = if animate { GEN | ACC } else { GEN };
    let nom = if animate { NOM } else { NOM | ACC };
    let mut forms = vec![(lemma.to_owned(), nom)];
    match last(lemma) {
        'а' | 'я' => return feminine(lemma, oblique),
        'о' | 'е' => return neuter(lemma),
        'й' => {
            let stem = oblique.unwrap_or_else(|| cut(lemma, 1));
            let prepositional = if last(stem) == 'и' { "и" } else { "е" };
            forms.extend(join(stem, &[("я", acc), ("ю", DAT), ("ем", INS), (prepositional, LOC)]));
            forms
                .extend(join(stem, &[("и", NOM | PLURAL), ("ев", GEN | ACC | PLURAL), ("ям", DAT | PLURAL)]));
            forms.extend(join(stem, &[("ями", INS | PLURAL), ("ях", LOC | PLURAL)]));
        }
        'ь' => {
            let stem = oblique.unwrap_or_else(|| cut(lemma, 1));
            forms.extend(join(stem, &[("я", acc), ("ю", DAT), ("ем", INS), ("е", LOC), ("и", NOM | PLURAL)]));
            forms.extend(join(stem, &[("ей", GEN | ACC | PLURAL), ("ям", DAT | PLURAL)]));
            forms.extend(join(stem, &[("ями", INS | PLURAL), ("ях", LOC | PLURAL)]));
        }
        _ => {
            let stem = oblique.unwrap_or(lemma);
            let end = last(stem);
            let plural = if is_velar_or_sibilant(end) { "и" } else { "ы" };
            let instrumental = if is_sibilant(end) { "ем" } else { "ом" };
            let genitive = match end {
                'ж' | 'ч' | 'ш' | 'щ' => "ей",
                'ц' => "ев",
                _ => "ов",
            };
            forms.extend(join(stem, &[("а", acc), ("у", DAT), (instrumental, INS), ("е", LOC)]));
            forms.extend(join(stem, &[(plural, NOM | PLURAL), (genitive, GEN | ACC | PLURAL)]));
            forms.extend(join(stem, &[("ам", DAT | PLURAL), ("ами", INS | PLURAL), ("ах", LOC | PLURAL)]));
        }
    }
    forms
}

fn feminine(lemma: &str, oblique: Option<&str>) -> Vec<Form> {
    let stem = cut(lemma, 1);
    let mut forms = vec![(lemma.to_owned(), NOM)];
    match last(lemma) {
        'а' => {
            let end = last(stem);
            let genitive = if is_velar_or_sibilant(end) { "и" } else { "ы" };
            let instrumental = if is_sibilant(end) { "ей" } else { "ой" };
            forms.extend(join(stem, &[(genitive, GEN), ("е", DAT | LOC), ("у", ACC), (instrumental, INS)]));
            forms.push((format!("{stem}{genitive}"), NOM | PLURAL));
            forms.extend(join(stem, &[("ам", DAT | PLURAL), ("ами", INS | PLURAL), ("ах", LOC | PLURAL)]));
            forms.push((oblique.map_or_else(|| bare_plural(stem), str::to_owned), GEN | ACC | PLURAL));
        }
        'я' => {
            let dative = if last(stem) == 'и' { "и" } else { "е" };
            forms.extend(join(stem, &[("и", GEN | NOM), (dative, DAT | LOC), ("ю", ACC), ("ей", INS)]));
            forms.extend(join(stem, &[("ям", DAT | PLURAL), ("ями", INS | PLURAL), ("ях", LOC | PLURAL)]));
            if last(stem) == 'и' {
                forms.push((format!("{}й", cut(stem, 0)), GEN | ACC | PLURAL));
            } else {
                forms.push((format!("{stem}ь"), GEN | ACC | PLURAL));
            }
        }
        'ь' => {
            forms.extend(join(stem, &[("и", GEN | DAT | LOC), ("ью", INS), ("ей", GEN | ACC | PLURAL)]));
            forms.extend(join(stem, &[("ям", DAT | PLURAL), ("ями", INS | PLURAL), ("ях", LOC | PLURAL)]));
        }
        _ => {}
    }
    forms
}

/// `кошк` → `кошек`, `собачк` → `собачек`, `собак` → `собак`.
fn bare_plural(stem: &str) -> String {
    let end = last(stem);
    let before = last(cut(stem, 1));
    let vowel = "аеиоуыэюяй".contains(before);
    if end == 'к' && !vowel && before != ' ' {
        let glue = if is_sibilant(before) || before == 'ь' { "е" } else { "о" };
        let head = cut(stem, 1);
        let head = if before == 'ь' { cut(head, 1) } else { head };
        return format!("{head}{glue}к");
    }
    if end == 'к' && before == 'й' {
        return format!("{}ек", cut(stem, 2));
    }
    stem.to_owned()
}

fn neuter(lemma: &str) -> Vec<Form> {
    let stem = cut(lemma, 1);
    let mut forms = vec![(lemma.to_owned(), NOM | ACC)];
    match last(lemma) {
        'о' => {
            forms.extend(join(stem, &[("а", GEN), ("у", DAT), ("ом", INS), ("е", LOC)]));
            forms.extend(join(stem, &[("ам", DAT | PLURAL), ("ами", INS | PLURAL), ("ах", LOC | PLURAL)]));
        }
        'е' => {
            let after_i = last(stem) == 'и';
            let (gen_end, dat) = if is_sibilant(last(stem)) { ("а", "у") } else { ("я", "ю") };
            let prepositional = if after_i { "и" } else { "е" };
            forms.extend(join(stem, &[(gen_end, GEN), (dat, DAT), ("ем", INS), (prepositional, LOC)]));
        }
        _ => {}
    }
    forms
}

fn plural(lemma: &str) -> Vec<Form> {
    let mut forms = vec![(lemma.to_owned(), NOM | ACC | PLURAL)];
    if lemma.ends_with("ые") || lemma.ends_with("ие") {
        let stem = cut(lemma, 1);
        forms.extend(join(stem, &[("х", GEN | LOC | PLURAL), ("м", DAT | PLURAL), ("ми", INS | PLURAL)]));
        return forms;
    }
    let stem = cut(lemma, 1);
    forms.extend(join(stem, &[("ам", DAT | PLURAL), ("ами", INS | PLURAL), ("ах", LOC | PLURAL)]));
    forms.extend(join(stem, &[("ям", DAT | PLURAL), ("ями", INS | PLURAL), ("ях", LOC | PLURAL)]));
    forms.push((bare_plural(stem), GEN | PLURAL));
    forms.push((format!("{stem}ов"), GEN | PLURAL));
    forms
}

/// Every form of an adjective, from its masculine, feminine, neuter or plural dictionary form.
pub fn adjective(lemma: &str) -> Vec<Form> {
    let stem = cut(lemma, 2);
    let soft = lemma.ends_with("ний") || lemma.ends_with("няя") || lemma.ends_with("нее");
    let velar = is_velar_or_sibilant(last(stem));
    let table: &[(&str, u8)] = if soft {
        &[
            ("ий", NOM | ACC),
            ("его", GEN | ACC),
            ("ему", DAT),
            ("им", INS | DAT),
            ("ем", LOC),
            ("яя", NOM),
            ("ей", GEN | DAT | INS | LOC),
            ("юю", ACC),
            ("ее", NOM | ACC),
            ("ие", NOM | ACC | PLURAL),
            ("их", GEN | ACC | LOC | PLURAL),
            ("ими", INS | PLURAL),
        ]
    } else if velar {
        &[
            ("ий", NOM | ACC),
            ("ой", NOM | ACC | GEN | DAT | INS | LOC),
            ("ого", GEN | ACC),
            ("его", GEN | ACC),
            ("ому", DAT),
            ("им", INS | DAT),
            ("ом", LOC),
            ("ем", LOC),
            ("ая", NOM),
            ("ую", ACC),
            ("ое", NOM | ACC),
            ("ее", NOM | ACC),
            ("ие", NOM | ACC | PLURAL),
            ("их", GEN | ACC | LOC | PLURAL),
            ("ими", INS | PLURAL),
        ]
    } else {
        &[
            ("ый", NOM | ACC),
            ("ой", NOM | ACC | GEN | DAT | INS | LOC),
            ("ого", GEN | ACC),
            ("ому", DAT),
            ("ым", INS | DAT),
            ("ом", LOC),
            ("ая", NOM),
            ("ую", ACC),
            ("ое", NOM | ACC),
            ("ые", NOM | ACC | PLURAL),
            ("ых", GEN | ACC | LOC | PLURAL),
            ("ыми", INS | PLURAL),
        ]
    };
    join(stem, table)
}
