//! Who is at the keyboard, as the system knows it: the audit names them.

use store::Actor;
use tokio::net::UnixStream;

/// The user at the other end of a connection, with the reason they give.
pub(crate) fn visitor(stream: &UnixStream, reason: Option<String>) -> Actor {
    let who = match stream.peer_cred() {
        Ok(peer) => named(peer.uid()),
        Err(_) => "a user that the system does not name".to_owned(),
    };
    Actor { who, reason: reason.filter(|reason| !reason.trim().is_empty()) }
}

/// The user that runs this process: what the system would tell a node about us.
pub(crate) fn own(reason: Option<String>) -> Actor {
    match UnixStream::pair() {
        Ok((stream, _)) => visitor(&stream, reason),
        Err(_) => Actor { who: "a user that the system does not name".to_owned(), reason },
    }
}

/// `user anna (uid 1000)`; a user that the machine has no name for is a number.
fn named(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    match name_of(&users, uid) {
        Some(name) => format!("user {name} (uid {uid})"),
        None => format!("user with uid {uid}"),
    }
}

fn name_of(users: &str, uid: u32) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_by_the_list_of_the_system() {
        let users = "root:x:0:0:root:/root:/bin/sh\nанна:x:1000:1000::/home/anna:/bin/sh\nbroken\n";
        assert_eq!(name_of(users, 1000), Some("анна"));
        assert_eq!(name_of(users, 7), None);
    }

    #[tokio::test]
    async fn this_process_has_a_user() {
        let own = own(Some("  ".into()));
        assert!(own.who.starts_with("user "), "{own:?}");
        assert_eq!(own.reason, None);
    }
}
