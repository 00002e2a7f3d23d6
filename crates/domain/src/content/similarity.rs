//! How alike two texts are: stems without the words that every announcement uses, and a MinHash of their pairs.
//!
//! A text becomes a `TextSketch` of fixed size. Its bands are integers that both databases can index: texts with
//! much in common share one. Linear in the text; must not know what a post is about.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Deserialize, Serialize};

use super::lexicon::WordHasher;

/// Words of a text that are looked at; a longer one is known by its beginning.
pub const WORDS_MAX: usize = 400;
/// Telling stems kept of a text.
pub const TELLING_MAX: usize = 160;
/// Rows of the MinHash signature: the estimate of resemblance is good to about ± 0.2.
pub const SIGNATURE_ROWS: usize = 24;
/// Rows that must agree for two texts to meet in one band.
pub const BAND_ROWS: usize = 2;
/// Lookup keys of one text: resemblance 0.5 meets with probability 0.97, 0.7 with 0.9997, 0.1 with 0.11.
pub const TEXT_BANDS: usize = SIGNATURE_ROWS / BAND_ROWS;
/// With fewer telling stems than this a text is a phrase that anyone may write.
pub const TELLING_MIN: usize = 6;

/// What is kept of a text for comparing it with others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextSketch {
    /// Hashes of the stems that say something, sorted, unique.
    pub telling: Vec<u32>,
    /// MinHash of the pairs of neighbouring stems; empty when there is no pair.
    pub signature: Vec<u32>,
}

impl TextSketch {
    pub fn new<'a>(stems: impl IntoIterator<Item = &'a str>) -> TextSketch {
        let kept: Vec<&str> = stems.into_iter().take(WORDS_MAX).filter(|stem| !is_stop(stem)).collect();
        let tells: Vec<bool> = kept.iter().map(|stem| is_telling(stem)).collect();
        let hashes: Vec<u64> = kept.iter().map(|stem| stable_hash(stem.as_bytes())).collect();
        let told = hashes.iter().zip(&tells).filter(|(_, tells)| **tells).take(TELLING_MAX);
        let mut telling: Vec<u32> = told.map(|(hash, _)| (hash >> 32) as u32).collect();
        telling.sort_unstable();
        telling.dedup();
        TextSketch { telling, signature: signature(&hashes, &tells) }
    }

    /// A text that anyone may write about any animal.
    pub fn is_generic(&self) -> bool {
        self.telling.len() < TELLING_MIN
    }

    pub fn tells(&self, stem_hash: u32) -> bool {
        self.telling.binary_search(&stem_hash).is_ok()
    }

    pub fn overlap(&self, other: &TextSketch) -> Overlap {
        let common = self.telling.iter().filter(|stem| other.tells(**stem)).count();
        let shorter = self.telling.len().min(other.telling.len());
        Overlap { common, share: ratio(common, shorter), resemblance: self.resemblance(other) }
    }

    /// Estimated Jaccard resemblance of the pairs of neighbouring words.
    pub fn resemblance(&self, other: &TextSketch) -> f32 {
        let equal = self.signature.iter().zip(&other.signature).filter(|(one, other)| one == other).count();
        ratio(equal, SIGNATURE_ROWS)
    }

    /// Lookup keys: the number of the band and what the rows in it say.
    pub fn bands(&self) -> impl Iterator<Item = (u8, u64)> {
        self.signature.chunks_exact(BAND_ROWS).enumerate().map(|(band, rows)| {
            let value = rows.iter().fold(0u64, |value, row| (value << 32) ^ u64::from(*row));
            (band as u8, value)
        })
    }
}

/// What two texts have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Overlap {
    /// Telling stems found in both.
    pub common: usize,
    /// … as a share of the shorter text's.
    pub share: f32,
    pub resemblance: f32,
}

/// Stems of lower-case words, in the order of the text.
pub fn stems<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().take(WORDS_MAX).map(stem).collect()
}

/// A set of words that the program itself brings.
pub type WordSet = HashSet<String, BuildHasherDefault<WordHasher>>;

/// Stems kept per thread; when they are more, all are forgotten.
const KEPT_MAX: usize = 1 << 14;

thread_local! {
    static KEPT: RefCell<HashMap<Box<str>, Box<str>, BuildHasherDefault<WordHasher>>> = RefCell::default();
}

/// The stem of one lower-case word; words of other alphabets and numbers stay as they are.
/// Posts say the same words over and over, so what was asked once is remembered.
pub fn stem(word: &str) -> String {
    KEPT.with_borrow_mut(|kept| {
        if let Some(stem) = kept.get(word) {
            return stem.to_string();
        }
        let stem = cut_stem(word);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        if word.len() <= WORD_BYTES_MAX {
            kept.insert(word.into(), stem.as_str().into());
        }
        stem
    })
}

fn cut_stem(word: &str) -> String {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::Russian));
    // The stemmer's time grows faster than the word; nothing real is this long.
    if word.len() > WORD_BYTES_MAX {
        return word.to_owned();
    }
    let mut stem = STEMMER.stem(word).into_owned();
    // "галерея" and "галереи" keep a different last letter.
    if stem.chars().count() >= SOFT_STEM_LETTERS && stem.ends_with(['е', 'и', 'й', 'ь', 'ю']) {
        stem.pop();
    }
    stem
}

/// Shorter stems may be names that differ in just that letter.
const SOFT_STEM_LETTERS: usize = 6;

const WORD_BYTES_MAX: usize = 80;

/// Stable across versions, machines and processes.
pub fn stable_hash(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    mix(hash)
}

pub fn word_hash(word: &str) -> u32 {
    (stable_hash(word.as_bytes()) >> 32) as u32
}

/// Function words: they carry grammar, not meaning.
pub fn is_stop(stem: &str) -> bool {
    static STOP: LazyLock<WordSet> = LazyLock::new(|| stemmed(STOP_WORDS));
    STOP.contains(stem)
}

/// False for words that every second announcement uses, for single letters and for group tags such as `лапа59`.
pub fn is_telling(stem: &str) -> bool {
    static COMMON: LazyLock<WordSet> = LazyLock::new(|| stemmed(COMMON_WORDS));
    let digits = stem.bytes().filter(u8::is_ascii_digit).count();
    let tag = digits > 0 && digits < stem.len();
    let letters = stem.chars().take(TAG_LETTERS + 1).count();
    letters > 1 && letters <= TAG_LETTERS && !tag && !COMMON.contains(stem)
}

/// Longer "words" are hashtags glued together.
const TAG_LETTERS: usize = 15;

/// MinHash of the pairs of which at least one word tells something: the phrases of every announcement would only
/// crowd the index.
fn signature(hashes: &[u64], telling: &[bool]) -> Vec<u32> {
    let mut rows = vec![u32::MAX; SIGNATURE_ROWS];
    let mut pairs = 0;
    for index in 1..hashes.len() {
        if !telling[index - 1] && !telling[index] {
            continue;
        }
        pairs += 1;
        let hash = mix(hashes[index - 1].rotate_left(17) ^ hashes[index]);
        for (row, least) in rows.iter_mut().enumerate() {
            *least = (*least).min((mix(hash ^ ROW_SEEDS[row]) >> 32) as u32);
        }
    }
    if pairs == 0 { Vec::new() } else { rows }
}

const ROW_SEEDS: [u64; SIGNATURE_ROWS] = {
    let mut seeds = [0; SIGNATURE_ROWS];
    let mut row = 0;
    while row < SIGNATURE_ROWS {
        seeds[row] = mix(row as u64 + 1);
        row += 1;
    }
    seeds
};

/// Spreads the bits (the finaliser of SplitMix64).
pub const fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn ratio(part: usize, whole: usize) -> f32 {
    if whole == 0 { 0.0 } else { part as f32 / whole as f32 }
}

/// The stems of a list of words.
pub fn stemmed(words: &str) -> WordSet {
    words.split_whitespace().map(stem).collect()
}

const STOP_WORDS: &str = "
а без бы был была были было быть в вам вас весь во вот все всего всех всем всю вы где да даже для до его ее ей ему если
есть еще ж же за здесь и из или им их к как какой какая ко когда кто ли либо мне меня мог может можно мой моя мы на над
надо нам нас наш наша наше наши не него нее нет ни ним них но ну о об он она они оно от очень по под после потом почти
при про с сам сама сами себе себя со так также такой такая там те тем теперь то тоже только том тот ту тут ты у уже
чего чем что чтобы чтоб эта эти это этого этой этом этот эту я свой своя свое своих сюда туда либо пока просто совсем
";

/// The vocabulary of announcements: what is left of a post without it is what tells one animal from another.
const COMMON_WORDS: &str = "
пропал пропала пропали пропажа потерял потеряла потеряли потерялся потерялась потерялись потеряшка убежал убежала
убежали сбежал сбежала ушел ушла ушли исчез исчезла найден найдена найдено найдены нашел нашла нашли нашелся нашлась
нашлись находка найти найдите ищем ищу ищет ищут искать ищется поиск поиски хозяин хозяева хозяйка хозяину хозяев
владелец владельцы помогите помощь помочь поможем просим прошу просьба пожалуйста внимание срочно репост репосты
максимальный распространите распространение поделитесь делитесь звонить звоните позвоните звонок писать пишите
напишите сообщите сообщить телефон тел номер контакт контакты связь связи связаться вк лс личку личные сообщения
вознаграждение вознаграждаем гарантируем гарантировано отблагодарим благодарность любая любой информация видел видела
видели увидите увидели увидел увидела знаете знает знаем подскажите откликнитесь отзовитесь объявление группа группе
пост автор источник ссылка анонимно админ
собака собаки собаку собачка пес песик псина кот кошка кошки кошку котик котейка киска кошечка котенок котята щенок
щенки животное животные питомец питомцы хвост хвостик лапа лапка мальчик девочка кобель сука самец самка мордочка морда
порода породы метис помесь беспородный беспородная дворняга дворняжка окрас цвет шерсть возраст рост вес кличка
кличке зовут имя откликается отзывается год года лет месяц месяца месяцев мес неделя недели день дня дней
город район районе улица ул улице дом дома доме домой двор дворе подъезд подъезде микрорайон мкр проспект пр остановка
возле около рядом недалеко сторона сторону сегодня вчера позавчера утро утром день днем вечер вечером ночь ночью
число январь февраль март апрель май июнь июль август сентябрь октябрь ноябрь декабрь понедельник вторник среда
четверг пятница суббота воскресенье
домашний домашняя ручной ручная ласковый ласковая добрый добрая спокойный спокойная умный умная красивый красивая
дружелюбный контактный контактная пугливый пугливая молодой молодая взрослый взрослая маленький маленькая большой
большая крупный крупная средний средняя очень боится испугался испугалась ошейник ошейника ошейнике
отдам отдаем отдается отдаю пристроить пристрой пристраивается хороший хорошие добрые заботливые ответственные руки
семья семью дар даром бесплатно кастрирован кастрирована кастрат стерилизован стерилизована стерильна привит привита
прививка прививки обработан обработана здоров здорова лоток лотку приучен приучена ест кушает корм характер
собираем сбор собрано нужно нужна нужны руб рублей карта сбербанк сбер перевод реквизиты
спасибо большое всем неравнодушным благодарим ура закрыт закрыто закрываем отбой жив жива живой счастье рады ждем ждет
здравствуйте здравствуй добрый друзья девочки люди повтор поднимаем актуально неактуально
";

#[cfg(test)]
#[path = "similarity_tests.rs"]
mod tests;
