//! Smaller variants of a failing case.

use super::case::{Case, Outcome, Pools, Steps, run};

/// Tries variants with fewer steps, fewer statements and smaller sizes, and keeps those that fail alike.
pub fn shrink(case: &Case, outcome: Outcome, pools: &Pools) -> (Case, Outcome) {
    let (mut best, mut found) = (case.clone(), outcome);
    let mut budget = 150;
    loop {
        let mut better = false;
        for mut c in variants(&best) {
            if budget == 0 {
                return (best, found);
            }
            budget -= 1;
            let o = run(&mut c, pools);
            if o.failed.as_ref().map(|w| w.kind) == found.failed.as_ref().map(|w| w.kind) {
                (best, found, better) = (c, o, true);
                break;
            }
        }
        if !better {
            return (best, found);
        }
    }
}

fn variants(case: &Case) -> Vec<Case> {
    let mut out = Vec::new();
    if let Steps::Given(v) = &case.steps {
        for n in (0..v.len()).rev() {
            let mut v = v.clone();
            v.remove(n);
            out.push(Case { steps: Steps::Given(v), ..case.clone() });
        }
    }
    for n in 0..case.source.statements.len() {
        let mut c = case.clone();
        let gone = c.source.statements.remove(n);
        // An output that nothing writes any more is not an output.
        c.source.results.retain(|r| {
            let name = r.split(':').next().unwrap_or("");
            !gone.starts_with(name) || c.source.statements.iter().any(|s| s.starts_with(name))
        });
        out.push(c);
    }
    for n in 0..case.source.params.len() {
        let mut c = case.clone();
        c.source.params.remove(n);
        out.push(c);
    }
    for n in 0..case.sizes.len() {
        for smaller in [0, case.sizes[n].1 / 2, case.sizes[n].1 - 1] {
            if (0..case.sizes[n].1).contains(&smaller) {
                let mut c = case.clone();
                c.sizes[n].1 = smaller;
                out.push(c);
            }
        }
    }
    if case.strided {
        out.push(Case { strided: false, ..case.clone() });
    }
    out
}
