//! Counters of this process, for `/metrics`. What the ledger counts itself (queues, lanes) is read from there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub struct Meters {
    counts: Mutex<BTreeMap<(&'static str, String), u64>>,
}

impl Meters {
    pub fn count(&self, name: &'static str, label: &str) {
        self.add(name, label, 1);
    }

    pub fn add(&self, name: &'static str, label: &str, n: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        match counts.get_mut(&(name, String::new())) {
            Some(value) if label.is_empty() => *value += n,
            _ => *counts.entry((name, label.to_owned())).or_default() += n,
        }
    }

    pub fn get(&self, name: &'static str, label: &str) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&(name, label.to_owned())).copied().unwrap_or_default()
    }

    /// In the text format of Prometheus.
    pub fn text(&self) -> String {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        let mut last = "";
        for ((name, label), value) in &*counts {
            if *name != last {
                let _ = writeln!(text, "# TYPE {name} counter");
                last = name;
            }
            let _ = match label.as_str() {
                "" => writeln!(text, "{name} {value}"),
                label => writeln!(text, "{name}{{kind=\"{}\"}} {value}", escaped(label)),
            };
        }
        text
    }
}

/// A label value as the format wants it.
pub fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_each_type_once_and_escapes_labels() {
        let meters = Meters::default();
        meters.count("rupor_claims_total", "");
        meters.add("rupor_claims_total", "", 2);
        meters.count("rupor_failures_total", "vk:\"5\"");
        meters.count("rupor_failures_total", "timeout");
        expect_test::expect![[r#"
            # TYPE rupor_claims_total counter
            rupor_claims_total 3
            # TYPE rupor_failures_total counter
            rupor_failures_total{kind="timeout"} 1
            rupor_failures_total{kind="vk:\"5\""} 1
        "#]]
        .assert_eq(&meters.text());
    }
}
