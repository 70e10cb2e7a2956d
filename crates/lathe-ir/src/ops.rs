//! Operators and math functions: the one table of what scalar code may say.
//!
//! The meaning of each operator is stated here once; the interpreter, constant folding and both
//! engines follow it.

use lathe_syntax::Operator;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnOp {
    /// Negation; wraps on `iN`/`uN`.
    Neg,
    /// Logical not on `bool`, bitwise complement on integers.
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinOp {
    /// Wraps on `iN`/`uN`; exact on `index`; IEEE on floats. Likewise `Sub`, `Mul`.
    Add,
    Sub,
    Mul,
    /// IEEE division; floats only.
    Div,
    /// Division rounding to minus infinity; integers only. A zero divisor fails the run
    /// (`MIN // -1` wraps).
    FloorDiv,
    /// `a - b * (a // b)`; integers only, sign of the divisor.
    FloorMod,
    /// Division rounding to zero, as C; integers only.
    TruncDiv,
    /// Remainder of [`BinOp::TruncDiv`]; integers only.
    TruncRem,
    /// Smaller operand; on floats NaN if either is NaN (as numpy), and `-0 < +0`. Likewise `Max`.
    Min,
    Max,
    /// Logical on `bool`, bitwise on integers. Likewise `Or`, `Xor`.
    And,
    Or,
    Xor,
    /// Shifts: the amount is taken modulo the width. `Shr` is arithmetic on signed types.
    Shl,
    Shr,
    /// Comparisons give `bool`; floats compare as IEEE (`Ne` is true on NaN).
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinOp {
    pub fn is_comparison(self) -> bool {
        use BinOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    /// An integer division or its remainder: it fails for a divisor of 0.
    pub fn is_division(self) -> bool {
        use BinOp::*;
        matches!(self, FloorDiv | FloorMod | TruncDiv | TruncRem)
    }

    pub const ALL: [BinOp; 21] = {
        use BinOp::*;
        [
            Add, Sub, Mul, Div, FloorDiv, FloorMod, TruncDiv, TruncRem, Min, Max, And, Or, Xor, Shl, Shr, Eq,
            Ne, Lt, Le, Gt, Ge,
        ]
    };

    /// Name in the text form (prefix call notation for those without a symbol).
    pub fn symbol(self) -> &'static str {
        use BinOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            FloorDiv => "//",
            FloorMod => "%",
            TruncDiv => "tdiv",
            TruncRem => "trem",
            Min => "min",
            Max => "max",
            And => "and",
            Or => "or",
            Xor => "xor",
            Shl => "shl",
            Shr => "shr",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
        }
    }
}

impl From<Operator> for BinOp {
    fn from(op: Operator) -> BinOp {
        match op {
            Operator::Add => BinOp::Add,
            Operator::Sub => BinOp::Sub,
            Operator::Mul => BinOp::Mul,
            Operator::Div => BinOp::Div,
            Operator::FloorDiv => BinOp::FloorDiv,
            Operator::Mod => BinOp::FloorMod,
            Operator::Eq => BinOp::Eq,
            Operator::Ne => BinOp::Ne,
            Operator::Lt => BinOp::Lt,
            Operator::Le => BinOp::Le,
            Operator::Gt => BinOp::Gt,
            Operator::Ge => BinOp::Ge,
            Operator::And => BinOp::And,
            Operator::Or => BinOp::Or,
        }
    }
}

/// Math functions on floats (`Abs` also on signed integers). All results are of the argument type.
/// Those marked *exact* are correctly rounded by hardware; the others are defined by their expansion
/// in `math.rs`, so that every engine gives the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MathFn {
    /// exact
    Abs,
    /// exact
    Sqrt,
    /// exact: `a*b + c` with one rounding
    Fma,
    /// exact
    Floor,
    /// exact
    Ceil,
    /// exact: to nearest, ties to even
    Round,
    /// exact
    Trunc,
    Exp,
    Exp2,
    Log,
    Log2,
    Sin,
    Cos,
    Tan,
    Tanh,
    Sigmoid,
    Erf,
    Pow,
    Atan,
    Atan2,
    Expm1,
    Log1p,
    Log10,
    Sinh,
    Cosh,
    Asin,
    Acos,
    Asinh,
    Acosh,
    Atanh,
    Hypot,
}

impl MathFn {
    pub const ALL: [MathFn; 31] = {
        use MathFn::*;
        [
            Abs, Sqrt, Fma, Floor, Ceil, Round, Trunc, Exp, Exp2, Log, Log2, Sin, Cos, Tan, Tanh, Sigmoid,
            Erf, Pow, Atan, Atan2, Expm1, Log1p, Log10, Sinh, Cosh, Asin, Acos, Asinh, Acosh, Atanh, Hypot,
        ]
    };

    pub fn name(self) -> &'static str {
        use MathFn::*;
        match self {
            Abs => "abs",
            Sqrt => "sqrt",
            Fma => "fma",
            Floor => "floor",
            Ceil => "ceil",
            Round => "round",
            Trunc => "trunc",
            Exp => "exp",
            Exp2 => "exp2",
            Log => "log",
            Log2 => "log2",
            Sin => "sin",
            Cos => "cos",
            Tan => "tan",
            Tanh => "tanh",
            Sigmoid => "sigmoid",
            Erf => "erf",
            Pow => "pow",
            Atan => "atan",
            Atan2 => "atan2",
            Expm1 => "expm1",
            Log1p => "log1p",
            Log10 => "log10",
            Sinh => "sinh",
            Cosh => "cosh",
            Asin => "asin",
            Acos => "acos",
            Asinh => "asinh",
            Acosh => "acosh",
            Atanh => "atanh",
            Hypot => "hypot",
        }
    }

    pub fn from_name(name: &str) -> Option<MathFn> {
        MathFn::ALL.into_iter().find(|f| f.name() == name)
    }

    pub fn arity(self) -> usize {
        match self {
            MathFn::Fma => 3,
            MathFn::Pow | MathFn::Atan2 | MathFn::Hypot => 2,
            _ => 1,
        }
    }

    /// Computed by one correctly rounded operation on every engine; needs no expansion.
    pub fn is_exact(self) -> bool {
        use MathFn::*;
        matches!(self, Abs | Sqrt | Fma | Floor | Ceil | Round | Trunc)
    }
}

/// The operator of a reduction or scan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    Sum,
    Prod,
    /// NaN propagates, as in [`BinOp::Min`].
    Min,
    Max,
    /// Logical and on `bool`.
    All,
    /// Logical or on `bool`.
    Any,
    /// Two targets `(value, index)`: the smallest value, NaN smaller than all, the smaller index among equals.
    ArgMin,
    /// Two targets `(value, index)`: the largest value, NaN larger than all, the smaller index among equals.
    ArgMax,
    /// A combine operator of the module, by name.
    User(crate::types::Name),
}

impl ReduceOp {
    pub fn name(&self) -> &str {
        match self {
            ReduceOp::Sum => "sum",
            ReduceOp::Prod => "prod",
            ReduceOp::Min => "min",
            ReduceOp::Max => "max",
            ReduceOp::All => "all",
            ReduceOp::Any => "any",
            ReduceOp::ArgMin => "argmin",
            ReduceOp::ArgMax => "argmax",
            ReduceOp::User(n) => n,
        }
    }

    /// The operator of a name: built in, or else a user's.
    pub fn from_name(name: &str) -> ReduceOp {
        match name {
            "sum" => ReduceOp::Sum,
            "prod" => ReduceOp::Prod,
            "min" => ReduceOp::Min,
            "max" => ReduceOp::Max,
            "all" => ReduceOp::All,
            "any" => ReduceOp::Any,
            "argmin" => ReduceOp::ArgMin,
            "argmax" => ReduceOp::ArgMax,
            n => ReduceOp::User(n.into()),
        }
    }

    /// Number of targets that one reduction updates.
    pub fn targets(&self) -> usize {
        match self {
            ReduceOp::ArgMin | ReduceOp::ArgMax => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for ReduceOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
