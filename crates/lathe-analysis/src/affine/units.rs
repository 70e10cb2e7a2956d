//! The units of a subtree, and their iterations.

use super::{Context, Unit};
use crate::env::{Env, Item};
use crate::leaves::written_buffers;
use crate::system::{Col, Conj};
use crate::translate::{Builder, Scope};
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Binder, Executor, Scalar, Stmt, build};
use std::collections::HashMap;

/// More units than this take isl too long.
const MAX_UNITS: usize = 24;

/// The surroundings and all units, in the order of the text.
pub(super) fn collect(env: &Env, root: &Stmt) -> Result<(Context, Vec<Unit>), String> {
    let written = written_buffers(root);
    let mut builder = Builder::new(&written);
    let scope = builder.surroundings(env);
    let mut context = Context {
        cons: builder.system.cons.clone(),
        clauses: builder.system.clauses.clone(),
        columns: builder.system.columns,
        meaning: HashMap::new(),
        variables: HashMap::new(),
    };
    for item in &env.items {
        let (Item::Size(b)
        | Item::Scalar(b)
        | Item::Opaque(b)
        | Item::Let(b, _)
        | Item::Loop { binder: b, .. }) = item
        else {
            continue;
        };
        if let Some(col) = scope.col(b.id).filter(|_| b.ty == Scalar::Index) {
            context.meaning.insert(col, build::var(b));
            context.variables.insert(b.id, col);
        }
    }
    let mut c = Collector { builder, scope, known: &context, out: Vec::new() };
    c.visit(root, &mut Path::new(), &mut Vec::new(), &mut Vec::new())?;
    let units = c.out;
    if units.is_empty() || units.len() > MAX_UNITS {
        return Err(format!(
            "the nest contains {} statements; 1 to {MAX_UNITS} can be scheduled together",
            units.len()
        ));
    }
    Ok((context, units))
}

struct Collector<'a, 'w> {
    builder: Builder<'w>,
    scope: Scope,
    known: &'a Context,
    out: Vec<Unit>,
}

impl<'a> Collector<'_, '_> {
    fn visit(
        &mut self,
        s: &'a Stmt,
        path: &mut Path,
        items: &mut Vec<Item<'a>>,
        iters: &mut Vec<Binder>,
    ) -> Result<(), String> {
        let loops = has_loop(s);
        if let Some(all) = s.as_seq() {
            for (n, child) in all.iter().enumerate() {
                path.push(n);
                self.visit(child, path, items, iters)?;
                path.pop();
            }
            return Ok(());
        }
        if let Some(l) = s.as_loop() {
            if l.exec != Executor::Serial || l.step != 1 {
                return Err(format!("the loop `{}` already has an executor, or has a step", l.binder.name));
            }
            iters.push(l.binder.clone());
            self.inner(s, 0, &l.body, path, items, iters)?;
            iters.pop();
            return Ok(());
        }
        if let Some((cond, _, _)) = s.as_if()
            && (loops || self.convex(cond, items))
        {
            return s
                .children()
                .enumerate()
                .try_for_each(|(n, child)| self.inner(s, n, child, path, items, iters));
        }
        if loops {
            return Err(match (s.as_alloc(), s.as_let()) {
                (Some((buffer, _)), _) => format!(
                    "`{0}` is declared inside the nest, around loops: expand it first, with \
                     `expand({0}, at: …)`",
                    buffer.name
                ),
                (_, Some((binder, _, _))) => {
                    format!(
                        "`let {}` encloses loops, and its value may fail, or changes inside of them",
                        binder.name
                    )
                }
                _ => "a loop is enclosed by something other than a loop".into(),
            });
        }
        if !s.effects().without(Effects::ALLOCATES).is_none() {
            return Err("the nest contains a statement that may fail or block".into());
        }
        let (columns, domain) = self.domain(items, iters)?;
        self.out.push(Unit { path: path.clone(), stmt: s.clone(), iters: iters.clone(), columns, domain });
        Ok(())
    }

    /// Goes into a child.
    fn inner(
        &mut self,
        s: &'a Stmt,
        position: usize,
        child: &'a Stmt,
        path: &mut Path,
        items: &mut Vec<Item<'a>>,
        iters: &mut Vec<Binder>,
    ) -> Result<(), String> {
        let outside = items.len();
        items.extend(Item::entering(s, position));
        path.push(position);
        self.visit(child, path, items, iters)?;
        path.pop();
        items.truncate(outside);
        Ok(())
    }

    /// Whether a condition is one conjunction of comparisons, both where it holds and where it does not.
    fn convex(&self, cond: &lathe_ir::Expr, items: &[Item]) -> bool {
        [true, false].into_iter().all(|holds| {
            let (mut builder, mut scope) = self.inside(items);
            let before = (builder.system.columns, builder.system.clauses.len());
            builder.system.exact = true;
            builder.assert(&mut scope, cond, holds);
            builder.system.exact && before == (builder.system.columns, builder.system.clauses.len())
        })
    }

    fn inside(&self, items: &[Item]) -> (Builder<'_>, Scope) {
        let (mut builder, mut scope) = (self.builder.clone(), self.scope.clone());
        for i in items {
            builder.item(&mut scope, i);
        }
        (builder, scope)
    }

    fn domain(&self, items: &[Item], iters: &[Binder]) -> Result<(Vec<Col>, Conj), String> {
        let (builder, scope) = self.inside(items);
        let columns: Vec<Col> = iters.iter().filter_map(|b| scope.col(b.id)).collect();
        let cons: Conj = builder.system.cons.get(self.known.cons.len()..).unwrap_or(&[]).to_vec();
        let affine = builder.system.exact
            && builder.system.clauses.len() == self.known.clauses.len()
            && cons.iter().all(|c| {
                c.lin.terms.iter().all(|t| columns.contains(&t.0) || self.known.meaning.contains_key(&t.0))
            });
        if columns.len() != iters.len() || !affine {
            return Err(format!("the bounds of {} are not affine", list(iters)));
        }
        Ok((columns, cons))
    }
}

fn has_loop(s: &Stmt) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= s.as_loop().is_some() || s.own_effects().contains(Effects::DIVERGES);
        !found
    });
    found
}

fn list(iters: &[Binder]) -> String {
    let names: Vec<String> = iters.iter().map(|b| format!("`{}`", b.name)).collect();
    names.join(", ")
}
