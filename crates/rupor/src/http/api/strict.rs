//! JSON in which no key stands twice: two readers that take different ones of a pair see two different requests.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::ApiError;

/// Reads one value; nesting is bounded by the parser itself.
pub(super) fn value(bytes: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice::<Strict>(bytes).map(|strict| strict.0)
}

/// The meaning of a value that was read; what is wrong is told with the field that it is wrong in.
pub(super) fn meant<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let problem: String = error.inner().to_string().chars().take(400).collect();
        // A field that nobody knows, or that is missing, is named in the words alone.
        let named =
            problem.strip_prefix("unknown field `").or_else(|| problem.strip_prefix("missing field `"));
        let name = named.and_then(|rest| rest.split('`').next()).unwrap_or_default();
        let at = path.trim_matches('.');
        let field = match (at, name) {
            ("", name) => name.to_owned(),
            (at, name) if name.is_empty() || at == name || at.ends_with(&format!(".{name}")) => at.to_owned(),
            (at, name) => format!("{at}.{name}"),
        };
        let problem = ApiError::malformed(problem);
        if field.is_empty() { problem } else { problem.in_field(&field) }
    })
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Strict, D::Error> {
        deserializer.deserialize_any(Reader).map(Strict)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                let shown: String = key.chars().take(50).collect();
                return Err(A::Error::custom(format!("the key {shown:?} stands twice")));
            }
            let Strict(item) = entries.next_value()?;
            map.insert(key, item);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Shape {
        #[allow(dead_code, reason = "only read")]
        list: Vec<Inner>,
    }

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        #[allow(dead_code, reason = "only read")]
        n: i64,
    }

    #[test]
    fn what_is_wrong_is_told_with_its_field() {
        for (text, field) in [
            (r#"{"list": [{"n": 1}, {"n": "x"}]}"#, "list[1].n"),
            (r#"{"list": [{"m": 1}]}"#, "list[0].m"),
            (r#"{"list": [{}]}"#, "list[0].n"),
            (r#"{"list": [], "odd": 1}"#, "odd"),
            (r#"{"list": 7}"#, "list"),
            ("{}", "list"),
        ] {
            let refused = meant::<Shape>(value(text.as_bytes()).unwrap()).unwrap_err();
            assert_eq!(refused.field_name(), Some(field), "{text}");
        }
    }

    #[test]
    fn it_reads_what_everybody_reads_and_refuses_a_key_that_stands_twice() {
        let plain = r#"{"a": [1, -2, 2.5, "я", true, null, {"b": {}}], "c": "d"}"#;
        assert_eq!(value(plain.as_bytes()).unwrap(), serde_json::from_str::<Value>(plain).unwrap());
        for twice in [r#"{"a": 1, "a": 1}"#, r#"[{"b": {"a": 1, "\u0061": 2}}]"#] {
            let problem = value(twice.as_bytes()).unwrap_err().to_string();
            assert!(problem.contains("\"a\" stands twice"), "{problem}");
        }
        assert!(value("[".repeat(100_000).as_bytes()).is_err());
    }
}
