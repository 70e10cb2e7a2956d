//! The examples of the repository: every strategy is accepted, every test holds under the interpreter and in
//! machine code of every engine that this machine has.

use lathe::tests_of::{Runner, run_test};
use lathe::{Build, Built, Engine, How, Machine, Pool, Program, check_program};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

fn files() -> Vec<PathBuf> {
    crate::files::examples(&[".", "patterns", "mdh", "devices"], &["lathe"])
}

#[test]
fn every_strategy_is_accepted_and_every_test_holds() {
    let mut failures = Vec::new();
    let files = files();
    assert!(files.len() >= 20, "only {} examples", files.len());
    for f in &files {
        match Program::open(f) {
            Err(e) => failures.push(format!("{}: {e}", f.display())),
            Ok(p) => {
                assert!(!p.lang.tests.is_empty(), "{} has no test", f.display());
                for k in &p.lang.kernels {
                    let names: Vec<&str> = p.strategies(&k.name).iter().map(|d| d.name.as_str()).collect();
                    // A fun without test is a part of others, and homomorphisms are written without strategies;
                    // what is for devices has none for CPUs.
                    let part = p.lang.funs.contains_key(&k.name)
                        && !p.lang.tests.iter().any(|t| t.kernel == k.name)
                        || f.parent().is_some_and(|d| d.ends_with("mdh") || d.ends_with("devices"));
                    assert!(
                        names.contains(&"naive") && (part || names.contains(&"fast")),
                        "{}: {} has {names:?}",
                        f.display(),
                        k.name
                    );
                }
                for e in check_program(&p, &Machine::host()).failures {
                    failures.push(format!("{}: {e}", f.display()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Homomorphisms have no strategy of their own: the cost model decides for the sizes of each test.
#[cfg(feature = "llvm")]
#[test]
fn homomorphisms_hold_with_what_the_cost_model_chooses() {
    let pool = Pool::new(2).expect("a pool");
    let (mut failures, mut chosen) = (Vec::new(), 0);
    for f in files().iter().filter(|f| f.parent().is_some_and(|d| d.ends_with("mdh"))) {
        let p = Program::open(f).unwrap_or_else(|e| panic!("{}: {e}", f.display()));
        for t in &p.lang.tests {
            let how = How {
                strategy: Some("auto".to_string()),
                sizes: t.sizes.iter().cloned().collect(),
                threads: Some(2),
                ..How::default()
            };
            let kernel = p.kernel(Some(&t.kernel)).unwrap_or_else(|e| panic!("{e}"));
            let made = lathe::schedule(&p, kernel, &how, &Machine::host()).and_then(|s| {
                chosen += s.versions.iter().map(|v| v.taken.computes.len()).sum::<usize>();
                let built = lathe::compile(&s, &Build { opt_level: 0, ..Build::default() })
                    .map_err(lathe::Failure::bare)?;
                run_test(&p, t, Runner::Built { built: &built, pool: &pool })
            });
            if let Err(e) = made {
                failures.push(format!("{}: \"{}\" of {}: {e}", f.display(), t.name, t.kernel));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(chosen >= 25, "{chosen} computes took decisions");
}

/// The tests of all examples in machine code of an engine, on all cores.
fn compiled(engine: Engine) {
    let numbers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lathe-lang/tests/files/numbers_ok.lathe");
    let all: Vec<PathBuf> = files().into_iter().chain([numbers]).collect();
    // What is tested is the meaning, which no level of optimization changes; a C compiler takes long at 2.
    let opt_level = if engine == Engine::C { 0 } else { Build::default().opt_level };
    let build = Build { engine, opt_level, ..Build::default() };
    let next = AtomicUsize::new(0);
    let work = || {
        let one = || Some(file_in_machine_code(all.get(next.fetch_add(1, Ordering::Relaxed))?, &build));
        std::iter::from_fn(one).flatten().collect::<Vec<String>>()
    };
    let failures: Vec<String> = std::thread::scope(|s| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let all: Vec<_> = (0..cores).map(|_| s.spawn(work)).collect();
        all.into_iter().flat_map(|t| t.join().expect("a thread")).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What fails of a file. Each kernel is compiled once for each strategy.
fn file_in_machine_code(file: &Path, build: &Build) -> Vec<String> {
    let p = Program::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let pool = Pool::new(2).expect("a pool");
    let mut failures = Vec::new();
    let kernels: BTreeSet<&str> = p.lang.tests.iter().map(|t| t.kernel.as_str()).collect();
    for k in kernels {
        let tests: Vec<_> = p.lang.tests.iter().filter(|t| t.kernel == k).collect();
        let mut strategies: Vec<_> = p.strategies(k);
        strategies.retain(|d| d.name == "naive" || d.name == "fast");
        // A C compiler takes long: of two strategies it gets the one that makes more of a kernel.
        if build.engine == Engine::C && strategies.iter().any(|d| d.name == "fast") {
            strategies.retain(|d| d.name == "fast");
        }
        for d in strategies {
            let how = How { strategy: Some(d.name.clone()), ..How::default() };
            let kernel = p.kernel(Some(k)).unwrap_or_else(|e| panic!("{e}"));
            let built = lathe::schedule(&p, kernel, &how, &Machine::host())
                .and_then(|s| lathe::compile(&s, build).map_err(lathe::Failure::bare));
            let run = |built: &Built, t| run_test(&p, t, Runner::Built { built, pool: &pool }).map(|_| ());
            let done = built.and_then(|built| tests.iter().try_for_each(|t| run(&built, t)));
            failures.extend(done.err().map(|e| format!("{} with {}: {e}", file.display(), d.name)));
        }
    }
    failures
}

#[cfg(feature = "llvm")]
#[test]
fn tests_hold_in_machine_code_of_llvm() {
    compiled(Engine::LLVM);
}

#[test]
fn tests_hold_in_machine_code_of_the_c_compiler() {
    compiled(Engine::C);
}
