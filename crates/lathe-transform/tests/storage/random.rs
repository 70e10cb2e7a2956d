//! Random programs under random storage steps: whatever is accepted computes the same.

use crate::common::*;
use lathe_ir::visit;
use lathe_ir::{Function, Module, StmtKind};
use std::collections::BTreeMap;

/// A small generator of numbers; the seed of a failing case is printed.
struct Rng(u64);

impl Rng {
    fn next(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % n.max(1)
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.next(from.len())]
    }
}

/// A program of two to four nests: stencils, reductions, updates in place, gathers.
fn program(r: &mut Rng) -> String {
    let mut body = String::new();
    let at = |r: &mut Rng, v: &str, len: &str| match r.next(6) {
        0 => format!("{len} + 1 - {v}"),
        1 => v.to_string(),
        n => format!("{v} + {}", n % 3),
    };
    let mut terms = Vec::new();
    for _ in 0..1 + r.next(3) {
        let (y, x) = (at(r, "a", "N"), at(r, "b", "M"));
        terms.push(format!("A[{y}, {x}]!"));
    }
    // Row by row, or with neighbours in other rows.
    let (ey, ex) = (r.next(3), r.next(2) + 1);
    body += &format!(
        "for a in 0..N + {ey} {{ for b in 0..M + {ex} {{ 'T'[a, b]: T[a, b]! = {} }} }}\n",
        terms.join(" + ")
    );
    let mut terms = Vec::new();
    for _ in 0..1 + r.next(4) {
        terms.push(format!("T[c + {}, d + {}]! * {}:i64", r.next(ey + 1), r.next(ex + 1), 1 + r.next(3)));
    }
    match r.next(3) {
        0 => {
            body += &format!(
                "for c in 0..N {{ for d in 0..M {{ 'U'[c, d]: U[c, d]! = {} }} }}\n",
                terms.join(" + ")
            )
        }
        1 => {
            body += &format!(
                "for c in 0..N {{ for d in 0..M {{ 'U.init'[c, d]: U[c, d]! = 0:i64
                 for e in 0..K {{ 'U'[c, d, e]: U[c, d]! sum= ({}) * A[c, d + 1]! + B[e + 1]! licensed }} }} }}\n",
                terms.join(" - ")
            );
        }
        _ => {
            body +=                 "for c in 0..N { for d in 0..M { 'U.init'[c, d]: U[c, d]! = 7:i64 } }
                 for e in 0..K { for f in 0..N { for g in 0..M { 'U'[f, g, e]: U[f, g]! sum= T[f, g]! * B[e]! licensed } } }\n";
        }
    }
    match r.next(5) {
        0 => body += "for m in 0..M { for n in 0..N { 'S'[m, n]: S[]! max= U[n, m]! licensed } }\n",
        1 => body += "for m in 0..M { 'V'[m]: V[m + 1]! = V[m]! + B[m]! }\n",
        2 => {
            body += "for m in 0..M { for n in 0..N { 'V'[m, n]: V[index(B[n]!) % (M + 1)]? sum= U[n, m]! licensed } }\n"
        }
        3 => {
            body +=
                "for m in 0..M { for n in 0..N { if n < m { 'V'[m, n]: V[m]! sum= U[n, m]! licensed } } }\n"
        }
        _ => body += "for m in 0..N { for n in 0..m { 'S'[m, n]: S[]! sum= A[m, n * 0]! licensed } }\n",
    }
    format!(
        "func p(N, M, K)(A: in i64[N + 4, M + 4], B: in i64[max(K, max(N, M)) + 2], Z: in i64[K], U: out i64[N, M], V: inout i64[M + 1], S: inout i64[]) stage plain {{
        alloc T: i64[N + {ey}, M + {ex}]
        {body} }}"
    )
}

fn buffers(f: &Function) -> Vec<String> {
    let mut out: Vec<String> =
        f.params.iter().filter_map(|p| p.array()).map(|b| b.name.to_string()).collect();
    visit::walk(&f.body, &mut |s, _| {
        if let StmtKind::Alloc { buffer, .. } = s.kind() {
            out.push(buffer.name.to_string());
        }
        true
    });
    out
}

fn random_step(r: &mut Rng, f: &Function) -> String {
    let loops = lathe_transform::names::loop_names(&f.body);
    let all = buffers(f);
    if loops.is_empty() {
        return "inline(T)".to_string();
    }
    let (l, o) = (r.pick(&loops).clone(), r.pick(&loops).clone());
    let b = r.pick(&all).clone();
    let space = *r.pick(&["", "", ", space: stack", ", space: register", ", space: host"]);
    let pad = *r.pick(&["", ", pad: true", ", pad: true"]);
    let layout = *r.pick(&[
        "",
        "",
        ", layout: tile(0, 4)",
        ", layout: permute(1, 0)",
        ", layout: tile(1, 2), layout: permute(1, 0, 2)",
    ]);
    let factor = *r.pick(&[2, 3, 4, 5]);
    match r.next(20) {
        19 => {
            let labels = lathe_transform::names::labels_in(&f.body);
            format!("hoist({}, {l})", r.pick(&labels))
        }
        17 => format!("fuse({l}, {o})"),
        18 => format!("localize({}, at: {l})", r.pick(&["T", b.as_str()])),
        15 => {
            let labels = lathe_transform::names::labels_in(&f.body);
            format!("materialize({})", r.pick(&labels))
        }
        16 if r.next(4) > 0 => "promote(T)".to_string(),
        16 => format!("bind({l}, {})", r.pick(&["grid", "block", "warp", "lane", "device"])),
        0 | 1 => format!("split({l}, {factor})"),
        2 => format!("reorder({l}, {o})"),
        3..=5 => format!("stage({b}, at: {l}{space}{layout}{pad})"),
        6 | 7 => format!("accumulate({b}, at: {l}{space}{pad})"),
        8 => format!("pad({l})"),
        9 => format!("pad({})", loops.iter().rfind(|n| n.ends_with(".i")).unwrap_or(&l)),
        10 if r.next(2) == 0 => format!("factor({b}, {l}{space}, combine: tree)"),
        10 => format!("factor({b}, {l}{space})"),
        11 => format!("factor({b}, {l}, at: {o})"),
        12 => format!("privatize({b}, {l})"),
        13 => format!("compute_at({b}, {l}{space})"),
        _ => match r.next(5) {
            4 => format!("expand({b}, at: {l})"),
            0 => format!("inline({b})"),
            1 => format!("promote({b}{space})"),
            2 => format!("parallel({l})"),
            _ => "fission(U.init)".to_string(),
        },
    }
}

fn case(seed: u64, accepted: &mut BTreeMap<String, usize>) {
    let mut r = Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let text = program(&mut r);
    let m: Module = parse(&text);
    let mut f = m.functions["p"].clone();
    let mut done = Vec::new();
    for n in 0..14 {
        let s = if n == 0 && r.next(3) == 0 {
            "inline(T)".to_string()
        } else if n == 0 && r.next(2) == 0 {
            "fuse(a, c)".to_string()
        } else if n == 1 && done == ["fuse(a, c)"] && r.next(2) == 0 {
            "localize(T, at: a)".to_string()
        } else if (1..3).contains(&n) && r.next(2) == 0 {
            let loops = lathe_transform::names::loop_names(&f.body);
            format!("compute_at(T, {})", r.pick(&loops))
        } else if n < 3 {
            let loops = lathe_transform::names::loop_names(&f.body);
            format!("split({}, {})", r.pick(&loops), r.pick(&[2, 3, 4]))
        } else {
            random_step(&mut r, &f)
        };
        if let Ok(edit) = step(&m, &f, &s) {
            let rule = s.split('(').next().unwrap_or("").to_string();
            *accepted.entry(rule).or_default() += 1;
            f = edit.func;
            done.push(s);
        }
    }
    for _ in 0..4 {
        let sizes = [("N", r.next(9) as i64), ("M", r.next(8) as i64), ("K", r.next(6) as i64)];
        if let Err(why) = std::panic::catch_unwind(|| same(&m, "p", &f, &sizes)) {
            let why = why.downcast_ref::<String>().cloned().unwrap_or_default();
            panic!("seed {seed}, sizes {sizes:?}\n{text}\n{}\n{}\n{why}", done.join("; "), show(&f));
        }
    }
}

#[test]
fn what_is_accepted_computes_the_same() {
    let mut accepted = BTreeMap::new();
    for seed in 1..=300 {
        case(seed, &mut accepted);
    }
    for rule in [
        "stage",
        "accumulate",
        "pad",
        "factor",
        "privatize",
        "compute_at",
        "inline",
        "promote",
        "materialize",
        "localize",
        "bind",
    ] {
        assert!(accepted.get(rule).is_some_and(|n| *n >= 4), "{rule}: {accepted:?}");
    }
}
