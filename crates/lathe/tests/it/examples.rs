//! The examples of the repository: every strategy is accepted, every test holds under the interpreter and in
//! machine code of every engine that this machine has.

use lathe::tests_of::{Runner, run_test};
use lathe::{Engine, Machine, Pool, Program, check_program};
use std::path::{Path, PathBuf};

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
            let how = lathe::How {
                strategy: Some("auto".to_string()),
                sizes: t.sizes.iter().cloned().collect(),
                threads: Some(2),
                ..lathe::How::default()
            };
            let kernel = p.kernel(Some(&t.kernel)).unwrap_or_else(|e| panic!("{e}"));
            let made = lathe::schedule(&p, kernel, &how, &Machine::host()).and_then(|s| {
                chosen += s.versions.iter().map(|v| v.taken.computes.len()).sum::<usize>();
                let built = lathe::compile(&s, &lathe::Build { opt_level: 0, ..lathe::Build::default() })
                    .map_err(lathe::Failure::bare)?;
                run_test(&p, t, Runner::Built { built: &built, pool: &pool }, &Machine::host())
            });
            if let Err(e) = made {
                failures.push(format!("{}: \"{}\" of {}: {e}", f.display(), t.name, t.kernel));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(chosen >= 25, "{chosen} computes took decisions");
}

fn compiled(engine: Engine) {
    let pool = Pool::new(2).expect("a pool");
    let mut failures = Vec::new();
    let numbers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lathe-lang/tests/files/numbers_ok.lathe");
    for f in files().into_iter().chain([numbers]) {
        let p = Program::open(&f).unwrap_or_else(|e| panic!("{}: {e}", f.display()));
        for t in &p.lang.tests {
            for d in p.strategies(&t.kernel).iter().filter(|d| d.name == "naive" || d.name == "fast") {
                let strategy = d.name.as_str();
                let runner = Runner::Compiled { strategy, engine, pool: &pool };
                if let Err(e) = run_test(&p, t, runner, &Machine::host()) {
                    failures.push(format!("{} with {strategy}: {e}", f.display()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
