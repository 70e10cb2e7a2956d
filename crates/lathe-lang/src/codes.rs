//! The diagnostics of the language: form (`E01xx`), names, types and ranges (`E02xx`).

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// The text holds a character that no part of the language uses.
    CHARACTER = lathe_syntax::codes::CHARACTER, "unexpected character",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] & 1\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// Integers have up to 64 bits; floats have digits on both sides of the point or an exponent, and are
    /// finite. A name cannot begin with a digit.
    NUMBER = lathe_syntax::codes::NUMBER, "bad number",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * 12x\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * 12\n}\n";

    /// A string ends on the line on which it begins.
    STRING = lathe_syntax::codes::STRING, "unfinished string",
        wrong: "use \"other",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// A comment that begins with `#:` is a directive of the file tests. Ordinary comments begin with `# `.
    DIRECTIVE = Code("E0104"), "unknown test directive",
        wrong: "#: expect nothing\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "# expect nothing\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// The grammar wants something else at this place.
    EXPECTED = lathe_syntax::codes::EXPECTED, "unexpected token",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// Brackets nest at most 100 levels deep, and at most 400 operations are nested, so that everything that
    /// works on a program has a bounded stack. A struct or tuple has at most 1,024 numbers, 100 levels deep,
    /// and a kernel at most 500 parameters.
    NESTING = lathe_syntax::codes::NESTING, "nested too deeply",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a[i]))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = ((a[i]))\n}\n";

    /// `a < b < c` is not a comparison of three values.
    CHAIN = lathe_syntax::codes::CHAIN, "chained comparison",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = select(0 < i < 5, a[i], 0)\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = select(0 < i and i < 5, a[i], 0)\n}\n";

    /// `s ;; t` normalizes functional terms between two steps. Kernels are trees: their steps are joined with
    /// `;`.
    TERMS_ONLY = Code("E0108"), "`;;` outside of terms",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ;; unroll(i.i)\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ; unroll(i.i)\n";

    /// Arguments of steps are either steps or arithmetic; the two do not mix.
    KIND = lathe_strategy::codes::KIND, "a step and a number confused",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 4) ; 3 + 4\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = split(i, 3 + 4)\n";

    /// A parameter is `name: type = default in lo..=hi step s` or `… in {a, b}`; a range needs a default.
    PARAMETER = lathe_strategy::codes::PARAMETER, "bad parameter of a strategy",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s(t in 1..=8) for k = split(i, t)\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s(t = 4 in 1..=8) for k = split(i, t)\n";

    /// `use "file"` names a file relative to the one that uses it.
    USE = Code("E0111"), "a used file cannot be loaded",
        wrong: "use \"missing.lathe\"\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// The name stands for no parameter, size, loop, `let`, `var` or index that is visible here.
    UNKNOWN = Code("E0201"), "unknown name",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = c[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// A name has one meaning at a time; labels, kernels, strategies for one target and structs are unique. A
    /// strategy has no name of a combinator, a step on loops, or what the strategies of the library are made
    /// of.
    DUPLICATE = Code("E0202"), "declared twice",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    let x = 1.0\n    let x = 2.0\n    b[i] = a[i] * x\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    let x = 1.0\n    let y = 2.0\n    b[i] = a[i] * x * y\n}\n";

    /// The types are `bool`, `i8` to `i64`, `u8` to `u64`, `index`, `f16`, `bf16`, `f32`, `f64`, tuples and
    /// structs.
    UNKNOWN_TYPE = Code("E0203"), "unknown type",
        wrong: "kernel k(a: float[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// Nothing is converted implicitly, except integers that are subscripts or bounds.
    MISMATCH = Code("E0204"), "types differ",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * i\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] * f32(i)\n}\n";

    /// `/` divides floats. On integers `//` rounds down and `%` is its remainder.
    INT_DIV = Code("E0205"), "`/` on integers",
        wrong: "kernel k(a: i32[N]) -> (b: i32[N]) {\n    b[i] = a[i] / 2\n}\n",
        right: "kernel k(a: i32[N]) -> (b: i32[N]) {\n    b[i] = a[i] // 2\n}\n";

    /// Arithmetic is for numbers, `and`, `or` and `not` for truth values, bits for integers.
    OPERATOR = Code("E0206"), "operator not defined for a type",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] % 2\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i] - 2 * floor(a[i] / 2)\n}\n";

    /// A literal takes the type of the other operand and must be a value of it.
    LITERAL = Code("E0207"), "a literal does not fit",
        wrong: "kernel k(a: u8[N]) -> (b: u8[N]) {\n    b[i] = a[i] + 300\n}\n",
        right: "kernel k(a: u8[N]) -> (b: u8[N]) {\n    b[i] = a[i] + 30\n}\n";

    /// The function takes another number of arguments, or the struct other fields.
    ARGUMENTS = Code("E0208"), "wrong arguments",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = sqrt(a[i], 2)\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = sqrt(a[i])\n}\n";

    /// An element is named by one subscript per dimension; single values have none.
    RANK = Code("E0209"), "wrong number of subscripts",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i, 0]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// Sizes are read from the shapes of the arguments: each is the whole extent of some array, or the only
    /// unknown of an extent that is linear in it, like `2 * N + 1`.
    SIZE = Code("E0210"), "a size that nothing determines",
        wrong: "kernel k(a: f32[N // 2]) -> (b: f32[4]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N + 1]) {\n    b[i] = select(i < N, a[i], 0)\n}\n";

    /// Extents of parameters are made of sizes and constants, and are not negative.
    EXTENT = Code("E0211"), "bad extent",
        wrong: "kernel k(n: index) -> (b: f32[n]) {\n    b[i] = 0\n}\n",
        right: "kernel k(x: f32) -> (b: f32[N]) {\n    b[i] = x\n}\n";

    /// Inputs, sizes, loops' variables and `let`s do not change; `inout` parameters, outputs and `var`s do.
    ASSIGN = Code("E0212"), "this cannot be assigned to",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    a[i] = 0\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: inout f32[N]) {\n    a[i] = 0\n}\n";

    /// An index that the left side does not mention must be reduced by name; `op=` reduces it by itself.
    RIGHT_ONLY = Code("E0213"), "an index that is only on the right of `=`",
        wrong: "kernel k(a: f32[N, M]) -> (b: f32[N]) {\n    b[i] = a[i, j]\n}\n",
        right: "kernel k(a: f32[N, M]) -> (b: f32[N]) {\n    b[i] = sum[j](a[i, j])\n}\n";

    /// Ranges are inferred from subscripts that determine an index; where none does, say the range.
    RANGE = Code("E0214"), "an index without a range",
        wrong: "kernel k(a: f32[N], x: f32) -> (s: f32) {\n    s = sum[i, j](a[i + j])\n}\n",
        right: "kernel k(a: f32[N], x: f32) -> (s: f32) {\n    s = sum[i, j in 0..3](a[i + j])\n}\n";

    /// A reduction is an operator with its indices and one argument: `sum[k](…)`. Operators are built in or
    /// declared with `op`; several indices need a commutative one.
    REDUCTION = Code("E0215"), "bad reduction",
        wrong: "kernel k(a: f32[N]) -> (s: f32) {\n    s = total[i](a[i])\n}\n",
        right: "kernel k(a: f32[N]) -> (s: f32) {\n    s = sum[i](a[i])\n}\n";

    /// The index of a reduction or of `where` is a new name: it can be no loop, size, parameter or index around
    /// it.
    REUSED = Code("E0216"), "an index with another meaning",
        wrong: "kernel k(a: f32[N, N]) -> (b: f32[N]) {\n    b[i] = sum[i](a[i, i])\n}\n",
        right: "kernel k(a: f32[N, N]) -> (b: f32[N]) {\n    b[i] = sum[j](a[i, j])\n}\n";

    /// `scan(op)[i](e)` combines `e` over all values of the free index up to `i`.
    SCAN = Code("E0217"), "bad scan",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = scan(sum)[j](a[j])\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = scan(sum)[i](a[i])\n}\n";

    /// The struct has no field of that name, or the tuple too few components.
    FIELD = Code("E0218"), "no such component",
        wrong: "struct P { v: f32, i: i64 }\nkernel k(a: P[N]) -> (b: f32[N]) {\n    b[i] = a[i].w\n}\n",
        right: "struct P { v: f32, i: i64 }\nkernel k(a: P[N]) -> (b: f32[N]) {\n    b[i] = a[i].v\n}\n";

    /// Loops count up by a positive constant.
    STEP = Code("E0219"), "bad step of a loop",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    for x in 0..N step -1 { b[x] = a[x] }\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    for x in 0..N step 1 { b[x] = a[x] }\n}\n";

    /// The notation is part of the language, but this version does not take it. Expressions of kernels call
    /// funs that take scalars and give an expression of them.
    NOT_YET = Code("E0220"), "not available yet",
        wrong: "fun total(xs: f32[N]) -> f32 = xs |> reduce(|a, b| a + b, 0)\nkernel k(a: f32[N]) -> (b: f32) {\n    b = total(a)\n}\n",
        right: "fun twice(x: f32) -> f32 = x + x\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = twice(a[i])\n}\n";

    /// `op name(a: T, b: T) -> T associative commutative identity(e) = body` combines two values of one type
    /// and must be associative.
    OP = Code("E0221"), "bad combine operator",
        wrong: "op better(a: f32, b: f32) -> f32 = max(a, b)\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "op better(a: f32, b: f32) -> f32 associative commutative = max(a, b)\nkernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\n";

    /// The strategy or test is for a kernel that the file does not have.
    TARGET = Code("E0222"), "no such kernel",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for kernle = id\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\nstrategy s for k = id\n";

    /// A test gives every size and every input of its kernel, and says what is expected.
    TEST = Code("E0223"), "bad test",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\ntest \"t\" for k {\n    a = iota\n    expect b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N]) {\n    b[i] = a[i]\n}\ntest \"t\" for k {\n    N = 3\n    a = iota\n    expect b[i] = a[i]\n}\n";

    /// The index subscripts two extents of which neither is known to be the smaller; it runs over both, that is
    /// over the smaller one. This is a warning.
    SMALLER = Code("E0224"), "an index over the smaller of two extents",
        wrong: "kernel k(a: f32[N], b: f32[M]) -> (s: f32) {\n    s = sum[i](a[i] * b[i])\n}\n",
        right: "kernel k(a: f32[N], b: f32[N]) -> (s: f32) {\n    s = sum[i](a[i] * b[i])\n}\n";

    /// Every cell of an output must be written; use `inout` for what is only partly changed.
    UNWRITTEN = Code("E0225"), "an output is never written",
        wrong: "kernel k(a: f32[N]) -> (b: f32[N], c: f32[N]) {\n    b[i] = a[i]\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32[N], c: f32[N]) {\n    b[i] = a[i]\n    c[i] = 0\n}\n";

    /// `break` ends the innermost `for` or `while` around it.
    BREAK = Code("E0226"), "`break` outside of loops",
        wrong: "kernel k(a: f32[N]) -> (b: f32) {\n    b = 0\n    break\n}\n",
        right: "kernel k(a: f32[N]) -> (b: f32) {\n    b = 0\n    for i in 0..N {\n        if a[i] > 0 {\n            b = a[i]\n            break\n        }\n    }\n}\n";
}
