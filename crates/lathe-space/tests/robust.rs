//! Formats never fail otherwise than with a message, whatever their text.

use lathe_diagnostics::FileId;
use lathe_space::formats::{directives, json, substitute, t1};
use lathe_space::space::Generate;
use lathe_space::{Space, SpaceDef, parse};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

const DIRECTIVES: &str = "// #atf::var::N $1\n/* #atf::tp name \"A\" range interval<int>(1, N, 2, pow(2)) */\n\
    #atf::tp name \"Bö\" range set<string>{x, 'y\\'z', \"ü\"} constraint (string s){ return s != \"x\"; } || equal(A)\n\
      constraint divides(N / A) && !(A % 3 == 1) \\\n  || [=](int v){return v<3;}\n\
    #atf::cuda::input buffer<float>(file_name(\"p\"))\n#atf::cuda::grid_dim N, (A + 1), 2 // x\n\
    #atf::abort_condition speedup<hours>(1.5, 2) && (cost(0.5) || fraction(1))\n#atf::run_script \"a b\"\n";
const JSON: &str = r#"{"constants": {"N": 8}, "tuning_parameters": [{"name": "a", "range": "interval<int>(a, N)", "default": 3},
    {"name": "é", "range": [1.5, 2], "scale": "ratio", "constraint": "less_than(a - 1) || (double v){ return v > a; }"}],
    "abort_condition": "duration<minutes>(1)", "run_script": "x"}"#;
const T1: &str = r#"{"ConfigurationSpace": {"TuningParameters": [{"Name": "a", "Type": "int", "Values": "[2**i for i in range(1, 5) if i != 2] + [3]"},
    {"Name": "b", "Type": "float", "Values": [1, 2.5], "Default": 1}],
    "Conditions": [{"Expression": "1 <= a // b ** 2 < 7 or not a in (1, 2) and 'x' == \"x\""}]}}"#;

/// A text with a few places deleted, doubled, replaced or cut off.
fn changed(text: &str, rng: &mut ChaCha8Rng) -> String {
    const PIECES: &[&str] = &[
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "\\",
        ",",
        "<",
        ">",
        "=",
        "!",
        "&&",
        "||",
        "%",
        "/",
        "//",
        "*",
        "-",
        "$9",
        "$",
        "0",
        "9999999999999999999",
        "1e999",
        "-1",
        ".",
        "é",
        "\n",
        " ",
        "#atf::",
        "not",
        "in",
        "for",
        ";",
        "range",
        "constraint",
        "return",
        "a",
        "N",
        "null",
        ":",
    ];
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..rng.gen_range(1..5) {
        let at = rng.gen_range(0..chars.len().max(1)).min(chars.len());
        let to = (at + rng.gen_range(0..6)).min(chars.len());
        let piece = PIECES[rng.gen_range(0..PIECES.len())];
        match rng.gen_range(0..5) {
            0 => drop(chars.drain(at..to)),
            1 => drop(chars.splice(at..at, piece.chars())),
            2 => drop(chars.splice(at..to, piece.chars())),
            3 => {
                let copy: Vec<char> = chars[at..to].to_vec();
                drop(chars.splice(at..at, copy));
            }
            _ => {
                if rng.gen_bool(0.1) {
                    chars.truncate(at);
                }
            }
        }
    }
    chars.into_iter().collect()
}

fn make(def: &SpaceDef) {
    let options = Generate { max_nodes: 10_000, threads: 1, ..Generate::default() };
    // What is made has configurations; all else is a message.
    if let Ok(s) = Space::generate(def, &options) {
        let c = s.configuration(&num_bigint::BigUint::ZERO).unwrap();
        assert!(s.index_of(&c).is_some());
    }
}

#[test]
fn changed_texts_are_read_or_refused() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let f = FileId(0);
    let (mut good, rounds) = (0, 1500);
    for _ in 0..rounds {
        let text = changed(DIRECTIVES, &mut rng);
        let stripped = directives::strip(&text);
        assert_eq!(stripped.matches('\n').count(), text.matches('\n').count());
        match directives::parse(&text, f, &["12".to_string()]) {
            Ok(p) => {
                good += 1;
                make(&p.space);
                if let Some(s) = json::write(&p).ok().filter(|_| !p.space.params.is_empty()) {
                    json::parse(&s, f).unwrap();
                }
            }
            Err(d) => {
                let mark = d.marks.first().map(|m| m.span);
                assert!(mark.is_none_or(|s| s.start <= s.end && s.start as usize <= text.len() + 1), "{d}");
            }
        }
        if let Ok(p) = json::parse(&changed(JSON, &mut rng), f) {
            good += 1;
            make(&p.space);
        }
        if let Ok(t) = t1::parse(&changed(T1, &mut rng), f) {
            good += 1;
            make(&t.space);
        }
        let values = [("N".to_string(), "7".to_string()), ("A".to_string(), "N".to_string())];
        substitute::substitute(&changed(DIRECTIVES, &mut rng), &values);
    }
    assert!(good > 300 && good < 3 * rounds, "{good}");
}

#[test]
fn long_chains_are_refused() {
    assert!(parse(&format!("{}1", "1 + ".repeat(200_000))).is_err());
    assert!(parse(&format!("{}1", "-".repeat(200_000))).is_err());
    assert!(parse(&format!("{}1", "not ".repeat(200_000))).is_err());
    assert!(parse(&format!("{}1", "1 + ".repeat(1000))).is_ok());
}
