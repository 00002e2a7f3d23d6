//! Tokens at rest: sealed with a key that lies outside the database.
//!
//! XChaCha20-Poly1305 with a random nonce; workspace and account are bound in, so that a sealed token moved to
//! another row does not open. The database holds one sealed known text (`key_check`), which tells a wrong key
//! from a damaged token.
//!
//! A rotation seals everything with the next key (`rupor.key.next`) in one transaction and then puts its file in the place
//! of the current one. A node that meets a row it cannot open looks into both files; so does one that starts after a
//! crash in between.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use domain::ids::{AccountId, SourceId, WorkspaceId};
use secrecy::{ExposeSecret, SecretBox, SecretString};

use crate::address::{Address, SqlitePath};
use crate::config::{Account, AccountSettings};
use crate::error::{KeyError, Result, StoreError};
use crate::intake::Source;

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const CHECK_TEXT: &[u8] = b"rupor key check 1";

type Key = Arc<SecretBox<[u8; KEY_BYTES]>>;

pub struct Keyring {
    keys: RwLock<Keys>,
    path: PathBuf,
}

#[derive(Clone)]
struct Keys {
    current: Key,
    /// The one before a rotation: a row may have been read while it was still sealed with it.
    before: Option<Key>,
    /// The file was not there: the key may be kept only if the database holds nothing sealed yet.
    fresh: bool,
    /// Lies in a file; a key in memory is rotated in memory.
    filed: bool,
}

impl Keyring {
    /// Where the key lies when nobody says otherwise: beside the file, else in the working folder.
    pub fn usual_path(address: &Address) -> PathBuf {
        match address {
            Address::Sqlite(SqlitePath::File(file)) => file.with_extension("key"),
            _ => PathBuf::from("rupor.key"),
        }
    }

    /// Reads the key file, or draws a new key that is written when the database first needs it.
    pub fn at(path: &Path) -> Result<Keyring> {
        let (key, fresh) = match read_key(path)? {
            Some(key) => (key, false),
            None => (draw(), true),
        };
        Ok(Keyring::of(Keys { current: key, before: None, fresh, filed: true }, path.to_owned()))
    }

    /// A key that is written nowhere, for tests and databases in memory.
    pub fn ephemeral(key: [u8; KEY_BYTES]) -> Keyring {
        let current = Arc::new(SecretBox::new(Box::new(key)));
        let keys = Keys { current, before: None, fresh: false, filed: false };
        Keyring::of(keys, PathBuf::from("(in memory)"))
    }

    fn of(keys: Keys, path: PathBuf) -> Keyring {
        Keyring { keys: RwLock::new(keys), path }
    }

    fn keys(&self) -> Keys {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Settles whether this key fits the database: `check` is its sealed known text. A key that was rotated meanwhile is
    /// found in its file. Returns the text to store where there was none.
    pub(crate) fn verify(&self, check: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let path = self.path.display().to_string();
        let fits = |key: &Key, sealed: &[u8]| unseal(key, sealed, b"check").as_deref() == Some(CHECK_TEXT);
        let keys = self.keys();
        match check {
            Some(sealed) if !keys.fresh && fits(&keys.current, sealed) => Ok(None),
            Some(sealed) => match self.filed_keys()?.into_iter().find(|key| fits(key, sealed)) {
                Some(key) => self.adopt(key).map(|()| None),
                None if keys.fresh => Err(KeyError::Missing { path }.into()),
                None => Err(KeyError::Wrong { path }.into()),
            },
            None => {
                self.persist()?;
                Ok(Some(seal(&keys.current, CHECK_TEXT, b"check")))
            }
        }
    }

    /// The keys that lie in the files now: the current one, the next one of a rotation, and the one before it, should the
    /// rotation not have reached the disk.
    fn filed_keys(&self) -> Result<Vec<Key>> {
        if !self.keys().filed {
            return Ok(Vec::new());
        }
        let found =
            [read_key(&self.path)?, read_key(&next_path(&self.path))?, read_key(&old_path(&self.path))?];
        Ok(found.into_iter().flatten().collect())
    }

    /// Goes on with another key. If it is the next one, its file takes the place of the current one's, which is kept
    /// beside it for the backups that it opens.
    fn adopt(&self, key: Key) -> Result<()> {
        let (path, next) = (&self.path, next_path(&self.path));
        let keys = self.keys();
        let same = |file: Option<Key>| file.is_some_and(|file| file.expose_secret() == key.expose_secret());
        // Another node of this machine may have moved the files already; then nothing is left to do.
        if keys.filed && same(read_key(&next)?) && !same(read_key(path)?) {
            let moved = match path.exists() {
                true => std::fs::rename(path, old_path(path)),
                false => Ok(()),
            };
            moved
                .and_then(|()| std::fs::rename(&next, path))
                .map_err(|error| unusable(path, &error.to_string()))?;
        }
        let mut held = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let before = (!keys.fresh).then_some(keys.current);
        *held = Keys { current: key, before, fresh: false, filed: keys.filed };
        Ok(())
    }

    /// Makes the next key and writes its file, so that it can be brought to the other machines before it is used. Says
    /// where it lies. One that is there already stays.
    pub fn prepare(&self) -> Result<PathBuf> {
        let next = next_path(&self.path);
        if self.keys().filed && read_key(&next)?.is_none() {
            write_key(&next, &draw())?;
        }
        Ok(next)
    }

    /// Everything that is needed to seal with the next key what the current one opens.
    pub(crate) fn rotation(&self) -> Result<Rotation> {
        let keys = self.keys();
        let next = match keys.filed {
            true => {
                let path = self.prepare()?;
                read_key(&path)?.ok_or_else(|| unusable(&path, "it went away"))?
            }
            false => draw(),
        };
        Ok(Rotation { from: keys.current, to: next })
    }

    /// The rows are sealed with the next key: it is the current one now.
    pub(crate) fn rotated(&self, rotation: &Rotation) -> Result<()> {
        self.adopt(Arc::clone(&rotation.to))
    }

    pub(crate) fn seal_token(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        token: &SecretString,
    ) -> Vec<u8> {
        seal(&self.keys().current, token.expose_secret().as_bytes(), bound(workspace, account).as_bytes())
    }

    pub(crate) fn open_token(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        sealed: &[u8],
    ) -> Result<SecretString> {
        let wrong = || StoreError::Key(KeyError::Wrong { path: self.path.display().to_string() });
        let text = self.unseal(sealed, bound(workspace, account).as_bytes()).ok_or_else(wrong)?;
        Ok(SecretString::from(String::from_utf8(text).map_err(|_| wrong())?))
    }

    /// The addresses of an account that carry credentials; `None`: there is nothing to seal.
    pub(crate) fn seal_addresses(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        settings: &AccountSettings,
    ) -> Option<Vec<u8>> {
        let addresses = serde_json::to_vec(&settings.private_addresses()?).ok()?;
        Some(seal(&self.keys().current, &addresses, addresses_of(workspace, account).as_bytes()))
    }

    /// An account with its addresses whole. With a key that does not fit they stay masked: looking goes on, and
    /// sending meets the same trouble with the token.
    pub(crate) fn open_addresses(&self, mut account: Account, sealed: Option<&[u8]>) -> Account {
        let bound = addresses_of(account.workspace_id, account.account_id);
        let text = sealed.and_then(|sealed| self.unseal(sealed, bound.as_bytes()));
        if let Some(addresses) = text.and_then(|text| serde_json::from_slice(&text).ok()) {
            account.settings.fill_in(addresses);
        }
        account
    }

    /// The address of a source that carries a key; `None`: it may stand in clear.
    pub(crate) fn seal_source(
        &self,
        workspace: WorkspaceId,
        source: SourceId,
        address: &str,
    ) -> Option<Vec<u8>> {
        let is_secret = source_shown(address) != address;
        let bound = source_of(workspace, source);
        is_secret.then(|| seal(&self.keys().current, address.as_bytes(), bound.as_bytes()))
    }

    /// A source with its address whole. With a key that does not fit it stays masked: looking goes on.
    pub(crate) fn open_source(&self, mut source: Source, sealed: Option<&[u8]>) -> Source {
        let bound = source_of(source.workspace_id, source.source_id);
        let text = sealed.and_then(|sealed| self.unseal(sealed, bound.as_bytes()));
        if let Some(address) = text.and_then(|text| String::from_utf8(text).ok()) {
            source.address = address;
        }
        source
    }

    /// Tells equal tokens from different ones without telling the token.
    pub(crate) fn fingerprint(&self, token: &SecretString) -> String {
        fingerprint(&self.keys().current, token.expose_secret().as_bytes())
    }

    /// With the current key, with the one before, or with one that a rotation has put into the files meanwhile.
    fn unseal(&self, sealed: &[u8], bound: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys();
        let known = std::iter::once(keys.current).chain(keys.before);
        if let Some(text) = known.into_iter().find_map(|key| unseal(&key, sealed, bound)) {
            return Some(text);
        }
        let (key, text) = self
            .filed_keys()
            .ok()?
            .into_iter()
            .find_map(|key| unseal(&key, sealed, bound).map(|text| (key, text)))?;
        if let Err(error) = self.adopt(key) {
            tracing::warn!(%error, "the new key is used, but its file could not be put in place");
        }
        Some(text)
    }

    fn persist(&self) -> Result<()> {
        let keys = self.keys();
        if keys.fresh {
            write_key(&self.path, &keys.current)?;
        }
        Ok(())
    }
}

/// From one key to the next.
pub(crate) struct Rotation {
    from: Key,
    to: Key,
}

/// An account's row as the next key seals it.
pub(crate) struct Resealed {
    pub token: Vec<u8>,
    pub addresses: Option<Vec<u8>>,
    pub fingerprint: String,
}

impl Rotation {
    /// The known text, sealed with the next key.
    pub(crate) fn check(&self) -> Vec<u8> {
        seal(&self.to, CHECK_TEXT, b"check")
    }

    /// What the current key does not open stays as it is, for nobody can open it.
    pub(crate) fn reseal_source(&self, workspace: WorkspaceId, source: SourceId, sealed: &[u8]) -> Vec<u8> {
        let bound = source_of(workspace, source);
        match unseal(&self.from, sealed, bound.as_bytes()) {
            Some(address) => seal(&self.to, &address, bound.as_bytes()),
            None => sealed.to_vec(),
        }
    }

    /// `None`: the current key does not open it. It stays as it is then, for nobody can open it.
    pub(crate) fn reseal(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        token: &[u8],
        addresses: Option<&[u8]>,
    ) -> Option<Resealed> {
        let bound = bound(workspace, account);
        let open = unseal(&self.from, token, bound.as_bytes())?;
        let addresses_bound = addresses_of(workspace, account);
        let addresses = addresses
            .and_then(|sealed| unseal(&self.from, sealed, addresses_bound.as_bytes()))
            .map(|text| seal(&self.to, &text, addresses_bound.as_bytes()));
        Some(Resealed {
            token: seal(&self.to, &open, bound.as_bytes()),
            addresses,
            fingerprint: fingerprint(&self.to, &open),
        })
    }
}

/// The address of a source as the database keeps it for everybody to read. Ids, names and paths hold no keys.
pub(crate) fn source_shown(address: &str) -> String {
    match address.contains("://") {
        true => domain::shown::address(address),
        false => address.to_owned(),
    }
}

fn draw() -> Key {
    Arc::new(SecretBox::new(Box::new(rand::random::<[u8; KEY_BYTES]>())))
}

fn next_path(path: &Path) -> PathBuf {
    with_ending(path, ".next")
}

fn old_path(path: &Path) -> PathBuf {
    with_ending(path, ".old")
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn read_key(path: &Path) -> Result<Option<Key>> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            refuse_exposed(path)?;
            let key = decode(text.trim()).ok_or_else(|| unusable(path, "it does not hold 64 hex digits"))?;
            Ok(Some(Arc::new(SecretBox::new(Box::new(key)))))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unusable(path, &error.to_string()).into()),
    }
}

fn write_key(path: &Path, key: &Key) -> Result<()> {
    let hex: String = key.expose_secret().iter().map(|byte| format!("{byte:02x}")).collect();
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let written = options.open(path).and_then(|mut file| {
        writeln!(file, "{hex}")?;
        file.sync_all()
    });
    written.map_err(|error| unusable(path, &error.to_string()).into())
}

fn fingerprint(key: &Key, token: &[u8]) -> String {
    let key = blake3::derive_key("rupor 2026 token fingerprint", key.expose_secret());
    blake3::keyed_hash(&key, token).to_hex()[..32].to_owned()
}

fn seal(key: &Key, text: &[u8], bound: &[u8]) -> Vec<u8> {
    let nonce: [u8; NONCE_BYTES] = rand::random();
    let sealed = XChaCha20Poly1305::new(key.expose_secret().into())
        .encrypt(&XNonce::from(nonce), Payload { msg: text, aad: bound })
        .expect("sealing fails only for texts beyond 256 GiB");
    [nonce.as_slice(), &sealed].concat()
}

fn unseal(key: &Key, sealed: &[u8], bound: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
    let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
    let cipher = XChaCha20Poly1305::new(key.expose_secret().into());
    cipher.decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: bound }).ok()
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("path", &self.path).finish_non_exhaustive()
    }
}

fn bound(workspace: WorkspaceId, account: AccountId) -> String {
    format!("token of account {account} in workspace {workspace}")
}

fn source_of(workspace: WorkspaceId, source: SourceId) -> String {
    format!("address of source {source} in workspace {workspace}")
}

fn addresses_of(workspace: WorkspaceId, account: AccountId) -> String {
    format!("addresses of account {account} in workspace {workspace}")
}

fn unusable(path: &Path, problem: &str) -> KeyError {
    KeyError::Unusable { path: path.display().to_string(), problem: problem.to_owned() }
}

#[cfg(unix)]
fn refuse_exposed(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mode =
        std::fs::metadata(path).map_err(|e| unusable(path, &e.to_string()))?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed { path: path.display().to_string(), mode }.into());
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_exposed(_: &Path) -> Result<()> {
    Ok(())
}

fn decode(hex: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    if hex.len() != 2 * KEY_BYTES || !hex.is_ascii() {
        return None;
    }
    for (i, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WS: WorkspaceId = WorkspaceId(1);

    #[test]
    fn a_token_opens_only_in_its_own_row_and_with_its_own_key() {
        let ring = Keyring::ephemeral([7; 32]);
        let token = SecretString::from("123:секрет");
        let sealed = ring.seal_token(WS, AccountId(2), &token);
        assert_eq!(ring.open_token(WS, AccountId(2), &sealed).unwrap().expose_secret(), "123:секрет");
        assert!(ring.open_token(WS, AccountId(3), &sealed).is_err());
        assert!(Keyring::ephemeral([8; 32]).open_token(WS, AccountId(2), &sealed).is_err());
        assert!(ring.open_token(WS, AccountId(2), &sealed[..10]).is_err());
        assert_ne!(sealed, ring.seal_token(WS, AccountId(2), &token), "the nonce is drawn anew");
    }

    #[test]
    fn a_key_file_is_made_once_private_and_missed_when_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rupor.key");
        let check = Keyring::at(&path).unwrap().verify(None).unwrap().unwrap();
        assert!(Keyring::at(&path).unwrap().verify(Some(&check)).unwrap().is_none());
        let wrong = Keyring::ephemeral([1; 32]).verify(Some(&check)).unwrap_err();
        assert!(wrong.to_string().contains("put back the key"), "{wrong}");
        std::fs::remove_file(&path).unwrap();
        let missing = Keyring::at(&path).unwrap().verify(Some(&check)).unwrap_err();
        assert!(missing.to_string().contains("is missing"), "{missing}");
        assert!(!path.exists(), "a key that does not fit is not left behind");
    }

    #[cfg(unix)]
    #[test]
    fn a_key_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rupor.key");
        std::fs::write(&path, "00".repeat(32)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Keyring::at(&path).unwrap_err().to_string();
        assert!(refused.contains("chmod 600"), "{refused}");
    }

    #[test]
    fn a_keyring_does_not_print_its_key() {
        assert!(!format!("{:?}", Keyring::ephemeral([0xab; 32])).contains("171"));
    }
}
