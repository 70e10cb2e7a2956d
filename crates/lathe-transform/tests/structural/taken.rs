//! Steps that were taken before are found by everything that they depend on.

use crate::support::*;
use lathe_transform::taken;

fn text(ty: &str, second: &str) -> String {
    format!(
        "func f(N)(x: in {ty}[N], y: out {ty}[N]) stage plain {{
           for i in 0..N {{ 'y'[i]: y[i]! = x[i]! }}
           for i in 0..N {{ 'z'[i]: y[i]! = {second} }}
         }}"
    )
}

#[test]
fn the_same_steps_give_the_same_trees_and_evidence() {
    let m = parse(&text("f32", "x[i]! + x[i]!"));
    let steps = "split(y.i, 8) ; split(z.i, 8) ; parallel(z.i.o)";
    taken::forget();
    let first = run(&m, steps).unwrap_or_else(|r| panic!("{}", r.diagnostic));
    let again = run(&m, steps).unwrap_or_else(|r| panic!("{}", r.diagnostic));
    assert_eq!(first, again);
    // A prefix that is known, then another step; and a refusal stays one.
    let other = apply(&m, "split(y.i, 8) ; split(z.i, 4) ; parallel(z.i.o)");
    assert_ne!(show(&other), show(&first.0));
    assert_eq!(refused(&m, "split(y.i, 8) ; split(z.i, 0)"), refused(&m, "split(y.i, 8) ; split(z.i, 0)"));
    taken::forget();
    assert_eq!(run(&m, steps).map_err(|r| r.diagnostic.to_string()), Ok(first));
}

#[test]
fn another_program_has_another_key() {
    let base = parse(&text("f32", "x[i]! + x[i]!"));
    let key = |text: &str| {
        let m = parse(text);
        taken::start(&m, only(&m))
    };
    let known = taken::start(&base, only(&base));
    assert_eq!(known, key(&text("f32", "x[i]! + x[i]!")));
    let others = [
        text("f64", "x[i]! + x[i]!"),
        text("f32", "x[i]! * x[i]!"),
        // A status that is not proved, and a text that only stands elsewhere.
        text("f32", "x[i] + x[i]!"),
        format!(" {}", text("f32", "x[i]! + x[i]!")),
        text("f32", "x[i]! + x[i]!").replace("0..N {", "0..N - 1 {"),
    ];
    for other in &others {
        assert_ne!(known, key(other), "{other}");
    }
    let step = |rule: &str, focus: &[usize]| taken::step(&known, rule, focus, &[]);
    assert_ne!(step("split", &[]), step("unroll", &[]));
    assert_ne!(step("split", &[]), step("split", &[0]));
}
