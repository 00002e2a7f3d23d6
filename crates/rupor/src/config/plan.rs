//! From a `Config` to rows: what is different, shown first, then made equal.
//!
//! Idempotent: a second run finds nothing to do. Only workspaces that the configuration names are looked at.
//! Pauses and disabled channels are an operator's business unless the configuration says otherwise.
//! What the configuration does not name any more: channels and sources are removed (or shut, see `Absent`), accounts
//! paused and doors closed, because their past still refers to them.

mod bots;
mod channels;
mod sources;

use anyhow::{Context, bail};
use domain::ids::{AccountId, ChannelId, EndpointId, SourceId, WorkspaceId};
use domain::shown;
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use store::{DisabledBy, Store};

use super::{Account, Channel, Config, Endpoint, Source, Workspace, show_rate};

/// Why an account is paused that the configuration does not name; it is resumed when it comes back.
const NOT_CONFIGURED: &str = "not in the configuration";
/// Why a channel is paused that the configuration wants paused.
const CONFIGURED_PAUSE: &str = "paused in the configuration";

/// What happens to channels that the configuration does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Absent {
    /// They go, and what waits for them fails.
    Remove,
    /// They are shut and keep their queue: the quick start must not lose a backlog to a missing variable.
    Disable,
}

/// The steps that make rows equal to a configuration, in order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub workspace: String,
    pub verb: StepVerb,
    /// `workspace`, `account`, `channel`, `source`, `endpoint` or `bot`.
    pub what: String,
    pub name: String,
    /// What exactly, in words; never a secret.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepVerb {
    Create,
    Change,
    Pause,
    Resume,
    Disable,
    Enable,
    Remove,
}

impl StepVerb {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            StepVerb::Create => "create",
            StepVerb::Change => "change",
            StepVerb::Pause => "pause",
            StepVerb::Resume => "resume",
            StepVerb::Disable => "disable",
            StepVerb::Enable => "enable",
            StepVerb::Remove => "remove",
        }
    }
}

impl Step {
    /// Whether something ends: somebody has to agree, and it is shown in red.
    pub(crate) fn is_destructive(&self) -> bool {
        let ends = matches!(self.what.as_str(), "channel" | "source" | "workspace");
        ends && matches!(self.verb, StepVerb::Remove)
            || matches!(self.verb, StepVerb::Disable | StepVerb::Pause) && self.detail == NOT_CONFIGURED
    }
}

/// From so many equal steps on, one line tells of all.
const FOLD_FROM: usize = 6;
/// Names on a folded line.
const FOLD_NAMES: usize = 3;

impl Plan {
    /// Channels that go: what waits for them fails, so somebody has to agree.
    pub(crate) fn removals(&self) -> usize {
        self.steps.iter().filter(|step| step.verb == StepVerb::Remove && step.what == "channel").count()
    }

    /// Everything else that stops because the configuration does not name it any more.
    pub(crate) fn stops(&self) -> usize {
        let stops = |step: &&Step| step.is_destructive() && step.verb != StepVerb::Remove;
        self.steps.iter().filter(stops).count()
    }

    /// One line a step, equal ones folded, each with whether something ends there.
    pub(crate) fn lines(&self) -> Vec<(String, bool)> {
        let mut lines = Vec::new();
        let mut rest = self.steps.as_slice();
        while let Some(first) = rest.first() {
            let alike = |step: &&Step| {
                let same =
                    (&step.workspace, step.verb, &step.what) == (&first.workspace, first.verb, &first.what);
                same && (step.detail == first.detail || first.verb == StepVerb::Create)
            };
            let n = rest.iter().take_while(alike).count();
            let (same, others) = rest.split_at(if n < FOLD_FROM { 1 } else { n });
            lines.push((shown::line(&line(same)).into_owned(), first.is_destructive()));
            rest = others;
        }
        lines
    }
}

/// Steps that are told in one line.
fn line(steps: &[Step]) -> String {
    let [first, ..] = steps else {
        return String::new();
    };
    let mut place = format!("{}/{}", first.workspace, first.name);
    let mut detail = first.detail.as_str();
    if steps.len() > 1 {
        let names: Vec<&str> =
            steps.iter().skip(1).take(FOLD_NAMES - 1).map(|step| step.name.as_str()).collect();
        place = format!("{place}, {}", names.join(", "));
        if steps.len() > FOLD_NAMES {
            place = format!("{place} and {} more", steps.len() - FOLD_NAMES);
        }
        detail = if steps.iter().all(|step| step.detail == first.detail) { detail } else { "" };
    }
    let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
    format!("{:<7} {:<9} {place}{detail}", first.verb.as_str(), first.what)
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines().iter().try_for_each(|(line, _)| writeln!(f, "{line}"))
    }
}

impl Workspace {
    /// What happens to what it does not name: a workspace that left the configuration keeps its queues.
    fn absent(&self, usual: Absent) -> Absent {
        if self.gone { Absent::Disable } else { usual }
    }
}

/// What is different, without changing anything.
pub(crate) async fn plan(store: &Store, config: &Config, absent: Absent) -> anyhow::Result<Plan> {
    let mut steps = Vec::new();
    for workspace in &config.workspaces {
        let known = known_workspace(store, &workspace.name).await?;
        let acts = acts(store, workspace, known, workspace.absent(absent)).await?;
        steps.extend(acts.into_iter().map(|(step, _)| step));
    }
    Ok(Plan { steps })
}

/// Makes the rows equal and tells what was done.
pub(crate) async fn apply(store: &Store, config: &Config, absent: Absent) -> anyhow::Result<Plan> {
    let mut steps = Vec::new();
    for workspace in &config.workspaces {
        let known = known_workspace(store, &workspace.name).await?;
        let acts = acts(store, workspace, known, workspace.absent(absent)).await?;
        for (step, act) in acts {
            let named = || format!("{} {} {}", step.verb.as_str(), step.what, step.name);
            perform(store, &workspace.name, act).await.with_context(named)?;
            steps.push(step);
        }
    }
    Ok(Plan { steps })
}

/// What a step does; accounts and workspaces are named, because an earlier step may have to make them.
enum Act {
    CreateWorkspace,
    CreateAccount(Account),
    ChangeAccount(AccountId, store::AccountSettings),
    SetToken(AccountId, Account),
    SetLimit(AccountId, Option<store::PlatformLimit>),
    PauseAccount(AccountId, &'static str),
    ResumeAccount(AccountId),
    CreateChannel(Channel),
    ChangeChannel(ChannelId, store::ChannelSettings),
    RenameChannel(ChannelId, String),
    RetargetChannel(ChannelId, String),
    /// To the account and chat that the file names, and with its name and settings.
    MoveChannel(ChannelId, Channel),
    PauseChannel(Which),
    ResumeChannel(Which),
    DisableChannel(Which),
    RemoveChannel(ChannelId),
    CreateEndpoint(Endpoint),
    ChangeEndpoint(EndpointId, Endpoint),
    EnableEndpoint(EndpointId, bool),
    CreateSource(Source),
    ChangeSource(SourceId, Source),
    EnableSource(SourceId, bool),
    RemoveSource(SourceId),
    PutBot(super::Bot),
    RestBot(domain::ids::BotId),
}

/// A channel that is there, or one that an earlier step makes.
enum Which {
    Id(ChannelId),
    Name(String),
}

type Acts = Vec<(Step, Act)>;

/// What is known of a workspace; nothing if it does not exist yet.
#[derive(Default)]
struct Rows {
    id: Option<WorkspaceId>,
    accounts: Vec<store::Account>,
    channels: Vec<store::Channel>,
    /// What waits for each channel.
    waiting: Vec<(ChannelId, i64)>,
    endpoints: Vec<store::Endpoint>,
    sources: Vec<store::Source>,
    bots: Vec<store::Bot>,
}

async fn known_workspace(store: &Store, name: &str) -> anyhow::Result<Rows> {
    let known = store.workspaces().await?;
    let Some(workspace) = known.into_iter().find(|workspace| workspace.name == name) else {
        return Ok(Rows::default());
    };
    let id = workspace.workspace_id;
    let lanes = store.lanes(id).await?.into_iter();
    let waiting = lanes.filter_map(|lane| Some((lane.channel_id?, lane.counts.queued + lane.counts.retry)));
    Ok(Rows {
        waiting: waiting.collect(),
        id: Some(id),
        accounts: store.accounts(id).await?,
        channels: store.channels(id).await?,
        endpoints: store.endpoints(id).await?,
        sources: store.sources(id).await?,
        bots: store.bots(id).await?,
    })
}

async fn acts(store: &Store, workspace: &Workspace, rows: Rows, absent: Absent) -> anyhow::Result<Acts> {
    let mut list = Listing { workspace: &workspace.name, acts: Vec::new() };
    if workspace.gone && rows.is_still() {
        return Ok(list.acts);
    }
    if rows.id.is_none() {
        list.push(StepVerb::Create, "workspace", &workspace.name, "", Act::CreateWorkspace);
    }
    accounts(store, workspace, &rows, &mut list).await?;
    channels::acts(workspace, &rows, absent, &mut list);
    endpoints(store, workspace, &rows, &mut list).await?;
    sources::acts(workspace, &rows, absent, &mut list);
    bots::acts(store, workspace, &rows, &mut list).await?;
    Ok(list.acts)
}

struct Listing<'a> {
    workspace: &'a str,
    acts: Acts,
}

impl Listing<'_> {
    fn push(&mut self, verb: StepVerb, what: &str, name: &str, detail: impl Into<String>, act: Act) {
        let step = Step {
            workspace: self.workspace.to_owned(),
            verb,
            what: what.to_owned(),
            name: name.to_owned(),
            detail: detail.into(),
        };
        self.acts.push((step, act));
    }
}

async fn accounts(
    store: &Store,
    workspace: &Workspace,
    rows: &Rows,
    list: &mut Listing<'_>,
) -> anyhow::Result<()> {
    for account in &workspace.accounts {
        match rows.accounts.iter().find(|row| row.name == account.name) {
            None => list.push(
                StepVerb::Create,
                "account",
                &account.name,
                account.platform.as_str(),
                Act::CreateAccount(account.clone()),
            ),
            Some(row) => {
                if row.platform != account.platform {
                    bail!(
                        "account {} is one of {}, the configuration says {}; give the new one another name",
                        row.name,
                        row.platform,
                        account.platform
                    );
                }
                account_changes(store, account, row, list).await?;
            }
        }
    }
    for row in &rows.accounts {
        if !row.paused && !workspace.accounts.iter().any(|account| account.name == row.name) {
            let act = Act::PauseAccount(row.account_id, NOT_CONFIGURED);
            list.push(StepVerb::Pause, "account", &row.name, NOT_CONFIGURED, act);
        }
    }
    Ok(())
}

async fn account_changes(
    store: &Store,
    account: &Account,
    row: &store::Account,
    list: &mut Listing<'_>,
) -> anyhow::Result<()> {
    let (id, name) = (row.account_id, &account.name);
    if row.settings != account.settings {
        let mut detail = differences(&json!(row.settings), &json!(account.settings));
        if detail.is_empty() {
            detail = "credentials of an address changed".to_owned();
        }
        list.push(
            StepVerb::Change,
            "account",
            name,
            detail,
            Act::ChangeAccount(id, account.settings.clone()),
        );
    }
    let token = super::Secret::from(store.account_token(row.workspace_id, id).await?);
    if token != account.token {
        list.push(StepVerb::Change, "account", name, "a new token", Act::SetToken(id, account.clone()));
        // The pause was the platform's word on the old token. A person's pause has other words, and stays.
        if account.paused.is_none() && row.paused && row.paused_why.as_deref().is_some_and(is_of_platform) {
            list.push(StepVerb::Resume, "account", name, "its token is new", Act::ResumeAccount(id));
        }
    }
    // A new token has a budget of its own.
    if token != account.token && account.limit.is_some()
        || store.platform_limit(row.workspace_id, id).await? != account.limit
    {
        let detail = match account.limit {
            Some(limit) => format!("tier {} allows {}", account.settings.tier, show_rate(limit.rate)),
            None => "no limit of a tier any more".to_owned(),
        };
        list.push(StepVerb::Change, "account", name, detail, Act::SetLimit(id, account.limit));
    }
    let came_back = row.paused_why.as_deref() == Some(NOT_CONFIGURED);
    match account.paused {
        Some(true) if !row.paused => {
            list.push(StepVerb::Pause, "account", name, "", Act::PauseAccount(id, CONFIGURED_PAUSE));
        }
        Some(false) if row.paused => {
            list.push(StepVerb::Resume, "account", name, "", Act::ResumeAccount(id));
        }
        None if row.paused && came_back => {
            list.push(
                StepVerb::Resume,
                "account",
                name,
                "in the configuration again",
                Act::ResumeAccount(id),
            );
        }
        _ => {}
    }
    Ok(())
}

/// Whether an account was paused by what a platform answered: then the reason begins with the code of the answer.
pub(crate) fn is_of_platform(why: &str) -> bool {
    why.split_once(": ").is_some_and(|(code, _)| !code.is_empty() && !code.contains(char::is_whitespace))
}

async fn endpoints(
    store: &Store,
    workspace: &Workspace,
    rows: &Rows,
    list: &mut Listing<'_>,
) -> anyhow::Result<()> {
    for endpoint in &workspace.endpoints {
        let Some(row) = rows.endpoints.iter().find(|row| row.name == endpoint.name) else {
            let act = Act::CreateEndpoint(endpoint.clone());
            list.push(StepVerb::Create, "endpoint", &endpoint.name, endpoint.kind.as_str(), act);
            continue;
        };
        if row.kind != endpoint.kind {
            bail!(
                "endpoint {}: the kind of a door cannot be changed; give the new one another name",
                row.name
            );
        }
        let secret = endpoint.secret.reveal();
        let same_secret = store.endpoint_opens(row.workspace_id, row.endpoint_id, secret).await?;
        if !same_secret || row.settings != endpoint.settings {
            let mut detail = differences(&row.settings, &endpoint.settings);
            if !same_secret {
                detail = ["new secret", &detail].join(" ").trim_end().to_owned();
            }
            let act = Act::ChangeEndpoint(row.endpoint_id, endpoint.clone());
            list.push(StepVerb::Change, "endpoint", &row.name, detail, act);
        }
        if row.enabled != endpoint.enabled {
            let verb = if endpoint.enabled { StepVerb::Enable } else { StepVerb::Disable };
            list.push(
                verb,
                "endpoint",
                &row.name,
                "",
                Act::EnableEndpoint(row.endpoint_id, endpoint.enabled),
            );
        }
    }
    for row in &rows.endpoints {
        if row.enabled && !workspace.endpoints.iter().any(|endpoint| endpoint.name == row.name) {
            let act = Act::EnableEndpoint(row.endpoint_id, false);
            list.push(StepVerb::Disable, "endpoint", &row.name, NOT_CONFIGURED, act);
        }
    }
    Ok(())
}

async fn perform(store: &Store, workspace: &str, act: Act) -> anyhow::Result<()> {
    if let Act::CreateWorkspace = act {
        store.create_workspace(workspace).await?;
        return Ok(());
    }
    let rows = known_workspace(store, workspace).await?;
    let id = rows.id.with_context(|| format!("workspace {workspace} was removed meanwhile; run it again"))?;
    match act {
        Act::CreateWorkspace => {}
        Act::CreateAccount(account) => drop(create_account(store, id, account).await?),
        Act::ChangeAccount(account, settings) => store.change_account(id, account, settings).await?,
        Act::SetToken(row, account) => {
            store.set_account_token(id, row, account.token.reveal().clone()).await?;
        }
        Act::SetLimit(account, limit) => store.set_platform_limit(id, account, limit).await?,
        Act::PauseAccount(account, why) => store.pause_account(id, account, why).await?,
        Act::ResumeAccount(account) => store.resume_account(id, account).await?,
        Act::CreateChannel(channel) => drop(channels::create(store, id, &rows, channel).await?),
        Act::ChangeChannel(channel, settings) => store.change_channel(id, channel, settings).await?,
        Act::RenameChannel(channel, name) => store.rename_channel(id, channel, &name).await?,
        Act::RetargetChannel(channel, target) => {
            store.retarget_channel(id, channel, &target).await?;
        }
        Act::MoveChannel(channel, wanted) => channels::go_on(store, id, &rows, channel, wanted).await?,
        Act::PauseChannel(which) => {
            store.pause_channel(id, rows.channel(which)?, Timestamp::NEVER, CONFIGURED_PAUSE).await?;
        }
        Act::ResumeChannel(which) => store.resume_channel(id, rows.channel(which)?).await?,
        Act::DisableChannel(which) => {
            store.disable_channel(id, rows.channel(which)?, DisabledBy::Operator).await?;
        }
        Act::RemoveChannel(channel) => store.remove_channel(id, channel).await?,
        Act::CreateEndpoint(endpoint) => create_endpoint(store, id, endpoint).await?,
        Act::ChangeEndpoint(row, endpoint) => {
            let Endpoint { secret, settings, .. } = endpoint;
            store.change_endpoint(id, row, secret.reveal(), settings, store::SECRET_OVERLAP).await?;
        }
        Act::EnableEndpoint(endpoint, enabled) => store.enable_endpoint(id, endpoint, enabled).await?,
        Act::CreateSource(source) => sources::create(store, id, &rows, source).await?,
        Act::ChangeSource(row, source) => {
            store.change_source(id, row, sources::new_source(&rows, source)?).await?;
        }
        Act::EnableSource(row, enabled) => store.enable_source(id, row, enabled).await?,
        Act::RemoveSource(row) => store.remove_source(id, row).await?,
        Act::PutBot(bot) => bots::put(store, id, &rows, bot).await?,
        Act::RestBot(bot) => store.rest_bot(id, bot).await?,
    }
    Ok(())
}

impl Rows {
    /// Nothing of it does anything.
    fn is_still(&self) -> bool {
        self.sources.iter().all(|source| !source.enabled)
            && self.endpoints.iter().all(|endpoint| !endpoint.enabled)
            && self.accounts.iter().all(|account| account.paused)
    }

    fn channel(&self, which: Which) -> anyhow::Result<ChannelId> {
        match which {
            Which::Id(id) => Ok(id),
            Which::Name(name) => {
                let found = self.channels.iter().find(|row| row.name == name);
                Ok(found
                    .with_context(|| format!("channel {name} was removed meanwhile; run it again"))?
                    .channel_id)
            }
        }
    }
}

async fn create_account(store: &Store, id: WorkspaceId, account: Account) -> anyhow::Result<AccountId> {
    let new = store::NewAccount {
        platform: account.platform,
        name: account.name,
        token: account.token.reveal().clone(),
        settings: account.settings,
    };
    let limit = account.limit;
    let account_id = store.create_account(id, new).await?;
    if limit.is_some() {
        store.set_platform_limit(id, account_id, limit).await?;
    }
    if account.paused == Some(true) {
        store.pause_account(id, account_id, CONFIGURED_PAUSE).await?;
    }
    Ok(account_id)
}

async fn create_endpoint(store: &Store, id: WorkspaceId, endpoint: Endpoint) -> anyhow::Result<()> {
    let enabled = endpoint.enabled;
    let new = store::NewEndpoint {
        name: endpoint.name,
        kind: endpoint.kind,
        secret: endpoint.secret.reveal().clone(),
        settings: endpoint.settings,
    };
    let endpoint_id = store.create_endpoint(id, new).await?;
    if !enabled {
        store.enable_endpoint(id, endpoint_id, false).await?;
    }
    Ok(())
}

/// The keys that differ, with both values; a proxy may hold a password and a template is long, so these only say so.
fn differences(old: &Value, new: &Value) -> String {
    let mut words = Vec::new();
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return "changed".into();
    };
    let keys: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let (old, new) = (old.get(key).unwrap_or(&Value::Null), new.get(key).unwrap_or(&Value::Null));
        match (key.as_str(), old, new) {
            (_, old, new) if old == new => {}
            ("proxy" | "template", ..) => words.push(format!("{key} changed")),
            ("address", Value::String(old), Value::String(new)) => {
                words.push(format!("address {} → {}", shown::addresses(old), shown::addresses(new)));
            }
            ("settings", old @ Value::Object(_), new @ Value::Object(_)) => words.push(differences(old, new)),
            ("dedup_ttl" | "max_age", old, new) => {
                words.push(format!("{key} {} → {}", shown_span(old), shown_span(new)));
            }
            (_, old, new) => words.push(format!("{key} {} → {}", in_words(old), in_words(new))),
        }
    }
    words.join(", ")
}

fn in_words(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(n) if n.fract() != 0.0 => format!("{n:.3}").trim_end_matches('0').to_owned(),
            _ => number.as_f64().map_or_else(|| number.to_string(), |n| n.to_string()),
        },
        other => other.to_string(),
    }
}

fn shown_span(value: &Value) -> String {
    value.as_i64().map_or_else(|| in_words(value), |us| engine::span::show(domain::time::Span(us)))
}
