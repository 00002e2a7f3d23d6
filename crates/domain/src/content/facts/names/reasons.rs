//! The reasons for a name: a naming word, a noun before it, or a sentence that is about it.

use super::forms::{ends_like_adjective, is_preposition, looks_inflected};
use super::{Candidate, Finder, is};
use crate::content::Kind;
use crate::content::lexicon::morph::{Pos, bit, key};
use crate::content::tokens::{Gap, Letters, Token};

/// `Пропала собака. Боцман. …`: a sentence of one name stands among the first ones.
const ALONE_SENTENCES: u32 = 5;

/// Of the verbs that are said of a pet, those that no thing does: to get lost, to run, to leave, to come back, to move.
const DEEDS: [usize; 6] = [0, 1, 2, 3, 4, 5];

/// What is written about one animal.
const REPORTS: [&str; 12] = [
    "отчет",
    "сбор",
    "долг",
    "пост",
    "повод",
    "новость",
    "итог",
    "вопрос",
    "информация",
    "докладывать",
    "повторять",
    "писать",
];

impl Finder<'_, '_> {
    /// `кличка Рич`, `по кличке: «Рич»`, `по имени Рич`, `познакомьтесь — Рич`.
    pub(super) fn after_word(
        &self,
        index: usize,
        reach: usize,
        weight: f32,
        rule: &'static str,
        out: &mut Vec<Candidate>,
    ) {
        let sentence = self.reading.tokens[index].sentence;
        for at in index + 1..=index + reach {
            let Some(token) = self.token(at).filter(|token| token.sentence == sentence || at == index + 1)
            else {
                return;
            };
            if token.is_word() && token.capital() && self.name_or_word(at, index) {
                return self.push(at, weight, rule, out);
            }
            let lower_pet = at == index + 1 && self.is_pet(at);
            if lower_pet {
                return self.push(at, weight - 1.0, rule, out);
            }
            let skipped = matches!(
                self.reading.word(token),
                "у" | "его"
                    | "ее"
                    | "была"
                    | "на"
                    | "это"
                    | "наш"
                    | "наша"
                    | "их"
                    | "и"
                    | "мы"
                    | "все"
            ) || token.entry().is_some_and(|entry| entry.species.is_some());
            if !skipped {
                return;
            }
        }
    }

    /// After a naming word nearly every word with a capital is the name; in shouted text the next word is.
    fn name_or_word(&self, at: usize, naming: usize) -> bool {
        let token = &self.reading.tokens[at];
        let shouted =
            token.letters == Letters::Upper && self.reading.tokens[naming].letters == Letters::Upper;
        let ordinary = token
            .entry()
            .is_some_and(|entry| entry.pet.is_none() && entry.person.is_none() && !entry.groups().is_empty());
        if shouted {
            return at == naming + 1 && !self.reading.word(token).is_empty();
        }
        !ordinary || token.gap <= Gap::Quote
    }

    pub(super) fn called(&self, index: usize, out: &mut Vec<Candidate>) {
        if self.word_before_is(index, &["меня", "мене"]) {
            return;
        }
        let temporary =
            matches!(self.word(index), "назвали" | "назвала" | "зовем" | "зову" | "прозвали" | "зовет");
        if self.word(index).starts_with("звал") {
            return self.after_word(index, 2, 4.0, "names.was_called", out);
        }
        if temporary && matches!(self.kind, Kind::Found | Kind::Sighting) {
            return;
        }
        let before_name = self.after(index).is_some_and(|next| matches!(self.reading.word(next), "меня"));
        if !before_name {
            self.after_word(index, 2, 9.0, "names.called", out);
        }
    }

    /// `откликается на Чип`, `отзывается на кличку Чип`; not `на слово «сосиска»`, `на свист`.
    pub(super) fn answers(&self, index: usize, out: &mut Vec<Candidate>) {
        for at in index + 1..=index + 3 {
            match self.word(at) {
                "на" | "кличку" | "имя" | "имена" | "по" => continue,
                _ => {}
            }
            let onto = at > index && matches!(self.word(at - 1), "на" | "кличку" | "имя" | "имена");
            if onto && self.could_be_name(at) {
                // A quoted sound («Плю») is what it answers to, not always what it is called.
                let sound = self.reading.tokens[at].quoted && !self.is_pet(at);
                self.push(at, if sound { 4.0 } else { 8.0 }, "names.answers", out);
            }
            return;
        }
    }

    /// `кот Филя`, `наша Тень`, `хаски (Айка)`.
    pub(super) fn after_noun(&self, index: usize, out: &mut Vec<Candidate>) {
        let token = &self.reading.tokens[index];
        let Some(before) = self.before(index) else { return };
        let shouted = token.letters == Letters::Upper && before.letters == Letters::Upper;
        if (shouted && !self.is_pet(index)) || self.street_like(index) {
            return;
        }
        let noun = before.entry().and_then(|entry| entry.species).filter(|species| species.noun);
        if noun.is_some() && token.gap <= Gap::Dash && !before.tag {
            let adjective = ends_like_adjective(self.reading.word(token)) && !self.is_pet(index);
            let loose = token.gap >= Gap::Comma && !self.is_pet(index);
            if !adjective && !loose {
                self.push(index, 7.0, "names.after_noun", out);
            }
            return;
        }
        let being = is(before, self.groups.male)
            || is(before, self.groups.female)
            || matches!(
                self.reading.word(before),
                "малыш"
                    | "малышка"
                    | "братья"
                    | "сестры"
                    | "братик"
                    | "сестричка"
                    | "старичок"
                    | "старушка"
                    | "дружок"
                    | "питомец"
                    | "питомица"
                    | "любимец"
                    | "любимица"
                    | "хвостик"
                    | "подросток"
            );
        if being && token.gap <= Gap::Quote && (self.is_pet(index) || !self.is_person(index)) {
            return self.push(index, 6.0, "names.after_noun", out);
        }
        if is(before, self.groups.our) && token.gap <= Gap::Quote {
            self.push(index, 6.0, "names.our", out);
        } else if is(before, self.groups.agreeing) && token.gap <= Gap::Space && self.is_pet(index) {
            self.push(index, 4.0, "names.after_adjective", out);
        }
    }

    pub(super) fn street_like(&self, index: usize) -> bool {
        let number = self.after(index).filter(|next| next.is_number() && next.gap <= Gap::Comma);
        let address = number.is_some_and(|_| !self.counts_years(index + 1));
        let marked = |token: Option<&Token>| {
            token.is_some_and(|token| {
                token.gap <= Gap::Space && self.groups.streets.iter().any(|group| is(token, *group))
            })
        };
        (address && !self.is_pet(index)) || marked(self.after(index))
    }

    /// `3 года`, `8 месяцев`, `2,5 кг`: a number that is not a house.
    fn counts_years(&self, index: usize) -> bool {
        (index + 1..index + 4).any(|at| {
            let word = self.word(at);
            word.starts_with("год") || word.starts_with("лет") || word.starts_with("мес") || word == "кг"
        })
    }

    /// A sentence that opens with the name: `Рич ДОМА`, `Плюша, 8 месяцев`, `Лайма (лабрадор`.
    pub(super) fn opening(&self, index: usize, out: &mut Vec<Candidate>) {
        let token = &self.reading.tokens[index];
        let opens = token.gap >= Gap::Emoji || (token.gap == Gap::Quote && self.before(index).is_none());
        let pet = self.is_pet(index);
        let led = self.before(index).filter(|_| token.gap <= Gap::Space);
        if led.is_some_and(|before| is_preposition(self.reading.word(before))) {
            return;
        }
        let listed =
            token.gap == Gap::Colon || token.gap == Gap::Dash || pet && token.letters == Letters::Title;
        if !(opens || listed)
            || self.person_speaks(index)
            || self.is_everyday(index) && !self.tells_age(index) && !self.acts(index)
            || !pet && looks_inflected(self.reading.word(token)) && !self.tells_age(index)
        {
            return;
        }
        let last = self.last_of_name(index);
        let paired = self.word(last + 1) == "и" && self.could_be_name(last + 2);
        let last = if paired { last + 2 } else { last };
        let Some(next) = self.after(last) else {
            return self.heading(index, pet, out);
        };
        if !pet && self.acts(index) {
            return self.push(index, 5.0, "names.acts", out);
        }
        let verb = self.groups.verbs.iter().any(|group| is(next, *group))
            || matches!(
                self.reading.word(next),
                "дома"
                    | "ищет"
                    | "нужна"
                    | "нужен"
                    | "извлечен"
                    | "извлечена"
                    | "мечтает"
                    | "ждет"
                    | "все"
                    | "уже"
                    | "снова"
                    | "теперь"
                    | "осталась"
                    | "остался"
                    | "у"
            );
        let told = matches!(self.kind, Kind::Reunited | Kind::Adoption | Kind::Fundraising | Kind::Lost)
            || pet && self.kind == Kind::Sighting;
        let close = next.gap <= Gap::Space || next.gap == Gap::Dash || pet && next.gap <= Gap::Dash;
        if close && verb && told {
            return self.push(index, if pet { 7.0 } else { 5.0 }, "names.opening", out);
        }
        if next.gap >= Gap::Comma && next.gap < Gap::Stop && told && self.describes(last + 1) {
            return self.push(index, if pet { 6.0 } else { 5.0 }, "names.described", out);
        }
        if pet && told && !self.is_person(index) && opens {
            self.push(index, 4.0, "names.usual", out);
        }
    }

    /// A word of every day that has its capital from the beginning of the sentence: `Шлейка осталась`, `Ну всё`.
    pub(super) fn is_everyday(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        let names = bit::FIRST_NAME | bit::SURNAME;
        token.gap >= Gap::Colon
            && token.morph.is(bit::COMMON)
            && !token.morph.is(names)
            && !self.is_pet(index)
    }

    /// `Клюква сегодня уехала`, `Сабля вернулась`: a thing that does what only an animal does is called so.
    fn acts(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        let thing = token.morph.pos == Pos::Noun
            && token.morph.is(bit::NOM)
            && token.morph.is(bit::SING)
            && !token.morph.is(bit::ANIMATE)
            && token.entry().is_none_or(|entry| entry.groups().is_empty() && entry.species.is_none());
        let told = matches!(self.kind, Kind::Reunited | Kind::Adoption | Kind::Fundraising | Kind::Lost);
        thing && told && token.capital() && self.deed_after(index)
    }

    /// A verb of coming and going within three words, in the gender of the word before.
    fn deed_after(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        for at in index + 1..=index + 3 {
            let Some(next) = self.token(at).filter(|next| {
                next.sentence == token.sentence && (next.gap <= Gap::Space || next.gap == Gap::Dash)
            }) else {
                return false;
            };
            if self.reading.word(next) == "дома" {
                return true;
            }
            if next.morph.pos == Pos::Verb {
                let genders = bit::MASC | bit::FEM | bit::NEUT;
                let agrees = next.morph.bits & token.morph.bits & genders != 0;
                return agrees && DEEDS.iter().any(|group| is(next, self.groups.verbs[*group]));
            }
            if !matches!(next.morph.pos, Pos::Adverb | Pos::Small) && self.reading.word(next) != "сегодня"
            {
                return false;
            }
        }
        false
    }

    /// `отчёт по Графу`, `долг за Тузика`, `пост про Найду`: what is reported on has a name.
    fn reported(&self, index: usize, before: &str) -> bool {
        if !matches!(before, "по" | "за" | "про" | "о" | "об" | "для" | "на") {
            return false;
        }
        let Some(noun) = index.checked_sub(2).and_then(|at| self.token(at)) else { return false };
        noun.sentence == self.reading.tokens[index].sentence
            && REPORTS.iter().any(|lemma| noun.morph.lemma == key(lemma))
    }

    /// `увели Боцмана`, `отыскали Сардельку`, `убежала Гроза`: a word of every day that has a capital in the middle of
    /// a sentence, beside a verb that it is the object or the subject of.
    fn beside_verb(&self, index: usize) -> bool {
        let token = &self.reading.tokens[index];
        let word = token.morph.pos == Pos::Noun
            && token.morph.is(bit::COMMON)
            && token.morph.is(bit::SING)
            && token.morph.is(bit::NOM | bit::ACC)
            && !token.morph.is(bit::FIRST_NAME | bit::SURNAME | bit::PLACE_NAME);
        let inside = token.gap <= Gap::Space && token.letters == Letters::Title && !token.quoted;
        let verb = |token: &Token| token.morph.pos == Pos::Verb && token.letters == Letters::Lower;
        let before = self.before(index).is_some_and(verb);
        let after = self.after(index).is_some_and(|next| next.gap <= Gap::Space && next.capital());
        word && inside && before && !after && !self.street_like(index)
    }

    /// `Канноли, 5 месяцев`.
    fn tells_age(&self, index: usize) -> bool {
        let number = self.after(index).filter(|next| next.is_number() && next.gap == Gap::Comma);
        number.is_some() && self.counts_years(index + 1)
    }

    /// `Наталья, 8 946 …`: a person beside a telephone is no pet.
    fn person_speaks(&self, index: usize) -> bool {
        self.is_person(index) && !self.is_pet(index) && !self.described_by_species(index)
    }

    /// `Тоня, дворняга`: even a person's name, when the species follows.
    fn described_by_species(&self, index: usize) -> bool {
        let next = self.after(index).filter(|next| next.gap >= Gap::Comma && next.gap < Gap::Stop);
        next.and_then(|next| next.entry())
            .is_some_and(|entry| entry.species.is_some_and(|species| species.noun))
    }

    fn describes(&self, index: usize) -> bool {
        let Some(token) = self.token(index) else { return false };
        if token.is_number() {
            return self.counts_years(index);
        }
        is(token, self.groups.agreeing)
            || token.entry().is_some_and(|entry| entry.species.is_some() || entry.colour.is_some())
            || self.after(index).is_some_and(|next| {
                next.gap <= Gap::Space
                    && next.entry().is_some_and(|entry| entry.species.is_some_and(|species| species.noun))
            })
    }

    /// A line of its own at the top of the post.
    fn heading(&self, index: usize, pet: bool, out: &mut Vec<Candidate>) {
        let profile = matches!(self.kind, Kind::Adoption | Kind::Fundraising);
        let token = &self.reading.tokens[index];
        let top = self.reading.openings.get(usize::from(token.text)) == Some(&token.sentence)
            && token.gap >= Gap::Emoji;
        let opening = self.reading.openings.get(usize::from(token.text)).copied().unwrap_or(0);
        let early = token.sentence <= opening + ALONE_SENTENCES && self.before(index).is_none();
        let told = matches!(self.kind, Kind::Lost | Kind::Reunited | Kind::Adoption | Kind::Fundraising);
        if early && told && token.letters == Letters::Title && (pet || !token.morph.is(bit::KNOWN)) && !top {
            return self.push(index, if pet { 6.0 } else { 4.0 }, "names.alone", out);
        }
        let listed =
            profile && early && !pet && self.token(index + 1).is_some_and(|next| self.profile_line(next));
        if listed && token.letters == Letters::Upper {
            return self.push(index, 6.0, "names.heading", out);
        }
        if top && (profile || pet && self.kind == Kind::Reunited) {
            self.push(index, if pet { 7.0 } else { 6.0 }, "names.heading", out);
        }
    }

    /// `девочка`, `мальчик`: the first line of a profile below the name.
    fn profile_line(&self, token: &Token) -> bool {
        is(token, self.groups.male) || is(token, self.groups.female) || is(token, self.groups.agreeing)
    }

    /// `— это Матильда`, `Тося, это ты`, `оказался Бубликом`, `без Арчи`, and usual names inside a sentence.
    pub(super) fn said_of(&self, index: usize, out: &mut Vec<Candidate>) {
        let token = &self.reading.tokens[index];
        let before = self
            .before(index)
            .filter(|_| token.gap <= Gap::Space)
            .map_or("", |before| self.reading.word(before));
        let second = index.checked_sub(2).map_or("", |at| self.word(at));
        let told = matches!(
            self.kind,
            Kind::Reunited | Kind::Sighting | Kind::Lost | Kind::Adoption | Kind::Fundraising
        );
        let pet = self.is_pet(index);
        let this = before == "это" || before == "не" && second == "это";
        if this && (told || pet) {
            return self.push(index, if pet { 6.0 } else { 5.0 }, "names.this_is", out);
        }
        if told && matches!(before, "оказался" | "оказалась" | "оказалось") {
            return self.push(index, 5.0, "names.turned_out", out);
        }
        let home_for = before == "для"
            && matches!(second, "дом" | "семья" | "семью" | "дома" | "семьи" | "хозяев" | "вольер" | "руки");
        if told && home_for {
            return self.push(index, 5.0, "names.about", out);
        }
        if told && (self.reported(index, before) || self.beside_verb(index)) && !self.is_person(index) {
            return self.push(index, 5.0, "names.about", out);
        }
        if told && self.kind == Kind::Lost && self.is_gone(index) {
            return self.push(index, 5.0, "names.about", out);
        }
        let addressed =
            self.after(index).is_some_and(|next| next.gap == Gap::Comma && self.reading.word(next) == "это");
        if told && addressed {
            return self.push(index, 5.0, "names.addressed", out);
        }
        if told && pet && matches!(before, "без" | "вот" | "про" | "о" | "по") {
            let missed = before == "вот"
                && (1..=2)
                    .any(|step| self.word(index + step + 1) == "нет" || self.word(index + step) == "нет");
            return self.push(index, if missed { 7.0 } else { 4.0 }, "names.about", out);
        }
        let address = token.gap >= Gap::Stop && self.after(index).is_some_and(|next| next.gap == Gap::Comma);
        let inside = token.gap <= Gap::Comma && token.letters == Letters::Title && !self.is_person(index);
        if pet
            && (inside || address)
            && !self.street_like(index)
            && self.kind != Kind::Found
            && !is_preposition(before)
        {
            let weight = if matches!(self.kind, Kind::Sighting | Kind::Other) { 2.5 } else { 4.0 };
            self.push(index, weight, "names.usual", out);
        }
    }

    /// `Барта пока нет`, `Муркиса всё нет`.
    fn is_gone(&self, index: usize) -> bool {
        let soon = matches!(
            self.word(index + 1),
            "все" | "пока" | "еще" | "так" | "нет" | "до" | "по" | "по-прежнему"
        );
        let gone = (1..=3).any(|step| self.word(index + step) == "нет");
        soon && gone && self.reading.tokens[index].letters == Letters::Title
    }
}
