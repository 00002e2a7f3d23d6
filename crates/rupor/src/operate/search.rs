//! Posts by their words: for the board's search box and `--search` of listings.

use domain::shown::masked;
use serde_json::Value;
use store::StoredMessage;

/// Characters of a question.
const WORDS_MAX: usize = 200;
/// Digits of a whole phone number: who knows it may ask for it, and nobody finds it out by trying.
const PHONE_DIGITS: usize = 10;

/// What was asked for, ready to be compared.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Words {
    words: Vec<String>,
    /// The end of a phone number, the part after the country.
    phone: Option<String>,
}

impl Words {
    /// `None`: nothing was asked.
    pub(crate) fn of(text: &str) -> Option<Words> {
        let text: String = text.chars().take(WORDS_MAX).collect();
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        let is_phone = digits.len() >= PHONE_DIGITS && !text.chars().any(char::is_alphabetic);
        let phone = is_phone.then(|| digits[digits.len() - PHONE_DIGITS..].to_owned());
        let words: Vec<String> = folded(&text).split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then_some(Words { words, phone })
    }

    /// Every word stands in what people see of the post. Numbers of people are masked before they are compared.
    pub(crate) fn fit(&self, post: &StoredMessage) -> bool {
        if let Some(phone) = &self.phone {
            let phones = post.facts["phones"].as_array().into_iter().flatten();
            return phones
                .filter_map(|fact| fact["value"].as_str())
                .any(|known| known.ends_with(phone.as_str()));
        }
        let names = post.facts["pet_names"].as_array().into_iter().flatten();
        let facts =
            [&post.facts["city"]["value"], &post.facts["place"]["value"], &post.facts["breed"]["value"]];
        let facts = facts.into_iter().chain(names.map(|name| &name["value"])).filter_map(Value::as_str);
        let told =
            [post.payload["title"].as_str(), post.payload["text"].as_str(), post.origin["url"].as_str()];
        let all: Vec<&str> = told.into_iter().flatten().chain(facts).collect();
        let all = folded(&masked(&all.join("\n"))) + &format!("\n{} {}", post.message_id, post.source);
        self.words.iter().all(|word| all.contains(word.as_str()))
    }

    /// The same for a line of a listing.
    pub(crate) fn fit_line(&self, line: &str) -> bool {
        let line = folded(line);
        self.words.iter().all(|word| line.contains(word.as_str()))
    }
}

fn folded(text: &str) -> String {
    text.to_lowercase().replace('ё', "е")
}

#[cfg(test)]
mod tests {
    use domain::ids::MessageId;
    use domain::time::Timestamp;
    use serde_json::json;

    use super::*;

    fn check(asked: &str, expected: bool) {
        let post = StoredMessage {
            message_id: MessageId(7),
            source: "vk:-101".into(),
            origin_id: "1".into(),
            payload: json!({"text": "Пропала такса Буся, чёрная. Тел. 8 901 000-00-11"}),
            kind: "lost".into(),
            facts: json!({"phones": [{"value": "+79010000011"}], "city": {"value": "Тюмень"}}),
            tags: json!([]),
            origin: json!({"url": "https://vk.com/wall-101_1"}),
            case_id: None,
            revision: 1,
            seen_count: 1,
            last_seen_at: Timestamp(0),
            skipped: None,
            gone_at: None,
            created_at: Timestamp(0),
        };
        let fits = Words::of(asked).is_none_or(|words| words.fit(&post));
        assert_eq!(fits, expected, "{asked}");
    }

    #[test]
    fn all_words_in_any_order_and_case() {
        check("", true);
        check("БУСЯ такса", true);
        check("черная", true);
        check("тюмень буся", true);
        check("wall-101_1", true);
        check("буся омск", false);
    }

    #[test]
    fn a_number_is_found_whole_and_never_by_trying() {
        check("8 (901) 000-00-11", true);
        check("+7 901 000-00-12", false);
        check("901000", false);
        check("000-00-11", false);
    }
}
