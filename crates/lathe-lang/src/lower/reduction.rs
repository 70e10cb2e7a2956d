//! Reductions and scans in expressions: a placeholder stands for each until ranges are known.

use super::scope::{Cx, Entity, Index, Reduction};
use crate::ast::{self, CallArg, ExprKind as K, Ident, Subscript};
use crate::codes;
use lathe_diagnostics::Span;
use lathe_diagnostics::nearest;
use lathe_ir::{Expr, ExprKind, ReduceOp, Scalar, Type};

/// Names of the operators that reduce.
pub const REDUCERS: [&str; 8] = ["sum", "prod", "min", "max", "any", "all", "argmin", "argmax"];

impl Cx<'_> {
    /// `sum[k, r in 0..3](e)` and `scan(sum)[i](e)`: a placeholder, and an entry in the statement's list.
    pub fn reduction(
        &mut self,
        base: &ast::Expr,
        subs: &[Subscript],
        args: &[CallArg],
        hint: Option<&Type>,
        span: Span,
    ) -> Option<Expr> {
        let (name, at, scan) = match &base.kind {
            K::Name(n) => (n.clone(), base.span, false),
            K::Call(f, ops) if f.as_name() == Some("scan") => match ops.as_slice() {
                [CallArg { name: None, value }] if value.as_name().is_some() => {
                    (value.as_name().unwrap_or("").to_string(), value.span, true)
                }
                _ => {
                    self.error(codes::SCAN, "`scan` takes an operator", base.span, "no operator");
                    self.help("write `scan(sum)[i](…)`");
                    return None;
                }
            },
            _ => {
                self.error(codes::UNKNOWN, "this cannot be called", base.span, "not a reduction");
                return None;
            }
        };
        if name == "scan" {
            self.error(codes::SCAN, "`scan` needs an operator", base.span, "which one?");
            self.help("write `scan(sum)[i](…)`");
            return None;
        }
        if matches!(self.lookup(&name), Some(Entity::Array { .. })) {
            self.error(codes::REDUCTION, format!("the array `{name}` cannot be called"), at, "an array");
            self.help("write `*` to multiply");
            return None;
        }
        let op = ReduceOp::from_name(&name);
        let user = match &op {
            ReduceOp::User(n) => match self.globals.ops.get(&**n) {
                Some((o, _)) => Some((o.ty.clone(), o.commutative, o.associative)),
                None => {
                    let known = REDUCERS.into_iter().chain(self.globals.ops.keys().map(String::as_str));
                    let near = nearest(n, known);
                    self.error(codes::REDUCTION, format!("unknown reduction `{n}`"), at, "no such operator");
                    self.help(match near {
                        Some(x) => format!("did you mean `{x}`?"),
                        None => format!("there are {}, and those declared with `op`", REDUCERS.join(", ")),
                    });
                    return None;
                }
            },
            _ => None,
        };
        let arg = matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax);
        if arg && (scan || subs.len() != 1) {
            let message = format!("`{name}` finds one index");
            self.error(codes::REDUCTION, message, span, if scan { "a scan" } else { "not one index" });
            return None;
        }
        if let Some((_, commutative, associative)) = &user
            && (!associative || (!scan && subs.len() > 1 && !commutative))
        {
            let (what, mark) = if *associative {
                ("commutative", "several indices")
            } else {
                ("associative", "a reduction")
            };
            self.error(codes::REDUCTION, format!("`{name}` is not declared {what}"), at, mark);
            self.help(format!("if it is, say so: `op {name}(…) -> … {what} … = …`"));
            return None;
        }
        let [CallArg { name: None, value }] = args else {
            let message = format!("the reduction `{name}` takes one argument");
            self.error(codes::ARGUMENTS, message, span, "not one argument");
            return None;
        };
        let active = self.st.active.len();
        let mut indices = Vec::new();
        let mut along = None;
        if scan {
            along = Some(self.scanned(subs, span)?);
        } else {
            if subs.is_empty() {
                self.error(codes::REDUCTION, format!("`{name}` has no index"), base.span, "reduces nothing");
                return None;
            }
            for s in subs {
                indices.push(self.reduced_index(s)?);
            }
            for i in &indices {
                let name = self.st.indices[*i].binder.name.to_string();
                self.st.active.push((name, *i));
            }
        }
        let hint = match (&user, arg) {
            (Some((ty, ..)), _) => Some(ty),
            (None, true) => None,
            (None, false) => hint,
        };
        // The body is guarded on its own.
        let body = self.expr(value, hint);
        self.st.active.truncate(active);
        let body = body?;
        let ty = body.ty().clone();
        let ok = match (&op, &user) {
            (_, Some((want, ..))) if ty != *want => {
                self.error(
                    codes::MISMATCH,
                    format!("`{name}` combines values of `{want}`"),
                    value.span,
                    format!("is `{ty}`"),
                );
                return None;
            }
            (_, Some(_)) => true,
            (ReduceOp::All | ReduceOp::Any, _) => ty.is_bool(),
            (ReduceOp::Sum | ReduceOp::Prod, _) => ty.is_numeric(),
            _ => ty.is_int() || ty.is_float(),
        };
        if !ok {
            return self.operator(&name, ty, value.span);
        }
        let ty = if arg { Type::I64 } else { ty };
        let guards = self.st.guards.clone();
        self.st.reductions.push(Reduction { op, indices, scan: along, body, guards, ty: ty.clone(), span });
        Some(placeholder(self.st.reductions.len() - 1, ty))
    }

    fn reduced_index(&mut self, s: &Subscript) -> Option<usize> {
        let (ident, bounds) = match s {
            Subscript::Range(r) => (r.index.clone(), r.bounds.as_ref()),
            Subscript::Expr(ast::Expr { kind: K::Name(n), span, .. }) => {
                (Ident { text: n.clone(), span: *span }, None)
            }
            Subscript::Expr(e) => {
                self.error(codes::REDUCTION, "a reduction is over indices", e.span, "not a name");
                self.help("write `sum[k](…)` or `sum[k in a..b](…)`");
                return None;
            }
        };
        if self.active(&ident.text).is_some() || self.lookup(&ident.text).is_some() {
            let message = format!("`{}` already has a meaning here", ident.text);
            self.error(codes::REUSED, message, ident.span, "reduced here");
            self.help("choose another name for the index");
            return None;
        }
        let bounds = match bounds {
            Some((lo, hi)) => Some((self.index_expr(lo)?, self.index_expr(hi)?)),
            None => None,
        };
        let binder = self.fresh_var(&ident.text, Scalar::Index);
        self.st.indices.push(Index { binder, span: ident.span, bounds });
        Some(self.st.indices.len() - 1)
    }

    /// The index of a scan: one that is free.
    fn scanned(&mut self, subs: &[Subscript], span: Span) -> Option<usize> {
        let [Subscript::Expr(ast::Expr { kind: K::Name(n), span: at, .. })] = subs else {
            self.error(codes::SCAN, "a scan runs along one index", span, "not one index");
            self.help("write `scan(sum)[i](…)`; the range of `i` follows from the left side, or `where`");
            return None;
        };
        match self.active(n) {
            Some(i) => Some(i),
            None => {
                self.error(
                    codes::SCAN,
                    format!("the scanned index `{n}` is not on the left"),
                    *at,
                    "stays free",
                );
                self.help(format!(
                    "a scan gives one value for each `{n}`: write `S[{n}] = scan(sum)[{n}](…)`"
                ));
                None
            }
        }
    }
}

/// Stands for a reduction until it has a home.
pub fn placeholder(n: usize, ty: Type) -> Expr {
    Expr::new(ExprKind::Call(format!("{PLACEHOLDER}{n}").into(), Vec::new()), ty)
}

/// No name of the language contains it.
const PLACEHOLDER: &str = "$reduction";

/// The number of the reduction that an expression stands for.
pub fn as_placeholder(e: &Expr) -> Option<usize> {
    match e.kind() {
        ExprKind::Call(name, _) => name.strip_prefix(PLACEHOLDER)?.parse().ok(),
        _ => None,
    }
}
