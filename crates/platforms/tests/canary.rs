//! Canary secrets in every account, every fault, every log at trace level: none of them may show up anywhere.
//!
//! A process of its own, because it listens to all logs of the process: those of `tracing`, and those of `log`,
//! which the HTTP client writes.

#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

#[path = "it/world.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod world;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::message::{Media, MediaKind, Message};
use platforms::part::Action;
use platforms::platform::{Account, AccountSettings, Network};
use platforms::registry::PLATFORMS;
use platforms::secret::Token;
use sandbox::Name;
use sandbox::faults::{KINDS, Kind};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use world::{Store, World};

/// No piece of eight characters of it occurs in ordinary words.
const TOKEN: &str = "7712345987:AAqZx9Kw3-canary_Tv7Lm2Rp8Yb4Nd6Gh1";
const PROXY_PASSWORD: &str = "pq7Zk3Wx-canary-9Lm4";

/// Everything that was written anywhere.
#[derive(Clone, Default)]
struct Ear(Arc<Mutex<Vec<u8>>>);

impl Ear {
    fn hear(&self, text: &str) {
        let mut heard = self.0.lock().unwrap();
        heard.extend_from_slice(text.as_bytes());
        heard.push(b'\n');
    }

    fn check(&self, secret: &str) {
        let heard = self.0.lock().unwrap();
        let heard = String::from_utf8_lossy(&heard);
        for from in 0..secret.len() - 8 {
            let piece = &secret[from..from + 8];
            if let Some(at) = heard.find(piece) {
                let mut start = at.saturating_sub(300);
                while !heard.is_char_boundary(start) {
                    start -= 1;
                }
                panic!("a piece of a secret was written: {}", &heard[start..at]);
            }
        }
    }
}

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Ear {
    type Writer = Ear;

    fn make_writer(&'a self) -> Ear {
        self.clone()
    }
}

impl log::Log for Ear {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.hear(&format!("{} {} {}", record.level(), record.target(), record.args()));
    }

    fn flush(&self) {}
}

fn listen() -> Ear {
    let ear = Ear::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(ear.clone())
        .with_ansi(false)
        .init();
    log::set_logger(Box::leak(Box::new(ear.clone()))).unwrap();
    log::set_max_level(log::LevelFilter::Trace);
    let panics = ear.clone();
    std::panic::set_hook(Box::new(move |panic| panics.hear(&panic.to_string())));
    ear
}

async fn send_under(world: &World, ear: &Ear, name: Name, fault: &serde_json::Value) {
    world.arm(fault);
    let side = world.side_with_token(name, TOKEN);
    let media = Media { kind: MediaKind::Photo, blob: Some("picture".into()), ..Media::default() };
    let store = Store::with([("picture".to_owned(), world.sandbox.core().pictures.jpeg("dog"))]);
    let message = Message { media: vec![media], ..Message::text("Пропала собака") };
    for part in side.render(&Action::Send, &message) {
        let report = side.send_within(&part, "k", &[], &store, Duration::from_millis(500)).await;
        ear.hear(&format!(
            "{report:?} {:#?} {}",
            side.account,
            serde_json::to_string(&report.outcome).unwrap()
        ));
    }
    // These wait for the longer deadlines of questions, and would say nothing new.
    if fault["kind"].as_str().is_some_and(|kind| kind.ends_with("hang") || kind == "slow_drip") {
        world.sandbox.core().faults.clear();
        return;
    }
    let polled =
        side.platform.receiver().unwrap().poll(&world.network, &side.account, None, Duration::ZERO).await;
    let probe = side.platform.probe(&world.network, &side.account, Some(&side.settings)).await;
    ear.hear(&format!("{polled:?} {probe:?} {:?}", world.network));
    world.sandbox.core().faults.clear();
}

#[test]
fn no_canary_is_ever_written() {
    let ear = listen();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::start().await;
        for name in Name::ALL {
            for (kind, which, _) in KINDS {
                if matches!(which, Kind::DuplicateUpdate | Kind::WrongSecret) {
                    continue;
                }
                let fault = json!({"platform": name.as_str(), "kind": kind, "code": if *kind == "vk_error" { json!(5) } else { json!(null) }});
                if world.sandbox.arm(&fault).is_err() {
                    // A kind that this platform does not know.
                    continue;
                }
                world.sandbox.core().faults.clear();
                send_under(&world, &ear, name, &fault).await;
            }
        }
        dead_ends(&ear).await;
    });
    drop(std::panic::take_hook());
    ear.check(TOKEN);
    ear.check(PROXY_PASSWORD);
    // The ear hears: the client's own logs and ours are in there.
    let heard = String::from_utf8_lossy(&ear.0.lock().unwrap()).into_owned();
    assert!(heard.contains("starting new connection"), "the logs of the HTTP client were heard");
    assert!(heard.contains("request leaves"), "our own logs were heard");
}

/// Accounts whose network leads nowhere: no proxy there, no name, no port, a certificate that is missing.
async fn dead_ends(ear: &Ear) {
    let proxies = ["http", "https", "socks5", "socks5h"]
        .map(|scheme| format!("{scheme}://user:{PROXY_PASSWORD}@127.0.0.1:9"));
    let bases = ["https://127.0.0.1:9", "https://no-such-host.invalid", "http://127.0.0.1:9"];
    for platform in PLATFORMS {
        for (proxy, base) in proxies.iter().map(Some).chain([None]).flat_map(|p| bases.map(|base| (p, base)))
        {
            let settings = AccountSettings {
                api_base: Some(base.into()),
                proxy: proxy.cloned(),
                extra_roots: if proxy.is_none() { vec!["/no/such/root.pem".into()] } else { Vec::new() },
                ..AccountSettings::default()
            };
            ear.hear(&format!("{settings:?}"));
            let account = Account::new(*platform, Token::new(TOKEN), settings).unwrap();
            let probe = platform.probe(&Network::default(), &account, None).await;
            ear.hear(&format!("{probe:?} {account:?}"));
            assert!(probe.identity.is_err());
        }
    }
}
