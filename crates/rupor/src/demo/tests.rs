//! The verdict on a play, and on one that somebody spoiled.

use domain::content::cases::{CaseBook, Sketch};
use domain::content::{Kind, Post, analyse};
use serde_json::json;

use super::judge::{Line, Verb, compare, lines};
use super::*;

fn any_port() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_each_case_once_and_a_planted_message_is_found_out() {
    let world = World::start(any_port(), any_port()).await.unwrap();
    play(&world).await.unwrap();
    let verdict = judge_all(&world).await.unwrap();
    assert!(verdict.difference.is_none(), "{:#?}\n{}", verdict.difference, verdict.summary);

    let rows = world.sandbox.core().ledger.rows(Name::Telegram);
    let said = rows.iter().find(|row| row.method == "sendMessage" && row.accepted).unwrap();
    let again = json!({"chat_id": said.chat, "text": said.text});
    let origin = world.sandbox.base(Name::Telegram);
    let url = format!("{origin}/bot{}/sendMessage", said.account.clone().unwrap());
    post(&url, &again).await;
    let verdict = judge_all(&world).await.unwrap();
    let unexpected: Vec<Verb> = verdict.difference.unexpected.iter().map(|line| line.verb).collect();
    assert_eq!((verdict.difference.missing.len(), unexpected), (0, vec![Verb::Said, Verb::Stands]));
    world.end().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_copy_in_a_campaign_is_found_out_and_the_shop_answers_by_its_rules() {
    let world = World::start(any_port(), any_port()).await.unwrap();
    campaign::run(&world, |_| Ok(())).await.unwrap();
    let sums = campaign::judge(&world).await.unwrap();
    assert_eq!(sums.wrong, Vec::<String>::new(), "{}", sums.summary);
    let said = "Здравствуйте, Анна! В субботу в приюте день открытых дверей. Ждём с 11 до 16.";
    let url = format!("{}/bot{}/sendMessage", world.sandbox.base(Name::Telegram), campaign::TOKENS[0]);
    post(&url, &json!({"chat_id": campaign::id(0).parse::<i64>().unwrap(), "text": said})).await;
    let sums = campaign::judge(&world).await.unwrap();
    assert_eq!(sums.wrong, [format!("{}: sent with 2 messages instead of sent with 1", campaign::id(0))]);

    let mut told = Vec::new();
    let wrong = shop::run(&world, |line| {
        told.push(line.to_owned());
        Ok(())
    });
    assert_eq!(wrong.await.unwrap(), Vec::<String>::new(), "{told:#?}");
    world.end().await.unwrap();
}

async fn post(url: &str, body: &Value) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let body = body.to_string();
    let request = format!(
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    );
    let mut stream = tokio::net::TcpStream::connect(host).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_repeat_a_lack_and_a_stranger_are_told_apart() {
    let line = |photos| Line {
        channel: "vk".into(),
        verb: Verb::Said,
        heading: "🔎 Пропал питомец".into(),
        link: "https://vk.com/wall-1_2".into(),
        photos,
        phone: "+79750000001".into(),
    };
    assert!(compare(&[line(1), line(2)], &[line(2), line(1)]).is_none());
    assert_eq!(compare(&[line(1)], &[line(1), line(1)]).unexpected, [line(1)]);
    assert_eq!(compare(&[line(1), line(1)], &[line(1)]).missing, [line(1)]);
    assert!(lines(Name::Vk, &[]).is_empty());
}

/// The case that a post of the endless play is filed under; pictures aside.
fn file(book: &mut CaseBook, sample: &city::Sample, kind: Kind) -> domain::ids::CaseId {
    let post = Post {
        owner_id: sample.wall,
        post_id: sample.post["id"].as_i64().unwrap(),
        date: 1_794_744_000,
        text: sample.post["text"].as_str().unwrap().to_owned(),
        ..Post::default()
    };
    let analysis = analyse(&post);
    assert_eq!(analysis.facts.kind.value, kind, "{}", post.text);
    let sketch = Sketch::new(&post, &analysis.facts, &analysis.cleaned, &[]);
    book.take_in(sketch).unwrap_or_else(|| panic!("no story: {}", post.text)).0
}

#[test]
fn the_endless_play_tells_a_new_story_in_every_act() {
    let mut book = CaseBook::new();
    let mut cases = std::collections::BTreeSet::new();
    for act in 0..120 {
        let case = file(&mut book, &live::original(act), Kind::Lost);
        assert!(cases.insert(case), "act {act} is taken for an earlier story: {:?}", live::original(act));
        assert_eq!(file(&mut book, &live::copy(act), Kind::Lost), case, "act {act}: {:?}", live::copy(act));
        if act % 6 == 1 {
            assert_eq!(
                file(&mut book, &live::reunion(act), Kind::Reunited),
                case,
                "act {act}: {:?}",
                live::reunion(act)
            );
        }
    }
}
