//! Decisions on CPU models become strategies, and what these make of the tree computes the same.

use crate::meaning::{inputs, reference};
use crate::random::valid;
use crate::support::{ROWS, Row, example, fixed, model, sizes};
use lathe_ir::interp::{self, Options, Order};
use lathe_ir::{Function, Module};
use lathe_mdh::lower::{self, Options as Target};
use lathe_mdh::semantics::alone;
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped, codes, text};
use lathe_strategy::{Context, Definitions, Refusal, Strategy};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

fn transform(module: &Module, func: &Function, s: &Strategy) -> Result<Function, Refusal> {
    let (definitions, facts) = (Definitions::default(), |_: &str| None);
    Ok(lathe_transform::run(module, func, &Context::new(&definitions, None, &facts), s)?.0)
}

fn show(h: &Shaped, m: &Model, d: &Decisions, s: &Strategy) -> String {
    format!("{:?}\n{}\n{s}", h.extents, text::print(h.h, m, d))
}

/// A message without its names and numbers.
fn kind_of(message: &str) -> String {
    let parts = message.split('`').enumerate().map(|(n, p)| if n % 2 == 0 { p } else { "_" });
    parts.collect::<Vec<_>>().join("`").replace(|c: char| c.is_ascii_digit(), "0")
}

/// Random decisions on a model; how many were lowered, and why others were not.
fn fuzz(row: &Row, on: &str, count: usize, outcome: &mut BTreeMap<String, usize>) {
    fuzz_kernel(row, example(row.file, row.kernel), on, count, outcome);
}

fn fuzz_kernel(
    row: &Row,
    (module, func): (Module, Function),
    on: &str,
    count: usize,
    outcome: &mut BTreeMap<String, usize>,
) {
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let func = alone(&func, &h);
    let m = model(on);
    let mut rng = ChaCha8Rng::seed_from_u64(17);
    for s in row.sizes {
        let shaped = h.at(&sizes(s)).unwrap();
        let given = inputs(&shaped, &mut rng);
        let want = reference(&module, &func, &shaped, &given);
        let constant = fixed(&func, &shaped);
        let first = outcome.values().sum::<usize>();
        for n in first..first + count / 2 {
            // Sizes are constants, or any.
            let target = Target { exact: n % 3 != 1, ..Target::exact() };
            let func = if target.exact { &constant } else { &func };
            let mut d = valid(&shaped, &m, &mut rng);
            // One nest, or several.
            if n % 2 == 0 {
                (d.down, d.scalar) = (d.up.clone(), d.up.clone());
            }
            if n % 6 != 0 {
                // Outputs in the layout of the caller, so that what cores combine is not copied, too.
                let plain = Decisions::plain(&shaped, &m);
                d.writes.iter_mut().zip(plain.writes).for_each(|(w, p)| w.layout = p.layout);
                d.results.iter_mut().zip(plain.results).for_each(|(w, p)| w.layout = p.layout);
            }
            let steps = match lower::strategy(&shaped, &m, &d, &target) {
                Ok(s) => s,
                Err(e) => {
                    assert_eq!(e.code, codes::UNSUPPORTED, "{e}");
                    if std::env::var("SHOW").is_ok_and(|x| e.message.contains(&x)) {
                        let decisions = text::print(shaped.h, &m, &d);
                        println!("{} {} {e}\n{:?}\n{decisions}", row.name, target.exact, shaped.extents);
                    }
                    *outcome.entry(format!("not lowered: {}", kind_of(&e.message))).or_insert(0) += 1;
                    continue;
                }
            };
            let new = match transform(&module, func, &steps) {
                Ok(f) => f,
                Err(r) => {
                    let text = format!("refused by {}: {}", r.rule, kind_of(&r.diagnostic.message));
                    if std::env::var("SHOW").is_ok_and(|x| text.contains(&x)) {
                        println!(
                            "{} {} {}\n{}",
                            row.name,
                            target.exact,
                            r.diagnostic,
                            show(&shaped, &m, &d, &steps)
                        );
                    }
                    *outcome.entry(text).or_insert(0) += 1;
                    continue;
                }
            };
            for order in [Order::Reference, Order::Seed(n as u64)] {
                let mut args: Vec<_> = h.inputs.iter().map(|o| given.arrays[&o.buffer.id].clone()).collect();
                args.extend(interp::outputs(&new, &shaped.sizes).unwrap());
                let options = Options { order, races: true, ..Options::default() };
                interp::run(&module, &new, &mut args, &options)
                    .unwrap_or_else(|e| panic!("{}: {e:?}\n{}", row.name, show(&shaped, &m, &d, &steps)));
                for (got, want) in args[h.inputs.len()..].iter().zip(&want) {
                    let tree = lathe_ir::text::print_function(&new);
                    let why = || format!("{}\n{}\n{tree}", row.name, show(&shaped, &m, &d, &steps));
                    assert_eq!(got.bytes(), want.bytes(), "{}", why());
                }
            }
            let nests = if d.fused() { "lowered, one nest" } else { "lowered, several nests" };
            *outcome.entry(nests.to_string()).or_insert(0) += 1;
        }
    }
}

/// How many decisions per example and model: more with `LATHE_CASES` (300 for the full test).
fn cases(few: usize) -> usize {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(few).min(300)
}

#[test]
fn random_decisions_on_cpus_become_trees_that_compute_the_same() {
    let mut outcome = BTreeMap::new();
    for r in &ROWS {
        for on in ["openmp", "openmp_l3_simd", "cpu"] {
            fuzz(r, on, cases(8), &mut outcome);
        }
    }
    let lowered: usize = outcome.iter().filter(|o| o.0.starts_with("lowered")).map(|o| o.1).sum();
    let all: usize = outcome.values().sum();
    println!("{lowered} of {all}: {outcome:#?}");
    assert!(100 * lowered > 99 * all, "{lowered} of {all}: {outcome:#?}");
}

/// Every part starts with its first element.
#[test]
fn operators_without_identity_are_combined_by_cores() {
    let row = Row {
        name: "largest",
        file: "",
        kernel: "largest",
        sizes: [&[("I", 5), ("K", 24)], &[("I", 2), ("K", 7)]],
    };
    let m = crate::support::module(
        "op larger(a: i32, b: i32) -> i32 associative commutative = select(a > b, a, b)
        kernel largest(x: i32[I, K]) -> (y: i32[I]) { y[i] = larger[k](x[i, k]) }",
    );
    let mut outcome = BTreeMap::new();
    for on in ["openmp", "openmp_l3_simd", "cpu", "cuda"] {
        fuzz_kernel(&row, (m.clone(), m.functions["largest"].clone()), on, cases(12), &mut outcome);
    }
    let lowered: usize = outcome.iter().filter(|o| o.0.starts_with("lowered")).map(|o| o.1).sum();
    let all: usize = outcome.values().sum();
    println!("{lowered} of {all}: {outcome:#?}");
    assert!(10 * lowered > 9 * all, "{lowered} of {all}: {outcome:#?}");
}

#[test]
fn random_decisions_on_devices_become_trees_that_compute_the_same() {
    let mut outcome = BTreeMap::new();
    for r in &ROWS {
        for on in ["cuda", "cuda_wrp", "opencl", "multi_gpu", "multi_node"] {
            fuzz(r, on, cases(2), &mut outcome);
        }
    }
    let lowered: usize = outcome.iter().filter(|o| o.0.starts_with("lowered")).map(|o| o.1).sum();
    let all: usize = outcome.values().sum();
    println!("{lowered} of {all}: {outcome:#?}");
    assert!(20 * lowered > 19 * all, "{lowered} of {all}: {outcome:#?}");
}
