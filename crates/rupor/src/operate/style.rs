//! How programs read what we know: on the command line with `--json`, and by `/v1`.

use domain::time::{Span, Timestamp};
use serde_json::Value;

/// One style for everything that programs read: times are RFC 3339 in UTC, `null` for never; lengths of time are
/// written as in rupor.toml, unless the name says their unit.
pub(crate) fn styled(value: &impl serde::Serialize) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(value)?;
    style(&mut value);
    Ok(value)
}

/// Microseconds since 1970 are larger than this since 1973; ids and counts are smaller.
const TIMES_FROM: i64 = 100_000_000_000_000;

fn style(value: &mut Value) {
    match value {
        Value::Array(several) => several.iter_mut().for_each(style),
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                match value.as_i64() {
                    Some(number) if is_time(name) => *value = time(number).unwrap_or_else(|| value.clone()),
                    Some(number) if is_length(name) => *value = engine::span::show(Span(number)).into(),
                    _ => style(value),
                }
            }
        }
        _ => {}
    }
}

fn is_time(name: &str) -> bool {
    let ends = ["_at", "_until", "_since", "_due"].iter().any(|end| name.ends_with(end));
    ends || matches!(name, "at" | "now" | "since" | "until" | "oldest")
}

fn is_length(name: &str) -> bool {
    matches!(name, "dedup_ttl" | "max_age" | "min_gap")
}

fn time(number: i64) -> Option<Value> {
    match number {
        0 | i64::MAX => Some(Value::Null),
        _ if number.abs() >= TIMES_FROM => Some(Timestamp(number).rfc3339().into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::styled;

    #[test]
    fn programs_read_times_and_lengths_in_one_style() {
        let value = json!({
            "queued_at": 1_763_485_200_000_000_i64, "paused_until": i64::MAX, "target_since": 0, "at": 12,
            "rows": [{"now": 1_763_485_200_123_456_i64, "settings": {"dedup_ttl": 259_200_000_000_i64, "max_age": null}}],
            "lag_ms": 1_500, "message_id": 7,
        });
        let expected = json!({
            "queued_at": "2025-11-18T17:00:00Z", "paused_until": null, "target_since": null, "at": 12,
            "rows": [{"now": "2025-11-18T17:00:00.123456Z", "settings": {"dedup_ttl": "3d", "max_age": null}}],
            "lag_ms": 1_500, "message_id": 7,
        });
        assert_eq!(styled(&value).unwrap(), expected);
    }
}
