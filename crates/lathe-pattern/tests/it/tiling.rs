//! Normal forms and tiling, exactly as published.

use crate::support::arguments;
use lathe_pattern::eval::{evaluate, sizes};
use lathe_pattern::library::transform;
use lathe_pattern::{Prim, Program, Term, TermKind, check, program};

/// A pipeline in the notation of the papers: `J ∘ *²f ∘ S`, the first stage last.
fn stages(t: &Term) -> String {
    let mut out = Vec::new();
    let mut here = t.clone();
    while let Some((f, a)) = here.as_app().map(|(f, a)| (f.clone(), a.clone())) {
        out.push(stage(&f));
        here = a;
    }
    out.join(" ∘ ")
}

fn stage(f: &Term) -> String {
    let (mut depth, mut f) = (0, f.clone());
    loop {
        match f.kind() {
            TermKind::Prim(Prim::Join) => return nested(depth, "J"),
            TermKind::Prim(Prim::Split(_)) => return nested(depth, "S"),
            TermKind::Prim(Prim::Transpose) => return nested(depth, "T"),
            TermKind::App(m, g) if matches!(m.as_prim(), Some(Prim::Map(_))) => {
                depth += 1;
                f = g.clone();
            }
            TermKind::Lam(_, b) => {
                let Some((g, x)) = b.as_app() else { return nested(depth, "f") };
                match (x.kind(), g.lower()) {
                    (TermKind::Bound(0), Some(g)) if g.as_prim().is_none_or(|p| !p.is_scalar_operation()) => {
                        f = g
                    }
                    _ => return nested(depth, "f"),
                }
            }
            _ => return nested(depth, "f"),
        }
    }
}

fn nested(depth: usize, s: &str) -> String {
    match depth {
        0 => s.to_string(),
        1 => format!("*{s}"),
        d => {
            let sup = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
            format!("*{}{s}", sup[d])
        }
    }
}

/// A nest of `d` maps over a function that is not a pipeline.
fn nest(d: usize) -> Program {
    let dims: Vec<String> = (0..d).map(|n| format!("{}", [8, 12, 4, 6][n])).collect();
    let mut f = "|x| x * x + 1".to_string();
    for _ in 0..d {
        f = format!("map({f})");
    }
    program(&format!("fun f(xs: f32[{0}]) -> f32[{0}] = ({f})(xs)", dims.join(", "))).unwrap()
}

fn same(p: &Program, q: &Program) {
    check::check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{d}"));
    let s = sizes([]);
    let args = arguments(p, &s, 3);
    assert_eq!(evaluate(p, &s, &args).unwrap(), evaluate(q, &s, &args).unwrap());
}

#[test]
fn item_35_tiling_gives_the_golden_terms() {
    let golden = [
        "J ∘ *²f ∘ S",
        "J ∘ *²J ∘ *T ∘ *⁴f ∘ *T ∘ *²S ∘ S",
        "J ∘ *²J ∘ *⁴J ∘ *³T ∘ *T ∘ *²T ∘ *⁶f ∘ *²T ∘ *T ∘ *³T ∘ *⁴S ∘ *²S ∘ S",
        "J ∘ *²J ∘ *⁴J ∘ *⁶J ∘ *⁵T ∘ *³T ∘ *⁴T ∘ *T ∘ *²T ∘ *³T ∘ *⁸f ∘ *³T ∘ *²T ∘ *T ∘ *⁴T ∘ *³T ∘ *⁵T ∘ *⁶S ∘ *⁴S ∘ *²S ∘ S",
    ];
    for (d, want) in golden.iter().enumerate().map(|(n, g)| (n + 1, g)) {
        let p = nest(d);
        let sizes = ["4", "3", "2", "3"][..d].join(", ");
        let (q, out) =
            transform(&p, &format!("body(tileND({sizes}) ; RNF)")).unwrap_or_else(|e| panic!("{e}"));
        let TermKind::Lam(_, body) = q.term.kind() else { panic!() };
        assert_eq!(stages(body), *want, "d = {d}: {}", q.term);
        same(&p, &q);
        eprintln!("d = {d}: {} steps", out.steps);
    }
}

#[test]
fn item_36_inner_dimensions_alone_are_tiled() {
    let p = nest(4);
    let (q, _) =
        transform(&p, "DFNF ; body(fmap(fmap(tileND(2, 3)))) ; body(RNF)").unwrap_or_else(|e| panic!("{e}"));
    same(&p, &q);
    let TermKind::Lam(_, body) = q.term.kind() else { panic!() };
    assert_eq!(stages(body), "*²J ∘ *⁴J ∘ *³T ∘ *⁶f ∘ *³T ∘ *⁴S ∘ *²S");
    // Another size in each dimension: outermost first.
    let p = nest(2);
    let (q, _) = transform(&p, "body(tileND(4, 3) ; RNF)").unwrap();
    assert!(q.term.to_string().contains("split(4)") && q.term.to_string().contains("split(3)"));
    let TermKind::Lam(_, body) = q.term.kind() else { panic!() };
    let mut last = body.clone();
    while let Some((f, a)) = last.as_app().map(|(f, a)| (f.clone(), a.clone())) {
        if !matches!(a.kind(), TermKind::App(..)) {
            assert_eq!(f.to_string(), "split(4)");
        }
        last = a;
    }
}

#[test]
fn item_37_tiling_uses_five_rules_and_those_of_functions() {
    let (_, out) = transform(&nest(3), "body(tileND(2, 2, 2))").unwrap();
    let allowed = ["split", "addId", "idToTranspose", "transposeMove", "mapFission", "DFNF"];
    for a in &out.trace {
        assert!(allowed.contains(&a.rule.as_str()), "{}", a.rule);
    }
    for rule in allowed {
        assert!(out.trace.iter().any(|a| a.rule == rule), "{rule} is not used");
    }
}

#[test]
fn item_23_normal_forms_are_idempotent() {
    for (text, want) in [
        ("map(|x| x + 1.0)", "|x| x |> map(|x1| x1 + 1.0)"),
        ("map(neg)", "|x| x |> map(|x1| -x1)"),
        ("reduce(add, 0.0)", "|x| x |> reduce(|x1, x2| x1 + x2, 0.0)"),
        ("iterate(2, map(neg))", "|x| x |> iterate(2, |x1| x1 |> map(|x2| -x2))"),
        ("transpose >> map(map(neg))", "|x| transpose(x) |> map(|x1| x1 |> map(|x2| -x2))"),
    ] {
        let ty = if text.contains("transpose") { "f32[2, 3]" } else { "f32[6]" };
        let to = match text {
            t if t.contains("transpose") => "f32[3, 2]",
            t if t.contains("reduce") => "f32",
            _ => "f32[6]",
        };
        let p = program(&format!("fun f(xs: {ty}) -> {to} = ({text})(xs)")).unwrap();
        let body = p.term.child(0).unwrap().clone();
        let f = body.as_app().map_or(body.clone(), |a| a.0.clone());
        let f = f.lower().unwrap_or(f);
        let once = lathe_pattern::normal::data_flow(&f);
        if !text.contains(">>") {
            assert_eq!(once.to_string(), want);
        }
        assert_eq!(lathe_pattern::normal::data_flow(&once), once);
    }
    let mm = "fun dot(xs: f32[K], ys: f32[K]) -> f32 = zip(xs, ys) |> map(|(x, y)| x * y) |> reduce(add, 0)
        fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] = a |> map(|row| transpose(b) |> map(|col| dot(row, col)))";
    let p = program(mm).unwrap();
    for form in ["DFNF", "BENF", "RNF", "CNF"] {
        let (q, _) = transform(&p, form).unwrap();
        let (r, _) = transform(&q, form).unwrap();
        assert_eq!(q.term, r.term, "{form}");
    }
}

#[test]
fn item_24_rnf_ends_on_zips_and_bare_names() {
    let p = program(
        "fun f(xs: f32[N, M], ys: f32[M]) -> (f32, f32)[N, M] = xs |> map(|x| zip(x, ys)) |> map(|x| x)",
    )
    .unwrap();
    let (q, _) = transform(&p, "RNF").unwrap();
    check::check(&q.facts, &q.term, &[]).unwrap();
}

#[test]
fn item_28_nests_are_measured() {
    let p = program("fun f(xs: f32[N, M]) -> f32[N, M] = xs |> map(map(|x| x + 1))").unwrap();
    let holds = |s: &str| transform(&p, &format!("DFNF ; body({s})")).is_ok();
    assert!(holds("mapNest(0)") && holds("mapNest(1)") && holds("mapNest(2)"));
    assert!(!holds("mapNest(3)") && !holds("mapNest(-1)"));
    let mm = "fun mm(a: f32[M, K], b: f32[K, N]) -> f32[M, N] =
        a |> map(|row| transpose(b) |> map(|col| zip(row, col) |> map(|(x, y)| x * y) |> reduce(add, 0)))";
    assert!(transform(&program(mm).unwrap(), "DFNF ; body(body(mapNest(2)))").is_ok());
    // fmap goes as deep as it is nested; argOf takes no other function.
    assert!(holds("fmap(fmap(id))") && !holds("fmap(fmap(fmap(id)))"));
    assert!(holds("function(argOf(map, id))") && !holds("function(argOf(reduce, id))"));
}

/// Data comes before who uses it: of an application the argument is visited first.
#[test]
fn item_18_the_order_of_children_of_terms() {
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1) |> map(|y| y * 2)").unwrap();
    let q = program("fun f(xs: f32[N]) -> f32[N] = xs |> id |> map(|y| id(y))").unwrap();
    let run = |p: &Program, s: &str| transform(p, s).unwrap_or_else(|d| panic!("{s}: {d}")).1;
    let path = |s: &str| run(&p, s).trace[0].path.clone();
    // The outer map has the inner one as argument, and a lambda with a sum in its function.
    assert_eq!(path("bottomUp(isMap ; etaAbstraction)"), [0, 1, 0, 0]);
    assert_eq!(path("topDown(isMap ; etaAbstraction)"), [0, 1, 0, 0]);
    assert_eq!(run(&q, "topDown(removeId)").trace[0].path, [0, 1]);
    assert_eq!(run(&q, "bottomUp(removeId)").trace[0].path, [0, 1]);
    // Without it, the one in the function is next.
    assert_eq!(run(&q, "topDown(removeId) ; topDown(removeId)").trace[1].path, [0, 0, 1, 0]);
}

#[test]
fn item_20_places_by_path_and_by_search_are_the_same() {
    let p = program("fun f(xs: f32[N]) -> f32[N] = xs |> map(|x| x + 1) |> map(|x| x * 2) |> map(|x| x - 3)")
        .unwrap();
    let run = |s: &str| transform(&p, s).unwrap_or_else(|d| panic!("{s}: {d}")).0.term;
    assert_eq!(run("body(mapFusion)"), run("one(mapFusion)"));
    assert_eq!(run("body(argument(mapFusion))"), run("one(one(mapFusion))"));
    assert_ne!(run("body(mapFusion)"), run("body(argument(mapFusion))"));
}

#[test]
fn item_45_strategies_do_not_know_their_programs() {
    let p = program("fun f(xs: f32[N, M], ys: f32[N, M]) -> f32[N, M] = zip(xs, ys) |> map(|(a, b)| zip(a, b) |> map(|(x, y)| x * y))").unwrap();
    let (q, _) = transform(&p, "DFNF ; tile(4, 2) @ outermost(mapNest(2))").unwrap_or_else(|d| panic!("{d}"));
    check::check(&q.facts, &q.term, &[]).unwrap_or_else(|d| panic!("{d}"));
    let s = sizes([("N", 8), ("M", 6)]);
    let args = arguments(&p, &s, 1);
    assert_eq!(evaluate(&p, &s, &args).unwrap(), evaluate(&q, &s, &args).unwrap());
    // The call checks what the blocks rely on.
    let facts: Vec<String> = q.facts.all().iter().map(ToString::to_string).collect();
    assert_eq!(facts, ["M % 2 == 0", "N % 4 == 0"]);
}
