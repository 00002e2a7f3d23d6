//! Who gets a campaign and who does not: one judgement for the preview and for the freeze.

use std::collections::{BTreeMap, BTreeSet};

use super::step::policy_of;
use anyhow::Context;
use domain::audience::Filter;
use domain::ids::{AccountId, MessageId, RecipientId};
use domain::message::Message;
use domain::time::Timestamp;
use platforms::render::personal;
use serde_json::Value;
use store::{Campaign, FREEZE_MAX, FreezeStep, PeoplePage, Person, Recipient, RecipientStatus, Store};

/// Texts that a preview shows, and of each variant where there are several.
const SAMPLES: usize = 3;
const SAMPLES_OF_VARIANT: usize = 1;
/// Names of attributes that a preview tells.
const ATTRIBUTES_MAX: usize = 20;

/// What a campaign asks of people.
#[derive(Debug)]
pub struct Judge {
    campaign: Campaign,
    filter: Option<Filter>,
    said: Vec<Said>,
    by_zone: bool,
}

/// What is said to those of a variant.
#[derive(Debug, Clone)]
pub struct Said {
    /// Several say the same once one of them was chosen.
    pub variants: Vec<String>,
    pub message: Message,
    /// How it reads for the first people, and for the one with the longest text.
    pub samples: Vec<String>,
    longest: String,
}

impl Said {
    fn show_to(&mut self, one: &Recipient, samples_max: usize) {
        let text = personal::fill(&self.message.text, &one.attributes).unwrap_or_default();
        if text.chars().count() > self.longest.chars().count() {
            self.longest.clone_from(&text);
        }
        if self.samples.len() < samples_max && !self.samples.contains(&text) {
            self.samples.push(text);
        }
    }
}

/// What a dry run says.
#[derive(Debug, Default)]
pub struct Preview {
    /// Who would get it, by account.
    pub audience: BTreeMap<AccountId, i64>,
    /// The same by account and zone, where their clock matters.
    pub zones: BTreeMap<(AccountId, String), i64>,
    pub excluded: BTreeMap<String, i64>,
    pub said: Vec<Said>,
    /// What is known of anybody, by name; the first few.
    pub attributes: BTreeSet<String>,
    /// What the texts ask for, and nobody has: most often a name that was written wrongly.
    pub nobody_has: Vec<String>,
}

impl Preview {
    pub fn total(&self) -> i64 {
        self.audience.values().sum()
    }

    fn get_to_know(&mut self, attributes: &Value) {
        self.nobody_has.retain(|name| attributes.get(name).is_none());
        for name in attributes.as_object().into_iter().flat_map(|known| known.keys()) {
            if self.attributes.len() < ATTRIBUTES_MAX && !self.attributes.contains(name) {
                self.attributes.insert(name.clone());
            }
        }
    }

    /// The same in words, with what there is instead.
    pub fn slips(&self) -> Option<String> {
        let unknown: Vec<String> = self.nobody_has.iter().map(|name| format!("r.{name}")).collect();
        let known: Vec<&str> = self.attributes.iter().map(String::as_str).collect();
        let known = if known.is_empty() { "nothing".to_owned() } else { known.join(", ") };
        let is_anybody = self.total() > 0 || !self.excluded.is_empty();
        (is_anybody && !unknown.is_empty())
            .then(|| format!("nobody has {}; what is known of people is {known}", unknown.join(", ")))
    }
}

impl Judge {
    pub async fn of(store: &Store, campaign: Campaign) -> anyhow::Result<Judge> {
        let ws = campaign.workspace_id;
        let mut filter = None;
        if let Some(id) = campaign.audience_id {
            let known = store.audiences(ws).await?;
            let audience = known.into_iter().find(|audience| audience.audience_id == id);
            let audience = audience.with_context(|| format!("audience {id} is not there any more"))?;
            let read = |written: Value| {
                serde_json::from_value(written).with_context(|| format!("audience {}", audience.name))
            };
            filter = audience.filter.clone().map(read).transpose()?;
        }
        let by_zone = policy_of(&campaign)?.window.is_some();
        let said = said(store, &campaign).await?;
        Ok(Judge { campaign, filter, said, by_zone })
    }

    fn texts(&self) -> impl Iterator<Item = &str> {
        self.said.iter().map(|said| said.message.text.as_str())
    }

    /// Nothing has to be read of anybody to decide.
    fn is_plain(&self) -> bool {
        self.filter.is_none() && !self.texts().any(personal::is_personal)
    }

    fn is_meant(&self, one: &Recipient) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.fits(&one.attributes))
    }

    fn is_missing(&self, one: &Recipient) -> bool {
        self.texts().any(|text| personal::fill(text, &one.attributes).is_err())
    }

    async fn page(&self, store: &Store, after: Person) -> store::Result<PeoplePage> {
        let of = &self.campaign;
        store.people_in_order(of.workspace_id, of.accounts.clone(), of.audience_id, after, FREEZE_MAX).await
    }

    /// The next step of the freeze.
    pub async fn step(&self, store: &Store) -> anyhow::Result<FreezeStep> {
        let after = self.campaign.at.clone();
        let policy = policy_of(&self.campaign)?;
        let (canary, by_zone) = (policy.first_lots(), self.by_zone);
        if self.is_plain() {
            return Ok(FreezeStep { after, canary, by_zone, ..FreezeStep::default() });
        }
        let page = self.page(store, after.clone()).await?;
        let ids = |of: &dyn Fn(&Recipient) -> bool| -> Vec<RecipientId> {
            let some = page.people.iter().filter(|(one, _)| of(one));
            some.map(|(one, _)| one.recipient_id).collect()
        };
        Ok(FreezeStep {
            after,
            left_out: ids(&|one| !self.is_meant(one)),
            missing: ids(&|one| self.is_meant(one) && self.is_missing(one)),
            upto: page.upto(),
            is_last: page.is_last,
            canary,
            by_zone,
        })
    }

    /// Whether anybody would get it: looks no further than the first page with somebody.
    pub async fn anybody(&self, store: &Store, now: Timestamp) -> anyhow::Result<Preview> {
        self.walk(store, now, |preview| preview.total() > 0).await
    }

    /// Goes through everybody and changes nothing.
    pub async fn preview(&self, store: &Store, now: Timestamp) -> anyhow::Result<Preview> {
        self.walk(store, now, |_| false).await
    }

    async fn walk(
        &self,
        store: &Store,
        now: Timestamp,
        enough: impl Fn(&Preview) -> bool,
    ) -> anyhow::Result<Preview> {
        let personal = self.texts().filter(|text| personal::is_personal(text));
        let mut preview = Preview {
            nobody_has: personal.flat_map(personal::names).collect(),
            said: self.said.clone(),
            ..Preview::default()
        };
        let mut after = Person::default();
        loop {
            let page = self.page(store, after).await?;
            for (one, _) in &page.people {
                preview.get_to_know(&one.attributes);
            }
            let mut rest = &page.people[..];
            while let Some((first, _)) = rest.first() {
                let same = |(one, _): &(Recipient, bool)| {
                    (&one.platform, &one.user_id) == (&first.platform, &first.user_id)
                };
                let n = rest.iter().take_while(|row| same(row)).count();
                self.count(&rest[..n], now, &mut preview);
                rest = &rest[n..];
            }
            match page.upto() {
                Some(upto) if !page.is_last && !enough(&preview) => after = upto,
                _ => break,
            }
        }
        for said in &mut preview.said {
            if !said.longest.is_empty() && !said.samples.contains(&said.longest) {
                said.samples.push(said.longest.clone());
            }
        }
        Ok(preview)
    }

    /// One person with all their rows.
    fn count(&self, rows: &[(Recipient, bool)], now: Timestamp, preview: &mut Preview) {
        let rank = |one: &Recipient| self.campaign.accounts.iter().position(|id| *id == one.account_id);
        let mut judged: Vec<(bool, Option<usize>, Option<&str>, &Recipient)> = rows
            .iter()
            .filter(|(one, _)| self.is_meant(one))
            .map(|(one, suppressed)| {
                let reason = self.reason(one, *suppressed, now);
                (reason.is_some(), rank(one), reason, one)
            })
            .collect();
        judged.sort_by_key(|(is_out, rank, ..)| (*is_out, *rank));
        let Some((_, _, reason, one)) = judged.first() else {
            return;
        };
        if let Some(reason) = reason {
            *preview.excluded.entry((*reason).to_owned()).or_default() += 1;
            return;
        }
        *preview.audience.entry(one.account_id).or_default() += 1;
        let zone = if self.by_zone { one.time_zone.clone().unwrap_or_default() } else { String::new() };
        *preview.zones.entry((one.account_id, zone)).or_default() += 1;
        let samples_max = if preview.said.len() > 1 { SAMPLES_OF_VARIANT } else { SAMPLES };
        for said in &mut preview.said {
            said.show_to(one, samples_max);
        }
    }

    /// The same as the store says of the rows themselves.
    fn reason(&self, one: &Recipient, suppressed: bool, now: Timestamp) -> Option<&'static str> {
        let gap = self.campaign.min_gap;
        match one.status {
            RecipientStatus::Gone => Some("gone"),
            RecipientStatus::Stopped | RecipientStatus::Known => Some("stopped"),
            RecipientStatus::Active if suppressed => Some("suppressed"),
            RecipientStatus::Active if self.is_missing(one) => Some("missing_attribute"),
            RecipientStatus::Active if gap.0 > 0 && one.contacted_at.is_some_and(|at| at + gap > now) => {
                Some("too_soon")
            }
            RecipientStatus::Active => None,
        }
    }
}

async fn said(store: &Store, campaign: &Campaign) -> anyhow::Result<Vec<Said>> {
    let ids = campaign.variants.iter().map(|variant| variant.message_id).collect();
    let payloads = store.payloads(campaign.workspace_id, ids).await?;
    let mut all: Vec<(MessageId, Said)> = Vec::new();
    for variant in &campaign.variants {
        if let Some((_, same)) = all.iter_mut().find(|(id, _)| *id == variant.message_id) {
            same.variants.push(variant.name.clone());
            continue;
        }
        let payload = payloads.iter().find(|(id, _)| *id == variant.message_id);
        let (_, payload) = payload.context("the words are not there any more")?;
        let message = serde_json::from_value(payload.clone())?;
        let variants = vec![variant.name.clone()];
        let said = Said { variants, message, samples: Vec::new(), longest: String::new() };
        all.push((variant.message_id, said));
    }
    Ok(all.into_iter().map(|(_, said)| said).collect())
}
