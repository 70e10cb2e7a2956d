//! Bits are the interpreter's: every operator on every type, one lane and many.

use crate::common::*;
use lathe_engine::Options;
use lathe_ir::interp::{self, ArrayValue};
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{BinOp, MathFn, Scalar, Type};
use lathe_target::Machine;

/// Runs a program in both, on the same arguments, and compares all arrays afterwards.
pub fn agree(text: &str, args: &[ArrayValue]) {
    agree_on(text, args, None);
}

/// The same in code for one of the machines whose code runs here.
fn agree_on(text: &str, args: &[ArrayValue], machine: Option<&Machine>) {
    let (module, func) = parse(text);
    let mut wants: Vec<ArrayValue> = args.to_vec();
    interp::run(&module, &func, &mut wants, &interp::Options::default())
        .unwrap_or_else(|f| panic!("{}\n{text}", f.diagnostic));
    let target = machine.map(|m| m.code.clone());
    let options = Options { unit_strides_only: true, target, ..Options::default() };
    let compiled = Compiled::of(text, &options);
    let mut tensors: Vec<Tensor> = args.iter().map(tensor).collect();
    let mut refs: Vec<&mut Tensor> = tensors.iter_mut().collect();
    assert_eq!(call(&compiled, &mut refs), 0, "{text}");
    for ((want, got), p) in wants.iter().zip(&tensors).zip(&func.params) {
        let got =
            ArrayValue::from_bytes(want.ty.clone(), &want.shape, got.bytes.clone()).expect("as many bytes");
        for at in 0..want.len() {
            for leaf in 0..want.ty.leaves().len() {
                let (w, g) = (want.leaf(at, leaf), got.leaf(at, leaf));
                let nan = |v: Option<ScalarValue>| v.is_some_and(|v| v.ty.is_float() && v.to_f64().is_nan());
                let same = w == g || (nan(w) && nan(g));
                assert!(same, "{}[{at}]: {w:?} is right, not {g:?}\n{text}", p.name());
            }
        }
    }
}

fn tensor(a: &ArrayValue) -> Tensor {
    let shape: Vec<i64> = a.shape.iter().map(|x| *x as i64).collect();
    let dtype = match a.ty.scalar() {
        Some(s) => Scalar::ALL.iter().position(|x| *x == s).expect("a scalar") as u32,
        None => lathe_abi::dtype::AGGREGATE,
    };
    Tensor::of(dtype, a.ty.bytes() as usize, &shape, a.bytes().to_vec())
}

/// Numbers at which types differ.
fn values(s: Scalar) -> Vec<u64> {
    if s == Scalar::Bool {
        return vec![0, 1];
    }
    if s.is_float() {
        let reals = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            1.5,
            2.5,
            -2.5,
            3.25,
            -7.75,
            255.5,
            65504.0,
            65520.0,
            1e-8,
            -6e-5,
            1e30,
            3e38,
            -1e300,
            1e-310,
            127.999,
            2147483648.0,
            9.3e18,
            1.9e19,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1.00048828125,
            1.000488281250001,
            2.0f64.powi(-25) * 1.0001,
            2.0f64.powi(-140),
        ];
        return reals.iter().map(|v| scalar::of_f64(s, *v)).collect();
    }
    let wide: &[i64] = match s {
        // Products of these fit.
        Scalar::Index => &[0, 1, -1, 2, 3, -3, 7, -8, 100, -1000, 1 << 30],
        _ => &[
            0,
            1,
            -1,
            2,
            3,
            -3,
            5,
            7,
            -8,
            100,
            127,
            128,
            255,
            -128,
            300,
            32767,
            -32768,
            65535,
            i32::MAX as i64,
            i32::MIN as i64,
            1 << 40,
            (1 << 62) + (1 << 54) + 1,
            i64::MAX,
            i64::MIN,
            16777217,
        ],
    };
    wide.iter().map(|v| lathe_ir::build::wrap(s, *v) as u64).collect()
}

fn array(s: Scalar, bits: &[u64]) -> ArrayValue {
    let mut a = ArrayValue::zeros(Type::Scalar(s), &[bits.len()]);
    bits.iter().enumerate().for_each(|(i, v)| a.set_leaf(i, 0, *v));
    a
}

/// The loop over `i`, in one lane and in many.
const HEADS: [(&str, &str); 2] = [
    ("for i in 0..N {", "}"),
    ("for o in 0..(N + 7) // 8 { for l in 0..min(8, N - 8 * o) vector(8) { let i: index = 8 * o + l", "} }"),
];

/// Runs `outputs` (type and expression in `A[i]`, `B[i]`) over all pairs of values of a type.
fn pairs(s: Scalar, outputs: &[(Scalar, String)], pairs: &[(u64, u64)]) {
    pairs_on(s, outputs, pairs, None);
}

fn pairs_on(s: Scalar, outputs: &[(Scalar, String)], pairs: &[(u64, u64)], machine: Option<&Machine>) {
    let a: Vec<u64> = pairs.iter().map(|p| p.0).collect();
    let b: Vec<u64> = pairs.iter().map(|p| p.1).collect();
    let mut args = vec![array(s, &a), array(s, &b)];
    args.extend(outputs.iter().map(|o| ArrayValue::zeros(Type::Scalar(o.0), &[pairs.len()])));
    let params: String = outputs.iter().enumerate().map(|(k, o)| format!(", O{k}: out {}[N]", o.0)).collect();
    let body: String =
        outputs.iter().enumerate().map(|(k, o)| format!("  'O{k}'[i]: O{k}[i]! = {}\n", o.1)).collect();
    for (head, foot) in HEADS {
        let text = format!("func f(N)(A: in {s}[N], B: in {s}[N]{params}) {{\n{head}\n{body}{foot} }}");
        agree_on(&text, &args, machine);
    }
}

fn text(op: BinOp) -> String {
    match op.symbol() {
        w @ ("and" | "or") => format!("A[i]! {w} B[i]!"),
        w if w.chars().all(char::is_alphabetic) => format!("{w}(A[i]!, B[i]!)"),
        w => format!("A[i]! {w} B[i]!"),
    }
}

fn all_pairs(s: Scalar) -> Vec<(u64, u64)> {
    let v = values(s);
    v.iter().flat_map(|a| v.iter().map(|b| (*a, *b))).collect()
}

#[test]
fn binary_operators() {
    for s in Scalar::ALL {
        let divides =
            |op: &BinOp| matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem);
        let v = values(s)[values(s).len() - 1];
        let defined =
            |op: &&BinOp| scalar::binary(**op, s, v, 1).is_ok() || (s == Scalar::Index && **op == BinOp::Shl);
        let ops: Vec<BinOp> = BinOp::ALL
            .iter()
            .filter(defined)
            .filter(|o| **o != BinOp::Div || s.is_float())
            .copied()
            .collect();
        let ty = |op: &BinOp| if op.is_comparison() { Scalar::Bool } else { s };
        let (div, rest): (Vec<BinOp>, Vec<BinOp>) = ops.into_iter().partition(divides);
        let rest: Vec<BinOp> = rest.into_iter().filter(|o| s != Scalar::Index || *o != BinOp::Shl).collect();
        let of = |ops: &[BinOp]| ops.iter().map(|o| (ty(o), text(*o))).collect::<Vec<_>>();
        pairs(s, &of(&rest), &all_pairs(s));
        if !div.is_empty() {
            let nonzero: Vec<_> = all_pairs(s).into_iter().filter(|p| p.1 != 0).collect();
            pairs(s, &of(&div), &nonzero);
        }
    }
}

#[test]
fn divisions_by_constants() {
    for s in [Scalar::I32, Scalar::Index, Scalar::U8] {
        let typed = |c: i64| if s == Scalar::Index { format!("({c})") } else { format!("{c}:{s}") };
        let constants: &[i64] = if s.is_signed() { &[2, 8, 3, 7, -1, -2, -5] } else { &[2, 8, 3, 7] };
        let of = |c: &i64| {
            [
                format!("A[i]! // {}", typed(*c)),
                format!("A[i]! % {}", typed(*c)),
                format!("tdiv(A[i]!, {})", typed(*c)),
            ]
        };
        let outputs: Vec<_> = constants.iter().flat_map(of).map(|t| (s, t)).collect();
        pairs(s, &outputs, &all_pairs(s));
    }
}

/// Comparisons with a number decide which zero, and what is not a number, comes through.
#[test]
fn extrema_with_constants() {
    for s in [Scalar::F32, Scalar::F64] {
        let constants = ["0.0", "-0.0", "1.0", "-2.5", "inf", "-inf", "nan"];
        let of = |c: &&str| {
            let c = format!("{c}:{s}");
            [
                format!("min(A[i]!, {c})"),
                format!("min({c}, A[i]!)"),
                format!("max(A[i]!, {c})"),
                format!("max({c}, A[i]!)"),
            ]
        };
        let outputs: Vec<_> = constants.iter().flat_map(of).map(|t| (s, t)).collect();
        pairs(s, &outputs, &all_pairs(s));
        let levels = ["x86-64-v2", "x86-64-v3", "x86-64-v4"].map(|n| Machine::named(n).expect("a level"));
        for m in levels.iter().filter(|m| m.lacking_here().is_empty()) {
            pairs_on(s, &outputs, &all_pairs(s), Some(m));
        }
    }
}

#[test]
fn unary_operators_casts_and_exact_math() {
    for s in Scalar::ALL {
        let mut outputs = Vec::new();
        if s != Scalar::Bool {
            outputs.push((s, "-A[i]!".to_string()));
        }
        if !s.is_float() {
            outputs.push((s, "not(A[i]!)".to_string()));
        }
        for to in Scalar::ALL {
            if (s, to) != (Scalar::U64, Scalar::Index) {
                outputs.push((to, format!("cast<{to}>(A[i]!)")));
            }
            if to != s && to.bits() == s.bits() && s != Scalar::Bool {
                outputs.push((to, format!("bitcast<{to}>(A[i]!)")));
            }
        }
        for f in MathFn::ALL.iter().filter(|f| f.is_exact() && f.arity() == 1) {
            if s.is_float() || (*f == MathFn::Abs && s.is_signed()) {
                outputs.push((s, format!("{}(A[i]!)", f.name())));
            }
        }
        if s.is_float() {
            outputs.push((s, "fma(A[i]!, B[i]!, -A[i]!)".to_string()));
            outputs.push((s, "fma(A[i]!, B[i]!, B[i]!)".to_string()));
            // Must not be contracted.
            outputs.push((s, "A[i]! * B[i]! + B[i]!".to_string()));
            outputs.push((s, "select(A[i]! < B[i]!, A[i]!, min(B[i]!, A[i]!))".to_string()));
        }
        pairs(s, &outputs, &all_pairs(s));
    }
}

fn floats(shape: &[usize], seed: u64) -> ArrayValue {
    let n: usize = shape.iter().product();
    let mut state = seed;
    let values = (0..n).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / 4096.0 - 2000.0
    });
    ArrayValue::from_f32(shape, &values.collect::<Vec<_>>())
}

/// Lanes that fill short rows of their own: side by side (interleaved whole stores), and the cases that look alike but
/// are not: rows of another length, in another order, with gaps, overlapping, read while they are filled, given by the
/// caller, or three long.
#[test]
fn rows_of_lanes_are_interleaved() {
    for (row, index, value, w) in [
        (4, "P[8 * o + l, r]", "A[8 * o + l, r]! + 1.0:f32", 8),
        (2, "P[8 * o + l, r]", "A[8 * o + l, r]! * A[8 * o + l, 0]!", 8),
        (8, "P[8 * o + l, r]", "A[0, r]!", 8),
        (8, "P[4 * o + l, r]", "f32(l * 8 + r)", 4),
        (4, "P[8 * o + l, 7 - r]", "A[8 * o + l, r]!", 8),
        (4, "P[8 * o + l, r + 1]", "A[8 * o + l, r]!", 8),
        (8, "P[8 * o + l, r // 2]", "A[8 * o + l, r]!", 8),
        (4, "P[8 * o + l, r]", "select(r > 0, P[8 * o + l, max(r - 1, 0)]!, 3.0:f32)", 8),
        (8, "B[8 * o + l, r]", "A[8 * o + l, r]!", 8),
        (3, "P[8 * o + l, r]", "A[8 * o + l, r]!", 8),
    ] {
        // A row as wide as the buffer is the one that is interleaved; the others have wider buffers.
        for wide in [row, 8] {
            let text = format!(
                "
func f(N)(A: in f32[N, 8], B: inout f32[N, 8]) {{
  alloc P: f32[N, {wide}]
  for x in 0..N {{ for y in 0..{wide} {{ 'P'[x, y]: P[x, y]! = -7.0:f32 }} }}
  for o in 0..N // {w} {{ for l in 0..{w} vector({w}) {{ for r in 0..{row} unrolled {{
    'P.2'[o, l, r]: {index}! = {value}
  }} }} }}
  for x in 0..N {{ for y in 0..{wide} {{ 'B'[x, y]: B[x, y]! sum= P[x, y]! }} }}
}}"
            );
            if wide < row || (wide == row && index.contains("r + 1")) || (wide < 8 && index.contains("7 - r"))
            {
                continue;
            }
            for n in [0, 7, 8, 19, 40] {
                agree(&text, &[floats(&[n, 8], 1), floats(&[n, 8], 2)]);
            }
        }
    }
}

/// Rows of any length, with and without gaps between them: squares of lanes are transposed in registers, and of what is left
/// each lane stores its own.
#[test]
fn rows_of_any_length_are_transposed() {
    for (row, wide, w) in [3, 6, 7, 12, 16, 24, 33]
        .into_iter()
        .flat_map(|row| [row, row + 1, 64].map(|wide| (row, wide)))
        .flat_map(|(row, wide)| [4, 16].map(|w| (row, wide, w)))
    {
        for s in ["f32", "i16"] {
            let text = format!(
                "
func f(N)(A: in f32[N, 65], B: inout f32[N, 65]) {{
  alloc P: {s}[N, {wide}]
  for x in 0..N {{ for y in 0..{wide} {{ 'P'[x, y]: P[x, y]! = {s}(7) }} }}
  for o in 0..N // {w} {{ for l in 0..{w} vector({w}) {{ for r in 0..{row} unrolled {{
    'P.2'[o, l, r]: P[{w} * o + l, r]! = {s}(A[{w} * o + l, r]! * 8.0:f32)
  }} }} }}
  for x in 0..N {{ for y in 0..{wide} {{ 'B'[x, y]: B[x, y]! sum= f32(P[x, y]!) }} }}
}}"
            );
            for n in [0, 1, 16, 37] {
                agree(&text, &[floats(&[n, 65], 1), floats(&[n, 65], 2)]);
            }
        }
    }
}

#[test]
fn expanded_math() {
    for s in [Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bf16] {
        let outputs: Vec<_> = MathFn::ALL
            .iter()
            .filter(|f| !f.is_exact())
            .map(|f| {
                let arguments = if f.arity() == 2 { "A[i]!, B[i]!" } else { "A[i]!" };
                (s, format!("{}({arguments})", f.name()))
            })
            .collect();
        pairs(s, &outputs, &all_pairs(s));
    }
}

/// Running values of whole vectors: doubled in registers as it is written out for the interpreter.
#[test]
fn lanes_that_combine_in_order() {
    for s in Scalar::ALL {
        let ops: &[&str] = match s {
            Scalar::Bool => &["all", "any"],
            Scalar::Index => &["sum", "min", "max"],
            _ => &["sum", "prod", "min", "max"],
        };
        let some = values(s);
        let bits: Vec<u64> = (0..96).map(|n| some[(n * 7 + n / 11) % some.len()]).collect();
        for (op, w) in ops.iter().flat_map(|op| [2, 8, 32].map(|w| (op, w))) {
            let text = format!(
                "func f(N)(A: in {s}[N], B: out {s}[N], C: out {s}[N]) stage scheduled {{
                   alloc a: {s}[] register
                   'a'[]: a[] = A[3]
                   for o in 0..N // {w} {{ for l in 0..{w} inscan({w}) {{
                     's'[{w} * o + l]: a[] {op}= A[{w} * o + l]!
                     's.store'[{w} * o + l]: B[{w} * o + l]! = a[]
                     'C'[{w} * o + l]: C[N - 1 - {w} * o - l]! = select(A[{w} * o + l]! == a[], a[], A[0])
                   }} }}
                 }}"
            );
            let none = ArrayValue::zeros(Type::Scalar(s), &[bits.len()]);
            agree(&text, &[array(s, &bits), none.clone(), none]);
        }
    }
}
