//! The lots of a campaign, which decide the variant and the stage of a person.

/// Lots are drawn out of so many.
pub const LOTS: i64 = 10_000;

/// The lot of a person in a campaign, out of `LOTS`: the same seed gives the same lot, in every database.
pub(crate) fn lot(seed: &str, user_id: &str, what: &str) -> i64 {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(format!("{seed}/{what}/{user_id}"));
    let first = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    i64::from(first) % LOTS
}

/// Which variant a lot falls on.
pub(crate) fn variant_of(lot: i64, weights: &[i32]) -> i32 {
    let total: i64 = weights.iter().map(|weight| i64::from(*weight)).sum();
    let mut passed = 0;
    for (variant, weight) in (0..).zip(weights) {
        passed += i64::from(*weight);
        if lot * total < passed * LOTS {
            return variant;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_are_the_same_every_time_and_spread_by_weight() {
        let of = |n: usize| variant_of(lot("семя", &n.to_string(), "variant"), &[1, 3]);
        let first = (0..10_000).filter(|n| of(*n) == 0).count();
        assert!((2_300..2_700).contains(&first), "{first}");
        assert_eq!(lot("семя", "42", "stage"), lot("семя", "42", "stage"));
        assert_ne!(lot("семя", "42", "stage"), lot("другое", "42", "stage"));
    }
}
