//! What decisions mean, without any code: de-composition, scalar phase and re-composition done literally, as
//! three nests in the orders of D1, S1 and R1 (thesis, Sections 2.3 and 3; the first combination overwrites,
//! so no neutral element is needed; a floating-point sum of negative zeros alone stays negative).
//!
//! Levels that cores run do their parts in an order that a seed picks, and combine them in any grouping (and
//! any order, where the operator allows it). Where the results live does not matter here.

use crate::codes;
use crate::decisions::{Decisions, Level, Phase, at, by_position};
use crate::homomorphism::{Homomorphism, Shaped};
use crate::model::Model;
use crate::operators::Combiner;
use crate::value::{Environment, Value, eval};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::{ArrayValue, evaluate as number};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{
    Access, BufId, Combine, Compute, Dim, Expr, Function, Label, Mode, Module, Param, ParamKind, Scalar,
    Stage, Stmt, StmtKind, VarId, math, reduce,
};
use std::collections::HashMap;
use std::rc::Rc;

/// The values of inputs: arrays by buffer, scalar parameters by variable.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    pub arrays: HashMap<BufId, ArrayValue>,
    pub scalars: HashMap<VarId, ScalarValue>,
}

/// The most points that are evaluated: this is an oracle, not an engine.
const MOST: u64 = 1 << 24;

/// The outputs, in the order of [`Homomorphism::outputs`]. The decisions must be complete; the seed chooses
/// among the orders that cores may take.
///
/// # Errors
/// E1220 for free decisions, E1222 for computations of more than 2²⁴ points, or without a value.
pub fn evaluate(
    module: &Module,
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    inputs: &Inputs,
    seed: u64,
) -> Result<Vec<ArrayValue>, Diagnostic> {
    let free = || Diagnostic::error(codes::FREE, "evaluation needs every decision");
    let no_value =
        || Diagnostic::error(codes::UNSUPPORTED, format!("`{}` has no value on these inputs", h.h.name));
    if d.open() > 0 {
        return Err(free());
    }
    let digits = digits(h, d);
    let points = h.extents.iter().try_fold(1u64, |n, e| n.checked_mul(*e)).filter(|n| *n <= MOST);
    let parts = digits.iter().try_fold(1u64, |n, g| n.checked_mul(g.parts)).filter(|n| *n <= MOST);
    if points.is_none() || parts.is_none() {
        return Err(Diagnostic::error(
            codes::UNSUPPORTED,
            format!("`{}` has too many points to evaluate", h.h.name),
        ));
    }
    let types: Vec<_> = h.h.targets.iter().map(|t| t.elem.clone()).collect();
    let combiner = match &h.h.op {
        Some(op) => Some(Combiner::new(module, op, &types).ok_or_else(no_value)?),
        None => None,
    };
    let mut run = Run { h, model, d, digits, combiner, random: Random(seed) };
    let indices = run.decompose().ok_or_else(free)?;
    let values = run.scalars(&indices, inputs).ok_or_else(free)?.ok_or_else(no_value)?;
    let order = by_position(&d.up.order).ok_or_else(free)?;
    let result = run
        .recompose(&run.nest(&order), &mut vec![0; run.digits.len()], &indices, &values)
        .ok_or_else(no_value)?;
    outputs(module, h, inputs, result).ok_or_else(no_value)
}

/// A partitioning with more than one part: a digit of the indices of a dimension.
#[derive(Clone, Copy, Debug)]
struct Digit {
    /// None: the rounds that partial tiles need if the parts multiply to less than the extent.
    level: Option<Level>,
    dim: usize,
    parts: u64,
    /// Indices per part.
    tile: u64,
}

/// Rounds first, then levels in lexicographic order.
fn digits(h: &Shaped, d: &Decisions) -> Vec<Digit> {
    let mut out = Vec::new();
    for (dim, extent) in h.extents.iter().enumerate() {
        let whole = tile(d, dim, 0);
        let rounds = extent.div_ceil(whole.max(1));
        if rounds > 1 {
            out.push(Digit { level: None, dim, parts: rounds, tile: whole });
        }
    }
    for l in d.levels().filter(|l| d.parts_at(*l) > 1) {
        out.push(Digit {
            level: Some(l),
            dim: l.dim,
            parts: d.parts_at(l),
            tile: tile(d, l.dim, l.layer + 1),
        });
    }
    out
}

/// The indices in a part of the layer before `from`.
fn tile(d: &Decisions, dim: usize, from: usize) -> u64 {
    (from..d.layers()).map(|layer| d.parts_at(Level { layer, dim })).fold(1, u64::saturating_mul)
}

struct Run<'a> {
    h: &'a Shaped<'a>,
    model: &'a Model,
    d: &'a Decisions,
    digits: Vec<Digit>,
    combiner: Option<Combiner>,
    random: Random,
}

/// One result cell: a value per target.
type Cell = Rc<[Value]>;

/// A part of the result: which indices it covers, per dimension, in increasing order, and the cells, row by
/// row (one per reduced dimension).
struct Part {
    sets: Vec<Vec<u64>>,
    cells: Vec<Cell>,
}

impl Run<'_> {
    /// Digits in the order of a nest, outermost first.
    fn nest(&self, order: &[Level]) -> Vec<usize> {
        let rounds = (0..self.digits.len()).filter(|n| self.digits[*n].level.is_none());
        let levels = order.iter().filter_map(|l| self.digits.iter().position(|g| g.level == Some(*l)));
        rounds.chain(levels).collect()
    }

    /// Row-major position of the digits' values.
    fn position(&self, p: &[u64]) -> usize {
        p.iter().zip(&self.digits).fold(0, |at, (v, g)| at * g.parts as usize + *v as usize)
    }

    fn on_cores(&self, phase: Phase, n: usize) -> bool {
        let assigned = self.digits[n].level.and_then(|l| at(&self.d.steps(phase).assignment, l));
        assigned.is_some_and(|a| self.model.core(a.layer).is_some())
    }

    /// The parts of a level in the order in which they are done.
    fn sequence(&mut self, phase: Phase, n: usize) -> Vec<u64> {
        let mut all: Vec<u64> = (0..self.digits[n].parts).collect();
        if self.on_cores(phase, n) {
            self.random.shuffle(&mut all);
        }
        all
    }

    /// Phase 1: the input is cut in the order of D1; each fully cut part is one index (or none, beyond the end).
    fn decompose(&mut self) -> Option<Vec<Option<Vec<u64>>>> {
        let nest = self.nest(&by_position(&self.d.down.order)?);
        let total: u64 = self.digits.iter().map(|g| g.parts).product();
        let mut out = vec![None; total as usize];
        let sets: Vec<Vec<u64>> = self.h.extents.iter().map(|n| (0..*n).collect()).collect();
        self.cut(&nest, &mut vec![0; self.digits.len()], sets, &mut out);
        Some(out)
    }

    fn cut(&mut self, nest: &[usize], p: &mut Vec<u64>, sets: Vec<Vec<u64>>, out: &mut [Option<Vec<u64>>]) {
        let Some((n, inner)) = nest.split_first() else {
            // Full partitioning: at most one index is left in each dimension.
            out[self.position(p)] = sets.iter().map(|s| s.first().copied()).collect();
            return;
        };
        let g = self.digits[*n];
        for q in self.sequence(Phase::Down, *n) {
            p[*n] = q;
            let mut part = sets.clone();
            part[g.dim].retain(|i| (i / g.tile) % g.parts == q);
            self.cut(inner, p, part, out);
        }
        p[*n] = 0;
    }

    /// Phase 2: the scalar function, in the order of S1. The outer option is free decisions, the inner one an
    /// index without a value.
    #[allow(clippy::type_complexity)]
    fn scalars(
        &mut self,
        indices: &[Option<Vec<u64>>],
        inputs: &Inputs,
    ) -> Option<Option<Vec<Option<Cell>>>> {
        let nest = self.nest(&by_position(&self.d.scalar.order)?);
        let values: Vec<Expr> = self.h.h.values.iter().map(math::expand_expr).collect();
        let mut out = vec![None; indices.len()];
        let mut job = Scalars { values, indices, inputs, out: &mut out, fine: true };
        self.apply(&nest, &mut vec![0; self.digits.len()], &mut job);
        let fine = job.fine;
        Some(fine.then_some(out))
    }

    fn apply(&mut self, nest: &[usize], p: &mut Vec<u64>, job: &mut Scalars) {
        let Some((n, inner)) = nest.split_first() else {
            let at = self.position(p);
            if let Some(i) = &job.indices[at] {
                let env = Point { h: self.h, index: i, inputs: job.inputs };
                let all: Option<Vec<Value>> = job.values.iter().map(|e| eval(e, &env)).collect();
                let all = all.and_then(|v| fit(v, self.h.h));
                job.fine &= all.is_some();
                job.out[at] = all.map(Rc::from);
            }
            return;
        };
        for q in self.sequence(Phase::Scalar, *n) {
            p[*n] = q;
            self.apply(inner, p, job);
        }
        p[*n] = 0;
    }

    /// Phase 3: parts are combined in the order of R1. None where an operator has no value; a part without
    /// indices is empty.
    fn recompose(
        &mut self,
        nest: &[usize],
        p: &mut Vec<u64>,
        indices: &[Option<Vec<u64>>],
        values: &[Option<Cell>],
    ) -> Option<Option<Part>> {
        let Some((n, inner)) = nest.split_first() else {
            let at = self.position(p);
            let one = indices[at].as_ref().zip(values[at].as_ref());
            return Some(
                one.map(|(i, v)| Part { sets: i.iter().map(|x| vec![*x]).collect(), cells: vec![v.clone()] }),
            );
        };
        let g = self.digits[*n];
        let ordered = self.h.h.dims[g.dim].ordered;
        let cores = self.on_cores(Phase::Up, *n);
        let mut parts = Vec::new();
        for q in self.sequence(Phase::Up, *n) {
            p[*n] = q;
            if let Some(part) = self.recompose(inner, p, indices, values)? {
                parts.push((q, part));
            }
        }
        p[*n] = 0;
        if ordered {
            parts.sort_by_key(|x| x.0);
        }
        let mut parts: Vec<Part> = parts.into_iter().map(|x| x.1).collect();
        while parts.len() > 1 {
            // One after the other, or, by cores, any two neighbours.
            let at = if cores { self.random.below(parts.len() as u64 - 1) as usize } else { 0 };
            let b = parts.remove(at + 1);
            let a = std::mem::replace(&mut parts[at], Part { sets: Vec::new(), cells: Vec::new() });
            parts[at] = self.combine(g.dim, a, b)?;
        }
        Some(parts.pop())
    }

    /// `a ⊗_d b` for parts with disjoint indices in a dimension and equal ones in all others.
    fn combine(&self, dim: usize, a: Part, b: Part) -> Option<Part> {
        let size = |d: usize| match self.h.h.dims[d].combine {
            Combine::Reduce(_) => 1,
            _ => a.sets[d].len(),
        };
        let inner: usize = (dim + 1..a.sets.len()).map(size).product();
        let outer: usize = (0..dim).map(size).product();
        let join =
            |x: &Cell, y: &Cell| -> Option<Cell> { Some(Rc::from(self.combiner.as_ref()?.apply(x, y)?)) };
        let mut sets = a.sets.clone();
        sets[dim].extend(&b.sets[dim]);
        sets[dim].sort_unstable();
        let cells: Vec<Cell> = match self.h.h.dims[dim].combine {
            Combine::Reduce(_) => {
                a.cells.iter().zip(&b.cells).map(|(x, y)| join(x, y)).collect::<Option<_>>()?
            }
            ref other => {
                let scan = matches!(other, Combine::Scan(_));
                // The prefixes of the part with the smaller last index go into the other one.
                let (p, q) = if a.sets[dim].last() <= b.sets[dim].last() { (&a, &b) } else { (&b, &a) };
                let (np, nq) = (p.sets[dim].len(), q.sets[dim].len());
                let mut out = Vec::with_capacity(outer * inner * (np + nq));
                for o in 0..outer {
                    for i in &sets[dim] {
                        let from_p = p.sets[dim].binary_search(i);
                        let from_q = q.sets[dim].binary_search(i);
                        for k in 0..inner {
                            let cell = |part: &Part, n: usize, at: usize| {
                                part.cells[(o * n + at) * inner + k].clone()
                            };
                            out.push(match (from_p, from_q) {
                                (Ok(at), _) => cell(p, np, at),
                                (_, Ok(at)) if scan => join(&cell(p, np, np - 1), &cell(q, nq, at))?,
                                (_, Ok(at)) => cell(q, nq, at),
                                _ => return None,
                            });
                        }
                    }
                }
                out
            }
        };
        Some(Part { sets, cells })
    }
}

struct Scalars<'a> {
    values: Vec<Expr>,
    indices: &'a [Option<Vec<u64>>],
    inputs: &'a Inputs,
    out: &'a mut Vec<Option<Cell>>,
    fine: bool,
}

/// One value per target: a single aggregate may stand for its components.
fn fit(values: Vec<Value>, h: &Homomorphism) -> Option<Vec<Value>> {
    if values.len() == h.targets.len() {
        return Some(values);
    }
    let [whole] = values.as_slice() else { return None };
    let mut leaves = whole.leaves.iter().copied();
    let part = |ty: lathe_ir::Type| {
        let n = ty.leaves().len();
        Value { leaves: leaves.by_ref().take(n).collect(), ty }
    };
    Some(whole.ty.fields().into_iter().map(part).collect())
}

/// One index, and what the scalar function may read there.
struct Point<'a> {
    h: &'a Shaped<'a>,
    index: &'a [u64],
    inputs: &'a Inputs,
}

impl Environment for Point<'_> {
    fn var(&self, id: VarId) -> Option<ScalarValue> {
        if let Some(d) = self.h.h.dims.iter().position(|d| d.id == id) {
            let i = self.h.first[d] + *self.index.get(d)? as i64;
            return Some(ScalarValue::int(Scalar::Index, i));
        }
        let size = self.h.sizes.get(&id).map(|v| ScalarValue::int(Scalar::Index, *v));
        size.or_else(|| self.inputs.scalars.get(&id).copied())
    }

    fn load(&self, a: &Access, indices: &[i64]) -> Option<Value> {
        let array = self.inputs.arrays.get(&a.view.buffer()?)?;
        let at: Option<Vec<usize>> = indices.iter().map(|i| usize::try_from(*i).ok()).collect();
        Value::of_array(array, array.position(&at?)?)
    }
}

/// The result through the output view; cells that it does not reach stay undefined. A reduction over nothing
/// is the operator's identity.
fn outputs(module: &Module, h: &Shaped, inputs: &Inputs, result: Option<Part>) -> Option<Vec<ArrayValue>> {
    let mut arrays = Vec::new();
    for o in &h.h.outputs {
        let shape = o.buffer.extents.iter().map(|e| usize::try_from(number(e, &h.sizes)?).ok());
        arrays.push(ArrayValue::undefined(o.buffer.elem.clone(), &shape.collect::<Option<Vec<_>>>()?));
    }
    let reduced = |d: usize| matches!(h.h.dims[d].combine, Combine::Reduce(_));
    let (sets, cells) = match result {
        Some(p) => (p.sets, p.cells),
        None => {
            let sets: Vec<Vec<u64>> = h.extents.iter().map(|n| (0..*n).collect()).collect();
            let n: usize = (0..sets.len()).filter(|d| !reduced(*d)).map(|d| sets[d].len()).product();
            if n == 0 {
                return Some(arrays);
            }
            let types: Vec<_> = h.h.targets.iter().map(|t| t.elem.clone()).collect();
            let env = Point { h, index: &[], inputs };
            let start = reduce::identity(module, h.h.op.as_ref()?, &types)?;
            let start: Option<Vec<Value>> = start.iter().map(|e| eval(&math::expand_expr(e), &env)).collect();
            (sets, vec![Rc::from(start?); n])
        }
    };
    let free: Vec<usize> = (0..sets.len()).filter(|d| !reduced(*d)).collect();
    for (n, cell) in cells.iter().enumerate() {
        let (mut index, mut rest) = (vec![0u64; sets.len()], n);
        for d in free.iter().rev() {
            index[*d] = sets[*d][rest % sets[*d].len()];
            rest /= sets[*d].len();
        }
        let env = Point { h, index: &index, inputs };
        for (t, v) in h.h.targets.iter().zip(cell.iter()) {
            let at = t.indices.iter().map(|e| usize::try_from(eval(e, &env)?.leaves.first()?.to_i64()).ok());
            let at: Vec<usize> = at.collect::<Option<_>>()?;
            let o = h.h.outputs.iter().position(|o| Some(o.buffer.id) == t.view.buffer())?;
            let position = arrays[o].position(&at)?;
            v.store(&mut arrays[o], position);
        }
    }
    Some(arrays)
}

/// The compute alone, as a function of its inputs, outputs and the scalars that it mentions: what decisions
/// are compared with.
pub fn alone(func: &Function, h: &Homomorphism) -> Function {
    let dims = h.dims.iter().map(|d| Dim {
        binder: lathe_ir::Binder { id: d.id, name: d.name.as_str().into(), ty: Scalar::Index },
        lo: d.lo.clone(),
        hi: d.hi.clone(),
        combine: d.combine.clone(),
    });
    let compute = Compute {
        label: Label::new(&h.name),
        dims: dims.collect(),
        targets: h.targets.clone(),
        values: h.values.clone(),
        guard: None,
        update: None,
    };
    let array = |o: &crate::Operand, mode| {
        let buffer = lathe_ir::Buffer { space: lathe_ir::Space::Host, ..(*o.buffer).clone() };
        Param { kind: ParamKind::Array(buffer.into()), mode, alias: None }
    };
    let scalars = func.params.iter().filter(|p| matches!(p.kind, ParamKind::Scalar(_))).cloned();
    let own = |o: &&crate::Operand| h.outputs.iter().any(|x| x.buffer.id == o.buffer.id);
    let updated = |o: &crate::Operand| h.inputs.iter().any(|x| x.buffer.id == o.buffer.id);
    let inputs = h.inputs.iter().filter(|o| !own(o)).map(|o| array(o, Mode::In));
    let outputs = h.outputs.iter().map(|o| array(o, if updated(o) { Mode::InOut } else { Mode::Out }));
    Function {
        params: scalars.chain(inputs).chain(outputs).collect(),
        body: Stmt::of(StmtKind::Compute(compute)),
        stage: Stage::Plain,
        result: None,
        ..func.clone()
    }
}

/// Reproducible choices.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        for n in (1..all.len()).rev() {
            all.swap(n, self.below(n as u64 + 1) as usize);
        }
    }
}
