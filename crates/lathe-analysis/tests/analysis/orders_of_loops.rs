//! The rows of the table of verdicts about Loopy's dependences (section 2.5 of its notes) that compare two orders of
//! sequential loops: the wave equation, diamond tiles of it, and the wavefronts of a triangular solve. Rows with threads
//! are in `concurrent.rs`.

use lathe_analysis::{Env, OrderRefusal, order_preserved};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

/// Whether the second body keeps every dependence of the first one.
fn kept(parameters: &str, before: &str, after: &str) -> bool {
    let parse = |body: &str| {
        let text = format!("func f(M, N)({parameters}) stage scheduled {{ {body} }}");
        let module = parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{text}\n{d:?}"));
        let func = module.functions.values().next().expect("a function").clone();
        (module, func)
    };
    let ((module, old), (_, new)) = (parse(before), parse(after));
    match order_preserved(&Env::root(&module, &old), &old.body, &new.body) {
        Ok(_) => true,
        Err(OrderRefusal::Violation(_)) => false,
        Err(OrderRefusal::Undecided(why)) => panic!("undecided: {}\n{after}", why.why),
    }
}

const WAVES: &str = "u: inout f32[M + 3, N + 3]";
const STEP: &str =
    "'u'[t, x]: u[t + 2, x + 1] = u[t + 1, x] + u[t + 1, x + 1] + u[t + 1, x + 2] + u[t, x + 1]";

#[test]
fn a_wave_goes_through_time_outside() {
    let wave = format!("for t in 0..M {{ for x in 0..N {{ {STEP} }} }}");
    let turned = format!("for x in 0..N {{ for t in 0..M {{ {STEP} }} }}");
    assert!(kept(WAVES, &wave, &wave));
    assert!(!kept(WAVES, &wave, &turned));
    // Another order of the places of one time.
    let backwards = wave.replace("'u'[t, x]", "let y: index = N - 1 - x 'u'[t, x]").replace("x + ", "y + ");
    let backwards = backwards.replace("x]", "y]");
    assert!(kept(WAVES, &wave, &backwards));
}

/// Tiles of 32: half steps of time outside of tiles, and time outside of places in each.
#[test]
fn diamonds_have_one_order() {
    let wave = format!("for t in 0..M {{ for x in 0..N {{ {STEP} }} }}");
    let point = format!(
        "let t: index = 32 * tt + 16 * half + it let x: index = 32 * tx + 16 * half - 16 + ix \
         if ix - it >= 0 and ix - it < 32 and it + ix >= 0 and it + ix < 32 {{ \
         if t >= 0 and t < M and x >= 0 and x < N {{ {STEP} }} }}"
    );
    let loops = [
        ("tt", "for tt in 0..(M + 32) // 32 + 1"),
        ("half", "for half in 0..2"),
        ("tx", "for tx in 0..(N + 48) // 32"),
        ("it", "for it in -16..17"),
        ("ix", "for ix in 0..32"),
    ];
    for (order, expected) in [
        (["tt", "half", "tx", "it", "ix"], true),
        (["tx", "tt", "half", "it", "ix"], false),
        (["tt", "half", "tx", "ix", "it"], false),
        (["tt", "tx", "half", "it", "ix"], false),
        (["half", "tt", "tx", "it", "ix"], false),
    ] {
        let head = |name: &str| loops.iter().find(|l| l.0 == name).expect("a loop").1;
        let body =
            order.iter().rev().fold(point.clone(), |body, name| format!("{} {{ {body} }}", head(name)));
        assert_eq!(kept(WAVES, &wave, &body), expected, "{order:?}");
    }
}

/// Planes of `j + k`, with `j` and the third dimension inside, in three orders.
#[test]
fn wavefronts_may_be_nested_in_any_order() {
    let value = "q[i + 1, j + 1, k] + q[i + 1, j, k + 1] + q[i, j + 1, k + 1]";
    let cell = format!("'q'[i, j, k]: q[i + 1, j + 1, k + 1] = {value}");
    let plain = format!("for i in 0..N {{ for j in 0..N {{ for k in 0..N {{ {cell} }} }} }}");
    let inside = format!("let k: index = wave - j if k >= 0 and k < N {{ {cell} }}");
    let (waves, rows, cubes) = ("for wave in 0..2 * N", "for j in 0..N", "for i in 0..N");
    for order in [[waves, rows, cubes], [rows, waves, cubes], [cubes, waves, rows]] {
        let body = order.iter().rev().fold(inside.clone(), |body, head| format!("{head} {{ {body} }}"));
        assert!(kept("q: inout f32[N + 1, N + 1, N + 1 + 0 * M]", &plain, &body), "{order:?}");
    }
    // From the last wave to the first.
    let turned = inside.replace("wave - j", "2 * N - 1 - wave - j");
    let body = format!("{waves} {{ {rows} {{ {cubes} {{ {turned} }} }} }}");
    assert!(!kept("q: inout f32[N + 1, N + 1, N + 1 + 0 * M]", &plain, &body));
}

/// Two copies of a statement in the old tree, two others in the new one: an instance may be in any copy that has its iteration.
#[test]
fn copies_hand_over_iterations() {
    let row = "u: inout f32[N + 20]";
    let step = "'u'[i]: u[i + 1] = u[i] + 1.0:f32";
    let cut = |at: &str| format!("for i in 0..{at} {{ {step} }} for i in {at}..N {{ {step} }}");
    let turned = |at: &str| format!("for i in {at}..N {{ {step} }} for i in 0..{at} {{ {step} }}");
    let within = |body: String| format!("if N >= 20 {{ {body} }}");
    let old = within(cut("8"));
    for at in ["1", "5", "8", "13"] {
        assert!(kept(row, &old, &within(cut(at))), "{at}");
        assert!(!kept(row, &old, &within(turned(at))), "{at}");
    }
    // Two loops change places.
    assert!(!kept(row, &old, &within(turned("8"))));
    // Tiles whose last one has a loop of its own, on threads or not.
    let own = "'u'[i]: u[i] = u[i] + 1.0:f32";
    let tiles = |exec: &str, step: &str| {
        let full =
            format!("for t in 0..N // 8 {exec} {{ for e in 0..8 {{ let i: index = 8 * t + e {step} }} }}");
        let rest = format!("for e in 0..N - N // 8 * 8 {{ let i: index = N // 8 * 8 + e {step} }}");
        format!("{full} {rest}")
    };
    assert!(kept(row, &tiles("", own), &tiles("cpu", own)));
    assert!(!kept(row, &tiles("", step), &tiles("cpu", step)));
}
