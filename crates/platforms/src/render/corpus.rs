//! Replays what the fuzzer has collected.

#[path = "../../../../fuzz/entries/render.rs"]
mod entry;

#[test]
fn every_collected_input_still_renders_within_limits() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/render");
    let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() >= 10, "the corpus is gone");
    for file in files {
        entry::run(&std::fs::read(&file).unwrap());
    }
}
