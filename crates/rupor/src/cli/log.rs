//! Logs of long-running commands: to standard error, `RUPOR_LOG` says how much.

use tracing_subscriber::EnvFilter;

/// `RUPOR_LOG=debug`, or per module as in `rupor=debug,info`; JSON lines with `RUPOR_LOG_FORMAT=json`.
pub fn start() {
    start_at("info");
}

/// The same, with another level where `RUPOR_LOG` says nothing.
pub fn start_at(usual: &str) {
    let filter = EnvFilter::try_from_env("RUPOR_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let json = std::env::var("RUPOR_LOG_FORMAT").is_ok_and(|format| format == "json");
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second start in one process changes nothing.
    let _ = if json { builder.json().try_init() } else { builder.try_init() };
}
