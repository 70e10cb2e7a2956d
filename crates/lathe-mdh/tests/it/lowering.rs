//! Decisions on CPU models become strategies, and what these make of the tree computes the same.

use crate::meaning::{inputs, reference};
use crate::random::valid;
use crate::support::{ROWS, Row, example, fixed, model, sizes};
use lathe_ir::interp::{self, Options, Order};
use lathe_ir::{Executor, Function, Module, visit};
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

/// What a strategy makes of a function for constant sizes; it computes what the function means, in any order.
fn computes_the_same(module: &Module, func: &Function, shaped: &Shaped, steps: &Strategy) -> Function {
    let new = transform(module, &fixed(func, shaped), steps)
        .unwrap_or_else(|r| panic!("{}\n{steps}", r.diagnostic));
    let given = inputs(shaped, &mut ChaCha8Rng::seed_from_u64(9));
    let want = reference(module, func, shaped, &given);
    let h = shaped.h;
    for seed in 0..8 {
        let mut args: Vec<_> = h.inputs.iter().map(|o| given.arrays[&o.buffer.id].clone()).collect();
        args.extend(interp::outputs(&new, &shaped.sizes).unwrap());
        let options = Options { order: Order::Seed(seed), races: true, ..Options::default() };
        interp::run(module, &new, &mut args, &options).unwrap_or_else(|e| panic!("{e:?}\n{steps}"));
        for (got, want) in args[h.inputs.len()..].iter().zip(&want) {
            assert_eq!(got.bytes(), want.bytes(), "{steps}");
        }
    }
    new
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

/// A nest as an expert would write it: threads over blocks of rows, blocks for the caches, lanes inside.
#[test]
fn a_product_is_blocked_packed_parallel_and_vectorized() {
    let (module, func) = example("linear_algebra", "matmul");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("I", 12), ("J", 20), ("K", 10)])).unwrap();
    let m = model("openmp_l3_simd");
    let written = "\
partial tiles
parts    [1 1 1] [1 1 3] [3 1 4] [2 1 1] [2 2 1] [1 8 1]
D1 S1 R1 [4 5 6] [7 8 2] [9 10 14] [11 12 13] [1 3 15] [16 17 18]
D2 S2 R2 [MM.x MM.y MM.z] [L3.x L3.y L3.z] [L2.x L2.y L2.z] [L1.x L1.y L1.z] [COR.x COR.y COR.z] [SIMD.x SIMD.y SIMD.z]
D4 B     [<1,2> <1,2> <1,2>] [<1,2> <1,2> <1,2>] [<1,2> <1,2> <2,1>] [<1,2> <1,2> <2,1>] [<1,2> <1,2> <2,1>] [<2,1> <2,1> <2,1>]
S4 B     <2,1>
";
    let mut d = text::parse(&h, &m, written).unwrap();
    d.complete_from(&Decisions::plain(&shaped, &m));
    let found = lathe_mdh::check(&shaped, &m, &d, &|_| None);
    assert!(found.is_empty(), "{found:?}");
    let steps = lower::strategy(&shaped, &m, &d, &Target::exact()).unwrap();
    let shown = steps.to_string();
    for part in [
        "split(C.i, 4, i.p3, i.q1)",
        "split(C.j, 16, j.r, j.q1)",
        "reorder(",
        "parallel(C.i.p5)",
        "vectorize(C.j.p6, 8)",
        "stage(B, at: C.",
        "layout: permute(1, 0)",
    ] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let new = computes_the_same(&module, &func, &shaped, &steps);
    let mut executors = Vec::new();
    visit::walk(&new.body, &mut |s, _| {
        if let Some(l) = s.as_loop() {
            executors.push(l.exec.clone());
        }
        true
    });
    assert!(executors.contains(&Executor::Cpu) && executors.contains(&Executor::Vector(8)), "{shown}");
}

#[test]
fn dot_products_are_reduced_by_threads_and_lanes() {
    let (module, func) = example("linear_algebra", "dot");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("K", 96)])).unwrap();
    let m = model("openmp_l3_simd");
    let mut d =
        text::parse(&h, &m, "parts [3] [1] [1] [1] [4] [8]\nD1 S1 R1 [2] [3] [4] [5] [1] [6]").unwrap();
    d.complete_from(&Decisions::plain(&shaped, &m));
    let mut inverted = d.clone();
    for p in lathe_mdh::Phase::ALL {
        let order = &mut inverted.steps_mut(p).order;
        (order[4][0], order[5][0]) = (order[5][0], order[4][0]);
    }
    // A thread runs whole vectors, whatever the ranks are.
    let steps = lower::strategy(&shaped, &m, &inverted, &Target::exact()).unwrap().to_string();
    assert!(steps.contains("reorder(C.k.p5, C.k.p6, C.k.p1)"), "{steps}");
    let steps = lower::strategy(&shaped, &m, &d, &Target::exact()).unwrap();
    let shown = steps.to_string();
    assert!(
        shown.contains(
            "privatize(C, C.k.p5, name: C.c5) ; (factor(C.c5, C.k.p6, name: C.c6, at: C.k.p1, combine: tree)"
        ),
        "{shown}"
    );
    computes_the_same(&module, &func, &shaped, &steps);
}

/// Runs a strategy of a product and compares it with the literal meaning.
fn product(m: &Model, written: &str) -> (String, Function) {
    let (module, func) = example("linear_algebra", "matmul");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("I", 8), ("J", 12), ("K", 10)])).unwrap();
    let mut d = text::parse(&h, m, written).unwrap();
    d.complete_from(&Decisions::plain(&shaped, m));
    let found = lathe_mdh::check(&shaped, m, &d, &|_| None);
    assert!(found.is_empty(), "{found:?}");
    let steps = lower::strategy(&shaped, m, &d, &Target::exact()).unwrap();
    let new = computes_the_same(&module, &func, &shaped, &steps);
    (steps.to_string(), new)
}

#[test]
fn phases_that_differ_get_nests_of_their_own() {
    let m = model("openmp");
    let (steps, new) = product(
        &m,
        "\
parts    [2 1 1] [2 3 2] [1 4 5] [2 1 1]
D1       [1 5 9] [2 6 10] [3 7 11] [4 8 12]
S1       [4 1 7] [5 2 8] [6 3 9] [10 11 12]
R1       [5 6 7] [8 9 2] [1 3 4] [10 11 12]
D4 A     [<2,1> <2,1> <2,1>] [<2,1> <2,1> <2,1>] [<2,1> <2,1> <2,1>] [<2,1> <2,1> <2,1>]
",
    );
    for part in [
        "materialize(C)",
        "accumulate(A, at: C.map.i, space: host, name: A.C.d, layout: permute(1, 0))",
        "reorder(copy(A).0.p1, copy(A).0.p2, copy(A).0.q2, copy(A).1.p2, copy(A).1.q1)",
        "reorder(C.map.j.p2, C.map.j.p3, C.map.i.p1, C.map.i.p2, C.map.k.p2, C.map.k.p3, C.map.i.p4)",
        "reorder(C.k.p2, C.j.p3, C.k.p3, C.i.p1, C.i.p2, C.j.p2, C.i.p4)",
    ] {
        assert!(steps.contains(part), "{part} is not in {steps}");
    }
    // No order of the inputs' copies matters where none is made.
    let (steps, _) =
        product(&m, "parts [8 12 10] [1 1 1] [1 1 1] [1 1 1]\nD1 [3 2 1] [4 5 6] [7 8 9] [10 11 12]");
    assert_eq!(steps, "reorder(C.i, C.j, C.k) ; fma(C)");
    let tree = lathe_ir::text::print_function(&new);
    assert!(tree.contains("alloc C.f") && tree.contains("alloc A.C.d"), "{tree}");
}

/// As an expert would: blocks of the results, tiles of both inputs in shared memory, which all threads copy.
#[test]
fn a_product_on_a_device_shares_its_tiles() {
    let (steps, new) = product(
        &model("cuda"),
        "\
parts    [1 1 5] [1 1 2] [1 1 1] [2 3 1] [4 4 1]
D1 S1 R1 [6 7 3] [8 9 15] [10 11 12] [1 2 13] [4 5 14]
D3 A     [DM DM DM] [SM SM SM] [SM SM SM] [DM DM SM] [SM SM SM]
D3 B     [DM DM DM] [SM SM SM] [SM SM SM] [DM DM SM] [SM SM SM]
S3 A     SM
S3 B     SM
",
    );
    for part in [
        "stage(A, at: C.k.p1, space: shared",
        "stage(B, at: C.k.p1, space: shared",
        "bind(copy(A).1.i, block)",
        "bind(C.i.p4, grid)",
        "bind(C.j.p5, block)",
    ] {
        assert!(steps.contains(part), "{part} is not in {steps}");
    }
    let tree = lathe_ir::text::print_function(&new);
    // A tile of A has no dimension j.
    assert!(tree.contains("[4, 2] shared") && tree.contains("[2, 4] shared"), "{tree}");
}

/// Threads that share a copy begin after it is made: what the loops between run through must fit as well.
#[test]
fn copies_that_are_made_further_outside_must_fit_there() {
    let (module, func) = example("patterns", "scan");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let m = model("cuda");
    let mut outcome = Vec::new();
    for between in [2, 64] {
        let shaped = h.at(&sizes(&[("N", 16 * between * 256)])).unwrap();
        let written = format!(
            "\
parts    [16] [{between}] [256] [1] [1]
D1 S1 R1 [1] [2] [3] [4] [5]
D2 S2 R2 [CC.x] [DEV.x] [SHR.x] [REG.x] [SMX.x]
D3 A     [DM] [DM] [SM] [SM] [SM]
S3 A     SM
"
        );
        let mut d = text::parse(&h, &m, &written).unwrap();
        d.complete_from(&Decisions::plain(&shaped, &m));
        let found = lathe_mdh::check(&shaped, &m, &d, &|_| None);
        assert!(found.is_empty(), "{found:?}");
        outcome.push(lower::strategy(&shaped, &m, &d, &Target::exact()).map_err(|e| (e.code, e.message)));
    }
    assert!(outcome[0].is_ok(), "{outcome:?}");
    let (code, message) = outcome.remove(1).unwrap_err();
    assert!(code == codes::CAPACITY && message.contains("1048576 bytes"), "{message}");
}

/// Cores inside of cores, and lanes, scan blocks of blocks.
#[test]
fn scans_are_cut_by_every_level_of_cores() {
    let (module, func) = example("patterns", "scan");
    let h = Homomorphism::of(&module, &func, None).unwrap();
    let shaped = h.at(&sizes(&[("N", 24)])).unwrap();
    let m = model("openmp_l3_simd");
    let mut d = text::parse(&h, &m, "parts [1] [1] [1] [1] [6] [4]").unwrap();
    d.complete_from(&Decisions::plain(&shaped, &m));
    let steps = lower::strategy(&shaped, &m, &d, &Target::exact()).unwrap();
    let shown = steps.to_string();
    for part in
        ["prescan(O.acc, O.i.p5)", "prescan(O.run, O.i.p6)", "vectorize(O.i.p6, 4)", "parallel(O.i.p5)"]
    {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    computes_the_same(&module, &func, &shaped, &steps);
}

#[test]
fn what_is_not_lowered_yet_says_so() {
    let h = crate::support::homomorphism("patterns", "scan");
    let shaped = h.at(&sizes(&[("N", 8)])).unwrap();
    let m = model("openmp_l3_simd");
    let mut d = text::parse(&h, &m, "parts [2] [4] [1] [1] [1] [1]\nS4 A <1,1>").unwrap();
    d.complete_from(&Decisions::plain(&shaped, &m));
    let e = lower::strategy(&shaped, &m, &d, &Target::exact()).unwrap_err();
    assert_eq!(e.code, codes::UNSUPPORTED);
    assert!(e.message.contains("layout"), "{e}");
}
