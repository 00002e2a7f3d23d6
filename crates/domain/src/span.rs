//! Spans of time as people write them: `500ms`, `10s`, `5m`, `72h`, `7d`.

use crate::time::Span;

/// Units from long to short, in microseconds; a span is shown in the longest that leaves nothing over.
const UNITS: [(&str, i64); 5] =
    [("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000)];

/// What every refusal says about the form.
pub const FORM: &str = "a number with its unit, such as 500ms, 10s, 5m, 72h or 7d";

pub fn parse(text: &str) -> Option<Span> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: i64 = number.parse().ok()?;
    let (_, micros) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*micros).map(Span)
}

pub fn show(span: Span) -> String {
    if span.0 == 0 {
        return "0s".into();
    }
    match UNITS.iter().find(|(_, micros)| span.0 % micros == 0) {
        Some((unit, micros)) => format!("{}{unit}", span.0 / micros),
        None => format!("{}ms", span.millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_back_as_they_were_written() {
        for text in ["500ms", "10s", "5m", "73h", "7d", "0s"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
        assert_eq!(show(parse("72h").unwrap()), "3d");
    }

    #[test]
    fn a_span_without_a_unit_or_with_a_strange_one_is_refused() {
        for text in ["", "10", "s", "-5s", "1.5h", "10 s", "10sec", "99999999999999999999h", "9999999999999d"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
