//! Runs `test` items in the interpreter, as the session does with engines.

use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Expr, ExprKind, Function, Mode, ParamKind, Scalar, Type, VarId, build, visit};
use lathe_lang::{InputSpec, Number, Program, TestDef};
use std::collections::HashMap;

/// A message with its place, on one line.
pub fn show(map: &SourceMap, d: &Diagnostic) -> String {
    let place = d.marks.first().map_or(String::new(), |m| {
        let (line, column) = map.line_column(m.span.file, m.span.start);
        format!("{}:{line}:{column}: ", map.name(m.span.file))
    });
    format!("{place}{d}")
}

fn constant(e: &Expr, env: &HashMap<VarId, Expr>) -> usize {
    match visit::substitute(e, env).kind() {
        ExprKind::Int(v) => *v as usize,
        k => panic!("no constant: {k:?}"),
    }
}

fn shape_of(f: &Function, n: usize, sizes: &[(String, i64)]) -> (Type, Vec<usize>) {
    let env: HashMap<VarId, Expr> =
        f.sizes.iter().zip(sizes).map(|(b, (_, v))| (b.id, build::index(*v))).collect();
    match &f.params[n].kind {
        ParamKind::Array(b) => (b.elem.clone(), b.extents.iter().map(|e| constant(e, &env)).collect()),
        ParamKind::Scalar(b) => (b.ty.into(), vec![]),
    }
}

fn bits(ty: Scalar, v: Number) -> u64 {
    match v {
        _ if ty.is_float() => ScalarValue::float(ty, v.as_f64()).bits,
        Number::Bool(b) => u64::from(b),
        Number::Int(i) => ScalarValue::int(ty, i).bits,
        Number::Float(x) => ScalarValue::int(ty, x as i64).bits,
    }
}

fn fill(ty: Type, shape: &[usize], spec: Option<&InputSpec>) -> ArrayValue {
    let Some(spec) = spec else { return ArrayValue::undefined(ty, shape) };
    let leaves = ty.leaves();
    let mut a = ArrayValue::zeros(ty, shape);
    let mut state = match spec {
        InputSpec::Random { seed, .. } => *seed,
        _ => 0,
    };
    for n in 0..a.len() {
        for (l, ty) in leaves.iter().enumerate() {
            let v = match spec {
                InputSpec::Random { range, .. } => {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    let unit = (state >> 40) as f64 / (1u64 << 24) as f64;
                    let (lo, hi) = range.unwrap_or(if ty.is_float() { (-1.0, 1.0) } else { (0.0, 8.0) });
                    let v = lo + (hi - lo) * unit;
                    if ty.is_float() { Number::Float(v) } else { Number::Int(v.floor() as i64) }
                }
                InputSpec::Iota => Number::Int(n as i64),
                InputSpec::Constant(v) => *v,
                InputSpec::Data(values) => values[n * leaves.len() + l],
            };
            a.set_leaf(n, l, bits(*ty, v));
        }
    }
    a
}

pub fn run_test(program: &Program, t: &TestDef) -> Result<(), String> {
    let f = &program.module.functions[t.kernel.as_str()];
    let inputs: Vec<ArrayValue> = (0..f.params.len())
        .map(|n| {
            let (ty, shape) = shape_of(f, n, &t.sizes);
            let spec = t.inputs.iter().find(|(name, _)| **name == **f.params[n].name()).map(|(_, s)| s);
            fill(ty, &shape, spec)
        })
        .collect();
    let run = |f: &Function| {
        let mut values = inputs.clone();
        interp::run(&program.module, f, &mut values, &Options::default())
            .map_err(|e| e.diagnostic.to_string())?;
        Ok::<_, String>(values)
    };
    let (got, want) = (run(f)?, run(&t.expected)?);
    for (n, p) in f.params.iter().enumerate().filter(|(_, p)| p.mode != Mode::In) {
        for at in 0..got[n].len() {
            if !got[n].is_defined(at) || !want[n].is_defined(at) {
                return Err(format!("{} at {at} is not written", p.name()));
            }
        }
        let (g, w) = (got[n].to_f64_vec(), want[n].to_f64_vec());
        for (at, (x, y)) in g.iter().zip(&w).enumerate() {
            if !t.admits(p.name(), *x, *y) {
                return Err(format!("{} at {at}: {x}, expected {y}", p.name()));
            }
        }
    }
    Ok(())
}
