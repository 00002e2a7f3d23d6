//! The post as the rules see it: what came in, and the same words cleaned for comparison.

use serde::{Deserialize, Deserializer, Serialize};

/// A post with everything the rules may look at.
/// Labels and other keys of a corpus line are ignored.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Post {
    pub owner_id: i64,
    pub post_id: i64,
    /// Unix seconds.
    pub date: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub text: String,
    /// Reposted posts, outermost first.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub copy_history: Vec<Copied>,
    /// Picture ids; a trailing `~` means the same picture, changed a little.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub photos: Vec<String>,
    /// What the operator says about the source; never read from the post itself.
    #[serde(skip)]
    pub home: Home,
}

/// One reposted post.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Copied {
    #[serde(default)]
    pub owner_id: i64,
    #[serde(default)]
    pub post_id: i64,
    /// Unix seconds; zero when unknown.
    #[serde(default)]
    pub date: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub text: String,
}

/// `null` is as good as nothing: exports write either.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

/// The source's home: a labelled fallback for the city, and the clock that "yesterday" is counted on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    pub city: Option<String>,
    pub utc_offset_minutes: i32,
}

/// The words of a post made comparable.
///
/// Lower case, `ё`→`е`, look-alikes folded, URLs, mentions and recognised phones removed,
/// only letters, digits and single spaces left; own text first, then the reposted texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Words as the rules see them: punctuation parts words, glued words are apart.
    pub text: String,
    /// Letters as the fingerprint sees them: punctuation is dropped and parts nothing.
    /// Only as many as it looks at.
    pub letters: String,
}

impl Cleaned {
    /// The words in the order of the text, repeats included.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.text.split(' ').filter(|token| !token.is_empty())
    }
}
