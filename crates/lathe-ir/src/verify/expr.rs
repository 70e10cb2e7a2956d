//! What holds for expressions, accesses and views.

use super::Verifier;
use crate::buffer::Space;
use crate::build;
use crate::codes;
use crate::expr::{Access, Expr, ExprKind, View};
use crate::func::ParamKind;
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Scalar, Type};
use lathe_diagnostics::Code;

/// Whether an expression has no operands.
fn is_leaf(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_))
}

impl Verifier<'_> {
    /// Checks an expression, each shared node of a statement that has operands once.
    pub(super) fn expr(&mut self, e: &Expr) {
        if !is_leaf(e) && !self.seen.insert(e.address()) {
            return;
        }
        if let ExprKind::Address(a) = e.kind() {
            self.access(a, false);
            self.pointed_to(a);
            if *e.ty() != Type::Scalar(Scalar::U64) {
                self.operands(e, format!(" gives {}, but an address is u64", e.ty()));
            }
            return;
        }
        if let ExprKind::Load(a) = e.kind() {
            self.access(a, false);
            if a.elem != *e.ty() {
                self.operands(e, format!(" gives {}, but the element is of type {}", e.ty(), a.elem));
            }
            return;
        }
        for c in e.children() {
            self.expr(c);
        }
        match e.kind() {
            ExprKind::Var(v) => match self.vars.get(v) {
                None => self.wrong(
                    codes::VAR_NOT_IN_SCOPE,
                    ["the variable ".into(), e.into(), " is used where it is not in scope".into()],
                ),
                Some(var) if Type::Scalar(var.ty) != *e.ty() => {
                    let text = format!(" is of type {}, not {}", var.ty, e.ty());
                    self.operands(e, text);
                }
                Some(_) => {}
            },
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) => {
                if !constant_fits(e) {
                    let text = format!(" is not a constant of type {}", e.ty());
                    self.wrong(codes::BAD_CONSTANT, [e.into(), text.into()]);
                }
            }
            ExprKind::Call(name, args) => self.value_call(e, name, args),
            kind => {
                if let Err(why) = typed(kind, e.ty()) {
                    self.operands(e, format!(": {why}"));
                }
            }
        }
        if let ExprKind::Aggregate(_) = e.kind() {
            self.known_type(e.ty());
        }
    }

    /// What an address is taken of is in an alias class.
    fn pointed_to(&mut self, a: &Access) {
        let class = match (a.view.buffer(), a.view.global()) {
            (Some(b), _) => self.bufs.get(&b).is_none_or(|b| b.aliased),
            (_, Some(name)) => self.module.globals.get(name).is_none_or(|g| g.alias.is_some()),
            // Behind a pointer it is.
            (None, None) => true,
        };
        if !class {
            let text = "the address of an element without an alias class is taken";
            let help = "pointers may refer to parameters and globals with `alias CLASS`";
            self.wrong_help(codes::NO_CLASS, [text.into()], Some(help));
        }
    }

    fn operands(&mut self, e: &Expr, why: String) {
        self.wrong(codes::OPERAND_TYPES, [e.into(), why.into()]);
    }

    fn value_call(&mut self, e: &Expr, name: &str, args: &[Expr]) {
        let Some(f) = self.module.callee(name) else {
            let text = format!("`{name}` is called, but the module has no such function");
            return self.wrong(codes::UNKNOWN_FUNCTION, [text.into()]);
        };
        let formals: Option<Vec<Type>> = f
            .params
            .iter()
            .map(|p| match &p.kind {
                ParamKind::Scalar(b) => Some(b.ty.into()),
                ParamKind::Array(_) => None,
            })
            .collect();
        let result = f.result;
        let actual: Vec<Type> = args.iter().map(|a| a.ty().clone()).collect();
        if result != Some(e.ty()) || formals.as_ref() != Some(&actual) {
            let text = format!(" does not fit `{name}`, its scalar parameters and its result");
            self.wrong(codes::CALL_ARGUMENTS, [e.into(), text.into()]);
        }
    }

    /// An expression that must be an `index`.
    pub(super) fn index(&mut self, e: &Expr, code: Code, what: &str) {
        if !e.ty().is_index() {
            let text = format!(" is of type {}, not index", e.ty());
            self.wrong(code, [format!("{what} ").into(), e.into(), text.into()]);
        }
    }

    /// A condition.
    pub(super) fn condition(&mut self, e: &Expr) {
        self.expr(e);
        if !e.ty().is_bool() {
            let text = format!(" is of type {}, not bool", e.ty());
            self.wrong(codes::NOT_BOOL, ["the condition ".into(), e.into(), text.into()]);
        }
    }

    pub(super) fn access(&mut self, a: &Access, write: bool) {
        let outer = self.places.clone();
        if a.places.first().is_some() {
            self.places = a.places.clone();
        }
        if let Some((rank, elem)) = self.view(&a.view) {
            if a.indices.len() != rank {
                let text = format!("{} subscripts on a view with {rank} dimensions", a.indices.len());
                self.wrong(codes::SUBSCRIPT_COUNT, [text.into()]);
            }
            if elem.is_some_and(|t| t != a.elem) {
                let text = format!("an access of type {} to elements of another type", a.elem);
                self.wrong(codes::VALUE_TYPE, [text.into()]);
            }
        }
        for i in &a.indices {
            self.expr(i);
            self.index(i, codes::SUBSCRIPT_TYPE, "the subscript");
        }
        if write {
            self.writable(&a.view);
        }
        self.places = outer;
    }

    /// A view that is written is of no `in` parameter.
    pub(super) fn writable(&mut self, v: &View) {
        if let Some(name) = v.global()
            && self.module.globals.get(name).is_some_and(|g| g.space == Space::Constant)
        {
            let text = format!("the global `{name}` is written, but it is constant");
            return self.wrong(codes::INPUT_WRITTEN, [text.into()]);
        }
        let Some(b) = v.buffer().and_then(|b| self.bufs.get(&b)) else { return };
        if b.readonly {
            let text = format!("`{}` is written, but it is an `in` parameter", b.name);
            self.wrong_help(codes::INPUT_WRITTEN, [text.into()], Some("make it `out` or `inout`"));
        }
    }

    /// Rank and element type of a view; `None` if its buffer is not in scope. The target of a pointer
    /// has one dimension and the type that the access says.
    pub(super) fn view(&mut self, v: &View) -> Option<(usize, Option<Type>)> {
        match v {
            View::Buffer(id) => match self.bufs.get(id) {
                Some(b) => Some((b.rank, Some(b.elem.clone()))),
                None => {
                    let text = format!("the buffer @{} is used where it is not in scope", id.0);
                    self.wrong(codes::BUF_NOT_IN_SCOPE, [text.into()]);
                    None
                }
            },
            View::Slice { base, offsets, steps } => {
                let (rank, elem) = self.view(base)?;
                for o in offsets {
                    self.expr(o);
                    self.index(o, codes::BAD_VIEW, "the offset of a slice");
                }
                if offsets.len() != rank || steps.len() != rank {
                    let text = format!("a slice needs an offset and a step for each of {rank} dimensions");
                    self.wrong(codes::BAD_VIEW, [text.into()]);
                }
                Some((offsets.len(), elem))
            }
            View::Reshape { base, extents } => {
                let (rank, elem) = self.view(base)?;
                for e in extents {
                    self.expr(e);
                    self.index(e, codes::BAD_VIEW, "the extent of a reshaped view");
                }
                if rank != 1 {
                    let text = format!("a view with {rank} dimensions is reshaped; it must have one");
                    self.wrong(codes::BAD_VIEW, [text.into()]);
                }
                Some((extents.len(), elem))
            }
            View::Reinterpret { base, elem, align } => {
                let (rank, _) = self.view(base)?;
                self.known_type(elem);
                if !align.is_power_of_two() {
                    let text = format!("the alignment {align} is not a power of two");
                    self.wrong(codes::BAD_VIEW, [text.into()]);
                }
                Some((rank, Some(elem.clone())))
            }
            View::Global(name) => match self.module.globals.get(name) {
                Some(g) => Some((g.extents.len(), Some(g.elem.clone()))),
                None => {
                    let text = format!("the module has no global `{name}`");
                    self.wrong(codes::BUF_NOT_IN_SCOPE, [text.into()]);
                    None
                }
            },
            View::Deref { pointer, .. } => {
                self.expr(pointer);
                if !matches!(pointer.ty().scalar(), Some(Scalar::I64 | Scalar::U64)) {
                    let text = format!(" is of type {}, not i64 or u64", pointer.ty());
                    self.wrong(codes::BAD_VIEW, ["the pointer ".into(), (&**pointer).into(), text.into()]);
                }
                Some((1, None))
            }
        }
    }
}

/// Whether a constant is what its constructors make: of its type, and in range.
fn constant_fits(e: &Expr) -> bool {
    let Some(s) = e.ty().scalar() else { return false };
    match e.kind() {
        ExprKind::Bool(_) => s == Scalar::Bool,
        ExprKind::Int(v) => s.is_int() && build::wrap(s, *v) == *v,
        ExprKind::Float(v) => s.is_float() && (v.get().is_nan() || build::float(s, v.get()) == *e),
        _ => true,
    }
}

/// The typing rules of operations.
fn typed(kind: &ExprKind, ty: &Type) -> Result<(), String> {
    let scalar = |e: &Expr| e.ty().scalar().ok_or_else(|| format!("{} is not a scalar", e.ty()));
    let gives = |t: &Type| if t == ty { Ok(()) } else { Err(format!("it gives {t}, not {ty}")) };
    let same = |a: &Expr, b: &Expr| {
        if a.ty() == b.ty() { Ok(()) } else { Err(format!("operands of types {} and {}", a.ty(), b.ty())) }
    };
    let takes = |ok: bool, e: &Expr| if ok { Ok(()) } else { Err(format!("not defined on {}", e.ty())) };
    match kind {
        ExprKind::Unary(op, a) => {
            let s = scalar(a)?;
            takes(if *op == UnOp::Neg { s != Scalar::Bool } else { !s.is_float() }, a)?;
            gives(a.ty())
        }
        ExprKind::Binary(op, a, b) => {
            let s = scalar(a)?;
            same(a, b)?;
            use BinOp::*;
            let ok = match op {
                Add | Sub | Mul | Min | Max | Lt | Le | Gt | Ge => s != Scalar::Bool,
                Div => s.is_float(),
                FloorDiv | FloorMod | TruncDiv | TruncRem | Shl | Shr => s.is_int(),
                And | Or | Xor => !s.is_float(),
                Eq | Ne => true,
            };
            takes(ok, a)?;
            gives(if op.is_comparison() { &Type::BOOL } else { a.ty() })
        }
        ExprKind::Select(c, a, b) => {
            if !c.ty().is_bool() {
                return Err(format!("the condition is of type {}", c.ty()));
            }
            same(a, b)?;
            gives(a.ty())
        }
        ExprKind::Cast(a) => {
            scalar(a)?;
            ty.scalar().map(|_| ()).ok_or_else(|| format!("{ty} is not a scalar"))
        }
        ExprKind::Bitcast(a) => {
            let from = scalar(a)?;
            let to = ty.scalar().ok_or_else(|| format!("{ty} is not a scalar"))?;
            if from.bits() == to.bits() { Ok(()) } else { Err(format!("{from} and {to} differ in width")) }
        }
        ExprKind::Math(f, args) => {
            let [first, ..] = args.as_slice() else { return Err("no arguments".into()) };
            if args.len() != f.arity() {
                return Err(format!("{} takes {} arguments, not {}", f.name(), f.arity(), args.len()));
            }
            args.iter().try_for_each(|a| same(first, a))?;
            let s = scalar(first)?;
            takes(s.is_float() || (*f == MathFn::Abs && s.is_int() && s.is_signed()), first)?;
            gives(first.ty())
        }
        ExprKind::Aggregate(parts) => {
            let fields = ty.fields();
            if ty.scalar().is_none() && parts.iter().map(Expr::ty).eq(fields.iter()) {
                Ok(())
            } else {
                Err(format!("these are not the components of {ty}"))
            }
        }
        ExprKind::Field(a, i) => match a.ty().fields().get(*i as usize) {
            Some(t) => gives(t),
            None => Err(format!("{} has no component {i}", a.ty())),
        },
        _ => Ok(()),
    }
}
