//! What operators do with people, as values that cross to the running node, and how people are told of.

use anyhow::{Context, bail};
use domain::audience::Filter;
use domain::ids::{AudienceId, WorkspaceId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{
    Account, Audience, ImportedPeople, NewRecipient, NewSuppressions, Person, Recipient, RecipientStatus,
    Store, Suppression, SuppressionOrigin, SuppressionReason,
};

use super::verb::{find_account, find_workspace};
use super::words::quoted;

/// People that a walk reads at once.
const PAGE: usize = 5_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum AudienceOrder {
    /// A name for those on whom a filter fits.
    New {
        name: String,
        filter: Filter,
    },
    /// One step of an import; the first one makes the audience.
    Import {
        name: String,
        account: String,
        people: Vec<NewRecipient>,
        /// How far a file has come; without it that stays as it is.
        import: Option<Value>,
    },
    Suppress {
        account: String,
        addresses: Vec<String>,
        everywhere: bool,
        reason: SuppressionReason,
    },
    Unsuppress {
        account: String,
        address: String,
        everywhere: bool,
    },
}

pub(crate) async fn perform_on_audience(
    store: &Store,
    workspace: &str,
    order: AudienceOrder,
) -> anyhow::Result<Value> {
    let ws = find_workspace(store, workspace).await?;
    match order {
        AudienceOrder::New { name, filter } => {
            let id = store.create_audience(ws, &name, Some(json!(filter))).await?;
            Ok(json!({"audience": name, "audience_id": id}))
        }
        AudienceOrder::Import { name, account, people, import } => {
            let (_, account) = find_account(store, workspace, &account).await?;
            let audience_id = imported_audience(store, ws, &name).await?;
            let step = ImportedPeople { audience_id, account_id: account.account_id, people, import };
            let made = store.import_people(ws, step).await?;
            let imported = made.iter().filter(|one| one.created).count();
            Ok(json!({"imported": imported, "updated": made.len() - imported}))
        }
        AudienceOrder::Suppress { account, addresses, everywhere, reason } => {
            let (_, account) = find_account(store, workspace, &account).await?;
            let people = addresses.len();
            let new = NewSuppressions {
                platform: account.platform,
                user_ids: addresses,
                account_id: (!everywhere).then_some(account.account_id),
                reason,
                origin: SuppressionOrigin::Operator,
            };
            let suppressed = store.suppress(ws, new).await?;
            Ok(json!({"people": people, "suppressed": suppressed}))
        }
        AudienceOrder::Unsuppress { account, address, everywhere } => {
            let (_, account) = find_account(store, workspace, &account).await?;
            unsuppress(store, ws, &account, address, everywhere).await
        }
    }
}

async fn imported_audience(store: &Store, ws: WorkspaceId, name: &str) -> anyhow::Result<AudienceId> {
    match find_audience(store, ws, name).await? {
        Some(known) if known.filter.is_some() => {
            bail!("audience {name} is a filter; import under another name with --name")
        }
        Some(known) => Ok(known.audience_id),
        None => Ok(store.create_audience(ws, name, None).await?),
    }
}

/// What still keeps them from being written to is told with it.
async fn unsuppress(
    store: &Store,
    ws: WorkspaceId,
    account: &Account,
    address: String,
    everywhere: bool,
) -> anyhow::Result<Value> {
    let person = Person { platform: account.platform.clone(), user_id: address };
    let known = store.suppressions_of(ws, person.clone()).await?;
    let is_meant = |one: &&Suppression| everywhere || one.account_id == Some(account.account_id);
    let (lifted, left): (Vec<_>, Vec<_>) = known.iter().partition(is_meant);
    let address = &person.user_id;
    if lifted.is_empty() {
        if left.iter().any(|one| one.account_id.is_none()) {
            bail!("{address} is suppressed on every bot of the platform; lift that with --everywhere");
        }
        let name = quoted(&account.name);
        bail!(
            "{address} is not suppressed on account {}; look with `rupor audience suppressed --account {name}`",
            account.name
        );
    }
    for one in &lifted {
        store.unsuppress(ws, &person.platform, address, one.account_id).await?;
    }
    let still = left.iter().any(|one| one.account_id.is_none());
    let who = store.find_recipient(ws, account.account_id, address).await?;
    let status = who.map(|who| who.status);
    Ok(json!({"address": address, "lifted": lifted.len(), "suppressed": still, "status": status}))
}

pub(crate) async fn find_audience(
    store: &Store,
    ws: WorkspaceId,
    name: &str,
) -> anyhow::Result<Option<Audience>> {
    let known = store.audiences(ws).await?;
    Ok(known.into_iter().find(|audience| audience.name == name))
}

/// Everybody of an audience on all accounts from a place on, with whether they are suppressed; `each` says whether it goes
/// on. Where it stopped, or `None` at the end.
pub(crate) async fn walk(
    store: &Store,
    audience: &Audience,
    ws: WorkspaceId,
    mut after: Person,
    mut each: impl FnMut(&Recipient, bool) -> bool,
) -> anyhow::Result<Option<Person>> {
    let filter: Option<Filter> = audience.filter.clone().map(serde_json::from_value).transpose()?;
    let accounts: Vec<_> = store.accounts(ws).await?.iter().map(|account| account.account_id).collect();
    loop {
        let page =
            store.people_in_order(ws, accounts.clone(), Some(audience.audience_id), after, PAGE).await?;
        let mut goes_on = true;
        let mut people = page.people.iter().peekable();
        while let Some((one, suppressed)) = people.next() {
            if filter.as_ref().is_none_or(|filter| filter.fits(&one.attributes)) {
                goes_on &= each(one, *suppressed);
            }
            // A walk goes on after a person, so the one at whom it stops is told whole.
            let is_whole = people.peek().is_none_or(|(next, _)| next.user_id != one.user_id);
            if !goes_on && is_whole {
                return Ok(Some(person_of(one)));
            }
        }
        match page.upto() {
            Some(upto) if !page.is_last => after = upto,
            _ => return Ok(None),
        }
    }
}

fn person_of(one: &Recipient) -> Person {
    Person { platform: one.platform.clone(), user_id: one.user_id.clone() }
}

/// How many people there are, and how many of them may be written to.
pub(crate) async fn count(store: &Store, audience: &Audience, ws: WorkspaceId) -> anyhow::Result<Value> {
    let (mut all, mut may) = (0, 0);
    walk(store, audience, ws, Person::default(), |one, suppressed| {
        all += 1;
        may += i64::from(one.status == RecipientStatus::Active && !suppressed);
        true
    })
    .await?;
    Ok(json!({"audience": audience.name, "people": all, "reachable": may}))
}

pub(crate) async fn known_audience(store: &Store, ws: WorkspaceId, name: &str) -> anyhow::Result<Audience> {
    let known = find_audience(store, ws, name).await?;
    known.with_context(|| format!("audience {name:?} is not known; look with `rupor audience list`"))
}

/// Somebody of an audience, in the shape that programs read.
pub(crate) fn told_person(one: &Recipient, suppressed: bool, accounts: &[Account]) -> Value {
    json!({"address": one.user_id, "account": name_of(accounts, one.account_id), "status": one.status,
           "suppressed": suppressed, "time_zone": one.time_zone, "attributes": one.attributes})
}

pub(crate) fn told_suppression(one: &Suppression, accounts: &[Account]) -> Value {
    json!({"address": one.user_id, "platform": one.platform,
           "account": one.account_id.map(|id| name_of(accounts, id)), "reason": one.reason,
           "origin": one.origin, "at": one.at.rfc3339()})
}

fn name_of(accounts: &[Account], id: domain::ids::AccountId) -> &str {
    accounts.iter().find(|account| account.account_id == id).map_or("-", |account| &account.name)
}
