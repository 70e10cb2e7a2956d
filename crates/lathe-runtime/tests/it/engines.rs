//! Operators and math functions of every type in the C engine against the interpreter, bit for bit.

use crate::support::agree_with;
use lathe_ir::Scalar;
use lathe_runtime::Engine;

/// Expressions of `Sa[i]`, `Sb[N - 1 - i]` and so on, each into arrays of its own: once in a serial
/// loop, once in whole vectors with a last one that has lanes masked off. The C engine alone, without
/// much optimization, to keep compilation short; the LLVM engine has such a test of its own.
fn elementwise_agrees(name: &str, ty: Scalar, exprs: &[(String, Scalar)]) {
    let each = |f: &dyn Fn(usize, &str, Scalar) -> String| -> String {
        exprs.iter().enumerate().map(|(i, (e, t))| f(i, e, *t)).collect()
    };
    let outs = each(&|i, _, t| format!(", o{i}: out {t}[N], v{i}: out {t}[N]"));
    let serial = each(&|i, e, _| format!("    'o{i}'[i]: o{i}[i] = {e}\n"));
    let vector = each(&|i, e, _| format!("    'v{i}'[i]: v{i}[i] = {e}\n"));
    let text = format!(
        "func {name}(N)(Sa: in {ty}[N], Sb: in {ty}[N], Sc: in {ty}[N]{outs}) stage scheduled {{\n  \
         for i in 0..N {{\n{serial}  }}\n  \
         for j in 0..(N + 15) // 16 {{\n  for i in 16 * j..min(16 * j + 16, N) vector(16) {{\n{vector}  }}\n  }}\n}}\n"
    );
    agree_with(&[Engine::C], &[false], 0, &text, &[&[39], &[1], &[0]]);
}

#[test]
fn float_operators() {
    for t in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16] {
        let (x, y, z) = ("Sa[i]", "Sb[N - 1 - i]", "Sc[i]");
        let mut e: Vec<(String, Scalar)> = Vec::new();
        for op in ["+", "-", "*", "/"] {
            e.push((format!("{x} {op} {y}"), t));
        }
        for op in ["<", "<=", "==", "!=", ">", ">="] {
            e.push((format!("select({x} {op} {y}, {x}, {z})"), t));
            e.push((format!("{x} {op} {y}"), Scalar::Bool));
        }
        for f in ["min", "max"] {
            e.push((format!("{f}({x}, {y})"), t));
        }
        for f in ["abs", "sqrt", "floor", "ceil", "round", "trunc"] {
            e.push((format!("{f}({x})"), t));
        }
        e.push((format!("fma({x}, {y}, {z})"), t));
        e.push((format!("-{x}"), t));
        elementwise_agrees(&format!("floats_{t}"), t, &e);
    }
}

#[test]
fn integer_operators() {
    use Scalar::{I8, I32, I64, Index, U16, U32, U64};
    for t in [I8, I32, I64, Index, U16, U32, U64] {
        // Subscript arithmetic must not overflow; its operands are small.
        let (x, y) = if t == Scalar::Index {
            ("shr(Sa[i], 40)", "shr(Sb[N - 1 - i], 40)")
        } else {
            ("Sa[i]", "Sb[N - 1 - i]")
        };
        let c = |v: i64| if t == Scalar::Index { format!("{v}") } else { format!("{v}:{t}") };
        let nonzero = format!("select({y} == {}, {}, {y})", c(0), c(3));
        let mut e: Vec<(String, Scalar)> = Vec::new();
        for op in ["+", "-", "*"] {
            e.push((format!("{x} {op} {y}"), t));
        }
        for op in ["//", "%"] {
            e.push((format!("{x} {op} {nonzero}"), t));
            e.push((format!("{x} {op} {}", c(8)), t));
            e.push((format!("{x} {op} {}", c(7)), t));
        }
        for f in ["tdiv", "trem"] {
            e.push((format!("{f}({x}, {nonzero})"), t));
        }
        for f in ["min", "max", "xor"] {
            e.push((format!("{f}({x}, {y})"), t));
        }
        e.push((format!("{x} and {y}"), t));
        e.push((format!("{x} or {y}"), t));
        if t != Scalar::Index {
            e.push((format!("shl({x}, {y})"), t));
            e.push((format!("shl({x}, {})", c(3)), t));
        }
        e.push((format!("shr({x}, {y})"), t));
        e.push((format!("shr({x}, {})", c(2)), t));
        for op in ["<", "<=", "==", "!=", ">", ">="] {
            e.push((format!("{x} {op} {y}"), Scalar::Bool));
        }
        e.push((format!("not({x})"), t));
        if t.is_signed() {
            e.push((format!("-{x}"), t));
            e.push((format!("abs({x})"), t));
        }
        elementwise_agrees(&format!("ints_{t}"), t, &e);
    }
}

#[test]
fn conversions() {
    for from in Scalar::ALL {
        let e: Vec<(String, Scalar)> = Scalar::ALL
            .into_iter()
            .filter(|to| !(from == Scalar::U64 && *to == Scalar::Index) && *to != from)
            .map(|to| (format!("cast<{to}>(Sa[i])"), to))
            .chain(
                Scalar::ALL
                    .into_iter()
                    .filter(|to| to.bits() == from.bits() && *to != from)
                    .map(|to| (format!("bitcast<{to}>(Sa[i])"), to)),
            )
            .collect();
        elementwise_agrees(&format!("casts_{from}"), from, &e);
    }
}

#[test]
fn math_functions() {
    for t in [Scalar::F32, Scalar::F64] {
        let mut e: Vec<(String, Scalar)> =
            ["exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "sigmoid", "erf", "atan"]
                .iter()
                .map(|f| (format!("{f}(Sa[i])"), t))
                .collect();
        e.push(("pow(Sa[i], Sb[N - 1 - i])".into(), t));
        e.push(("atan2(Sa[i], Sb[N - 1 - i])".into(), t));
        elementwise_agrees(&format!("math_{t}"), t, &e);
    }
}
