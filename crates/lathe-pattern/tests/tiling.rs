//! Normal forms and tiling, exactly as published.

mod support;

use lathe_pattern::eval::{evaluate, sizes};
use lathe_pattern::library::transform;
use lathe_pattern::{Prim, Program, Term, TermKind, check, program};
use support::arguments;

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

/// A nest of `d` maps over a function that is no pipeline.
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
