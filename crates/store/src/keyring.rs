//! Tokens at rest: sealed with a key that lies outside the database.
//!
//! XChaCha20-Poly1305 with a random nonce; workspace and account are bound in, so that a sealed token moved to
//! another row does not open. The database holds one sealed known text (`key_check`), which tells a wrong key
//! from a damaged token.

use std::io::Write;
use std::path::{Path, PathBuf};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use domain::ids::{AccountId, WorkspaceId};
use secrecy::{ExposeSecret, SecretBox, SecretString};

use crate::address::{Address, SqlitePath};
use crate::error::{KeyError, Result, StoreError};

const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const CHECK_TEXT: &[u8] = b"rupor key check 1";

pub struct Keyring {
    key: SecretBox<[u8; KEY_BYTES]>,
    path: PathBuf,
    /// The file was not there: the key may be kept only if the database holds nothing sealed yet.
    fresh: bool,
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
        match std::fs::read_to_string(path) {
            Ok(text) => {
                refuse_exposed(path)?;
                let key =
                    decode(text.trim()).ok_or_else(|| unusable(path, "it does not hold 64 hex digits"))?;
                Ok(Keyring { key: SecretBox::new(Box::new(key)), path: path.to_owned(), fresh: false })
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let key = SecretBox::new(Box::new(rand::random::<[u8; KEY_BYTES]>()));
                Ok(Keyring { key, path: path.to_owned(), fresh: true })
            }
            Err(error) => Err(unusable(path, &error.to_string()).into()),
        }
    }

    /// A key that is written nowhere, for tests and databases in memory.
    pub fn ephemeral(key: [u8; KEY_BYTES]) -> Keyring {
        Keyring { key: SecretBox::new(Box::new(key)), path: PathBuf::from("(in memory)"), fresh: false }
    }

    /// Settles whether this key fits the database: `check` is its sealed known text.
    /// Returns the text to store where there was none.
    pub(crate) fn verify(&self, check: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        let path = self.path.display().to_string();
        match check {
            Some(_) if self.fresh => Err(KeyError::Missing { path }.into()),
            Some(sealed) => match self.unseal(sealed, b"check") {
                Some(text) if text == CHECK_TEXT => Ok(None),
                _ => Err(KeyError::Wrong { path }.into()),
            },
            None => {
                self.persist()?;
                Ok(Some(self.seal(CHECK_TEXT, b"check")))
            }
        }
    }

    pub(crate) fn seal_token(
        &self,
        workspace: WorkspaceId,
        account: AccountId,
        token: &SecretString,
    ) -> Vec<u8> {
        self.seal(token.expose_secret().as_bytes(), bound(workspace, account).as_bytes())
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

    /// Tells equal tokens from different ones without telling the token.
    pub(crate) fn fingerprint(&self, token: &SecretString) -> String {
        let key = blake3::derive_key("rupor 2026 token fingerprint", self.key.expose_secret());
        blake3::keyed_hash(&key, token.expose_secret().as_bytes()).to_hex()[..32].to_owned()
    }

    fn seal(&self, text: &[u8], bound: &[u8]) -> Vec<u8> {
        let nonce: [u8; NONCE_BYTES] = rand::random();
        let sealed = self
            .cipher()
            .encrypt(&XNonce::from(nonce), Payload { msg: text, aad: bound })
            .expect("sealing fails only for texts beyond 256 GiB");
        [nonce.as_slice(), &sealed].concat()
    }

    fn unseal(&self, sealed: &[u8], bound: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce: [u8; NONCE_BYTES] = nonce.try_into().ok()?;
        self.cipher().decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: bound }).ok()
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new(self.key.expose_secret().into())
    }

    fn persist(&self) -> Result<()> {
        if !self.fresh {
            return Ok(());
        }
        let hex: String = self.key.expose_secret().iter().map(|byte| format!("{byte:02x}")).collect();
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let written = options.open(&self.path).and_then(|mut file| {
            writeln!(file, "{hex}")?;
            file.sync_all()
        });
        written.map_err(|error| unusable(&self.path, &error.to_string()).into())
    }
}

impl std::fmt::Debug for Keyring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyring").field("path", &self.path).finish_non_exhaustive()
    }
}

fn bound(workspace: WorkspaceId, account: AccountId) -> String {
    format!("token of account {account} in workspace {workspace}")
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
