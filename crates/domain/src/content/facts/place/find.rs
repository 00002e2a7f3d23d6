//! Candidates: marker words, capitals after prepositions, addresses and landmarks.

use super::words::{ends_like_adjective, geographic, is_prepositional_start};
use super::{
    AFTER_PREPOSITION, BARE_ADDRESS, Candidate, DISTRICT, Finder, HOUSE, LANDMARK, LONE_CAPITAL, NAME_TOKENS,
    NAMED_LANDMARK, SETTLEMENT, STREET, is,
};
use crate::content::tokens::{Gap, Letters};

impl Finder<'_, '_> {
    pub(super) fn at(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        let said = !token.tag && !token.mention && !self.reading.in_footer(token);
        if !said || self.in_phone(index) || !(token.is_word() || token.is_number()) {
            return None;
        }
        if is(token, self.groups.street) || is(token, self.groups.avenue) && self.abbreviation_holds(index) {
            return self.street(index);
        }
        let marker = is(token, self.groups.garden)
            || is(token, self.groups.district)
            || is(token, self.groups.settlement);
        if marker && self.abbreviation_holds(index) {
            return self.area(index);
        }
        if is(token, self.groups.landmark)
            || is(token, self.groups.brand) && (token.quoted || token.capital())
        {
            return self.landmark(index);
        }
        if is(token, self.groups.inside) || is(token, self.groups.near) {
            return self.after_preposition(index);
        }
        if let Some(district) = self.district(index) {
            return Some(district);
        }
        if token.is_number() {
            return self.memorial_street(index);
        }
        self.bare_address(index)
    }

    /// `Эльмаш, найден пёс`: a district that people know by its name.
    fn district(&self, index: usize) -> Option<Candidate> {
        let at = self.known.districts.binary_search_by_key(&index, |mention| mention.first).ok()?;
        let (last, house) = self.with_house(self.known.districts[at].last);
        let free = self.known.taken.binary_search(&index).is_err();
        free.then_some(Candidate {
            first: index,
            last,
            weight: DISTRICT + if house { 1.0 } else { 0.0 },
            rule: "place.district",
        })
    }

    /// `9-е Января, дом 171`, `8 Марта 15`: a day with a capital month is a street.
    fn memorial_street(&self, index: usize) -> Option<Candidate> {
        let mut at = index + 1;
        if matches!(self.word(at), "е" | "го" | "я" | "й" | "лет" | "летия") {
            at += 1;
        }
        let month = self.token(at).filter(|token| token.letters == Letters::Title && !self.shouts(index))?;
        let named = month.entry().is_some_and(|entry| entry.month.is_some()) && self.same_sentence(index, at);
        let (last, house) = self.with_house(at);
        let led =
            self.before(index).is_some_and(|before| is(&self.reading.tokens[before], self.groups.inside));
        (named && (house || led)).then_some(Candidate {
            first: index,
            last,
            weight: BARE_ADDRESS,
            rule: "place.address",
        })
    }

    /// `с`, `п`, `д` are markers only when abbreviated before a capital: `с. Култаево`.
    fn abbreviation_holds(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        let letters = self.word(index).chars().count();
        if letters > 3 || matches!(self.word(index), "снт" | "днт" | "жк" | "кп" | "тсн" | "пгт" | "мкр")
        {
            return true;
        }
        let text = &self.reading.normals[usize::from(token.text)].text;
        let dotted = text[token.end as usize..].starts_with('.') || letters >= 2;
        let named = self.proper(index + 1) && self.same_sentence(index, index + 1);
        let prepositional = letters == 1 && !text[token.end as usize..].starts_with('.');
        (dotted || self.word(index) == "д") && named && !prepositional
    }

    /// The last token of a name that follows a marker: `8 Марта`, `Богдана Хмельницкого`, `«Надежда»`.
    fn name_after(&self, index: usize) -> Option<usize> {
        let mut last = index;
        let mut named = false;
        for at in index + 1..=index + NAME_TOKENS {
            let Some(token) = self.token(at).filter(|_| self.same_sentence(index, at)) else { break };
            if token.gap > Gap::Quote || self.in_phone(at) {
                break;
            }
            let number = token.is_number() && token.end - token.start <= 4 && !named;
            let quoted = token.quoted && token.is_word();
            let of_number = last > index
                && self.reading.tokens[last].is_number()
                && matches!(
                    self.word(at),
                    "лет"
                        | "летия"
                        | "года"
                        | "й"
                        | "я"
                        | "го"
                        | "е"
                        | "марта"
                        | "мая"
                        | "января"
                        | "октября"
                        | "июля"
                );
            let shouted = self.shouts(index)
                && token.is_word()
                && at == index + 1
                && token.entry().is_none_or(|entry| entry.groups().is_empty());
            let proper = if self.shouts(index) { shouted } else { self.proper(at) };
            if !(number || quoted || proper || of_number) {
                break;
            }
            named |= quoted || proper || of_number;
            last = at;
            if (quoted && !self.token(at + 1).is_some_and(|next| next.quoted)) && token.quoted {
                break;
            }
        }
        named.then_some(last)
    }

    /// Adjectives with a capital before a marker: `Осенний бульвар`, `Большой Садовой улице`.
    fn adjectives_before(&self, index: usize) -> Option<usize> {
        let mut first = index;
        while let Some(before) = self.before(first) {
            let token = &self.reading.tokens[before];
            let adjective = ends_like_adjective(self.word(before)) || token.quoted;
            let close = self.reading.tokens[first].gap <= Gap::Quote;
            if index - before > 2
                || !close
                || !self.proper(before)
                || !adjective
                || self.shouts(index) && before + 1 != index
            {
                break;
            }
            first = before;
        }
        (first < index).then_some(first)
    }

    /// `31`, `, 18/40`, ` д. 5`, ` 12а` after an address.
    fn with_house(&self, last: usize) -> (usize, bool) {
        if let Some(milestone) = self.milestone(last) {
            return (milestone, true);
        }
        let mut end = last;
        let mut at = last + 1;
        if self.token(at).is_some_and(|token| is(token, self.groups.house) && token.gap <= Gap::Comma)
            && self.token(at + 1).is_some_and(|token| token.is_number())
        {
            at += 1;
        }
        let number = self.token(at).filter(|token| {
            token.is_number()
                && token.gap <= Gap::Comma
                && token.end - token.start <= 3
                && self.same_sentence(last, at)
        });
        if number.is_none() || self.in_phone(at) || self.measures(at) {
            return (last, false);
        }
        end = end.max(at);
        while let Some(next) =
            self.token(end + 1).filter(|next| next.gap <= Gap::Slash && next.gap != Gap::Space)
        {
            let suffix = next.is_number() || next.is_word() && next.end - next.start <= 2;
            if !suffix || end > at + 2 || self.in_phone(end + 1) {
                break;
            }
            end += 1;
        }
        (end, true)
    }

    /// `Тобольском тракте, 19 км`: how far along the road.
    fn milestone(&self, last: usize) -> Option<usize> {
        let road = self.token(last).is_some_and(|token| is(token, self.groups.avenue))
            || self.word(last).starts_with("трасс");
        let number = self.token(last + 1).is_some_and(|token| token.is_number() && token.gap <= Gap::Comma);
        let unit = matches!(self.word(last + 2), "км" | "километр" | "километре" | "километра");
        (road && number && unit && self.same_sentence(last, last + 2)).then_some(last + 2)
    }

    /// The number counts years, weight, hours or days, or opens a date: no house.
    fn measures(&self, index: usize) -> bool {
        let next = self.word(index + 1);
        let stems = [
            "год",
            "лет",
            "мес",
            "кг",
            "см",
            "тыс",
            "руб",
            "час",
            "утра",
            "вечер",
            "км",
            "минут",
            "январ",
            "феврал",
            "март",
            "апрел",
            "мая",
            "июн",
            "июл",
            "август",
            "сентябр",
            "октябр",
            "ноябр",
            "декабр",
            "этаж",
            "недел",
            "дня",
            "дней",
            "день",
            "числа",
            "грам",
            "челов",
            "штук",
        ];
        let unit = stems.iter().any(|stem| next.starts_with(stem))
            || matches!(next, "р" | "ч" | "г" | "м" | "т" | "го");
        let close = self.token(index + 1).is_some_and(|token| token.gap <= Gap::Space);
        let dated = self.token(index + 1).is_some_and(|token| {
            let text = &self.reading.normals[usize::from(token.text)].text;
            token.is_number() && text[..token.start as usize].ends_with('.') && token.end - token.start == 2
        });
        unit && close || dated
    }

    fn street(&self, index: usize) -> Option<Candidate> {
        let after = self.name_after(index);
        let before = self.adjectives_before(index);
        let marked = Candidate { first: index, last: index, weight: STREET, rule: "place.street" };
        // `Садовая ул. Мамин…`: the adjective before wins over a word that begins the next thing.
        let (first, last) = match (before, after) {
            (Some(first), None) => (first, index),
            (Some(first), Some(_)) if !is_prepositional_start(self.word(first)) => (first, index),
            (_, Some(last)) => (index, last),
            // `на улице` alone is out of doors, not a place.
            (None, None) if is(&self.reading.tokens[index], self.groups.street) => return None,
            (None, None) => return self.lower_landmark(index),
        };
        let (end, house) = self.with_house(last);
        Some(Candidate {
            first,
            last: end,
            weight: marked.weight + if house { HOUSE } else { 0.0 },
            ..marked
        })
    }

    fn area(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        let (weight, rule) = if is(token, self.groups.district) {
            (DISTRICT, "place.district")
        } else if is(token, self.groups.garden) {
            (SETTLEMENT, "place.garden")
        } else {
            (SETTLEMENT, "place.settlement")
        };
        let numbered = self.number_before(index);
        if let Some(first) = self.adjectives_before(index) {
            return Some(Candidate { first, last: self.with_house(index).0, weight, rule });
        }
        if let Some(last) = self.name_after(index) {
            let (end, house) = self.with_house(self.with_noun(last));
            return Some(Candidate {
                first: index,
                last: end,
                weight: weight + if house { 1.0 } else { 0.0 },
                rule,
            });
        }
        if let Some(first) = numbered {
            return Some(Candidate { first, last: index, weight: weight - 1.0, rule });
        }
        // `в районе автовокзала`: the landmark that follows tells the place.
        if matches!(self.word(index), "районе" | "район") {
            let next = index + 1;
            let landmark = self.token(next).is_some_and(|token| is(token, self.groups.landmark))
                && self.same_sentence(index, next);
            return landmark.then_some(Candidate {
                first: index,
                last: next,
                weight: LANDMARK + 1.0,
                rule: "place.landmark",
            });
        }
        None
    }

    /// `Липовой горы`, `Андреевского озера`: an adjective takes the noun behind it.
    fn with_noun(&self, last: usize) -> usize {
        let next = last + 1;
        let noun = self
            .token(next)
            .filter(|token| token.gap <= Gap::Space && token.is_word() && self.same_sentence(last, next));
        let geographic = noun.is_some_and(|token| {
            is(token, self.groups.landmark)
                || is(token, self.groups.district)
                || is(token, self.groups.avenue)
                || geographic(self.word(next))
        });
        if ends_like_adjective(self.word(last)) && geographic { next } else { last }
    }

    /// `7-й больницей`, `43 комплексе`.
    fn number_before(&self, index: usize) -> Option<usize> {
        let mut at = self.before(index)?;
        if matches!(self.word(at), "й" | "я" | "го" | "м" | "ой" | "ом" | "ая" | "ый")
            && self.reading.tokens[at].gap == Gap::Joined
        {
            at = self.before(at)?;
        }
        let token = &self.reading.tokens[at];
        (token.is_number() && token.end - token.start <= 3 && !self.in_phone(at)).then_some(at)
    }

    /// `школы 12`, `маршрутке 284`, `садика № 5`.
    fn number_after(&self, index: usize) -> Option<usize> {
        let next = self.token(index + 1)?;
        let fits = next.is_number()
            && next.gap <= Gap::Comma
            && next.end - next.start <= 3
            && !self.in_phone(index + 1);
        (fits && self.same_sentence(index, index + 1) && !self.measures(index + 1) && next.gap != Gap::Comma
            || fits && self.numero(index + 1))
        .then_some(index + 1)
    }

    fn numero(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        self.reading.normals[usize::from(token.text)].text[..token.start as usize].trim_end().ends_with('№')
    }

    fn landmark(&self, index: usize) -> Option<Candidate> {
        let named = |first: usize, last: usize, weight: f32| {
            Some(Candidate { first, last, weight, rule: "place.named_landmark" })
        };
        let brand = is(&self.reading.tokens[index], self.groups.brand)
            && !is(&self.reading.tokens[index], self.groups.landmark);
        if brand {
            return named(index, index, NAMED_LANDMARK - 2.0);
        }
        if let Some(first) = self.adjectives_before(index) {
            let last =
                self.name_after(index).filter(|last| self.reading.tokens[*last].quoted).unwrap_or(index);
            return named(first, last, NAMED_LANDMARK);
        }
        if let Some(last) = self.name_after(index) {
            let (end, _) = self.with_house(self.with_noun(last));
            return named(index, end, NAMED_LANDMARK);
        }
        if let Some(last) = self.number_after(index) {
            return Some(Candidate {
                first: index,
                last,
                weight: LANDMARK + 2.0,
                rule: "place.numbered_landmark",
            });
        }
        if let Some(first) = self.number_before(index) {
            let first = self
                .before(first)
                .filter(|at| is(&self.reading.tokens[*at], self.groups.near))
                .unwrap_or(first);
            return Some(Candidate {
                first,
                last: index,
                weight: LANDMARK + 2.0,
                rule: "place.numbered_landmark",
            });
        }
        self.lower_landmark(index)
    }

    /// `возле рынка`, `на трамвайной остановке`: needs the preposition.
    fn lower_landmark(&self, index: usize) -> Option<Candidate> {
        let mut at = index;
        for _ in 0..3 {
            let before = self.before(at)?;
            let token = &self.reading.tokens[before];
            if self.reading.tokens[at].gap > Gap::Quote {
                return self.listed_landmark(index, at);
            }
            if is(token, self.groups.near)
                || is(token, self.groups.inside)
                || matches!(self.word(before), "районе" | "с")
            {
                let near = is(token, self.groups.near);
                let first = if near { before } else { before + 1 };
                let weight = LANDMARK + if near { 0.5 } else { 0.0 };
                let away = matches!(self.word(before), "до" | "к" | "по" | "через" | "под" | "от");
                let weight = if away { weight - 1.5 } else { weight };
                let last = self.with_genitive(index);
                return Some(Candidate { first, last, weight, rule: "place.landmark" });
            }
            let adjective =
                token.is_number() || ends_like_adjective(self.word(before)) || token.gap == Gap::Joined;
            if !adjective {
                return None;
            }
            at = before;
        }
        None
    }

    /// `проходной шинного`, `остановке троллейбуса`: what the landmark belongs to.
    fn with_genitive(&self, index: usize) -> usize {
        let next = index + 1;
        let close = self.token(next).is_some_and(|token| token.gap <= Gap::Space && token.is_word());
        let genitive = ["ого", "его"].iter().any(|ending| self.word(next).ends_with(ending));
        if close && genitive && self.same_sentence(index, next) { next } else { index }
    }

    /// `Энгельс, набережная, вчера …`: a landmark in a list after a town.
    fn listed_landmark(&self, index: usize, first: usize) -> Option<Candidate> {
        let before = self.before(first)?;
        let closed = self.token(index + 1).is_none_or(|next| next.gap >= Gap::Comma);
        let town = self.is_city(before) && self.reading.tokens[first].gap == Gap::Comma;
        (town && closed).then_some(Candidate {
            first,
            last: index,
            weight: LANDMARK + 1.0,
            rule: "place.listed",
        })
    }

    /// `на Рахова`, `в Плеханово`, `из Лесной Поляны`.
    fn after_preposition(&self, index: usize) -> Option<Candidate> {
        let at = index + 1;
        let token =
            self.token(at).filter(|token| token.gap <= Gap::Quote && self.same_sentence(index, at))?;
        let word = self.word(index);
        let with = word == "рядом" && self.word(at) == "с";
        if with {
            return None;
        }
        if !self.proper(at)
            || self.shouts(index)
            || self.is_city(at)
            || token.letters == Letters::Upper && !token.quoted
        {
            return None;
        }
        if self.word(at).starts_with("нов") && self.word(at + 1).starts_with("год") {
            return None;
        }
        let entry = token.entry();
        let person = entry.is_some_and(|entry| entry.person.is_some() || entry.pet.is_some());
        let more = self.proper(at + 1) && self.token(at + 1).is_some_and(|next| next.gap <= Gap::Space);
        if person && !more && !matches!(word, "в" | "во" | "на") {
            return None;
        }
        if entry
            .is_some_and(|entry| entry.species.is_some_and(|species| species.noun) || entry.month.is_some())
        {
            return None;
        }
        if self.answered(index) {
            return None;
        }
        let mut last = at;
        while self.proper(last + 1) && self.same_sentence(index, last + 1) && last < index + 3 {
            let next = &self.reading.tokens[last + 1];
            if next.gap > Gap::Quote || self.is_city(last + 1) {
                break;
            }
            last += 1;
        }
        let (end, house) = self.with_house(self.with_noun(last));
        let quoted = if token.quoted { 1.0 } else { 0.0 };
        let weight = AFTER_PREPOSITION + quoted + if house { HOUSE } else { 0.0 };
        let weight = match word {
            "до" | "к" | "ко" | "через" => weight - 3.5,
            "под" | "от" | "с" | "со" | "из" => weight - 1.0,
            _ => weight,
        };
        Some(Candidate { first: index, last: end, weight, rule: "place.after_preposition" })
    }

    /// `откликается на Лео`, `похож на Лиса`.
    fn answered(&self, index: usize) -> bool {
        let mut at = index;
        for _ in 0..6 {
            let Some(before) = self.before(at) else { return false };
            let like = at == index && self.word(before).starts_with("похож");
            if like || is(&self.reading.tokens[before], self.groups.answers) {
                return true;
            }
            at = before;
        }
        false
    }

    /// `Весенняя 14`, `Соколовая, 18/40`.
    fn bare_address(&self, index: usize) -> Option<Candidate> {
        let token = &self.reading.tokens[index];
        if !self.proper(index) || self.shouts(index) || self.is_city(index) {
            return None;
        }
        let known = token.entry().is_some_and(|entry| {
            entry.person.is_some()
                || entry.pet.is_some()
                || entry.species.is_some()
                || !entry.groups().is_empty()
                || entry.month.is_some()
        });
        // Tatar puts the marker behind: `Мәләкәс янында`, `Тукай урамында`.
        let behind = matches!(
            self.word(index + 1),
            "янында" | "урамында" | "урамы" | "авылында" | "авылы" | "районында" | "районы"
        );
        if behind && self.same_sentence(index, index + 1) {
            return Some(Candidate {
                first: index,
                last: index + 1,
                weight: SETTLEMENT,
                rule: "place.postposition",
            });
        }
        // `Пушкина 30`: a name in another case with a house behind it is a street.
        let named = token.entry().is_some_and(|entry| entry.person.is_some() || entry.pet.is_some());
        let oblique =
            ["а", "я", "ой", "ы", "и", "ого"].iter().any(|ending| self.word(index).ends_with(ending));
        let known = known && !(named && oblique && self.plain_name(index));
        let genitive_street =
            token.entry().is_some_and(|entry| entry.person.is_some()) && self.proper(index + 1);
        let (end, house) = self.with_house(index);
        if house && !known && self.word(index).chars().count() >= 4 {
            let first = self.adjectives_before(index).unwrap_or(index);
            return Some(Candidate { first, last: end, weight: BARE_ADDRESS, rule: "place.address" });
        }
        if genitive_street {
            let (end, house) = self.with_house(index + 1);
            if house {
                return Some(Candidate {
                    first: index,
                    last: end,
                    weight: BARE_ADDRESS,
                    rule: "place.address",
                });
            }
        }
        let inside = token.gap <= Gap::Space && token.letters == Letters::Title && !token.quoted;
        let unknown = token.entry().is_none() && self.word(index).chars().count() >= 5;
        let follows_name = self.before(index).is_some_and(|before| {
            let before = &self.reading.tokens[before];
            before.capital() || before.entry().is_some_and(|entry| entry.species.is_some())
        });
        let gone = (1..=3).any(|step| self.word(index + step) == "нет");
        (inside && unknown && !follows_name && !gone).then_some(Candidate {
            first: index,
            last: index,
            weight: LONE_CAPITAL,
            rule: "place.capital",
        })
    }
}
