//! What a cost model needs to know about a computation: the stride of each index in memory, and
//! the work per index.

use crate::homomorphism::Shaped;
use crate::view::{IndexFunction, Operand};
use lathe_ir::interp::evaluate;
use lathe_ir::{BinOp, Combine, Expr, ExprKind, MathFn, ReduceOp, visit};

/// One access of an operand.
#[derive(Clone, Debug)]
pub struct Reach {
    /// Elements between neighbours, per dimension of the computation; 0: the index does not matter.
    pub stride: Vec<i64>,
    /// Coefficients per dimension of the buffer.
    pub subscripts: Vec<Vec<i64>>,
    pub bytes: u64,
    /// Scalars of an element.
    pub leaves: u64,
    /// Number of the input; none: an output.
    pub input: Option<usize>,
    /// Accesses of the same form, with other offsets (the neighbours of a stencil).
    pub shifted: u64,
    /// The largest difference of their offsets, per dimension of the buffer.
    pub spread: Vec<u64>,
    /// The offsets of each, per dimension of the buffer.
    pub offsets: Vec<Vec<i64>>,
}

impl Reach {
    pub fn depends(&self, dim: usize) -> bool {
        self.stride[dim] != 0
    }

    /// Elements of the box that a tile touches.
    pub fn elements(&self, tile: &[u64]) -> u64 {
        let side = |(k, c): (usize, &Vec<i64>)| {
            let span: u64 = c.iter().zip(tile).map(|(c, t)| c.unsigned_abs() * (t - 1)).sum();
            span + 1 + self.spread[k]
        };
        self.subscripts.iter().enumerate().map(side).fold(1, u64::saturating_mul)
    }

    pub fn footprint(&self, tile: &[u64]) -> u64 {
        self.elements(tile).saturating_mul(self.bytes)
    }

    /// Whether neighbours along a dimension read the same elements.
    pub fn neighbours(&self, dim: usize) -> bool {
        let spreads = |(k, c): (usize, &Vec<i64>)| c[dim] != 0 && self.spread[k] > 0;
        self.shifted > 1 && self.subscripts.iter().enumerate().any(spreads)
    }

    /// The dimension of the buffer that this index alone runs through, one by one.
    pub fn plain(&self, dim: usize) -> Option<usize> {
        let mut with = self.subscripts.iter().enumerate().filter(|s| s.1[dim] != 0);
        let (k, c) = with.next()?;
        (with.next().is_none()
            && c[dim] == 1
            && c.iter().filter(|c| **c != 0).count() == 1
            && self.spread[k] == 0)
            .then_some(k)
    }
}

pub struct Facts {
    pub extents: Vec<u64>,
    pub reduced: Vec<bool>,
    /// Dimensions whose results depend on those before.
    pub scanned: Vec<bool>,
    pub inputs: Vec<Reach>,
    pub outputs: Vec<Reach>,
    /// Operations per index, the combination included.
    pub work: f64,
    /// Bytes of the widest scalar that takes part.
    pub widest: u64,
    /// Whether partial results may start anywhere: the operator has an identity, and order does not matter.
    pub splits: bool,
    /// Whether the operator has an identity.
    pub identity: bool,
    /// Whether blocks of a scan may wait for one another: their totals are scalars, and no block can fail.
    pub turns: bool,
    pub reduces: bool,
    /// The box is a block of a larger one: its dimension, and how many blocks there are.
    pub block_of: Option<(usize, u64)>,
    /// The number of boxes whose results are written before any is read.
    pub written: u64,
}

impl Facts {
    pub fn of(h: &Shaped) -> Facts {
        let reduced: Vec<bool> = h.h.dims.iter().map(|d| matches!(d.combine, Combine::Reduce(_))).collect();
        let each = |operands: &[Operand], input: bool| {
            let all = operands.iter().enumerate();
            all.flat_map(|(n, o)| reaches(h, o, input.then_some(n))).collect::<Vec<_>>()
        };
        let product = |e: &Expr| {
            matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..)) || lathe_ir::reduce::adds_products(e)
        };
        let fused = h.h.op == Some(ReduceOp::Sum) && h.h.values.iter().all(product);
        let combine = f64::from(u8::from(h.h.op.is_some() && !fused));
        Facts {
            extents: h.extents.iter().map(|n| (*n).max(1)).collect(),
            scanned: h.h.dims.iter().map(|d| matches!(d.combine, Combine::Scan(_))).collect(),
            inputs: each(&h.h.inputs, true),
            outputs: each(&h.h.outputs, false),
            work: h.h.values.iter().map(work).sum::<f64>().max(1.0) + combine,
            widest: widest(h),
            splits: h.h.identity && h.h.dims.iter().all(|d| !d.ordered),
            identity: h.h.identity,
            turns: h.h.outputs.iter().all(|o| o.buffer.elem.scalar().is_some())
                && !h.h.values.iter().any(lathe_ir::build::divides),
            reduces: reduced.contains(&true),
            reduced,
            block_of: h.block_of,
            written: h.written,
        }
    }

    /// How many blocks use one copy of an input.
    pub fn blocks(&self, r: &Reach) -> u64 {
        self.block_of.filter(|b| !r.depends(b.0)).map_or(1, |b| b.1)
    }

    /// Elements of the results.
    pub fn results(&self) -> u64 {
        let free = self.extents.iter().zip(&self.reduced).filter(|x| !x.1);
        free.map(|x| *x.0).fold(1, u64::saturating_mul)
    }

    pub fn points(&self) -> f64 {
        self.extents.iter().map(|n| *n as f64).product()
    }
}

fn reaches(h: &Shaped, o: &Operand, input: Option<usize>) -> Vec<Reach> {
    let extents: Vec<i64> = o.buffer.extents.iter().map(|e| evaluate(e, &h.sizes).unwrap_or(1)).collect();
    let mut step = vec![1i64; extents.len()];
    for k in (1..extents.len()).rev() {
        step[k - 1] = step[k].saturating_mul(extents[k]);
    }
    let offset = |a: &IndexFunction, k: usize| evaluate(&a.subscripts[k].offset, &h.sizes).unwrap_or(0);
    let mut out: Vec<(Reach, Vec<(i64, i64)>)> = Vec::new();
    for a in &o.accesses {
        let subscripts: Vec<Vec<i64>> = a.subscripts.iter().map(|s| s.coefficients.clone()).collect();
        let here = |k: usize| offset(a, k);
        if let Some((r, ends)) = out.iter_mut().find(|x| x.0.subscripts == subscripts) {
            r.shifted += 1;
            r.offsets.push((0..ends.len()).map(here).collect());
            for (k, (lo, hi)) in ends.iter_mut().enumerate() {
                (*lo, *hi) = ((*lo).min(here(k)), (*hi).max(here(k)));
            }
            continue;
        }
        let stride = (0..h.extents.len())
            .map(|d| subscripts.iter().zip(&step).map(|(c, s)| c[d].saturating_mul(*s)).sum())
            .collect();
        let ends = (0..extents.len()).map(|k| (here(k), here(k))).collect();
        let offsets = vec![(0..extents.len()).map(here).collect()];
        let (bytes, leaves) = (o.buffer.elem.bytes(), o.buffer.elem.leaves().len() as u64);
        let spread = Vec::new();
        out.push((Reach { stride, subscripts, bytes, leaves, input, shifted: 1, spread, offsets }, ends));
    }
    let finish = |(r, ends): (Reach, Vec<(i64, i64)>)| {
        let spread = ends.iter().map(|(lo, hi)| hi.abs_diff(*lo)).collect();
        Reach { spread, ..r }
    };
    out.into_iter().map(finish).collect()
}

/// The widest scalar; of structs, what at least half of their scalars are.
fn widest(h: &Shaped) -> u64 {
    let mut all: Vec<u64> = h.h.operands().flat_map(|o| o.buffer.elem.leaves()).map(|s| s.bytes()).collect();
    all.sort_unstable();
    let structs = h.h.operands().any(|o| o.buffer.elem.leaves().len() > 2);
    let at = if structs { all.len() / 2 } else { all.len().saturating_sub(1) };
    all.get(at).copied().unwrap_or(8)
}

/// Operations of an expression, in the time of an addition. The weights of functions are what their expansions
/// have.
pub(crate) fn work(e: &Expr) -> f64 {
    let mut sum = 0.0;
    visit::walk_expr(e, &mut |e| {
        sum += match e.kind() {
            _ if e.ty().is_index() => 0.0,
            ExprKind::Binary(BinOp::Div, ..) => 8.0,
            ExprKind::Math(MathFn::Fma, _) | ExprKind::Binary(..) | ExprKind::Select(..) => 1.0,
            ExprKind::Math(MathFn::Sqrt, _) => 10.0,
            ExprKind::Math(..) => 15.0,
            _ => 0.0,
        };
    });
    sum
}
