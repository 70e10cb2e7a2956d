//! Templates for devices: how an expert would write a compute of a given shape, as strategies. Maps by vectors,
//! stencils by rows, weighted windows in registers, reductions by shuffles, scans in one pass, products by tiles in shared memory and
//! registers, pairs by tiles of both sets, chains over rows by rows in registers, small layers in one kernel, histograms by tables in
//! shared memory. Before that, arrays disappear that are better computed again.
//!
//! Nothing here is trusted: a template is a strategy like any other, and one that a rule refuses is skipped. Sizes are
//! constants, and those that a template's tiles do not divide use the decisions of a model.

mod contractions;
mod gathers;
mod inlined;
mod layers;
mod maps;
mod pairs;
mod parts;
mod products;
mod rows;
mod scans;
mod shape;
mod sums;
mod tables;
mod windows;

use self::shape::{Array, Dim, Shape};
use crate::choose::facts::{Facts, Reach};
use crate::homomorphism::{Homomorphism, Shaped};
use crate::view::Operand;
use lathe_ir::{
    BinOp, Compute, ExprKind, Function, Module, Name, ReduceOp, Scalar, StmtKind, build, names, visit,
};
use lathe_space::Expr;
use lathe_strategy::{ArgValue, Argument, Strategy};
use lathe_target::Code;
use std::collections::{BTreeMap, BTreeSet};

/// A strategy for some computes of a function.
#[derive(Clone, Debug)]
pub struct Form {
    /// The computes; none where it is for loops.
    pub labels: Vec<String>,
    pub strategy: Strategy,
}

impl Form {
    /// The strategy for a function that has copies of the same arrays already, of other computes: what this one makes
    /// is called differently then.
    pub fn after(&self, func: &Function) -> Strategy {
        let mut taken = BTreeSet::new();
        let mut arrays: Vec<Name> = func.params.iter().map(|p| p.name().clone()).collect();
        visit::walk(&func.body, &mut |s, _| {
            taken.extend(s.label().map(|l| l.as_str().to_string()));
            arrays.extend(s.allocated().map(|b| b.name.clone()));
            true
        });
        let mut new = BTreeMap::new();
        for copied in arrays.iter().map(names::copy_of).filter(|c| taken.contains(c)) {
            let free = (1..).map(|n| names::again(&copied, n)).find(|n| !taken.contains(n));
            free.map(|free| new.insert(copied, free));
        }
        match new.is_empty() {
            true => self.strategy.clone(),
            false => called(&self.strategy, &new),
        }
    }
}

/// The strategy with other labels, and other paths that begin with them.
fn called(s: &Strategy, new: &BTreeMap<String, String>) -> Strategy {
    let label = |path: &str| {
        let of = new.iter().find(|(old, _)| names::of_family(path, old));
        of.map_or(path.to_string(), |(old, new)| format!("{new}{}", &path[old.len()..]))
    };
    let within = |s: &Strategy| Box::new(called(s, new));
    match s {
        Strategy::Id | Strategy::Fail(_) => s.clone(),
        Strategy::Seq(all) => Strategy::Seq(all.iter().map(|s| called(s, new)).collect()),
        Strategy::Choice(all) => Strategy::Choice(all.iter().map(|s| called(s, new)).collect()),
        Strategy::At(s, place) => Strategy::At(within(s), within(place)),
        Strategy::If { cond, then, other, span } => {
            Strategy::If { cond: cond.clone(), then: within(then), other: within(other), span: *span }
        }
        Strategy::Call { name, args, span } => {
            let args = args.iter().map(|a| {
                let value = match &a.value {
                    ArgValue::Expr(Expr::Name(path)) => ArgValue::Expr(Expr::Name(label(path))),
                    ArgValue::Expr(e) => ArgValue::Expr(e.clone()),
                    ArgValue::Strategy(s) => ArgValue::Strategy(within(s)),
                };
                Argument { value, ..a.clone() }
            });
            Strategy::Call { name: name.clone(), args: args.collect(), span: *span }
        }
    }
}

/// What may be tried on a function of constant sizes.
#[derive(Clone, Debug)]
pub struct Forms {
    /// The first steps, which remove arrays, and the function once they are done.
    pub first: Vec<Strategy>,
    pub func: Function,
    /// Strategies for it, the best first; each compute takes one.
    pub forms: Vec<Form>,
}

/// `code`: what the code is made for. `whole`: arrays stay.
pub fn forms(module: &Module, func: &Function, code: &Code, whole: bool) -> Forms {
    let clusters = if code.arch == "nvptx64" { lathe_target::cluster_blocks(&code.cpu) } else { 1 };
    let shapes: Vec<Option<Shape>> =
        super::labels(func).iter().map(|l| shape(module, func, l).filter(|s| s.usual())).collect();
    let others = |name: &str, chain: &[&Shape]| used_by_others(func, name, chain);
    let mut chains = rows::forms(&shapes, clusters as u64, &others);
    chains.extend(layers::forms(&shapes, &others));
    let taken = |l: &String| chains.iter().any(|f| f.labels.contains(l));
    // Chains have their arrays in registers and shared memory.
    let kept = shapes.iter().flatten().filter(|s| taken(&s.label)).map(|s| s.output.name.clone());
    let (first, func) = match whole {
        true => (Vec::new(), func.clone()),
        false => {
            let (func, first) = inlined::inlined(func, &kept.collect());
            (first, func)
        }
    };
    let mut out = tables::forms(&func);
    let each = super::labels(&func).into_iter().filter_map(|l| shape(module, &func, &l));
    let each: Vec<Form> = each.flat_map(|s| one(&s)).collect();
    out.extend(chains);
    out.extend(each);
    // In the order of the text: what a form calls its loops does not depend on forms of what comes later.
    let labels = super::labels(&func);
    out.sort_by_key(|f| labels.iter().position(|l| f.labels.first() == Some(l)));
    Forms { first, func, forms: out }
}

/// The forms of a compute.
fn one(s: &Shape) -> Vec<Form> {
    let each: Vec<Strategy> = if s.scans {
        scans::form(s).filter(|_| s.usual()).into_iter().collect()
    } else if s.gathers {
        gathers::form(s).into_iter().chain(maps::forms(s)).collect()
    } else if s.structs {
        pairs::forms(s).into_iter().chain(sums::forms(s)).collect()
    } else {
        let products = products::forms(s).into_iter().chain(contractions::forms(s));
        products
            .chain(windows::forms(s))
            .chain(pairs::forms(s))
            .chain(sums::forms(s))
            .chain(maps::forms(s))
            .collect()
    };
    each.into_iter().map(|strategy| Form { labels: vec![s.label.clone()], strategy }).collect()
}

/// Whether anything but some computes uses an array.
fn used_by_others(func: &Function, name: &str, chain: &[&Shape]) -> bool {
    let mut id = None;
    visit::walk(&func.body, &mut |s, _| {
        id = id.or(s.allocated().filter(|b| *b.name == *name).map(|b| b.id));
        true
    });
    let Some(id) = id else { return true };
    let mut found = false;
    visit::walk(&func.body, &mut |s, _| {
        let own = s.as_compute().is_some_and(|c| chain.iter().any(|x| x.label == c.label.as_str()));
        if !own && s.children().next().is_none() {
            visit::map_accesses(s, &mut |a| {
                found |= a.view.buffer() == Some(id);
                None
            });
        }
        true
    });
    found
}

/// The compute of a label, if there are templates for it.
fn shape(module: &Module, func: &Function, label: &str) -> Option<Shape> {
    if let Some(s) = regular(module, func, label) {
        return Some(s);
    }
    // Subscripts that are data: as if they were none.
    let mut data = false;
    let body = visit::map_stmts(&func.body, &mut |s| match s.as_compute() {
        Some(c) if c.label.as_str() == label => {
            let fixed = |e: &lathe_ir::Expr| {
                visit::map_expr(e, &mut |x| match x.kind() {
                    ExprKind::Load(a) if a.indices.iter().any(|i| !visit::loads_of(i).is_empty()) => {
                        data = true;
                        let known = |i: &lathe_ir::Expr| match visit::loads_of(i).is_empty() {
                            true => i.clone(),
                            false => build::index(0),
                        };
                        let indices = a.indices.iter().map(known).collect();
                        build::load(lathe_ir::Access { indices, ..a.clone() })
                    }
                    _ => x,
                })
            };
            let values = c.values.iter().map(fixed).collect();
            s.with_kind(StmtKind::Compute(Compute { values, ..c.clone() }))
        }
        _ => s,
    });
    let found = regular(module, &Function { body, ..func.clone() }, label)?;
    data.then_some(Shape { gathers: true, ..found })
}

/// A compute whose subscripts are affine.
fn regular(module: &Module, func: &Function, label: &str) -> Option<Shape> {
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
    let dims = h.dims.iter().zip(&f.extents).zip(&f.reduced);
    let shape = Shape {
        label: label.to_string(),
        dims: dims.map(|((d, n), r)| Dim { name: d.name.clone(), extent: *n, reduced: *r }).collect(),
        output: array(out, output),
        inputs: inputs.collect::<Option<_>>()?,
        splits: f.splits && f.identity,
        scans: f.scanned.contains(&true),
        products: h.op == Some(ReduceOp::Sum) && h.values.iter().all(product),
        structs: f.inputs.iter().chain(&f.outputs).any(|r| r.leaves > 1),
        gathers: false,
    };
    at.extents.iter().all(|n| *n > 0).then_some(shape)
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
