//! The codes of derivatives (E13xx).

use lathe_diagnostics::{Code, CodeInfo, Diagnostic, Places};

/// A value depends on an input through an operation without a useful derivative.
pub const STEP: Code = Code("E1301");
/// Something that is not differentiated.
pub const UNSUPPORTED: Code = Code("E1302");
/// No such input or output, or one without a derivative.
pub const NAME: Code = Code("E1303");
/// The values that must be kept have no shape that can be known beforehand.
pub const TAPE: Code = Code("E1304");
/// Differentiating again and again has made a function too large.
pub const SIZE: Code = Code("E1305");
/// Checkpoints are asked for, and no loop carries anything.
pub const CHECKPOINT: Code = Code("E1306");
/// A derivative that is given is none, or has other parameters.
pub const RULE: Code = Code("E1307");

/// What `lathe --explain` says about them.
pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: STEP,
        title: "an output depends on an input through a step function",
        explanation: "`floor`, `ceil`, `round`, `trunc`, conversions of floats to integers and casts of bits are piecewise \
                      constant: their derivative is 0 almost everywhere, which is rarely what is intended. The message shows the \
                      data-flow path from input to output. Exclude the input or the output (`wrt`, `of`), or treat \
                      steps as locally constant: `allow: steps` in a file, `--allow steps` on the command line.",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = floor(x[i]) + x[i]\n}\nkernel g = vjp(k)\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = floor(x[i]) + x[i]\n}\nkernel g = vjp(k, allow: steps)\n",
    },
    CodeInfo {
        code: UNSUPPORTED,
        title: "this cannot be differentiated",
        explanation: "Kernels are differentiated as they are written, before any strategy: index notation, loops, branches, local \
                      arrays, calls. Structs and atomics are not differentiated yet; external functions are where a \
                      derivative is given for them.",
        wrong: "struct P { v: f32 }\nkernel k(x: f32[N]) -> (y: f32) {\n    var p: P\n    p = P(v: x[0])\n    y = p.v * p.v\n}\n\
                kernel g = vjp(k)\n",
        right: "kernel k(x: f32[N]) -> (y: f32) {\n    var v: f32\n    v = x[0]\n    y = v * v\n}\nkernel g = vjp(k)\n",
    },
    CodeInfo {
        code: NAME,
        title: "no such input or output to differentiate",
        explanation: "`wrt` names inputs, `of` names outputs, both of float types and once each; an `inout` parameter is both.",
        wrong: "kernel k(x: f32[N], n: i32) -> (y: f32[N]) {\n    y[i] = x[i] * f32(n)\n}\nkernel g = vjp(k, wrt: (n))\n",
        right: "kernel k(x: f32[N], n: i32) -> (y: f32[N]) {\n    y[i] = x[i] * f32(n)\n}\nkernel g = vjp(k, wrt: (x))\n",
    },
    CodeInfo {
        code: TAPE,
        title: "the number of values to keep is not known in advance",
        explanation: "Reverse mode keeps values that are overwritten before the reverse sweep needs them, in arrays \
                      that are allocated before the loops run. How often loops run is counted beforehand; how many elements a statement in \
                      index notation reads must follow from sizes and inputs, not from values that the kernel itself computes. \
                      Nor can values be kept for a loop of unknown length that is run again for arrays local to an iteration around it.",
        wrong: "kernel k(x: inout f32[N], n: i32) -> (y: f32) {\n    var m: i32\n    m = n + 1\n    for t in 0..3 {\n        \
                y = sum[j in 0..index(m)](x[j] * x[j])\n        x[0] = y\n    }\n}\nkernel g = vjp(k)\n",
        right: "kernel k(x: inout f32[N], n: i32) -> (y: f32) {\n    for t in 0..3 {\n        \
                y = sum[j in 0..index(n) + 1](x[j] * x[j])\n        x[0] = y\n    }\n}\nkernel g = vjp(k)\n",
    },
    CodeInfo {
        code: SIZE,
        title: "the derivative is too large",
        explanation: "The derivative of a derivative is several times as large as what it is made of: each further one multiplies \
                      the number of operations. Differentiate less often, or by fewer inputs (`wrt`) and outputs (`of`).",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i] * x[i]\n}\nkernel a = vjp(k)\nkernel b = vjp(a)\n\
                kernel c = vjp(b)\nkernel d = vjp(c)\nkernel e = vjp(d)\nkernel f = vjp(e)\nkernel g = vjp(f)\nkernel h = \
                vjp(g)\nkernel l = vjp(h)\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i] * x[i]\n}\nkernel a = vjp(k)\nkernel b = vjp(a)\n",
    },
    CodeInfo {
        code: CHECKPOINT,
        title: "there is no loop to checkpoint",
        explanation: "Checkpoints are states of arrays that a loop carries from one iteration to the next, and overwrites. They take the \
                      place of values of every iteration: of outermost loops whose iterations read what earlier ones wrote.",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\nkernel g = vjp(k, checkpoint: 4)\n",
        right: "kernel k(x: inout f32[N], T: i32) {\n    for t in 0..T {\n        for i in 1..N { x[i] = x[i] * x[i - 1] }\n    }\n}\n\
                kernel g = vjp(k, checkpoint: 4)\n",
    },
    CodeInfo {
        code: RULE,
        title: "a derivative that is given does not fit",
        explanation: "`derivative f = g` says that `g` computes what `vjp(f)`, or `jvp(f)`, means: its parameters have the names, types and \
                      directions of those, and it computes the same values, which is tested on small random arrays wherever `f` can \
                      be differentiated without it.",
        wrong: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\n\
                kernel g(x: f32[N], y_bar: f32[N]) -> (x_bar: f32[N]) {\n    x_bar[i] = y_bar[i] * x[i]\n}\nderivative k = g\n",
        right: "kernel k(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i] * x[i]\n}\n\
                kernel g(x: f32[N], y_bar: f32[N]) -> (x_bar: f32[N]) {\n    x_bar[i] = y_bar[i] * (2 * x[i])\n}\nderivative k = g\n",
    },
];

/// A refusal with its place.
pub fn refuse(code: Code, text: impl Into<String>, places: &Places) -> Diagnostic {
    Diagnostic::error(code, text.into()).at_places(places, "here")
}
