//! Damaged and hostile inputs: every reader gets mutations of every fixture, and none may panic or hang.
//!
//! The targets in `fuzz/` do the same without end; this is the bounded part of it that every test run has.

use std::path::Path;
use std::time::{Duration, Instant};

use profiler::import;

/// Mutations of each fixture.
const MUTATIONS: u64 = 150;
/// Bytes of a fixture that are mutated at a time.
const PIECE: usize = 3000;

fn corpus() -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push((path.display().to_string(), std::fs::read(&path).unwrap()));
            }
        }
    }
    assert!(files.len() > 10);
    files
}

/// A small generator of numbers (xorshift64): the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    fn mutate(&mut self, text: &[u8]) -> Vec<u8> {
        let start = self.below(text.len());
        let mut piece = text[start..text.len().min(start + PIECE)].to_vec();
        for _ in 0..1 + self.below(8) {
            if piece.is_empty() {
                break;
            }
            let at = self.below(piece.len());
            match self.below(7) {
                0 => piece[at] = self.below(256) as u8,
                1 => piece.insert(at, b" \n\t%()[];|-+.0@,/:#>"[self.below(20)]),
                2 => drop(piece.remove(at)),
                3 => piece.truncate(at),
                4 => {
                    let from = self.below(piece.len());
                    let copy = piece[from..piece.len().min(from + 100)].to_vec();
                    piece.splice(at..at, copy);
                }
                5 => drop(piece.splice(at..at, b"18446744073709551616".iter().copied())),
                _ => piece[at] = piece[at].wrapping_add(1),
            }
        }
        piece
    }
}

#[test]
fn no_reader_panics_or_hangs_at_damaged_fixtures() {
    let formats: Vec<&str> = import::text_formats().collect();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut longest = Duration::ZERO;
    for (name, text) in corpus() {
        for _ in 0..MUTATIONS {
            let damaged = random.mutate(&text);
            let start = Instant::now();
            for format in &formats {
                let _ = import::read_as(format, &damaged);
            }
            let _ = import::read(&mut &*damaged, &name, &import::Options::default(), &|_, _| {});
            longest = longest.max(start.elapsed());
        }
    }
    // A few kilobytes take milliseconds: what takes longer than this grows with the square of something.
    assert!(longest < Duration::from_secs(20), "{longest:?}");
}

#[test]
fn a_gigabyte_without_a_line_break_is_an_error() {
    struct Endless(u64);
    impl std::io::Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let length = buffer.len().min(usize::try_from(self.0).unwrap());
            buffer[..length].fill(b'x');
            self.0 -= length as u64;
            Ok(length)
        }
    }
    let start: &[u8] = b"a;b_[k] 1\na;b_[k] 1\n";
    let mut input = std::io::Read::chain(start, Endless(1 << 30));
    // Recognised by its first lines only where they are most of them.
    let error = import::read(&mut input, "endless", &import::Options::default(), &|_, _| {}).unwrap_err();
    assert!(error.to_string().contains("`endless`"), "{error}");
    let error =
        import::read_as("folded stacks", &[b"a;b 1\n".to_vec(), vec![b'x'; 2 << 20]].concat()).unwrap_err();
    assert_eq!(error.to_string(), "`text`: line 2: more than 1048576 bytes in a line, the most that is read");
}
