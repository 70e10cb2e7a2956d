//! Random kernels over index scalars and data: everyone who runs them does what integers without end say.
//!
//! `LATHE_CASES` sets the number of calls (1,000 without; one in five again as C under sanitizers, where the compiler has
//! them), `LATHE_SEED` the first seed.

use super::kernels::{Call, Rng, Source, Stop};
use super::run::{Argument, Kernel, Outcome};
use super::sanitized;
use lathe::{Build, Engine, Pool};
use std::collections::BTreeMap;

/// Calls of one kernel.
const CALLS: u64 = 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What was done, by what it is.
#[derive(Default)]
struct Tally(BTreeMap<String, u64>);

impl Tally {
    fn add(&mut self, what: impl Into<String>) {
        *self.0.entry(what.into()).or_default() += 1;
    }

    fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }
}

/// A kernel of a seed, unless it is refused: for a subscript that is wrong for every call, say.
fn kernel(seed: u64, tally: &mut Tally) -> Option<(Source, Kernel, Rng)> {
    let mut r = Rng::new(seed);
    let source = Source::random(&mut r);
    let strategy = if r.one_in(3) { "auto" } else { "naive" };
    match Kernel::new(&source.to_string(), strategy) {
        Ok(k) => {
            tally.add("kernels");
            Some((source, k, r))
        }
        Err(e) => {
            let code = e.find("error").map_or("", |at| e[at..].lines().next().unwrap_or(""));
            assert!(e.contains("E0"), "{source}\n{e}");
            tally.add(format!("refused: {}", code.chars().take(12).collect::<String>()));
            None
        }
    }
}

fn given(call: &Call) -> Vec<(&'static str, &[i64])> {
    let (a, b) = (std::slice::from_ref(&call.a), std::slice::from_ref(&call.b));
    vec![("x", &call.x), ("p", &call.p), ("y", &call.y), ("z", &call.z), ("a", a), ("b", b)]
}

fn wanted(source: &Source, call: &Call, tally: &mut Tally) -> Option<Option<Vec<Vec<i64>>>> {
    match source.run(call) {
        Ok(all) => {
            tally.add("calls that give a result");
            Some(Some(all.into()))
        }
        Err(Stop::Fails) => {
            tally.add("calls that fail");
            Some(None)
        }
        Err(Stop::Long) => {
            tally.add("calls that are too long");
            None
        }
    }
}

#[test]
fn random_kernels_do_what_integers_without_end_say() {
    let (cases, first) = (number("LATHE_CASES", 1000), number("LATHE_SEED", 1));
    let pool = Pool::new(2).expect("threads");
    let mut tally = Tally::default();
    let (mut seed, mut done) = (first, 0);
    while done < cases {
        seed += 1;
        let Some((source, k, mut r)) = kernel(seed, &mut tally) else { continue };
        let build = Build { engine: Engine::LLVM, opt_level: (seed % 3) as u8, ..Build::default() };
        let built =
            lathe::compile(&k.schedule, &build).unwrap_or_else(|e| panic!("seed {seed}\n{source}\n{e}"));
        for _ in 0..CALLS {
            let call = Call::random(&mut r);
            let Some(want) = wanted(&source, &call, &mut tally) else { continue };
            done += 1;
            let given: Vec<Argument> = given(&call);
            let arguments = k.arguments(&call.sizes(), &given);
            let tree = &k.schedule.versions[0].func;
            let runs: [(&str, Outcome); 4] = [
                ("interpreter", k.interpreted(k.source(), &arguments)),
                ("interpreter, checked", k.interpreted(&k.schedule.plain, &arguments)),
                ("interpreter, scheduled", k.interpreted(tree, &arguments)),
                ("llvm", k.called(&built, &pool, &arguments)),
            ];
            for (who, got) in runs {
                let what = format!(
                    "{who}: seed {seed}, {call:?}\n{source}\nas {}",
                    lathe::text::print_function(tree)
                );
                assert_eq!(got.clone().ok(), want, "{what}\n{got:?}");
            }
        }
    }
    eprintln!("{:#?}", tally.0);
    let refused: u64 = tally.0.iter().filter(|t| t.0.starts_with("refused")).map(|t| t.1).sum();
    assert!(refused < 3 * tally.of("kernels"), "too few kernels are accepted");
    assert!(tally.of("calls that give a result") > cases / 50, "too few calls end well");
    assert!(tally.of("calls that fail") > cases / 50, "too few calls fail");
}

#[test]
fn emitted_c_is_free_of_undefined_behaviour() {
    let (cases, first) = (number("LATHE_CASES", 1000) / 5, number("LATHE_SEED", 1));
    let Some(compiler) = sanitized::Compiler::find() else {
        eprintln!("there is no C compiler with sanitizers here");
        return;
    };
    let mut tally = Tally::default();
    let (mut seed, mut done) = (first + 1_000_000, 0);
    while done < cases {
        seed += 1;
        let Some((source, k, mut r)) = kernel(seed, &mut tally) else { continue };
        let mut calls = Vec::new();
        for _ in 0..CALLS {
            let call = Call::random(&mut r);
            if let Some(want) = wanted(&source, &call, &mut tally) {
                calls.push((call, want));
            }
        }
        done += CALLS;
        if calls.is_empty() {
            continue;
        }
        let text = lathe::emit(&k.schedule, lathe::Emit::C, &Build { engine: Engine::C, ..Build::default() })
            .unwrap_or_else(|e| panic!("seed {seed}\n{source}\n{e}"));
        let program = compiler.program(&String::from_utf8(text).expect("text"), k.source());
        for (call, want) in calls {
            let got = program.call(&k.arguments(&call.sizes(), &given(&call)), k.source());
            let got = got.unwrap_or_else(|e| panic!("seed {seed}, {call:?}\n{source}\n{e}"));
            assert_eq!(got, want, "seed {seed}, {call:?}\n{source}");
        }
    }
    eprintln!("{:#?}", tally.0);
}
