//! Programs run by the evaluator and by the interpreter of trees, on the same random values.

use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::{Mode, Module, ParamKind, Scalar, text, verify};
use lathe_pattern::eval::{Sizes, evaluate, sizes};
pub use lathe_pattern::random::Random;
use lathe_pattern::value::element_type;
use lathe_pattern::{Program, Type, TypeKind, Value, lower, program};

/// Small whole numbers, so that sums are exact in any order.
pub fn value(t: &Type, s: &Sizes, r: &mut Random) -> Value {
    match t.kind() {
        TypeKind::Scalar(Scalar::Bool) => {
            Value::Scalar(lathe_ir::scalar::ScalarValue::boolean(r.below(2) == 1))
        }
        TypeKind::Scalar(k) if k.is_float() => {
            Value::Scalar(lathe_ir::scalar::ScalarValue::float(*k, r.below(17) as f64 - 8.0))
        }
        TypeKind::Scalar(k) => Value::Scalar(lathe_ir::scalar::ScalarValue::int(*k, r.below(17) as i64 - 8)),
        TypeKind::Index(n) => {
            let n = n.eval(&|v| s.get(v).copied()).unwrap();
            Value::index(r.below(n as usize) as i64)
        }
        TypeKind::Array(n, e) | TypeKind::Vector(n, e) => {
            let n = n.eval(&|v| s.get(v).copied()).unwrap();
            Value::array((0..n).map(|_| value(e, s, r)).collect())
        }
        TypeKind::Tuple(ts) => Value::tuple(ts.iter().map(|t| value(t, s, r)).collect()),
        _ => panic!("no data: {t}"),
    }
}

pub fn arguments(p: &Program, s: &Sizes, seed: u64) -> Vec<Value> {
    let mut r = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    p.params.iter().map(|q| value(&q.ty, s, &mut r)).collect()
}

fn array(v: &Value, t: &Type, s: &Sizes) -> ArrayValue {
    let (mut shape, mut elem) = (Vec::new(), t.clone());
    while let TypeKind::Array(n, e) = elem.clone().kind() {
        shape.push(n.eval(&|v| s.get(v).copied()).unwrap() as usize);
        elem = e.clone();
    }
    v.to_array(element_type(&elem).unwrap(), &shape).unwrap()
}

pub fn lowered(p: &Program) -> Module {
    let m = lower::lower_to_module(p).unwrap_or_else(|d| panic!("{}: {d}", p.term));
    let errors = verify::verify(&m);
    assert!(errors.is_empty(), "{}\n{}", errors[0], text::print_module(&m));
    m
}

/// The results of the translated tree.
pub fn interpret(p: &Program, m: &Module, s: &Sizes, args: &[Value], order: Order) -> Vec<ArrayValue> {
    let f = &m.functions[&p.name];
    let mut all: Vec<ArrayValue> = Vec::new();
    // Complex numbers are in memory what they are declared as.
    let mut declared = p.declared.clone();
    for v in args {
        let Some((from, to)) = declared.as_fun().map(|(a, b)| (a.clone(), b.clone())) else { break };
        all.push(array(v, &from, s));
        declared = to;
    }
    let ids: std::collections::HashMap<_, _> =
        f.sizes.iter().map(|b| (b.id, s.get(&b.name).copied().unwrap())).collect();
    all.extend(interp::outputs(f, &ids).unwrap());
    let options = Options { order, races: true, ..Options::default() };
    interp::run(m, f, &mut all, &options).unwrap_or_else(|e| panic!("{e:?}\n{}", text::print_module(m)));
    interp::unwritten(f, &all).unwrap_or_else(|e| panic!("{e}\n{}", text::print_module(m)));
    let params = f.params.iter().zip(all);
    params
        .filter(|(q, _)| q.mode == Mode::Out && matches!(q.kind, ParamKind::Array(_)))
        .map(|q| q.1)
        .collect()
}

/// Evaluator and interpreter give the same bits.
pub fn agree_on(p: &Program, s: &Sizes, seed: u64) {
    let args = arguments(p, s, seed);
    let want = evaluate(p, s, &args).unwrap_or_else(|d| panic!("{}: {d}", p.term));
    let m = lowered(p);
    for order in [Order::Reference, Order::Seed(seed)] {
        let got = interpret(p, &m, s, &args, order);
        let wants: Vec<(Value, Type)> = match (p.result.kind(), &want) {
            (TypeKind::Tuple(ts), Value::Tuple(v)) if element_type(&p.result).is_none() => {
                v.iter().cloned().zip(ts.iter().cloned()).collect()
            }
            _ => vec![(want.clone(), p.result.clone())],
        };
        assert_eq!(got.len(), wants.len());
        for (g, (w, _)) in got.iter().zip(&wants) {
            assert_eq!(Value::from_array(g), *w, "{}\n{}", p.term, text::print_module(&m));
        }
    }
}

pub fn agree(f: &str, s: &[(&str, i64)]) {
    let p = program(f).unwrap_or_else(|d| panic!("{f}: {d}"));
    for seed in 1..4 {
        agree_on(&p, &sizes(s.iter().copied()), seed);
    }
}
