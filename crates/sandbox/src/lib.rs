//! The sandbox: Telegram, VK and MAX on loopback, to practise against.
//!
//! It shows what a reader of a channel would see, keeps a ledger of every request, and misbehaves on command.
//! It shares no code with the adapters: an emulator with our own types would repeat our own misreadings.
//!
//! # How a platform plugs in
//!
//! A platform is a folder with a struct that implements [`platform::Platform`]. `dispatch` takes each request through it:
//!
//! 1. `target(&head)`: from path, query and headers alone, who (`account`), what (`method`) and where (`chat`).
//!    A ledger row is opened with it; faults that strike before the body is read are matched with it.
//! 2. The body is read (up to `BODY_BYTES_MAX`; more arrives as `Body::TooLarge`).
//! 3. `read(request)` parses everything once into the platform's own `Call` and completes the `Target`.
//!    `Request::parameters()` understands query strings, forms and multipart bodies.
//! 4. A fault that strikes here is worded by `fault_answer` or performed on the wire; the platform need not care.
//! 5. `handle(call)` does the work and returns a `Reply`: the answer and the `Effect` that completes the ledger row.
//!    State changes come last, with no `await` after them.
//!
//! What is shared hangs on [`core::Core`], which the platform gets in `new`:
//!
//! | part | use |
//! |---|---|
//! | `core.clock` | the time; never ask the machine |
//! | `core.registry` | `account(NAME, token, \|blank\| self.complete_account(blank))` is `None` for unknown tokens; `chat(NAME, id)` |
//! | `core.chats` | `ensure` a chat, then `post`, `edit`, `remove` messages: this is what `/_/chats` and the page show; `raw` may hold the platform's own object, so it can be the only store; `next_number` counts ids per chat |
//! | `core.media` | `put(bytes)` keeps uploads by SHA-256; `MediaStore::url` is what the page loads |
//! | `core.limits` | `take(&[Window::new(key, most, window_ms)], now_ms)`: `Err(wait_ms)` when a window is full, `Ok` always with limits off |
//! | `core.faults` | `strike_update(NAME, &target, Kind::DuplicateUpdate)` when an update is queued, `Kind::WrongSecret` when a webhook call leaves |
//! | `core.hooks` | `post(url, headers, body)` for webhooks; retries are the platform's |
//! | `updates::UpdateQueue` | numbered updates with a wake-up for long polls |
//! | `core.tasks` | `spawn` whatever runs beside the requests; select long waits against `stopped()` |
//! | `core.pictures` | sample photographs, also at `/_/pictures/{name}.jpg` and `{name}~.jpg` |
//! | `core.number_of(name)` | stable made-up ids |
//!
//! A button on the page posts its `press` value to `/_/updates/{platform}`, so give it the body that `inject` understands.
//! The page's box for writing posts the short form `{"chat","from","text"}` there.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

pub mod chats;
pub mod clock;
pub mod core;
pub mod faults;
pub mod hooks;
pub mod ledger;
pub mod limits;
pub mod media;
pub mod pictures;
pub mod platform;
pub mod registry;
pub mod reply;
pub mod request;
pub mod updates;

mod control;
mod dispatch;
mod guard;
mod page;
mod server;
mod wire;

pub mod max;
pub mod telegram;
pub mod vk;

pub use clock::Clock;
pub use limits::LimitsMode;
pub use platform::Name;

use crate::core::Core;
use crate::dispatch::App;
use crate::faults::Fault;
use crate::platform::Platform;
use crate::registry::{Account, Chat};
use crate::reply::Refusal;

/// How a sandbox is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// Port 0 takes a free one.
    pub listen: SocketAddr,
    /// Listens beyond loopback too: everybody who can reach it sees and changes everything.
    pub exposed: bool,
    /// Decides chance (faults with a probability), pictures and made-up ids.
    pub seed: u64,
    /// Every token is a full-rights one and any numeric chat exists on first use.
    pub any_token: bool,
    pub limits: LimitsMode,
    /// Ledger rows kept per platform.
    pub ledger_max: usize,
    /// Visible messages kept per platform.
    pub messages_max: usize,
    /// Bytes of uploads kept.
    pub media_bytes_max: usize,
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            exposed: false,
            seed: 1,
            any_token: false,
            limits: LimitsMode::Off,
            ledger_max: 200_000,
            messages_max: 200_000,
            media_bytes_max: 512 << 20,
            clock: Clock::Wall,
        }
    }
}

/// Why a sandbox did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("{address} is not on loopback: everybody who can reach it could read and change everything")]
    Exposed { address: SocketAddr },
    #[error("cannot make the webhook client: {0}")]
    Client(#[from] reqwest::Error),
}

/// A running sandbox. Stops when it is dropped; `shutdown` also waits for the end.
#[derive(Debug)]
pub struct Sandbox {
    app: Arc<App>,
    address: SocketAddr,
    server: Option<JoinHandle<()>>,
}

impl Sandbox {
    /// Binds the address and serves until dropped.
    pub async fn start(options: Options) -> Result<Sandbox, StartError> {
        if !options.exposed && !options.listen.ip().is_loopback() {
            return Err(StartError::Exposed { address: options.listen });
        }
        let listen = |error| StartError::Listen { address: options.listen, error };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let core = Arc::new(Core::new(&options, format!("http://{address}"))?);
        let app = Arc::new(App {
            telegram: telegram::Telegram::new(Arc::clone(&core)),
            vk: vk::Vk::new(Arc::clone(&core)),
            max: max::Max::new(Arc::clone(&core)),
            core,
        });
        let server = tokio::spawn(server::run(listener, Arc::clone(&app)));
        Ok(Sandbox { app, address, server: Some(server) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:7900`
    pub fn origin(&self) -> &str {
        &self.app.core.origin
    }

    /// The API base of a platform: `http://127.0.0.1:7900/telegram`.
    pub fn base(&self, platform: Name) -> String {
        format!("{}/{}", self.origin(), platform.as_str())
    }

    /// The shared parts: ledger, chats, media, faults, registry.
    pub fn core(&self) -> &Core {
        &self.app.core
    }

    /// As `POST /_/accounts`.
    pub fn add_account(&self, body: &Value) -> Result<Arc<Account>, Refusal> {
        self.app.add_account(object(body)?)
    }

    /// As `POST /_/chats`.
    pub fn add_chat(&self, body: &Value) -> Result<Arc<Chat>, Refusal> {
        self.app.add_chat(object(body)?)
    }

    /// As `POST /_/faults`.
    pub fn arm(&self, body: &Value) -> Result<Fault, Refusal> {
        self.app.arm(Fault::parse(object(body)?)?)
    }

    /// As `POST /_/updates/{platform}`.
    pub fn inject(&self, platform: Name, body: &Value) -> Result<Value, Refusal> {
        self.app.inject(platform, object(body)?.clone())
    }

    /// As `POST /_/walls/{owner_id}`.
    pub fn put_on_wall(&self, owner_id: i64, posts: Value) -> Result<Value, Refusal> {
        self.app.vk.walls("POST", &owner_id.to_string(), None, posts)
    }

    /// As `PATCH /_/walls/{owner_id}/{post_id}`.
    pub fn change_on_wall(&self, owner_id: i64, post_id: i64, change: Value) -> Result<Value, Refusal> {
        self.app.vk.walls("PATCH", &owner_id.to_string(), Some(&post_id.to_string()), change)
    }

    /// As `DELETE /_/walls/{owner_id}/{post_id}`.
    pub fn remove_from_wall(&self, owner_id: i64, post_id: i64) -> Result<Value, Refusal> {
        self.app.vk.walls("DELETE", &owner_id.to_string(), Some(&post_id.to_string()), Value::Null)
    }

    /// As `POST /_/reset`.
    pub fn reset(&self) {
        self.app.reset();
    }

    /// Stops serving and waits until every connection has ended.
    pub async fn shutdown(mut self) {
        self.app.core.tasks.stop();
        if let Some(server) = self.server.take() {
            // It only ends; a panic in it has been printed already.
            drop(server.await);
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.app.core.tasks.stop();
    }
}

fn object(body: &Value) -> Result<&Map<String, Value>, Refusal> {
    body.as_object().ok_or_else(|| Refusal::bad("the body must be a JSON object"))
}
