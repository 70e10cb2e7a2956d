//! Scalar arithmetic, casts and math functions.

use super::*;
use crate::device::language::Language;

/// The operator of C that has the name and, on operands of one type, the meaning; for scalars and for vectors.
pub(crate) fn symbol(op: BinOp) -> Option<&'static str> {
    use BinOp::*;
    Some(match op {
        Add => "+",
        Sub => "-",
        Mul => "*",
        Div => "/",
        And => "&",
        Or => "|",
        Xor => "^",
        Eq => "==",
        Ne => "!=",
        Lt => "<",
        Le => "<=",
        Gt => ">",
        Ge => ">=",
        FloorDiv | FloorMod | TruncDiv | TruncRem | Min | Max | Shl | Shr => return None,
    })
}

impl Emitter<'_> {
    /// `a op b` of two scalars; `divisor` is `b` where it is constant.
    pub(super) fn binary(
        &mut self,
        op: BinOp,
        s: Scalar,
        a: String,
        b: String,
        divisor: Option<i64>,
    ) -> Result<Val> {
        use BinOp::*;
        let ty = Type::Scalar(s);
        let c_op = match op {
            And | Or | Xor if s.is_float() => return Err(no_operator(op, s)),
            FloorDiv | FloorMod | TruncDiv | TruncRem => return self.divide(op, s, a, b, divisor),
            Min | Max if s.is_float() => {
                let cuda = self.device.is_some_and(|d| d.language == Language::Cuda);
                let f = self.helpers.float_extreme(op == Max, s, cuda);
                return Ok(Val::scalar(format!("{f}({}, {})", bare(&a), bare(&b))));
            }
            Min | Max => {
                let (a, b) = (self.named(Val::scalar(a), &ty)?.text, self.named(Val::scalar(b), &ty)?.text);
                let sign = if op == Max { ">" } else { "<" };
                return Ok(Val::scalar(format!("({a} {sign} {b} ? {a} : {b})")));
            }
            Shl | Shr => {
                if !s.is_int() {
                    return Err(no_operator(op, s));
                }
                let (t, m) = (memory_type(s), s.bits() - 1);
                let wide = if s.bits() == 64 { "uint64_t" } else { "uint32_t" };
                return Ok(Val::scalar(match op {
                    Shl => format!("({t})(({wide}){a} << ({b} & {m}))"),
                    _ => format!("({t})({a} >> ({b} & {m}))"),
                }));
            }
            _ => symbol(op).ok_or_else(|| no_operator(op, s))?,
        };
        let plain = if s == Scalar::Index && matches!(op, Add | Sub | Mul) {
            // Without parentheses that C's precedence makes needless.
            let left: &[&str] = if op == Mul { &["*"] } else { &["*", "+", "-"] };
            let right: &[&str] = if op == Mul { &[] } else { &["*"] };
            format!("({} {c_op} {})", operand(&a, left), operand(&b, right))
        } else {
            format!("({a} {c_op} {b})")
        };
        if op.is_comparison() || matches!(op, And | Or | Xor) {
            return Ok(Val::scalar(plain));
        }
        if op == Div && !s.is_float() || s == Scalar::Bool {
            return Err(no_operator(op, s));
        }
        Ok(Val::scalar(match s {
            Scalar::F32 | Scalar::F64 | Scalar::Index | Scalar::U32 | Scalar::U64 => plain,
            Scalar::U16 => format!("(uint16_t)((uint32_t){a} {c_op} (uint32_t){b})"),
            Scalar::I32 | Scalar::I64 => {
                let (t, u) = (memory_type(s), unsigned_type(s.bits()));
                format!("({t})(({u}){a} {c_op} ({u}){b})")
            }
            _ => format!("({})({a} {c_op} {b})", memory_type(s)),
        }))
    }

    pub(super) fn divide(
        &mut self,
        op: BinOp,
        s: Scalar,
        a: String,
        b: String,
        divisor: Option<i64>,
    ) -> Result<Val> {
        use BinOp::*;
        if !s.is_int() {
            return Err(no_operator(op, s));
        }
        let t = memory_type(s);
        let remainder = matches!(op, FloorMod | TruncRem);
        let floor = matches!(op, FloorDiv | FloorMod);
        let mut b = b;
        match divisor {
            Some(d) if d > 0 && (d as u64).is_power_of_two() && floor && s.bits() >= 32 => {
                return Ok(Val::scalar(match remainder {
                    true => format!("({a} & {})", d - 1),
                    false => format!("({a} >> {})", d.trailing_zeros()),
                }));
            }
            Some(0) | None => {
                b = self.named(Val::scalar(b), &s.into())?.text;
                self.leave_if(&format!("{b} == 0"), "LATHE_DIVISION_BY_ZERO")?;
                if self.device.is_some_and(|d| d.barriers) {
                    b = self.named(Val::scalar(format!("({b} == 0 ? 1 : {b})")), &s.into())?.text;
                }
            }
            Some(_) => {}
        }
        if !s.is_signed() {
            return Ok(Val::scalar(format!("({t})({a} {} {b})", if remainder { "%" } else { "/" })));
        }
        let f = if floor { self.helpers.floor(remainder, s) } else { self.helpers.truncated(remainder, s) };
        Ok(Val::scalar(format!("{f}({}, {})", bare(&a), bare(&b))))
    }

    /// Value conversion, as the tree defines it; of floats of 16 bits, those between `f16` and `f32`.
    pub fn cast(&mut self, from: Scalar, to: Scalar, v: &str) -> String {
        use Scalar::*;
        let t = memory_type(to);
        match (from, to) {
            _ if from == to => v.to_string(),
            (_, Bool) => format!("({v} != 0)"),
            (F32, F16) => format!("{}({})", self.helpers.narrowed_f16(), bare(v)),
            (F16, F32) => format!("{}({})", self.helpers.widened_f16(), bare(v)),
            _ if from.is_float() && !to.is_float() => {
                format!("{}({})", self.helpers.saturate(from, to), bare(v))
            }
            _ => format!("({t}){v}"),
        }
    }

    pub(super) fn bitcast(&mut self, from: Scalar, to: Scalar, v: &str) -> String {
        let float = |s| matches!(s, Scalar::F32 | Scalar::F64);
        match float(from) || float(to) {
            _ if from == to => v.to_string(),
            true => format!("{}({})", self.helpers.bits(from, to), bare(v)),
            false => format!("({}){v}", memory_type(to)),
        }
    }

    /// A function that is exact on every engine.
    pub(super) fn math(&mut self, f: MathFn, s: Scalar, args: Vec<Val>) -> Result<Val> {
        let text = |i: usize| args.get(i).map_or("0", |v| bare(&v.text));
        if !s.is_float() {
            let a = self.named(args[0].clone(), &s.into())?.text;
            let (t, u) = (memory_type(s), unsigned_type(s.bits()));
            return match f {
                MathFn::Abs if s.is_signed() => {
                    Ok(Val::scalar(format!("({t})({a} < 0 ? ({u})(0 - ({u}){a}) : ({u}){a})")))
                }
                MathFn::Abs if s.is_int() => Ok(Val::scalar(a)),
                _ => Err(ill_formed(format!("`{}` of {s}", f.name()))),
            };
        }
        let suffix = if s == Scalar::F64 { "" } else { "f" };
        let name = exact_name(f).ok_or_else(|| ill_formed(format!("`{}` is not exact", f.name())))?;
        let call = match f {
            MathFn::Fma => format!("__builtin_fma{suffix}({}, {}, {})", text(0), text(1), text(2)),
            _ => format!("__builtin_{name}{suffix}({})", text(0)),
        };
        Ok(Val::scalar(call))
    }
}
