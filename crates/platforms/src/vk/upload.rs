//! VK's uploads: ask for an address, put the bytes there, save. Nothing of it is visible before it is attached.

use domain::message::MediaKind;
use domain::outcome::{Certainty, Failure, Scope};
use serde_json::Value;
use url::Url;

use super::send::ask_for;
use super::wire::{Call, attachment};
use crate::media::{File, file_of};
use crate::part::{MediaItem, Target};
use crate::platform::{Account, Fare, Network, Sending};
use crate::secret::SecretUrl;
use crate::transport::{Body, Field, Method, Payload, Request};
use crate::verdict::{Purpose, from_trouble, permanent, raw, shapeless, transient};

/// Where media are going: what is uploaded for messages is silently dropped from wall posts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// The owner of the wall.
    Wall(i64),
    /// The peer of the conversation.
    Messages(i64),
}

impl Place {
    pub(super) fn of(target: &Target) -> Place {
        match target {
            Target::Wall(owner) => Place::Wall(*owner),
            Target::Chat(id) | Target::User(id) => Place::Messages(*id),
            Target::Name(_) => Place::Messages(0),
        }
    }

    fn prefix(&self) -> &'static str {
        match self {
            Place::Wall(_) => "wall:",
            Place::Messages(_) => "messages:",
        }
    }

    /// The value of a handle remembers the place.
    pub(super) fn handle(&self, attachment: &str) -> String {
        format!("{}{attachment}", self.prefix())
    }

    /// The attachment in a handle, if it is for this place.
    pub(super) fn attachment<'a>(&self, handle: &'a str) -> Option<&'a str> {
        handle.strip_prefix(self.prefix())
    }

    /// The community whose wall it is.
    fn group(&self) -> Option<i64> {
        match self {
            Place::Wall(owner) if *owner < 0 => Some(-owner),
            _ => None,
        }
    }

    fn with_group(&self, call: Call) -> Call {
        match self.group() {
            Some(group) => call.with("group_id", group),
            None => call,
        }
    }
}

/// The steps share what they need.
struct Upload<'a> {
    network: &'a Network,
    account: &'a Account,
    sending: &'a Sending<'a>,
    place: &'a Place,
}

/// Uploads one medium and returns the name by which it is attached.
pub(super) async fn upload(
    network: &Network,
    account: &Account,
    sending: &Sending<'_>,
    place: &Place,
    item: &MediaItem,
) -> Result<String, Failure> {
    let upload = Upload { network, account, sending, place };
    let file = async || file_of(network, sending.media, item).await;
    match item.send_as {
        MediaKind::Photo => upload.photo(file).await,
        MediaKind::Video => upload.video(file, item).await,
        MediaKind::Animation | MediaKind::Document | MediaKind::Audio => upload.document(file, item).await,
    }
}

impl Upload<'_> {
    async fn photo(&self, file: impl AsyncFnOnce() -> Result<File, Failure>) -> Result<String, Failure> {
        let (server, save) = match self.place {
            Place::Wall(_) => {
                (self.place.with_group(Call::new("photos.getWallUploadServer")), "photos.saveWallPhoto")
            }
            Place::Messages(peer) => (
                Call::new("photos.getMessagesUploadServer").with("peer_id", peer),
                "photos.saveMessagesPhoto",
            ),
        };
        let server = self.call(server).await?;
        let stored = self.put(&server, "photo", file().await?).await?;
        // A picture that VK cannot read is answered with an empty list, not with an error.
        let photo = text(&stored["photo"]).filter(|list| list != "[]" && !list.is_empty());
        let photo = photo
            .ok_or_else(|| permanent(Scope::Delivery, "upload_refused", "vk could not read the picture"))?;
        let mut call = self.place.with_group(Call::new(save)).with("photo", photo);
        for field in ["server", "hash"] {
            call = call.with(field, text(&stored[field]).unwrap_or_default());
        }
        let saved = self.call(call).await?;
        attachment("photo", &saved[0]).ok_or_else(|| self.odd(&saved))
    }

    async fn document(
        &self,
        file: impl AsyncFnOnce() -> Result<File, Failure>,
        item: &MediaItem,
    ) -> Result<String, Failure> {
        let server = match self.place {
            Place::Wall(_) => self.place.with_group(Call::new("docs.getWallUploadServer")),
            Place::Messages(peer) => {
                Call::new("docs.getMessagesUploadServer").with("type", "doc").with("peer_id", peer)
            }
        };
        let server = self.call(server).await?;
        let file = file().await?;
        let title = item.media.file_name.clone().unwrap_or_else(|| file.filename.clone());
        let stored = self.put(&server, "file", file).await?;
        let Some(file) = text(&stored["file"]) else {
            let reason = text(&stored["error_descr"]).or_else(|| text(&stored["error"])).unwrap_or_default();
            return Err(permanent(
                Scope::Delivery,
                "upload_refused",
                format!("vk refused the file: {reason}"),
            ));
        };
        let saved = self.call(Call::new("docs.save").with("file", file).with("title", title)).await?;
        attachment("doc", &saved["doc"]).ok_or_else(|| self.odd(&saved))
    }

    async fn video(
        &self,
        file: impl AsyncFnOnce() -> Result<File, Failure>,
        item: &MediaItem,
    ) -> Result<String, Failure> {
        let name = item.media.file_name.clone().unwrap_or_else(|| "video".to_owned());
        let call = self.place.with_group(Call::new("video.save")).with("name", name).with("wallpost", 0);
        let server = self.call(call).await?;
        let named = serde_json::json!({
            "owner_id": server["owner_id"], "id": server["video_id"], "access_key": server["access_key"],
        });
        let name = attachment("video", &named).ok_or_else(|| self.odd(&server))?;
        self.put(&server, "video_file", file().await?).await?;
        Ok(name)
    }

    async fn call(&self, call: Call) -> Result<Value, Failure> {
        self.sending.budget.pay(Fare::Upload).await?;
        ask_for(Purpose::Upload, self.network, self.account, call, self.sending.deadlines.request).await
    }

    /// Puts the bytes where VK said. The address is foreign and holds a session: judged, and never printed.
    async fn put(&self, server: &Value, field: &str, file: File) -> Result<Value, Failure> {
        let address = server["upload_url"].as_str().and_then(|address| Url::parse(address).ok());
        let url = address.ok_or_else(|| self.odd(server))?;
        let part = Field::File { filename: file.filename, mime: file.mime, bytes: file.bytes };
        let request =
            Request::new(Method::Post, SecretUrl::new(url, "vk upload"), self.sending.deadlines.upload)
                .payload(Payload::Multipart(vec![(field.to_owned(), part)]));
        let answer = match self.network.egress.send(&self.account.route, request).await {
            Ok(answer) => answer,
            Err(trouble) => {
                let failure = from_trouble(&trouble, Scope::Delivery);
                return Err(Failure { certainty: Certainty::NotSent, ..failure });
            }
        };
        let Body::Whole(bytes) = &answer.body else {
            return Err(transient(Scope::Delivery, "upload_cut", "the answer of the upload was cut short"));
        };
        if answer.status == 413 {
            return Err(permanent(Scope::Delivery, "413", "vk: the file is too large").with_raw(raw(&answer)));
        }
        if !answer.is_success() {
            let message = format!("vk: upload answered with status {}", answer.status);
            return Err(transient(Scope::Delivery, "upload_failed", message).with_raw(raw(&answer)));
        }
        let body: Value = serde_json::from_slice(bytes).map_err(|_| {
            transient(Scope::Delivery, "upload_failed", "vk: the answer of the upload cannot be read")
                .with_raw(raw(&answer))
        })?;
        // Some servers wrap the answer, most do not.
        Ok(body.get("response").cloned().unwrap_or(body))
    }

    fn odd(&self, response: &Value) -> Failure {
        let failure = shapeless(response);
        self.account.redact(Failure { certainty: Certainty::NotSent, ..failure })
    }
}

/// A value that VK gives as a number or as a string.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(_) => Some(value.to_string()),
        _ => None,
    }
}
