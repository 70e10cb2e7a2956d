//! Text that people never write: the front end gives messages, it never panics.

use lathe_diagnostics::SourceMap;
use lathe_lang::{Resolver, load};
use lathe_pattern::random::Random;

struct Alone;

impl Resolver for Alone {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("there is no file {name}"))
    }
}

fn survives(text: &str) {
    let mut map = SourceMap::new();
    let _ = load(&mut map, "fuzz.lathe", text, &mut Alone);
    if let Ok(once) = lathe_lang::format(text) {
        assert_eq!(lathe_lang::format(&once).as_deref(), Ok(once.as_str()), "{text}");
    }
}

const SEEDS: &[&str] = &[
    include_str!("../../../examples/gemm.lathe"),
    include_str!("../../../examples/heat2d.lathe"),
    include_str!("../../../examples/mps.lathe"),
    include_str!("../../../examples/softmax.lathe"),
    include_str!("../../../examples/patterns/binomial.lathe"),
    include_str!("files/strategies.lathe"),
    include_str!("files/statements.lathe"),
    include_str!("files/functional.lathe"),
];

/// Replaces, removes, doubles and swaps pieces of valid programs.
#[test]
fn mutations_of_programs_never_panic() {
    let pieces: Vec<&str> =
        SEEDS.iter().flat_map(|s| s.split_inclusive(|c: char| !c.is_alphanumeric())).collect();
    let mut random = Random(7);
    for round in 0..1500 {
        let seed = SEEDS[round % SEEDS.len()];
        let mut parts: Vec<&str> = seed.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for _ in 0..1 + random.below(6) {
            let at = random.below(parts.len());
            match random.below(4) {
                0 => parts[at] = pieces[random.below(pieces.len())],
                1 => {
                    parts.remove(at);
                }
                2 => parts.insert(at, pieces[random.below(pieces.len())]),
                _ => {
                    let other = random.below(parts.len());
                    parts.swap(at, other);
                }
            }
            if parts.is_empty() {
                break;
            }
        }
        survives(&parts.concat());
    }
}

#[test]
fn any_bytes_never_panic() {
    let mut random = Random(11);
    let alphabet: Vec<char> = "abk[](){}<>=+-*/.,:;|#@\"01 \n\\üif for sum where".chars().collect();
    for _ in 0..1000 {
        let n = random.below(60);
        let text: String = (0..n).map(|_| alphabet[random.below(alphabet.len())]).collect();
        survives(&text);
    }
}

#[test]
fn nesting_has_a_limit() {
    let kernel = |e: String| format!("kernel k(a: f32[N]) -> (b: f32[N]) {{ b[i] = {e} }}");
    survives(&kernel("(".repeat(50_000)));
    survives(&kernel("-".repeat(50_000)));
    survives(&kernel(format!("a[i]{}", " + a[i]".repeat(20_000))));
    survives(&kernel(format!("a[i]{}", ".v".repeat(20_000))));
    survives(&format!("kernel k() {{ {}", "if true {".repeat(50_000)));
    survives(&format!("kernel k() {{ {}", "if true { } else ".repeat(50_000)));
    survives(&format!("strategy s = {}", "try(".repeat(50_000)));
    survives(&format!("strategy s = {}", "if a then ".repeat(50_000)));
    survives(&format!("strategy s = f(1{})", " + 1".repeat(50_000)));
    survives(&format!("strategy s = a{}", " @ a".repeat(20_000)));
    survives(&format!("fun f(x: f32) -> f32 = {}", "|x| ".repeat(50_000)));
    survives(&format!("struct S {{ a: {}", "(".repeat(50_000)));
}

/// Errors in several statements are all reported.
#[test]
fn the_parser_recovers() {
    let text = "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i\n    b[j] = * 2\n    let = 3\n    b[i] = a[i]\n}\nkernel l( { }\nstrategy s for k = split(\n";
    let (_, errors) = lathe_lang::parse(lathe_diagnostics::FileId(0), text);
    assert!(errors.len() >= 4, "{errors:?}");
}
