//! A reference model of the mailbox, and random sequences that both databases must agree with: updates that come again,
//! claims, commits in time and too late, calls, forgetting, in any order.
//!
//! `RUPOR_BOT_SEQUENCES` asks for more of them, `RUPOR_SEED` for others.

use std::collections::{BTreeMap, BTreeSet};

use domain::ids::{AccountId, RecipientId};
use domain::time::{Span, Timestamp};
use store::*;

use crate::bot::{bot, echo, said};
use crate::world::*;

/// What is wrong, if anything is.
type Checked = std::result::Result<(), String>;

const LEASE: Span = Span::from_secs(10);
const PEOPLE: usize = 4;
const OPERATIONS: usize = 60;

contract! { random_sequences_agree_with_the_model }

async fn random_sequences_agree_with_the_model(w: &World) {
    for seed in 0..number("RUPOR_BOT_SEQUENCES", 12) {
        let seed = number("RUPOR_SEED", 17) * 1_000 + seed;
        if let Err(wrong) = Model::play(w, seed).await {
            panic!("seed {seed}: {wrong}");
        }
    }
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

/// Four bugs that were planted into the functions, one at a time: the model, or two who work at the same time, find each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planted_bugs_are_caught() {
    let planted = [
        ("due_at lowered while claimed", "bot_receive", " AND s.token IS NULL", ""),
        ("version unchecked", "bot_commit_turns", " AND s.version = (t.value ->> 'version')::integer", ""),
        // Whoever says it after the commit may die in between, here with every fourth turn.
        (
            "reply outside the transaction",
            "bot_commit_turns",
            "PERFORM rupor_bot_say(ws, at, accounts, taken, timers);",
            "IF (taken[1] ->> 'version')::integer % 4 <> 3 THEN PERFORM rupor_bot_say(ws, at, accounts, taken, timers); END IF;",
        ),
    ];
    for (name, function, right, wrong) in planted {
        let w = World::postgres().await;
        plant(&w, function, right, wrong).await;
        let mut found = None;
        for seed in 0..40 {
            found = found.or(Model::play(&w, seed).await.err());
        }
        assert!(found.is_some(), "not found: {name}");
        w.drop_database().await;
    }
    // Claim and events in one statement, which only shows where somebody finishes while another waits for the lock: so
    // every claim here dawdles between its snapshot and its locks, the right one too.
    for is_planted in [false, true] {
        let w = World::postgres().await;
        plant(
            &w,
            "bot_claim_turns",
            "WITH due AS",
            "WITH slept AS MATERIALIZED (SELECT pg_sleep(0.02)), due AS",
        )
        .await;
        let from = "FROM bot_state AS s\n         WHERE s.due_at <= at";
        plant(&w, "bot_claim_turns", from, &from.replace("bot_state", "slept CROSS JOIN bot_state")).await;
        plant(&w, "bot_claim_turns", "FOR NO KEY UPDATE SKIP", "FOR NO KEY UPDATE OF s SKIP").await;
        if is_planted {
            plant(&w, "bot_claim_turns", "claimed bigint[];", "claimed bigint[]; early bigint[];").await;
            let (gather, together) = (
                "SELECT array_agg(m.recipient_id) INTO claimed",
                "SELECT array_agg(m.recipient_id), \
                (SELECT array_agg(i.inbox_id) FROM bot_inbox AS i WHERE i.done_at IS NULL) INTO claimed, early",
            );
            plant(&w, "bot_claim_turns", gather, together).await;
            plant(&w, "bot_claim_turns", "AND i.done_at IS NULL\n", "AND i.inbox_id = ANY (early)\n").await;
        }
        let told = side_by_side(&w).await;
        assert_eq!(told.is_err(), is_planted, "{told:?}");
        w.drop_database().await;
    }
}

/// Three who take turns at the same time: nobody's lease ends, so every turn that is taken must be kept.
async fn side_by_side(w: &World) -> Checked {
    let (account, _) = bot(w).await;
    let events = 120;
    let feeding = async {
        for n in 0..events {
            let update = said(&format!("{n}"), &format!("{}", n % 3), &format!("слово {n}"));
            w.store.bot_receive(w.ws, account, vec![update], None).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    let ((), a, b, c) = tokio::join!(feeding, take_turns(w, 0), take_turns(w, 7), take_turns(w, 13));
    a.and(b).and(c)
}

async fn take_turns(w: &World, late_ms: u64) -> Checked {
    tokio::time::sleep(std::time::Duration::from_millis(late_ms)).await;
    let mut idle = 0;
    while idle < 20 {
        let turns = w.store.bot_claim_turns(2, LEASE).await.unwrap();
        idle = if turns.is_empty() { idle + 1 } else { 0 };
        for turn in &turns {
            if !w.store.bot_commit_turns(w.ws, vec![echo(turn)]).await.unwrap()[0] {
                return Err(format!("a turn over events that were done: {turn:?}"));
            }
        }
    }
    Ok(())
}

/// Replaces a piece of a function in this database.
async fn plant(w: &World, function: &str, right: &str, wrong: &str) {
    let (client, connection) = tokio_postgres::connect(&w.url(), tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    let read = "SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p WHERE p.proname = $1";
    let text: String = client.query_one(read, &[&function]).await.unwrap().get(0);
    assert!(text.contains(right), "{function} has no {right:?}");
    client.batch_execute(&text.replace(right, wrong)).await.unwrap();
}

/// SplitMix64: all that chance needs here.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % sides as u64).unwrap()
    }
}

/// A dialogue as the model knows it.
#[derive(Debug, Default)]
struct Dialogue {
    id: Option<RecipientId>,
    /// Keys that came, and of them those that wait, in order.
    seen: BTreeSet<String>,
    waiting: Vec<String>,
    version: i32,
    /// Which of the claims made is the one that counts.
    held_by: Option<usize>,
    due_at: Option<Timestamp>,
    /// What was said, in order.
    said: Vec<String>,
}

struct Model {
    account: AccountId,
    dice: Dice,
    seed: u64,
    people: Vec<Dialogue>,
    /// Every claim that was ever made: the person, as they were then, and the turn.
    claims: Vec<(usize, Turn)>,
    /// Keys of each person so far; a person who was forgotten comes back with new ones.
    keys: usize,
    /// What was said to people who were forgotten since: it must not be found any more.
    forgotten: BTreeSet<String>,
}

impl Model {
    async fn play(w: &World, seed: u64) -> Checked {
        let (account, _) = bot(w).await;
        let people = (0..PEOPLE).map(|_| Dialogue::default()).collect();
        let (claims, forgotten) = (Vec::new(), BTreeSet::new());
        let mut model = Model { account, dice: Dice(seed), seed, people, claims, keys: 0, forgotten };
        for n in 0..OPERATIONS {
            let step = match model.dice.roll(12) {
                0..=3 => model.receive(w).await,
                4..=6 => model.claim(w, 1 + n % 3).await,
                7..=9 => model.commit(w).await,
                10 => {
                    let span = Span::from_secs(i64::try_from(model.dice.roll(8)).unwrap());
                    w.advance(span).await;
                    Ok(())
                }
                _ => model.forget(w).await,
            };
            step.map_err(|wrong| format!("operation {n}: {wrong}"))?;
        }
        model.finish(w).await
    }

    fn user(&self, person: usize) -> String {
        format!("{}-{person}", self.seed)
    }

    async fn receive(&mut self, w: &World) -> Checked {
        let now = w.now().await;
        let (mut updates, mut fresh) = (Vec::new(), 0);
        for _ in 0..1 + self.dice.roll(4) {
            let person = self.dice.roll(PEOPLE);
            let known: Vec<String> = self.people[person].seen.iter().cloned().collect();
            let key = match (known.is_empty(), self.dice.roll(3)) {
                (false, 0) => known[self.dice.roll(known.len())].clone(),
                _ => {
                    self.keys += 1;
                    format!("{}.{person}.{}", self.seed, self.keys)
                }
            };
            updates.push(said(&key, &self.user(person), &key));
            let dialogue = &mut self.people[person];
            if dialogue.seen.insert(key.clone()) {
                fresh += 1;
                dialogue.waiting.push(key);
                if dialogue.held_by.is_none() {
                    dialogue.due_at = Some(dialogue.due_at.map_or(now, |due| due.min(now)));
                }
            }
        }
        let taken = w.store.bot_receive(w.ws, self.account, updates, None).await;
        equal("fresh updates", &taken.map_err(|error| error.to_string())?, &Received::Taken { fresh })
    }

    async fn claim(&mut self, w: &World, limit: usize) -> Checked {
        let now = w.now().await;
        let turns = w.store.bot_claim_turns(limit, LEASE).await.map_err(|error| error.to_string())?;
        let due = self.people.iter().filter(|dialogue| dialogue.due_at.is_some_and(|at| at <= now)).count();
        equal("dialogues claimed", &turns.len(), &due.min(limit))?;
        for turn in turns {
            let person = (0..PEOPLE).find(|person| turn.user_id == self.user(*person));
            let person = person.ok_or_else(|| format!("nobody is {}", turn.user_id))?;
            let dialogue = &mut self.people[person];
            if dialogue.due_at.is_none_or(|at| at > now) {
                return Err(format!("person {person} was claimed and not due"));
            }
            dialogue.id.get_or_insert(turn.recipient_id);
            let heard: Vec<&str> =
                turn.events.iter().map(|event| event.body["text"].as_str().unwrap_or_default()).collect();
            equal(
                "the events of a turn",
                &heard,
                &dialogue.waiting.iter().map(String::as_str).take(16).collect(),
            )?;
            equal("the version", &turn.version, &dialogue.version)?;
            dialogue.due_at = Some(now + LEASE);
            dialogue.held_by = Some(self.claims.len());
            self.claims.push((person, turn));
        }
        Ok(())
    }

    /// Any claim that was ever made, old ones too, sometimes with another version, sometimes two at once.
    async fn commit(&mut self, w: &World) -> Checked {
        if self.claims.is_empty() {
            return Ok(());
        }
        let now = w.now().await;
        let recent = self.claims.len().min(5);
        let (mut taken, mut wanted) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.dice.roll(2) {
            let n = self.claims.len() - 1 - self.dice.roll(recent);
            let (person, turn) = self.claims[n].clone();
            let timer_at = (self.dice.roll(3) == 0).then(|| now + Span::from_secs(5));
            let mut decided = TurnTaken { timer_at, ..echo(&turn) };
            let astray = self.dice.roll(6) == 0;
            if astray {
                decided.version += 1;
            }
            let dialogue = &mut self.people[person];
            let kept = !astray && dialogue.held_by == Some(n);
            if kept {
                for event in &turn.events {
                    let text = event.body["text"].as_str().unwrap_or_default().to_owned();
                    dialogue.waiting.retain(|key| *key != text);
                    dialogue.said.push(format!("ответ на {text}"));
                }
                dialogue.version += 1;
                dialogue.held_by = None;
                dialogue.due_at = if dialogue.waiting.is_empty() { timer_at } else { Some(now) };
            }
            taken.push(decided);
            wanted.push(kept);
        }
        let kept = w.store.bot_commit_turns(w.ws, taken).await.map_err(|error| error.to_string())?;
        equal("turns kept", &kept, &wanted)
    }

    async fn forget(&mut self, w: &World) -> Checked {
        let person = self.dice.roll(PEOPLE);
        if self.dice.roll(3) > 0 {
            return Ok(());
        }
        let forgotten = w.store.bot_forget(w.ws, self.account, &self.user(person)).await;
        let known = !self.people[person].seen.is_empty();
        equal("somebody was forgotten", &forgotten.map_err(|error| error.to_string())?, &known)?;
        let gone = std::mem::take(&mut self.people[person]);
        self.forgotten.extend(gone.said);
        Ok(())
    }

    /// Everything that waits is answered; then everybody was told everything once and in order, and nothing else is there.
    async fn finish(mut self, w: &World) -> Checked {
        w.seconds(3_600).await;
        loop {
            let before = self.claims.len();
            self.claim(w, 10).await?;
            if self.claims.len() == before {
                break;
            }
            for n in before..self.claims.len() {
                let (person, turn) = self.claims[n].clone();
                let kept = w.store.bot_commit_turns(w.ws, vec![echo(&turn)]).await;
                equal("the last turns", &kept.map_err(|error| error.to_string())?, &vec![true])?;
                let dialogue = &mut self.people[person];
                for key in std::mem::take(&mut dialogue.waiting) {
                    dialogue.said.push(format!("ответ на {key}"));
                }
                dialogue.version += 1;
                dialogue.held_by = None;
                dialogue.due_at = None;
            }
        }
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut after = 0;
        loop {
            let messages = w.store.messages(w.ws, after, 500).await.map_err(|error| error.to_string())?;
            let Some(last) = messages.last() else { break };
            after = last.message_id.0;
            for message in messages {
                let text = message.payload["text"].as_str().unwrap_or_default().to_owned();
                told.entry(message.source.clone()).or_default().push(text);
            }
        }
        for (person, dialogue) in self.people.iter().enumerate() {
            let Some(id) = dialogue.id else { continue };
            let told = told.get(&format!("bot:{id}")).cloned().unwrap_or_default();
            equal(&format!("what person {person} was told"), &told, &dialogue.said)?;
        }
        match told.values().flatten().find(|text| self.forgotten.contains(*text)) {
            Some(text) => Err(format!("{text:?} was forgotten and is there")),
            None => Ok(()),
        }
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: &T, wanted: &T) -> Checked {
    if is == wanted { Ok(()) } else { Err(format!("{what}: {is:?}, not {wanted:?}")) }
}
