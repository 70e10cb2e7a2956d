//! Formulas on values: many assignments at once, exactly as the interpreter computes.

use crate::formula::{Formulas, Id, Node, Op};
use crate::read::{Vars, read};
use crate::sample::mix;
use lathe_ir::scalar::{self, ScalarValue, Undefined};
use lathe_ir::{MathFn, Scalar, VarId, build, math};
use std::collections::HashMap;

/// Some formulas of an arena, ready to run: math functions are written out as they are in the tree.
pub(crate) struct Machine {
    f: Formulas,
    order: Vec<Id>,
    /// Where in the order the parts of each formula are.
    parts: Vec<Vec<usize>>,
    roots: Vec<usize>,
    /// Variables by number, with their types.
    pub vars: Vec<(u32, Scalar)>,
}

/// Values of one formula: raw bits, `None` where it has none.
pub(crate) type Column = Vec<Option<u64>>;

impl Machine {
    pub fn new(f: &Formulas, roots: &[Id]) -> Machine {
        let (f, roots) = expanded(f, roots);
        let order = f.under(&roots);
        let vars = vars_of(&f, &roots);
        let at = |id: &Id| order.binary_search(id).unwrap_or(0);
        let parts = order.iter().map(|id| f.parts(*id).iter().map(at).collect()).collect();
        let roots = roots.iter().map(at).collect();
        Machine { f, order, parts, roots, vars }
    }

    /// The type of a root.
    pub fn type_of(&self, root: usize) -> Scalar {
        self.f.ty(self.order[self.roots[root]])
    }

    /// The roots on some assignments: `inputs[k][n]` is the bits of the `k`-th variable in the `n`-th. `seed` says
    /// which functions stand for those of which nothing is known.
    pub fn run(&self, inputs: &[Vec<u64>], seed: u64) -> Vec<Column> {
        let count = inputs.first().map_or(1, Vec::len);
        let mut columns: Vec<Column> = Vec::with_capacity(self.order.len());
        for n in 0..self.order.len() {
            let c = self.column(n, inputs, count, seed, &columns);
            columns.push(c);
        }
        self.roots.iter().map(|r| columns[*r].clone()).collect()
    }

    fn column(&self, at: usize, inputs: &[Vec<u64>], count: usize, seed: u64, columns: &[Column]) -> Column {
        let Node { op, ty } = self.f.get(self.order[at]);
        let parts = &self.parts[at];
        let c = |k: usize| &columns[parts[k]];
        let from = parts.first().map_or(*ty, |p| self.f.ty(self.order[*p]));
        let one = |f: &dyn Fn(u64) -> Result<u64, Undefined>| -> Column {
            c(0).iter().map(|v| v.and_then(|v| f(v).ok())).collect()
        };
        match op {
            Op::Var(n) => match self.vars.iter().position(|v| v.0 == *n) {
                Some(k) => inputs[k].iter().copied().map(Some).collect(),
                None => vec![None; count],
            },
            Op::Const(v) => vec![Some(*v); count],
            Op::Unary(o, _) => one(&|v| scalar::unary(*o, *ty, v)),
            Op::Cast(_) => one(&|v| scalar::cast(from, *ty, v)),
            Op::Bitcast(_) => one(&|v| scalar::bitcast(from, *ty, v)),
            Op::Binary(o, ..) => {
                let pair = |(x, y): (&Option<u64>, &Option<u64>)| scalar::binary(*o, from, (*x)?, (*y)?).ok();
                c(0).iter().zip(c(1)).map(pair).collect()
            }
            Op::Fits(o, ..) => {
                let pair = |(x, y): (&Option<u64>, &Option<u64>)| {
                    Some(u64::from(scalar::binary(*o, Scalar::Index, (*x)?, (*y)?).is_ok()))
                };
                c(0).iter().zip(c(1)).map(pair).collect()
            }
            Op::Select(..) => (0..count).map(|n| if c(0)[n]? != 0 { c(1)[n] } else { c(2)[n] }).collect(),
            Op::Math(MathFn::Fma, _) => {
                (0..count).map(|n| Some(scalar::fma(*ty, c(0)[n]?, c(1)[n]?, c(2)[n]?))).collect()
            }
            Op::Math(g, _) => one(&|x| scalar::exact_math(*g, *ty, x)),
            Op::Apply(g, _) => (0..count)
                .map(|n| {
                    let mut h = mix(seed ^ (u64::from(*g) << 32) ^ (n as u64 / 4));
                    for p in parts {
                        h = mix(h ^ without_payload(self.f.ty(self.order[*p]), columns[*p][n]?));
                    }
                    Some(crate::sample::any(*ty, h))
                })
                .collect(),
        }
    }
}

/// All NaNs are equal.
fn without_payload(ty: Scalar, bits: u64) -> u64 {
    if ty.is_float() && scalar::to_f64(ty, bits).is_nan() {
        ScalarValue::float(ty, f64::NAN).bits
    } else {
        bits
    }
}

/// The variables under some formulas, by number.
pub(crate) fn vars_of(f: &Formulas, roots: &[Id]) -> Vec<(u32, Scalar)> {
    let var = |id: &Id| match f.get(*id) {
        Node { op: Op::Var(n), ty } => Some((*n, *ty)),
        _ => None,
    };
    f.under(roots).iter().filter_map(var).collect()
}

/// Formulas with their math functions written out, in an arena of their own.
pub(crate) fn expanded(f: &Formulas, roots: &[Id]) -> (Formulas, Vec<Id>) {
    let mut out = Formulas::default();
    let mut at: HashMap<Id, Id> = HashMap::new();
    for id in f.under(roots) {
        let Node { op, ty } = f.get(id);
        let parts: Vec<Id> = f.parts(id).iter().map(|p| at[p]).collect();
        let new = match op {
            Op::Math(g, _) if !g.is_exact() => {
                let vars: Vec<VarId> = (0..parts.len() as u32).map(VarId).collect();
                let args: Vec<_> =
                    vars.iter().zip(&parts).map(|(v, p)| build::var_id(*v, out.ty(*p))).collect();
                let known: Vec<(VarId, Id)> = vars.into_iter().zip(parts.iter().copied()).collect();
                let e = math::expand(*g, &args);
                match read(&mut out, &e, &mut Vars(&known)).as_deref() {
                    Some([one]) => *one,
                    _ => out.add(Op::Math(*g, parts), *ty),
                }
            }
            Op::Var(_) | Op::Const(_) => out.add(op.clone(), *ty),
            _ => {
                // The same operation over the new parts.
                let moved = renumbered(op, &parts);
                out.add(moved, *ty)
            }
        };
        at.insert(id, new);
    }
    let roots = roots.iter().map(|r| at[r]).collect();
    (out, roots)
}

/// An operation with other parts, of whatever arena.
pub(crate) fn renumbered(op: &Op, parts: &[Id]) -> Op {
    match op {
        Op::Var(_) | Op::Const(_) => op.clone(),
        Op::Unary(o, _) => Op::Unary(*o, parts[0]),
        Op::Binary(o, ..) => Op::Binary(*o, parts[0], parts[1]),
        Op::Cast(_) => Op::Cast(parts[0]),
        Op::Bitcast(_) => Op::Bitcast(parts[0]),
        Op::Math(g, _) => Op::Math(*g, parts.to_vec()),
        Op::Select(..) => Op::Select(parts[0], parts[1], parts[2]),
        Op::Apply(g, _) => Op::Apply(*g, parts.to_vec()),
        Op::Fits(o, ..) => Op::Fits(*o, parts[0], parts[1]),
    }
}
