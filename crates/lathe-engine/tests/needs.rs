//! What a tree needs is found by one walk, and refused by name and place.

use lathe_diagnostics::FileId;
use lathe_engine::{Capabilities, Engine, Form, Interpreter, accept, needs};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Module};

fn parse(text: &str) -> (Module, Function) {
    let m = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
    let f = m.functions["f"].clone();
    (m, f)
}

/// The tags of what a body uses beyond stores to `f32` arrays in serial loops.
fn tags(body: &str) -> Vec<String> {
    let (m, f) =
        parse(&format!("{OTHERS}\nfunc f(N)(A: inout f32[N], B: in i32[N]) stage scheduled {{ {body} }}"));
    let usual = ["stmt.store", "stmt.loop", "exec.serial", "type.f32", "type.i32", "type.index"];
    needs(&m, &f).iter().map(|n| n.feature.to_string()).filter(|t| !usual.contains(&t.as_str())).collect()
}

const OTHERS: &str = "struct P { v: f32, i: i64 }
global g: f32[4] alias c = zero
extern noise()() -> f32 effects (fail)
func twice()(x: in f32) stage plain = x + x
func again()(x: inout f32[4]) { call again(&x) }
func sized(M)(x: inout f32[M + 1]) { 'x': x[0] = 0.0:f32 }
func told(M)(x: inout f32[M]) { check M > 0, \"E9\", \"empty\" }
";

#[test]
fn each_construct_has_a_tag() {
    for (body, want) in [
        ("", &[][..]),
        ("for i in 0..N { 'A'[i]: A[i] = 0.0:f32 }", &[]),
        ("for i in 0..N cpu { 'A'[i]: A[i] sum= f32(f64(B[i])) }", &["exec.cpu", "stmt.reduce", "type.f64"]),
        ("for i in 0..N level(warp) { 'A'[i]: A[i] = 0.0:f32 }", &["exec.warp"]),
        ("for i in 0..N team { barrier i }", &["exec.team", "stmt.barrier"]),
        ("atomic 'A': A[0] sum= 1.0:f32 relaxed scope device", &["stmt.atomic"]),
        ("token t { async t { 'A': A[0] = 0.0:f32 } wait t }", &["stmt.token", "stmt.async", "stmt.wait"]),
        ("compute 'A' over i in 0..N { A[i] = 0.0:f32 }", &["stmt.compute"]),
        (
            "alloc t: f16[4] shared layout swizzle(0, 0, 4) { }",
            &["stmt.alloc", "type.f16", "space.shared", "layout.swizzle"],
        ),
        ("alloc t: P[4] stack { }", &["stmt.alloc", "form.aggregate", "type.i64", "space.stack"]),
        ("'A': A[0] = slice(A, [1], [1])[0] + reshape(A, [N, 1])[0, 0]", &["view.slice", "view.reshape"]),
        ("'A': A[0] = reinterpret(B, f32, 4)[0]", &["view.reinterpret"]),
        ("'A': A[0] = call twice(A[1]):f32", &["stmt.call"]),
        ("'A': A[0] = global(g)[1]", &["view.global"]),
        ("'A': A[0] = call noise():f32", &["form.external_value"]),
        (
            "'A': A[0] = deref(address(global(g)[0]), c):f32[1]",
            &["view.deref", "type.u64", "view.global", "form.address"],
        ),
        ("call again(&A)", &["stmt.call", "form.recursion"]),
        ("call sized(&A)", &["stmt.call", "form.free_call_size"]),
        ("call told(&A)", &["stmt.call", "stmt.check", "type.bool"]),
        (
            "call told(&slice(A, [0], [1]))",
            &["stmt.call", "view.slice", "form.free_call_size", "stmt.check", "type.bool"],
        ),
        (
            "call told(&reshape(A, [N]))",
            &[
                "stmt.call",
                "view.reshape",
                "form.argument_view",
                "form.free_call_size",
                "stmt.check",
                "type.bool",
            ],
        ),
        (
            "alloc t: f32[8] stack layout permute(0) { call told(&t) }",
            &[
                "stmt.alloc",
                "space.stack",
                "layout.permute",
                "stmt.call",
                "form.argument_layout",
                "stmt.check",
                "type.bool",
            ],
        ),
        ("if N > 1 { while N > 1 { 'A': A[0] = 0.0:f32 } }", &["stmt.if", "type.bool", "stmt.while"]),
    ] {
        assert_eq!(tags(body), want, "{body}");
    }
}

#[test]
fn lanes_have_rules() {
    let vector = |body: &str| tags(&format!("for j in 0..8 vector(8) {{ {body} }}"))[1..].to_vec();
    assert!(vector("'A'[j]: A[j] = 0.0:f32").is_empty());
    assert!(vector("'A'[j]: A[index(B[j])] = 0.0:f32").is_empty());
    assert_eq!(vector("'A'[j]: A[3] = 0.0:f32"), ["form.shared_element"]);
    assert_eq!(vector("'A'[j]: A[index(B[3])] = 0.0:f32"), ["form.shared_element"]);
    assert_eq!(vector("let k: index = j + 1 'A'[j]: A[k] = 0.0:f32"), ["stmt.let"]);
    assert_eq!(vector("let k: index = N + 1 'A'[j]: A[k] = 0.0:f32"), ["stmt.let", "form.shared_element"]);
    assert_eq!(vector("for k in j..N { 'A'[j, k]: A[k] = 0.0:f32 }"), [""; 0]);
    assert_eq!(vector("for k in 0..N { 'A'[j, k]: A[k] = 0.0:f32 }"), ["form.shared_element"]);
    assert_eq!(vector("alloc t: f32[] register { 't'[j]: t[] = 0.0:f32 }"), ["stmt.alloc", "space.register"]);
    assert_eq!(vector("alloc t: f32[N] host { }"), ["stmt.alloc", "space.host", "form.lane_array"]);
    assert_eq!(vector("alloc t: f32[8193] host { }"), ["stmt.alloc", "space.host", "form.lane_array"][..]);
    assert_eq!(vector("alloc t: f32[8192] host { }"), ["stmt.alloc", "space.host"]);
    assert_eq!(vector("for k in 0..4 vector(4) { }"), ["form.nested_vectors"]);
    assert_eq!(vector("for k in 0..4 cpu { }"), ["exec.cpu", "form.threads_in_lanes"]);
    assert_eq!(
        vector("alloc t: f32[4] stack { call told(&t) }")[2..],
        ["stmt.call", "form.lane_argument", "stmt.check", "type.bool"]
    );
    assert_eq!(vector("call told(&slice(A, [j], [1]))")[2..3], ["form.lane_argument"]);
    // A vector loop of one lane is a serial one.
    assert_eq!(tags("for j in 0..1 vector(1) { 'A'[j]: A[0] = 0.0:f32 }"), ["exec.vector"]);
    assert_eq!(tags("for j in 0..9 vector(8) { }"), ["exec.vector", "form.wide_vector"]);
    assert_eq!(tags("for j in N..N + 9 vector(8) { }"), ["exec.vector", "form.wide_vector"]);
    assert_eq!(tags("for j in 0..15 step 2 vector(8) { }"), ["exec.vector"]);
    assert_eq!(tags("for j in 0..4 inscan(4) { 'A'[j]: A[j] = 0.0:f32 }"), ["exec.inscan", "form.free_scan"]);
}

#[test]
fn what_is_missing_is_named_with_its_place() {
    let text = "func f(N)(A: inout f32[N]) {\n  for i in 0..N team { barrier i }\n  for i in 0..N node { token t }\n}";
    let (m, f) = parse(text);
    let d = accept("some", &Capabilities::plain(), &m, &f).unwrap_err();
    assert!(d.code.0 == "E0701" && ["`some`", "`i`", "`team`"].iter().all(|q| d.message.contains(q)), "{d}");
    let mark = &d.marks[0];
    assert_eq!(text[mark.span.start as usize..].lines().next(), Some("for i in 0..N team { barrier i }"));
    assert!(
        d.notes.len() == 2 && d.notes[0].contains("exec.node") && d.notes[1].contains("stmt.token"),
        "{d}"
    );
    assert!(accept("interpreter", Interpreter.capabilities(), &m, &f).is_ok());
    let (m, f) = parse("func f(N)(A: inout f32[N]) { for j in 0..8 vector(8) { 'A'[j]: A[0] = 1.0:f32 } }");
    assert_eq!(
        accept("some", &Capabilities::plain().executors(&["vector"]), &m, &f).unwrap_err().code.0,
        "E0702"
    );
    let (m, f) = parse("func f(N)(A: inout f32[N // 2]) { }");
    let d = accept("some", &Capabilities::plain(), &m, &f).unwrap_err();
    assert!(d.code.0 == "E0701" && d.message.contains("`N`") && d.help.is_some(), "{d}");
    assert!(accept("some", &Capabilities::plain().forms(&[Form::FreeSize]), &m, &f).is_ok());
}
