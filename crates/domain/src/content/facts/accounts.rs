//! VK accounts named by links and mentions, in the order of the text.

use crate::content::tokens::Reading;
use crate::content::{Fact, VkAccount};

/// Accounts kept per post; a list of followers is not evidence of anything.
const ACCOUNTS_MAX: usize = 32;

pub(super) fn accounts(reading: &Reading<'_>) -> Vec<Fact<VkAccount>> {
    let mut found: Vec<Fact<VkAccount>> = Vec::new();
    for (account, text, start, end) in reading.accounts.iter().take(ACCOUNTS_MAX) {
        if found.iter().any(|fact| fact.value == *account) {
            continue;
        }
        let evidence = reading.evidence_range("accounts.named", *text, *start as usize, *end as usize);
        found.push(Fact::new(account.clone(), evidence));
    }
    found
}
