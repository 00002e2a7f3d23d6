//! The error rows of the platform sheets as data: what a platform answers, and what that must mean.

use domain::outcome::{Category, Certainty, Scope};
use serde_json::{Value, json};

use crate::transport::Answer;
use crate::verdict::{Purpose, Verdict};

/// One answer of a platform, and the expected meaning in short form, e.g. `T C 429 37000`.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub purpose: Purpose,
    pub answer: Answer,
    pub expected: String,
}

fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

/// The rows of a platform's error table that have test data: how many cases each has. `## beyond` is none of them.
pub(crate) fn sheet_rows(text: &str) -> Vec<(&str, usize)> {
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for line in text.lines() {
        if let Some(row) = line.strip_prefix("## ") {
            rows.push((row, 0));
        } else if let (false, Some((_, n_cases))) = (line.starts_with('#'), rows.last_mut()) {
            *n_cases += 1;
        }
    }
    rows.retain(|(row, _)| *row != "beyond");
    rows
}

pub(crate) const TELEGRAM: &str = include_str!("../../tests/data/errors/telegram.tsv");
pub(crate) const VK: &str = include_str!("../../tests/data/errors/vk.tsv");
pub(crate) const MAX: &str = include_str!("../../tests/data/errors/max.tsv");

fn purpose(name: &str) -> Purpose {
    let named = |purpose: &Purpose| format!("{purpose:?}").eq_ignore_ascii_case(name);
    Purpose::ALL.into_iter().find(named).unwrap()
}

fn json_answer(status: u16, body: &Value) -> Answer {
    Answer::new(status, "application/json", body.to_string())
}

pub(crate) fn telegram() -> Vec<Row> {
    let row = |column: Vec<&str>| {
        let [name, status, description, parameters, expected] = column[..] else { panic!("{column:?}") };
        let status: u16 = status.parse().unwrap();
        let mut body = json!({ "ok": false, "error_code": status, "description": description });
        if parameters != "-" {
            body["parameters"] = serde_json::from_str(parameters).unwrap();
        }
        Row { purpose: purpose(name), answer: json_answer(status, &body), expected: expected.into() }
    };
    lines(TELEGRAM).map(row).collect()
}

pub(crate) fn vk() -> Vec<Row> {
    let row = |column: Vec<&str>| {
        let [name, code, subcode, message, expected] = column[..] else { panic!("{column:?}") };
        let code: i64 = code.parse().unwrap();
        let mut error = json!({ "error_code": code, "error_msg": message, "request_params": [] });
        if subcode != "-" {
            error["error_subcode"] = json!(subcode.parse::<i64>().unwrap());
        }
        let answer = json_answer(200, &json!({ "error": error }));
        Row { purpose: purpose(name), answer, expected: expected.into() }
    };
    lines(VK).map(row).collect()
}

pub(crate) fn max() -> Vec<Row> {
    let row = |column: Vec<&str>| {
        let [name, status, code, message, wait, expected] = column[..] else { panic!("{column:?}") };
        let status: u16 = status.parse().unwrap();
        let mut answer = match code {
            "-" => Answer::new(status, "text/plain", message.to_owned()),
            "soft" => json_answer(status, &json!({ "success": false, "message": message })),
            code => json_answer(status, &json!({ "code": code, "message": message })),
        };
        if wait != "-" {
            answer.headers.push(("retry-after".into(), wait.into()));
        }
        Row { purpose: purpose(name), answer, expected: expected.into() }
    };
    lines(MAX).map(row).collect()
}

/// A verdict in the short form of the rows.
pub(crate) fn short(verdict: &Verdict) -> String {
    let failure = match verdict {
        Verdict::Done(_) => return "done".into(),
        Verdict::DoneBlind => return "done_blind".into(),
        Verdict::Failed(failure) => failure,
    };
    let category = if failure.category == Category::Transient { "T" } else { "P" };
    let scope = match failure.scope {
        Scope::Delivery => "D",
        Scope::Channel => "C",
        Scope::Platform => "A",
    };
    let mut words = vec![category.to_owned(), scope.to_owned(), failure.code.clone()];
    words.extend(failure.retry_after_ms.map(|ms| ms.to_string()));
    words.extend((failure.certainty == Certainty::Unknown).then(|| "unknown".to_owned()));
    words.extend(failure.recipient_gone.then(|| "gone".to_owned()));
    words.join(" ")
}

/// Checks every row of a sheet, and the answers that all platforms treat alike.
pub(crate) fn check(rows: &[Row], classify: fn(Purpose, &crate::transport::Exchange) -> Verdict) {
    for row in rows {
        let verdict = classify(row.purpose, &Ok(row.answer.clone()));
        assert_eq!(short(&verdict), row.expected, "{row:?}");
        if let Verdict::Failed(failure) = verdict {
            assert!(!failure.message.is_empty(), "{row:?}");
            assert!(failure.raw["status"].is_u64(), "{row:?}");
        }
    }
}
