//! What lists and campaigns tell the person at the terminal, by the binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::{Value, json};

use super::campaign_input::{World, node};

fn parsed(told: &str) -> Value {
    serde_json::from_str(told).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_leaves_nothing_on_its_way_and_who_is_cancelled_is_not_dead() {
    let w = World::new().await;
    w.import("people.csv", b"address\n101\n102\n103\n");
    w.new_campaign("autumn", "Здравствуйте!", &[]);
    w.well(&["campaign", "start", "autumn", "--yes"]);
    let again = ["campaign", "start", "autumn", "--yes"];
    w.refused(&again, &["only a draft can be started", "rupor campaign status autumn"]);
    let paused = w.well(&["campaign", "pause", "autumn"]);
    assert!(paused.contains("0 of 3 sent, 3 wait, 0 on their way"), "{paused}");

    let cancelled = w.well(&["campaign", "cancel", "autumn", "--yes"]);
    assert!(cancelled.contains("0 dead, 0 left out, 3 cancelled"), "{cancelled}");
    let status = parsed(&w.well(&["campaign", "status", "autumn", "--json"]));
    assert_eq!((&status["cancelled"], &status["total"]), (&json!(3), &json!(3)), "{status}");
    let listed = w.well(&["campaign", "list"]);
    let heads: Vec<&str> = listed.lines().next().unwrap().split_whitespace().collect();
    let row: Vec<&str> =
        listed.lines().find(|row| row.contains("autumn")).unwrap().split_whitespace().collect();
    let of = |name: &str| row[heads.iter().position(|head| *head == name).unwrap()];
    assert_eq!((of("dead"), of("cancelled")), ("0", "3"), "{listed}");
    assert_eq!(w.requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_must_not_be_written_to_comes_from_a_list_is_shown_and_may_be_written_to_again() {
    let w = World::new().await;
    w.import("people.csv", "address;name\n101;Анна\n102;Пётр\n103;Ия\n".as_bytes());
    let suppress = |more: &[&str]| {
        let told = w.well(&[&["audience", "suppress", "--account", "shelter", "--json"], more].concat());
        parsed(&told)
    };
    suppress(&["101"]);
    // Whatever else is wrong with a line of such a list does no harm: they must not be written to.
    w.write("stop.csv", "tg_id;time_zone\n101;\n102;Mars/Base\n104;\n@masha;\n".as_bytes());
    let list = ["--file", "stop.csv", "--map", "address=tg_id", "--everywhere"];
    let done = suppress(&list);
    assert_eq!((&done["rows"], &done["suppressed"], &done["rejected"]), (&json!(4), &json!(3), &json!(1)));
    assert_eq!(suppress(&list)["before"], 3, "again is the same");
    assert!(w.rejected("stop.csv").contains("row 4: \"@masha\" is a name"));
    w.new_campaign("autumn", "Здравствуйте!", &[]);
    let preview = w.well(&["campaign", "preview", "autumn"]);
    assert!(preview.contains("1 people get it") && preview.contains("2 do not: suppressed"), "{preview}");

    let listed = w.well(&["audience", "suppressed"]);
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split('\t').take(5).collect()).collect();
    let expected = [
        ["101", "telegram", "everywhere", "imported", "operator"],
        ["101", "telegram", "shelter", "manual", "operator"],
        ["102", "telegram", "everywhere", "imported", "operator"],
        ["104", "telegram", "everywhere", "imported", "operator"],
    ];
    assert_eq!(rows, expected, "{listed}");
    assert_eq!(w.well(&["audience", "suppressed", "--account", "news"]).lines().count(), 3);
    // What is listed is a list itself.
    let csv = w.well(&["audience", "suppressed", "--csv"]);
    assert!(
        csv.starts_with("address,platform,account,reason,origin,at\n101,telegram,,imported,operator,20"),
        "{csv}"
    );
    w.write("again.csv", csv.as_bytes());
    assert_eq!(suppress(&["--file", "again.csv", "--everywhere"])["before"], 4);

    let lift = |more: &[&'static str]| [&["audience", "unsuppress", "--account", "shelter"], more].concat();
    w.refused(&lift(&["102"]), &["102 is suppressed on every bot of the platform", "--everywhere"]);
    assert!(w.well(&lift(&["102", "--everywhere"])).contains("102 may be written to again"));
    w.refused(&lift(&["102"]), &["102 is not suppressed on account shelter", "rupor audience suppressed"]);
    let still = w.well(&lift(&["101"]));
    assert!(still.contains("101 is still suppressed on every bot"), "{still}");
    assert!(w.well(&["campaign", "preview", "autumn"]).contains("2 people get it"));
    w.write("bad.csv", b"address\n@masha\n");
    let bad = ["audience", "suppress", "--account", "shelter", "--file", "bad.csv"];
    w.refused(&bad, &["bad.csv: none of its 1 lines can be used", "1 × is a name"]);
    assert_eq!(w.requests(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_preview_shows_every_variant_its_buttons_and_the_time_of_a_planned_start() {
    let w = World::new().await;
    w.import("people.csv", "address;name\n101;Анна\n102;Константин\n".as_bytes());
    let more =
        ["--variant", "b=Приходите, {{ r.name }}!", "--button", "Сайт=https://example.org/", "--rate", "1"];
    w.new_campaign("autumn", "Здравствуйте!", &more);
    let preview = w.well(&["campaign", "preview", "autumn"]);
    let after = |words: &str| preview.split_once(words).unwrap_or_else(|| panic!("{preview}")).1;
    assert!(after("variant a:").contains("│ Здравствуйте!\n  │ [Сайт → https://example.org/] [Отписаться]"));
    let b = after("variant b:");
    assert!(
        b.contains("│ Приходите, Анна!") && b.contains("│ Приходите, Константин!"),
        "the longest too: {b}"
    );
    let told = parsed(&w.well(&["campaign", "preview", "autumn", "--json"]));
    let expected = json!(["Здравствуйте!", "Приходите, Анна!", "Приходите, Константин!"]);
    assert_eq!((&told["samples"], &told["said"][1]["variants"]), (&expected, &json!(["b"])), "{told}");

    // What is asked before a planned start is about that start; nobody answers here.
    let mut start = w.command(&["campaign", "start", "autumn", "--at", "2099-12-01T10:00+03:00"]);
    let asked = start.stdin(std::process::Stdio::null()).output().unwrap();
    let shown = String::from_utf8(asked.stdout).unwrap();
    assert!(shown.contains("it begins 2099-12-01") && shown.contains("is done about 2099-12-01"), "{shown}");
    assert_eq!(w.state("autumn"), "draft", "nobody said yes");
    // A name of two words in a hint is one a shell takes.
    w.new_campaign("open day", "Здравствуйте!", &[]);
    w.well(&["campaign", "start", "open day", "--yes"]);
    w.refused(&["campaign", "start", "open day", "--yes"], &["rupor campaign status 'open day'"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_test_says_how_it_went_and_a_part_that_is_paused_has_nothing_on_its_way() {
    let w = World::new().await;
    let stranger = json!({"platform": "telegram", "id": 102, "type": "private", "not_started": true});
    assert!(w.sandbox.add_chat(&stranger).is_ok());
    w.import("people.csv", b"address\n101\n102\n103\n");
    w.new_campaign("autumn", "Здравствуйте!", &[]);
    let waits = w.well(&["campaign", "test", "autumn", "--account", "shelter", "--to", "101"]);
    assert!(waits.contains("101: waits; nothing is sent before `rupor run` runs"), "{waits}");
    let _node = node(&w).await;
    let tested =
        w.command(&["campaign", "test", "autumn", "--account", "shelter", "--to", "102,103"]).output();
    let tested = tested.unwrap();
    let told = String::from_utf8(tested.stdout).unwrap();
    assert!(told.contains("102: not sent: never_started") && told.contains("103: sent"), "{told}");
    let refused = String::from_utf8(tested.stderr).unwrap();
    assert!(!tested.status.success() && refused.contains("1 of 2 messages were not sent"), "{refused}");

    // Nobody answers for a while: that is what the pause waits for.
    let silence = json!({"platform": "telegram", "kind": "hang", "method": "sendMessage", "delay_ms": 1500});
    assert!(w.sandbox.arm(&silence).is_ok());
    w.well(&["campaign", "start", "autumn", "--yes"]);
    let stands = || parsed(&w.well(&["campaign", "status", "autumn", "--json"]));
    let begun = std::time::Instant::now();
    while stands()["in_flight"] == 0 {
        assert!(begun.elapsed().as_secs() < 300, "nothing is on its way: {}", stands());
    }
    let rests = w.well(&["campaign", "pause", "autumn", "--account", "shelter", "--json"]);
    let rests = parsed(&rests);
    assert_eq!(
        (&rests["in_flight"], &rests["resting_in_flight"]),
        (&json!(0), &json!({"shelter": 0})),
        "{rests}"
    );
    let seen = w.requests();
    assert_eq!((&stands()["in_flight"], w.requests()), (&json!(0), seen));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_import_keeps_what_was_known_and_one_of_nobody_makes_no_audience() {
    let w = World::new().await;
    w.import("people.csv", "address;name;city\n101;Анна;Пермь\n102;Пётр;Уфа\n".as_bytes());
    let known = || parsed(&w.well(&["audience", "show", "people", "--json"]));
    // A slip in --map adds a name, and takes none away.
    w.write("again.csv", "address;name\n101;Анна\n102;Пётр\n".as_bytes());
    let again =
        ["audience", "import", "again.csv", "--account", "shelter", "--name", "people", "--map", "nmae=name"];
    w.well(&again);
    assert_eq!(known()[0]["attributes"], json!({"name": "Анна", "nmae": "Анна", "city": "Пермь"}));
    // What a column says counts, also that it is empty.
    w.import("people.csv", "address;name;city\n101;Анна Ивановна;\n".as_bytes());
    assert_eq!(known()[0]["attributes"], json!({"name": "Анна Ивановна", "nmae": "Анна"}));
    let unknown = ["audience", "import", "again.csv", "--account", "shelter", "--map", "name=nmae"];
    w.refused(&unknown, &["--map: the file has no column \"nmae\"", "address, name"]);

    w.write("old.csv", b"address;name\n101;\xc0\xed\xed\xe0\n102;\xc8\xff\n@masha;\n");
    let old = ["audience", "import", "old.csv", "--account", "shelter"];
    w.refused(
        &old,
        &[
            "none of its 3 lines can be used",
            "2 × not UTF-8; save the file as \"CSV UTF-8\"",
            "1 × is a name",
        ],
    );
    w.write("nobody.csv", b"address;name\n");
    w.refused(
        &["audience", "import", "nobody.csv", "--account", "shelter"],
        &["nobody.csv: there is nobody in it"],
    );
    w.write("empty.csv", b"");
    w.refused(&["audience", "import", "empty.csv", "--account", "shelter"], &["the first line is empty"]);
    w.write("people.xlsx", b"PK");
    w.refused(&["audience", "import", "people.xlsx", "--account", "shelter"], &["save it as \"CSV UTF-8\""]);
    assert_eq!(w.audiences(), 1, "only the first one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_without_r_and_orders_to_what_is_over_are_refused_with_the_way_out() {
    let w = World::new().await;
    w.import("people.csv", "address;name\n101;Анна\n".as_bytes());
    let slip = ["campaign", "new", "autumn", "--account", "shelter", "--text", "Привет, {{ name }}!"];
    w.refused(&slip, &["{{ name }}", "{{ r.name }}", "{{ r.name | default(\"друг\") }}"]);
    w.new_campaign("autumn", "Привет, {{ r.name }}!", &[]);
    let _node = node(&w).await;
    w.well(&["campaign", "start", "autumn", "--yes"]);
    let begun = std::time::Instant::now();
    while w.state("autumn") != "finished" {
        assert!(begun.elapsed().as_secs() < 300, "{}", w.well(&["campaign", "status", "autumn"]));
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let edit = ["campaign", "edit", "autumn", "--text", "другое"];
    w.refused(&edit, &["campaign autumn is finished; nothing of it is left to send", "rupor campaign new"]);
    w.refused(&["campaign", "retry", "autumn"], &["campaign autumn: nobody failed", "nothing is changed"]);
    let status = parsed(&w.well(&["campaign", "status", "autumn", "--json"]));
    assert_eq!((&status["state"], &status["wave"]), (&json!("finished"), &json!(0)), "{status}");
    let events = w.well(&["events", "--name", "nope"]);
    assert!(events.contains("no \"nope\" among the last") && events.contains("config_changed"), "{events}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_that_is_taken_is_told_before_anything_is_applied() {
    let w = World::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let text = std::fs::read_to_string(w.folder.path().join("rupor.toml")).unwrap();
    w.write("other.toml", text.replace("[accounts.news]", "[accounts.later]").as_bytes());
    w.refused(&["run", "--config", "other.toml", "--listen", &at], &["choose a free port"]);
    let accounts = w.well(&["account", "list"]);
    assert!(accounts.contains("news") && !accounts.contains("later"), "{accounts}");
}
