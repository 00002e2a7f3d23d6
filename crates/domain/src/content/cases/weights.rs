//! The numbers of the case rules, each named and with its reason. Points add up; `SAME_SCORE` decides.
//! A change here must keep the labelled case sets and the corpus floors green.

/// From here on two posts are the same animal's same story, provided something identifies it and nothing forbids it.
pub const SAME_SCORE: i32 = 44;
/// A post without words says all it can by its picture.
pub const SAME_SCORE_WORDLESS: i32 = 50;
/// From here on a lost and a found post may be about one animal: a suggestion, never a merge.
pub const RELATED_SCORE: i32 = 28;
/// From here on the other side of a story may claim a happy end that does not say whose it is.
pub const CLAIM_SCORE: i32 = 38;
/// Two cases that fit equally well, closer than this: neither is taken.
pub const AMBIGUOUS_MARGIN: i32 = 10;

/// A repost of a post that the case already holds.
pub const REPOST: i32 = 100;
/// A link to such a post: the author means it, but may mean "looks like this one".
pub const LINK: i32 = 45;
pub const PICTURE_SAME: i32 = 55;
/// Cropped or retouched.
pub const PICTURE_NEAR: i32 = 50;

/// An owner has one phone and seldom loses two animals.
pub const PHONE_OWNER: i32 = 40;
/// A finder may find again.
pub const PHONE_FINDER: i32 = 28;
/// A volunteer gives animals away every day.
pub const PHONE_SHELTER: i32 = 12;
/// A number that stands in two cases identifies less, in more than two hardly anything.
pub const PHONE_CROWD_DIVISOR: [i32; 3] = [1, 2, 4];
pub const PHONE_SECOND: i32 = 12;

pub const NAME: i32 = 38;
/// Several known animals of this name in the town.
pub const NAME_CROWD: i32 = 24;
/// The name stands in the text but was not recognised as one.
pub const NAME_MENTIONED: i32 = 16;

pub const TEXT_SAME: i32 = 45;
pub const TEXT_CLOSE: i32 = 28;
pub const TEXT_SOME: i32 = 10;
/// Shelters write every animal into one template.
pub const TEXT_SERIES_DIVISOR: i32 = 2;
pub const TEXT_SAME_SHARE: f32 = 0.75;
pub const TEXT_SAME_COMMON: usize = 10;
pub const TEXT_CLOSE_SHARE: f32 = 0.55;
pub const TEXT_CLOSE_COMMON: usize = 7;
pub const TEXT_SOME_SHARE: f32 = 0.3;
pub const TEXT_SOME_COMMON: usize = 5;

/// Street and house, or another numbered place.
pub const PLACE_EXACT: i32 = 26;
pub const PLACE_NAMED: i32 = 18;
/// One post names the place, the other mentions the word.
pub const PLACE_MENTIONED: i32 = 12;
/// The same street, another house.
pub const PLACE_STREET: i32 = 8;
/// A district that every town has.
pub const PLACE_DISTRICT: i32 = 6;
/// "Котёнок с Мельникайте": the author speaks of a known story.
pub const REFERENCE: i32 = 28;
/// "Щенок с теплотрассы": the word stands in the earlier post, though not as its place.
pub const REFERENCE_WORD: i32 = 18;

/// A fund collects for all its animals into one account.
pub const ACCOUNT: i32 = 18;
pub const PERSON: i32 = 12;
/// A person named in more cases than this is the group's editor.
pub const PERSON_CASES_MAX: usize = 2;
pub const MARK: i32 = 15;
pub const MARKS_COUNTED: usize = 3;
pub const BREED: i32 = 12;
pub const ANIMAL: i32 = 6;
/// Of ferrets, parrots and tortoises a town has few that are talked of at one time.
pub const RARE_ANIMAL: i32 = 14;
/// "Осталась одна": what is left of a litter, from the same number.
pub const LITTER_LEFT: i32 = 26;
/// A number that stands in several cases, when the words point at one of them.
pub const PHONE_REFERRED: i32 = 10;
pub const COAT: i32 = 5;
pub const SEX: i32 = 4;
pub const SAME_DAY: i32 = 10;
pub const NEXT_DAY: i32 = 5;
pub const SAME_SOURCE: i32 = 6;
pub const SAME_TOWN: i32 = 3;
/// Both posts name the same town.
pub const SAME_CITY: i32 = 3;
/// The post itself says that it continues something.
pub const FOLLOW_UP: i32 = 8;
/// A sighting that calls the animal by name knows that it is looked for.
pub const SIGHTED: i32 = 12;
/// A happy end for a case that is still open, told from its own side.
pub const CLOSES: i32 = 16;
/// … that does not say whose.
pub const CLOSES_UNSAID: i32 = 12;

/// Seconds and points: how long ago the case was last seen.
pub const FRESH_S: i64 = 3 * 86_400;
pub const FRESH: i32 = 6;
pub const RECENT_S: i64 = 14 * 86_400;
pub const RECENT: i32 = 3;
pub const OLD_S: i64 = 60 * 86_400;
pub const OLD: i32 = -10;
/// A new search or find after so long is more likely another animal of the same people.
pub const OLD_INCIDENT: i32 = -18;
pub const STALE_S: i64 = 150 * 86_400;
pub const STALE: i32 = -25;

/// Both have phones and share none.
pub const OTHER_PHONES: i32 = -6;
pub const OTHER_PICTURES: i32 = -4;
/// A finder's second post with other pictures.
pub const FINDS_AGAIN: i32 = -14;
pub const OTHER_PLACE: i32 = -6;
/// Two announcements of one kind that have no words in common.
pub const OTHER_WORDS: i32 = -6;
pub const OTHER_WORDS_SHARE: f32 = 0.15;
/// Days between the events of two posts of one kind from which they are two events.
pub const OTHER_DAY_MIN: i64 = 4;
pub const OTHER_DAY: i32 = -45;
pub const OTHER_COAT: i32 = -18;
pub const OTHER_BREED: i32 = -22;
pub const OTHER_AGE: i32 = -22;
/// Months between two ages from which they are two animals.
pub const OTHER_AGE_MONTHS: i32 = 18;
pub const OTHER_COUNT: i32 = -12;
/// Another species, of which one is only guessed from a hint.
pub const OTHER_SPECIES_GUESS: i32 = -12;
/// Another sex, of which one is read from a name or an ending.
pub const OTHER_SEX_GUESS: i32 = -25;
/// With so much else in common a name that is only guessed does not part two posts.
pub const RENAMED_SCORE: i32 = 60;
/// A finder's name gives way to the owner's.
pub const RENAMED: i32 = -14;
/// The group's home towns differ and neither post names one.
pub const OTHER_HOME: i32 = -40;
pub const OTHER_CITY: i32 = -35;
