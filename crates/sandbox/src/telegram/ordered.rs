//! The order of fields in what the server writes. JSON gives it no meaning, but clients do:
//! some take the first field of an update for its number and the second for its kind.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// These come first, in this order; everything else follows by name.
const FIRST: [&str; 6] = ["ok", "error_code", "result", "update_id", "message_id", "id"];

/// A value whose objects begin as those of the server do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ordered<'a>(pub &'a Value);

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for name in FIRST {
                    if let Some(value) = fields.get(name) {
                        map.serialize_entry(name, &Ordered(value))?;
                    }
                }
                for (name, value) in fields.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())) {
                    map.serialize_entry(name, &Ordered(value))?;
                }
                map.end()
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Ordered)),
            other => other.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_update_begins_with_its_number_and_an_answer_with_ok() {
        let update =
            json!({"message": {"chat": {"first_name": "A", "id": 5}, "message_id": 7}, "update_id": 3});
        let text = serde_json::to_string(&Ordered(&json!({"result": [update], "ok": true}))).unwrap();
        let expected = r#"{"ok":true,"result":[{"update_id":3,"message":{"message_id":7,"chat":{"id":5,"first_name":"A"}}}]}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::to_string(&Ordered(&json!([1, "x", null]))).unwrap(), r#"[1,"x",null]"#);
    }
}
