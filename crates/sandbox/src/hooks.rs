//! The client that calls bots back: webhooks of Telegram and MAX, the Callback API of VK.
//! One call at a time; when to try again is the platforms' business.
//! Certificates are not verified: a rehearsal on loopback has none worth verifying.

use std::sync::Once;
use std::time::Duration;

use bytes::Bytes;

/// Answers beyond this are cut; only a short call or a word is ever expected.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Makes webhook calls.
#[derive(Clone, Debug)]
pub struct Hooks {
    client: reqwest::Client,
}

/// What the bot's server said.
#[derive(Clone, Debug)]
pub struct HookAnswer {
    pub status: u16,
    /// Seconds of a `Retry-After` header.
    pub retry_after_s: Option<u64>,
    /// The same header as it came: some servers write a date.
    pub retry_after: Option<String>,
    pub body: Bytes,
}

impl HookAnswer {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Hooks {
    pub fn new() -> Result<Hooks, reqwest::Error> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Somebody else may have installed one already; either will do.
            drop(rustls::crypto::ring::default_provider().install_default());
        });
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(60))
            .connect_timeout(Duration::from_secs(5))
            .tls_danger_accept_invalid_certs(true)
            .build()?;
        Ok(Hooks { client })
    }

    /// Posts a JSON body with extra headers.
    pub async fn post(&self, url: &str, headers: &[(&str, &str)], body: Bytes) -> Result<HookAnswer, String> {
        let mut request = self.client.post(url).header("content-type", "application/json").body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut answer = request.send().await.map_err(|error| cause(&error))?;
        let status = answer.status().as_u16();
        let header = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = header.map(|text| text.trim().to_owned());
        let retry_after_s = retry_after.as_deref().and_then(|text| text.parse().ok());
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| cause(&error))? {
            body.extend_from_slice(&chunk[..chunk.len().min(ANSWER_BYTES_MAX - body.len())]);
            if body.len() >= ANSWER_BYTES_MAX {
                break;
            }
        }
        Ok(HookAnswer { status, retry_after_s, retry_after, body: body.into() })
    }

    /// Fetches a file, up to `bytes_max`; more than that is an error.
    pub async fn get(&self, url: &str, bytes_max: usize) -> Result<Bytes, String> {
        let mut answer = self.client.get(url).send().await.map_err(|error| cause(&error))?;
        if !answer.status().is_success() {
            return Err(format!("status {}", answer.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| cause(&error))? {
            if body.len() + chunk.len() > bytes_max {
                return Err(format!("more than {bytes_max} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body.into())
    }
}

/// The innermost cause, without the address, which may hold secrets.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
