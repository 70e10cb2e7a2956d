//! Whole functions that compute the same: what passes of the optimizer do is accepted, and what they must not do is refused.

use lathe_analysis::{Change, computes_the_same, inputs_kept, only_by};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Module};

fn read(body: &str) -> (Module, Function) {
    let text = format!(
        "func f(N, M)(x: in f64[N], k: in i32[N], c: in f64, u: inout f64[N], w: inout f64[N], \
         a: inout f64[N] alias m, b: inout f64[N] alias m) stage plain {{\n{body}\n}}\n"
    );
    let m = parse_module(FileId(0), &text).unwrap_or_else(|e| panic!("{e:#?}\n{text}"));
    let f = m.functions.values().next().expect("one function").clone();
    (m, f)
}

fn verdict(before: &str, after: &str) -> Result<usize, String> {
    let ((module, before), (_, after)) = (read(before), read(after));
    computes_the_same(&Change { module: &module, before: &before, after: &after })
}

fn same(before: &str, after: &str) {
    if let Err(why) = verdict(before, after) {
        panic!("{why}:\n{before}\n{after}");
    }
}

fn other(before: &str, after: &str) {
    assert!(verdict(before, after).is_err(), "accepted:\n{before}\n{after}");
}

#[test]
fn names_for_values_that_are_computed_again() {
    let twice = "for i%90 in 0..N { 'u'[i]: u[i] = sin(x[i])\n'w'[i]: w[i] = sin(x[i]) + c }";
    same(twice, "for i%90 in 0..N { let v%91: f64 = sin(x[i])\n'u'[i]: u[i] = v\n'w'[i]: w[i] = v + c }");
    other(twice, "for i%90 in 0..N { let v%91: f64 = sin(x[0])\n'u'[i]: u[i] = v\n'w'[i]: w[i] = v + c }");
    // What is read is written in between.
    other(
        "'u'[]: u[0] = sin(w[0])\n'w'[]: w[0] = c\n'u.2'[]: u[1] = sin(w[0])",
        "let v%91: f64 = sin(w[0])\n'u'[]: u[0] = v\n'w'[]: w[0] = c\n'u.2'[]: u[1] = v",
    );
    // It may be written: the arrays may overlap.
    other(
        "'u'[]: u[0] = sin(a[0])\n'w'[]: b[0] = c\n'u.2'[]: u[1] = sin(a[0])",
        "let v%91: f64 = sin(a[0])\n'u'[]: u[0] = v\n'w'[]: b[0] = c\n'u.2'[]: u[1] = v",
    );
}

#[test]
fn loads_of_what_was_stored() {
    let stored = "'u'[]: u[0] = sin(c)\n'w'[]: w[0] = c\n'w.2'[]: w[1] = u[0] + 1.0:f64";
    same(stored, "let v%91: f64 = sin(c)\n'u'[]: u[0] = v\n'w'[]: w[0] = c\n'w.2'[]: w[1] = v + 1.0:f64");
    other(stored, "let v%91: f64 = sin(c)\n'u'[]: u[0] = v\n'w'[]: w[0] = c\n'w.2'[]: w[1] = v");
    // Another element is written in between, or one that may be the same.
    let between = |at: &str| format!("'u'[]: u[0] = c\n'u.2'[]: u[{at}] = 2.0:f64\n'w'[]: w[1] = u[0]");
    let known = |at: &str| between(at).replace("w[1] = u[0]", "w[1] = c");
    same(&between("1"), &known("1"));
    other(&between("M"), &known("M"));
    // An update of an element that is known is a store.
    same("'u'[]: u[0] = c\n'u.2'[]: u[0] sum= x[0]", "'u'[]: u[0] = c\n'u.2'[]: u[0] = c + x[0]");
    other("'u'[]: u[0] = c\n'u.2'[]: u[0] sum= x[0]", "'u'[]: u[0] = c\n'u.2'[]: u[0] = x[0] + c");
}

#[test]
fn stores_that_nobody_reads() {
    let dead = "'u'[]: u[0] = c\n'w'[]: w[0] = c\n'u.2'[]: u[0] = 2.0:f64";
    same(dead, "'w'[]: w[0] = c\n'u.2'[]: u[0] = 2.0:f64");
    let read = "'u'[]: u[0] = c\n'w'[]: w[0] = u[M]\n'u.2'[]: u[0] = 2.0:f64";
    other(read, "'w'[]: w[0] = u[M]\n'u.2'[]: u[0] = 2.0:f64");
    // Every element is overwritten, or all but one.
    let all = |lo: i64| format!("'u'[]: u[M] = c\nfor i%90 in {lo}..N {{ 'u.2'[i]: u[i] = x[i] }}");
    let rest = |lo: i64| format!("for i%90 in {lo}..N {{ 'u.2'[i]: u[i] = x[i] }}");
    same(&all(0), &rest(0));
    other(&all(1), &rest(1));
    // Local arrays that feed only one another.
    let local = "alloc t@80: f64[]\n't'[]: t[] = c\nfor i%90 in 0..N { 't.2'[i]: t[] = t[] + x[i]\n'u'[i]: u[i] = c }";
    same(local, "for i%90 in 0..N { 'u'[i]: u[i] = c }");
    other(&local.replace("u[i] = c", "u[i] = t[]"), "for i%90 in 0..N { 'u'[i]: u[i] = c }");
    // What may fail, and what runs forever, stays.
    other("'u'[]: u[0] = c\ncheck M < N, \"m\", \"M is large\"", "'u'[]: u[0] = c");
    other("while u[0] < c { 'u'[]: u[0] = u[0] * 2.0:f64\n'w'[]: w[0] = c }", "'w'[]: w[0] = c");
}

#[test]
fn what_is_computed_before_a_loop() {
    let inside = "for i%90 in 0..N { 'u'[i]: u[i] = x[M] + x[i] }";
    let before = "let v%91: f64 = x[M]\nfor i%90 in 0..N { 'u'[i]: u[i] = v + x[i] }";
    same(inside, &format!("if 0 < N {{ {before} }}"));
    // The loop may have no iterations, and the element may not exist.
    other(inside, before);
    let some = |s: &str| s.replace("0..N", "0..3");
    same(&some(inside), &some(before));
    // Something may fail first.
    let check = "for i%90 in 0..3 { check M < N, \"m\", \"M is large\"\n'u'[i]: u[i] = x[M] + x[i] }";
    let early = "let v%91: f64 = x[M]\nfor i%90 in 0..3 { check M < N, \"m\", \"M is large\"\n'u'[i]: u[i] = v + x[i] }";
    other(check, early);
    // The loop writes what is read.
    other(
        "for i%90 in 0..3 { 'u'[i]: u[i] = u[M] + x[i] }",
        "let v%91: f64 = u[M]\nfor i%90 in 0..3 { 'u'[i]: u[i] = v + x[i] }",
    );
    // Only some iterations read it.
    other(
        "for i%90 in 0..3 { if c < x[i] { 'u'[i]: u[i] = x[M] } }",
        "let v%91: f64 = x[M]\nfor i%90 in 0..3 { if c < x[i] { 'u'[i]: u[i] = v } }",
    );
    // Whole nests move.
    let norm =
        "alloc s@80: f64[]\n's.init'[0]: s[] = 0.0:f64\nfor j%92 in 0..N { 's'[0, j]: s[] sum= x[j] * x[j] }";
    let use_it = "'u'[i]: u[i] = x[i] / s[]";
    same(
        &format!("for i%90 in 0..N {{ {norm}\n{use_it} }}"),
        &format!("if 0 < N {{ {norm}\nfor i%90 in 0..N {{ {use_it} }} }}"),
    );
}

#[test]
fn iterations_at_once_share_no_array_that_they_write() {
    let own = "for i%90 in 0..N cpu { alloc t@80: f64[]\n't'[i]: t[] = x[i]\n'u'[i]: u[i] = t[] }";
    let shared = "alloc t@80: f64[]\nfor i%90 in 0..N cpu { 't'[i]: t[] = x[i]\n'u'[i]: u[i] = t[] }";
    other(own, shared);
    same(&own.replace(" cpu", ""), &shared.replace(" cpu", ""));
}

#[test]
fn divisions_stay_where_they_are() {
    let divided = "for i%90 in 0..N { 'u'[i]: u[i] = f64(k[i] // k[0]) }";
    same(divided, "for i%90 in 0..N { let v%91: f64 = f64(k[i] // k[0])\n'u'[i]: u[i] = v }");
    other(divided, "for i%90 in 0..N { let v%91: i32 = k[i] // k[1]\n'u'[i]: u[i] = f64(k[i] // k[0]) }");
}

#[test]
fn inputs_and_who_else_writes() {
    let scan = |value: &str| {
        format!(
            "alloc s@80: f64[]\n's.init'[]: s[] = 0.0:f64\n\
             for i%90 in 0..N {{ 's'[i]: s[] sum= {value}\n'u'[i]: u[i] = s[] }}"
        )
    };
    let changed = |value: &str| {
        let ((module, before), (_, after)) =
            (read(&scan(value)), read(&scan(value).replace("0..N", "0..N step 2")));
        let c = Change { module: &module, before: &before, after: &after };
        (inputs_kept(&c, "s").is_ok(), only_by(&c, "s", "s", false).is_ok())
    };
    assert_eq!(changed("x[i]"), (true, true));
    assert_eq!(changed("u[i] + x[i]"), (false, true));
    assert_eq!(changed("x[i]\n'z'[i]: s[] = 0.0:f64"), (true, false));
}

#[test]
fn what_a_loop_overwrites_and_reads_only_afterwards() {
    let read =
        "'u.first'[]: u[M] = 0.0:f64\nfor i%90 in 0..N { 'u'[i]: u[i] = sin(x[i])\n'w'[i]: w[i] = u[i] + c }";
    let named = |value: &str| {
        format!(
            "'u.first'[]: u[M] = 0.0:f64\nfor i%90 in 0..N {{ let v%91: f64 = sin(x[i])\n'u'[i]: u[i] = v\n\
             'w'[i]: w[i] = {value} }}"
        )
    };
    same(read, &named("v + c"));
    same(read, named("v + c").split_once('\n').map_or("", |t| t.1));
    other(read, &named("v"));
    // It is read before it is overwritten.
    let first =
        "'u.first'[]: u[M] = 0.0:f64\nfor i%90 in 0..N { 'w'[i]: w[i] = u[i]\n'u'[i]: u[i] = sin(x[i]) }";
    other(first, first.split_once('\n').map_or("", |t| t.1));
    // Not all of it is overwritten.
    let rest = read.replace("0..N", "1..N");
    other(&rest, rest.split_once('\n').map_or("", |t| t.1));
    // An update keeps what was there.
    let update = "'u.first'[]: u[M] = 0.0:f64\nfor i%90 in 0..N { 'u'[i]: u[i] sum= sin(x[i]) }";
    other(update, update.split_once('\n').map_or("", |t| t.1));
}

#[test]
fn comparing_has_a_budget() {
    // Every statement writes and reads all arrays of the loop, so that what changes depends on everything.
    let line =
        |n: usize| format!("'u.{n}'[i]: u[i] = sin(u[(i + {n}) % N]) + w[(i * {n}) % N] / x[(i + {n}) % N]");
    let lines = (2..200).map(line).collect::<Vec<_>>().join("\n");
    let (before, after) = (
        format!("for i%90 in 0..N {{ {lines} }}"),
        format!("for i%90 in 0..N {{ {lines}\n'w'[i]: u[i] = u[i] }}"),
    );
    let ((module, before), (_, after)) = (read(&before), read(&after));
    // The same with a name for a value, which is no reason to refuse it.
    let named = lines.replacen("'u.2'", "let v%91: f64 = 1.0:f64\n'u.2'", 1);
    let (_, renamed) = read(&format!("for i%90 in 0..N {{ {named} }}"));
    let change = Change { module: &module, before: &before, after: &after };
    let within = |most: u64| lathe_analysis::within_work(most, || computes_the_same(&change));
    for most in [0, 1, 10, 100, 1000] {
        assert!(within(most).is_err(), "nothing is left to spend");
        let same = Change { module: &module, before: &before, after: &renamed };
        assert!(lathe_analysis::within_work(most, || computes_the_same(&same)).is_err(), "{most}");
    }
    let same = Change { module: &module, before: &before, after: &renamed };
    assert!(
        lathe_analysis::within_work(u64::MAX, || computes_the_same(&same)).is_ok(),
        "such a tree is compared"
    );
    // The budget is no part of the answer once it is enough.
    assert!(computes_the_same(&Change { module: &module, before: &before, after: &before }).is_ok());
}
