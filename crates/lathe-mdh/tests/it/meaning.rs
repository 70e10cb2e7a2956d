//! Valid decisions mean the computation, whatever they say; invalid ones are refused by the rule that they break.

use crate::random::{broken, valid};
use crate::support::{ROWS, Row, example, model, no_facts, sizes};
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Function, Module, Scalar};
use lathe_mdh::semantics::{Inputs, alone, evaluate};
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped, check, text};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Small integers everywhere: sums and products of them are exact in floating point.
pub fn inputs(h: &Shaped, rng: &mut ChaCha8Rng) -> Inputs {
    let mut out = Inputs::default();
    for o in &h.h.inputs {
        let shape: Vec<usize> =
            o.buffer.extents.iter().map(|e| interp::evaluate(e, &h.sizes).unwrap() as usize).collect();
        let mut a = ArrayValue::zeros(o.buffer.elem.clone(), &shape);
        let leaves = o.buffer.elem.leaves();
        for position in 0..a.len() {
            for (n, ty) in leaves.iter().enumerate() {
                let v = rng.gen_range(-4..5);
                let value =
                    if ty.is_float() { ScalarValue::float(*ty, v as f64) } else { ScalarValue::int(*ty, v) };
                a.set_leaf(position, n, value.bits);
            }
        }
        out.arrays.insert(o.buffer.id, a);
    }
    out
}

/// What the interpreter makes of the compute.
pub fn reference(module: &Module, func: &Function, h: &Shaped, inputs: &Inputs) -> Vec<ArrayValue> {
    let f = alone(func, h.h);
    let mut args: Vec<ArrayValue> = h.h.inputs.iter().map(|o| inputs.arrays[&o.buffer.id].clone()).collect();
    args.extend(interp::outputs(&f, &h.sizes).unwrap());
    interp::run(module, &f, &mut args, &Options::default()).unwrap_or_else(|e| panic!("{}: {e:?}", h.h.name));
    args.split_off(h.h.inputs.len())
}

pub fn same(
    module: &Module,
    h: &Shaped,
    m: &Model,
    d: &Decisions,
    given: &Inputs,
    want: &[ArrayValue],
    seed: u64,
) {
    let got =
        evaluate(module, h, m, d, given, seed).unwrap_or_else(|e| panic!("{e}\n{}", text::print(h.h, m, d)));
    for ((g, w), o) in got.iter().zip(want).zip(&h.h.outputs) {
        assert_eq!(g.bytes(), w.bytes(), "`{}` for {:?}\n{}", o.name(), h.extents, text::print(h.h, m, d));
    }
}

/// Two sizes, all models, as many configurations as are asked for.
fn fuzz(row: &Row, configurations: usize) {
    let (module, func) = example(row.file, row.kernel);
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(row.name.len() as u64 * 31 + row.sizes[0].len() as u64);
    let names: Vec<&str> = Model::shipped().collect();
    for s in row.sizes {
        let shaped = h.at(&sizes(s)).unwrap();
        let given = inputs(&shaped, &mut rng);
        let want = reference(&module, &func, &shaped, &given);
        for n in 0..configurations / 2 {
            let m = model(names[n % names.len()]);
            let d = valid(&shaped, &m, &mut rng);
            same(&module, &shaped, &m, &d, &given, &want, n as u64);
        }
    }
}

#[test]
fn random_valid_decisions_mean_the_computation() {
    std::thread::scope(|s| {
        let (a, b) = ROWS.split_at(ROWS.len() / 2);
        s.spawn(|| a.iter().for_each(|r| fuzz(r, 300)));
        b.iter().for_each(|r| fuzz(r, 300));
    });
}

/// Scans in every order that the constraint allows are right; without it, about half are wrong.
#[test]
fn scans_need_the_constraint_on_their_order() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for row in ROWS.iter().filter(|r| r.name == "scan" || r.name == "MBBS") {
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let shaped = h.at(&sizes(row.sizes[0])).unwrap();
        let given = inputs(&shaped, &mut rng);
        let want = reference(&module, &func, &shaped, &given);
        let m = model("openmp");
        let mut wrong = 0;
        for n in 0..300 {
            let mut d = valid(&shaped, &m, &mut rng);
            same(&module, &shaped, &m, &d, &given, &want, n);
            // The same decisions with the layers of the scanned dimension ranked the other way round.
            let mut ranks: Vec<_> = (0..d.layers()).map(|l| d.up.order[l][0]).collect();
            ranks.reverse();
            ranks.into_iter().enumerate().for_each(|(l, r)| d.up.order[l][0] = r);
            let refused = !check(&shaped, &m, &d, &no_facts).is_empty();
            let got = evaluate(&module, &shaped, &m, &d, &given, n).unwrap();
            let differs = got[0].bytes() != want[0].bytes();
            assert!(refused || !differs, "accepted, but wrong:\n{}", text::print(&h, &m, &d));
            wrong += usize::from(differs);
        }
        assert!(wrong > 50, "{}: only {wrong} of 300 orders against the rule are wrong", row.name);
    }
}

#[test]
fn random_invalid_decisions_are_refused_by_the_rule_that_they_break() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let names: Vec<&str> = Model::shipped().collect();
    let (mut count, mut kinds) = (0, std::collections::BTreeMap::new());
    while count < 1500 {
        let row = &ROWS[rng.gen_range(0..ROWS.len())];
        let (module, func) = example(row.file, row.kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let shaped = h.at(&sizes(row.sizes[rng.gen_range(0..2)])).unwrap();
        for _ in 0..20 {
            let m = model(names[rng.gen_range(0..names.len())]);
            let good = valid(&shaped, &m, &mut rng);
            let Some((bad, code)) = broken(&shaped, &m, good, &mut rng) else { continue };
            let found = check(&shaped, &m, &bad, &no_facts);
            assert!(
                found.iter().any(|d| d.code == code),
                "{} on {}: {code} is not among {found:?}\n{}",
                row.name,
                m.name,
                text::print(&h, &m, &bad)
            );
            count += 1;
            *kinds.entry(code.0).or_insert(0) += 1;
        }
    }
    assert!(kinds.len() >= 6 && kinds.values().all(|n| *n >= 5), "{kinds:?}");
}

#[test]
fn empty_and_single_extents_have_results() {
    for (file, kernel, s) in [
        ("linear_algebra", "dot", &[("K", 0)][..]),
        ("linear_algebra", "matvec", &[("I", 3), ("K", 0)][..]),
        ("linear_algebra", "matvec", &[("I", 0), ("K", 3)][..]),
        ("patterns", "scan", &[("N", 0)][..]),
        ("patterns", "reduce_both", &[("N", 0)][..]),
        ("linear_algebra", "matmul", &[("I", 1), ("J", 1), ("K", 1)][..]),
    ] {
        let (module, func) = example(file, kernel);
        let h = Homomorphism::of(&module, &func, None).unwrap();
        let shaped = h.at(&sizes(s)).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let given = inputs(&shaped, &mut rng);
        let want = reference(&module, &func, &shaped, &given);
        for n in 0..20 {
            let m = model("openmp_l3_simd");
            let d = valid(&shaped, &m, &mut rng);
            same(&module, &shaped, &m, &d, &given, &want, n);
        }
    }
}

#[test]
fn the_worked_example_in_small() {
    // 16 × 32 instead of 512 × 4096, the same shape of decisions.
    let (module, func) = example("linear_algebra", "matvec");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("I", 16), ("K", 32)])).unwrap();
    let m = model("toy");
    let written = crate::figures::WORKED.replace("[2 4] [8 16] [32 64]", "[2 2] [2 4] [4 4]");
    let d = text::parse(&h, &m, &written).unwrap();
    assert!(check(&shaped, &m, &d, &no_facts).is_empty());
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let given = inputs(&shaped, &mut rng);
    let want = reference(&module, &func, &shaped, &given);
    (0..10).for_each(|seed| same(&module, &shaped, &m, &d, &given, &want, seed));
}

/// The functions that the scalar phase evaluates include indices themselves, scalars and all kinds of math.
#[test]
fn scalar_functions_see_indices_and_parameters() {
    let text = "kernel f(A: f32[N], c: f32) -> (B: f32[N]) { B[i] = exp(A[i]) * c + f32(i) }";
    let module = crate::support::module(text);
    let func = &module.functions["f"];
    let h = Homomorphism::of(&module, func, None).unwrap();
    let shaped = h.at(&sizes(&[("N", 6)])).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut given = inputs(&shaped, &mut rng);
    let c = func.params.iter().find_map(|p| match &p.kind {
        lathe_ir::ParamKind::Scalar(b) => Some(b.id),
        lathe_ir::ParamKind::Array(_) => None,
    });
    let value = ScalarValue::float(Scalar::F32, 1.5);
    given.scalars.insert(c.unwrap(), value);
    let m = model("toy");
    let got = evaluate(&module, &shaped, &m, &Decisions::plain(&shaped, &m), &given, 0).unwrap();
    let f = alone(func, &h);
    let mut args = vec![ArrayValue::scalar(value), given.arrays[&h.inputs[0].buffer.id].clone()];
    args.extend(interp::outputs(&f, &shaped.sizes).unwrap());
    interp::run(&module, &f, &mut args, &Options::default()).unwrap();
    assert_eq!(args[2].bytes(), got[0].bytes());
}
