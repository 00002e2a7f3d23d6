//! Seeded mutation without a fuzzer: the same seed gives the same spoiled inputs on every machine.
//!
//! It knows nothing of coverage; in exchange it needs no special compiler, and every entry can be driven a million
//! times in the background of other work.

/// Words that parsers stumble over.
const WORDS: &[&str] = &[
    "\"",
    "\\",
    "\0",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "null",
    "true",
    "-",
    "0",
    "1e999",
    "-1",
    "9223372036854775808",
    "99999999999999999999",
    "\\u0000",
    "\\ud800",
    "<![CDATA[",
    "]]>",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "&#0;",
    "<",
    ">",
    "</",
    "../",
    "//",
    "@",
    "%00",
    "%2e",
    "[::1]",
    "[::ffff:7f00:1]",
    "127.0.0.1",
    "0x7f.1",
    "localhost.",
    "169.254.169.254",
    "\u{202e}",
    "\u{200d}",
    "\u{feff}",
    "\u{301}",
    "é",
    "я",
    "ё",
    "🐕",
    "\r\n",
    "\n",
    "\t",
    "'; --",
    "{{",
    "}}",
    "{%",
    "=",
    "#",
    "\"\"\"",
    "'''",
    "env",
    "rate",
    "inf",
    "nan",
    "1979-05-27",
];

/// A stream of chance and of the inputs it makes from seeds.
#[derive(Debug)]
pub(super) struct Mutator {
    state: u64,
    seeds: Vec<Vec<u8>>,
}

/// No input grows beyond this.
const BYTES_MAX: usize = 16 << 10;

impl Mutator {
    pub(super) fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Mutator {
        Mutator { state: 0x9e37_79b9_7f4a_7c15 ^ seed.wrapping_mul(0xbf58_476d_1ce4_e5b9), seeds }
    }

    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state % n.max(1) as u64).unwrap_or_default()
    }

    /// The next input: a seed with a few things done to it.
    pub(super) fn next_input(&mut self) -> Vec<u8> {
        let chosen = self.below(self.seeds.len());
        let mut bytes = self.seeds.get(chosen).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.spoil(&mut bytes);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        let from = self.below(bytes.len() + 1).min(bytes.len());
        let length = if self.below(8) == 0 { self.below(bytes.len() + 1) } else { self.below(12) };
        let to = (from + length).min(bytes.len());
        match self.below(9) {
            0 => drop(bytes.drain(from..to)),
            1 => {
                let piece = bytes[from..to].repeat(1 + self.below(4));
                drop(bytes.splice(from..from, piece));
            }
            2 | 3 => {
                let word = WORDS[self.below(WORDS.len())];
                drop(bytes.splice(from..to.min(from + 4), word.bytes()));
            }
            4 => {
                let word = WORDS[self.below(WORDS.len())];
                drop(bytes.splice(from..from, word.bytes()));
            }
            5 => {
                for byte in &mut bytes[from..to] {
                    *byte ^= 1 << self.below(8);
                }
            }
            6 => {
                for byte in &mut bytes[from..to] {
                    *byte = u8::try_from(self.below(256)).unwrap_or_default();
                }
            }
            7 => {
                // The tail of another seed.
                let other = self.below(self.seeds.len());
                let cut = self.below(self.seeds.get(other).map_or(0, Vec::len));
                let tail = self.seeds.get(other).map(|seed| seed[cut..].to_vec()).unwrap_or_default();
                bytes.truncate(from);
                bytes.extend(tail);
            }
            _ => bytes.truncate(from),
        }
    }
}
