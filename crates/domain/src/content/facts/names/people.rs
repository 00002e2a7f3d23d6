//! People to call: first names beside a telephone, or after a word for the owner or the keeper.

use super::forms::title_case;
use super::{CONTACTS_MAX, Finder, is};
use crate::content::Fact;
use crate::content::facts::read::Spans;
use crate::content::tokens::Gap;

impl Finder<'_, '_> {
    /// People named beside a telephone, or after a word for the owner or the keeper.
    pub(super) fn people(&self, phones: &Spans) -> Vec<usize> {
        let mut people = Vec::new();
        for (first, last) in phones {
            let after = (last + 1..=last + 3).filter(|at| {
                self.token(*at).is_some_and(|token| {
                    token.gap <= Gap::Emoji && token.text == self.reading.tokens[*first].text
                })
            });
            let before = (first.saturating_sub(3)..*first)
                .rev()
                .filter(|at| self.reading.tokens[*at].text == self.reading.tokens[*first].text);
            for at in before.chain(after) {
                if self.is_contact(at) {
                    people.push(at);
                }
            }
        }
        for index in 1..self.reading.tokens.len() {
            if !self.is_person(index) {
                continue;
            }
            let token = &self.reading.tokens[index];
            let Some(before) = self.before(index).filter(|_| token.gap <= Gap::Space) else { continue };
            let keeper = is(before, self.groups.owner)
                || matches!(
                    self.reading.word(before),
                    "куратор"
                        | "куратору"
                        | "волонтер"
                        | "волонтеру"
                        | "звонить"
                        | "звоните"
                        | "муж"
                        | "сын"
                        | "дочь"
                        | "администратор"
                        | "пристраивает"
                        | "меня"
                );
            let called_me =
                self.reading.word(before) == "зовут" && index >= 2 && self.word(index - 2) == "меня";
            if (keeper || called_me) && self.is_contact(index) {
                people.push(index);
            }
        }
        people.sort_unstable();
        people.dedup();
        people
    }

    fn is_contact(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        let named = self.before(index).is_some_and(|before| {
            is(before, self.groups.named)
                || is(before, self.groups.called)
                    && index.checked_sub(2).is_none_or(|at| self.word(at) != "меня")
        });
        let street = self
            .before(index)
            .is_some_and(|before| self.groups.streets.iter().any(|group| is(before, *group)));
        token.is_word() && !token.tag && self.is_person(index) && token.capital() && !named && !street
    }

    pub(super) fn contacts(&self, people: &[usize]) -> Vec<Fact<String>> {
        let mut contacts: Vec<Fact<String>> = Vec::new();
        for index in people.iter().copied() {
            let Some((name, _)) = self.reading.tokens[index].entry().and_then(|entry| entry.person) else {
                continue;
            };
            let patronymic = self.after(index).filter(|next| {
                let word = self.reading.word(next);
                next.gap <= Gap::Space
                    && next.capital()
                    && ["вна", "вич", "вны", "вне", "ична", "вича"]
                        .iter()
                        .any(|ending| word.ends_with(ending))
            });
            let (value, last) = match patronymic {
                Some(_) => (format!("{name} {}", title_case(&self.shown(index + 1))), index + 1),
                None => (name.to_owned(), index),
            };
            if contacts.len() < CONTACTS_MAX && !contacts.iter().any(|fact| fact.value == value) {
                contacts.push(Fact::new(value, self.reading.evidence("names.contact", index, last)));
            }
        }
        contacts
    }
}
