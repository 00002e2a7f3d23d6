//! Replays what the fuzzer has collected, so that every build checks it without the fuzzer.

#[path = "../../../fuzz/entries/answers.rs"]
mod answers;
#[path = "../../../fuzz/entries/incoming.rs"]
mod incoming;

fn replay(target: &str, run: fn(&[u8])) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 10, "the corpus of {target} is gone");
    for file in files {
        run(&std::fs::read(&file).unwrap());
    }
}

#[test]
fn every_collected_answer_has_a_sane_verdict() {
    replay("answers", answers::run);
}

#[test]
fn every_collected_event_is_read_and_stable() {
    replay("incoming", incoming::run);
}
