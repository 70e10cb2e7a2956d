//! Random programs × random steps: what the rules accept computes the same; what they refuse is left alone.

use crate::support::*;
use lathe_ir::Function;

/// A random nest: one or two statements with random affine subscripts, in one or two nests.
fn program(r: &mut Random) -> String {
    let offset = |r: &mut Random| r.below(3) as i64 - 1;
    let reads = |r: &mut Random, vars: [&str; 2]| {
        let buffer = if r.below(2) == 0 { "A" } else { "B" };
        let (x, y) = if r.below(3) == 0 { (vars[1], vars[0]) } else { (vars[0], vars[1]) };
        let (a, b) = (offset(r), offset(r));
        format!("{buffer}[{x} + {} , {y} + {}]", a + 1, b + 1)
    };
    let statement = |r: &mut Random, label: &str| {
        let target = if r.below(2) == 0 { "A" } else { "B" };
        let (a, b) = (reads(r, ["i", "j"]), reads(r, ["i", "j"]));
        format!("'{label}'[i, j]: {target}[i + 1, j + 1] = {a} + {b} * 3:i32")
    };
    let hi = ["N", "N - 1", "i"][r.below(3) as usize];
    let first = statement(r, "S");
    let second = statement(r, "T");
    let third = statement(r, "U");
    let body = match r.below(4) {
        0 => format!("for i in 0..N {{ for j in 0..{hi} {{ {first} }} }}"),
        1 => format!("for i in 0..N {{ for j in 0..N {{ {first}\n {second} }} }}"),
        2 => format!("for i in 0..N {{ for j in 0..N {{ {first} }} for j in 0..N {{ {second} }} }}"),
        _ => format!(
            "for i in 0..N {{ for j in 0..N {{ {first}\n {second} }} }}\n for i in 0..N {{ for j in 0..{hi} {{ {third} }} }}"
        ),
    };
    // Subscripts reach from 0 to N + 1.
    format!(
        "func f(N)(n: in i32[N], A: inout i32[N + 2, N + 2], B: inout i32[N + 2, N + 2]) stage plain {{ {body} }}"
    )
}

/// A random nest whose conditions and repetitions depend on elements that it writes: of its own iteration, of others, or in
/// registers.
fn on_data(r: &mut Random) -> String {
    let place = |r: &mut Random| {
        let cell = ["p[i + 1]", "p[i + 1]", "p[i]", "p[i + 2]", "q[i + 1]", "q[i]", "q[1]"];
        cell[r.below(cell.len() as u64) as usize]
    };
    let value = |r: &mut Random| match r.below(5) {
        0 => "t[]".to_string(),
        1 => format!("{}:i32", r.below(5)),
        _ => place(r).to_string(),
    };
    let target = |r: &mut Random| if r.below(3) == 0 { "t[]" } else { place(r) };
    let store = |r: &mut Random, label: &str| {
        let (to, a, b) = (target(r), value(r), value(r));
        format!("'{label}'[i]: {to} = {a} + {b} * 3:i32")
    };
    let guarded = |r: &mut Random, label: &str| {
        let (a, b, then) = (value(r), value(r), store(r, label));
        let otherwise = match r.below(3) {
            0 => format!("else {{ {} }}", store(r, &format!("{label}2"))),
            _ => String::new(),
        };
        format!("if {a} < {b} {{ {then} }} {otherwise}")
    };
    let (first, second, third) = (guarded(r, "S"), store(r, "T"), guarded(r, "U"));
    let (fourth, a) = (guarded(r, "V"), value(r));
    let repeated = match r.below(3) {
        0 => format!("{second}\n {third}"),
        1 => third.clone(),
        _ => format!("{third}\n {second}\n {fourth}"),
    };
    let body = match r.below(3) {
        0 => format!("{second}\n {first}\n {third}"),
        1 => format!("if {a} < 40:i32 {{ {first}\n {second} }}\n {third}"),
        // At most three times: what else decides it changes.
        _ => format!(
            "alloc n: i32[]\n 'n'[i]: n[] = 0:i32\n while n[] < 3:i32 and {a} < 60:i32 {{ 'n2'[i]: n[] = n[] + 1:i32\n {repeated} }}\n {first}"
        ),
    };
    let around = format!(
        "for i in 0..N {{ alloc t: i32[]\n 't'[i]: t[] = p[i + 1]\n {body}\n 'out'[i]: q[i + 1] = t[] }}"
    );
    format!("func f(N)(p: inout i32[N + 3], q: inout i32[N + 3]) stage plain {{ {around} }}")
}

/// A step on a loop that its statements share.
fn step_around(r: &mut Random) -> String {
    let n = 1 + r.below(4);
    match r.below(8) {
        0 | 1 => "parallel(i)".to_string(),
        2 => format!("split(i, {n})"),
        3 => format!("unroll(i, {n})"),
        4 => format!("fission(i, {n})"),
        5 => "reverse(i)".to_string(),
        6 => "parallel(i.o)".to_string(),
        _ => format!("cut(i, {n})"),
    }
}

fn step(r: &mut Random) -> String {
    let loops = ["S.i", "S.j", "T.i", "T.j", "U.i", "U.j", "i", "j", "i.o", "i.i", "j.o", "j.i"];
    let any = |r: &mut Random| loops[r.below(loops.len() as u64) as usize];
    let (a, b) = (any(r), any(r));
    let n = 1 + r.below(4);
    match r.below(16) {
        0 | 1 => format!("split({a}, {n})"),
        2 | 3 => format!("reorder({a}, {b})"),
        4 => format!("tile({a}: {n}, {b}: 2)"),
        5 => format!("parallel({a})"),
        6 => format!("vectorize({a}, 4)"),
        7 => format!("unroll({a}, {n})"),
        8 => format!("fuse({a}, {b})"),
        9 => format!("fission({a}, 1)"),
        10 => format!("unroll_and_jam({a}, {n})"),
        11 => format!("reverse({a})"),
        12 => format!("shift({a}, {n})"),
        13 => format!("cut({a}, {n})"),
        14 => {
            format!("remap({a}: {a}, {b}: {b} + {a})").replace("S.", "").replace("T.", "").replace("U.", "")
        }
        _ if r.below(2) == 0 => format!("separate({a}, partial: inside)"),
        _ => format!("separate({a})"),
    }
}

/// Nests that write parts of one array, some of which are overwritten by others, and some read, in between or not.
fn overwriting(r: &mut Random) -> String {
    let around = r.below(3) == 0;
    let place = |r: &mut Random, array: &str| match r.below(6) {
        0 => format!("{array}[N + 2 - i]"),
        1 => format!("{array}[{}]", r.below(4)),
        n => format!("{array}[i + {}]", (n as i64 - 3).clamp(0, 2)),
    };
    let one = |r: &mut Random, n: usize| {
        let (lo, hi) = (r.below(4).saturating_sub(1), ["N", "N", "N + 1", "N - 1", "2"][r.below(5) as usize]);
        let read = if r.below(4) == 0 { "p" } else { "q" };
        let (to, from) = (place(r, "p"), place(r, read));
        let instance = if around { "[k, i]" } else { "[i]" };
        let store = format!("'S{n}'{instance}: {to} = {from} + {n}:i32");
        let store = match r.below(8) {
            0 => format!("if i < {} {{ {store} }}", r.below(4)),
            1 => format!("if q[i] < 30:i32 {{ {store} }}"),
            2 => format!("'S{n}'{instance}: {to} sum= {from} licensed"),
            _ => store,
        };
        format!("for i in {lo}..{hi} {{ {store} }}")
    };
    let all: Vec<String> = (0..2 + r.below(3) as usize).map(|n| one(r, n)).collect();
    let body = all.join("\n ");
    let body = if around { format!("for k in 0..2 {{ {body} }}") } else { body };
    format!("func f(N)(p: inout i32[N + 4], q: inout i32[N + 4]) stage plain {{ {body} }}")
}

/// A step that cuts such a nest, or leaves a part of it out.
fn step_overwriting(r: &mut Random) -> String {
    let (s, n) = (r.below(4), r.below(4));
    match r.below(9) {
        0 => format!("cut(S{s}.i, {n})"),
        1 => format!("cut(S{s}.i, N - {n})"),
        2 => format!("peel(S{s}.i)"),
        3 => format!("vectorize(S{s}.i, 4)"),
        4 => format!("parallel(S{s}.i)"),
        _ => format!("omit(S{s})"),
    }
}

#[test]
fn stores_that_are_left_out_were_overwritten() {
    let (accepted, refused) = keep_results(300, overwriting, step_overwriting);
    assert!(accepted > 150 && refused > 150, "{accepted} accepted, {refused} refused");
    let left_out = |seed: u64| {
        let mut r = Random(seed * 7919 + 1);
        let module = parse(&overwriting(&mut r));
        (0..4).any(|n| run(&module, &format!("omit(S{n})")).is_ok())
    };
    let count = (0..300).filter(|seed| left_out(*seed)).count();
    assert!(count > 20, "{count}");
}

#[test]
fn accepted_steps_keep_results() {
    let (accepted, refused) = keep_results(400, program, step);
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
}

#[test]
fn accepted_steps_keep_results_where_data_decide() {
    let (accepted, refused) = keep_results(cases(600), on_data, step_around);
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
}

fn cases(few: u64) -> u64 {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

/// How many steps were accepted and refused on so many programs. What was accepted computes the same.
fn keep_results(
    cases: u64,
    program: impl Fn(&mut Random) -> String,
    step: impl Fn(&mut Random) -> String,
) -> (u64, u64) {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..cases {
        let mut r = Random(seed * 7919 + 1);
        let text = program(&mut r);
        let module = parse(&text);
        let mut steps: Vec<String> = Vec::new();
        let mut func: Option<Function> = None;
        for _ in 0..4 {
            let next = step(&mut r);
            let mut with = steps.clone();
            with.push(next);
            match run(&module, &with.join(" ; ")) {
                Ok((f, _)) => {
                    steps = with;
                    func = Some(f);
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
        if let Some(f) = &func {
            let compare = || [0, 1, 2, 5].iter().for_each(|n| same(&module, f, &[*n]));
            if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)) {
                println!("seed {seed}: {}\n{text}", steps.join(" ; "));
                std::panic::resume_unwind(e);
            }
        }
    }
    (accepted, refused)
}
