//! `inline`: an intermediate array, or the name of a value, disappears into the expressions that read it.

use super::make;
use super::producer::Producer;
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::optimize;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Expr, ExprKind, View};
use lathe_ir::{Buffer, Stmt, Store, VarId, build, visit};
use lathe_strategy::evidence::{Kind, Simplified};
use lathe_strategy::{Claim, Refusal};
use std::collections::HashMap;

const RULE: &str = "inline";

rule! {
    /// `inline(P)` removes the local array `P`: every read of an element is replaced by the expression that computes
    /// it. Cheap expressions are better computed again than stored. `inline(v)` does the same to the name `v` of a value
    /// (`let`), of which nothing that it reads may be written in its scope: loops in that scope can then be cut apart
    /// (`fission`). An array of the same name is meant once there is no such name any more. `inline` alone puts values in the place of calls of functions that only compute one, and never refuses.
    ///
    /// Legal when one store computes `P`, each element once, subscripted by plain loop variables, and nothing that its
    /// expression reads is written between the store and the reads of `P`. Reductions are not expressions: use
    /// `compute_at`.
    ///
    /// ```lathe
    /// kernel chain(A: f32[N]) -> (B: f32[N]) {
    ///     var T: f32[N]
    ///     T[i] = A[i] * 2.0
    ///     B[i] = T[i] + 1.0
    /// }
    /// strategy fused for chain = inline(T)
    /// ```
    pub static INLINE = inline, version 1, (array: optional Buffer), apply,
        "replaces reads of an intermediate array, names, or calls, by the expression that computes them";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let Some(array) = args.opt_path(RULE, "array", 0)? else {
        let module = work.module();
        return work.pass(Simplified::Call, |func| optimize::values_of_calls(module, func));
    };
    if is_named(cursor.focused(), &array) {
        return named(work, &array);
    }
    let buffer = names::find_buffer(cursor, RULE, &array)?;
    let producer = Producer::of(RULE, cursor, &buffer, None)?;
    let [nest] = producer.nests.as_slice() else {
        return Err(refuse(format!("several statements compute `{}`", buffer.name), &producer.places));
    };
    let rule = Definition::of(nest, &buffer)?;
    let Some(root) = cursor.at(&producer.alloc) else {
        return Err(refuse("the allocation is gone".into(), &producer.places));
    };
    let new = visit::map_exprs(root, &mut |e| {
        visit::map_expr(e, &mut |x| match x.kind() {
            ExprKind::Load(a) if a.view == View::Buffer(buffer.id) => rule.value(&a.indices),
            _ => x,
        })
    });
    work.replace_as_is(&producer.alloc, new, Kind::Bijection)?;
    producer.remove(work, Kind::Bijection)?;
    let claim = Claim::ComputedInPlace { array: buffer.name.to_string() };
    work.decide(claim, "`compute_at` moves whole nests, and keeps the array")
}

/// Whether a value has that name.
fn is_named(root: &Stmt, name: &str) -> bool {
    root.as_let().is_some_and(|l| &*l.0.name == name) || root.children().any(|s| is_named(s, name))
}

/// The values of that name in the place of the name.
fn named(work: &mut Work, name: &str) -> Result<(), Refusal> {
    let focus = work.cursor().focus.clone();
    work.pass(Simplified::Common, |func| {
        let Some(root) = visit::at(&func.body, &focus) else { return };
        let new = visit::map_stmts(root, &mut |s| match s.as_let() {
            Some((b, value, body)) if &*b.name == name => {
                visit::substitute_stmt(body, &HashMap::from([(b.id, value.clone())]))
            }
            _ => s,
        });
        func.body = visit::replace_at(&func.body, &focus, new).unwrap_or_else(|| func.body.clone());
    })
}

fn refuse(message: String, places: &Places) -> Refusal {
    let help = "`compute_at` moves whole nests, reductions included";
    make::refuse(RULE, codes::SHAPE, format!("`{RULE}`: {message}"), help, places)
}

/// `P[v₀ + c₀, …] = value`
struct Definition {
    dims: Vec<(VarId, i64)>,
    value: Expr,
}

impl Definition {
    fn of(nest: &Stmt, buffer: &Buffer) -> Result<Definition, Refusal> {
        let mut lets: HashMap<VarId, Expr> = HashMap::new();
        let mut loops: Vec<VarId> = Vec::new();
        let mut here = nest;
        let store: &Store = loop {
            if let Some(l) = here.as_loop() {
                loops.push(l.binder.id);
                here = &l.body;
            } else if let Some((binder, value, body)) = here.as_let() {
                lets.insert(binder.id, visit::substitute(value, &lets));
                here = body;
            } else if let Some(s) = here.as_store() {
                break s;
            } else {
                let what = format!("`{}` is not computed by one store", buffer.name);
                return Err(refuse(what, nest.places()));
            }
        };
        let mut dims = Vec::new();
        for e in &store.target.indices {
            let x = lathe_poly::bounds::normal(&visit::substitute(e, &lets));
            let lone = match x.terms.as_slice() {
                [(e, 1)] => e.as_var().filter(|v| loops.contains(v)),
                _ => None,
            };
            let Some(v) = lone.filter(|v| dims.iter().all(|d: &(VarId, i64)| d.0 != *v)) else {
                let what = format!(
                    "`{}` is not subscripted by plain loop variables where it is computed",
                    buffer.name
                );
                return Err(refuse(what, nest.places()));
            };
            dims.push((v, x.constant));
        }
        if dims.len() != loops.len() {
            let what = format!("elements of `{}` are stored more than once", buffer.name);
            return Err(refuse(what, nest.places()));
        }
        Ok(Definition { dims, value: visit::substitute(&store.value, &lets) })
    }

    fn value(&self, indices: &[Expr]) -> Expr {
        let map =
            self.dims.iter().zip(indices).map(|((v, c), e)| (*v, build::add(e.clone(), build::index(-c))));
        visit::substitute(&self.value, &map.collect())
    }
}
