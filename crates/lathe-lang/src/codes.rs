//! The diagnostics of the language: form (`E01xx`), names, types and ranges (`E02xx`).

use lathe_diagnostics::{Code, CodeInfo};

pub use lathe_strategy::codes::{KIND, PARAMETER};
pub use lathe_syntax::codes::{CHAIN, CHARACTER, EXPECTED, NESTING, NUMBER, STRING};

pub const DIRECTIVE: Code = Code("E0104");
pub const TERMS_ONLY: Code = Code("E0108");
pub const USE: Code = Code("E0111");
pub const UNKNOWN: Code = Code("E0201");
pub const DUPLICATE: Code = Code("E0202");
pub const UNKNOWN_TYPE: Code = Code("E0203");
pub const MISMATCH: Code = Code("E0204");
pub const INT_DIV: Code = Code("E0205");
pub const OPERATOR: Code = Code("E0206");
pub const LITERAL: Code = Code("E0207");
pub const ARGUMENTS: Code = Code("E0208");
pub const RANK: Code = Code("E0209");
pub const SIZE: Code = Code("E0210");
pub const EXTENT: Code = Code("E0211");
pub const ASSIGN: Code = Code("E0212");
pub const RIGHT_ONLY: Code = Code("E0213");
pub const RANGE: Code = Code("E0214");
pub const REDUCTION: Code = Code("E0215");
pub const REUSED: Code = Code("E0216");
pub const SCAN: Code = Code("E0217");
pub const FIELD: Code = Code("E0218");
pub const STEP: Code = Code("E0219");
pub const NOT_YET: Code = Code("E0220");
pub const OP: Code = Code("E0221");
pub const TARGET: Code = Code("E0222");
pub const TEST: Code = Code("E0223");
pub const SMALLER: Code = Code("E0224");
pub const UNWRITTEN: Code = Code("E0225");
pub const BREAK: Code = Code("E0226");

/// What `lathe --explain` shows. Every wrong program gives its code, every right one loads.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: CHARACTER,
        title: "unexpected character",
        explanation: "The text holds a character that no part of the language uses.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] & 1\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: NUMBER,
        title: "bad number",
        explanation: "Integers have up to 64 bits; floats have digits on both sides of the point or an exponent, and are finite. A name cannot begin with a digit.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * 12x\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * 12\n}\n",
    },
    CodeInfo {
        code: STRING,
        title: "unfinished string",
        explanation: "A string ends on the line on which it begins.",
        wrong: "use \"other",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: DIRECTIVE,
        title: "unknown test directive",
        explanation: "A comment that begins with `#:` is a directive of the file tests. Ordinary comments begin with `# `.",
        wrong: "#: expect nothing\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "# expect nothing\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: EXPECTED,
        title: "unexpected token",
        explanation: "The grammar wants something else at this place.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: NESTING,
        title: "nested too deeply",
        explanation: "Brackets nest at most 100 levels deep, and at most 400 operations are nested, so that everything that works on a program has a bounded stack. A struct or tuple has at most 1,024 numbers, 100 levels deep, and a kernel at most 500 parameters.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a[i]))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = ((a[i]))\n}\n",
    },
    CodeInfo {
        code: CHAIN,
        title: "chained comparison",
        explanation: "`a < b < c` is not a comparison of three values.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = select(0 < i < 5, a[i], 0)\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = select(0 < i and i < 5, a[i], 0)\n}\n",
    },
    CodeInfo {
        code: TERMS_ONLY,
        title: "`;;` outside of terms",
        explanation: "`s ;; t` normalizes functional terms between two steps. Kernels are trees: their steps are joined with `;`.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ;; unroll(i.i)\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ; unroll(i.i)\n",
    },
    CodeInfo {
        code: KIND,
        title: "a step and a number confused",
        explanation: "Arguments of steps are either steps or arithmetic; the two do not mix.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ; 3 + 4\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 3 + 4)\n",
    },
    CodeInfo {
        code: PARAMETER,
        title: "bad parameter of a strategy",
        explanation: "A parameter is `name: type = default in lo..=hi step s` or `… in {a, b}`; a range needs a default.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s(t in 1..=8) for k = split(i, t)\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s(t = 4 in 1..=8) for k = split(i, t)\n",
    },
    CodeInfo {
        code: USE,
        title: "a used file cannot be loaded",
        explanation: "`use \"file\"` names a file relative to the one that uses it.",
        wrong: "use \"missing.lathe\"\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: UNKNOWN,
        title: "unknown name",
        explanation: "The name stands for no parameter, size, loop, `let`, `var` or index that is visible here.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = c[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: DUPLICATE,
        title: "declared twice",
        explanation: "A name has one meaning at a time; labels, kernels, strategies for one target and structs are unique. A strategy has no name of a combinator, a step on loops, or what the strategies of the library are made of.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    let x = 1.0\n    let x = 2.0\n    b[i] = a[i] * x\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    let x = 1.0\n    let y = 2.0\n    b[i] = a[i] * x * y\n}\n",
    },
    CodeInfo {
        code: UNKNOWN_TYPE,
        title: "unknown type",
        explanation: "The types are `bool`, `i8` to `i64`, `u8` to `u64`, `index`, `f16`, `bf16`, `f32`, `f64`, tuples and structs.",
        wrong: "kernel k(a: float[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: MISMATCH,
        title: "types differ",
        explanation: "Nothing is converted implicitly, except integers that are subscripts or bounds.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * i\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * f32(i)\n}\n",
    },
    CodeInfo {
        code: INT_DIV,
        title: "`/` on integers",
        explanation: "`/` divides floats. On integers `//` rounds down and `%` is its remainder.",
        wrong: "kernel k(a: i32[N]) -> (b: i32[N]) {\n    b[i] = a[i] / 2\n}\n",
        right: "kernel k(a: i32[N]) -> (b: i32[N]) {\n    b[i] = a[i] // 2\n}\n",
    },
    CodeInfo {
        code: OPERATOR,
        title: "operator not defined for a type",
        explanation: "Arithmetic is for numbers, `and`, `or` and `not` for truth values, bits for integers.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] % 2\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] - 2 * floor(a[i] / 2)\n}\n",
    },
    CodeInfo {
        code: LITERAL,
        title: "a literal does not fit",
        explanation: "A literal takes the type of the other operand and must be a value of it.",
        wrong: "kernel k(a: u8[N]) -> (b: u8[N]) {\n    b[i] = a[i] + 300\n}\n",
        right: "kernel k(a: u8[N]) -> (b: u8[N]) {\n    b[i] = a[i] + 30\n}\n",
    },
    CodeInfo {
        code: ARGUMENTS,
        title: "wrong arguments",
        explanation: "The function takes another number of arguments, or the struct other fields.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = sqrt(a[i], 2)\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = sqrt(a[i])\n}\n",
    },
    CodeInfo {
        code: RANK,
        title: "wrong number of subscripts",
        explanation: "An element is named by one subscript per dimension; single values have none.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i, 0]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: SIZE,
        title: "a size that nothing determines",
        explanation: "Sizes are read from the shapes of the arguments: each is the whole extent of some array, or the only unknown of an extent that is linear in it, like `2 * N + 1`.",
        wrong: "kernel k(a: f32[N // 2]) -> (b: f32[4]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N + 1]) {\n    b[i] = select(i < N, a[i], 0)\n}\n",
    },
    CodeInfo {
        code: EXTENT,
        title: "bad extent",
        explanation: "Extents of parameters are made of sizes and constants, and are not negative.",
        wrong: "kernel k(n: index) -> (b: f32[n]) {\n    b[i] = 0\n}\n",
        right: "kernel k(x: f32) -> (b: f32[N]) {\n    b[i] = x\n}\n",
    },
    CodeInfo {
        code: ASSIGN,
        title: "this cannot be assigned to",
        explanation: "Inputs, sizes, loops' variables and `let`s do not change; `inout` parameters, outputs and `var`s do.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    a[i] = 0\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: inout f32[N]) {\n    a[i] = 0\n}\n",
    },
    CodeInfo {
        code: RIGHT_ONLY,
        title: "an index that is only on the right of `=`",
        explanation: "An index that the left side does not mention must be reduced by name; `op=` reduces it by itself.",
        wrong: "kernel k(a: f32[N, M]) -> (b: f32[N]) {\n    b[i] = a[i, j]\n}\n",
        right: "kernel k(a: f32[N, M]) -> (b: f32[N]) {\n    b[i] = sum[j](a[i, j])\n}\n",
    },
    CodeInfo {
        code: RANGE,
        title: "an index without a range",
        explanation: "Ranges are inferred from subscripts that determine an index; where none does, say the range.",
        wrong: "kernel k(a: f32[N], x: f32) -> (s: f32) {\n    s = sum[i, j](a[i + j])\n}\n",
        right: "kernel k(a: f32[N], x: f32) -> (s: f32) {\n    s = sum[i, j in 0..3](a[i + j])\n}\n",
    },
    CodeInfo {
        code: REDUCTION,
        title: "bad reduction",
        explanation: "A reduction is an operator with its indices and one argument: `sum[k](…)`. Operators are built in or declared with `op`; several indices need a commutative one.",
        wrong: "kernel k(a: f32[N]) -> (s: f32) {\n    s = total[i](a[i])\n}\n",
        right: "kernel k(a: f32[N]) -> (s: f32) {\n    s = sum[i](a[i])\n}\n",
    },
    CodeInfo {
        code: REUSED,
        title: "an index with another meaning",
        explanation: "The index of a reduction or of `where` is a new name: it can be no loop, size, parameter or index around it.",
        wrong: "kernel k(a: f32[N, N]) -> (b: f32[N]) {\n    b[i] = sum[i](a[i, i])\n}\n",
        right: "kernel k(a: f32[N, N]) -> (b: f32[N]) {\n    b[i] = sum[j](a[i, j])\n}\n",
    },
    CodeInfo {
        code: SCAN,
        title: "bad scan",
        explanation: "`scan(op)[i](e)` combines `e` over all values of the free index up to `i`.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = scan(sum)[j](a[j])\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = scan(sum)[i](a[i])\n}\n",
    },
    CodeInfo {
        code: FIELD,
        title: "no such component",
        explanation: "The struct has no field of that name, or the tuple too few components.",
        wrong: "struct P { v: f32, i: i64 }\nkernel k(a: P[N]) -> (b: f32[N]) {\n    b[i] = a[i].w\n}\n",
        right: "struct P { v: f32, i: i64 }\nkernel k(a: P[N]) -> (b: f32[N]) {\n    b[i] = a[i].v\n}\n",
    },
    CodeInfo {
        code: STEP,
        title: "bad step of a loop",
        explanation: "Loops count up by a positive constant.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    for x in 0..N step -1 { b[x] = a[x] }\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    for x in 0..N step 1 { b[x] = a[x] }\n}\n",
    },
    CodeInfo {
        code: NOT_YET,
        title: "not available yet",
        explanation: "The notation is part of the language, but this version does not take it. Expressions of kernels call funs that take scalars and give an expression of them.",
        wrong: "fun total(xs: f32[N]) -> f32 = xs |> reduce(|a, b| a + b, 0)\nkernel k(a: f32[N]) -> (b: f32) {\n    b = total(a)\n}\n",
        right: "fun twice(x: f32) -> f32 = x + x\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = twice(a[i])\n}\n",
    },
    CodeInfo {
        code: OP,
        title: "bad combine operator",
        explanation: "`op name(a: T, b: T) -> T associative commutative identity(e) = body` combines two values of one type and must be associative.",
        wrong: "op better(a: f32, b: f32) -> f32 = max(a, b)\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "op better(a: f32, b: f32) -> f32 associative commutative = max(a, b)\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: TARGET,
        title: "no such kernel",
        explanation: "The strategy or test is for a kernel that the file does not have.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for kernle = id\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = id\n",
    },
    CodeInfo {
        code: TEST,
        title: "bad test",
        explanation: "A test gives every size and every input of its kernel, and says what is expected.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\ntest \"t\" for k {\n    a = iota\n    expect b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\ntest \"t\" for k {\n    N = 3\n    a = iota\n    expect b[i] = a[i]\n}\n",
    },
    CodeInfo {
        code: SMALLER,
        title: "an index over the smaller of two extents",
        explanation: "The index subscripts two extents of which neither is known to be the smaller; it runs over both, that is over the smaller one. This is a warning.",
        wrong: "kernel k(a: f32[N], b: f32[M]) -> (s: f32) {\n    s = sum[i](a[i] * b[i])\n}\n",
        right: "kernel k(a: f32[N], b: f32[N]) -> (s: f32) {\n    s = sum[i](a[i] * b[i])\n}\n",
    },
    CodeInfo {
        code: UNWRITTEN,
        title: "an output is never written",
        explanation: "Every cell of an output must be written; use `inout` for what is only partly changed.",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N], c: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N], c: f32[N]) {\n    b[i] = a[i]\n    c[i] = 0\n}\n",
    },
    CodeInfo {
        code: BREAK,
        title: "`break` outside of loops",
        explanation: "`break` ends the innermost `for` or `while` around it.",
        wrong: "kernel k(a: f32[N]) -> (b: f32) {\n    b = 0\n    break\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32) {\n    b = 0\n    for i in 0..N {\n        if a[i] > 0 {\n            b = a[i]\n            break\n        }\n    }\n}\n",
    },
];
