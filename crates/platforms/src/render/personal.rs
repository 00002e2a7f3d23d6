//! Words that are one person's own: `Здравствуйте, {{ r.name | default("друг") }}!`.
//!
//! A text is filled in when it is sent, with what is known of the person at that moment. What is not known and has no
//! default is an error that names it. What is filled in is plain text: it cannot bring markup nor another template.

use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, UndefinedBehavior, context};

/// Instructions one text may use.
const FUEL_MAX: u64 = 20_000;
/// Bytes a text may become.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;

/// Why a text cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    #[error("the text needs something that is not known of this person: {0}")]
    Missing(String),
    #[error("the text cannot be filled in: {0}")]
    Broken(String),
}

/// Whether a text has anything to fill in.
pub fn is_personal(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// The text for somebody of whom this is known.
pub fn fill(text: &str, attributes: &serde_json::Value) -> Result<String, Unfilled> {
    if !is_personal(text) {
        return Ok(text.to_owned());
    }
    let mut environment = Environment::empty();
    environment.set_fuel(Some(FUEL_MAX));
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_filter("default", |value: &Value, other: Value| -> Value {
        let is_empty = value.is_undefined() || value.is_none() || value.as_str().is_some_and(str::is_empty);
        if is_empty { other } else { value.clone() }
    });
    environment.add_filter("upper", |text: &str| text.to_uppercase());
    environment.add_filter("lower", |text: &str| text.to_lowercase());
    let filled = environment
        .template_from_str(&in_quotes(text))
        .and_then(|template| template.render(context! { r => known(attributes) }));
    match filled {
        Ok(filled) if filled.len() > OUTPUT_BYTES_MAX => {
            Err(Unfilled::Broken(format!("it becomes longer than {OUTPUT_BYTES_MAX} bytes")))
        }
        Ok(filled) => Ok(filled),
        Err(error) if error.kind() == ErrorKind::UndefinedError => {
            Err(Unfilled::Missing(missing_name(text, attributes)))
        }
        Err(error) => {
            let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
            let line = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
            Err(Unfilled::Broken(format!("{}{detail}{line}", error.kind())))
        }
    }
}

/// `{{ r.имя }}` as `{{ r["имя"] }}`: the language knows names of Latin letters alone.
fn in_quotes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{").into_iter().chain(rest.find("{%")).min() {
        let end = if rest[at..].starts_with("{{") { "}}" } else { "%}" };
        let code_end = rest[at..].find(end).map_or(rest.len(), |end| at + end);
        out.push_str(&rest[..at]);
        let mut code = &rest[at..code_end];
        while let Some(dot) = code.find("r.") {
            let is_own =
                code[..dot].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '.');
            let name: String =
                code[dot + 2..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            let is_plain = name.is_empty() || name.is_ascii();
            match is_own && !is_plain {
                true => {
                    out.push_str(&code[..dot]);
                    out.push_str(&format!("r[\"{name}\"]"));
                }
                false => out.push_str(&code[..dot + 2 + name.len()]),
            }
            code = &code[dot + 2 + name.len()..];
        }
        out.push_str(code);
        rest = &rest[code_end..];
    }
    out.push_str(rest);
    out
}

/// Words, numbers and yes or no; what is nested is no word to print.
fn known(attributes: &serde_json::Value) -> Value {
    let pairs = attributes.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let value = match value {
            serde_json::Value::String(text) => Value::from(text.as_str()),
            serde_json::Value::Bool(yes) => Value::from(*yes),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(whole), _) => Value::from(whole),
                (None, Some(real)) => Value::from(real),
                (None, None) => return None,
            },
            _ => return None,
        };
        Some((name.as_str(), value))
    });
    Value::from_pairs(pairs)
}

/// Names that a text asks for and that nobody can have: what is known of a person is called `r.NAME`.
pub fn strangers(text: &str) -> Vec<String> {
    let environment = Environment::empty();
    let asked = environment.template_from_str(&in_quotes(text)).map(|read| read.undeclared_variables(false));
    let mut names: Vec<String> = asked.unwrap_or_default().into_iter().filter(|name| name != "r").collect();
    names.sort();
    names
}

/// What a text asks for, by name.
pub fn names(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("r.") {
        let before = rest[..at].chars().next_back();
        let name: String = rest[at + 2..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !name.is_empty()
            && before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            && !found.contains(&name)
        {
            found.push(name);
        }
        rest = &rest[at + 2..];
    }
    found
}

fn missing_name(text: &str, attributes: &serde_json::Value) -> String {
    let missing: Vec<String> =
        names(text).into_iter().filter(|name| attributes.get(name).is_none()).collect();
    missing.join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_without_r_is_nobodys() {
        let check = |text: &str, expected: &[&str]| assert_eq!(strangers(text), expected, "{text}");
        check("Привет, {{ name }}! {{ city | default(\"Пермь\") }}", &["city", "name"]);
        check("Привет, {{ r.name }}! {% if r.vip %}{{ r.имя | upper }}{% endif %}", &[]);
        check("Привет! Фигурные { скобки }", &[]);
    }

    #[test]
    fn a_text_is_filled_in_with_what_is_known() {
        let check = |text: &str, expected: Result<&str, Unfilled>| {
            let known = json!({"name": "Анна", "город": "Пермь", "n": 3});
            assert_eq!(fill(text, &known), expected.map(str::to_owned), "{text}");
        };
        check("Привет!", Ok("Привет!"));
        check("Привет, {{ r.name }}!", Ok("Привет, Анна!"));
        check("{{ r.город }} · {{ r.n }}", Ok("Пермь · 3"));
        check("Привет, {{ r.nick | default(\"друг\") }}!", Ok("Привет, друг!"));
        check("Привет, {{ r.nick }}!", Err(Unfilled::Missing("nick".into())));
        check("{% if r.n > 2 %}много{% else %}мало{% endif %}", Ok("много"));
        assert!(matches!(fill("{{ r.name", &json!({})), Err(Unfilled::Broken(_))));
        assert!(matches!(fill("{% for x in range(9) %}{% endfor %}", &json!({})), Err(Unfilled::Broken(_))));
    }

    #[test]
    fn what_is_filled_in_is_not_a_template_itself() {
        let hostile = json!({"name": "{{ r.secret }}<b>"});
        assert_eq!(fill("{{ r.name }}", &hostile), Ok("{{ r.secret }}<b>".to_owned()));
    }
}
