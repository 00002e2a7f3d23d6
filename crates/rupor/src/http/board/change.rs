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
    fn the_clock_alone_is_no_news() {
        let trouble =
            |next: &str, n: i64| json!({"at": n, "trouble": {"channel:1": {"headline": "x", "next": next}}});
        assert_eq!(change(&trouble("in 5 s", 1), &trouble("in 4 s", 2)), None);
        let told = json!({"at": 3, "trouble": {"channel:1": {"headline": "y", "next": "in 4 s"}}});
        assert_eq!(change(&trouble("in 5 s", 1), &told), Some(told));
    }
}
