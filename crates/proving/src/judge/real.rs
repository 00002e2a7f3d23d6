//! Real posts that somebody else has labelled: read from a file of theirs, never kept in the tree.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use domain::content::{Copied, Post, analyse};
use serde::Deserialize;
use serde_json::{Value, json};

use super::score::f1;

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

/// A post of a wall as it was downloaded.
#[derive(Debug, Deserialize)]
struct Walled {
    id: i64,
    #[serde(default)]
    date: i64,
    text: String,
    #[serde(default)]
    copy_history: Vec<Walled>,
}

/// The kinds of the posts of a wall; `labels` says by the id of a post what it is.
pub(crate) fn judge_wall(wall: &str, labels: &str, show: usize) -> anyhow::Result<Value> {
    let posts: Vec<Walled> = serde_json::from_str(wall).context("the posts of the wall cannot be read")?;
    let labels: BTreeMap<String, String> = serde_json::from_str(labels)
        .context("the labels cannot be read: they are one object of ids and kinds")?;
    let mut pairs = Vec::new();
    let mut wrong = Vec::new();
    for post in &posts {
        let Some(want) = labels.get(&post.id.to_string()) else { continue };
        let copied = |copy: &Walled| Copied { text: copy.text.clone(), date: copy.date, ..Copied::default() };
        let copy_history = post.copy_history.iter().map(copied).collect();
        let read = Post { text: post.text.clone(), date: post.date, copy_history, ..Post::default() };
        let got = analyse(&read).facts.kind.value.name();
        if got != want && wrong.len() < show {
            wrong.push(format!("post {}: got {got}, want {want}", post.id));
        }
        pairs.push((want.as_str(), got));
    }
    ensure!(!pairs.is_empty(), "no post of the wall has a label");
    let mut kind = Share::default();
    pairs.iter().for_each(|(want, got)| kind.add(want == got));
    Ok(json!({ "posts": posts.len(), "kind": kind.figure(), "kind_macro_f1": f1(&pairs), "wrong": wrong }))
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

    #[test]
    fn kinds_of_a_wall_are_counted_where_they_are_labelled() {
        let wall = r#"[
            {"id": 1, "date": 1763190000, "text": "Пропал кот Барсик, помогите найти", "photos": []},
            {"id": 2, "text": ""},
            {"id": 3, "text": "Пропала кошка"},
            {"id": 4, "text": "", "copy_history": [{"id": 9, "text": "Найдена собака, ищем хозяина"}]}
        ]"#;
        let labels = r#"{"1": "lost", "2": "empty", "4": "lost"}"#;
        let figures = super::judge_wall(wall, labels, 9).unwrap();
        assert_eq!((&figures["kind"]["right"], &figures["kind"]["of"]), (&2.into(), &3.into()));
        assert_eq!(figures["wrong"][0], "post 4: got found, want lost");
        assert!(super::judge_wall(wall, "{}", 9).unwrap_err().to_string().contains("no post"));
    }
}
