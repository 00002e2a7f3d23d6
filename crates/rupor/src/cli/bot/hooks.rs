//! `rupor bot hooks`: where platforms call. The secret is drawn here, given to the platform and kept only as its hash.

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use domain::outcome::Failure;
use engine::addresses::{self, ApiBases};
use platforms::platform::{Account, Network, Receiver};
use platforms::secret::sha256;
use serde_json::json;
use store::{Bot, BotAccount, Store};

use super::live::perform;
use crate::cli::operator::OperatorArgs;
use crate::operate::bots::{BotOrder, find_bot};
use crate::operate::verb::find_workspace;

#[derive(Debug, Args)]
pub(super) struct Hooks {
    #[command(subcommand)]
    verb: HooksVerb,
}

#[derive(Debug, Subcommand)]
enum HooksVerb {
    /// Draw new addresses and secrets and tell the platforms; those before open nothing any more
    Set(Set),
    /// Show where the platforms call now
    Show(OfBot),
    /// Tell the platforms not to call any more, so that the bot can poll
    Remove(Remove),
}

#[derive(Debug, Args)]
struct Set {
    /// Name of the bot
    bot: String,
    /// The public address of this node, such as `https://bot.example.org`
    #[arg(long, value_name = "URL")]
    url: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct OfBot {
    /// Name of the bot
    bot: String,
    #[command(flatten)]
    operator: OperatorArgs,
}

#[derive(Debug, Args)]
struct Remove {
    /// Name of the bot
    bot: String,
    /// Also what other programs have set up beside it
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    operator: OperatorArgs,
}

/// Bytes of a drawn address and of a secret; the shortest field that a platform has for it is 50 characters.
const DRAWN_BYTES: usize = 16;

fn drawn() -> String {
    rand::random::<[u8; DRAWN_BYTES]>().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One account of a bot, ready to be spoken for.
struct Ear {
    row: store::Account,
    heard: BotAccount,
    account: Account,
    receiver: &'static dyn Receiver,
}

pub(super) async fn run(args: &Hooks) -> anyhow::Result<()> {
    match &args.verb {
        HooksVerb::Set(args) => set(args).await,
        HooksVerb::Show(args) => show(args).await,
        HooksVerb::Remove(args) => remove(args).await,
    }
}

async fn ears(operator: &OperatorArgs, bot: &str, network: &Network) -> anyhow::Result<(Bot, Vec<Ear>)> {
    let store: Store = operator.look().await?.store;
    let ws = find_workspace(&store, &operator.workspace(&store).await?).await?;
    let bot = find_bot(&store, ws, bot).await?;
    let bases = ApiBases::from_env(|name| std::env::var(name).ok());
    let rows = store.accounts(ws).await?;
    let mut ears = Vec::new();
    for heard in bot.accounts.clone() {
        let row =
            rows.iter().find(|row| row.account_id == heard.account_id).context("the account is gone")?;
        let account = addresses::account(row, &store.account_token(ws, heard.account_id).await?, &bases)?;
        network.admit(&account);
        let receiver = addresses::platform(&row.platform)?.receiver();
        let receiver = receiver.with_context(|| format!("account {}: on this platform a bot hears nobody, so there is nothing to call; take it out of the accounts of the bot", row.name))?;
        ears.push(Ear { row: row.clone(), heard, account, receiver });
    }
    Ok((bot, ears))
}

fn said<T>(ear: &Ear, done: Result<T, Failure>) -> anyhow::Result<T> {
    done.map_err(|failure| anyhow::anyhow!("{}: {}: {}", ear.row.name, failure.code, failure.message))
}

async fn set(args: &Set) -> anyhow::Result<()> {
    let base = args.url.trim_end_matches('/');
    let network = Network::default();
    let (bot, ears) = ears(&args.operator, &args.bot, &network).await?;
    let mut told = Vec::new();
    for ear in &ears {
        if ear.heard.receive != store::Receive::Webhook {
            bail!(
                "account {} polls; write receive = \"webhook\" in [bots.{}] and run `rupor apply` first",
                ear.row.name,
                bot.name
            );
        }
        let (key, secret) = (drawn(), drawn());
        let settings = said(ear, ear.receiver.hook_settings(&network, &ear.account).await)?;
        // Kept first: a platform may call before it has answered.
        let keep = async |settings: serde_json::Value| {
            let (account, secret_hash) = (ear.row.name.clone(), sha256(secret.as_bytes()));
            let order = BotOrder::SetHook { account, key: key.clone(), secret_hash, settings };
            perform(&args.operator, &args.bot, order).await
        };
        keep(settings.clone()).await?;
        let url = format!("{base}/hooks/{}/{key}", ear.row.platform);
        said(ear, ear.receiver.set_hook(&network, &ear.account, &url, &secret).await)?;
        let settings_now = said(ear, ear.receiver.hook_settings(&network, &ear.account).await)?;
        if settings_now != settings {
            keep(settings_now).await?;
        }
        // What was set before opens nothing any more, and a platform slows down where it is refused.
        let earlier = format!("/hooks/{}/", ear.row.platform);
        for hook in said(ear, ear.receiver.hooks(&network, &ear.account).await)? {
            if hook.own && hook.url != url && hook.url.contains(&earlier) {
                said(ear, ear.receiver.remove_hook(&network, &ear.account, &hook.url).await)?;
            }
        }
        told.push(json!({"account": ear.row.name, "url": url}));
    }
    args.operator.print(&told, || format!("the platforms call this node for {} accounts", told.len()))
}

async fn show(args: &OfBot) -> anyhow::Result<()> {
    let network = Network::default();
    let (_, ears) = ears(&args.operator, &args.bot, &network).await?;
    let mut told = Vec::new();
    for ear in &ears {
        let hooks = said(ear, ear.receiver.hooks(&network, &ear.account).await)?;
        let urls: Vec<String> = hooks.into_iter().map(|hook| hook.url).collect();
        let ours = ear.heard.hook_key.as_deref();
        let is_ours = urls.iter().any(|url| ours.is_some_and(|key| url.ends_with(key)));
        told.push(json!({"account": ear.row.name, "urls": urls, "ours": is_ours}));
    }
    args.operator.print(&told, || {
        let line = |hook: &serde_json::Value| {
            format!("{}: {} (ours: {})", hook["account"], hook["urls"], hook["ours"])
        };
        told.iter().map(line).collect::<Vec<_>>().join("\n")
    })
}

async fn remove(args: &Remove) -> anyhow::Result<()> {
    let network = Network::default();
    let (_, ears) = ears(&args.operator, &args.bot, &network).await?;
    let (mut removed, mut left) = (0, 0);
    for ear in &ears {
        for hook in said(ear, ear.receiver.hooks(&network, &ear.account).await)? {
            if !hook.own && !args.all {
                left += 1;
                continue;
            }
            said(ear, ear.receiver.remove_hook(&network, &ear.account, &hook.url).await)?;
            removed += 1;
        }
    }
    args.operator.print(&json!({"removed": removed, "left": left}), || match left {
        0 => format!("{removed} webhooks removed"),
        _ => format!("{removed} webhooks removed; {left} of other programs stay, --all removes them too"),
    })
}
