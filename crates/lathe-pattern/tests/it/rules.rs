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
    // Unknown names of sizes and free metavariables on the right do not crash.
    let open = parse_equations("rule open(x): transpose(x) => y").unwrap().remove(0);
    assert!(open.apply(body, &mut TermState::new(&p.facts)).is_err());
}
