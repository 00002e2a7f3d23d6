//! Connections: where the server is, whether the wire is encrypted, and in whose name we act.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool_postgres::{
    ClientWrapper, Hook, HookError, Manager, ManagerConfig, Object, RecyclingMethod, Runtime,
};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::{Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::As;
use super::trouble::{Trouble, told};
use crate::address::PostgresUrl;
use crate::config::Actor;
use crate::error::{Result, StoreError};

/// Connections of one node; claims, commits and enqueues are short.
const CONNECTIONS_MAX: usize = 16;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a caller waits for a free connection.
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The first words of every connection. Nothing of the queue runs for long; a statement that does is in somebody's
/// way. Wake-ups are merged by us, so the functions need not say them.
const GREETING: &str = "SET statement_timeout = '60s'; SET lock_timeout = '10s'; \
     SET idle_in_transaction_session_timeout = '60s'; SET rupor.quiet = 'on'";
const HAS_ROLES: &str = "
SELECT count(*) = 2
  FROM pg_roles
 WHERE rolname IN ('rupor_app', 'rupor_dispatcher') AND pg_has_role(session_user, oid, 'MEMBER')";

#[derive(Debug, Clone)]
pub(super) struct Pool {
    pool: deadpool_postgres::Pool,
    url: PostgresUrl,
    address: String,
    /// The login may act as the plain roles, so it does.
    roles: bool,
    /// Connections made so far.
    made: Arc<AtomicU64>,
}

impl Pool {
    pub(super) async fn open(url: &PostgresUrl) -> Result<Pool> {
        let address = url.to_string();
        let config = config(url)?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match tls(&config) {
            Some(tls) => Manager::from_config(config, tls, recycling),
            None => Manager::from_config(config, NoTls, recycling),
        };
        let made = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&made);
        let pool = deadpool_postgres::Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .post_create(Hook::async_fn(move |client: &mut ClientWrapper, _| {
                let made = Arc::clone(&counted);
                Box::pin(async move {
                    client.batch_execute(GREETING).await.map_err(HookError::Backend)?;
                    made.fetch_add(1, Ordering::AcqRel);
                    Ok(())
                })
            }))
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| StoreError::Database(error.to_string()))?;
        let mut opened = Pool { pool, url: url.clone(), address, roles: false, made };
        opened.roles = opened.has_roles().await.map_err(|trouble| trouble.into_error(&opened.address))?;
        Ok(opened)
    }

    async fn has_roles(&self) -> std::result::Result<bool, Trouble> {
        let row = self.client().await?.query_one(HAS_ROLES, &[]).await?;
        Ok(row.get(0))
    }

    pub(super) fn connections(&self) -> u64 {
        self.made.load(Ordering::Acquire)
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) async fn client(&self) -> std::result::Result<Object, Trouble> {
        Ok(self.pool.get().await?)
    }

    pub(super) async fn session(&self) -> std::result::Result<Session, Trouble> {
        Ok(Session { client: Some(self.client().await?), open: false })
    }

    /// The first words of every transaction: who acts, and for whom. Everything is local to the transaction.
    pub(super) fn setup(&self, who: As, actor: Option<&Actor>) -> String {
        let mut words = self.role(who);
        if let Some(Actor { who, reason }) = actor {
            let reason = reason.as_deref().unwrap_or_default();
            words += &format!(
                "; SET LOCAL rupor.by = {}; SET LOCAL rupor.reason = {}",
                literal(who),
                literal(reason)
            );
        }
        words
    }

    fn role(&self, who: As) -> String {
        match (who, self.roles) {
            (As::App(id), true) => {
                format!("BEGIN; SET LOCAL ROLE rupor_app; SET LOCAL rupor.workspace = '{id}'")
            }
            (As::App(id), false) => format!("BEGIN; SET LOCAL rupor.workspace = '{id}'"),
            (As::Dispatcher, true) => "BEGIN; SET LOCAL ROLE rupor_dispatcher".to_owned(),
            // Without the roles we are the owner, whose policy asks for this word.
            (As::Dispatcher, false) => "BEGIN; SET LOCAL rupor.span = 'on'".to_owned(),
        }
    }

    /// A connection outside the pool, for listening.
    pub(super) async fn listener(&self) -> Result<(Client, Box<dyn Messages>)> {
        let config = config(&self.url)?;
        let unreachable = |error: tokio_postgres::Error| StoreError::Unreachable {
            address: self.address.clone(),
            problem: told(&error),
        };
        match tls(&config) {
            Some(tls) => {
                let (client, connection) = config.connect(tls).await.map_err(unreachable)?;
                Ok((client, Box::new(connection)))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await.map_err(unreachable)?;
                Ok((client, Box::new(connection)))
            }
        }
    }
}

/// Text as SQL writes it, whatever stands in it: SET takes no parameters.
fn literal(text: &str) -> String {
    let text = text.replace('\0', "").replace('\\', "\\\\").replace('\'', "''");
    format!("E'{text}'")
}

/// A connection that goes back to the pool only outside a transaction. A task that is cancelled inside one takes the
/// connection with it, and the server rolls back.
#[derive(Debug)]
pub(super) struct Session {
    client: Option<Object>,
    open: bool,
}

impl Session {
    pub(super) fn client(&self) -> &ClientWrapper {
        self.client.as_deref().expect("a session holds its connection until it is dropped")
    }

    pub(super) fn begin(&mut self) {
        self.open = true;
    }

    pub(super) fn end(&mut self) {
        self.open = false;
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(client) = self.client.take().filter(|_| self.open) {
            drop(Object::take(client));
        }
    }
}

/// What a raw connection says on its own; hides which kind of wire it is.
pub(super) trait Messages: Send {
    fn poll_message(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<tokio_postgres::AsyncMessage, tokio_postgres::Error>>>;
}

impl<T> Messages for Connection<Socket, T>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    fn poll_message(
        &mut self,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<std::result::Result<tokio_postgres::AsyncMessage, tokio_postgres::Error>>>
    {
        Connection::poll_message(self, cx)
    }
}

/// One connection of its own, for migrations.
pub(super) async fn connect(url: &PostgresUrl) -> Result<Client> {
    let config = config(url)?;
    let unreachable = |error: tokio_postgres::Error| StoreError::Unreachable {
        address: url.to_string(),
        problem: told(&error),
    };
    let client = match tls(&config) {
        Some(tls) => {
            let (client, connection) = config.connect(tls).await.map_err(unreachable)?;
            tokio::spawn(connection);
            client
        }
        None => {
            let (client, connection) = config.connect(NoTls).await.map_err(unreachable)?;
            tokio::spawn(connection);
            client
        }
    };
    Ok(client)
}

fn config(url: &PostgresUrl) -> Result<Config> {
    let bad = |problem: String| StoreError::BadAddress { address: url.to_string(), problem };
    let mut config: Config =
        url.expose().parse().map_err(|_| bad("it is not a well-formed PostgreSQL address".into()))?;
    if config.get_application_name().is_none() {
        config.application_name("rupor");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    Ok(config)
}

/// On this machine the wire needs no encryption; elsewhere it is asked for, and the certificate is checked.
fn tls(config: &Config) -> Option<MakeRustlsConnect> {
    let local = config.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    });
    let wanted = match config.get_ssl_mode() {
        SslMode::Disable => false,
        SslMode::Require => true,
        _ => !local,
    };
    wanted.then(|| MakeRustlsConnect::new(tls_config()))
}

fn tls_config() -> rustls::ClientConfig {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring speaks the default versions of TLS")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encrypted(url: &str) -> bool {
        tls(&url.parse().unwrap()).is_some()
    }

    #[test]
    fn only_a_local_wire_goes_unencrypted_unless_told() {
        assert!(!encrypted("postgres://u@127.0.0.1/d"));
        assert!(!encrypted("postgres://u@localhost:5/d"));
        assert!(!encrypted("postgres://u@%2Fvar%2Frun/d"));
        assert!(encrypted("postgres://u@db.example/d"));
        assert!(encrypted("postgres://u@localhost/d?sslmode=require"));
        assert!(!encrypted("postgres://u@db.example/d?sslmode=disable"));
    }
}
