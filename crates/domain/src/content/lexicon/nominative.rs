//! A noun with its adjectives, from any case to the nominative: `Осеннем бульваре` is `Осенний бульвар`.
//! Grammar alone; what it cannot be sure of it leaves to the caller by returning nothing.

use rumorph::{Analysis, Dictionary, Source};

use super::morph::dictionary;

/// Adjectives before a noun at most.
const ADJECTIVES_MAX: usize = 2;

/// A case by its name in the dictionary, with number and gender.
type Agreement<'a> = (&'a str, &'a str, &'a str);

/// What is known of a phrase besides its words.
#[derive(Debug, Clone, Copy)]
pub struct Stance<'a> {
    /// The cases in which it may stand, as the dictionary calls them.
    pub cases: &'a [&'a str],
    /// Something says that it stands in one of these, so a form that could be the nominative too is not.
    pub leans: bool,
    /// An adjective behind the noun is its name and agrees with it: `улицы Садовой` is `улица Садовая`.
    pub named: bool,
}

/// The first words of a phrase in the nominative, as many as were understood. Words are letters and hyphens only.
pub fn nominative(words: &[&str], stance: Stance<'_>) -> Option<Vec<String>> {
    let dictionary = dictionary()?;
    let adjectives =
        words.iter().take(ADJECTIVES_MAX).take_while(|word| is_adjective(dictionary, word)).count();
    let (before, after) = words.split_at(adjectives);
    let (head, after) = after.split_first()?;
    let agree = |noun: &Analysis| -> Option<(Agreement<'static>, Vec<String>)> {
        let agreement = agreement(dictionary, noun)?;
        let changed = before.iter().map(|word| agreed(dictionary, word, agreement));
        Some((agreement, changed.collect::<Option<_>>()?))
    };
    let nouns = nouns(dictionary, head);
    let readings = || nouns.iter().filter_map(|noun| Some((noun, agree(noun)?)));
    let oblique = || readings().filter(|(_, ((case, ..), _))| stance.cases.contains(case));
    if !stance.leans && readings().any(|(_, ((case, ..), _))| case == "Nom") {
        return None;
    }
    // `школы 12` is one school, although the form may be many schools too.
    let found = oblique().find(|(_, ((_, number, _), _))| *number == "Sing").or_else(|| oblique().next());
    let (noun, (agreement, mut out)) = found?;
    let form = inflected(dictionary, noun, &[("Case", "Nom"), ("Number", agreement.1)])?;
    out.push(like(head, &form));
    let name: Option<Vec<String>> = after.iter().map(|word| agreed(dictionary, word, agreement)).collect();
    // Half a name is none: `остановке Цветной проезд` keeps its words.
    out.extend(name.filter(|_| stance.named).unwrap_or_default());
    Some(out)
}

/// What a word is as a noun that the dictionary has, the likeliest first. Names are left alone: `на Рахова` is a street
/// that is called so after a person.
fn nouns(dictionary: &Dictionary, word: &str) -> Vec<Analysis> {
    let known = |one: &Analysis| one.source == Source::Dictionary && pos(dictionary, one) == Some("NOUN");
    dictionary.analyze(&word.to_lowercase()).into_iter().filter(known).collect()
}

fn agreement<'d>(dictionary: &'d Dictionary, noun: &Analysis) -> Option<Agreement<'d>> {
    let tag = dictionary.ud_tag(noun.ud)?;
    let number = tag.feat("Number")?;
    let gender = if number == "Plur" { "" } else { tag.feat("Gender")? };
    Some((tag.feat("Case")?, number, gender))
}

fn is_adjective(dictionary: &Dictionary, word: &str) -> bool {
    let analyses = dictionary.analyze(&word.to_lowercase());
    analyses.first().is_some_and(|first| pos(dictionary, first) == Some("ADJ"))
}

/// The adjective in the nominative, if it agrees with its noun.
fn agreed(dictionary: &Dictionary, word: &str, (case, number, gender): Agreement<'_>) -> Option<String> {
    let analyses = dictionary.analyze(&word.to_lowercase());
    let agrees = |one: &&Analysis| {
        pos(dictionary, one) == Some("ADJ")
            && feature(dictionary, one, "Case") == Some(case)
            && feature(dictionary, one, "Number") == Some(number)
            && (number == "Plur" || feature(dictionary, one, "Gender") == Some(gender))
    };
    let one = analyses.iter().find(agrees)?;
    let singular = [("Case", "Nom"), ("Number", "Sing"), ("Gender", gender)];
    let wanted = if number == "Plur" { &[("Case", "Nom"), ("Number", "Plur")][..] } else { &singular[..] };
    inflected(dictionary, one, wanted).map(|form| like(word, &form))
}

fn inflected(dictionary: &Dictionary, one: &Analysis, wanted: &[(&str, &str)]) -> Option<String> {
    dictionary.inflect(one, wanted).map(|form| form.word)
}

fn pos<'d>(dictionary: &'d Dictionary, one: &Analysis) -> Option<&'d str> {
    dictionary.ud_tag(one.ud).map(|tag| tag.pos())
}

fn feature<'d>(dictionary: &'d Dictionary, one: &Analysis, name: &str) -> Option<&'d str> {
    dictionary.ud_tag(one.ud).and_then(|tag| tag.feat(name))
}

/// The form with the capitals of the word that it replaces.
fn like(word: &str, form: &str) -> String {
    let is_shouted = word.chars().count() > 1 && word.chars().all(|c| c.is_uppercase() || c == '-');
    if is_shouted {
        return form.to_uppercase();
    }
    let parts = form.split('-').zip(word.split('-').chain(std::iter::repeat("")));
    let capital = |(part, model): (&str, &str)| {
        let mut letters = part.chars();
        match letters.next() {
            Some(first) if model.starts_with(char::is_uppercase) => {
                first.to_uppercase().chain(letters).collect()
            }
            _ => part.to_owned(),
        }
    };
    parts.map(capital).collect::<Vec<String>>().join("-")
}
