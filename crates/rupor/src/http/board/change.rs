//! What differs between two states, as a merge patch (RFC 7396): objects are merged, what is gone is null, the rest is
//! replaced. Pure.

use serde_json::{Map, Value};

/// The bars of a whole day are told once; afterwards `moving` tells of the last hours.
const TOLD_ONCE: &str = "hours";
/// Moves by itself with the clock; told with the next thing that is news.
const NO_NEWS: [&str; 1] = ["next"];

/// `None`: nothing but the clock has moved.
pub(super) fn change(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let is_told = |name: &str| name != "at" && name != TOLD_ONCE;
    let mut patch = difference(before, after);
    patch.retain(|name, _| is_told(name));
    if patch.is_empty() {
        return None;
    }
    patch.insert("at".into(), after.get("at").cloned().unwrap_or(Value::Null));
    Some(Value::Object(patch))
}

/// The same change in pieces that are small enough for a slow line, one after the other; a page may show each at once.
/// What is larger by itself stands alone.
pub(super) fn pieces(patch: Value, bytes_max: usize) -> Vec<Value> {
    let Value::Object(patch) = patch else {
        return vec![patch];
    };
    if Value::Object(patch.clone()).to_string().len() <= bytes_max {
        return vec![Value::Object(patch)];
    }
    let at = patch.get("at").cloned().unwrap_or(Value::Null);
    let empty = || Map::from_iter([("at".to_owned(), at.clone())]);
    let (mut all, mut piece, mut bytes) = (Vec::new(), empty(), 0);
    for (name, value) in patch.into_iter().filter(|(name, _)| name != "at") {
        let entries: Vec<(Option<String>, Value)> = match value {
            Value::Object(inner) if !inner.is_empty() => {
                inner.into_iter().map(|(key, value)| (Some(key), value)).collect()
            }
            other => vec![(None, other)],
        };
        for (key, value) in entries {
            // Names, quotes and braces around it, and the time that every piece carries.
            let cost = name.len() + key.as_deref().map_or(0, str::len) + value.to_string().len() + 12;
            if bytes > 0 && bytes + cost > bytes_max.saturating_sub(32) {
                all.push(Value::Object(std::mem::replace(&mut piece, empty())));
                bytes = 0;
            }
            bytes += cost;
            match key {
                None => drop(piece.insert(name.clone(), value)),
                Some(key) => {
                    let inner = piece.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
                    if let Some(inner) = inner.as_object_mut() {
                        inner.insert(key, value);
                    }
                }
            }
        }
    }
    all.push(Value::Object(piece));
    all
}

fn difference(before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, new) in after {
        match (before.get(name), new) {
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = difference(old, new);
                if inner.keys().any(|name| !NO_NEWS.contains(&name.as_str())) {
                    patch.insert(name.clone(), Value::Object(inner));
                }
            }
            (_, new) => {
                patch.insert(name.clone(), new.clone());
            }
        }
    }
    patch
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_tells_what_is_new_what_moved_and_what_is_gone() {
        let old = json!({"at": 1, "posts": {"1": {"text": "а", "went": [0, 1]}, "2": {"text": "б"}}, "hours": {"7": 1}});
        let new = json!({"at": 2, "posts": {"1": {"text": "а", "went": [1, 0]}, "3": {"text": "в"}}, "hours": {"7": 2}});
        let expected = json!({"at": 2, "posts": {"1": {"went": [1, 0]}, "2": null, "3": {"text": "в"}}});
        assert_eq!(change(&old, &new), Some(expected));
    }

    #[test]
    fn a_large_change_comes_in_pieces_that_add_up() {
        let channels: Map<String, Value> =
            (0..40).map(|n| (n.to_string(), json!({"waiting": n, "sent": 7, "last": "сейчас"}))).collect();
        let patch = json!({"at": 5, "channels": channels, "posts": {"9": {"text": "я".repeat(200)}, "8": null}, "sent": 3});
        let pieces = pieces(patch.clone(), 600);
        assert!(pieces.len() > 3, "{}", pieces.len());
        let mut whole = Map::new();
        for piece in &pieces {
            assert!(piece.to_string().len() <= 600, "{} bytes", piece.to_string().len());
            assert_eq!(piece["at"], 5);
            for (name, value) in piece.as_object().unwrap() {
                match (whole.get_mut(name), value) {
                    (Some(Value::Object(known)), Value::Object(more)) => known.extend(more.clone()),
                    _ => drop(whole.insert(name.clone(), value.clone())),
                }
            }
        }
        assert_eq!(Value::Object(whole), patch);
        assert_eq!(super::pieces(json!({"at": 1, "sent": 2}), 600), [json!({"at": 1, "sent": 2})]);
    }

    #[test]
    fn the_clock_alone_is_no_news() {
        let trouble =
            |next: &str, n: i64| json!({"at": n, "trouble": {"channel:1": {"headline": "x", "next": next}}});
        assert_eq!(change(&trouble("in 5 s", 1), &trouble("in 4 s", 2)), None);
        let told = json!({"at": 3, "trouble": {"channel:1": {"headline": "y", "next": "in 4 s"}}});
        assert_eq!(change(&trouble("in 5 s", 1), &told), Some(told));
    }
}
