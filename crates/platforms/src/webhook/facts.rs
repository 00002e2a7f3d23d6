//! What receivers of webhooks are like, as far as they are alike.

use domain::delivery::AmbiguityPolicy;

use crate::facts::{Cause, Facts, Remedy};
use crate::render::buttons::Rules;

pub static FACTS: Facts = Facts {
    name: super::NAME,
    title: "Webhook",
    // Never called: every channel names its own address.
    api_base: "https://localhost",
    usual_kind: "bot",
    account_rates: &[("", 20.0)],
    chat_rates: &[(None, 10.0)],
    // A call that is made again has the id of the first, by which its receiver knows it.
    ambiguity: AmbiguityPolicy::Resend,
    buttons: Rules {
        platform: super::NAME,
        buttons_max: 0,
        rows_max: 0,
        row_max: 0,
        link_row_max: 0,
        text_max: 0,
        callback_bytes_max: 0,
        schemes: &[],
    },
    causes: &[
        Cause {
            codes: &["webhook.redirect"],
            sentence: "the address of the webhook redirects elsewhere, and calls do not follow",
            remedy: Remedy::Words(
                "put the address it redirects to into the configuration, then `$ rupor apply`",
            ),
        },
        Cause {
            codes: &["webhook.address"],
            sentence: "the address of the webhook leads into a private or local network",
            remedy: Remedy::Words("use a public https address, or http on 127.0.0.1, then `$ rupor apply`"),
        },
        Cause {
            codes: &["webhook.gone"],
            sentence: "the receiver of the webhook says that it is gone for good",
            remedy: Remedy::Words("take the webhook out of the configuration, or correct its address"),
        },
        Cause {
            codes: &["webhook.refused"],
            sentence: "the receiver of the webhook refuses the call",
            remedy: Remedy::Words("compare its secret with the one here, and its log"),
        },
    ],
    quick_start: None,
    quick_read: None,
};

/// What `rupor check` says about limits.
pub const LIMITS: &str = "20 calls a second in all, 10 a second per address";
