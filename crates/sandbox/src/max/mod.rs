//! Max is not built yet: every request is answered honestly with 501.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::core::Core;
use crate::faults::{Fault, Kind};
use crate::platform::{Name, Platform, Target};
use crate::registry::{Account, Chat};
use crate::reply::{Refusal, Reply, Response};
use crate::request::{Head, Request};

/// The platform.
#[derive(Debug)]
pub struct Max {
    #[expect(dead_code, reason = "everything that will be built here needs it")]
    core: Arc<Core>,
}

impl Platform for Max {
    type Call = ();

    const NAME: Name = Name::Max;
    const BODY_BYTES_MAX: usize = 64 << 20;
    const ACCOUNT_FIELDS: &'static [&'static str] = &[];
    const CHAT_FIELDS: &'static [&'static str] = &[];

    fn new(core: Arc<Core>) -> Max {
        Max { core }
    }

    fn target(&self, head: &Head) -> Target {
        Target { method: format!("{} {}", head.method, head.path), ..Target::default() }
    }

    fn read(&self, request: Request) -> (Target, ()) {
        (self.target(&request.head), ())
    }

    async fn handle(&self, (): ()) -> Reply {
        Reply::refused(Response::text(501, "the sandbox does not speak max yet"))
    }

    fn fault_answer(&self, _fault: &Fault, _target: &Target) -> Option<Response> {
        None
    }

    fn knows_update_fault(&self, _kind: Kind) -> bool {
        false
    }

    fn inject(&self, _update: Map<String, Value>, _account: Option<&str>) -> Result<Value, Refusal> {
        Err(Refusal::bad("the sandbox does not speak max yet"))
    }

    fn complete_account(&self, account: Account) -> Result<Account, Refusal> {
        Ok(account)
    }

    fn complete_chat(&self, chat: Chat) -> Result<Chat, Refusal> {
        Ok(chat)
    }

    fn canonical_chat(&self, chat: &Value) -> Value {
        chat.clone()
    }

    fn stats(&self) -> Map<String, Value> {
        Map::new()
    }

    fn reset(&self) {}
}
