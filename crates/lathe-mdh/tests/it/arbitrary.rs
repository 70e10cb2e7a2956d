//! Random homomorphisms (extents, operators, index functions, several accesses) under random decisions.

use crate::meaning::{inputs, reference, same};
use crate::random::valid;
use crate::support::{fixed, homomorphism, model, no_facts, sizes};
use lathe_diagnostics::FileId;
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::{Mode, Scalar};
use lathe_mdh::lower::{Options as Target, strategy};
use lathe_mdh::{Decisions, Homomorphism, Model, check, notation, text};
use lathe_strategy::{Context, Definitions};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

/// What an output holds before.
const KEPT: i64 = 1_234_567;

/// A definition in the thesis's notation, and its extents.
fn definition(rng: &mut ChaCha8Rng) -> (String, BTreeMap<String, i64>) {
    let dims = rng.gen_range(1..=4);
    let names: Vec<String> = (1..=dims).map(|d| format!("i{d}")).collect();
    let all = names.join(",");
    let op = ["+", "max", "min"].choose(rng).copied().unwrap_or("+");
    // At most one scan.
    let mut scanned = false;
    let operators: Vec<String> = (0..dims)
        .map(|_| match rng.gen_range(0..4) {
            0 | 1 => "++".to_string(),
            2 if !std::mem::replace(&mut scanned, true) => format!("ps({op})"),
            _ => format!("pw({op})"),
        })
        .collect();
    let mut free: Vec<&String> =
        names.iter().zip(&operators).filter(|(_, o)| !o.starts_with("pw")).map(|x| x.0).collect();
    free.shuffle(rng);
    let result: Vec<String> =
        free.iter().map(|n| format!("{}*{n}+{}", rng.gen_range(1..3), rng.gen_range(0..2))).collect();
    let accesses = rng.gen_range(1..=3);
    let access = |rng: &mut ChaCha8Rng, rank: usize| {
        let one = |rng: &mut ChaCha8Rng| {
            let mut terms: Vec<String> = Vec::new();
            for n in &names {
                if rng.gen_bool(0.5) {
                    terms.push(format!("{}*{n}", rng.gen_range(1..3)));
                }
            }
            format!("{}{}", terms.iter().map(|t| format!("{t}+")).collect::<String>(), rng.gen_range(0..3))
        };
        let subscripts: Vec<String> = (0..rank).map(|_| one(rng)).collect();
        format!("({all})->({})", subscripts.join(","))
    };
    let rank = rng.gen_range(0..3);
    let a: Vec<String> = (0..accesses).map(|_| access(rng, rank)).collect();
    // Tells all sizes.
    let b = format!("({all})->({all})");
    let params: Vec<String> = (0..=accesses).map(|n| format!("x{n}")).collect();
    // No factor is 0: what is not read tells no size.
    let sum: Vec<String> =
        params.iter().map(|p| format!("{} * {p}", [-2, -1, 1, 2][rng.gen_range(0..4)])).collect();
    let extents: Vec<String> = (1..=dims).map(|d| format!("N{d}")).collect();
    let text = format!(
        "F<{e} in IN> := out_view<i32>( O:({all})->({}) ) o md_hom<{e}>( ({}) -> {}, ({}) ) o inp_view<i32,i32>( A:{}, B:{b} )",
        result.join(","),
        params.join(","),
        sum.join(" + "),
        operators.join(","),
        a.join(","),
        e = extents.join(","),
    );
    let most = [24, 7, 5, 4][dims - 1];
    (text, extents.into_iter().map(|e| (e, rng.gen_range(1..=most))).collect())
}

#[test]
fn random_homomorphisms_under_random_decisions() {
    let mut rng = ChaCha8Rng::seed_from_u64(2024);
    let names: Vec<&str> = Model::shipped().collect();
    let (mut lowered, mut strided) = (0, 0);
    for n in 0..400u64 {
        let (written, extents) = definition(&mut rng);
        let module = notation::parse(FileId(0), &written, &BTreeMap::new())
            .unwrap_or_else(|d| panic!("{d}\n{written}"));
        let func = &module.functions["F"];
        let h = Homomorphism::of(&module, func, None).unwrap_or_else(|d| panic!("{d}\n{written}"));
        let shaped = h.at(&extents).unwrap_or_else(|d| panic!("{d}\n{written}"));
        let given = inputs(&shaped, &mut rng);
        let want = reference(&module, func, &shaped, &given);
        for k in 0..3 {
            let m = model(names[rng.gen_range(0..names.len())]);
            let d = valid(&shaped, &m, &mut rng);
            same(&module, &shaped, &m, &d, &given, &want, n * 3 + k);
        }
        // And as a tree, where there is one.
        let m = model("openmp_l3");
        let mut d = valid(&shaped, &m, &mut rng);
        (d.down, d.scalar) = (d.up.clone(), d.up.clone());
        let Ok(steps) = strategy(&shaped, &m, &d, &Target::exact()) else { continue };
        let (definitions, facts) = (Definitions::default(), |_: &str| None);
        let context = Context::new(&definitions, None, &facts);
        let func = fixed(func, &shaped);
        let Ok((new, _)) = lathe_transform::run(&module, &func, &context, &steps) else { continue };
        let mut args: Vec<_> = h.inputs.iter().map(|o| given.arrays[&o.buffer.id].clone()).collect();
        // What the output leaves out keeps what the caller has there.
        let kept = new.params.last().is_some_and(|p| p.mode == Mode::InOut);
        let start = match kept {
            true => ArrayValue::from_i64(Scalar::I32, &want[0].shape, &vec![KEPT; want[0].len()]),
            false => ArrayValue::undefined(Scalar::I32.into(), &want[0].shape),
        };
        args.push(start);
        let options = Options { order: Order::Seed(n), races: true, ..Options::default() };
        interp::run(&module, &new, &mut args, &options)
            .unwrap_or_else(|e| panic!("{e:?}\n{written}\n{steps}"));
        let got = args[h.inputs.len()].to_i64_vec();
        let whole = want[0].to_i64_vec();
        let wanted: Vec<i64> =
            (0..whole.len()).map(|at| if want[0].is_defined(at) { whole[at] } else { KEPT }).collect();
        assert_eq!(got, wanted, "{written}\n{steps}");
        strided += usize::from(kept && wanted.contains(&KEPT));
        lowered += 1;
    }
    assert!(lowered > 100, "only {lowered} of 400 have a tree");
    assert!(strided > 20, "only {strided} of them leave elements out");
}

#[test]
fn no_decisions_and_no_model_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (h, m) = (homomorphism("linear_algebra", "matmul"), model("cuda"));
    let shaped = h.at(&sizes(&[("I", 16), ("J", 1000), ("K", 2048)])).unwrap();
    let written = crate::figures::FIG_78;
    let json = text::to_json(&h, &m, &text::parse(&h, &m, written).unwrap()).to_string();
    let model_texts = [
        include_str!("../../../lathe-target/machines/cuda.toml"),
        r#"{ "name": "old", "memories": [{ "layer": "M", "capacity": 4096, "per": "C" }],
            "cores": [{ "layer": "C", "executor": "cpu" }],
            "constraints": [{ "rule": "combine", "core": "C", "regions": ["M"] }] }"#,
    ];
    let noise: Vec<char> = "[]()<>,.-_9xö\"{}: \n".chars().collect();
    for _ in 0..3000 {
        let mut mutated = |t: &str| {
            let mut chars: Vec<char> = t.chars().collect();
            for _ in 0..rng.gen_range(1..4) {
                let at = rng.gen_range(0..chars.len());
                match rng.gen_range(0..3) {
                    0 => chars[at] = *noise.choose(&mut rng).unwrap(),
                    1 => chars.insert(at, *noise.choose(&mut rng).unwrap()),
                    _ => drop(chars.drain(at..(at + 5).min(chars.len()))),
                }
            }
            chars.into_iter().collect::<String>()
        };
        let (a, b) = (mutated(written), mutated(&json));
        let models = model_texts.map(&mut mutated);
        for mut d in [text::parse(&h, &m, &a), text::from_json(&h, &m, &b)].into_iter().flatten() {
            check(&shaped, &m, &d, &no_facts);
            d.complete_from(&Decisions::plain(&shaped, &m));
            if check(&shaped, &m, &d, &no_facts).is_empty() {
                let _ = strategy(&shaped, &m, &d, &Target::exact());
            }
        }
        for text in models {
            let _ = Model::parse(&text);
            let _ = lathe_target::Machine::parse(&text);
        }
    }
}
