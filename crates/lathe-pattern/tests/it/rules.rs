//! Every rule, on random programs and at every place: where it applies the program keeps its type and its
//! value; elsewhere it fails, and nothing more.

use crate::support::{Random, arguments};
use lathe_pattern::eval::{evaluate, sizes};
use lathe_pattern::language::TermState;
use lathe_pattern::library::{transform, vocabulary};
use lathe_pattern::rules::{EQUATIONS, parse_equations};
use lathe_pattern::{Program, Term, check, check::same_type, program};
use lathe_strategy::rewrite::replace_at;
use lathe_strategy::{Entry, StepArg, Why};
use std::collections::BTreeMap;

/// A random pipeline over an array of small extents.
fn random_program(r: &mut Random) -> Program {
    let mut dims: Vec<usize> = (0..1 + r.below(3)).map(|_| [1, 2, 3, 4, 6][r.below(5)]).collect();
    let first = dims.clone();
    let mut e = "xs".to_string();
    let scalar = |r: &mut Random| {
        [
            "|x| x * 2 + 1",
            "|x| x",
            "|x| max(x, 1)",
            "neg",
            "|x| select(x < 2, x, 3)",
            "|x| (x, 1.0).0",
            "|x| 1.0",
        ][r.below(7)]
        .to_string()
    };
    fn maps(d: usize, f: &str, r: &mut Random) -> String {
        (0..d).fold(f.to_string(), |f, n| {
            if r.below(2) == 0 { format!("map({f})") } else { format!("(|y{n}| y{n} |> map({f}))") }
        })
    }
    for _ in 0..2 + r.below(5) {
        let rank = dims.len();
        match r.below(15) {
            0 | 1 => {
                let f = scalar(r);
                e = format!("{e} |> {}", maps(rank, &f, r));
            }
            2 if rank >= 2 => {
                let d = r.below(rank - 1);
                dims.swap(d, d + 1);
                e = format!("{e} |> {}", maps(d, "transpose", r));
            }
            3 if rank >= 2 => {
                let d = r.below(rank - 1);
                let n = dims.remove(d);
                dims[d] *= n;
                e = format!("{e} |> {}", maps(d, "join", r));
            }
            4 | 5 if rank <= 3 => {
                let d = r.below(rank);
                let n = [1, 2, 3][r.below(3)];
                if dims[d].is_multiple_of(n) {
                    let chunk = format!("split({n})");
                    dims[d] /= n;
                    dims.insert(d + 1, n);
                    e = format!("{e} |> {}", maps(d, &chunk, r));
                }
            }
            6 if rank >= 2 => {
                dims.pop();
                let op = [
                    "reduce(add, 0)",
                    "reduce(|a, b| a + b, 0)",
                    "reduce(max, 0)",
                    "reduceSeq(|a, x| a + 2 * x, 1)",
                ][r.below(4)];
                e = format!("{e} |> {}", maps(rank - 1, op, r));
            }
            7 => {
                dims[0] += 2;
                e = format!("{e} |> pad(1, 1, {})", ["clamp", "mirror", "wrap"][r.below(3)]);
            }
            8 if rank <= 2 && dims[0] >= 2 => {
                let n = dims[0];
                let (sz, st) =
                    if n >= 3 && (n - 3).is_multiple_of(2) && r.below(2) == 0 { (3, 2) } else { (2, 1) };
                dims[0] = (n - sz + st) / st;
                dims.insert(1, sz);
                e = format!("{e} |> slide({sz}, {st})");
            }
            9 => {
                let n = dims[0];
                e = format!("{e} |> gather(|i| asIndex({n}, {n} - 1 - index(i)))");
            }
            10 if rank == 1 => {
                e = format!("zip({e}, generate({}, |i| f64(index(i)))) |> map(|(a, b)| a + b)", dims[0])
            }
            12 if rank >= 2 => {
                dims[1] += 2;
                let f = maps(rank - 1, "|x| x + 2", r);
                e = format!("{e} |> map(|r| r |> pad(1, 1, clamp) |> {f})");
            }
            13 if rank >= 2 => {
                let f = maps(rank - 1, "|x| x * 3", r);
                let reduced = if rank == 2 { "reduce(add, 0)" } else { "map(reduce(add, 0))" };
                dims.pop();
                if rank <= 3 {
                    e = format!("{e} |> map(|r| r |> {f} |> {reduced})");
                } else {
                    dims.push(1);
                    return program("fun f(xs: f64[3]) -> f64 = xs |> map(|x| x + 1) |> reduce(add, 0)")
                        .unwrap();
                }
            }
            14 if rank == 1 => e = format!("zip({e}, {e}) |> map({})", ["fst", "snd", "|p| p.1"][r.below(3)]),
            11 => e = format!("iterate(2, {}, {e})", maps(rank, "|x| x + 1", r)),
            _ => {}
        }
        if dims.iter().product::<usize>() > 400 {
            break;
        }
    }
    let show = |d: &[usize]| d.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("fun f(xs: f64[{}]) -> f64[{}] = {e}", show(&first), show(&dims));
    program(&text).unwrap_or_else(|d| panic!("{text}: {d}"))
}

/// All places of a term.
fn places(t: &Term, path: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
    out.push(path.clone());
    for n in 0..t.children().len() {
        path.push(n);
        places(t.child(n).unwrap(), path, out);
        path.pop();
    }
}

fn argument_lists(rule: &str) -> Vec<Vec<i64>> {
    match rule {
        "split" | "splitJoin" | "joinSplit" | "splitReduceSeq" | "blockReduce" | "vectorize"
        | "vectorizeMasked" => {
            vec![vec![1], vec![2], vec![3]]
        }
        "tileSlide" | "tileSlideRest" => vec![vec![3], vec![4], vec![5]],
        _ => vec![vec![]],
    }
}

fn step_args(rule: &str, numbers: &[i64]) -> Vec<StepArg> {
    let word = |w: &str| StepArg { name: None, value: lathe_space::Expr::Name(w.to_string()), span: None };
    match rule {
        "storeIn" | "accumulateIn" | "storeIntermediate" => vec![word("stack")],
        _ => numbers.iter().map(|n| StepArg { name: None, value: (*n).into(), span: None }).collect(),
    }
}

#[test]
fn item_25_rules_keep_types_and_values_and_fail_elsewhere() {
    let words = vocabulary();
    let mut applied: BTreeMap<String, usize> = BTreeMap::new();
    let mut r = Random(0x1234_5678_9abc_def1);
    for round in 0..160 {
        let p = random_program(&mut r);
        let s = sizes([]);
        let args = arguments(&p, &s, round + 1);
        let want = evaluate(&p, &s, &args).unwrap_or_else(|d| panic!("{}: {d}", p.term));
        let forms =
            [p.term.clone(), transform(&p, "DFNF").unwrap().1.tree, transform(&p, "RNF").unwrap().1.tree];
        for term in &forms {
            let mut all = Vec::new();
            places(term, &mut Vec::new(), &mut all);
            for rule in words.rules() {
                let Some(Entry::Rule(f)) = words.get(rule) else { continue };
                for numbers in argument_lists(rule) {
                    let list = step_args(rule, &numbers);
                    // Rules that apply nearly everywhere are tried at some places only.
                    let everywhere = matches!(
                        rule,
                        "addId" | "etaAbstraction" | "storeIn" | "DFNF" | "copyByMap" | "writeCopies"
                    );
                    let chosen: Vec<_> = all.iter().filter(|_| !everywhere || r.below(20) == 0).collect();
                    for path in chosen {
                        let focus = term.at(path).unwrap();
                        let mut state = TermState::new(&p.facts);
                        match f(focus, &mut state, &list) {
                            Err(Why::Mistake(m)) => panic!("{rule} on {focus}: {m}"),
                            Err(_) => {}
                            Ok(new) => {
                                let count = applied.entry(rule.to_string()).or_insert(0);
                                *count += 1;
                                if *count > 60 && r.below(20) > 0 {
                                    continue;
                                }
                                assert!(
                                    same_type(&state.facts, focus.ty(), new.ty()),
                                    "{rule}: {} became {}\n{focus}\n{new}",
                                    focus.ty(),
                                    new.ty()
                                );
                                let whole = replace_at(term, path, &new);
                                let q = p.with_term(whole, state.facts.all().to_vec());
                                check::check(&q.facts, &q.term, &[])
                                    .unwrap_or_else(|d| panic!("{rule} on {focus} in {term}: {d}"));
                                let got = evaluate(&q, &s, &args);
                                let got = got.unwrap_or_else(|d| panic!("{rule} on {focus} in {term}: {d}"));
                                assert_eq!(got, want, "{rule} on {focus}\n gives {new}\n in {term}");
                            }
                        }
                    }
                }
            }
        }
    }
    // Every rule that random programs can meet was met.
    let rare = [
        "toScanSeq",
        "useFma",
        "toIterateSeq",
        "slideToSplit",
        "removeId",
        "idToTranspose",
        "accumulateIn",
        "exchangeReduces",
        "sinkReduce",
        "viewOutOfMem",
    ];
    let equations: Vec<String> = parse_equations(EQUATIONS).unwrap().into_iter().map(|e| e.name).collect();
    let missed: Vec<&str> = words
        .rules()
        .into_iter()
        .filter(|r| !applied.contains_key(*r) && !rare.contains(r) && !equations.iter().any(|e| e == r))
        .collect();
    assert!(missed.is_empty(), "never applied: {missed:?}\n{applied:?}");
}

/// A rule on a program written for it: applies, keeps type and value.
fn shown(rule: &str, text: &str) -> Program {
    shown_after(&format!("topDown({rule})"), text)
}

fn shown_after(rule: &str, text: &str) -> Program {
    let p = program(text).unwrap_or_else(|d| panic!("{text}: {d}"));
    let (q, _) = transform(&p, rule).unwrap_or_else(|d| panic!("{rule} on {text}: {d}"));
    assert_ne!(p.term, q.term);
    check::check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{rule}: {d}"));
    let s = sizes([("N", 12), ("M", 4), ("K", 6)]);
    for seed in 1..4 {
        let args = arguments(&p, &s, seed);
        assert_eq!(evaluate(&p, &s, &args).unwrap(), evaluate(&q, &s, &args).unwrap(), "{rule}: {}", q.term);
    }
    q
}

#[test]
fn rules_that_random_programs_do_not_meet() {
    shown("toScanSeq", "fun f(xs: f32[N]) -> f32[N] = scan(add, 0, xs)");
    shown("toIterateSeq", "fun f(xs: f32[N]) -> f32[N] = iterate(2, map(|x| x + 1), xs)");
    shown("useFma", "fun f(x: f32, y: f32) -> f32 = x * y + 1");
    shown("unzipZip", "fun f(x: f32[N], y: f32[N]) -> (f32[N], f32[N]) = unzip(zip(x, y))");
    shown("zipUnzip", "fun f(p: (f32, f32)[N]) -> (f32, f32)[N] = zip(fst(unzip(p)), snd(unzip(p)))");
    shown("asVectorScalar", "fun f(x: f32[12]) -> f32[12] = asScalar(asVector(4, x))");
    shown("slideToSplit", "fun f(x: f32[12]) -> f32[3, 4] = slide(4, 4, x)");
    shown("removeId", "fun f(x: f32[12]) -> f32[12] = id(x)");
    shown("idToTranspose", "fun f(x: f32[N, M]) -> f32[N, M] = id(x)");
    shown("accumulateIn(stack)", "fun f(x: f32[N]) -> f32 = x |> reduceSeq(|a, y| a + y, 0)");
    shown(
        "liftReduce",
        "fun f(x: f32[N, M], z: f32[N]) -> f32[N] = zip(x, z) |> map(|(r, s)| r |> reduce(add, s))",
    );
    // The operator depends on the element.
    shown(
        "liftReduce",
        "fun f(x: f32[N, M], z: f32[N]) -> f32[N] = zip(x, z) |> map(|p| p.0 |> reduceSeq(|a, y| a - y * p.1, 0))",
    );
    // An operator and an element function that do not commute.
    shown(
        "liftReduce",
        "fun f(x: f32[N, M], z: f32[M]) -> f32[N] = x |> map(|r| zip(z, r) |> reduceSeq(|a, (u, v)| u - v - a, 0))",
    );
}

#[test]
fn equations_print_and_bad_ones_are_refused() {
    assert_eq!(parse_equations(EQUATIONS).unwrap().len(), 22);
    for bad in ["rule f map(f) => f", "rule f(x): map(", "rule g(x: x => x"] {
        assert_eq!(parse_equations(bad).unwrap_err().code.0, "E1101", "{bad}");
    }
    // A rule whose sides have different types never applies.
    let wrong = parse_equations("rule wrong(x): transpose(x) => x").unwrap().remove(0);
    let p = program("fun f(x: f32[N, M]) -> f32[M, N] = transpose(x)").unwrap();
    let body = p.term.child(0).unwrap();
    let failed = wrong.apply(body, &mut TermState::new(&p.facts));
    assert!(matches!(failed, Err(Why::Condition(_))), "{failed:?}");
    // Unknown names of sizes and free metavariables on the right are no crash.
    let open = parse_equations("rule open(x): transpose(x) => y").unwrap().remove(0);
    assert!(open.apply(body, &mut TermState::new(&p.facts)).is_err());
}

#[test]
fn item_26_blocking_demands_associativity_and_a_neutral_start() {
    let fun = |op: &str, z: &str| format!("fun f(xs: f32[N]) -> f32 = xs |> reduce({op}, {z})");
    shown("blockReduce(4)", &fun("add", "0"));
    shown("blockReduce(4)", &fun("mul", "1"));
    shown("splitReduceSeq(4)", &fun("|a, b| a - b", "7"));
    for (op, z) in [("add", "1"), ("|a, b| a - b", "0"), ("mul", "0")] {
        let p = program(&fun(op, z)).unwrap();
        assert!(transform(&p, "topDown(blockReduce(4))").is_err(), "{op} {z}");
    }
}

#[test]
fn item_27_fusion_of_reduce_and_map_is_heterogeneous() {
    let q = shown("fuseReduceMap", "fun f(xs: i32[N]) -> f32 = xs |> map(|x| f32(x)) |> reduce(add, 0)");
    assert!(q.term.to_string().contains("reduceSeq"), "{}", q.term);
    let q = shown("fuseReduceMap", "fun f(xs: f32[N]) -> f32 = xs |> map(|x| x * 2) |> reduce(add, 0)");
    let (back, _) = transform(&q, "DFNF ; topDown(fissionReduceMap)").unwrap();
    assert!(back.term.to_string().contains("|> map("), "{}", back.term);
    shown("fissionReduceMap", "fun f(xs: f32[N]) -> f32 = xs |> reduceSeq(|a, x| a + x * x, 0)");
    let p = program("fun f(xs: f32[N]) -> f32 = xs |> reduceSeq(|a, x| a + a * x, 0)").unwrap();
    assert!(transform(&p, "topDown(fissionReduceMap)").is_err());
}

#[test]
fn item_22_eta_reduction_respects_variables() {
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| max(x)(x))").unwrap();
    let (q, _) = transform(&p, "BENF").unwrap();
    assert!(q.term.to_string().contains("max(x, x)"), "{}", q.term);
    let p = program("fun f(xs: f32[N], y: f32) -> f32[N] = xs |> map(|x| (|z| |x| z + x)(x)(y))").unwrap();
    let (q, _) = transform(&p, "BENF").unwrap();
    assert!(q.term.to_string().contains("x + y"), "{}", q.term);
}

#[test]
fn item_33_split_works_on_map_and_reduce_only() {
    shown("split(4)", "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1)");
    shown("split(4)", "fun f(xs: f32[N]) -> f32 = xs |> reduce(add, 0)");
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> scan(add, 0)").unwrap();
    assert!(transform(&p, "topDown(split(4))").is_err());
    let p = program("fun f(xs: f32[7]) -> f32[7] = xs |> map(|x| x + 1)").unwrap();
    let d = transform(&p, "topDown(split(4))").unwrap_err();
    assert_eq!(d.code.0, "E0611", "{d}");
}

#[test]
fn item_34_vectorize_refuses_what_it_cannot_do() {
    shown("vectorize(4)", "fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1)");
    shown("vectorize(4)", "fun f(xs: f32[N]) -> f32[N] = zip(xs, xs) |> map(|(x, y)| x * y)");
    for text in [
        "fun f(xs: f32[7]) -> f32[7] = xs |> map(|x| x + 1)",
        "fun f(xs: f32[4, M]) -> f32[4] = xs |> map(|r| r |> reduce(add, 0))",
    ] {
        let d = transform(&program(text).unwrap(), "topDown(vectorize(4))").unwrap_err();
        assert_eq!(d.code.0, "E0611", "{d}");
    }
}

#[test]
fn lift_item_33_overlapped_tiling_has_its_conditions() {
    let text = "fun f(xs: f32[10]) -> f32[8] = xs |> slide(3, 1) |> map(|w| w |> reduce(add, 0))";
    let p = program(text).unwrap();
    let (q, out) = transform(&p, "DFNF ; topDown(tileStencil(4))").unwrap();
    assert!(q.term.to_string().contains("slide(4, 2)"), "{}", q.term);
    assert!(out.trace.iter().any(|a| a.rule == "mapBeforeJoin"));
    let s = sizes([]);
    let args = arguments(&p, &s, 5);
    assert_eq!(evaluate(&p, &s, &args).unwrap(), evaluate(&q, &s, &args).unwrap());
    // v = u - sz + st must divide what is left: 10 - 5 is no multiple of 3.
    assert!(transform(&p, "DFNF ; topDown(tileStencil(5))").is_err());
    let bad = transform(&p, "topDown(tileSlide(4, 3))").unwrap_err();
    assert_eq!(bad.code.0, "E0611", "{bad}");
}
