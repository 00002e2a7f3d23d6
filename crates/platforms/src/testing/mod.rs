//! A server of raw bytes for tests: it does to a connection exactly what the test says.

pub(crate) mod rows;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the server does with one connection.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Closes before reading anything.
    CloseUnread,
    /// Reads the request, then resets the connection.
    ReadThenReset,
    /// Reads the request, then says nothing for as long as the client waits.
    ReadThenHang,
    /// Reads the request and answers with these bytes, then closes.
    Bytes(Vec<u8>),
    /// Reads the request, answers with these bytes, then holds the connection open.
    BytesThenHang(Vec<u8>),
    /// Answers one request with the bytes, keeps the connection, closes it when the next request begins to arrive.
    BytesThenCloseAtReuse(Vec<u8>),
}

impl Act {
    pub(crate) fn json(status: u16, body: &str) -> Act {
        Act::Bytes(http(status, "application/json", body))
    }
}

/// A whole HTTP answer.
pub(crate) fn http(status: u16, content_type: &str, body: &str) -> Vec<u8> {
    http_with(status, &[("Content-Type", content_type)], body.as_bytes())
}

pub(crate) fn http_with(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The running server. Acts are used in order, the last one for ever.
#[derive(Debug)]
pub(crate) struct RawServer {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<Vec<u8>>>>,
    task: JoinHandle<()>,
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RawServer {
    pub(crate) async fn start(acts: Vec<Act>) -> RawServer {
        RawServer::start_on("127.0.0.1:0", acts, None).await
    }

    pub(crate) async fn start_tls(acts: Vec<Act>, name: &str) -> RawServer {
        RawServer::start_on("127.0.0.1:0", acts, Some(tls_acceptor(name))).await
    }

    /// A server whose answers name its own address.
    pub(crate) async fn start_knowing(acts: impl FnOnce(SocketAddr) -> Vec<Act>) -> RawServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acts = acts(listener.local_addr().unwrap());
        RawServer::run(listener, acts, None)
    }

    pub(crate) async fn start_on(
        address: &str,
        acts: Vec<Act>,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> RawServer {
        RawServer::run(TcpListener::bind(address).await.unwrap(), acts, tls)
    }

    fn run(listener: TcpListener, acts: Vec<Act>, tls: Option<tokio_rustls::TlsAcceptor>) -> RawServer {
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (seen, kept) = (connections.clone(), requests.clone());
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let n = seen.fetch_add(1, Ordering::SeqCst);
                let act = acts[n.min(acts.len() - 1)].clone();
                tokio::spawn(serve(stream, act, kept.clone(), tls.clone()));
            }
        });
        RawServer { address, connections, requests, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn n_connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Every request read to its end, as text.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests
            .lock()
            .unwrap()
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
            .collect()
    }
}

fn tls_acceptor(name: &str) -> tokio_rustls::TlsAcceptor {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    crate::transport::install_crypto_provider();
    let path = |ending: &str| format!("{}/tests/data/tls/{name}.{ending}", env!("CARGO_MANIFEST_DIR"));
    let certificate = CertificateDer::from_pem_file(path("pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(path("key")).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    tokio_rustls::TlsAcceptor::from(Arc::new(config))
}

type Kept = Arc<Mutex<Vec<Vec<u8>>>>;

async fn serve(stream: TcpStream, act: Act, kept: Kept, tls: Option<tokio_rustls::TlsAcceptor>) {
    match (&act, tls) {
        (Act::CloseUnread, _) => drop(stream),
        (Act::ReadThenReset, _) => {
            let mut stream = stream;
            read_request(&mut stream, &kept).await;
            stream.set_zero_linger().unwrap();
        }
        (_, None) => answer(stream, act, &kept).await,
        (_, Some(tls)) => {
            if let Ok(stream) = tls.accept(stream).await {
                answer(stream, act, &kept).await;
            }
        }
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, act: Act, kept: &Kept) {
    if !read_request(&mut stream, kept).await {
        return;
    }
    match act {
        Act::Bytes(bytes) => {
            drop(stream.write_all(&bytes).await);
            drop(stream.shutdown().await);
        }
        Act::BytesThenHang(bytes) => {
            drop(stream.write_all(&bytes).await);
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        Act::BytesThenCloseAtReuse(bytes) => {
            drop(stream.write_all(&bytes).await);
            drop(stream.read(&mut [0; 1]).await);
        }
        _ => tokio::time::sleep(Duration::from_secs(3600)).await,
    }
}

/// Reads head and body by its length; false when the client went away first.
async fn read_request(stream: &mut (impl AsyncRead + Unpin), kept: &Kept) -> bool {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let chunked_end = head.contains("transfer-encoding: chunked") && request.ends_with(b"0\r\n\r\n");
            let whole = request.len() >= end + 4 + length.unwrap_or(0usize);
            if chunked_end || (whole && !head.contains("transfer-encoding: chunked")) {
                kept.lock().unwrap().push(request);
                return true;
            }
        }
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => request.extend_from_slice(&piece[..n]),
            _ => return false,
        }
    }
}
