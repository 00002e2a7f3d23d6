//! What the post is for: weighted patterns vote, then a few named decisions settle what votes cannot.
//! It must not know the animal, the place or the case.

use std::sync::LazyLock;

use super::phones::Numbers;
use crate::content::lexicon::lexicon;
use crate::content::pattern::{self, Hit, Matcher, Rule};
use crate::content::tokens::{Part, Reading, Token, TokenKind};
use crate::content::{Evidence, Fact, Kind};

/// What a pattern speaks for. Most name a kind; the rest are circumstances that decisions look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Is(Kind),
    /// Somebody has the animal.
    Held,
    /// The owner is called: found or only seen.
    OwnerCall,
    /// The owner is looked for by somebody who has the animal.
    OwnerSeek,
    /// The search goes on although something was found.
    StillMissing,
    /// Money is asked for.
    Money,
    /// Facts of a profile: health, habits, terms.
    Profile,
    /// The author knows the animal's name.
    Named,
}

use Kind::{Ad, Adoption, Found, Fundraising, Lost, News, Other, Reunited, Sighting};
use Sign::{Held, Is, Money, Named, OwnerCall, OwnerSeek, Profile, StillMissing};

impl Sign {
    fn parse(name: &str) -> Option<Sign> {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        kind.map(Is).or(match name {
            "held" => Some(Held),
            "owner_call" => Some(OwnerCall),
            "owner_seek" => Some(OwnerSeek),
            "still_missing" => Some(StillMissing),
            "money" => Some(Money),
            "profile" => Some(Profile),
            "named" => Some(Named),
            _ => None,
        })
    }
}

/// The table of the family: one line a rule.
pub(super) const TABLE: &str = include_str!("rules/kind.rules");

static RULES: LazyLock<Vec<Rule<Sign>>> = LazyLock::new(|| pattern::rules(TABLE, Sign::parse));
static MATCHER: LazyLock<Matcher> = LazyLock::new(|| Matcher::new(lexicon(), &RULES));

/// A kind needs this much to be more than a passing word.
const DECISIVE: f32 = 4.0;
/// The own text alone decides from this score on; the reposted texts are only asked below it.
const OWN_DECIDES: f32 = 5.0;
/// A hit in the first sentence: people open with what matters.
const FIRST_SENTENCE: f32 = 1.3;
/// A hit in a hashtag: tags are kept when the story has moved on.
const HASHTAG: f32 = 0.6;
/// A hit in an old post below its update: the story has moved on.
const OLD: f32 = 0.5;
/// A loss in a question is somebody else's loss.
const QUESTION: f32 = 0.35;
/// `С какой скоростью бегает такса?` is no sighting, though `Чья бегает?` may be.
const ASKED_ABOUT: f32 = 0.6;
/// Below this no rule has really spoken, and the shape of the post decides.
const UNDECIDED: f32 = 2.5;
/// Words that may stand beside a link that is the whole post.
const LINK_WORDS_MAX: usize = 3;

/// The kind and the rule hits behind it, which other families use to find the event.
#[derive(Debug)]
pub(super) struct KindReading {
    pub kind: Fact<Kind>,
    /// Sentences in which the event itself is told.
    pub event: Vec<u32>,
}

#[derive(Debug, Default, Clone)]
struct Votes {
    kinds: [f32; 11],
    held: f32,
    owner: f32,
    seek: f32,
    still: f32,
    money: f32,
    profile: f32,
    named: f32,
}

impl Votes {
    fn of(&self, kind: Kind) -> f32 {
        self.kinds[kind as usize]
    }

    fn add(&mut self, sign: Sign, weight: f32) {
        match sign {
            Is(kind) => self.kinds[kind as usize] += weight,
            Held => self.held += weight,
            OwnerCall => self.owner += weight,
            OwnerSeek => self.seek += weight,
            StillMissing => self.still += weight,
            Money => self.money += weight,
            Profile => self.profile += weight,
            Named => self.named += weight,
        }
    }
}

/// The sums of the rules over the own text or over all texts, and the kind that they alone would make.
#[derive(Debug, Default)]
pub struct Sums {
    votes: Votes,
    words: usize,
    pub kind: Kind,
}

impl Sums {
    fn new(votes: Votes, words: usize, shape: &Shape) -> Sums {
        let kind = settle(&votes, words, false, shape).0;
        Sums { votes, words, kind }
    }

    pub fn of(&self, kind: Kind) -> f32 {
        self.votes.of(kind)
    }

    /// The kinds as the named decisions see them, and the circumstances.
    pub fn settled(&self) -> [(&'static str, f32); 14] {
        let votes = &self.votes;
        let held = votes.held >= 3.0;
        [
            ("reunited", reunited(votes)),
            ("adoption", adoption(votes, self.words)),
            ("fundraising", fundraising(votes)),
            ("found", found(votes, held)),
            ("sighting", sighting(votes, held)),
            ("lost", lost(votes)),
            ("news", news(votes, self.words)),
            ("held", votes.held),
            ("owner-called", votes.owner),
            ("owner-sought", votes.seek),
            ("still-missing", votes.still),
            ("money", votes.money),
            ("profile", votes.profile),
            ("named", votes.named),
        ]
    }
}

/// What the rules alone make of a post.
#[derive(Debug)]
pub struct ByRules {
    hits: Vec<Hit>,
    pub own: Sums,
    pub all: Sums,
    pub own_words: usize,
    pub all_words: usize,
    pub kind: Kind,
    /// The own text said little, so the reposted ones were asked.
    asked_all: bool,
    /// Nothing to read, or only a link: no weighing changes that.
    pub plain: Option<Kind>,
}

impl ByRules {
    /// Name, first and last token of every rule that fired.
    pub fn hits(&self) -> impl Iterator<Item = (&'static str, usize, usize)> {
        self.hits.iter().map(|hit| (RULES[hit.rule].name, hit.first, hit.last))
    }
}

pub(super) fn by_rules(reading: &Reading<'_>, numbers: &Numbers) -> ByRules {
    let own_words = words(reading, |text| text == 0);
    let all_words = words(reading, |_| true);
    let linked = reading.tokens.iter().any(|token| token.kind == TokenKind::Link || token.mention);
    let mut hits = MATCHER.hits(reading);
    hits.retain(|hit| !reading.in_footer(&reading.tokens[hit.first]));
    let shape = Shape::of(reading, numbers);
    let own = Sums::new(votes(reading, numbers, &hits, |text| text == 0), own_words, &shape);
    let all =
        if all_words > own_words { votes(reading, numbers, &hits, |_| true) } else { own.votes.clone() };
    let all = Sums::new(all, all_words, &shape);
    let mut decided = settle(&own.votes, own_words, false, &shape);
    let asked_all = (decided.1 < OWN_DECIDES || decided.0 == Kind::Other) && all_words > own_words;
    if asked_all {
        decided = settle(&all.votes, all_words, linked, &shape);
    } else if decided.1 < DECISIVE {
        decided = settle(&own.votes, own_words, linked, &shape);
    }
    let plain = match (all_words, linked) {
        (0, true) => Some(Kind::Link),
        (0, false) => Some(Kind::Empty),
        _ => (decided.0 == Kind::Link).then_some(Kind::Link),
    };
    let kind = plain.unwrap_or(decided.0);
    ByRules { hits, own, all, own_words, all_words, kind, asked_all, plain }
}

/// The kind with the words behind it.
pub(super) fn with_evidence(reading: &Reading<'_>, rules: &ByRules, kind: Kind) -> KindReading {
    let evidence = evidence(reading, &rules.hits, kind, !rules.asked_all);
    KindReading { kind: Fact { value: kind, evidence }, event: events(reading, &rules.hits, kind) }
}

fn words(reading: &Reading<'_>, of: impl Fn(u8) -> bool) -> usize {
    let tokens = reading.tokens.iter().filter(|token| of(token.text));
    let said = |token: &&Token| token.kind != TokenKind::Link && !token.mention && !reading.in_footer(token);
    tokens.filter(said).count()
}

/// The best hit of every rule counts once.
fn votes(reading: &Reading<'_>, numbers: &Numbers, hits: &[Hit], of: impl Fn(u8) -> bool) -> Votes {
    let mut best = vec![0.0_f32; RULES.len()];
    for hit in hits.iter().filter(|hit| of(reading.tokens[hit.first].text)) {
        let weight = weigh(reading, hit);
        best[hit.rule] = best[hit.rule].max(weight);
    }
    let mut votes = Votes::default();
    for (rule, weight) in RULES.iter().zip(best).filter(|(_, weight)| *weight > 0.0) {
        votes.add(rule.value, weight);
    }
    news_words(reading, hits, &of, &mut votes);
    if numbers.cards.iter().any(|token| of(reading.tokens[*token].text)) {
        votes.money += 6.0;
    }
    if numbers.money.iter().any(|span| of(reading.tokens[span.0].text)) {
        votes.money += 4.0;
    }
    votes
}

/// News and advertising are told by how many of their words there are, not by one.
fn news_words(reading: &Reading<'_>, hits: &[Hit], of: &impl Fn(u8) -> bool, votes: &mut Votes) {
    let count = |name: &str| {
        let hits =
            hits.iter().filter(|hit| RULES[hit.rule].name == name && of(reading.tokens[hit.first].text));
        (hits.count().saturating_sub(1)).min(5) as f32
    };
    votes.kinds[News as usize] += count("kind.news.word") * 1.5;
    votes.kinds[Ad as usize] += count("kind.ad.weak") * 1.5;
    votes.profile += count("kind.adoption.profile_habits");
}

fn weigh(reading: &Reading<'_>, hit: &Hit) -> f32 {
    let token = &reading.tokens[hit.first];
    let rule = &RULES[hit.rule];
    let mut weight = rule.weight as f32;
    if token.tag {
        weight *= HASHTAG;
    } else if reading.opens(hit.first) {
        weight *= FIRST_SENTENCE;
    }
    if reading.part(token) == Part::Old {
        weight *= OLD;
    }
    let spared = matches!(rule.name, "kind.lost.help_find" | "kind.lost.noun");
    if matches!(rule.value, Is(Lost | Reunited)) && reading.asks(hit.first) && !spared {
        weight *= QUESTION;
    }
    if rule.value == Is(Sighting) && reading.asks(hit.first) && rule.name.contains("roam") {
        weight *= ASKED_ABOUT;
    }
    weight
}

/// Turns votes into a kind and how sure it is.
fn settle(votes: &Votes, words: usize, linked: bool, shape: &Shape) -> (Kind, f32) {
    let mut scores = votes.clone();
    let held = votes.held >= 3.0;
    let reunited = reunited(votes);
    let adoption = adoption(votes, words);
    scores.kinds[Reunited as usize] = reunited;
    scores.kinds[Adoption as usize] = adoption;
    scores.kinds[Fundraising as usize] = fundraising(votes);
    scores.kinds[Found as usize] = found(votes, held);
    scores.kinds[Sighting as usize] = sighting(votes, held);
    scores.kinds[Lost as usize] = lost(votes);
    scores.kinds[News as usize] = news(votes, words);
    let order = [Reunited, Fundraising, Lost, Found, Sighting, Adoption, Ad, Other, News];
    let mut best = (Other, 0.0_f32);
    for kind in order {
        if scores.of(kind) > best.1 {
            best = (kind, scores.of(kind));
        }
    }
    if linked && words <= LINK_WORDS_MAX && best.1 < DECISIVE {
        return (Kind::Link, DECISIVE);
    }
    if best.1 < UNDECIDED {
        return (shape.guess(words), best.1.max(0.0));
    }
    best
}

/// What the post looks like when no rule speaks: who is meant, how to answer, who is talking.
#[derive(Debug, Default)]
struct Shape {
    animal: bool,
    /// Kittens, puppies.
    young: bool,
    /// A usual name of a pet with a capital.
    name: bool,
    phone: bool,
    place: bool,
    asks: bool,
    /// First or second person, or an imperative.
    personal: bool,
}

impl Shape {
    fn of(reading: &Reading<'_>, numbers: &Numbers) -> Shape {
        let group = |name: &str| lexicon().group(name);
        let (places, persons) = (["street", "avenue", "landmark", "district"].map(group), group("personal"));
        let mut shape = Shape { phone: !numbers.phones.is_empty(), ..Shape::default() };
        let said = |token: &&Token| !token.tag && !token.mention && !reading.in_footer(token);
        for token in reading.tokens.iter().filter(said) {
            let Some(entry) = token.entry() else {
                let word = reading.word(token);
                shape.personal |= word.ends_with("йте") || word.ends_with("ите");
                continue;
            };
            shape.animal |= entry.species.is_some_and(|species| species.noun);
            shape.young |= entry.species.is_some_and(|species| species.noun && species.young);
            shape.name |= entry.pet.is_some() && token.capital();
            shape.place |= places.iter().flatten().any(|group| entry.has(*group));
            shape.personal |= persons.is_some_and(|group| entry.has(group));
        }
        shape.asks = reading.asks_at_all();
        shape
    }

    fn guess(&self, words: usize) -> Kind {
        match self {
            Shape { asks: true, name: false, .. } | Shape { asks: true, animal: false, .. } => Other,
            Shape { young: true, name: false, place: false, .. } => Adoption,
            Shape { animal: true, name: true, phone: true, .. } => Lost,
            Shape { animal: true, name: false, place: true, phone: false, .. } if words <= 30 => Sighting,
            Shape { animal: true, name: false, phone: true, .. } => Found,
            Shape { name: true, personal: false, phone: false, .. } if words <= 20 => Reunited,
            Shape { personal: false, phone: false, .. } if words >= 8 => News,
            _ => Other,
        }
    }
}

/// A happy end outweighs the story that it ends, unless the search goes on or somebody still asks for the owner.
fn reunited(votes: &Votes) -> f32 {
    let own = votes.of(Reunited);
    if votes.still >= 6.0 || own < DECISIVE {
        return own * 0.5 - votes.still;
    }
    let open = votes.owner + votes.seek + votes.held * 0.4;
    // A word of joy alone does not turn the story it stands in.
    let story = votes.of(Lost).max(votes.of(Found)) * if own >= 6.0 { 0.6 } else { -0.4 };
    let adoption = if votes.of(Adoption) > own { votes.of(Adoption) } else { 0.0 };
    own + story - open * if own < 9.0 { 1.2 } else { 0.6 } - adoption - votes.of(Other) * 0.5
}

/// Stories of adoption begin with a find; a plain call for the owner makes them a find again.
fn adoption(votes: &Votes, words: usize) -> f32 {
    let own = votes.of(Adoption);
    let profile = votes.profile.min(8.0);
    let incident = votes.of(Lost).max(votes.of(Sighting));
    let owner = votes.owner + votes.seek;
    if own < DECISIVE {
        // A profile without a word of what it wants: an animal, its health, its habits, a telephone.
        let bare = own + profile - incident - owner * 1.5 - votes.of(Reunited) - votes.money * 0.5;
        let enough = if incident + votes.of(Found) < 2.0 { 3.0 } else { 4.0 };
        return if profile >= enough && words >= 8 { bare } else { own };
    }
    own + profile * 0.6 + votes.of(Found) * 0.3 - owner * 1.4
}

fn fundraising(votes: &Votes) -> f32 {
    if votes.money < 7.0 {
        return votes.money * 0.5;
    }
    votes.money * 1.2 + votes.of(Adoption).min(4.0) * 0.3
}

fn found(votes: &Votes, held: bool) -> f32 {
    let own = votes.of(Found) + votes.seek;
    let signal = own + votes.owner;
    if signal < 2.0 && !(held && votes.of(Sighting) > 0.0) {
        return own;
    }
    let hold = if held { votes.held.min(6.0) } else { 0.0 };
    own + votes.owner * 0.9 + hold + if held { votes.of(Sighting) * 0.5 } else { 0.0 }
}

fn sighting(votes: &Votes, held: bool) -> f32 {
    let own = votes.of(Sighting) - votes.named;
    let found = votes.of(Found) + votes.seek;
    if held {
        return own * 0.6;
    }
    if own >= 3.0 || found < 3.0 {
        return own + votes.owner * 0.95 + found * if own >= 4.0 { 0.4 } else { 0.1 };
    }
    own
}

fn lost(votes: &Votes) -> f32 {
    let still = if votes.of(Lost) > 0.0 || votes.still >= 6.0 { votes.still } else { 0.0 };
    let named = if votes.of(Lost) >= 3.0 { votes.named } else { 0.0 };
    votes.of(Lost) + still + named - (votes.owner + votes.seek) * 0.8
}

fn news(votes: &Votes, words: usize) -> f32 {
    let own = votes.of(News);
    if words < 12 { own * 0.4 } else { own - votes.owner - votes.seek - votes.held * 0.5 }
}

/// The hits that speak for the decided kind, strongest first.
fn evidence(reading: &Reading<'_>, hits: &[Hit], kind: Kind, own: bool) -> Vec<Evidence> {
    const SHOWN: usize = 3;
    let supports = |sign: Sign| match sign {
        Is(other) => other == kind,
        Held => kind == Found,
        OwnerCall | OwnerSeek => matches!(kind, Found | Sighting),
        StillMissing => kind == Lost,
        Money => kind == Fundraising,
        Profile => kind == Adoption,
        Named => kind == Lost,
    };
    let mut best: Vec<(f32, &Hit)> = hits
        .iter()
        .filter(|hit| supports(RULES[hit.rule].value) && (!own || reading.tokens[hit.first].text == 0))
        .map(|hit| (weigh(reading, hit), hit))
        .collect();
    best.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.first.cmp(&right.1.first)));
    best.dedup_by_key(|hit| hit.1.rule);
    best.iter()
        .take(SHOWN)
        .map(|(_, hit)| reading.evidence(RULES[hit.rule].name, hit.first, hit.last))
        .collect()
}

/// The sentences whose words made the kind: the event is told there.
fn events(reading: &Reading<'_>, hits: &[Hit], kind: Kind) -> Vec<u32> {
    let tells = |sign: Sign| {
        matches!(
            (sign, kind),
            (Is(Lost | Found | Reunited), Reunited)
                | (Is(Lost), Lost)
                | (Is(Found | Sighting), Found)
                | (Is(Sighting), Sighting)
        )
    };
    let mut sentences: Vec<u32> = hits
        .iter()
        .filter(|hit| RULES[hit.rule].weight >= 3 && tells(RULES[hit.rule].value))
        .map(|hit| reading.tokens[hit.first].sentence)
        .collect();
    sentences.dedup();
    sentences
}
