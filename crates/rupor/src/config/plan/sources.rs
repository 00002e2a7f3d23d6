//! The part of a plan that is about sources. How far one was read stays with its row while it keeps its name.

use anyhow::Context;
use domain::ids::WorkspaceId;
use domain::shown;
use serde_json::json;
use store::{NewSource, Store};

use super::{Absent, Act, Listing, NOT_CONFIGURED, Rows, StepVerb, differences};
use crate::config::{Source, Workspace};

pub(super) fn acts(workspace: &Workspace, rows: &Rows, absent: Absent, list: &mut Listing<'_>) {
    for row in &rows.sources {
        if workspace.sources.iter().any(|source| source.name == row.name) {
            continue;
        }
        match absent {
            Absent::Remove => {
                list.push(
                    StepVerb::Remove,
                    "source",
                    &row.name,
                    NOT_CONFIGURED,
                    Act::RemoveSource(row.source_id),
                );
            }
            Absent::Disable if row.enabled => {
                let act = Act::EnableSource(row.source_id, false);
                list.push(StepVerb::Disable, "source", &row.name, NOT_CONFIGURED, act);
            }
            Absent::Disable => {}
        }
    }
    for source in &workspace.sources {
        match rows.sources.iter().find(|row| row.name == source.name) {
            None => {
                let detail = format!("{} {}", source.kind, shown::addresses(&source.address));
                list.push(
                    StepVerb::Create,
                    "source",
                    &source.name,
                    detail,
                    Act::CreateSource(source.clone()),
                );
            }
            Some(row) => changes(source, row, rows, list),
        }
    }
}

fn changes(source: &Source, row: &store::Source, rows: &Rows, list: &mut Listing<'_>) {
    let account = rows.accounts.iter().find(|account| Some(account.account_id) == row.account_id);
    let account = account.map(|account| account.name.as_str());
    let there =
        json!({"kind": row.kind, "address": row.address, "account": account, "settings": row.settings});
    let wanted = json!({
        "kind": source.kind, "address": source.address, "account": source.account, "settings": source.settings
    });
    if there != wanted {
        let act = Act::ChangeSource(row.source_id, source.clone());
        list.push(StepVerb::Change, "source", &source.name, differences(&there, &wanted), act);
    }
    if row.enabled != source.enabled {
        let verb = if source.enabled { StepVerb::Enable } else { StepVerb::Disable };
        list.push(verb, "source", &source.name, "", Act::EnableSource(row.source_id, source.enabled));
    }
}

pub(super) async fn create(
    store: &Store,
    ws: WorkspaceId,
    rows: &Rows,
    source: Source,
) -> anyhow::Result<()> {
    let enabled = source.enabled;
    let id = store.create_source(ws, new_source(rows, source)?).await?;
    if !enabled {
        store.enable_source(ws, id, false).await?;
    }
    Ok(())
}

pub(super) fn new_source(rows: &Rows, source: Source) -> anyhow::Result<NewSource> {
    let account_id = match &source.account {
        None => None,
        Some(name) => {
            let account = rows.accounts.iter().find(|account| account.name == *name);
            Some(
                account
                    .with_context(|| format!("account {name} was removed meanwhile; run it again"))?
                    .account_id,
            )
        }
    };
    let Source { kind, name, address, settings, .. } = source;
    Ok(NewSource { kind, name, address, account_id, settings })
}
