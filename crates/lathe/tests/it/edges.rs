//! Every example at sizes 0 and 1 under every strategy: the compiled code does what the program says, or both fail.

use lathe::ir::interp::{self, Options};
use lathe::{Build, Function, Given, How, Machine, Pool, Program, Reference, convert};
use std::collections::BTreeMap;
use std::path::PathBuf;

fn files() -> Vec<PathBuf> {
    crate::files::examples(&[".", "patterns", "mdh"], &["lathe", "mdh"])
}

/// All sizes 0, all 1, and each of them 0 or 1 among the others.
fn sizes(func: &Function) -> Vec<BTreeMap<String, i64>> {
    let names: Vec<String> = func.sizes.iter().map(|b| b.name.to_string()).collect();
    let with = |value: &dyn Fn(usize) -> i64| -> BTreeMap<String, i64> {
        names.iter().enumerate().map(|(n, name)| (name.clone(), value(n))).collect()
    };
    let mut all = vec![with(&|_| 0), with(&|_| 1)];
    for (n, v) in (0..names.len()).flat_map(|n| [(n, 0), (n, 1)]) {
        all.push(with(&|k| if k == n { v } else { 3 }));
    }
    all.dedup();
    all
}

/// Whether a call does what the interpreter says; `None` if there is no such call: an extent is negative, or the strategy
/// is refused, which is for other tests. `auto` takes every size.
fn right(
    program: &Program,
    func: &Function,
    strategy: &str,
    at: &BTreeMap<String, i64>,
    pool: &Pool,
) -> Option<Result<(), String>> {
    let data = lathe::data::make(func, &Given { sizes: at.clone(), ..Given::default() }).ok()?;
    let how =
        How { strategy: Some(strategy.to_string()), sizes: at.clone(), threads: Some(2), ..How::default() };
    let schedule = match lathe::schedule(program, func, &how, &Machine::host()) {
        Err(e) if strategy == "auto" => return Some(Err(e.to_string())),
        made => made.ok()?,
    };
    let build = Build { opt_level: 0, ..Build::default() };
    let built = lathe::compile(&schedule, &build).ok()?;
    let mut values = convert::to_values(&data.arrays).expect("values");
    let want = interp::run(&schedule.module, func, &mut values, &Options::default());
    let mut after = data.duplicate().expect("memory");
    let got = built.call(pool, &mut after.arrays);
    Some(match (want, got) {
        // The strategy is for some sizes only, and the call says so.
        (_, Err(e)) if e.code == lathe::runtime_codes::CHECK_FAILED && e.message.ends_with("(sizes)") => {
            return None;
        }
        (Err(_), Err(_)) => Ok(()),
        (Err(e), Ok(())) => Err(format!("it runs, but the interpreter: {}", e.diagnostic)),
        (Ok(_), Err(e)) => Err(e.to_string()),
        (Ok(_), Ok(())) => Reference::new(&schedule, &build, data, pool)
            .and_then(|r| r.compare(&schedule, &after))
            .map_err(|e| e.to_string())
            .and_then(|c| if c.report.ok { Ok(()) } else { Err("another result".to_string()) }),
    })
}

#[test]
fn every_example_at_sizes_0_and_1_under_every_strategy() {
    let all_sizes = std::env::var_os("LATHE_CASES").is_some();
    let pool = Pool::new(2).expect("threads");
    let (mut calls, mut wrong) = (0, Vec::new());
    for file in files() {
        let program = Program::open(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for k in &program.lang.kernels {
            let func = program.kernel(Some(&k.name)).unwrap_or_else(|e| panic!("{e}"));
            let mut names: Vec<String> = program.strategies(&k.name).iter().map(|d| d.name.clone()).collect();
            names.push("auto".to_string());
            names.sort();
            names.dedup();
            for name in &names {
                let every = sizes(func);
                let some = if all_sizes { every.len() } else { 2 };
                for at in &every[..some.min(every.len())] {
                    let Some(result) = right(&program, func, name, at, &pool) else { continue };
                    calls += 1;
                    if let Err(e) = result {
                        wrong.push(format!("{}: {} under {name} at {at:?}: {e}", file.display(), k.name));
                    }
                }
            }
        }
    }
    eprintln!("{calls} calls");
    assert!(wrong.is_empty(), "{} of {calls}\n{}", wrong.len(), wrong.join("\n"));
    assert!(calls > 200, "only {calls} calls");
}
