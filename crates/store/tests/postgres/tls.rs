//! Encrypted wires: whom we believe, and what nobody can talk us out of.

use std::path::Path;
use std::process::Command;

use store::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::server::Server;

fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// An authority, and a certificate of it for the name `localhost` only.
fn certificates(folder: &Path) {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    for name in ["ca", "stranger"] {
        let (key_file, file, subject) = (format!("{name}.key"), format!("{name}.pem"), format!("/CN={name}"));
        let rest = ["-keyout", &key_file, "-out", &file, "-subj", &subject, "-days", "2"];
        openssl(folder, &[&["req", "-x509"], key.as_slice(), &rest].concat());
    }
    let rest = ["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"];
    openssl(folder, &[&["req", "-new"], key.as_slice(), &rest].concat());
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .unwrap();
    let sign = ["x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
    openssl(folder, &[&sign[..], &["-out", "server.crt", "-days", "2", "-extfile", "names"]].concat());
    std::fs::set_permissions(folder.join("server.key"), std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .unwrap();
}

async fn refused(address: &str) -> String {
    let address = Address::parse(address).unwrap();
    let refused = Store::migrate(&address).await.map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Unreachable { .. }), "{refused:?}");
    refused.to_string()
}

#[tokio::test]
async fn a_certificate_counts_only_for_its_own_name_and_from_a_known_authority() {
    let server = Server::start("-c ssl=on", certificates);
    let data = server.folder.path().join("data");
    // The folder of the data is private to its owner.
    let trusted = tempfile::tempdir().unwrap();
    let trust = |name: &str| {
        let copy = trusted.path().join(name);
        std::fs::copy(data.join(name), &copy).unwrap();
        copy.display().to_string()
    };
    let (ca, stranger) = (trust("ca.pem"), trust("stranger.pem"));
    let port = server.port;
    let by = |host: &str, query: &str| format!("postgres://postgres@{host}:{port}/postgres?{query}");

    let good = Address::parse(&by("localhost", &format!("sslmode=verify-full&sslrootcert={ca}"))).unwrap();
    Store::migrate(&good).await.unwrap();
    let store = Store::open(&good, Keyring::ephemeral([7; 32]), Clock::system()).await.unwrap();
    store.create_workspace("приют").await.unwrap();
    let admin = crate::world::connect(&server.url()).await;
    let encrypted = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'rupor'";
    assert!(admin.query_one(encrypted, &[]).await.unwrap().get::<_, i64>(0) > 0);

    let name = refused(&by("127.0.0.1", &format!("sslmode=verify-full&sslrootcert={ca}"))).await;
    assert!(name.contains("for another name"), "{name}");
    let authority = refused(&by("localhost", &format!("sslmode=require&sslrootcert={stranger}"))).await;
    assert!(authority.contains("signed by nobody we trust"), "{authority}");
    let system = refused(&by("localhost", "sslmode=verify-full&sslrootcert=system")).await;
    assert!(system.contains("sslrootcert=FILE"), "{system}");
}

/// Somebody on the way who says that there is no encryption, and would gladly read the password.
#[tokio::test]
async fn a_server_that_says_it_has_no_encryption_hears_no_password() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut asked = [0; 8];
        client.read_exact(&mut asked).await.unwrap();
        client.write_all(b"N").await.unwrap();
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest).await;
        rest
    });
    // The name is far, the address is here: what counts for the default is where the wire leads, so it is said.
    let address = format!("postgres://кто:секрет@localhost:{port}/d?sslmode=require");
    let refused = refused(&address).await;
    assert!(refused.contains("offers no encryption") && refused.contains("sslmode=disable"), "{refused}");
    assert_eq!(heard.await.unwrap(), b"", "nothing was said in the clear");
}
