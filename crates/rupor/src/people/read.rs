//! Rows of a list become recipients: which column is what, and what cannot be an id.

use std::io::{BufRead, Read};

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use store::{NewRecipient, RecipientStatus};

use super::csv;

const ADDRESS: &str = "address";
const CHAT: &str = "chat";
const TIME_ZONE: &str = "time_zone";

/// `--map address=tg_id,name=first`: what we call it, and what the file does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns(Vec<(String, String)>);

impl Columns {
    pub(crate) fn parse(written: &str) -> Result<Columns, String> {
        let mut pairs = Vec::new();
        for pair in written.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (ours, theirs) = pair.split_once('=').map(|(a, b)| (a.trim(), b.trim())).unwrap_or_default();
            if ours.is_empty() || theirs.is_empty() {
                return Err(format!("{pair:?} is no pair; write address=COLUMN,name=COLUMN"));
            }
            let ours = if ours == "tz" { TIME_ZONE } else { ours };
            pairs.push((ours.to_owned(), theirs.to_owned()));
        }
        Ok(Columns(pairs))
    }

    /// What a column of the file is to us.
    fn ours<'a>(&'a self, theirs: &'a str) -> &'a str {
        self.0.iter().find(|(_, column)| column == theirs).map_or(theirs, |(ours, _)| ours)
    }

    fn check(&self, header: &[String]) -> anyhow::Result<()> {
        if let Some((_, missing)) = self.0.iter().find(|(_, theirs)| !header.contains(theirs)) {
            bail!("--map: the file has no column {missing:?}; its columns are {}", header.join(", "));
        }
        Ok(())
    }
}

/// A line of the list: somebody, or what is wrong with it.
#[derive(Debug)]
pub(crate) struct Row {
    /// As it stands in the file.
    pub raw: Vec<u8>,
    /// Bytes of the file up to its end.
    pub end: u64,
    pub person: Result<NewRecipient, String>,
}

/// The same where only ids are asked for.
#[derive(Debug)]
pub(crate) struct IdRow {
    pub raw: Vec<u8>,
    pub id: Result<String, String>,
}

/// A list that is being read.
#[derive(Debug)]
pub(crate) struct List<R> {
    from: R,
    shape: Shape,
    whose: Whose,
    at: u64,
}

/// Where people of a list come from, and what its columns are.
#[derive(Debug)]
pub(crate) struct Whose {
    pub columns: Columns,
    pub source: String,
    pub platform: String,
    /// The chat of a person, by platform and user id.
    pub address: fn(&str, &str) -> String,
}

#[derive(Debug)]
enum Shape {
    Csv { delimiter: u8, header: Vec<String> },
    Jsonl,
}

impl<R: BufRead> List<R> {
    /// Reads the header of a CSV file, which names the columns.
    pub(crate) fn open(mut from: R, is_csv: bool, whose: Whose) -> anyhow::Result<List<R>> {
        let (mut at, columns) = (0, &whose.columns);
        let shape = match is_csv {
            false => Shape::Jsonl,
            true => {
                let mut bytes = Vec::new();
                csv::record(&mut from, &mut bytes).context("the file cannot be read")?;
                at = bytes.len() as u64;
                let header = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
                let delimiter = csv::delimiter(header);
                let header = std::str::from_utf8(header)
                    .context("the first line is not UTF-8; save the file as \"CSV UTF-8\"")?;
                let header =
                    csv::fields(header, delimiter).map_err(|why| anyhow::anyhow!("first line: {why}"))?;
                let header: Vec<String> = header.iter().map(|name| name.trim().to_owned()).collect();
                if header.iter().all(String::is_empty) {
                    bail!("the first line is empty; it names the columns, such as address;name");
                }
                columns.check(&header)?;
                let ours: Vec<&str> = header.iter().map(|name| columns.ours(name)).collect();
                if !ours.contains(&ADDRESS) {
                    if let [one] = &header[..]
                        && let Some(between) = one.chars().find(|c| "|:^~*".contains(*c))
                    {
                        bail!(
                            "the first line is one column, {one:?}; put commas, semicolons or tabs between columns instead of {between:?}"
                        );
                    }
                    bail!(
                        "the file has no column `address`; its columns are {}; say which holds the user id with --map address=COLUMN",
                        header.join(", ")
                    );
                }
                Shape::Csv { delimiter, header }
            }
        };
        Ok(List { from, shape, whose, at })
    }

    /// Goes on where an earlier run stopped.
    pub(crate) fn skip_to(&mut self, offset: u64) -> anyhow::Result<()> {
        let wanted = offset.saturating_sub(self.at);
        let passed = std::io::copy(&mut self.from.by_ref().take(wanted), &mut std::io::sink())?;
        if passed < wanted {
            bail!("the file is shorter than it was; import it under another name with --name");
        }
        self.at += passed;
        Ok(())
    }

    /// The next line; `None` at the end.
    pub(crate) fn next_row(&mut self) -> anyhow::Result<Option<Row>> {
        let Some(raw) = self.next_line()? else {
            return Ok(None);
        };
        let person = self.cells(&raw).and_then(|cells| self.whose.recipient(cells));
        Ok(Some(Row { raw, end: self.at, person }))
    }

    /// The user id alone of the next line, and the line: whatever else is wrong with it does no harm.
    pub(crate) fn next_id(&mut self) -> anyhow::Result<Option<IdRow>> {
        let Some(raw) = self.next_line()? else {
            return Ok(None);
        };
        let id = self.cells(&raw).and_then(|mut cells| {
            cells.retain(|(name, _)| self.whose.columns.ours(name) == ADDRESS);
            self.whose.recipient(cells).map(|person| person.user_id)
        });
        Ok(Some(IdRow { raw, id }))
    }

    /// Empty lines are passed over.
    fn next_line(&mut self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut raw = Vec::new();
        loop {
            match self.shape {
                Shape::Csv { .. } => csv::record(&mut self.from, &mut raw)?,
                Shape::Jsonl => {
                    raw.clear();
                    let room = csv::RECORD_BYTES_MAX as u64 + 1;
                    std::io::Read::take(&mut self.from, room).read_until(b'\n', &mut raw)?;
                }
            };
            if raw.is_empty() {
                return Ok(None);
            }
            self.at += raw.len() as u64;
            if !raw.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(raw));
            }
        }
    }

    fn cells(&self, raw: &[u8]) -> Result<Vec<(String, Value)>, String> {
        if raw.len() > csv::RECORD_BYTES_MAX {
            return Err("longer than a megabyte; is a quote opened and never closed?".to_owned());
        }
        let text =
            std::str::from_utf8(raw).map_err(|_| "not UTF-8; save the file as \"CSV UTF-8\"".to_owned())?;
        if text.contains('\0') {
            return Err("it holds a NUL character".to_owned());
        }
        match &self.shape {
            Shape::Csv { delimiter, header } => {
                let fields = csv::fields(text, *delimiter)?;
                if fields.len() != header.len() {
                    return Err(format!(
                        "{} fields where the first line has {}; is the delimiter the same in every line?",
                        fields.len(),
                        header.len()
                    ));
                }
                Ok(header.iter().cloned().zip(fields.into_iter().map(Value::String)).collect())
            }
            Shape::Jsonl => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text);
                let map: Map<String, Value> =
                    serde_json::from_str(text).map_err(|error| format!("no JSON object: {error}"))?;
                Ok(map.into_iter().collect())
            }
        }
    }
}

impl Whose {
    /// Of an account's people, whose columns have our names.
    pub(crate) fn of(account: &store::Account, source: String) -> Whose {
        let address: fn(&str, &str) -> String = |platform, id| {
            engine::addresses::platform(platform)
                .map_or_else(|_| id.to_owned(), |known| known.address_of_person(id))
        };
        Whose { columns: Columns::default(), source, platform: account.platform.clone(), address }
    }

    /// What is told of somebody, cell by cell.
    pub(crate) fn recipient(
        &self,
        cells: impl IntoIterator<Item = (String, Value)>,
    ) -> Result<NewRecipient, String> {
        let (mut user_id, mut chat, mut time_zone) = (None, None, None);
        let mut attributes = Map::new();
        for (name, value) in cells {
            let text = match &value {
                Value::String(text) => text.trim().to_owned(),
                Value::Null => String::new(),
                other => other.to_string(),
            };
            match self.columns.ours(&name) {
                ADDRESS | CHAT | TIME_ZONE if text.is_empty() => {}
                ADDRESS => user_id = Some(id(&text)?),
                CHAT => chat = Some(id(&text)?),
                TIME_ZONE => {
                    jiff::tz::TimeZone::get(&text).map_err(|_| {
                        format!("{text:?} is no time zone; write a name such as Europe/Moscow")
                    })?;
                    time_zone = Some(text);
                }
                // An empty cell is something that is not known, nor any more.
                ours if text.is_empty() => {
                    attributes.insert(ours.to_owned(), Value::Null);
                }
                ours => {
                    let kept = if value.is_string() { Value::String(text) } else { value };
                    attributes.insert(ours.to_owned(), kept);
                }
            }
        }
        let user_id = user_id.ok_or_else(|| "the address is empty".to_owned())?;
        Ok(NewRecipient {
            address: chat.unwrap_or_else(|| (self.address)(&self.platform, &user_id)),
            user_id,
            attributes: Value::Object(attributes),
            time_zone,
            status: RecipientStatus::Active,
            source: self.source.clone(),
        })
    }
}

/// A number as platforms give it; everything that only looks like one is told apart.
pub(crate) fn id(text: &str) -> Result<String, String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let bare: String = text.chars().filter(|c| !" ()-\u{a0}".contains(*c)).collect();
    let is_mobile =
        |digits: &str| digits.len() == 11 && (digits.starts_with("79") || digits.starts_with("89"));
    if text.starts_with('@') || text.contains('/') {
        return Err(format!("{text:?} is a name; bots know people by number: give the user id"));
    }
    if text.starts_with('+') || is_mobile(&bare) {
        return Err(format!("{text:?} is a phone; bots know people by number: give the user id"));
    }
    let is_rounded =
        text.contains(['E', 'e']) && text.chars().all(|c| c.is_ascii_digit() || "eE+-.,".contains(c));
    if is_rounded {
        return Err(format!(
            "{text:?} was rounded by a spreadsheet, the id is lost; format the column as text and export again"
        ));
    }
    if !is_number || digits.len() > 19 {
        return Err(format!("{text:?} is no user id; it is a whole number"));
    }
    match text.parse::<i64>() {
        Ok(0) | Err(_) => Err(format!("{text:?} is no user id; it is a whole number")),
        Ok(number) => Ok(number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(file: &str, is_csv: bool, map: &str) -> anyhow::Result<List<std::io::Cursor<Vec<u8>>>> {
        let from = std::io::Cursor::new(file.as_bytes().to_vec());
        let columns = Columns::parse(map).unwrap();
        let address: fn(&str, &str) -> String = |_, id| id.to_owned();
        List::open(from, is_csv, Whose { columns, source: "import".into(), platform: "p".into(), address })
    }

    fn all(mut list: List<std::io::Cursor<Vec<u8>>>) -> Vec<Result<NewRecipient, String>> {
        let mut found = Vec::new();
        while let Some(row) = list.next_row().unwrap() {
            found.push(row.person);
        }
        found
    }

    #[test]
    fn people_are_read_from_what_spreadsheets_save() {
        let file = "\u{feff}tg_id;first;zone;city\r\n101;Анна;Europe/Moscow;\r\n102;\"Пётр; мл.\";;Пермь\r\n";
        let found = all(list(file, true, "address=tg_id,name=first,tz=zone").unwrap());
        let one = found[0].as_ref().unwrap();
        assert_eq!((one.user_id.as_str(), one.time_zone.as_deref()), ("101", Some("Europe/Moscow")));
        assert_eq!(
            one.attributes,
            serde_json::json!({"name": "Анна", "city": null}),
            "an empty cell is not known"
        );
        let two = found[1].as_ref().unwrap();
        assert_eq!(two.attributes, serde_json::json!({"name": "Пётр; мл.", "city": "Пермь"}));
        let lines = "{\"address\": 7, \"name\": \"Ия\", \"n\": 3}\nnot json\n";
        let found = all(list(lines, false, "").unwrap());
        assert_eq!(found[0].as_ref().unwrap().attributes, serde_json::json!({"name": "Ия", "n": 3}));
        assert!(found[1].as_ref().unwrap_err().contains("no JSON object"));
    }

    #[test]
    fn of_a_list_of_ids_nothing_else_is_asked() {
        let file = "tg_id;time_zone;chat\n101;Mars/Base;x\n@masha;;\n";
        let mut read = list(file, true, "address=tg_id").unwrap();
        assert_eq!(read.next_id().unwrap().unwrap().id, Ok("101".to_owned()));
        assert!(read.next_id().unwrap().unwrap().id.unwrap_err().contains("is a name"));
        assert!(read.next_id().unwrap().is_none());
    }

    #[test]
    fn it_goes_on_at_the_very_line_whatever_quotes_stand_before_it() {
        let lines = "{\"address\": 1, \"name\": \"5\\\" доска\"}\n{\"address\": 2}\n{\"address\": 3}\n";
        let mut first = list(lines, false, "").unwrap();
        let end = first.next_row().unwrap().unwrap().end;
        let mut second = list(lines, false, "").unwrap();
        second.skip_to(end).unwrap();
        let ids: Vec<String> = all(second).into_iter().map(|person| person.unwrap().user_id).collect();
        assert_eq!(ids, ["2", "3"]);
        let problem = list(lines, false, "").unwrap().skip_to(1_000).unwrap_err().to_string();
        assert!(problem.contains("the file is shorter than it was"), "{problem}");
    }

    #[test]
    fn what_cannot_be_an_id_is_told_with_the_reason() {
        let check = |text: &str, expected: &str| {
            let problem = id(text).unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        };
        check("@anna", "is a name");
        check("https://t.me/anna", "is a name");
        check("+7 912 345-67-89", "is a phone");
        check("8 (912) 345-67-89", "is a phone");
        check("79123456789", "is a phone");
        check("1,23E+11", "rounded by a spreadsheet");
        check("1.23e+11", "rounded by a spreadsheet");
        check("12a", "no user id");
        check("0", "no user id");
        assert_eq!(id("-1001234"), Ok("-1001234".into()));
        assert_eq!(id("5123456789"), Ok("5123456789".into()));
    }

    #[test]
    fn a_wrong_file_names_what_it_has() {
        let problem = list("id,name\n1,Анна\n", true, "").unwrap_err().to_string();
        assert!(
            problem.contains("its columns are id, name") && problem.contains("--map address=COLUMN"),
            "{problem}"
        );
        let problem = list("id,name\n", true, "address=tg").unwrap_err().to_string();
        assert!(problem.contains("no column \"tg\""), "{problem}");
        for empty in ["", "\n", "\u{feff}\r\n"] {
            let problem = list(empty, true, "").unwrap_err().to_string();
            assert!(problem.contains("the first line is empty"), "{problem}");
        }
        let problem = list("address|name\n1|Анна\n", true, "").unwrap_err().to_string();
        assert!(problem.contains("commas, semicolons or tabs") && problem.contains("'|'"), "{problem}");
        let found = all(list("address,tz\n1,Mars/Base\n2\n", true, "tz=tz").unwrap());
        assert!(found[0].as_ref().unwrap_err().contains("no time zone"));
        assert!(found[1].as_ref().unwrap_err().contains("1 fields where the first line has 2"));
    }
}
