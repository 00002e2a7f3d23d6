//! Any bytes as a picture: looking at it ends, within its bounds, and twice the same.

use domain::content::picture::picture_hash;

/// Panics when a picture brings the reader down.
pub(super) fn run(bytes: &[u8]) {
    let kind = platforms::egress::sniff(bytes);
    let look = picture_hash(bytes);
    assert_eq!(look.as_ref().ok(), picture_hash(bytes).as_ref().ok());
    if let Ok(look) = look {
        assert_eq!(look.distance(look), 0);
        assert!(kind.is_some(), "what can be decoded is of a known kind");
    }
}
