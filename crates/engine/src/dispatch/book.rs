//! The address book: who sends and where to, read from rows and kept for a moment. Channels are few and stand here;
//! recipients may be a million, so here stands what all of them on an account share, and each is asked for by itself.
//!
//! Config is rows, so a change needs no restart: what is older than `FRESH` is read again before it is used, and
//! trouble with an account throws its page away at once. Tokens are opened only for rows that changed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use domain::chat::ChatKind;
use domain::delivery::AmbiguityPolicy;
use domain::destination::Destination;
use domain::ids::{AccountId, ChannelId, RecipientId, WorkspaceId};
use domain::limits::effective_rate;
use domain::outcome::{Category, Failure, Scope};
use domain::pacing::interval;
use domain::time::{Span, Timestamp};
use platforms::part::ChannelSettings;
use platforms::platform::{Account, Deadlines, Platform};
use store::RecipientStatus;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::ports::Ledger;
use crate::addresses::{self, ApiBases};

/// How long a page counts.
const FRESH: Duration = Duration::from_secs(2);

/// An account ready to send.
#[derive(Debug)]
pub struct Address {
    pub account_id: AccountId,
    pub platform: &'static dyn Platform,
    pub account: Account,
    /// Between two requests of this account.
    pub interval: Span,
    /// It speaks of trouble: stop-all and holds do not stop it.
    pub past_holds: bool,
}

/// A destination ready to be rendered for.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub settings: ChannelSettings,
    pub deadlines: Deadlines,
    pub policy: AmbiguityPolicy,
    /// One after another; people are written to by several at once.
    pub ordered: bool,
    /// Between two requests to this chat.
    pub interval: Span,
    /// What was said before stands in another chat.
    pub since: Timestamp,
}

/// All that a delivery needs to know about its way.
#[derive(Debug)]
pub(super) struct Found {
    pub address: Arc<Address>,
    pub place: Arc<Place>,
    /// When the chat is free; `None`: the claim has waited for it.
    pub free_at: Option<Timestamp>,
    /// What is known of a person, for words that are theirs alone.
    pub attributes: serde_json::Value,
}

/// A row that can be used, or what is wrong with it; never repeats a secret.
type Usable<T> = Result<Arc<T>, Failure>;

#[derive(Debug)]
struct Page {
    read_at: Instant,
    accounts: HashMap<AccountId, (store::Account, Usable<Address>)>,
    places: HashMap<ChannelId, Usable<Place>>,
    /// What people call the channels.
    names: HashMap<ChannelId, Arc<str>>,
    /// What the private chats of an account have in common.
    people: HashMap<AccountId, Usable<Place>>,
}

#[derive(Debug)]
pub(super) struct Book {
    ledger: Arc<dyn Ledger>,
    bases: ApiBases,
    /// Whether the platforms' own limits are obeyed; rehearsals lift them.
    limited: bool,
    pages: Mutex<HashMap<WorkspaceId, Page>>,
}

impl Book {
    pub(super) fn new(ledger: Arc<dyn Ledger>, bases: ApiBases, limited: bool) -> Book {
        Book { ledger, bases, limited, pages: Mutex::default() }
    }

    /// The account and the destination of a delivery, or what is wrong with their rows; and when the chat is free, if
    /// the claim, whose slot of the account is given, does not say so already.
    pub(super) async fn find(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        destination: Destination,
        slot_at: Timestamp,
    ) -> store::Result<Result<Found, Failure>> {
        let found = self.look_up(workspace, account, destination).await?;
        match (found, destination) {
            (Ok((address, place)), Destination::Channel(_)) => {
                Ok(Ok(Found { address, place, free_at: None, attributes: serde_json::Value::Null }))
            }
            (Ok((address, place)), Destination::Recipient(id)) => {
                self.approach(workspace, id, slot_at, address, &place).await
            }
            (Err(failure), _) => Ok(Err(failure)),
        }
    }

    /// Where this person is written to, and the slot of their chat; campaigns and dialogues share its pace.
    async fn approach(
        &self,
        workspace: WorkspaceId,
        id: RecipientId,
        not_before: Timestamp,
        address: Arc<Address>,
        place: &Place,
    ) -> store::Result<Result<Found, Failure>> {
        let approach = match self.ledger.approach(workspace, id, place.interval, not_before).await {
            Err(store::StoreError::NotFound { .. }) => {
                return Ok(Err(unusable(Scope::Delivery, format!("recipient {id} is not there any more"))));
            }
            approach => approach?,
        };
        if approach.status == RecipientStatus::Gone {
            let gone = Failure::new(Category::Permanent, Scope::Channel, "gone", "the recipient is gone");
            return Ok(Err(Failure { recipient_gone: true, ..gone }));
        }
        let free_at = approach.slot_at.max(approach.paused_until);
        let settings = ChannelSettings { target: approach.address, ..place.settings.clone() };
        let place = Arc::new(Place { settings, ..place.clone() });
        Ok(Ok(Found { address, place, free_at: Some(free_at), attributes: approach.attributes }))
    }

    async fn look_up(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        destination: Destination,
    ) -> store::Result<Result<(Arc<Address>, Arc<Place>), Failure>> {
        let mut pages = self.pages.lock().await;
        let fresh = pages.get(&workspace).is_some_and(|page| {
            page.read_at.elapsed() < FRESH
                && page.accounts.contains_key(&account)
                && destination.channel().is_none_or(|channel| page.places.contains_key(&channel))
        });
        if !fresh {
            let old = pages.remove(&workspace);
            pages.insert(workspace, self.read(workspace, old).await?);
        }
        let page = &pages[&workspace];
        let address = page.accounts.get(&account).map_or_else(
            || Err(unusable(Scope::Platform, format!("account {account} is not there any more"))),
            |(_, address)| address.clone(),
        );
        let place = match destination {
            Destination::Channel(channel) => page.places.get(&channel),
            Destination::Recipient(_) => page.people.get(&account),
        };
        let place = place.map_or_else(
            || Err(unusable(Scope::Channel, format!("{destination} is not there any more"))),
            |place| place.clone(),
        );
        Ok(address.and_then(|address| place.map(|place| (address, place))))
    }

    /// What people call a channel, as far as it was read; people have no name here.
    pub(super) async fn name(&self, workspace: WorkspaceId, destination: Destination) -> Option<Arc<str>> {
        let channel = destination.channel()?;
        self.pages.lock().await.get(&workspace)?.names.get(&channel).cloned()
    }

    /// The next delivery of this workspace reads its rows again.
    pub(super) async fn forget(&self, workspace: WorkspaceId) {
        self.pages.lock().await.remove(&workspace);
    }

    /// Another history: nothing that was read counts any more.
    pub(super) async fn forget_all(&self) {
        self.pages.lock().await.clear();
    }

    async fn read(&self, workspace: WorkspaceId, old: Option<Page>) -> store::Result<Page> {
        let mut known = old.map(|page| page.accounts).unwrap_or_default();
        let mut accounts = HashMap::new();
        for row in self.ledger.accounts(workspace).await? {
            let same = known.remove(&row.account_id).filter(|(before, address)| {
                before.fingerprint == row.fingerprint && before.settings == row.settings && address.is_ok()
            });
            let address = match same {
                Some((_, address)) => address,
                None => self.open(&row).await?,
            };
            accounts.insert(row.account_id, (row, address));
        }
        let rows = self.ledger.channels(workspace).await?;
        let names = rows.iter().map(|row| (row.channel_id, row.name.as_str().into())).collect();
        let places = rows
            .into_iter()
            .map(|row| {
                let place = match accounts.get(&row.account_id) {
                    Some((account, _)) => place(&row, account),
                    None => Err(anyhow::anyhow!("account {} is not there any more", row.account_id)),
                };
                let place = place.map(Arc::new);
                (row.channel_id, place.map_err(|error| unusable(Scope::Channel, format!("{error:#}"))))
            })
            .collect();
        let people = accounts.iter().map(|(id, (row, _))| {
            let chats = private_chats(row, self.limited).map(Arc::new);
            (*id, chats.map_err(|error| unusable(Scope::Platform, format!("{error:#}"))))
        });
        let people = people.collect();
        Ok(Page { read_at: Instant::now(), accounts, places, names, people })
    }

    async fn open(&self, row: &store::Account) -> store::Result<Usable<Address>> {
        let token = self.ledger.account_token(row.workspace_id, row.account_id).await?;
        let opened = addresses::platform(&row.platform)
            .and_then(|platform| Ok((platform, addresses::account(row, &token, &self.bases)?)));
        Ok(match opened {
            Ok((platform, account)) => Ok(Arc::new(Address {
                account_id: row.account_id,
                platform,
                account,
                interval: interval(row.settings.rate),
                past_holds: row.settings.tier == store::TIER_ALERTS,
            })),
            Err(error) => Err(unusable(Scope::Platform, format!("{error:#}"))),
        })
    }
}

/// A row that no request can be made from: certain, and before the network.
fn unusable(scope: Scope, why: String) -> Failure {
    Failure::new(Category::Permanent, scope, "config", why)
}

/// The policy and the pace of a private chat are the platform's: nobody sets them person by person.
fn private_chats(account: &store::Account, limited: bool) -> anyhow::Result<Place> {
    let facts = addresses::platform(&account.platform)?.facts();
    let rate = facts.chat_rate(ChatKind::Private).filter(|_| limited);
    Ok(Place {
        settings: addresses::person(account)?,
        deadlines: Deadlines::default(),
        policy: facts.ambiguity,
        ordered: false,
        interval: interval(effective_rate(None, rate)),
        since: Timestamp(0),
    })
}

fn place(row: &store::Channel, account: &store::Account) -> anyhow::Result<Place> {
    Ok(Place {
        settings: addresses::channel(row, account)?,
        deadlines: addresses::deadlines(row)?,
        policy: row.settings.ambiguity,
        ordered: row.settings.max_parallel == 1,
        interval: interval(row.settings.rate),
        since: row.target_since,
    })
}
