//! Any bytes as a feed: reading is total, and what comes out can be kept and shown.

/// Panics when a post of a feed breaks a rule.
pub(super) fn run(bytes: &[u8]) {
    let Some(posts) = engine::sources::read_feed(bytes) else { return };
    assert!(posts.len() <= 1_000, "{} posts of one reading", posts.len());
    for post in &posts {
        for picture in &post.pictures {
            assert!(!picture.url.contains('\0'), "{:?}", picture.url);
        }
        assert!(!post.source.is_empty());
    }
    assert_eq!(engine::sources::read_feed(bytes).as_ref(), Some(&posts), "the same bytes are the same posts");
}
