//! The whole space of the thesis (Section 2.4, without the cuts that [`crate::space`] makes): every order and assignment
//! in every phase, every region and layout at every level. Its size is that of the formula
//! `Π_d factorizations(N_d) · ((L·D)!)⁶ · Π_b (|MR|·D_b!)^(L·D+1)`. Parameters:
//!
//! * `parts_i_1`, …: as in [`crate::space`];
//! * `D1_1`, `D1_2`, …: digits of a permutation in the factorial number system, so that every combination is one:
//!   which of the ranks that are left the next level gets; `S1`, `R1`, and the assignments `D2`, `S2`, `R2` likewise;
//! * `D3_A_1_2`: the region of buffer `A` at a level, `D4_A_1_2` the number of its layout; `S3_A`, `S4_A` for the scalar
//!   function; `R3`, `R4`, `S5`, `S6` for outputs.

use crate::decisions::{AsmLevel, Decisions, Placement, Spot, Table};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::space::{self, Bound};
use lathe_diagnostics::Diagnostic;
use lathe_space::{SpaceDef, TuningParameter, Value, Values};

/// The space of the free entries; tables of which a part is fixed keep that and stay plain elsewhere.
///
/// # Errors
/// E1222 where a table is fixed in part.
pub fn uncut(h: &Shaped, model: &Model, d: &Decisions) -> Result<SpaceDef, Diagnostic> {
    let mut def = space::parts(h, d);
    let levels = d.layers() * d.dims();
    for (name, table) in orders(d) {
        if space::is_free(&name, &[table])? {
            def = digits(def, &name, levels);
        }
    }
    for (name, table) in assignments(d) {
        if space::is_free(&name, &[table])? {
            def = digits(def, &name, levels);
        }
    }
    let regions = model.memories.len() as i64;
    for (p, rank, three, four) in placements(h, d) {
        if space::is_free(&format!("{three} of `{}`", p.buffer), &[&p.region])? && regions > 1 {
            for name in names(d, three, &p.buffer) {
                def = def.param(TuningParameter::int(name, 0, regions - 1));
            }
        }
        if space::is_free(&format!("{four} of `{}`", p.buffer), &[&p.layout])? && rank > 1 {
            for name in names(d, four, &p.buffer) {
                def = def.param(TuningParameter::int(name, 0, factorial(rank) - 1));
            }
        }
    }
    for (s, rank, three, four) in spots(h, d) {
        if s.region.is_none() && regions > 1 {
            def = def.param(TuningParameter::int(format!("{three}_{}", s.buffer), 0, regions - 1));
        }
        if s.layout.is_none() && rank > 1 {
            def = def.param(TuningParameter::int(format!("{four}_{}", s.buffer), 0, factorial(rank) - 1));
        }
    }
    Ok(def)
}

/// The decisions of a configuration. They may break a rule: of the model, of capacities, of scans;
/// [`crate::check`](fn@crate::check) tells.
///
/// # Errors
/// E1204 for a missing or unusable value.
pub fn bind(h: &Shaped, model: &Model, d: &Decisions, values: &Values) -> Result<Decisions, Diagnostic> {
    let mut out = d.clone();
    let known = Bound { values };
    space::bind_parts(h, d, &known, &mut out)?;
    let (layers, dims) = (d.layers(), d.dims());
    for ((name, from), to) in
        orders(d).into_iter().zip([&mut out.down.order, &mut out.scalar.order, &mut out.up.order])
    {
        if free(from) {
            let p = permutation(&known, &name, layers * dims)?;
            *to = p.chunks(dims.max(1)).map(|row| row.iter().map(|r| Some(*r)).collect()).collect();
        }
    }
    for ((name, from), to) in assignments(d).into_iter().zip([
        &mut out.down.assignment,
        &mut out.scalar.assignment,
        &mut out.up.assignment,
    ]) {
        if free(from) {
            let p = permutation(&known, &name, layers * dims)?;
            let level = |n: &usize| Some(AsmLevel { layer: n / dims, dim: n % dims });
            *to = p.chunks(dims.max(1)).map(|row| row.iter().map(level).collect()).collect();
        }
    }
    let several = model.memories.len() > 1;
    let all = placements(h, d).into_iter().map(|(_, rank, three, four)| (rank, three, four));
    for (p, (rank, three, four)) in out.reads.iter_mut().chain(&mut out.writes).zip(all.collect::<Vec<_>>()) {
        let names_of = |word: &str| names(d, word, &p.buffer);
        if free(&p.region) && several {
            for (e, name) in p.region.iter_mut().flatten().zip(names_of(three)) {
                *e = Some(known.number(&name)? as usize);
            }
        }
        if free(&p.layout) && rank > 1 {
            for (e, name) in p.layout.iter_mut().flatten().zip(names_of(four)) {
                *e = nth(rank, known.number(&name)? as usize);
            }
        }
    }
    let all = spots(h, d).into_iter().map(|(_, rank, three, four)| (rank, three, four));
    for (s, (rank, three, four)) in
        out.operands.iter_mut().chain(&mut out.results).zip(all.collect::<Vec<_>>())
    {
        if s.region.is_none() && several {
            s.region = Some(known.number(&format!("{three}_{}", s.buffer))? as usize);
        }
        if s.layout.is_none() && rank > 1 {
            s.layout = nth(rank, known.number(&format!("{four}_{}", s.buffer))? as usize);
        }
    }
    out.complete_from(&Decisions::plain(h, model));
    Ok(out)
}

fn free<T>(t: &Table<T>) -> bool {
    t.iter().flatten().all(Option::is_none)
}

fn orders(d: &Decisions) -> [(String, &Table<usize>); 3] {
    [("D1".into(), &d.down.order), ("S1".into(), &d.scalar.order), ("R1".into(), &d.up.order)]
}

fn assignments(d: &Decisions) -> [(String, &Table<AsmLevel>); 3] {
    [("D2".into(), &d.down.assignment), ("S2".into(), &d.scalar.assignment), ("R2".into(), &d.up.assignment)]
}

type Named<'a, T> = (&'a T, usize, &'static str, &'static str);

fn placements<'a>(h: &Shaped, d: &'a Decisions) -> Vec<Named<'a, Placement>> {
    let inputs = d.reads.iter().zip(&h.h.inputs).map(|(p, o)| (p, o.rank(), "D3", "D4"));
    inputs.chain(d.writes.iter().zip(&h.h.outputs).map(|(p, o)| (p, o.rank(), "R3", "R4"))).collect()
}

fn spots<'a>(h: &Shaped, d: &'a Decisions) -> Vec<Named<'a, Spot>> {
    let inputs = d.operands.iter().zip(&h.h.inputs).map(|(s, o)| (s, o.rank(), "S3", "S4"));
    inputs.chain(d.results.iter().zip(&h.h.outputs).map(|(s, o)| (s, o.rank(), "S5", "S6"))).collect()
}

/// One name per level, in lexicographic order.
fn names(d: &Decisions, word: &str, buffer: &str) -> Vec<String> {
    d.levels().map(|l| format!("{word}_{buffer}_{}_{}", l.layer + 1, l.dim + 1)).collect()
}

/// The digits of a permutation of `n`: the last one has no choice.
fn digits(mut def: SpaceDef, name: &str, n: usize) -> SpaceDef {
    for k in 1..n {
        def = def.param(TuningParameter::int(format!("{name}_{k}"), 0, (n - k) as i64));
    }
    def
}

fn permutation(known: &Bound, name: &str, n: usize) -> Result<Vec<usize>, Diagnostic> {
    let mut left: Vec<usize> = (0..n).collect();
    let mut out = Vec::with_capacity(n);
    for k in 1..=n {
        let digit = if k == n { 0 } else { known.number(&format!("{name}_{k}"))? as usize };
        out.push(left.remove(digit.min(left.len().saturating_sub(1))));
    }
    Ok(out)
}

fn factorial(n: usize) -> i64 {
    (1..=n as i64).try_fold(1i64, i64::checked_mul).unwrap_or(i64::MAX)
}

/// Permutation number `at` of `n`, in lexicographic order.
fn nth(n: usize, mut at: usize) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..n).collect();
    let mut out = Vec::with_capacity(n);
    for k in (0..n).rev() {
        let block = usize::try_from(factorial(k)).ok()?;
        let digit = at / block;
        at %= block;
        out.push((digit < left.len()).then(|| left.remove(digit))?);
    }
    Some(out)
}

/// A value of a configuration, for [`Bound::number`].
impl Bound<'_> {
    /// # Errors
    /// E1204 for a missing or negative number.
    pub(crate) fn number(&self, name: &str) -> Result<u64, Diagnostic> {
        match self.values.get(name) {
            Some(Value::Int(v)) if *v >= 0 => Ok(*v as u64),
            _ => Err(Diagnostic::error(
                crate::codes::DECISIONS_SHAPE,
                format!("the parameter `{name}` has no usable value"),
            )),
        }
    }
}
