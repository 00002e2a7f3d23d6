//! `rupor backup`: a copy of a SQLite database while its node runs.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use serde_json::json;
use store::Address;
use store::sqlite::backup::{BackedUp, backup};

use super::database::Database;
use super::operator::{block_on, say};

/// Copy a SQLite database and its media while the node runs
///
/// Writes FILE and the folder FILE.media; neither may be there. The key that opens the tokens is not part of a backup:
/// together they would give the tokens away. On PostgreSQL use pg_dump.
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// The file to write
    #[arg(value_name = "FILE")]
    to: PathBuf,
    #[command(flatten)]
    database: Database,
    /// Print JSON for programs
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Backup) -> anyhow::Result<()> {
    let address = args.database.address()?;
    let path = match &address {
        Address::Sqlite(path) => path,
        Address::Postgres(_) => bail!(
            "{address}: rupor backs up SQLite files; on PostgreSQL run `pg_dump --format=custom --file={} \
             DATABASE` as the owner of the tables with PGOPTIONS='-c rupor.span=on' and --enable-row-security, or as a \
             superuser; media lie in the database, and the key file is kept apart",
            args.to.display()
        ),
    };
    let done = block_on(async { Ok(backup(path, &args.to).await?) })?;
    let key = args.database.key_path(&address);
    match args.json {
        true => {
            let key_file = key.display().to_string();
            let done = json!({"bytes": done.bytes, "media": done.media, "media_missing": done.media_missing, "key_file": key_file});
            say(&done.to_string())
        }
        false => say(&summary(&args.to, &done, &key)),
    }
}

fn summary(to: &Path, done: &BackedUp, key: &Path) -> String {
    let mut lines = vec![format!("{}: {} bytes, checked", to.display(), done.bytes)];
    match done.media {
        0 => lines.push("no media are kept in files".into()),
        n => lines.push(format!("{}: {n} media files", done.media_folder.display())),
    }
    if done.media_missing > 0 {
        lines.push(format!(
            "{} photos and videos were missing from their folder; posts with them go out without",
            done.media_missing
        ));
    }
    lines.push(format!(
        "not part of it: the key {}, without which the tokens cannot be opened; keep a copy of it in another place",
        key.display()
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_says_that_the_key_is_not_in_it_and_where_it_is() {
        let media_folder = PathBuf::from("b.db.media");
        let done = BackedUp { bytes: 4_096, media: 2, media_missing: 1, media_folder };
        let text = summary(Path::new("b.db"), &done, Path::new("/var/lib/rupor/rupor.key"));
        assert!(text.contains("not part of it: the key /var/lib/rupor/rupor.key"), "{text}");
        assert!(text.contains("b.db.media: 2 media files\n1 photos and videos were missing"), "{text}");
    }
}
