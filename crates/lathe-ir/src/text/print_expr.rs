//! Printing expressions, accesses and views.

use super::print::Printer;
use super::scope::{Scope, name_text, type_text};
use super::share;
use crate::expr::{Access, Expr, ExprKind, F64Bits, Status, View};
use crate::ops::{BinOp, UnOp};
use crate::types::{Scalar, Type};
use std::fmt::Write;

/// An expression for a message, with the names of a scope (see [`Scope::of_function`]).
pub fn print_expr(e: &Expr, scope: &Scope) -> String {
    let mut p = Printer::over(scope.clone());
    p.expr(e, 0);
    p.out
}

/// An access for a message: `A[i, k]`, without its status.
pub fn print_access(a: &Access, scope: &Scope) -> String {
    let mut p = Printer::over(scope.clone());
    p.access(&Access { status: Status::Unproved, ..a.clone() });
    p.out
}

/// Binding strength of infix operators; `None` for those written as calls.
pub(crate) fn strength(op: BinOp) -> Option<u8> {
    use BinOp::*;
    Some(match op {
        Or => 1,
        And => 2,
        Eq | Ne | Lt | Le | Gt | Ge => 3,
        Add | Sub => 4,
        Mul | Div | FloorDiv | FloorMod => 5,
        _ => return None,
    })
}

const UNARY: u8 = 6;
const POSTFIX: u8 = 7;

impl Printer {
    /// Prints an expression that stands where operators weaker than `level` need parentheses.
    pub(crate) fn expr(&mut self, e: &Expr, level: u8) {
        if let Some(n) = self.shared.get(&e.address()) {
            let _ = write!(self.out, "${n}");
            return;
        }
        self.expr_itself(e, level);
    }

    /// Prints an expression, even one that has a `$` name.
    fn expr_itself(&mut self, e: &Expr, level: u8) {
        let ascribe = self.natural_type(e).as_ref() != Some(e.ty());
        let infix = match e.kind() {
            ExprKind::Binary(op, ..) => strength(*op),
            ExprKind::Unary(UnOp::Neg, _) => Some(UNARY),
            ExprKind::Field(..) => Some(POSTFIX),
            _ => None,
        };
        let inner = infix.is_some_and(|s| ascribe || s < level);
        // A projection of an ascription would read the field's name as part of the type.
        let outer = ascribe && level > UNARY;
        if outer {
            self.out.push('(');
        }
        if inner {
            self.out.push('(');
        }
        self.node(e);
        if inner {
            self.out.push(')');
        }
        if ascribe {
            let _ = write!(self.out, ":{}", type_text(e.ty()));
        }
        if outer {
            self.out.push(')');
        }
    }

    fn node(&mut self, e: &Expr) {
        match e.kind() {
            ExprKind::Bool(v) => {
                let _ = write!(self.out, "{v}");
            }
            ExprKind::Int(v) => {
                let unsigned = e.ty().scalar() == Some(Scalar::U64);
                let text = if unsigned { (*v as u64).to_string() } else { v.to_string() };
                self.out.push_str(&text);
            }
            ExprKind::Float(v) => self.out.push_str(&float_text(*v, e.ty())),
            ExprKind::Var(v) => {
                let text = self.scope.var_text(*v);
                self.out.push_str(&text);
            }
            ExprKind::Unary(UnOp::Neg, a) => {
                self.out.push('-');
                let literal = matches!(a.kind(), ExprKind::Int(_) | ExprKind::Float(_));
                let negation = matches!(a.kind(), ExprKind::Unary(UnOp::Neg, _));
                if (literal || negation) && !self.shared.contains_key(&a.address()) {
                    self.out.push('(');
                    self.expr(a, 0);
                    self.out.push(')');
                } else {
                    self.expr(a, UNARY);
                }
            }
            ExprKind::Unary(UnOp::Not, a) => self.call("not", std::slice::from_ref(a)),
            ExprKind::Binary(op, a, b) => match strength(*op) {
                Some(s) => {
                    self.expr(a, if op.is_comparison() { s + 1 } else { s });
                    match (op, b.as_int().filter(|_| b.ty().is_index())) {
                        (BinOp::Add, Some(c @ ..=-1)) if c != i64::MIN => {
                            let _ = write!(self.out, " - {}", -c);
                        }
                        (BinOp::Sub, Some(c @ 1..)) => {
                            let _ = write!(self.out, " - ({c})");
                        }
                        _ => {
                            let _ = write!(self.out, " {} ", op.symbol());
                            self.expr(b, s + 1);
                        }
                    }
                }
                None => self.call(op.symbol(), &[a.clone(), b.clone()]),
            },
            ExprKind::Select(c, a, b) => self.call("select", &[c.clone(), a.clone(), b.clone()]),
            ExprKind::Cast(a) => match e.ty() {
                Type::Scalar(s) => self.call(s.name(), std::slice::from_ref(a)),
                t => self.call(&format!("cast<{}>", type_text(t)), std::slice::from_ref(a)),
            },
            ExprKind::Bitcast(a) => {
                self.call(&format!("bitcast<{}>", type_text(e.ty())), std::slice::from_ref(a));
            }
            ExprKind::Math(f, args) => self.call(f.name(), args),
            ExprKind::Call(f, args) => self.call(&format!("call {}", name_text(f)), args),
            ExprKind::Load(a) => self.access(a),
            ExprKind::Address(a) => {
                self.out.push_str("address(");
                self.access(a);
                self.out.push(')');
            }
            ExprKind::Aggregate(parts) => match e.ty() {
                Type::Scalar(_) | Type::Tuple(_) => {
                    self.out.push('(');
                    self.list(parts);
                    self.out.push_str(if parts.len() == 1 { ",)" } else { ")" });
                }
                t => self.call(&type_text(t), parts),
            },
            ExprKind::Field(a, i) => {
                let shared = self.shared.contains_key(&a.address());
                // A name after `x` would become part of it.
                let bare =
                    shared || !matches!(a.kind(), ExprKind::Var(_) | ExprKind::Int(_) | ExprKind::Float(_));
                if bare {
                    self.expr(a, POSTFIX);
                } else {
                    self.out.push('(');
                    self.expr(a, 0);
                    self.out.push(')');
                }
                let name = match a.ty() {
                    Type::Struct(s) => s.fields.get(*i as usize).map(|f| &f.0),
                    _ => None,
                };
                let _ = match name {
                    Some(n) => write!(self.out, ".{}", field_text(n)),
                    None => write!(self.out, ".{i}"),
                };
            }
        }
    }

    fn call(&mut self, name: &str, args: &[Expr]) {
        self.out.push_str(name);
        self.out.push('(');
        self.list(args);
        self.out.push(')');
    }

    pub(crate) fn list(&mut self, es: &[Expr]) {
        for (i, e) in es.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.expr(e, 0);
        }
    }

    pub(crate) fn access(&mut self, a: &Access) {
        let told = self.view_elem(&a.view).as_ref() == Some(&a.elem);
        match &a.view {
            // With its number, so that nobody takes it for a variable of another type.
            View::Buffer(b) if !told => {
                let name = self.scope.buf(*b).map_or(String::new(), |b| name_text(&b.0));
                let _ = write!(self.out, "{name}@{}", b.0);
            }
            v => self.view(v),
        }
        if !told {
            let _ = write!(self.out, ":{}", type_text(&a.elem));
        }
        self.out.push('[');
        self.list(&a.indices);
        self.out.push(']');
        match &a.status {
            Status::Unproved => {}
            Status::Proved => self.out.push('!'),
            Status::Checked => self.out.push('?'),
            Status::Assumed(who) => {
                let _ = write!(self.out, "~{}", lathe_syntax::quote(who, '"'));
            }
        }
    }

    pub(crate) fn view(&mut self, v: &View) {
        match v {
            View::Buffer(b) => {
                let text = self.scope.buf_text(*b);
                self.out.push_str(&text);
            }
            View::Slice { base, offsets, steps } => {
                self.out.push_str("slice(");
                self.view(base);
                self.out.push_str(", [");
                self.list(offsets);
                let steps: Vec<String> = steps.iter().map(i64::to_string).collect();
                let _ = write!(self.out, "], [{}])", steps.join(", "));
            }
            View::Reshape { base, extents } => {
                self.out.push_str("reshape(");
                self.view(base);
                self.out.push_str(", [");
                self.list(extents);
                self.out.push_str("])");
            }
            View::Reinterpret { base, elem, align } => {
                self.out.push_str("reinterpret(");
                self.view(base);
                let _ = write!(self.out, ", {}, {align})", type_text(elem));
            }
            View::Global(name) => {
                let _ = write!(self.out, "global({})", name_text(name));
            }
            View::Deref { pointer, class } => {
                self.out.push_str("deref(");
                self.expr(pointer, 0);
                let _ = write!(self.out, ", {})", name_text(class));
            }
        }
    }

    /// The element type that a view implies.
    fn view_elem(&self, v: &View) -> Option<Type> {
        match v {
            View::Buffer(b) => self.scope.buf(*b).map(|b| b.1.clone()),
            View::Slice { base, .. } | View::Reshape { base, .. } => self.view_elem(base),
            View::Reinterpret { elem, .. } => Some(elem.clone()),
            // Which module this is in is not known here.
            View::Deref { .. } | View::Global(_) => None,
        }
    }

    fn natural_type(&self, e: &Expr) -> Option<Type> {
        if let ExprKind::Var(v) = e.kind() {
            return self.scope.var(*v).map(|v| Type::Scalar(v.1));
        }
        natural_type(e.kind(), e.ty())
    }

    /// Chooses what to write once, writes it as `with … in` and a line break; the names hold until
    /// the next call.
    pub(crate) fn share(&mut self, roots: &[&Expr]) {
        self.shared.clear();
        let nodes = share::shared(roots);
        if nodes.is_empty() {
            return;
        }
        for (i, (e, addresses)) in nodes.iter().enumerate() {
            let _ = write!(self.out, "{}${} = ", if i == 0 { "with " } else { ", " }, i + 1);
            self.expr_itself(e, 0);
            self.shared.extend(addresses.iter().map(|a| (*a, i as u32 + 1)));
        }
        self.out.push_str(" in");
        self.line();
    }
}

/// The type that an expression has by its operands; `None` where the text must say it. `said` is what
/// a typed form (a cast, an aggregate of a struct) says by itself.
pub(crate) fn natural_type(kind: &ExprKind, said: &Type) -> Option<Type> {
    Some(match kind {
        ExprKind::Bool(_) => Type::BOOL,
        ExprKind::Int(_) => Type::INDEX,
        ExprKind::Float(_) | ExprKind::Var(_) | ExprKind::Call(..) => return None,
        ExprKind::Unary(_, a) => a.ty().clone(),
        ExprKind::Binary(op, ..) if op.is_comparison() => Type::BOOL,
        ExprKind::Binary(_, a, _) => a.ty().clone(),
        ExprKind::Select(_, a, _) => a.ty().clone(),
        ExprKind::Cast(_) | ExprKind::Bitcast(_) => said.clone(),
        ExprKind::Math(_, args) => args.first()?.ty().clone(),
        ExprKind::Load(a) => a.elem.clone(),
        ExprKind::Address(_) => Type::Scalar(Scalar::U64),
        ExprKind::Aggregate(parts) => match said {
            Type::Scalar(_) | Type::Tuple(_) => {
                Type::Tuple(parts.iter().map(|p| p.ty().clone()).collect::<Vec<_>>().into())
            }
            t => t.clone(),
        },
        ExprKind::Field(a, i) => a.ty().fields().get(*i as usize)?.clone(),
    })
}

/// Field names keep no dots: a dot projects again.
fn field_text(name: &str) -> String {
    if name.contains('.') { lathe_syntax::quote(name, '`') } else { name_text(name) }
}

/// The shortest text that reads back as the same bits.
fn float_text(bits: F64Bits, ty: &Type) -> String {
    let v = bits.get();
    if v.is_nan() {
        return if bits == F64Bits::from(f64::NAN) { "nan".into() } else { format!("nan(0x{:x})", bits.0) };
    }
    let narrow = v as f32;
    if *ty != Type::F64 && f64::from(narrow).to_bits() == bits.0 {
        return format!("{narrow:?}");
    }
    format!("{v:?}")
}
