//! A summary of a derivative: how cotangents are accumulated, what is stored, what is recomputed.

use crate::Derivative;
use crate::arrays::determines;
use lathe_ir::{Access, Combine, Expr, Stmt, VarId};

/// How many statements add cotangents to shadows, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accumulation {
    /// Every instance adds to a distinct element.
    pub plain: usize,
    /// Several instances add to one element.
    pub reduction: usize,
    /// Chunks of iterations that run in threads add to copies of the array.
    pub private: usize,
    /// Iterations that run in threads add by atomic updates.
    pub atomic: usize,
}

impl Derivative {
    /// How cotangents are accumulated.
    pub fn accumulation(&self) -> Accumulation {
        let mut out = Accumulation::default();
        accumulation(&self.func.body, &mut Vec::new(), &mut out);
        out
    }

    /// The statements of the primal that are recomputed in the reverse sweep, by their labels.
    pub fn recomputed(&self) -> Vec<String> {
        let mut out = Vec::new();
        lathe_ir::visit::walk(&self.func.body, &mut |s, _| {
            if let Some((of, _)) = s.label().and_then(|l| made(l.as_str(), "again"))
                && !out.iter().any(|o| o == of)
            {
                out.push(of.to_string());
            }
            true
        });
        out
    }

    /// What is kept between the sweeps, in bytes, over the sizes; 0 where nothing is.
    pub fn tape_bytes(&self) -> Expr {
        crate::bytes::total(&self.kept)
    }

    /// What would be kept without a choice of what to compute again, in bytes, over the sizes.
    pub fn everything_bytes(&self) -> Option<Expr> {
        self.everything.as_deref().map(crate::bytes::total)
    }
}

/// The two parts of a label that a derivative made: `C.bar2` is the second `bar` of `C`.
pub fn made<'a>(label: &'a str, suffix: &str) -> Option<(&'a str, &'a str)> {
    let (of, last) = label.rsplit_once('.')?;
    let number = last.strip_prefix(suffix)?;
    number.chars().all(|c| c.is_ascii_digit()).then_some((of, number))
}

fn accumulation(s: &Stmt, loops: &mut Vec<VarId>, out: &mut Accumulation) {
    let is_bar = s.label().is_some_and(|l| made(l.as_str(), "bar").is_some());
    let mut count = |target: &Access, vars: &[VarId]| {
        if determines(&target.indices, vars) { out.plain += 1 } else { out.reduction += 1 }
    };
    if is_bar && let Some(c) = s.as_compute() {
        let free = c.dims.iter().filter(|d| d.combine == Combine::Concat).map(|d| d.binder.id);
        let vars: Vec<VarId> = loops.iter().copied().chain(free).collect();
        // What overwrites adds up points of its own.
        let vars = if c.update.is_some() { vars } else { Vec::new() };
        c.targets.iter().for_each(|t| count(t, &vars));
    } else if is_bar && let Some(r) = s.as_reduce() {
        r.targets.iter().for_each(|t| count(t, loops));
    }
    let depth = loops.len();
    loops.extend(s.as_loop().map(|l| l.binder.id));
    s.children().for_each(|c| accumulation(c, loops, out));
    loops.truncate(depth);
}
