//! Nothing that a reader is given makes it panic, hang or disagree with itself: good inputs, mutated.

#[path = "readers.rs"]
mod list;

use list::{ALL, Reader};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A small generator (xorshift: Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    /// A number below `n`, which is not 0.
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// How many mutations of each reader's inputs are tried.
fn cases() -> usize {
    std::env::var("LATHE_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(400)
}

/// Words of text, and runs of bytes that are none: pieces that mean something stay whole.
fn pieces(bytes: &[u8]) -> Vec<&[u8]> {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    bytes.chunk_by(|a, b| word(*a) && word(*b)).collect()
}

fn mutated(random: &mut Random, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
    const ODD: [&[u8]; 12] = [
        b"0",
        b"-1",
        b"9223372036854775807",
        b"9223372036854775808",
        b"1e999",
        b"(",
        b")",
        b"{",
        b"\"",
        b"\xff\xfe",
        b"\0",
        b"\xef\xbb\xbf",
    ];
    let mut parts: Vec<&[u8]> = pieces(seed);
    let other = pieces(&others[random.below(others.len())]);
    for _ in 0..1 + random.below(5) {
        if parts.is_empty() {
            break;
        }
        let at = random.below(parts.len());
        match random.below(6) {
            0 if !other.is_empty() => parts[at] = other[random.below(other.len())],
            1 => _ = parts.remove(at),
            2 => parts.insert(at, parts[random.below(parts.len())]),
            3 => parts[at] = ODD[random.below(ODD.len())],
            4 => {
                let with = random.below(parts.len());
                parts.swap(at, with);
            }
            _ => parts.truncate(at),
        }
    }
    let mut out = parts.concat();
    // Files that are not text change bit by bit, too.
    if !out.is_empty() && random.below(3) == 0 {
        let at = random.below(out.len());
        out[at] ^= 1 << random.below(8);
    }
    out
}

/// Reads one input on a thread that is given up if it takes too long.
fn within_time(reader: &Reader, inputs: Vec<Vec<u8>>) {
    const LONGEST: Duration = Duration::from_secs(10);
    let read = reader.read;
    let (tell, heard) = channel();
    let all = inputs.clone();
    // Parsers may use as much stack as they do in the command.
    let work = move || {
        for (n, input) in all.iter().enumerate() {
            let start = Instant::now();
            let end = std::panic::catch_unwind(|| read(input));
            if tell.send((n, end.is_ok(), start.elapsed())).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(work).expect("a thread");
    for (n, input) in inputs.iter().enumerate() {
        let shown = || String::from_utf8_lossy(input).into_owned();
        match heard.recv_timeout(LONGEST) {
            Ok((at, fine, _)) => assert!(at == n && fine, "{} panics:\n{}", reader.name, shown()),
            Err(_) => panic!("{} takes longer than {LONGEST:?}:\n{}", reader.name, shown()),
        }
    }
}

#[test]
fn whatever_is_read_it_ends_with_a_value_or_a_message() {
    for reader in ALL {
        let seeds = (reader.seeds)();
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut inputs = seeds.clone();
        inputs.push(Vec::new());
        for n in 0..cases() {
            inputs.push(mutated(&mut random, &seeds[n % seeds.len()], &seeds));
        }
        within_time(reader, inputs);
    }
}

/// Inputs to begin with are read: mutations of what is refused at its first byte would test nothing. With the environment
/// variable `LATHE_SEEDS` they are written to that folder, for `make fuzz`.
#[test]
fn good_inputs_are_taken() {
    let folder = std::env::var_os("LATHE_SEEDS").map(PathBuf::from);
    for reader in ALL {
        let seeds = (reader.seeds)();
        let good = seeds.iter().filter(|s| (reader.read)(s)).count();
        assert!(good > 0, "{}: none of {} inputs is a good one", reader.name, seeds.len());
        let Some(folder) = folder.as_ref().map(|f| f.join(reader.name)) else { continue };
        std::fs::create_dir_all(&folder).expect("a folder");
        for (n, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed{n}")), seed).expect("a file");
        }
    }
}
