//! Constructors of expressions. They check types (a mismatch is a bug of the caller, not of a
//! user's program) and fold constants; `index` arithmetic is kept in a light normal form so that
//! bounds made by transformations stay readable. Floats are never folded except exactly.
//!
//! Folding keeps what an expression means, and that is also whether it has a value: an `index` operation that overflows
//! 64 bits and a division by zero stay where they are, so that evaluating them fails. What needs ranges to be seen
//! (`(n + 5) - 5` is `n` where `n + 5` has a value) is left to the simplifier.

use crate::expr::{Access, Expr, ExprKind, Status, scalar_of, walk_expr};
use crate::ids::{Binder, VarId};
use crate::ops::{BinOp, MathFn, UnOp};
use crate::types::{Scalar, Type};

pub fn int(ty: Scalar, v: i64) -> Expr {
    debug_assert!(ty.is_int());
    Expr::new(ExprKind::Int(wrap(ty, v)), ty.into())
}

pub fn index(v: i64) -> Expr {
    int(Scalar::Index, v)
}

pub fn boolean(v: bool) -> Expr {
    Expr::new(ExprKind::Bool(v), Type::BOOL)
}

/// A float constant, rounded to the type.
pub fn float(ty: Scalar, v: f64) -> Expr {
    debug_assert!(ty.is_float());
    let v = match ty {
        Scalar::F32 => f64::from(v as f32),
        Scalar::F16 => half::f16::from_f64(v).to_f64(),
        Scalar::Bf16 => half::bf16::from_f64(v).to_f64(),
        _ => v,
    };
    Expr::new(ExprKind::Float(v.into()), ty.into())
}

pub fn var(b: &Binder) -> Expr {
    Expr::new(ExprKind::Var(b.id), b.ty.into())
}

pub fn var_id(id: VarId, ty: Scalar) -> Expr {
    Expr::new(ExprKind::Var(id), ty.into())
}

/// The address of an element, in bytes.
pub fn address(a: Access) -> Expr {
    Expr::new(ExprKind::Address(a), Type::Scalar(Scalar::U64))
}

pub fn load(a: Access) -> Expr {
    let ty = a.elem.clone();
    Expr::new(ExprKind::Load(a), ty)
}

/// Reduces an integer to the range of its type (identity for `i64`, `u64`, `index`).
pub fn wrap(ty: Scalar, v: i64) -> i64 {
    match ty {
        Scalar::I8 => i64::from(v as i8),
        Scalar::I16 => i64::from(v as i16),
        Scalar::I32 => i64::from(v as i32),
        Scalar::U8 => i64::from(v as u8),
        Scalar::U16 => i64::from(v as u16),
        Scalar::U32 => i64::from(v as u32),
        _ => v,
    }
}

pub fn unary(op: UnOp, a: Expr) -> Expr {
    let s = scalar_of(&a);
    match (op, a.kind()) {
        (UnOp::Neg, ExprKind::Int(v)) if s != Scalar::Index || *v != i64::MIN => {
            return int(s, v.wrapping_neg());
        }
        (UnOp::Not, ExprKind::Bool(v)) => return boolean(!v),
        (UnOp::Not, ExprKind::Unary(UnOp::Not, inner)) => return inner.clone(),
        _ => {}
    }
    let ty = a.ty().clone();
    Expr::new(ExprKind::Unary(op, a), ty)
}

pub fn not(a: Expr) -> Expr {
    unary(UnOp::Not, a)
}

pub fn neg(a: Expr) -> Expr {
    unary(UnOp::Neg, a)
}

/// Folds an integer operation; `None` where it has no value: a division by zero, an `index` beyond 64 bits.
pub fn fold_int(op: BinOp, s: Scalar, a: i64, b: i64) -> Option<i64> {
    use BinOp::*;
    let unsigned = !s.is_signed();
    let exact = s == Scalar::Index;
    let (ua, ub) = (a as u64, b as u64);
    let v = match op {
        Add if exact => a.checked_add(b)?,
        Sub if exact => a.checked_sub(b)?,
        Mul if exact => a.checked_mul(b)?,
        FloorDiv | TruncDiv if exact && a == i64::MIN && b == -1 => return None,
        Shl if exact && (a << (ub % 64)) >> (ub % 64) != a => return None,
        Add => a.wrapping_add(b),
        Sub => a.wrapping_sub(b),
        Mul => a.wrapping_mul(b),
        FloorDiv | TruncDiv if unsigned => ua.checked_div(ub)? as i64,
        FloorMod | TruncRem if unsigned => ua.checked_rem(ub)? as i64,
        FloorDiv | FloorMod => {
            if b == 0 {
                return None;
            }
            let (q, r) = (a.wrapping_div(b), a.wrapping_rem(b));
            let adjust = r != 0 && ((r < 0) != (b < 0));
            match op {
                FloorDiv => q - i64::from(adjust),
                _ => r + if adjust { b } else { 0 },
            }
        }
        TruncDiv if b != 0 => a.wrapping_div(b),
        TruncRem if b != 0 => a.wrapping_rem(b),
        Min if unsigned => ua.min(ub) as i64,
        Max if unsigned => ua.max(ub) as i64,
        Min => a.min(b),
        Max => a.max(b),
        And => a & b,
        Or => a | b,
        Xor => a ^ b,
        Shl => a.wrapping_shl((b as u32) % s.bits()),
        Shr if unsigned => (ua >> (ub % u64::from(s.bits()))) as i64,
        Shr => a >> (ub % u64::from(s.bits())),
        _ => return None,
    };
    Some(wrap(s, v))
}

/// Compares two integers of a type.
pub fn fold_compare(op: BinOp, s: Scalar, a: i64, b: i64) -> Option<bool> {
    use BinOp::*;
    let o = if s.is_signed() { a.cmp(&b) } else { (a as u64).cmp(&(b as u64)) };
    Some(match op {
        Eq => o.is_eq(),
        Ne => o.is_ne(),
        Lt => o.is_lt(),
        Le => o.is_le(),
        Gt => o.is_gt(),
        Ge => o.is_ge(),
        _ => return None,
    })
}

/// # Panics
/// When the operand types differ: callers check users' programs before building.
pub fn binary(op: BinOp, a: Expr, b: Expr) -> Expr {
    assert_eq!(a.ty(), b.ty(), "operands of {op:?}: {a:?} and {b:?}");
    let s = scalar_of(&a);
    if let (Some(x), Some(y)) = (a.as_int(), b.as_int()) {
        if op.is_comparison() {
            if let Some(v) = fold_compare(op, s, x, y) {
                return boolean(v);
            }
        } else if let Some(v) = fold_int(op, s, x, y) {
            return int(s, v);
        }
    }
    if let (Some(x), Some(y)) = (a.as_bool(), b.as_bool()) {
        match op {
            BinOp::And => return boolean(x && y),
            BinOp::Or => return boolean(x || y),
            BinOp::Xor | BinOp::Ne => return boolean(x != y),
            BinOp::Eq => return boolean(x == y),
            _ => {}
        }
    }
    if s == Scalar::Bool {
        match (op, a.as_bool(), b.as_bool()) {
            (BinOp::And, Some(true), _) | (BinOp::Or, Some(false), _) => return b,
            (BinOp::And, _, Some(true)) | (BinOp::Or, _, Some(false)) => return a,
            (BinOp::And, Some(false), _) | (BinOp::Or, Some(true), _) if !can_fail(&b) => return a,
            (BinOp::And, _, Some(false)) | (BinOp::Or, _, Some(true)) if !can_fail(&a) => return b,
            _ => {}
        }
    }
    if s.is_int()
        && let Some(e) = fold_identity(op, s, &a, &b)
    {
        return e;
    }
    let ty = if op.is_comparison() { Type::BOOL } else { a.ty().clone() };
    Expr::new(ExprKind::Binary(op, a, b), ty)
}

/// Whether evaluating an expression may fail, as far as the expression alone shows: an `index` operation that may overflow
/// 64 bits, a division by what may be 0, an access that is not known to be in bounds, a call. Such an expression may not
/// disappear, nor be evaluated where it was not. Where ranges are known, `lathe_poly::Ranges::fits` says more.
pub fn can_fail(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| found |= !found && may_fail(x));
    found
}

/// Whether evaluating it may divide an integer by zero, in code where everything else that may fail is known not to.
pub fn divides(e: &Expr) -> bool {
    let mut found = false;
    walk_expr(e, &mut |x| {
        found |= match x.kind() {
            ExprKind::Binary(op, _, d) => op.is_division() && d.as_int().is_none_or(|d| d == 0),
            ExprKind::Call(..) => true,
            _ => false,
        }
    });
    found
}

/// Whether the operation of a node may fail, for operands that have values.
fn may_fail(e: &Expr) -> bool {
    use BinOp::*;
    let exact = e.ty().is_index();
    match e.kind() {
        ExprKind::Binary(op, _, d) if op.is_division() => match d.as_int() {
            None | Some(0) => true,
            Some(d) => exact && d == -1 && matches!(op, FloorDiv | TruncDiv),
        },
        ExprKind::Binary(Add | Sub | Mul | Shl, ..) | ExprKind::Unary(UnOp::Neg, _) => exact,
        ExprKind::Math(MathFn::Abs, _) => exact,
        ExprKind::Cast(a) => exact && a.ty().scalar() == Some(Scalar::U64),
        ExprKind::Load(a) | ExprKind::Address(a) => a.status == Status::Unproved,
        ExprKind::Call(..) => true,
        _ => false,
    }
}

/// Identities that hold for every integer type (wrapping arithmetic is a ring, and `index` is part of the integers).
fn fold_identity(op: BinOp, s: Scalar, a: &Expr, b: &Expr) -> Option<Expr> {
    use BinOp::*;
    let (ca, cb) = (a.as_int(), b.as_int());
    // An operand that disappears must have had a value.
    let gone = |e: &Expr| !can_fail(e);
    match op {
        Add if ca == Some(0) => return Some(b.clone()),
        Add | Sub if cb == Some(0) => return Some(a.clone()),
        Sub if a == b && gone(a) => return Some(int(s, 0)),
        Mul if ca == Some(1) => return Some(b.clone()),
        Mul if cb == Some(1) => return Some(a.clone()),
        Mul if ca == Some(0) && gone(b) || cb == Some(0) && gone(a) => return Some(int(s, 0)),
        FloorDiv | TruncDiv if cb == Some(1) => return Some(a.clone()),
        FloorMod | TruncRem if cb == Some(1) && gone(a) => return Some(int(s, 0)),
        Min | Max if a == b => return Some(a.clone()),
        Eq | Le | Ge if a == b && gone(a) => return Some(boolean(true)),
        Ne | Lt | Gt if a == b && gone(a) => return Some(boolean(false)),
        // Constants go right, so that chains of additions fold.
        Add | Mul if ca.is_some() && cb.is_none() => return Some(binary(op, b.clone(), a.clone())),
        Sub => {
            if let Some(c) = cb.filter(|c| s != Scalar::Index || *c != i64::MIN) {
                return Some(binary(Add, a.clone(), int(s, c.wrapping_neg())));
            }
        }
        _ => {}
    }
    match (op, a.kind(), cb) {
        (Add, ExprKind::Binary(Add, x, y), Some(c)) => {
            let d = y.as_int()?;
            // Constants of one sign: the first sum lies between the operand and the whole.
            let sum = if s != Scalar::Index {
                d.wrapping_add(c)
            } else if (d < 0) == (c < 0) {
                d.checked_add(c)?
            } else {
                return None;
            };
            Some(binary(Add, x.clone(), int(s, sum)))
        }
        (Mul, ExprKind::Binary(Mul, x, y), Some(c)) => {
            let d = y.as_int()?;
            // Beyond 64 bits stays beyond them, but for -(-2^63).
            let product = if s != Scalar::Index {
                d.wrapping_mul(c)
            } else if c != -1 {
                d.checked_mul(c)?
            } else {
                return None;
            };
            Some(binary(Mul, x.clone(), int(s, product)))
        }
        _ => None,
    }
}

pub fn add(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Add, a, b)
}

pub fn sub(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Sub, a, b)
}

pub fn mul(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Mul, a, b)
}

pub fn min(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Min, a, b)
}

pub fn max(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Max, a, b)
}

pub fn floor_div(a: Expr, b: Expr) -> Expr {
    binary(BinOp::FloorDiv, a, b)
}

pub fn floor_mod(a: Expr, b: Expr) -> Expr {
    binary(BinOp::FloorMod, a, b)
}

/// `ceil(a / c)` of an `index` for a positive constant.
pub fn ceil_div(a: Expr, c: i64) -> Expr {
    floor_div(add(a, index(c - 1)), index(c))
}

pub fn lt(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Lt, a, b)
}

pub fn le(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Le, a, b)
}

pub fn eq(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Eq, a, b)
}

pub fn and(a: Expr, b: Expr) -> Expr {
    binary(BinOp::And, a, b)
}

pub fn or(a: Expr, b: Expr) -> Expr {
    binary(BinOp::Or, a, b)
}

pub fn select(c: Expr, a: Expr, b: Expr) -> Expr {
    assert_eq!(a.ty(), b.ty(), "branches of select");
    match c.as_bool() {
        Some(true) => a,
        Some(false) => b,
        None => {
            let ty = a.ty().clone();
            Expr::new(ExprKind::Select(c, a, b), ty)
        }
    }
}

/// Value conversion; integer constants and conversions to the same type fold.
pub fn cast(ty: Type, a: Expr) -> Expr {
    if *a.ty() == ty {
        return a;
    }
    if let (Some(v), Some(s), Some(from)) = (a.as_int(), ty.scalar(), a.ty().scalar()) {
        if s.is_int() && !(s == Scalar::Index && from == Scalar::U64 && v < 0) {
            return int(s, v);
        }
        if s.is_float() && from != Scalar::U64 && v.unsigned_abs() < (1 << 11) {
            return float(s, v as f64);
        }
    }
    Expr::new(ExprKind::Cast(a), ty)
}

/// # Panics
/// When the number or types of the arguments do not fit.
pub fn math(f: MathFn, args: Vec<Expr>) -> Expr {
    assert_eq!(args.len(), f.arity(), "arguments of {}", f.name());
    assert!(args.iter().all(|a| a.ty() == args[0].ty()), "arguments of {}", f.name());
    let ty = args[0].ty().clone();
    Expr::new(ExprKind::Math(f, args), ty)
}

pub fn aggregate(ty: Type, parts: Vec<Expr>) -> Expr {
    debug_assert_eq!(ty.fields().len(), parts.len());
    Expr::new(ExprKind::Aggregate(parts), ty)
}

/// Component `i`; of an aggregate just built, the component itself, where no other one may divide by zero.
pub fn field(a: Expr, i: u32) -> Expr {
    if let ExprKind::Aggregate(parts) = a.kind()
        && parts.iter().enumerate().all(|(k, p)| k == i as usize || !divides(p))
    {
        return parts[i as usize].clone();
    }
    let ty = a.ty().fields()[i as usize].clone();
    Expr::new(ExprKind::Field(a, i), ty)
}

impl Expr {
    /// Rebuilds the node with other children (same number and order as [`Expr::children`]), folding
    /// again where the constructors fold.
    pub fn with_children(&self, new: Vec<Expr>) -> Expr {
        let mut it = new.into_iter();
        let mut next = || it.next().expect("as many children as before");
        match self.kind() {
            ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Var(_) => self.clone(),
            ExprKind::Unary(op, _) => unary(*op, next()),
            ExprKind::Cast(_) => cast(self.ty().clone(), next()),
            ExprKind::Bitcast(_) => Expr::new(ExprKind::Bitcast(next()), self.ty().clone()),
            ExprKind::Field(_, i) => field(next(), *i),
            ExprKind::Binary(op, ..) => {
                let (a, b) = (next(), next());
                binary(*op, a, b)
            }
            ExprKind::Select(..) => {
                let (c, a, b) = (next(), next(), next());
                select(c, a, b)
            }
            ExprKind::Math(f, es) => {
                let n = es.len();
                Expr::new(ExprKind::Math(*f, (0..n).map(|_| next()).collect()), self.ty().clone())
            }
            ExprKind::Aggregate(es) => {
                let n = es.len();
                Expr::new(ExprKind::Aggregate((0..n).map(|_| next()).collect()), self.ty().clone())
            }
            ExprKind::Call(f, es) => {
                let n = es.len();
                Expr::new(ExprKind::Call(f.clone(), (0..n).map(|_| next()).collect()), self.ty().clone())
            }
            ExprKind::Load(a) => load(a.map_exprs(&mut |_| next())),
            ExprKind::Address(a) => address(a.map_exprs(&mut |_| next())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floor_division_rounds_down() {
        for (a, b, q, r) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1)] {
            assert_eq!(fold_int(BinOp::FloorDiv, Scalar::Index, a, b), Some(q));
            assert_eq!(fold_int(BinOp::FloorMod, Scalar::Index, a, b), Some(r));
        }
        assert_eq!(fold_int(BinOp::FloorDiv, Scalar::I64, 1, 0), None);
    }

    #[test]
    fn index_sums_fold_to_one_constant() {
        let x = var_id(VarId(0), Scalar::Index);
        let e = add(add(index(3), x.clone()), index(4));
        assert_eq!(e, add(x.clone(), index(7)));
        assert_eq!(sub(sub(x.clone(), index(3)), index(4)), sub(x, index(7)));
        assert_eq!(int(Scalar::U8, 260).as_int(), Some(4));
    }

    #[test]
    fn folding_keeps_failures_of_index_arithmetic() {
        let x = var_id(VarId(0), Scalar::Index);
        let most = index(i64::MAX);
        let stays =
            |e: Expr| assert!(matches!(e.kind(), ExprKind::Binary(..) | ExprKind::Unary(..)), "{e:?}");
        stays(add(most.clone(), index(1)));
        stays(mul(index(1 << 62), index(2)));
        stays(neg(index(i64::MIN)));
        stays(floor_div(index(i64::MIN), index(-1)));
        // `x + 5` may fail where `x` does not.
        let more = add(x.clone(), index(5));
        stays(sub(more.clone(), index(5)));
        stays(sub(more.clone(), more.clone()));
        stays(mul(more.clone(), index(0)));
        stays(le(more.clone(), more));
        stays(mul(mul(x.clone(), index(1 << 62)), index(4)));
        assert_eq!(sub(x.clone(), x.clone()), index(0));
        // A division by what may be 0, of any type and anywhere inside.
        stays(floor_mod(index(0), x.clone()));
        let m = var_id(VarId(2), Scalar::I32);
        let quotient = floor_div(m.clone(), m.clone());
        stays(mul(quotient.clone(), int(Scalar::I32, 0)));
        stays(sub(quotient.clone(), quotient.clone()));
        let third = floor_div(m, int(Scalar::I32, 3));
        assert_eq!(sub(third.clone(), third), int(Scalar::I32, 0));
        let fails = lt(quotient, int(Scalar::I32, 3));
        stays(and(boolean(false), fails.clone()));
        stays(or(fails, boolean(true)));
        let n = var_id(VarId(1), Scalar::I64);
        assert_eq!(sub(add(n.clone(), int(Scalar::I64, 5)), int(Scalar::I64, 5)), n);
    }
}
