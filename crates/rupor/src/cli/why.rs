//! `rupor why`: why a post went where it went, or nowhere.

use clap::Args;

use super::operator::{OperatorArgs, block_on};
use crate::language::chosen;
use crate::operate::facts::gather;
use crate::operate::verb::find_channel;
use crate::why;

/// Tell the whole story of a post: seen, recognised, its case, each channel, and what comes next
///
/// A bare number is the id of a message; d12 is delivery 12.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    rupor why https://vk.com/wall-123_45\n  \
    rupor why 17 telegram\n  \
    rupor why d204 --json")]
pub(super) struct Why {
    /// Address of the post, id of its message, or d and the id of a delivery
    #[arg(value_name = "POST")]
    asked: String,
    /// Only this channel, by name or id
    channel: Option<String>,
    #[command(flatten)]
    operator: OperatorArgs,
}

pub(super) fn run(args: &Why) -> anyhow::Result<()> {
    block_on(async {
        let look = args.operator.look().await?;
        let workspace = args.operator.workspace(&look.store).await?;
        let only = match &args.channel {
            Some(name) => Some(find_channel(&look.store, &workspace, name).await?.1),
            None => None,
        };
        let known = gather(&look.store, &workspace, look.node).await?;
        let asked = why::find(&look.store, known.workspace.workspace_id, args.asked.trim()).await?;
        let story = why::gather(&look.store, &known, asked, only.as_ref()).await?;
        args.operator.print(&story, || why::words::story(&story, chosen()))
    })
}
