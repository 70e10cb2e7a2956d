//! Templates for devices: how an expert would write a compute of a given shape, as strategies. Maps by vectors,
//! stencils by rows, reductions by shuffles, scans in one pass, products by tiles in shared memory and registers, chains
//! over rows by rows in registers, histograms by tables in shared memory.
//!
//! Nothing here is trusted: a template is a strategy like any other, and one that a rule refuses is skipped. Sizes are
//! constants, and those that a template's tiles do not divide use the decisions of a model.

mod contractions;
mod maps;
mod parts;
mod products;
mod rows;
mod scans;
mod shape;
mod sums;
mod tables;

use self::shape::{Array, Dim, Shape};
use crate::choose::facts::{Facts, Reach};
use crate::homomorphism::{Homomorphism, Shaped};
use crate::view::Operand;
use lathe_ir::{BinOp, ExprKind, Function, Module, ReduceOp, Scalar};
use lathe_strategy::Strategy;
use lathe_target::Code;
use std::collections::BTreeMap;

/// A strategy for some computes of a function.
#[derive(Clone, Debug)]
pub struct Form {
    /// The computes; none where it is for loops.
    pub labels: Vec<String>,
    pub strategy: Strategy,
}

/// What may be tried on a function of constant sizes, the best first; each compute takes one. `code`: what the code is
/// made for.
pub fn forms(module: &Module, func: &Function, code: &Code) -> Vec<Form> {
    let clusters = if code.arch == "nvptx64" { lathe_target::cluster_blocks(&code.cpu) } else { 1 };
    let labels = super::labels(func);
    let shapes: Vec<Option<Shape>> = labels.iter().map(|l| shape(module, func, l)).collect();
    let mut out = tables::forms(func);
    let all: Option<Vec<Shape>> = shapes.iter().map(|s| s.clone().filter(|s| !s.scans)).collect();
    out.extend(all.and_then(|all| rows::form(&all, clusters as u64)));
    for s in shapes.iter().flatten() {
        let each = match s.scans {
            true => Vec::from_iter(scans::form(s)),
            false => products::forms(s)
                .into_iter()
                .chain(contractions::forms(s))
                .chain(sums::forms(s))
                .chain(maps::forms(s))
                .collect(),
        };
        out.extend(each.into_iter().map(|strategy| Form { labels: vec![s.label.clone()], strategy }));
    }
    out
}

/// The compute of a label, if there are templates for it.
fn shape(module: &Module, func: &Function, label: &str) -> Option<Shape> {
    let h = Homomorphism::of(module, func, Some(label)).ok()?;
    let at = h.at(&BTreeMap::new()).ok()?;
    let f = Facts::of(&at);
    let ([out], [output]) = (&f.outputs[..], &h.outputs[..]) else {
        return None;
    };
    let array = |r: &Reach, o: &Operand| array(func, &at, r, o);
    let inputs = f.inputs.iter().map(|r| Some(array(r, h.inputs.get(r.input?)?)));
    let float = |e: &lathe_ir::Expr| e.ty().scalar().is_some_and(Scalar::is_float);
    let product = |e: &lathe_ir::Expr| matches!(e.kind(), ExprKind::Binary(BinOp::Mul, ..)) && float(e);
    let whole = f.inputs.iter().chain(&f.outputs).all(|r| r.leaves == 1);
    let dims = h.dims.iter().zip(&f.extents).zip(&f.reduced);
    let shape = Shape {
        label: label.to_string(),
        dims: dims.map(|((d, n), r)| Dim { name: d.name.clone(), extent: *n, reduced: *r }).collect(),
        output: array(out, output),
        inputs: inputs.collect::<Option<_>>()?,
        splits: f.splits && f.identity,
        scans: f.scanned.contains(&true),
        products: h.op == Some(ReduceOp::Sum) && h.values.iter().all(product),
    };
    (whole && at.extents.iter().all(|n| *n > 0)).then_some(shape)
}

fn array(func: &Function, at: &Shaped, r: &Reach, o: &Operand) -> Array {
    let dims = at.extents.len();
    // The loop that a dimension of the array alone has, and that no other dimension has.
    let alone = |c: &Vec<i64>| {
        let mut with = (0..dims).filter(|d| c[*d] != 0);
        let (d, None) = (with.next()?, with.next()) else { return None };
        let here = r.subscripts.iter().filter(|s| s[d] != 0).count();
        (c[d] == 1 && here == 1).then_some(d)
    };
    let over: Vec<Option<usize>> = r.subscripts.iter().map(alone).collect();
    let spread = |d: usize| over.iter().zip(&r.spread).any(|(o, s)| *o == Some(d) && *s > 0);
    let mine = |b: &lathe_ir::Buffer| b.id == o.buffer.id;
    Array {
        name: o.name().to_string(),
        bytes: r.bytes,
        spread: (0..dims).map(spread).collect(),
        over,
        subscripts: r.subscripts.clone(),
        local: !func.params.iter().filter_map(|p| p.array()).any(|b| mine(b)),
    }
}
