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
        let bytes = std::fs::read(&file).unwrap();
        run(&bytes);
        mutants(&bytes).for_each(|mutant| run(&mutant));
    }
}

/// The same spoiled copies on every run: a few bytes changed, a piece cut out or doubled.
fn mutants(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ bytes.len() as u64;
    let mut chance = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap_or_default()
    };
    (0..MUTANTS).map(move |_| {
        let mut mutant = bytes.to_vec();
        for _ in 0..=chance(3) {
            let (from, length) = (chance(mutant.len()), chance(12));
            let to = (from + length).min(mutant.len());
            match chance(4) {
                0 => drop(mutant.drain(from..to)),
                1 => {
                    let piece = mutant[from..to].to_vec();
                    drop(mutant.splice(from..from, piece));
                }
                2 => mutant[from..to].iter_mut().for_each(|byte| *byte = b"0-9\"{}[]:,\\e"[chance(12)]),
                _ => mutant[from..to].iter_mut().for_each(|byte| *byte ^= 1 << chance(8)),
            }
        }
        mutant
    })
}

const MUTANTS: usize = 1_000;

#[test]
fn every_collected_answer_has_a_sane_verdict() {
    replay("answers", answers::run);
}

#[test]
fn every_collected_event_is_read_and_stable() {
    replay("incoming", incoming::run);
}
