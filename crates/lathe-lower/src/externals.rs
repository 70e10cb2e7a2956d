//! What calls of external functions pass: an array for each parameter, which engines describe to the called function.
//!
//! [`in_memory`] is a pass: a local array that a call passes lies in memory, where a descriptor can point. The calls themselves
//! stay; [`arguments`] says what an engine writes down for them.

use lathe_diagnostics::Places;
use lathe_ir::build::{add, index, mul};
use lathe_ir::lower::Unsupported;
use lathe_ir::stmt::{Arg, PartMap};
use lathe_ir::visit::{substitute, walk};
use lathe_ir::{BufId, Buffer, Expr, Function, Module, ParamKind, Space, Stmt, StmtKind, Type, View};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The function with the local arrays that its calls pass in memory.
pub fn in_memory(func: &Function) -> Function {
    let mut passed = HashSet::new();
    walk(&func.body, &mut |s, _| {
        if let StmtKind::Call { args, .. } = s.kind() {
            let views = args.iter().filter_map(|a| match a {
                Arg::View(v) => v.buffer(),
                Arg::Value(_) => None,
            });
            passed.extend(views);
        }
        true
    });
    if passed.is_empty() {
        return func.clone();
    }
    let body = Memory { passed }.child(&func.body);
    Function { body, ..func.clone() }
}

struct Memory {
    passed: HashSet<BufId>,
}

impl PartMap for Memory {
    fn buffer(&mut self, b: &Arc<Buffer>) -> Arc<Buffer> {
        let lies = !self.passed.contains(&b.id) || b.space == Space::Host;
        if lies { b.clone() } else { Arc::new(Buffer { space: Space::Host, ..(**b).clone() }) }
    }

    fn child(&mut self, s: &Stmt) -> Stmt {
        s.map_parts(self)
    }
}

/// What is passed for one parameter.
#[derive(Clone, Debug)]
pub enum Passed {
    /// A value, as an array of rank 0.
    Value { value: Expr, ty: Type },
    /// Elements of a buffer: from the one with the subscripts `first` on, every `steps`-th of each dimension.
    Elements { buffer: BufId, elem: Type, first: Vec<Expr>, steps: Vec<i64>, extents: Vec<Expr> },
}

/// What a call passes, in the order of the parameters. `decl` knows the buffers in scope.
///
/// # Errors
/// Where arguments do not fit the parameters, and for views other than slices.
pub fn arguments(
    module: &Module,
    name: &str,
    args: &[Arg],
    decl: &dyn Fn(BufId) -> Option<Arc<Buffer>>,
    places: &Places,
) -> Result<Vec<Passed>, Unsupported> {
    let refuse = || Unsupported::new(format!("the arguments of `{name}`")).at(places);
    let callee = module.callee(name).ok_or_else(refuse)?;
    let mut sizes = HashMap::new();
    for (p, a) in callee.params.iter().zip(args) {
        let whole = match a {
            Arg::View(v) => v.as_buffer().and_then(decl),
            Arg::Value(_) => None,
        };
        if let (Some(b), Some(whole)) = (p.array(), whole) {
            for (x, extent) in b.extents.iter().zip(&whole.extents) {
                x.as_var().map(|id| sizes.entry(id).or_insert_with(|| extent.clone()));
            }
        }
    }
    let each = callee.params.iter().zip(args).map(|(p, a)| match (&p.kind, a) {
        (ParamKind::Scalar(b), Arg::Value(value)) => {
            Ok(Passed::Value { value: value.clone(), ty: b.ty.into() })
        }
        (ParamKind::Array(b), Arg::Value(value)) => {
            Ok(Passed::Value { value: value.clone(), ty: b.elem.clone() })
        }
        (ParamKind::Array(b), Arg::View(v)) => {
            let rank = b.extents.len();
            let (buffer, first, steps) = elements(v, rank).ok_or_else(refuse)?;
            let of = decl(buffer).ok_or_else(refuse)?;
            let extents = match v.as_buffer() {
                Some(_) => of.extents.clone(),
                None => b.extents.iter().map(|x| substitute(x, &sizes)).collect(),
            };
            if extents.len() != rank || first.len() != rank {
                return Err(refuse());
            }
            Ok(Passed::Elements { buffer, elem: b.elem.clone(), first, steps, extents })
        }
        (ParamKind::Scalar(_), Arg::View(_)) => Err(refuse()),
    });
    each.collect()
}

/// Where the elements of a view lie in its buffer.
fn elements(v: &View, rank: usize) -> Option<(BufId, Vec<Expr>, Vec<i64>)> {
    match v {
        View::Buffer(id) => Some((*id, vec![index(0); rank], vec![1; rank])),
        View::Slice { base, offsets, steps } => {
            let (id, first, inner) = elements(base, rank)?;
            let first = first.iter().zip(offsets).zip(&inner).map(|((f, o), s)| match s {
                1 => add(f.clone(), o.clone()),
                s => add(f.clone(), mul(o.clone(), index(*s))),
            });
            let first = first.collect();
            let steps = inner.iter().zip(steps).map(|(a, b)| a.checked_mul(*b)).collect::<Option<_>>()?;
            Some((id, first, steps))
        }
        View::Reshape { .. } | View::Reinterpret { .. } | View::Deref { .. } | View::Global(_) => None,
    }
}
