//! Real posts that somebody else has labelled: read from a file of theirs, never kept in the tree.

use anyhow::Context;
use domain::content::{Post, analyse};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Deserialize)]
struct Labelled {
    text: String,
    #[serde(rename = "MessageType", default)]
    kind: Option<String>,
    #[serde(rename = "Species", default)]
    species: Option<String>,
    #[serde(rename = "Sex", default)]
    sex: Option<String>,
}

/// Right answers among those that count.
#[derive(Debug, Default)]
struct Share {
    right: usize,
    of: usize,
}

impl Share {
    fn add(&mut self, right: bool) {
        self.right += usize::from(right);
        self.of += 1;
    }

    fn figure(&self) -> Value {
        json!({ "share": self.right as f64 / self.of.max(1) as f64, "right": self.right, "of": self.of })
    }
}

/// Recall and precision of searches, and species and sex where the labels state them.
pub(crate) fn judge(text: &str, show: usize) -> anyhow::Result<Value> {
    let posts: Vec<Labelled> = serde_json::from_str(text).context("the labelled posts cannot be read")?;
    let (mut recall, mut precision, mut species, mut sex) =
        (Share::default(), Share::default(), Share::default(), Share::default());
    let mut wrong = Vec::new();
    for (place, post) in posts.iter().enumerate() {
        let read = analyse(&Post { text: post.text.clone(), ..Post::default() }).facts;
        let lost = read.kind.value.name() == "lost";
        if post.kind.as_deref() == Some("L") {
            recall.add(lost);
        }
        if lost {
            precision.add(post.kind.as_deref() == Some("L"));
        }
        let asked = [
            (
                "species",
                &mut species,
                post.species.as_deref(),
                [("D", "dog"), ("C", "cat")],
                read.animal.value.name(),
            ),
            ("sex", &mut sex, post.sex.as_deref(), [("M", "m"), ("F", "f")], read.sex.value.name()),
        ];
        for (question, share, label, answers, got) in asked {
            let Some((_, want)) = answers.into_iter().find(|(known, _)| Some(*known) == label) else {
                continue;
            };
            share.add(got == want);
            if got != want && wrong.len() < show {
                wrong.push(format!("{question} of post {place}: got {got}, want {want}"));
            }
        }
    }
    Ok(json!({
        "posts": posts.len(),
        "lost_recall": recall.figure(),
        "lost_precision": precision.figure(),
        "species": species.figure(),
        "sex": sex.figure(),
        "wrong": wrong,
    }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_of_others_are_counted() {
        let posts = r#"[
            {"text": "Пропал кот Барсик, помогите найти", "MessageType": "L", "Species": "C", "Sex": "M"},
            {"text": "Найдена собака, ищем хозяина", "MessageType": "F", "Species": "D"},
            {"text": "Пропала кошка", "MessageType": "L", "Species": "D", "Sex": "F"}
        ]"#;
        let figures = super::judge(posts, 9).unwrap();
        assert_eq!(figures["lost_recall"]["right"], 2);
        assert_eq!(
            (figures["species"]["right"].as_u64(), figures["species"]["of"].as_u64()),
            (Some(2), Some(3))
        );
        assert_eq!(figures["sex"]["right"], 2);
        assert_eq!(figures["wrong"][0], "species of post 2: got cat, want dog");
    }
}
