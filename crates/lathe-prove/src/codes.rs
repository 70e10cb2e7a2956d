//! The diagnostics of operators.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// Parts of a reduction can be combined in any grouping only if the operator is associative, in any order
    /// only if it is commutative, too, and started from the identity only if that is neutral for what is
    /// combined. The declared laws are decided before the operator is used: over integers and `bool` for all
    /// values, over floats up to rounding. The message shows values that refute it.
    OPERATOR = Code("E1208"), "an operator that violates a law it declares",
        wrong: "op plus(a: i32, b: i32) -> i32 associative commutative identity(1) = a + b\n\
                kernel total(x: i32[N]) -> (t: i32) {\n    t = plus[i](x[i])\n}",
        right: "op plus(a: i32, b: i32) -> i32 associative commutative identity(0) = a + b\n\
                kernel total(x: i32[N]) -> (t: i32) {\n    t = plus[i](x[i])\n}";
}
