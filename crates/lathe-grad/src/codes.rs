//! The codes of derivatives (E13xx).

use lathe_diagnostics::{Code, Diagnostic, Places};

lathe_diagnostics::codes! {
    /// `floor`, `ceil`, `round`, `trunc`, conversions of floats to integers and casts of bits are piecewise
    /// constant: their derivative is 0 almost everywhere, which is rarely what is intended. The message shows
    /// the data-flow path from input to output. Exclude the input or the output (`wrt`, `of`), or treat steps
    /// as locally constant: `allow: steps` in a file, `--allow steps` on the command line.
    STEP = Code("E1301"), "an output depends on an input through a step function",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = floor(x[i]) + x[i]\n}\nkernel g = vjp(k)\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = floor(x[i]) + x[i]\n}\nkernel g = vjp(k, allow: steps)\n";

    /// Differentiated are index notation, loops, branches, local arrays, calls, structs by their parts, and loops in
    /// threads or on devices, with barriers and atomic updates, if their iterations are shown to be independent; external
    /// functions where a derivative is given for them; functions that call themselves, if their parameters are numbers and
    /// arrays of numbers, along one direction at once. Not differentiated are other atomics, views of structs, and what
    /// does input and output.
    UNSUPPORTED = Code("E1302"), "this cannot be differentiated",
        wrong: "extern f(N)(x: in f64[N], y: out f64[N]) effects (read x[0..N], write y[0..N])\n\
                func k(N)(x: in f64[N], y: out f64[N]) stage plain {\n  call f(&x, &y)\n}\n",
        right: "func f(N)(x: in f64[N], y: out f64[N]) stage plain {\n  for i in 0..N { 'y'[i]: y[i] = x[i] * x[i] }\n}\n\
                func k(N)(x: in f64[N], y: out f64[N]) stage plain {\n  call f(&x, &y)\n}\n";

    /// `wrt` names inputs, `of` names outputs, both of float types and once each; an `inout` parameter is both.
    NAME = Code("E1303"), "no such input or output to differentiate",
        wrong: "kernel k(x: f32[N], n: i32) -> (y: f32[N]) {\n    y[i] = x[i] * f32(n)\n}\nkernel g = vjp(k, wrt: (n))\n",
        right: "kernel k(x: f32[N], n: i32) -> (y: f32[N]) {\n    y[i] = x[i] * f32(n)\n}\nkernel g = vjp(k, wrt: (x))\n";

    /// Reverse mode keeps values that are overwritten before the reverse sweep needs them, in arrays that are
    /// allocated before the loops run. How often loops run is counted beforehand; how many elements a statement
    /// in index notation reads must follow from sizes and inputs, not from values that the kernel itself
    /// computes. Nor can values be kept for a loop of unknown length that is run again for arrays local to an
    /// iteration around it.
    TAPE = Code("E1304"), "the number of values to keep is not known in advance",
        wrong: "kernel k(x: inout f32[N], n: i32) -> (y: f32) {\n    var m: i32\n    m = n + 1\n    for t in 0..3 {\n        \
                y = sum[j in 0..index(m)](x[j] * x[j])\n        x[0] = y\n    }\n}\nkernel g = vjp(k)\n",
        right: "kernel k(x: inout f32[N], n: i32) -> (y: f32) {\n    for t in 0..3 {\n        \
                y = sum[j in 0..index(n) + 1](x[j] * x[j])\n        x[0] = y\n    }\n}\nkernel g = vjp(k)\n";

    /// The derivative of a derivative is several times as large as what it is made of: each further one
    /// multiplies the number of operations. Differentiate less often, or by fewer inputs (`wrt`) and outputs
    /// (`of`).
    SIZE = Code("E1305"), "the derivative is too large",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = sin(x[i] * x[i]) * exp(x[i])\n}\nkernel a = vjp(k)\nkernel b = vjp(a)\n\
                kernel c = vjp(b)\nkernel d = vjp(c)\nkernel e = vjp(d)\nkernel f = vjp(e)\nkernel g = vjp(f)\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i] * x[i]\n}\nkernel a = vjp(k)\nkernel b = vjp(a)\n";

    /// Checkpoints are states of arrays that a loop carries from one iteration to the next, and overwrites.
    /// They take the place of values of every iteration: of outermost loops whose iterations read what earlier
    /// ones wrote.
    CHECKPOINT = Code("E1306"), "there is no loop to checkpoint",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\nkernel g = vjp(k, checkpoint: 4)\n",
        right: "kernel k(x: inout f32[N], T: i32) {\n    for t in 0..T {\n        for i in 1..N { x[i] = x[i] * x[i - 1] }\n    }\n}\n\
                kernel g = vjp(k, checkpoint: 4)\n";

    /// `derivative f = g` says that `g` computes what `vjp(f)`, or `jvp(f)`, means: its parameters have the
    /// names, types and directions of those, and it computes the same values, which is tested on small random
    /// arrays wherever `f` can be differentiated without it.
    RULE = Code("E1307"), "a derivative that is given does not fit",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\n\
                kernel g(x: f32[N], y_bar: f32[N]) -> (x_bar: f32[N]) {\n    x_bar[i] = y_bar[i] * x[i]\n}\nderivative k = g\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\n\
                kernel g(x: f32[N], y_bar: f32[N]) -> (x_bar: f32[N]) {\n    x_bar[i] = y_bar[i] * (2 * x[i])\n}\nderivative k = g\n";

    /// `sparsity(f)` says which results depend on which inputs, for all values of the floats. That is not known where
    /// they decide which branch is taken, how often a loop runs or which element is read. `select`, `min` and
    /// `max` may decide by floats: the result depends on all operands then.
    SPARSITY = Code("E1308"), "which results depend on which inputs is data",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    for i in 1..N {\n        if x[i] > 0 { y[i] = x[i] } else { y[i] = x[i - 1] }\n    }\n}\n\
                kernel s = sparsity(k)\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    for i in 1..N {\n        y[i] = select(x[i] > 0, x[i], x[i - 1])\n    }\n}\n\
                kernel s = sparsity(k)\n";
}

/// A refusal with its place.
pub fn refuse(code: Code, text: impl Into<String>, places: &Places) -> Diagnostic {
    Diagnostic::error(code, text.into()).at_places(places, "here")
}
