//! Homomorphisms for users: both notations, the step `mdh(…)`, the strategy `auto`.

use lathe::{Build, Engine, Function, How, Machine, Program, Schedule, StrategySource};
use lathe_mdh::Homomorphism;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FILES: [&str; 7] =
    ["linear_algebra", "convolution", "ccsdt", "stencils", "patterns", "histogram", "prl"];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mdh")
}

fn open(file: &str) -> Program {
    Program::open(examples().join(file)).unwrap_or_else(|f| panic!("{file}: {f}"))
}

/// What a homomorphism is, whatever its sizes are called: dimensions and operators, accesses, the scalar function.
fn meaning(p: &Program, f: &Function) -> String {
    let h = Homomorphism::of(&p.lang.module, f, None).unwrap_or_else(|d| panic!("{}: {d}", f.name));
    // Dimensions by name: index notation and the thesis order them differently.
    let mut order: Vec<usize> = (0..h.dims.len()).collect();
    order.sort_by_key(|d| h.dims[*d].name.clone());
    let dims: Vec<String> =
        order.iter().map(|d| format!("{} {:?}", h.dims[*d].name, h.dims[*d].combine)).collect();
    let views = |all: &[lathe_mdh::Operand]| -> String {
        let one = |o: &lathe_mdh::Operand| {
            let zero = std::collections::HashMap::new();
            let mut accesses: Vec<String> = o
                .accesses
                .iter()
                .map(|a| {
                    let one = |s: &lathe_mdh::Subscript| {
                        let by: Vec<i64> = order.iter().map(|d| s.coefficients[*d]).collect();
                        format!("{by:?}+{:?}", lathe::ir::interp::evaluate(&s.offset, &zero))
                    };
                    a.subscripts.iter().map(one).collect::<Vec<_>>().join(",")
                })
                .collect();
            accesses.sort();
            format!("{}: {} {}", o.name(), o.buffer.elem, accesses.join(" "))
        };
        all.iter().map(one).collect::<Vec<_>>().join("\n")
    };
    let scope = lathe::ir::text::Scope::of_function(f);
    let values: Vec<String> = h.values.iter().map(|e| lathe::ir::text::print_expr(e, &scope)).collect();
    format!("{dims:?}\n{}\n{}\n{values:?}", views(&h.inputs), views(&h.outputs))
}

#[test]
fn both_notations_give_one_computation() {
    let mut compared = 0;
    for file in FILES {
        let (mdh, lathe) = (open(&format!("{file}.mdh")), open(&format!("{file}.lathe")));
        for k in &mdh.lang.kernels {
            let (a, b) = (mdh.kernel(Some(&k.name)), lathe.kernel(Some(&k.name)));
            let (a, b) = (a.unwrap_or_else(|f| panic!("{f}")), b.unwrap_or_else(|f| panic!("{f}")));
            assert_eq!(meaning(&mdh, a), meaning(&lathe, b), "{file}: {}", k.name);
            compared += 1;
        }
    }
    assert!(compared >= 27, "{compared}");
}

#[test]
fn files_of_definitions_are_checked_and_say_where_they_are_wrong() {
    for file in FILES {
        let p = open(&format!("{file}.mdh"));
        let r = lathe::check_program(&p, &Machine::host());
        assert!(r.failures.is_empty() && r.kernels == p.lang.kernels.len(), "{file}: {}", r.failures[0]);
    }
    let p = open("linear_algebra.mdh");
    let t = &p.lang.kernels[3];
    assert_eq!((t.name.as_str(), t.doc.as_str()), ("matmul_t", "The same md_hom between other views."));
    let text =
        "f<N in IN> := out_view<f32>( O:(i)->(i) ) o md_hom<N>( id, (++,+) ) o inp_view<f32>( I:(i)->(i) )";
    let f = Program::from_text("f.mdh", text).unwrap_err();
    assert!(f.diagnostics[0].code.0 == "E1221" && !f.diagnostics[0].marks.is_empty(), "{f}");
}

#[test]
fn strategies_stand_beside_definitions() {
    let definition = "f<N in IN> :=\n    out_view<f32>( O:(i)->(i) )\n  o md_hom<N>( id, (++) )\n  o inp_view<f32>( I:(i)->(i) )\n";
    let p = Program::from_text(
        "f.mdh",
        &format!("{definition}\nstrategy s(t = 8 in 4..=16) for f =\n    split(i, t)\n"),
    );
    let p = p.unwrap_or_else(|f| panic!("{f}"));
    let how = How { strategy: Some("s".to_string()), ..How::default() };
    let s = scheduled(&p, "f", &how).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(s.strategy, "s");
    let f =
        Program::from_text("f.mdh", &format!("{definition}\nstrategy s for g = split(i, 8)\n")).unwrap_err();
    assert!(f.diagnostics[0].code.0 == "E0222" && !f.diagnostics[0].marks.is_empty(), "{f}");
}

fn sizes(of: &[(&str, i64)]) -> BTreeMap<String, i64> {
    of.iter().map(|(n, v)| (n.to_string(), *v)).collect()
}

fn scheduled(p: &Program, kernel: &str, how: &How) -> Result<Schedule, String> {
    let f = p.kernel(Some(kernel)).map_err(|f| f.to_string())?;
    lathe::schedule(p, f, how, &Machine::host()).map_err(|f| f.to_string())
}

#[test]
fn auto_runs_where_sizes_are_known_and_nothing_else_is_named() {
    let p = open("linear_algebra.lathe");
    let how = How { sizes: sizes(&[("I", 64), ("J", 96), ("K", 32)]), ..How::default() };
    let s = scheduled(&p, "matmul", &how).unwrap();
    assert_eq!((s.strategy.as_str(), s.source), ("auto", StrategySource::Auto));
    assert_eq!(s.versions.len(), 2, "one for these sizes, one for all others");
    assert_eq!(s.versions[0].baked, how.sizes);
    let taken = &s.versions[0].taken;
    let c = &taken.computes[0];
    assert!(
        c.compute == "C" && c.fixed == 0 && c.decisions.contains("parts") && s.notes().is_empty(),
        "{c:?}"
    );
    // What it chose can be said as a step, and is then the same.
    let text = format!("{}\nstrategy said for matmul = {}", LINEAR, c.step);
    let q = Program::from_text("f.lathe", &text).unwrap_or_else(|f| panic!("{f}\n{text}"));
    let again = scheduled(&q, "matmul", &How { strategy: Some("said".to_string()), ..how.clone() }).unwrap();
    let said = &again.versions[0].taken;
    assert_eq!((said.strategy.as_str(), said.computes[0].fixed), (taken.strategy.as_str(), c.entries));
    // Formatting keeps it.
    let laid = lathe::lang::format(&text).unwrap();
    assert_eq!(lathe::lang::format(&laid).unwrap(), laid);
    // Who writes a `naive` of his own gets it.
    let text = format!("{LINEAR}\nstrategy naive for matmul = open");
    let q = Program::from_text("f.lathe", &text).unwrap_or_else(|f| panic!("{f}\n{text}"));
    assert_eq!(scheduled(&q, "matmul", &how).unwrap().source, StrategySource::Naive);
}

/// Sizes that nobody gave are taken as large; what comes out is right for all.
#[test]
fn decisions_are_taken_for_any_sizes() {
    let text = "kernel matmul(A: i32[I, K], B: i32[K, J]) -> (C: i32[I, J]) {
    C[i, j] = sum[k](A[i, k] * B[k, j])
}
kernel blur(x: i32[N], w: i32[R]) -> (y: i32[N - R + 1]) {
    assume(N >= R)
    y[i] = sum[r](x[i + r] * w[r])
}";
    let p = Program::from_text("f.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    for (kernel, all) in [
        ("matmul", vec![("I", 37), ("J", 41), ("K", 19)]),
        ("matmul", vec![("I", 1), ("J", 5), ("K", 0)]),
        ("matmul", vec![("I", 0), ("J", 5), ("K", 3)]),
        ("blur", vec![("N", 200), ("R", 5)]),
        ("blur", vec![("N", 4), ("R", 4)]),
    ] {
        let all = sizes(&all);
        let any = scheduled(&p, kernel, &How::default()).unwrap_or_else(|f| panic!("{kernel}: {f}"));
        assert_eq!(any.source, StrategySource::Auto);
        assert!(any.notes()[0].contains("1024"), "{:?}", any.notes());
        assert!(any.versions.iter().all(|v| v.baked.is_empty()), "{:?}", any.notes());
        let naive = How { strategy: Some("naive".to_string()), ..How::default() };
        let want = run(&scheduled(&p, kernel, &naive).unwrap(), 0, &all);
        for n in 0..any.versions.len() {
            assert_eq!(run(&any, n, &all), want, "{kernel} {all:?}");
        }
    }
}

const LINEAR: &str = "kernel matmul(A: f32[I, K], B: f32[K, J]) -> (C: f32[I, J]) {
    C[i, j] = sum[k](A[i, k] * B[k, j])
}";

#[test]
fn what_is_no_homomorphism_stays_as_written_and_says_why() {
    let p = Program::from_text(
        "f.lathe",
        "kernel prefix(x: f32[N]) -> (y: f32[N], z: f32[N]) {
            y[i] = 2 * x[i]
            for i in 0..N { z[i] = y[i] }
        }
        kernel gather(x: f32[N], at: i32[N]) -> (y: f32[N]) { y[i] = x[at[i]] }",
    )
    .unwrap();
    let how = How { sizes: sizes(&[("N", 40)]), strategy: Some("auto".to_string()), ..How::default() };
    let s = scheduled(&p, "gather", &how).unwrap();
    assert!(s.notes()[0].contains("E1205") && s.versions[0].taken.computes.is_empty(), "{:?}", s.notes());
    let s = scheduled(&p, "prefix", &how).unwrap();
    assert_eq!(s.versions[0].taken.computes.len(), 1, "{:?}", s.notes());
}

/// What a version computes, in the interpreter.
fn run(s: &Schedule, version: usize, n: &BTreeMap<String, i64>) -> Vec<Vec<u8>> {
    use lathe::ir::interp::{self, ArrayValue, Options, Order, evaluate};
    let f = &s.versions[version].func;
    let known = s.plain.sizes.iter().map(|b| (b.id, n[&*b.name])).collect();
    let mut args = Vec::new();
    for p in &s.plain.params {
        let b = p.array().expect("arrays only");
        let shape: Vec<usize> =
            b.extents.iter().map(|e| evaluate(e, &known).expect("an extent") as usize).collect();
        let values: Vec<i64> = (0..shape.iter().product::<usize>() as i64).map(|v| v * 7 % 5 - 2).collect();
        let array = ArrayValue::from_i64(b.elem.scalar().expect("numbers"), &shape, &values);
        args.push(if p.mode == lathe::ir::Mode::In {
            array
        } else {
            ArrayValue::undefined(b.elem.clone(), &shape)
        });
    }
    let options = Options { order: Order::Seed(3), races: true, ..Options::default() };
    interp::run(&s.module, f, &mut args, &options)
        .unwrap_or_else(|e| panic!("{e}\n{}", lathe::ir::text::print_function(f)));
    args.iter()
        .zip(&s.plain.params)
        .filter(|(_, p)| p.mode != lathe::ir::Mode::In)
        .map(|(a, _)| a.bytes().to_vec())
        .collect()
}

#[test]
fn funs_become_statements_where_they_are_some() {
    let text = "
fun dot(xs: i32[K], ys: i32[K]) -> i32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
fun mm(a: i32[M, K], b: i32[K, N]) -> i32[M, N] =
    a |> map(|row| transpose(b) |> map(|col| dot(row, col)))
fun twice(xs: i32[N]) -> i32[N] = xs |> map(|x| x + x)
fun total(xs: i32[N]) -> i32 = xs |> reduceSeq(add, 0)
strategy naive for total = lower
";
    let p = Program::from_text("f.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    let all = sizes(&[("M", 13), ("N", 35), ("K", 9)]);
    let auto = |known: &BTreeMap<String, i64>| How {
        strategy: Some("auto".to_string()),
        sizes: known.clone(),
        ..How::default()
    };
    for fun in ["dot", "mm", "twice"] {
        let known = scheduled(&p, fun, &auto(&all)).unwrap_or_else(|f| panic!("{fun}: {f}"));
        assert_eq!((known.strategy.as_str(), known.versions.len()), ("auto", 2), "{:?}", known.notes());
        assert_eq!(known.versions[0].taken.computes.len(), 1, "{:?}", known.notes());
        let want = run(&known, 1, &all);
        assert_eq!(run(&known, 0, &all), want, "{fun}");
        let any = scheduled(&p, fun, &auto(&BTreeMap::new())).unwrap();
        assert_eq!(any.versions[0].taken.computes.len(), 1, "{:?}", any.notes());
        assert_eq!(run(&any, 0, &all), want, "{fun}");
        let k = p.kernel(Some(fun)).unwrap();
        for s in [&known, &any] {
            let v = &s.versions[0];
            let how = if v.baked.is_empty() { How::default() } else { auto(&all) };
            let again = lathe::replay(&p, k, &how, v.condition.as_ref(), &v.baked, &v.steps);
            let again = again.unwrap_or_else(|f| panic!("{fun}: {f}"));
            assert_eq!(lathe::poly::simplify::simplify_function(&again), v.func, "{fun}");
        }
    }
    let s = scheduled(&p, "total", &auto(&all)).unwrap();
    assert!(!s.notes().is_empty(), "{:?}", s.notes());
}

fn refused(step: &str) -> String {
    let text = format!("{LINEAR}\nstrategy s for matmul = {step}");
    let p = Program::from_text("f.lathe", &text).unwrap_or_else(|f| panic!("{f}"));
    let how = How {
        sizes: sizes(&[("I", 16), ("J", 32), ("K", 8)]),
        strategy: Some("s".to_string()),
        ..How::default()
    };
    let f = p.kernel(None).unwrap_or_else(|f| panic!("{f}"));
    let f = lathe::schedule(&p, f, &how, &Machine::host()).expect_err(step);
    let d = &f.diagnostics[0];
    let mark = &d.marks.first().unwrap_or_else(|| panic!("{step}: no place: {d}")).span;
    format!("{} {} @{}", d.code, d.message, &text[mark.start as usize..mark.end as usize])
}

#[test]
fn wrong_decisions_are_refused_by_rule_decision_and_level_at_their_place() {
    for (step, code, words, place) in [
        ("mdh(tiles: full, parts.i.MM: 3)", "E1211", "#PRT", "parts.i.MM: 3"),
        ("mdh(parts.x.MM: 2)", "E1204", "no dimension `x`", "parts.x.MM: 2"),
        ("mdh(parts.i.L9: 2)", "E1204", "no layer `L9`", "parts.i.L9: 2"),
        ("mdh(parts.i.MM: 0)", "E1211", "level (", "parts.i.MM: 0"),
        ("mdh(model: openmp, D1: \"[1 1 3] [4 5 6] [7 8 9] [10 11 12]\")", "E1212", "D1", "D1: "),
        ("mdh(model: openmp, D3.A: \"[XX _ _] [_ _ _] [_ _ _] [_ _ _]\")", "E1214", "no region `XX`", "D3.A"),
        ("mdh(model: abacus)", "E1202", "abacus", "mdh("),
        ("mdh(colour: 3)", "E1203", "colour", "colour: 3"),
        ("mdh(of: X)", "E1206", "computes", "mdh(of: X)"),
        ("mdh(\"parts [1 2]\")", "E1204", "layers", "\"parts [1 2]\""),
        ("mdh(parts.i.MM: t)", "E1203", "fixes no decision", "parts.i.MM: t"),
    ] {
        let r = refused(step);
        assert!(
            r.starts_with(code)
                && r.contains(words)
                && r.split('@').nth(1).is_some_and(|p| p.contains(place)),
            "{step}: {r}"
        );
    }
}

#[test]
fn entries_may_be_parameters_and_a_choice_takes_what_is_valid() {
    let text = format!(
        "{LINEAR}
        strategy s(t = 4 in {{2, 4, 8}}) for matmul = mdh(parts.i.MM: t)
        strategy either for matmul = mdh(tiles: full, parts.i.MM: 3) <+ mdh(parts.i.MM: 2)
        strategy outer for matmul = s(2)"
    );
    let p = Program::from_text("f.lathe", &text).unwrap_or_else(|f| panic!("{f}"));
    let how = |s: &str| How {
        sizes: sizes(&[("I", 16), ("J", 32), ("K", 8)]),
        strategy: Some(s.to_string()),
        ..How::default()
    };
    let of = |h: How| scheduled(&p, "matmul", &h).unwrap().versions[0].taken.computes[0].decisions.clone();
    // The number that stands for rows in memory, wherever the cost model's order of layers has it.
    let parts = |d: &str, n: u64| {
        let rows = d.lines().find(|l| l.starts_with("parts")).unwrap_or_default().to_string();
        assert!(rows.split('[').skip(1).any(|l| l.starts_with(&format!("{n} "))), "{n}: {d}");
    };
    parts(&of(how("s")), 4);
    parts(&of(how("outer")), 2);
    parts(&of(how("either")), 2);
    let set = How { params: [("t".to_string(), "8".to_string())].into(), ..how("s") };
    parts(&of(set), 8);
}

#[test]
fn reductions_over_one_array_read_it_once() {
    let text = "kernel stats(x: i64[N], w: i64[N]) -> (s: i64, m: i64, q: i64, r: i64) {
            s = sum[i](x[i])
            m = max[i](x[i])
            q = sum[k](x[k] * w[k])
            r = 2 * sum[i](x[i])
        }";
    let p = Program::from_text("stats.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    let of = |strategy: Option<&str>, threads: u64, n: i64| {
        let how = How { sizes: sizes(&[("N", n)]), strategy: strategy.map(str::to_string), ..How::default() };
        let machine = Machine { threads, l2_bytes: 4096, ..Machine::host() };
        let f = p.kernel(Some("stats")).unwrap_or_else(|f| panic!("{f}"));
        lathe::schedule(&p, f, &how, &machine).unwrap_or_else(|f| panic!("{f}"))
    };
    for (threads, n) in [(1, 100_000), (3, 100_001)] {
        let (s, naive) = (of(None, threads, n), of(Some("naive"), threads, n));
        let strategy = &s.versions[0].taken.strategy;
        assert!(strategy.contains("fuse(s.i, m.i)") && strategy.contains("fuse(s.i, q.k)"), "{strategy}");
        assert!(strategy.contains("factor") && strategy.contains("vectorize"), "{strategy}");
        assert_eq!(strategy.contains("parallel"), threads > 1, "{strategy}");
        let at = sizes(&[("N", n)]);
        assert_eq!(run(&s, 0, &at), run(&naive, 0, &at));
    }
    // What one cache holds is no reason.
    let strategy = of(None, 1, 200).versions[0].taken.strategy.clone();
    assert!(!strategy.contains("fuse"), "{strategy}");
}

#[test]
fn sums_over_rows_with_checks_stay_in_registers() {
    let text = "kernel csr(v: f64[Z], column: i32[Z], start: index[M + 1], x: f64[N]) -> (y: f64[M]) {
            for i in 0..M {
                y[i] = 0
                for k in start[i]..start[i + 1] { y[i] += v[k] * x[column[k]] }
            }
        }";
    let p = Program::from_text("csr.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    let s = scheduled(&p, "csr", &How::default()).unwrap();
    let strategy = &s.versions[0].taken.strategy;
    assert!(strategy.contains("accumulate(y, at: y.2.k)"), "{strategy}");
}

/// Code for any sizes, at sizes around each tile: rows and columns that tiles leave over are in registers, too.
#[test]
fn code_for_any_sizes_is_right_around_each_tile() {
    use lathe::tests_of::{Runner, run_test};
    let sides = [0, 1, 2, 3, 5, 7, 8, 9, 13, 14, 15, 16, 17, 31, 33, 65, 127, 129, 143];
    let pool = lathe::Pool::new(2).unwrap();
    let mut machines = vec![Machine::host()];
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx512f") {
        machines.push(Machine::named("x86-64-v3").unwrap());
    }
    for (ty, machine) in ["f32", "f64"].iter().flat_map(|ty| machines.iter().map(move |m| (ty, m.clone()))) {
        let mut text = format!(
            "kernel product(A: {ty}[M, K], B: {ty}[K, N]) -> (C: {ty}[M, N]) {{\n    C[i, j] = sum[k](A[i, k] * B[k, j])\n}}\n"
        );
        for (n, m) in sides.iter().enumerate() {
            for at in [0, 5, 11] {
                let (n, k) = (sides[(n * 7 + at) % sides.len()], [19, 0, 1, 5][(n + at) % 4]);
                text += &format!(
                    "test \"{m} {n} {k}\" for product {{\nM = {m}, N = {n}, K = {k}\nA = random(1)\nB = random(2)\n\
                     expect C[i, j] = sum[l](A[i, l] * B[l, j]) within 1e-4\n}}\n"
                );
            }
        }
        let p = Program::from_text("f.lathe", &text).unwrap_or_else(|f| panic!("{f}"));
        let machine = Machine { threads: 1, ..machine };
        let how = How { strategy: Some("auto".to_string()), ..How::default() };
        let s = lathe::schedule(&p, p.kernel(Some("product")).unwrap(), &how, &machine).unwrap();
        let tree: String = s.versions.iter().map(|v| lathe::ir::text::print_function(&v.func)).collect();
        assert!(tree.contains(".rest in 0..M - i.p5.rest * "), "{tree}");
        for engine in [Engine::LLVM, Engine::C] {
            if engine == Engine::LLVM && !cfg!(feature = "llvm") || engine == Engine::C && *ty != "f32" {
                continue;
            }
            let build = Build { engine, opt_level: 1, machine: Some(machine.clone()), ..Build::default() };
            let built = lathe::compile(&s, &build).unwrap();
            for t in &p.lang.tests {
                let run = run_test(&p, t, Runner::Built { built: &built, pool: &pool });
                assert!(
                    run.is_ok(),
                    "{ty} {} by {engine:?} on {}: {}",
                    t.name,
                    machine.name,
                    run.unwrap_err()
                );
            }
        }
    }
}

/// Where sizes are unknown, arrays that no cache holds have code of their own: results pass by the caches, sums run in blocks, and
/// the next results are fetched meanwhile. It is right for small ones, too.
#[test]
fn code_for_any_sizes_has_a_version_for_arrays_that_no_cache_holds() {
    let text = "kernel both(a: f32[N], b: f32[N]) -> (c: f32[N]) { c[i] = a[i] + b[i] }
kernel product(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }";
    let p = Program::from_text("f.lathe", text).unwrap_or_else(|f| panic!("{f}"));
    let machine =
        Machine { threads: 1, l2_bytes: 2 << 20, l3_bytes: 32 << 20, ..Machine::named("x86-64-v4").unwrap() };
    let made = |kernel: &str, strategy: &str| {
        let how = How { strategy: Some(strategy.to_string()), ..How::default() };
        lathe::schedule(&p, p.kernel(Some(kernel)).unwrap(), &how, &machine).unwrap()
    };
    let tree = |s: &Schedule, n: usize| lathe::ir::text::print_function(&s.versions[n].func);
    for (kernel, what, all) in [
        ("both", "nontemporal", vec![("N", 4096)]),
        ("product", "prefetch C", vec![("M", 4096), ("K", 4096), ("N", 4096)]),
    ] {
        let s = made(kernel, "auto");
        let runs = |n: &BTreeMap<String, i64>| {
            let value = |name: &str| n.get(name).map(|v| lathe_space::Value::Int(*v));
            let holds =
                |c: &lathe_space::Expr| lathe_space::eval(c, &value) == Ok(lathe_space::Value::Bool(true));
            s.versions.iter().position(|v| v.condition.as_ref().is_none_or(holds)).unwrap()
        };
        let far =
            all.iter().map(|(n, v)| (n.to_string(), if kernel == "both" { v << 14 } else { *v })).collect();
        assert!(tree(&s, runs(&far)).contains(what), "{kernel}\n{}", tree(&s, runs(&far)));
        // A copy of a matrix for a few rows takes as long as their product.
        if kernel == "product" {
            let rows = sizes(&[("M", 16), ("K", 2048), ("N", 1000)]);
            let taken = &s.versions[runs(&rows)].taken.strategy;
            assert!(!taken.contains("(B, at: "), "{taken}");
        }
        let near = all.iter().map(|(n, _)| (n.to_string(), 300)).collect();
        assert!(!tree(&s, runs(&near)).contains(what), "{kernel}\n{}", tree(&s, runs(&near)));
        let few = all.iter().map(|(n, _)| (n.to_string(), 7)).collect();
        let want = run(&made(kernel, "naive"), 0, &few);
        for n in 0..s.versions.len() {
            assert_eq!(run(&s, n, &few), want, "{kernel} {n}");
        }
    }
}

/// Few rows beside a matrix of which each thread reads its part once: columns go to threads, and rows of the matrix are read some at a
/// time. With more rows a side is packed.
#[test]
fn code_for_any_sizes_on_threads_has_a_version_for_few_rows() {
    let p = Program::from_text("f.lathe", LINEAR).unwrap_or_else(|f| panic!("{f}"));
    for (base, threads, rows) in [("x86-64-v4", 2, 16), ("x86-64-v4", 4, 16), ("x86-64-v3", 2, 10)] {
        let machine = Machine {
            threads,
            l1_bytes: 48 << 10,
            l1_ways: 12,
            l2_bytes: 2 << 20,
            l3_bytes: 64 << 20,
            vector_units: 2,
            ..Machine::named(base).unwrap()
        };
        let of = |strategy: &str| {
            let how = How { strategy: Some(strategy.to_string()), ..How::default() };
            lathe::schedule(&p, p.kernel(Some("matmul")).unwrap(), &how, &machine).unwrap()
        };
        let s = of("auto");
        let taken = |all: [i64; 3]| {
            let all = sizes(&[("I", all[0]), ("K", all[1]), ("J", all[2])]);
            let value = |name: &str| all.get(name).map(|v| lathe_space::Value::Int(*v));
            let holds =
                |c: &lathe_space::Expr| lathe_space::eval(c, &value) == Ok(lathe_space::Value::Bool(true));
            s.versions.iter().position(|v| v.condition.as_ref().is_none_or(holds)).unwrap()
        };
        let strategy = |n: usize| s.versions[n].taken.strategy.clone();
        // Also where no size is as large as those of the examples: there is as much to do.
        for all in [[rows, 1000, 2048], [rows, 2048, 1000]] {
            let few = strategy(taken(all));
            assert!(
                few.contains("split(C.k") && few.contains("parallel(C.j") && !few.contains("(B, at: "),
                "{all:?}: {few}"
            );
        }
        let many = strategy(taken([1024; 3]));
        assert!(many.contains("space: host") && !many.contains("split(C.k"), "{many}");
        let all = sizes(&[("I", 19), ("K", 37), ("J", 70)]);
        let want = run(&of("naive"), 0, &all);
        assert_eq!(run(&s, taken([rows, 1000, 2048]), &all), want);
    }
}
