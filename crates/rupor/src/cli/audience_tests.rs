//! Lists of people as the command reads them.

use super::*;

/// A file of any length that stands nowhere: lines are made when they are read.
struct Lines {
    made: u64,
    of: u64,
    rest: Vec<u8>,
    handed: std::rc::Rc<std::cell::Cell<u64>>,
}

impl std::io::Read for Lines {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.rest.is_empty() && self.made < self.of {
            self.made += 1;
            let n = self.made;
            self.rest = match n % 4 {
                0 => format!("@somebody{n};a name;\n"),
                _ => format!("{};Анна {n};\"{}\"\n", 100_000 + n, "x".repeat(n as usize % 1_000)),
            }
            .into_bytes();
        }
        let n = self.rest.len().min(to.len());
        to[..n].copy_from_slice(&self.rest[..n]);
        self.rest.drain(..n);
        self.handed.set(self.handed.get() + n as u64);
        Ok(n)
    }
}

#[test]
fn of_a_file_of_any_length_one_step_is_held() {
    const BUFFER: usize = 64 * 1024;
    const LINES: u64 = 40_000;
    let handed = std::rc::Rc::default();
    let lines = Lines {
        made: 0,
        of: LINES,
        rest: b"address;name;about\n".to_vec(),
        handed: std::rc::Rc::clone(&handed),
    };
    let from = BufReader::with_capacity(BUFFER, lines);
    let address: fn(&str, &str) -> String = |_, id| id.to_owned();
    let (columns, source, platform) = (Columns::default(), "s".into(), "telegram".into());
    let mut list = List::open(from, true, people::Whose { columns, source, platform, address }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rejected");
    let mut rejects = Rejects { path: path.clone(), file: None, bytes: 0, reasons: BTreeMap::new() };
    let mut progress = Progress::default();
    let mut steps = 0;
    while !progress.done {
        let Gathered { people, next } = gather(&mut list, &progress, &mut rejects).unwrap();
        let step = next.offset - progress.offset;
        assert!(people.len() <= STEP_ROWS, "{} people", people.len());
        assert!(step <= STEP_BYTES as u64, "{step} bytes");
        assert!(handed.get() - next.offset <= BUFFER as u64, "read ahead of the step");
        assert_eq!(rejects.reasons.len(), 1, "what was found in the lines is not kept");
        steps += 1;
        progress = next;
    }
    assert!(steps > 20, "{steps} steps are no test");
    assert_eq!((progress.rows, progress.rejected, progress.offset), (LINES, LINES / 4, handed.get()));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), progress.rejects_bytes);
}

#[test]
fn what_a_killed_run_rejected_after_its_last_step_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rejected");
    let run = |bytes| Rejects { path: path.clone(), file: None, bytes, reasons: BTreeMap::new() };
    let mut first = run(0);
    first.keep(1, "no", b"a\n").unwrap();
    let step = first.bytes;
    first.keep(2, "no", b"b\n").unwrap();
    let mut second = run(step);
    second.keep(2, "no", b"b\n").unwrap();
    second.keep(3, "no", b"c\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "row 1: no: a\nrow 2: no: b\nrow 3: no: c\n");
    // Another file of the same name begins anew; and nothing is made up for a side file that somebody took away.
    run(0).keep(1, "no", b"z\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "row 1: no: z\n");
    std::fs::remove_file(&path).unwrap();
    run(step).keep(9, "no", b"y\n").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "row 9: no: y\n");
}

#[test]
fn a_reason_is_told_without_what_it_was_found_in() {
    for (why, expected) in [
        ("\"@a \\\"b\\\" \" is a name; give the id", "is a name; give the id"),
        ("not UTF-8; save the file as \"CSV UTF-8\"", "not UTF-8; save the file as \"CSV UTF-8\""),
        ("no JSON object: expected value at line 1 column 1", "no JSON object"),
        ("2 fields where the first line has 3", "2 fields where the first line has 3"),
    ] {
        assert_eq!(reason(why), expected);
    }
}
