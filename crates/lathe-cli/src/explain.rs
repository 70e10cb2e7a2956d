//! `lathe explain` and `lathe --explain CODE`.

use crate::Outcome;
use crate::args::ExplainArgs;
use crate::target::{self, Common};
use std::process::ExitCode;

pub fn explain(a: &ExplainArgs, common: &Common) -> Outcome {
    let t = &a.target;
    let (program, name) = target::open(t)?;
    let kernel = program.kernel(name.as_deref())?.clone();
    let how = target::how(t, t.strategy.as_deref())?;
    let schedule = lathe::schedule(&program, &kernel, &how, &target::machine(t))?;
    if common.json {
        let versions: Vec<_> = schedule
            .versions
            .iter()
            .map(|v| {
                serde_json::json!({
                    "condition": v.condition.as_ref().map(ToString::to_string),
                    "steps": v.steps,
                    "tree": lathe::text::print_function(&v.func),
                })
            })
            .collect();
        target::print_json(&serde_json::json!({
            "kernel": &*kernel.name,
            "strategy": schedule.strategy,
            "strategy_source": schedule.source.name(),
            "params": schedule.params,
            "versions": versions,
        }));
        return Ok(());
    }
    for v in &schedule.versions {
        match &v.condition {
            Some(c) => println!("{} when {c}:", schedule.strategy),
            None if schedule.versions.len() > 1 => println!("{} otherwise:", schedule.strategy),
            None => println!("{}:", schedule.strategy),
        }
        for (i, step) in v.steps.iter().enumerate() {
            println!(
                "{:3}. {}({})  v{}  at {:?}",
                i + 1,
                step.rule,
                step.args.join(", "),
                step.version,
                step.path
            );
            for r in &step.relations {
                println!("       {} {}: {}", r.label, r.kind, r.map);
            }
            for o in &step.obligations {
                println!("       {:?}: {}", o.by, o.what);
            }
            for f in &step.facts {
                println!("       fact: {f}");
            }
            for b in &step.buffers {
                println!("       buffer: {b}");
            }
            if !step.reassociates.is_empty() {
                println!("       changes rounding of {}", step.reassociates.join(", "));
            }
            println!("       {} -> {}", step.before, step.after);
            if a.diff
                && let (Some(old), Some(new)) = (v.trees.get(i), v.trees.get(i + 1))
            {
                print_diff(&lathe::text::print_function(old), &lathe::text::print_function(new));
            }
        }
    }
    if common.time_passes {
        target::print_times(&schedule.times);
    }
    Ok(())
}

/// A line-wise difference: longest common subsequence on trees of moderate size, whole texts beyond.
fn print_diff(old: &str, new: &str) {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if a.len() * b.len() > 4_000_000 {
        println!("{new}");
        return;
    }
    let mut common = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] =
                if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            println!("         {}", a[i]);
            i += 1;
            j += 1;
        } else if j < b.len() && (i == a.len() || common[i][j + 1] >= common[i + 1][j]) {
            println!("       + {}", b[j]);
            j += 1;
        } else {
            println!("       - {}", a[i]);
            i += 1;
        }
    }
}

/// Prints what a code means, with a wrong and a right program.
pub fn code(wanted: &str) -> ExitCode {
    let Some(info) = lathe::all_codes().into_iter().find(|c| c.code.0.eq_ignore_ascii_case(wanted)) else {
        eprintln!("there is no code `{wanted}`; docs/errors.md lists them all");
        return ExitCode::from(2);
    };
    println!("{}: {}\n\n{}", info.code, info.title, info.explanation);
    for (title, text) in [("Wrong", info.wrong), ("Right", info.right)] {
        if !text.is_empty() {
            println!("\n{title}:\n");
            for line in text.lines() {
                println!("    {line}");
            }
        }
    }
    ExitCode::SUCCESS
}
