//! Handles to what steps make, and where what was there before is now.

use crate::support::*;
use lathe_ir::names::Role;
use lathe_ir::{Function, Module, Stmt, visit};
use lathe_strategy::{Context, Definitions};
use lathe_transform::{Handle, History};

const SUMS: &str = "
func f(N)(A: in i32[N], B: in i32[N], s: inout i32[], C: out i32[N]) {
  for i in 0..N { 's'[i]: s[] sum= A[i] * B[i] licensed }
  for j in 0..N { 'C'[j]: C[j] = A[j] + B[j] }
}";

/// The function after the strategy, and what its steps made.
fn made(module: &Module, text: &str) -> (Function, History) {
    let definitions = Definitions::default();
    let facts = |_: &str| None;
    let context = Context::new(&definitions, None, &facts);
    let subject = lathe_transform::Subject::new(module, only(module));
    let (subject, _) = lathe_strategy::run(&context, &strategy(text), subject)
        .unwrap_or_else(|r| panic!("{text}: {}", r.diagnostic));
    (subject.func, subject.history)
}

/// What a loop became.
fn became(text: &str, l: &str) -> Vec<String> {
    let m = parse(SUMS);
    let handle = Handle::of_loop(only(&m), l).expect("the loop");
    let (func, history) = made(&m, text);
    history.forward(&handle, &func).iter().map(|h| h.name.to_string()).collect()
}

#[test]
fn handles_lead_to_what_loops_became() {
    assert_eq!(became("id", "i"), ["i"]);
    assert_eq!(became("split(i, 8)", "i"), ["i.o", "i.i"]);
    assert_eq!(became("split(i, 8, outer: t, inner: v)", "i"), ["t", "v"]);
    assert_eq!(became("split(i, 8, outer: t, inner: v) ; split(t, 4)", "i"), ["t.o", "t.i", "v"]);
    // Other loops of the name do not count.
    assert_eq!(became("split(j, 8, outer: i)", "i"), ["i"]);
    assert_eq!(became("reverse(j)", "j"), ["j"]);
    assert_eq!(became("shift(j, 3)", "j"), ["j"]);
    assert_eq!(became("fuse(i, j)", "j"), ["i"]);
    assert_eq!(became("fuse(i, j) ; split(i, 4)", "j"), ["i.o", "i.i"]);
    assert_eq!(became("unroll(i, 4)", "i"), ["i.o", "i.i", "i.rest"]);
    assert_eq!(became("vectorize(j, 4, tail: separate)", "j"), ["j.o", "j.i", "j.rest"]);
    assert_eq!(became("remap(k: j + 1)", "j"), ["k"]);
    // What keeps its place is itself; copies of it are others.
    assert_eq!(became("peel(i)", "i"), ["i"]);
    assert_eq!(became("split(i, 8) ; separate(i.o)", "i"), ["i.o", "i.i"]);
}

#[test]
fn what_is_made_has_a_part() {
    let m = parse(SUMS);
    let parts = |text: &str| -> Vec<(Option<Role>, String, String)> {
        let (_, history) = made(&m, text);
        let mut all: Vec<_> =
            history.iter().map(|m| (m.role, m.of.name.to_string(), m.new.name.to_string())).collect();
        all.sort();
        all
    };
    let part = |role, of: &str, new: &str| (Some(role), of.to_string(), new.to_string());
    assert_eq!(parts("split(i, 8, outer: t)"), [part(Role::Outer, "i", "t"), part(Role::Inner, "i", "i.i")]);
    assert_eq!(parts("peel(i)"), [part(Role::Peel, "i", "i.peel")]);
    let all = parts("split(i, 8) ; privatize(s, i.o, combine: in_order)");
    assert!(
        all.contains(&part(Role::Parts, "s", "s.p")) && all.contains(&part(Role::Combine, "s", "s.combine"))
    );
    let all = parts("split(i, 8) ; factor(s, i.i, combine: tree)");
    assert!(all.contains(&part(Role::Halve, "s", "s.halve2")), "{all:?}");
    let all = parts("split(j, 8) ; stage(A, at: j.o)");
    assert!(all.contains(&part(Role::Staged, "A", "A.s")), "{all:?}");
}

/// Random steps: what they say they made is there, and was made of what was there.
#[test]
fn random_steps_make_what_they_say() {
    let mut r = Random(7);
    let mut seen = 0;
    for _ in 0..200 {
        let m = parse(SUMS);
        let mut subject = lathe_transform::Subject::new(&m, only(&m));
        for _ in 0..6 {
            let loops = loops_of(&subject.func.body);
            let of = |n: u64| loops[n as usize % loops.len()].clone();
            let (l, o) = (of(r.next()), of(r.next()));
            let text = match r.next() % 10 {
                0 => format!("split({l}, 4)"),
                1 => format!("split({l}, 3, outer: a, inner: b)"),
                2 => format!("unroll({l}, 2)"),
                3 => format!("reorder({l}, {o})"),
                4 => format!("separate({l})"),
                5 => format!("fuse({l}, {o})"),
                6 => format!("peel({l}, 2)"),
                7 => format!("stage(A, at: {l})"),
                8 => format!("unroll_and_jam({l}, 2)"),
                _ => format!("privatize(s, {l})"),
            };
            let definitions = Definitions::default();
            let facts = |_: &str| None;
            let context = Context::new(&definitions, None, &facts);
            let Ok((next, _)) = lathe_strategy::run(&context, &strategy(&text), subject.clone()) else {
                continue;
            };
            for made in next.history.iter().take(next.history.iter().count() - subject.history.iter().count())
            {
                let there = |h: &History, of: &Handle, f: &Function| {
                    h.forward(of, f).as_slice() == std::slice::from_ref(of)
                };
                assert!(there(&next.history, &made.new, &next.func), "{text}: {made:?}");
                assert!(there(&subject.history, &made.of, &subject.func), "{text}: {made:?}");
                seen += 1;
            }
            subject = next;
        }
    }
    assert!(seen > 500, "only {seen}");
}

fn loops_of(root: &Stmt) -> Vec<String> {
    let mut out = Vec::new();
    visit::walk(root, &mut |s, _| {
        out.extend(s.as_loop().map(|l| l.binder.name.to_string()));
        true
    });
    out
}

#[test]
fn messages_say_what_became_of_a_loop() {
    let m = parse(SUMS);
    let d = run(&m, "split(i, 8, outer: t, inner: v) ; unroll(i)").unwrap_err().diagnostic;
    assert_eq!(d.code.0, "E0621", "{d}");
    assert!(d.help.as_ref().is_some_and(|h| h.contains("`t`") && h.contains("`v`")), "{d}");
    // A loop over blocks is one, whatever it is called.
    let d = run(&m, "split(i, 8, outer: t) ; parallel(t)").unwrap_err().diagnostic;
    assert!(d.help.as_ref().is_some_and(|h| h.contains("`privatize(s, t)`")), "{d}");
    let d = run(&m, "parallel(i)").unwrap_err().diagnostic;
    assert!(d.help.as_ref().is_some_and(|h| h.contains("privatize(s, i.o)`")), "{d}");
}
