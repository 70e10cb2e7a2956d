//! Assignments: index notation becomes computes, everything else stores and reducing stores.
//!
//! The right side is read as a whole before the left is written. Where the target is read in other places
//! than the one written, or while it is reduced into, the value goes through a temporary.

mod ranges;

use super::range::{self, Bound, Interval};
use super::reduction::{as_placeholder, placeholder};
use super::scope::{Cx, Entity, Index, Reduction, Statement, place};
use crate::ast::{self, AssignOp, ExprKind as K, Ident, Subscript};
use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::names::Role;
use lathe_ir::stmt::block::{Item, rebuilt};
use lathe_ir::{
    Access, Combine, Compute, Dim, Expr, Label, Reduce, ReduceOp, Scalar, Stmt, StmtKind, Store, Type, VarId,
    build, visit,
};
use std::collections::{HashMap, HashSet};

/// The parts of an assignment as written.
pub struct Assignment<'a> {
    pub label: Option<&'a Ident>,
    pub target: &'a ast::Expr,
    pub op: AssignOp,
    pub value: &'a ast::Expr,
    pub ranges: &'a [ast::Range],
    pub span: Span,
}

/// The range of every index of a statement.
pub type Ranges = HashMap<VarId, Interval>;

impl Cx<'_> {
    pub fn assign(&mut self, a: &Assignment) -> Option<Stmt> {
        if a.op == AssignOp::Mul
            && let Some(value) = self.times_itself(a.target, a.value)
        {
            let Assignment { label, target, ranges, span, .. } = *a;
            return self.assign(&Assignment {
                label,
                target,
                op: AssignOp::Set,
                value: &value,
                ranges,
                span,
            });
        }
        self.st = Statement { index_notation: true, ..Statement::default() };
        let (name, subs) = self.target_name(a.target)?;
        let label = self.label(a.label, &name);
        let free = self.free_indices(a.target);
        let reduced = if a.op == AssignOp::Set { Vec::new() } else { self.right_indices(a) };
        let late = self.where_ranges(a)?;

        let target = self.access(&name, a.target.span, subs, a.target.span, false);
        let hint = target.as_ref().map(|t| t.elem.clone());
        let value = match &hint {
            Some(t) => self.expr_as(a.value, t),
            None => self.expr(a.value, None),
        };
        let late_ok = self.late_ranges(late);
        let (target, mut value) = (target?, value?);
        late_ok?;
        let op = self.update_op(a, &target.elem)?;
        if target.indices.iter().any(has_placeholder) {
            let message = "reductions in a subscript on the left are not available yet";
            self.error(codes::NOT_YET, message, a.target.span, "a reduction");
            self.help("name it with `let` first");
            return None;
        }
        let known = self.left_ranges(&target, &name, subs);
        let ranges = self.ranges(known)?;

        let mut reduced = reduced;
        if self.reads_itself(&target, &value, !reduced.is_empty()) {
            let (by, indices) = (op.clone().unwrap_or(ReduceOp::Sum), std::mem::take(&mut reduced));
            let ty = value.ty().clone();
            // A reduction that is the whole value is its own temporary.
            if as_placeholder(&value).is_none() || !indices.is_empty() {
                self.st.reductions.push(Reduction {
                    op: by,
                    indices,
                    scan: None,
                    body: value,
                    guards: Vec::new(),
                    ty: ty.clone(),
                    span: a.value.span,
                });
                value = placeholder(self.st.reductions.len() - 1, ty);
            }
            let (mut pieces, mut values) = self.extract(vec![value], None, label.as_str(), &ranges)?;
            let value = values.pop()?;
            pieces.push(self.emit(a, label, free, Vec::new(), target, vec![value], op, None, &ranges));
            return Some(rebuilt(pieces));
        }

        let top = as_placeholder(&value).filter(|n| {
            let r = &self.st.reductions[*n];
            r.guards.is_empty()
                && op.as_ref().is_none_or(|o| *o == r.op && r.scan.is_none())
                && r.scan.is_none_or(|i| free.contains(&i))
        });
        let Some(top) = top else {
            let (mut pieces, mut values) = self.extract(vec![value], None, label.as_str(), &ranges)?;
            let value = values.pop()?;
            pieces.push(self.emit(a, label, free, reduced, target, vec![value], op, None, &ranges));
            return Some(rebuilt(pieces));
        };
        // The whole value is one reduction: it goes right into the target.
        let (mut pieces, mut bodies) =
            self.extract(vec![placeholder(top, hint?)], Some(top), label.as_str(), &ranges)?;
        let body = bodies.pop()?;
        let (chain, scan) = self.merged(top);
        let r = self.st.reductions[top].clone();
        let mut targets = vec![target];
        let mut values = vec![body];
        if matches!(r.op, ReduceOp::ArgMin | ReduceOp::ArgMax) {
            let best = self.temporary(&Role::Best.of(&label), values[0].ty(), &free, &ranges, r.span)?;
            let at = self.cells(&free, &ranges);
            targets.insert(0, Access::buffer(best.id, best.elem.clone(), at).at(place(r.span)));
            values.push(self.index_value(chain[0]));
            pieces.push(Item::Alloc(best, place(r.span)));
        }
        reduced.extend(chain);
        let target = targets.pop()?;
        let reduction = Some(TopLevel { op: r.op, scan, best: targets.pop() });
        pieces.push(self.emit(a, label, free, reduced, target, values, op, reduction, &ranges));
        Some(rebuilt(pieces))
    }

    /// Moves the reductions of an ordinary expression into computes before it.
    pub fn without_reductions(&mut self, e: Expr, prefix: &str) -> Option<(Vec<Item>, Expr)> {
        let ranges = self.ranges(Ranges::new())?;
        let (pieces, mut exprs) = self.extract(vec![e], None, prefix, &ranges)?;
        Some((pieces, exprs.pop()?))
    }

    fn target_name<'e>(&mut self, target: &'e ast::Expr) -> Option<(String, &'e [Subscript])> {
        let (base, subs): (_, &[Subscript]) = match &target.kind {
            K::Index(base, subs) => (&**base, subs),
            _ => (target, &[]),
        };
        let Some(name) = base.as_name() else {
            self.error(codes::ASSIGN, "this cannot be assigned to", base.span, "not an array's name");
            return None;
        };
        let why = match self.lookup(name) {
            Some(Entity::Array { read_only: None, .. }) => return Some((name.to_string(), subs)),
            Some(Entity::Array { read_only: Some(why), .. }) => *why,
            Some(Entity::Size(_)) => "a size",
            Some(Entity::Value(_, what) | Entity::Named(_, what)) => what,
            None => {
                let help = format!("declare it: `var {name}: f32[…]`, or as an output: `-> ({name}: …)`");
                self.unknown(name, base.span, Some(help));
                return None;
            }
        };
        self.error(codes::ASSIGN, format!("`{name}` cannot be assigned to"), base.span, format!("is {why}"));
        self.help(match why {
            "an input" => format!("declare it `{name}: inout …` to change it, or write to an output"),
            _ => "use a `var` for what changes".to_string(),
        });
        None
    }

    /// `C`, `C.2`, … or the user's own.
    pub fn label(&mut self, user: Option<&Ident>, target: &str) -> Label {
        let target = self.as_labelled(target);
        let user_text = user.map(|u| self.label_in_call(&u.text));
        let n = self.labels.entry(target.clone()).or_insert(0);
        *n += 1;
        let text = match user_text {
            Some(text) => text,
            None if *n == 1 => target,
            None => format!("{target}.{n}"),
        };
        if !self.used_labels.insert(text.clone())
            && let Some(u) = user
        {
            let message = format!("two statements are labelled `{text}`");
            self.error(codes::DUPLICATE, message, u.span, "used before");
            self.help("labels name one statement: choose another");
        }
        Label::new(text)
    }

    fn new_index(&mut self, name: &Ident) -> usize {
        let binder = self.fresh_var(&name.text, Scalar::Index);
        self.st.indices.push(Index { binder, span: name.span, bounds: None });
        let n = self.st.indices.len() - 1;
        self.st.active.push((name.text.clone(), n));
        n
    }

    /// The unbound names in the subscripts on the left.
    fn free_indices(&mut self, target: &ast::Expr) -> Vec<usize> {
        let mut names = Vec::new();
        self.unbound(target, false, &mut Vec::new(), &mut names);
        names.iter().map(|n| self.new_index(n)).collect()
    }

    /// Indices that are only on the right of `op=`, or only in its `where`: they are reduced.
    fn right_indices(&mut self, a: &Assignment) -> Vec<usize> {
        let mut bound: Vec<String> = self.st.active.iter().map(|(n, _)| n.clone()).collect();
        let mut names = Vec::new();
        self.unbound(a.value, false, &mut bound, &mut names);
        for r in a.ranges {
            let n = &r.index.text;
            let taken =
                self.lookup(n).is_some() || self.active(n).is_some() || names.iter().any(|x| x.text == *n);
            if !taken && !binds(a.value, n) {
                names.push(r.index.clone());
            }
        }
        names.iter().map(|n| self.new_index(n)).collect()
    }

    /// Names without a meaning in subscripts, in order of appearance.
    fn unbound(&self, e: &ast::Expr, in_subscript: bool, bound: &mut Vec<String>, out: &mut Vec<Ident>) {
        match &e.kind {
            K::Name(n) => {
                let known = self.lookup(n).is_some() || bound.contains(n) || out.iter().any(|x| x.text == *n);
                if in_subscript && !known {
                    out.push(Ident { text: n.clone(), span: e.span });
                }
            }
            K::Unary(_, a) | K::Field(a, _) | K::Component(a, ..) => {
                self.unbound(a, in_subscript, bound, out)
            }
            K::Binary(_, a, b) => {
                self.unbound(a, in_subscript, bound, out);
                self.unbound(b, in_subscript, bound, out);
            }
            K::Index(_, subs) => {
                for s in subs {
                    if let Subscript::Expr(s) = s {
                        self.unbound(s, true, bound, out);
                    }
                }
            }
            K::Call(f, args) => {
                let before = bound.len();
                if let K::Index(base, subs) = &f.kind {
                    // A scan's index stays free; a reduction binds its own.
                    if base.as_name().is_some() {
                        bound.extend(subs.iter().filter_map(index_name));
                    } else {
                        self.unbound(f, in_subscript, bound, out);
                    }
                }
                for x in args {
                    self.unbound(&x.value, in_subscript, bound, out);
                }
                bound.truncate(before);
            }
            K::Tuple(es) | K::List(es) => es.iter().for_each(|x| self.unbound(x, in_subscript, bound, out)),
            K::Block(lets, value) => {
                let before = bound.len();
                for (name, e) in lets {
                    self.unbound(e, in_subscript, bound, out);
                    bound.push(name.text.clone());
                }
                self.unbound(value, in_subscript, bound, out);
                bound.truncate(before);
            }
            _ => {}
        }
    }

    fn update_op(&mut self, a: &Assignment, ty: &Type) -> Option<Option<ReduceOp>> {
        let (op, ok) = match a.op {
            AssignOp::Set => return Some(None),
            AssignOp::Add => (ReduceOp::Sum, ty.is_numeric()),
            AssignOp::Mul => (ReduceOp::Prod, ty.is_float() || ty.is_int()),
            AssignOp::Min => (ReduceOp::Min, ty.is_float() || ty.is_int()),
            AssignOp::Max => (ReduceOp::Max, ty.is_float() || ty.is_int()),
            AssignOp::Any => (ReduceOp::Any, ty.is_bool()),
            AssignOp::All => (ReduceOp::All, ty.is_bool()),
        };
        if !ok {
            self.error(codes::OPERATOR, format!("`{op}` does not combine `{ty}`"), a.span, format!("`{ty}`"));
            return None;
        }
        Some(Some(op))
    }

    /// Would writing the target change what the value still has to read?
    fn reads_itself(&self, target: &Access, value: &Expr, reduced: bool) -> bool {
        if self.st.indices.is_empty() {
            return false;
        }
        let same = |e: &Expr, reduces: bool| {
            visit::loads_of(e)
                .iter()
                .any(|l| l.view.buffer() == target.view.buffer() && (reduces || l.indices != target.indices))
        };
        match as_placeholder(value) {
            // Its body, and everything reduced in it, is read while the target is written.
            Some(_) => self.st.reductions.iter().any(|r| same(&r.body, true)),
            // Other reductions go through temporaries anyway.
            None => same(value, reduced),
        }
    }

    pub fn dims(
        &self,
        free: &[usize],
        reduced: &[usize],
        op: &ReduceOp,
        scan: Option<usize>,
        ranges: &Ranges,
    ) -> Vec<Dim> {
        let of = |i: &usize, combine: Combine| {
            let binder = self.st.indices[*i].binder.clone();
            let empty = Interval { lo: build::index(0), hi: build::index(0) };
            let Interval { lo, hi } = ranges.get(&binder.id).cloned().unwrap_or(empty);
            Dim { binder, lo, hi, combine }
        };
        let free = free.iter().map(|i| {
            let along = scan == Some(*i);
            of(i, if along { Combine::Scan(op.clone()) } else { Combine::Concat })
        });
        free.chain(reduced.iter().map(|i| of(i, Combine::Reduce(op.clone())))).collect()
    }

    /// The statement itself.
    #[allow(clippy::too_many_arguments)]
    fn emit(
        &mut self,
        a: &Assignment,
        label: Label,
        free: Vec<usize>,
        reduced: Vec<usize>,
        target: Access,
        values: Vec<Expr>,
        update: Option<ReduceOp>,
        top: Option<TopLevel>,
        ranges: &Ranges,
    ) -> Item {
        let instance: Vec<Expr> = self.loops.iter().map(build::var).collect();
        let kind = if free.is_empty() && reduced.is_empty() {
            match (update, values.into_iter().next()) {
                (Some(op), Some(value)) => StmtKind::Reduce(Reduce {
                    label,
                    instance,
                    op,
                    targets: vec![target],
                    values: vec![value],
                    licence: true,
                    contract: false,
                }),
                (None, Some(value)) => StmtKind::Store(Store::new(label, instance, target, value)),
                (_, None) => StmtKind::Seq(Vec::new()),
            }
        } else {
            let op = top.as_ref().map(|t| t.op.clone()).or_else(|| update.clone()).unwrap_or(ReduceOp::Sum);
            let scan = top.as_ref().and_then(|t| t.scan);
            let dims = self.dims(&free, &reduced, &op, scan, ranges);
            let targets = top.and_then(|t| t.best).into_iter().chain([target]).collect();
            StmtKind::Compute(Compute { label, dims, targets, values, guard: None, update })
        };
        Item::Do(Stmt::new(kind, place(a.span)))
    }
}

/// The reduction that is the whole right side.
struct TopLevel {
    op: ReduceOp,
    scan: Option<usize>,
    /// Where `argmax` keeps the best value.
    best: Option<Access>,
}

fn index_name(s: &Subscript) -> Option<String> {
    match s {
        Subscript::Expr(e) => e.as_name().map(str::to_string),
        Subscript::Range(r) => Some(r.index.text.clone()),
    }
}

/// Does a reduction in the expression bind the name?
fn binds(e: &ast::Expr, name: &str) -> bool {
    let any = |es: &[ast::Expr]| es.iter().any(|x| binds(x, name));
    match &e.kind {
        K::Unary(_, a) | K::Field(a, _) | K::Component(a, ..) => binds(a, name),
        K::Binary(_, a, b) => binds(a, name) || binds(b, name),
        K::Index(_, subs) => subs.iter().any(|s| matches!(s, Subscript::Expr(s) if binds(s, name))),
        K::Call(f, args) => {
            let own = match &f.kind {
                K::Index(base, subs) if base.as_name().is_some() => {
                    subs.iter().filter_map(index_name).any(|n| n == name)
                }
                _ => false,
            };
            own || args.iter().any(|x| binds(&x.value, name))
        }
        K::Tuple(es) | K::List(es) => any(es),
        K::Block(lets, e) => lets.iter().any(|l| binds(&l.1, name)) || binds(e, name),
        _ => false,
    }
}

fn has_placeholder(e: &Expr) -> bool {
    let mut found = false;
    visit::walk_expr(e, &mut |x| found |= as_placeholder(x).is_some());
    found
}
