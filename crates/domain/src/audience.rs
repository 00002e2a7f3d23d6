//! Who is meant: conditions on what is known of a person, in the shape of routes (`all`, `any`, `exclude`).
//!
//! A condition is `attribute:value`, or `attribute:*` for any value; case does not matter.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Conditions in one filter.
pub const CONDITIONS_MAX: usize = 200;

/// Every condition of `all`, at least one of `any`, none of `exclude`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Filter {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub all: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub any: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl Filter {
    /// From what an operator wrote: JSON, or conditions separated by commas that all have to hold.
    pub fn parse(written: &str) -> Result<Filter, String> {
        let filter = match written.trim_start().starts_with('{') {
            true => serde_json::from_str(written).map_err(|error| {
                format!("{error}; known are all, any and exclude, each a list of \"attribute:value\"")
            })?,
            false => Filter {
                all: written
                    .split(',')
                    .map(|one| one.trim().to_owned())
                    .filter(|one| !one.is_empty())
                    .collect(),
                ..Filter::default()
            },
        };
        if filter == Filter::default() {
            return Err("it has no condition; write attribute:value, such as city:Пермь".to_owned());
        }
        filter.check()?;
        Ok(filter)
    }

    /// Whether each condition is one; without any it fits everybody.
    pub fn check(&self) -> Result<(), String> {
        let conditions: Vec<&String> = self.all.iter().chain(&self.any).chain(&self.exclude).collect();
        if conditions.len() > CONDITIONS_MAX {
            return Err(format!("{} conditions, {CONDITIONS_MAX} at most", conditions.len()));
        }
        match conditions.iter().find(|one| split(one).is_none()) {
            Some(bad) => Err(format!("{bad:?} is no condition; write attribute:value, such as city:Пермь")),
            None => Ok(()),
        }
    }

    pub fn fits(&self, attributes: &Value) -> bool {
        let holds = |one: &String| split(one).is_some_and(|(name, value)| has(attributes, name, value));
        self.all.iter().all(holds)
            && (self.any.is_empty() || self.any.iter().any(holds))
            && !self.exclude.iter().any(holds)
    }
}

fn split(condition: &str) -> Option<(&str, &str)> {
    let (name, value) = condition.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    (!name.is_empty() && !value.is_empty()).then_some((name, value))
}

fn has(attributes: &Value, name: &str, value: &str) -> bool {
    let known = match attributes.get(name) {
        None | Some(Value::Null) => return false,
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    value == "*" || known.to_lowercase() == value.to_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filter_says_who_is_meant() {
        let anna = json!({"city": "Пермь", "age": 30});
        let check = |written: &str, expected: bool| {
            assert_eq!(Filter::parse(written).unwrap().fits(&anna), expected, "{written}");
        };
        check("city:пермь", true);
        check("city:Пермь, age:30", true);
        check("city:Тверь", false);
        check("city:*", true);
        check("vip:*", false);
        check(r#"{"any": ["city:Тверь", "age:30"]}"#, true);
        check(r#"{"any": ["city:Тверь", "age:30"], "exclude": ["city:*"]}"#, false);
        assert!(Filter::parse("").is_err());
        assert!(Filter::parse("city").is_err());
        assert!(Filter::parse(r#"{"al": ["city:x"]}"#).unwrap_err().contains("known are all"));
    }
}
