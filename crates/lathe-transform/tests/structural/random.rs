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
        _ => format!("separate({a})"),
    }
}

#[test]
fn accepted_steps_keep_results() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..400 {
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
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused");
}
