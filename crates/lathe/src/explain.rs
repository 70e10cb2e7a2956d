//! Schedules as text for people: every step with its evidence.

use crate::applied::Version;
use crate::schedule::Schedule;
use lathe_strategy::Evidence;
use std::fmt::Write;

/// Every step: rule, place, relations, obligations; with `differences` also the tree's lines before and after.
pub fn explain(schedule: &Schedule, differences: bool) -> String {
    let mut out = String::new();
    if !schedule.reason.is_empty() {
        let _ = writeln!(out, "{}: {}", schedule.source.name(), schedule.reason);
    }
    for v in &schedule.versions {
        match &v.condition {
            Some(c) => {
                let _ = writeln!(out, "{} when {c}:", schedule.strategy);
            }
            None if schedule.versions.len() > 1 => {
                let _ = writeln!(out, "{} otherwise:", schedule.strategy);
            }
            None => {
                let _ = writeln!(out, "{}:", schedule.strategy);
            }
        }
        decisions(&mut out, v);
        if let Some(n) = v.rewriting {
            let _ = writeln!(out, "  {n} steps on terms, by ELEVATE's convention");
        }
        for (i, step) in v.steps.iter().enumerate() {
            let _ = writeln!(
                out,
                "{:3}. {}({})  v{}  at {:?}",
                i + 1,
                step.rule,
                step.args.join(", "),
                step.version,
                step.path
            );
            for r in &step.relations {
                let _ = writeln!(out, "       {r}");
            }
            for o in &step.obligations {
                let _ = writeln!(out, "       {}: {o}", o.by);
            }
            for f in &step.facts {
                let _ = writeln!(out, "       fact: {f}");
            }
            for b in &step.buffers {
                let _ = writeln!(out, "       buffer: {b}");
            }
            if !step.reassociates.is_empty() {
                let _ = writeln!(out, "       changes rounding of {}", step.reassociates.join(", "));
            }
            let _ = writeln!(out, "       {} -> {}", step.before, step.after);
            if differences && let (Some(old), Some(new)) = (v.forms.get(i), v.forms.get(i + 1)) {
                diff(&mut out, &old.text(), &new.text());
            }
        }
    }
    out
}

/// What the obligations of a step say, for people.
fn sentences(step: &Evidence) -> Vec<String> {
    step.obligations.iter().map(|o| format!("{}: {o}", o.by)).collect()
}

/// The same for programs: for each version its condition, its steps and its tree.
pub fn explain_json(kernel: &str, doc: &str, schedule: &Schedule) -> serde_json::Value {
    let versions: Vec<_> = schedule
        .versions
        .iter()
        .map(|v| {
            serde_json::json!({
                "condition": v.condition.as_ref().map(ToString::to_string),
                "baked": v.baked,
                "decisions": v.taken,
                "notes": v.notes,
                "evidence_version": lathe_strategy::evidence::VERSION,
                "steps": v.steps,
                "rewriting_steps": v.rewriting,
                "sentences": v.steps.iter().map(sentences).collect::<Vec<_>>(),
                "tree": lathe_ir::text::print_function(&v.func),
            })
        })
        .collect();
    serde_json::json!({
        "kernel": kernel,
        "doc": doc,
        "strategy": schedule.strategy,
        "strategy_source": schedule.source.name(),
        "strategy_reason": schedule.reason,
        "params": schedule.params,
        "versions": versions,
    })
}

/// Which decisions were taken, and the steps on loops that they became.
fn decisions(out: &mut String, v: &Version) {
    for note in &v.notes {
        let _ = writeln!(out, "  note: {note}");
    }
    if !v.baked.is_empty() {
        let sizes: Vec<String> = v.baked.iter().map(|(n, s)| format!("{n} = {s}")).collect();
        let _ = writeln!(out, "  sizes baked in: {}", sizes.join(", "));
    }
    for c in &v.taken.computes {
        let _ = writeln!(
            out,
            "  decisions for {} on {}: {} of {} entries by the strategy, the others chosen",
            c.compute, c.model, c.fixed, c.entries
        );
        let _ = writeln!(out, "    {}", c.step.replace('\n', "\n    "));
    }
    if !v.taken.computes.is_empty() {
        let _ = writeln!(out, "  which are, after {:.1} ms, the steps", v.taken.seconds * 1e3);
        let _ = writeln!(out, "    {}", v.taken.strategy.replace(" ; ", " ;\n    "));
    }
}

/// A line-wise difference: longest common subsequence on trees of moderate size, whole texts beyond.
fn diff(out: &mut String, old: &str, new: &str) {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    if a.len() * b.len() > 4_000_000 {
        let _ = writeln!(out, "{new}");
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
            let _ = writeln!(out, "         {}", a[i]);
            i += 1;
            j += 1;
        } else if j < b.len() && (i == a.len() || common[i][j + 1] >= common[i + 1][j]) {
            let _ = writeln!(out, "       + {}", b[j]);
            j += 1;
        } else {
            let _ = writeln!(out, "       - {}", a[i]);
            i += 1;
        }
    }
}
