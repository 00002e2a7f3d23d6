//! Photos that come as bytes: as base64 inside JSON, or as the files of a form. Read first, kept when all else is right.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{HeaderMap, header};
use domain::ids::WorkspaceId;
use domain::message::Media;
use engine::ingest::{PICTURES_MAX, check_bytes, keep_bytes};
use serde_json::{Map, Value, json};
use store::Store;

use super::shapes::PhotoBytes;
use super::{ApiError, strict};

/// Characters of a file's name.
const NAME_MAX: usize = 200;
/// Parts of a form: every field of a message and a hundred channels.
const PARTS_MAX: usize = 200;

/// A photo with its name, not kept yet.
pub(crate) type Upload = (String, Bytes);

/// Takes what came as base64 out of a list, which then holds addresses alone.
pub(super) fn taken_out(field: &str, list: Option<&mut Value>) -> Result<Vec<Upload>, ApiError> {
    let Some(Value::Array(photos)) = list else {
        return Ok(Vec::new());
    };
    few_enough(field, photos.len())?;
    let mut uploads = Vec::new();
    // Taken out, not copied: it is most of the body.
    for (n, photo) in std::mem::take(photos).into_iter().enumerate() {
        if !photo.is_object() {
            photos.push(photo);
            continue;
        }
        let at = format!("{field}[{n}]");
        let form = || {
            let words = "a photo is an address, or {\"data\": \"BASE64\", \"name\": \"dog.jpg\"}";
            ApiError::field(&at, words)
        };
        let photo: PhotoBytes = strict::meant(photo).map_err(|_| form())?;
        uploads.push(decoded(&at, photo)?);
    }
    Ok(uploads)
}

/// The same where nothing but bytes is taken.
pub(super) fn read(field: &str, photos: Vec<PhotoBytes>) -> Result<Vec<Upload>, ApiError> {
    few_enough(field, photos.len())?;
    photos.into_iter().enumerate().map(|(n, photo)| decoded(&format!("{field}[{n}]"), photo)).collect()
}

fn few_enough(field: &str, n: usize) -> Result<(), ApiError> {
    match n > PICTURES_MAX {
        true => Err(ApiError::field(field, format!("{n} photos, at most {PICTURES_MAX}"))),
        false => Ok(()),
    }
}

fn decoded(field: &str, photo: PhotoBytes) -> Result<Upload, ApiError> {
    let bytes = platforms::base64::decode(&photo.data).filter(|bytes| !bytes.is_empty());
    let bytes = bytes.ok_or_else(|| ApiError::field(field, "data must be the bytes as base64"))?;
    checked(field, photo.name, bytes.into())
}

fn checked(field: &str, name: String, bytes: Bytes) -> Result<Upload, ApiError> {
    let name = if name.is_empty() { "photo".to_owned() } else { name };
    if name.chars().count() > NAME_MAX || name.chars().any(char::is_control) {
        return Err(ApiError::field(field, format!("a name has 1 to {NAME_MAX} characters")));
    }
    check_bytes(&name, &bytes).map_err(|error| ApiError::field(field, format!("{error:#}")))?;
    Ok((name, bytes))
}

/// Keeps them; the same bytes are kept once.
pub(super) async fn keep(
    store: &Store,
    ws: WorkspaceId,
    uploads: Vec<Upload>,
) -> Result<Vec<Media>, ApiError> {
    let kept = keep_bytes(store, ws, uploads).await;
    kept.map_err(|error| ApiError::field("photos", format!("{error:#}")))
}

/// A form of a browser or `curl -F`: files are photos, everything else is the field of its name as JSON would have it.
pub(crate) async fn form(headers: &HeaderMap, body: Vec<u8>) -> Result<(Value, Vec<Upload>), ApiError> {
    let mut request = Request::new(Body::from(body));
    let kind = headers.get(header::CONTENT_TYPE).cloned();
    request.headers_mut().extend(kind.map(|kind| (header::CONTENT_TYPE, kind)));
    // It is in memory already, and was counted while it came.
    axum::extract::DefaultBodyLimit::disable().apply(&mut request);
    let broken =
        |error: &dyn std::fmt::Display| ApiError::malformed(format!("the form cannot be read: {error}"));
    let mut parts = Multipart::from_request(request, &()).await.map_err(|error| broken(&error))?;
    let (mut fields, mut uploads, mut n_parts) = (Map::new(), Vec::new(), 0);
    while let Some(part) = parts.next_field().await.map_err(|error| broken(&error))? {
        n_parts += 1;
        if n_parts > PARTS_MAX {
            return Err(ApiError::malformed(format!("the form has more than {PARTS_MAX} parts")));
        }
        let (name, file) = (part.name().unwrap_or_default().to_owned(), part.file_name().map(str::to_owned));
        match file {
            Some(file) if name == "photo" || name == "photos" => {
                few_enough("photos", uploads.len() + 1)?;
                let bytes = part.bytes().await.map_err(|error| broken(&error))?;
                uploads.push(checked(&format!("photos[{}]", uploads.len()), file, bytes)?);
            }
            Some(_) => {
                return Err(ApiError::field(&name, "a file stands here; photos are files named photo"));
            }
            None => {
                let text = part.text().await.map_err(|error| broken(&error))?;
                set(&mut fields, &name, text)?;
            }
        }
    }
    Ok((Value::Object(fields), uploads))
}

/// One field of a form: text, but for the lists, the number and the switch.
fn set(fields: &mut Map<String, Value>, name: &str, text: String) -> Result<(), ApiError> {
    let name = if name == "photo" { "photos" } else { name };
    if name == "channels" || name == "photos" {
        let list = fields.entry(name).or_insert_with(|| json!([]));
        list.as_array_mut().into_iter().for_each(|list| list.push(json!(text)));
        return Ok(());
    }
    let value = match name {
        "date" => text.trim().parse::<i64>().map_or_else(|_| json!(text), |date| json!(date)),
        "dry_run" => text.trim().parse::<bool>().map_or_else(|_| json!(text), |dry_run| json!(dry_run)),
        _ => json!(text),
    };
    match fields.insert(name.to_owned(), value) {
        Some(_) => Err(ApiError::field(name, "it stands twice")),
        None => Ok(()),
    }
}
