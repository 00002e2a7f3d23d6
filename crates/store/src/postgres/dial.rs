//! Reaching the server: which host, how long to wait for it, and whether the wire is encrypted.
//!
//! Every connection goes through here, so none is without its limits: a host that swallows packets is passed over
//! within its own `connect_timeout`, and a peer that vanishes later is noticed by TCP itself. On this machine the wire
//! needs no encryption; beyond it both the encryption and the certificate are required, unless the address says
//! `sslmode=disable`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::trouble::error_text;
use crate::address::{PostgresUrl, Wishes};
use crate::error::{Result, StoreError};

/// How long one host may take to let us in, everything included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connected server may take to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// What was sent and is not acknowledged for so long was sent to nobody.
const USER_TIMEOUT: Duration = Duration::from_secs(10);
/// A wire on which nothing happens is asked whether it is still there: after this …
const KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
/// … and again after that, so many times.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const KEEPALIVE_RETRIES: u32 = 3;

/// How a server is reached. Clones share which host answered last.
#[derive(Clone)]
pub(super) struct Dial {
    hosts: Arc<[Line]>,
    /// The host that let us in last is asked first.
    first: Arc<AtomicUsize>,
    any_order: bool,
    address: String,
    /// How long a call may go without an answer.
    pub(super) answer_timeout: Duration,
}

/// The way to one host.
struct Line {
    name: String,
    config: Config,
    tls: Option<MakeRustlsConnect>,
    timeout: Duration,
}

impl Dial {
    pub(super) fn new(url: &PostgresUrl) -> Result<Dial> {
        let bad = |problem: String| StoreError::BadAddress { address: url.to_string(), problem };
        let wishes = url.wishes().map_err(bad)?;
        let mut config = wishes.config().map_err(bad)?;
        if config.get_application_name().is_none() {
            config.application_name("rupor");
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(USER_TIMEOUT);
        }
        if !wishes.names_keepalives {
            config.keepalives_idle(KEEPALIVE_IDLE).keepalives_interval(KEEPALIVE_INTERVAL);
            config.keepalives_retries(KEEPALIVE_RETRIES);
        }
        let n_hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
        if n_hosts > 1 && !wishes.names_session_attrs {
            // Of several servers only the one that takes writes is of use.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        let mut roots = None;
        let lines = (0..n_hosts).map(|n| line(&config, n, &wishes, &mut roots));
        let hosts = lines.collect::<std::result::Result<Vec<Line>, String>>().map_err(bad)?;
        Ok(Dial {
            hosts: hosts.into(),
            first: Arc::default(),
            any_order: config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            address: url.to_string(),
            answer_timeout: wishes.answer_timeout.unwrap_or(ANSWER_TIMEOUT),
        })
    }

    /// Connects to the first host that lets us in.
    pub(super) async fn connect(&self) -> std::result::Result<(Client, Box<dyn Messages>), Error> {
        let n_hosts = self.hosts.len();
        let first =
            if self.any_order { rand::random_range(0..n_hosts) } else { self.first.load(Ordering::Relaxed) };
        let mut last = None;
        for n in (0..n_hosts).map(|n| (first + n) % n_hosts) {
            let line = &self.hosts[n];
            match line.connect().await {
                Ok(connected) => {
                    self.first.store(n, Ordering::Relaxed);
                    return Ok(connected);
                }
                Err(error) if n_hosts > 1 => {
                    tracing::warn!(
                        host = line.name,
                        error = error_text(&error),
                        "a database host is passed over"
                    );
                    last = Some(error);
                }
                Err(error) => last = Some(error),
            }
        }
        // An address without a host is refused where it is read.
        Err(last.unwrap_or_else(Error::__private_api_timeout))
    }

    pub(super) fn unreachable(&self, error: &Error) -> StoreError {
        StoreError::Unreachable { address: self.address.clone(), problem: error_text(error) }
    }
}

impl Line {
    async fn connect(&self) -> std::result::Result<(Client, Box<dyn Messages>), Error> {
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.config.connect(tls.clone()).await?;
                    Ok((client, Box::new(connection) as Box<dyn Messages>))
                }
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    Ok((client, Box::new(connection) as Box<dyn Messages>))
                }
            }
        };
        // The driver limits the handshake of TCP only; a server that says nothing afterwards is as good as none.
        let timed_out = |_| Err(Error::__private_api_timeout());
        tokio::time::timeout(self.timeout, connecting).await.unwrap_or_else(timed_out)
    }
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial").field("address", &self.address).finish_non_exhaustive()
    }
}

impl deadpool_postgres::Connect for Dial {
    fn connect(
        &self,
        _: &Config,
    ) -> futures_util::future::BoxFuture<'_, std::result::Result<(Client, tokio::task::JoinHandle<()>), Error>>
    {
        Box::pin(async {
            let (client, connection) = Dial::connect(self).await?;
            Ok((client, tokio::spawn(drive(connection))))
        })
    }
}

/// What a raw connection says on its own; hides which kind of wire it is.
pub(super) trait Messages: Send {
    fn poll_message(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<AsyncMessage, Error>>>;
}

impl<T> Messages for Connection<Socket, T>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    fn poll_message(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<AsyncMessage, Error>>> {
        Connection::poll_message(self, cx)
    }
}

/// Moves the bytes of a connection until it ends.
pub(super) async fn drive(mut connection: Box<dyn Messages>) {
    loop {
        match std::future::poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                tracing::debug!(error = error_text(&error), "a connection to the database ended");
                return;
            }
            None => return,
        }
    }
}

/// One connection of its own, for migrations.
pub(crate) async fn connect(url: &PostgresUrl) -> Result<Client> {
    let dial = Dial::new(url)?;
    let (client, connection) = dial.connect().await.map_err(|error| dial.unreachable(&error))?;
    tokio::spawn(drive(connection));
    Ok(client)
}

fn line(
    config: &Config,
    n: usize,
    wishes: &Wishes,
    roots: &mut Option<Arc<rustls::ClientConfig>>,
) -> std::result::Result<Line, String> {
    let (host, address) = (config.get_hosts().get(n), config.get_hostaddrs().get(n));
    let wanted = is_encrypted(wishes.ssl_mode.as_deref(), host, address)?;
    let mut config = alone(config, n);
    config.ssl_mode(if wanted { SslMode::Require } else { SslMode::Disable });
    let tls = match (wanted, &*roots) {
        (false, _) => None,
        (true, Some(known)) => Some(known.clone()),
        (true, None) => Some(roots.insert(Arc::new(tls_config(wishes)?)).clone()),
    };
    let name = match (host, address) {
        (Some(Host::Tcp(name)), _) => name.clone(),
        #[cfg(unix)]
        (Some(Host::Unix(path)), _) => path.display().to_string(),
        (None, address) => address.map(ToString::to_string).unwrap_or_default(),
    };
    let timeout = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT);
    let tls = tls.map(|config| MakeRustlsConnect::new((*config).clone()));
    Ok(Line { name, config, tls, timeout })
}

/// The same with one host only; the driver cannot be told to take another time for each.
fn alone(config: &Config, n: usize) -> Config {
    let mut one = Config::new();
    if let Some(host) = config.get_hosts().get(n) {
        match host {
            Host::Tcp(name) => one.host(name),
            #[cfg(unix)]
            Host::Unix(path) => one.host_path(path),
        };
    }
    if let Some(address) = config.get_hostaddrs().get(n) {
        one.hostaddr(*address);
    }
    let ports = config.get_ports();
    if let Some(port) = ports.get(n).or_else(|| ports.first()) {
        one.port(*port);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(password) = config.get_password() {
        one.password(password);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    one.keepalives(config.get_keepalives()).keepalives_idle(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.ssl_negotiation(config.get_ssl_negotiation());
    one.target_session_attrs(config.get_target_session_attrs());
    one.channel_binding(config.get_channel_binding());
    one
}

/// Whether the wire to this host is encrypted, which always means that the certificate is checked, name and all.
fn is_encrypted(
    mode: Option<&str>,
    host: Option<&Host>,
    address: Option<&IpAddr>,
) -> std::result::Result<bool, String> {
    let local = match (host, address) {
        #[cfg(unix)]
        (Some(Host::Unix(_)), _) => return Ok(false),
        (_, Some(address)) => address.is_loopback(),
        (Some(Host::Tcp(name)), None) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        (None, None) => false,
    };
    match mode {
        None => Ok(!local),
        Some("disable") => Ok(false),
        Some("require" | "verify-full") => Ok(true),
        Some("prefer" | "allow") if local => Ok(false),
        Some(mode @ ("prefer" | "allow")) => Err(format!(
            "sslmode={mode} lets anybody on the way switch the encryption off; write sslmode=verify-full, or \
             sslmode=disable if nobody else is on that network"
        )),
        Some("verify-ca") => {
            Err("rupor checks the name in the certificate too; write sslmode=verify-full".into())
        }
        Some(other) => {
            Err(format!("sslmode={other} is not known; write sslmode=verify-full or sslmode=disable"))
        }
    }
}

/// Trusts the file that the address names, or what this system trusts.
fn tls_config(wishes: &Wishes) -> std::result::Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    match wishes.ssl_root_cert.as_deref() {
        None | Some("system") => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("this system has no root certificates to check the server with; install \
                            ca-certificates, or name a file with sslrootcert=FILE"
                    .into());
            }
        }
        Some(file) => {
            let unusable = |problem: String| format!("sslrootcert={file} cannot be used: {problem}");
            let read = CertificateDer::pem_file_iter(file).map_err(|error| unusable(error.to_string()))?;
            for certificate in read {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("there is no certificate in it".into()));
            }
        }
    }
    let config =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("ring speaks the default versions of TLS")
            .with_root_certificates(roots)
            .with_no_client_auth();
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;

    fn dial(text: &str) -> Result<Dial> {
        match Address::parse(text)? {
            Address::Postgres(url) => Dial::new(&url),
            Address::Sqlite(_) => panic!("{text} is not PostgreSQL"),
        }
    }

    fn encrypted(text: &str) -> Vec<bool> {
        dial(text).unwrap().hosts.iter().map(|line| line.tls.is_some()).collect()
    }

    #[test]
    fn only_a_local_wire_goes_unencrypted_unless_told() {
        for local in ["127.0.0.1", "localhost:5", "[::1]", "%2Fvar%2Frun"] {
            assert_eq!(encrypted(&format!("postgres://u@{local}/d")), [false], "{local}");
        }
        assert_eq!(encrypted("postgres://u@db.example/d"), [true]);
        assert_eq!(encrypted("postgres://u@db.example/d?sslmode=verify-full"), [true]);
        assert_eq!(encrypted("postgres://u@localhost/d?sslmode=require"), [true]);
        assert_eq!(encrypted("postgres://u@db.example/d?sslmode=disable"), [false]);
        assert_eq!(encrypted("postgres://u@127.0.0.1:1,db.example:2/d"), [false, true]);
    }

    #[test]
    fn a_mode_that_can_be_talked_down_is_refused_with_the_word_that_helps() {
        for (query, words) in [
            ("sslmode=prefer", "write sslmode=verify-full, or sslmode=disable"),
            ("sslmode=allow", "lets anybody on the way"),
            ("sslmode=verify-ca", "write sslmode=verify-full"),
            ("sslmode=yes", "is not known"),
            ("sslrootcert=/nowhere/ca.pem", "sslrootcert=/nowhere/ca.pem cannot be used"),
        ] {
            let refused = dial(&format!("postgres://u:секрет@db.example/d?{query}")).unwrap_err().to_string();
            assert!(refused.contains(words) && !refused.contains("секрет"), "{refused}");
        }
    }

    #[test]
    fn every_connection_has_its_limits_by_default() {
        let dial = dial("postgres://u@db.example:1,db2.example:2/d?connect_timeout=2").unwrap();
        assert_eq!(dial.answer_timeout, ANSWER_TIMEOUT);
        for (line, port) in dial.hosts.iter().zip([1, 2]) {
            assert_eq!(line.config.get_tcp_user_timeout(), Some(&USER_TIMEOUT));
            assert!(line.config.get_keepalives());
            assert_eq!(line.config.get_keepalives_idle(), KEEPALIVE_IDLE);
            assert_eq!(line.timeout, Duration::from_secs(2));
            assert_eq!((line.config.get_hosts().len(), line.config.get_ports()), (1, [port].as_slice()));
            assert_eq!(line.config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }
}
