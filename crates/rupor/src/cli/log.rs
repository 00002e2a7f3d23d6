//! Logs of long-running commands: to standard error, `RUPOR_LOG` says how much.
//!
//! What others wrote (names, posts, answers) may stand in a field: nothing of it ends a line or acts on a terminal.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::io::{IsTerminal, Write};
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};

use domain::shown;
use tracing::field::Field;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// `RUPOR_LOG=debug`, or per module as in `rupor=debug,info`; JSON lines with `RUPOR_LOG_FORMAT=json`.
pub(super) fn start() {
    start_at("info");
}

/// The same, with another level where `RUPOR_LOG` says nothing.
pub(super) fn start_at(usual: &str) {
    let filter = EnvFilter::try_from_env("RUPOR_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let json = std::env::var("RUPOR_LOG_FORMAT").is_ok_and(|format| format == "json");
    // A log that cannot be written (its disk is full) must not bring down whoever logs.
    let builder = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(is_coloured());
    // A second start in one process changes nothing.
    let _ = if json {
        builder.json().with_writer(Lines(std::io::stderr)).try_init()
    } else {
        builder.fmt_fields(debug_fn(field)).with_writer(std::io::stderr).try_init()
    };
    std::panic::set_hook(Box::new(tell_of_panic));
}

/// A panic is a line like any other: what it says may be foreign text. Where `RUST_BACKTRACE` asks for the way to it, that
/// is told once for each place and by a thread of its own: finding the names in a large binary keeps a processor busy for
/// a tenth of a second and more, and whatever shares the task of the one that panicked waits.
fn tell_of_panic(panic: &PanicHookInfo<'_>) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let said = panic.payload_as_str().unwrap_or_default();
    tracing::error!(at, said, "panicked");
    let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(at.clone());
    if !is_new {
        return;
    }
    let way = Backtrace::capture();
    if way.status() == BacktraceStatus::Captured {
        let telling = move || {
            for step in way.to_string().lines() {
                tracing::error!(at, "{step}");
            }
        };
        // Without a thread to tell it, the line above has to do.
        drop(std::thread::Builder::new().name("backtrace".to_owned()).spawn(telling));
    }
}

/// Colours are for people at a terminal; a file or a pipe gets plain text.
fn is_coloured() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// One field of a line for people; the message is a field too.
fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let value = format!("{value:?}");
    let value = shown::line(&value);
    match field.name() {
        "message" => write!(writer, "{value} "),
        name => write!(writer, "{name}={value} "),
    }
}

/// JSON escapes the controls of ASCII itself; the others are escaped on the way out.
#[derive(Debug, Clone, Copy)]
struct Lines<M>(M);

#[derive(Debug)]
struct Line<W>(W);

impl<'a, M: MakeWriter<'a>> MakeWriter<'a> for Lines<M> {
    type Writer = Line<M::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(self.0.make_writer())
    }
}

impl<W: Write> Write for Line<W> {
    /// The subscriber hands over a whole line at a time.
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        self.0.write_all(shown::page(&String::from_utf8_lossy(line)).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    const HOSTILE: &str = "кот\u{1b}[2J\r\n2026-11-18 ERROR forged\u{202e}\u{9b}\u{2028}";

    fn logged(json: bool) -> String {
        let kept = Kept::default();
        let writer = kept.clone();
        let writer = move || writer.clone();
        let builder = tracing_subscriber::fmt().with_target(false).with_ansi(false);
        let say = || {
            let span = tracing::info_span!("source", name = HOSTILE);
            let _entered = span.enter();
            tracing::warn!(name = HOSTILE, shown = %HOSTILE, debug = ?HOSTILE, "{HOSTILE}");
        };
        if json {
            tracing::subscriber::with_default(builder.json().with_writer(Lines(writer)).finish(), say);
        } else {
            let subscriber = builder.fmt_fields(debug_fn(field)).with_writer(writer).finish();
            tracing::subscriber::with_default(subscriber, say);
        }
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_foreign_name_cannot_forge_a_line_of_the_log() {
        for json in [false, true] {
            let log = logged(json);
            assert_eq!(log.matches('\n').count(), 1, "{log}");
            assert_eq!(shown::page(&log), log, "nothing acts on a terminal");
            assert!(log.contains("forged") && log.contains(r"\u202e") || log.contains(r"\u{202e}"), "{log}");
        }
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&logged(true)).unwrap()["fields"]["name"],
            HOSTILE
        );
    }
}
