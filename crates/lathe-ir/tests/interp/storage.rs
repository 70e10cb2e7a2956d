//! Globals, external functions, pointers, and what calls promise about their arrays: trees in text.

use super::helpers::Text;
use lathe_ir::interp::{ArrayValue, codes};
use lathe_ir::{Scalar, Type};

fn ints(values: &[i64]) -> ArrayValue {
    ArrayValue::from_i64(Scalar::I32, &[values.len()], values)
}

fn cell(value: i64) -> ArrayValue {
    ArrayValue::from_i64(Scalar::I32, &[], &[value])
}

#[test]
fn globals_outlive_calls() {
    let text = Text::new(
        "global count: i32[] = zero
        global steps: i32[2] constant = {5:i32, 7:i32}
        global last: i32[]
        func k()(i: in index, y: out i32[]) {
          'c': global(count)[] = global(count)[] + global(steps)[i]
          'y': y[] = global(count)[]
          'l': global(last)[] = y[]
        }",
    );
    let mut globals = text.globals();
    for (i, sum) in [(0, 5), (1, 12), (1, 19)] {
        let mut args = [ArrayValue::from_i64(Scalar::Index, &[], &[i]), cell(0)];
        text.call(&mut args, &mut globals).expect("it runs");
        assert_eq!(args[1].to_i64_vec(), [sum]);
    }
    assert_eq!(globals.get("last").map(ArrayValue::to_i64_vec), Some(vec![19]));
    assert_eq!(globals.get("count").map(ArrayValue::to_i64_vec), Some(vec![19]));
}

#[test]
fn globals_are_undefined_or_shared_like_other_arrays() {
    let undefined = "global t: i32[] func k()(y: out i32[]) { 'y': y[] = global(t)[] }";
    assert_eq!(Text::new(undefined).fails(vec![cell(0)]), codes::UNINITIALIZED);
    let text = |op: &str| {
        Text::new(format!(
            "global t: i32[] = zero
            func bump()(n: in i32) stage scheduled {{ {op} }}
            func k(N)(A: in i32[N]) stage scheduled {{ for i in 0..N cpu {{ call bump(A[i]) }} }}"
        ))
    };
    text("'t': global(t)[] sum= n licensed").races(vec![ints(&[1, 2])]);
    text("atomic 't': global(t)[] sum= n relaxed scope system").agree(|| vec![ints(&[1, 2])]);
}

#[test]
fn external_functions_are_run_by_what_they_mean() {
    let text = |meaning: &str| {
        Text::new(format!(
            "extern clamp()(x: in i32, top: in i32) -> i32 effects () {meaning}
            func least()(a: in i32, b: in i32) = min(a, b)
            func k(N)(A: inout i32[N]) {{
              for i in 0..N {{ 'A'[i]: A[i] = call clamp(A[i], 3:i32):i32 }}
            }}"
        ))
    };
    for results in text("meaning least").agree(|| vec![ints(&[5, 1])]) {
        assert_eq!(results[0].to_i64_vec(), [3, 1]);
    }
    assert_eq!(text("").fails(vec![ints(&[5, 1])]), codes::UNSUPPORTED);
}

#[test]
fn declared_regions_hold_through_calls_and_views() {
    let text = |declared: &str| {
        Text::new(format!(
            "func fill(K)(x: inout i32[K]) {{ for i in 0..K {{ 'x'[i]: x[i] = x[i] + 1:i32 }} }}
            func odd(K)(x: inout i32[K], n: in index) effects ({declared}) {{
              call fill(&slice(x, [n], [2]))
            }}
            func k(N)(A: inout i32[N]) {{ call odd(&A, 1) }}"
        ))
    };
    let args = || vec![ints(&[1, 2, 3, 4])];
    for declared in ["read x, write x", "read x[n..K], write x[n..K]", "read x[1..4], write x[0..9]"] {
        for results in text(declared).agree(args) {
            assert_eq!(results[0].to_i64_vec(), [1, 3, 3, 5], "{declared}");
        }
    }
    for declared in ["read x, write x[n..3]", "read x[n + 1..K], write x"] {
        assert_eq!(text(declared).fails(args()), codes::UNDECLARED, "{declared}");
    }
}

#[test]
fn arrays_of_a_call_are_apart_unless_their_class_is_one() {
    let text = |a: &str, b: &str, alias: &str| {
        Text::new(format!(
            "func add(K)(x: in i32[K]{alias}, y: inout i32[K]{alias}) {{
              for i in 0..K {{ 'y'[i]: y[i] = y[i] + x[i] }}
            }}
            func k(N)(A: inout i32[N]) {{ call add(&{a}, &{b}) }}"
        ))
    };
    let args = || vec![ints(&[1, 2, 3, 4])];
    let (even, odd) = ("slice(A, [0], [2])", "slice(A, [1], [2])");
    for results in text(even, odd, "").agree(args) {
        assert_eq!(results[0].to_i64_vec(), [1, 3, 3, 7], "they interleave, and share nothing");
    }
    assert_eq!(text("A", "A", "").fails(args()), codes::ARGUMENTS);
    assert_eq!(text(odd, "slice(A, [3], [-2])", "").fails(args()), codes::ARGUMENTS);
    for results in text("A", "A", " alias C").agree(args) {
        assert_eq!(results[0].to_i64_vec(), [2, 4, 6, 8]);
    }
}

#[test]
fn pointers_see_arrays_of_their_class() {
    let run = |body: &str| {
        Text::new(format!(
            "global g: i32[2] alias heap = {{10:i32, 20:i32}}
            global other: i32[2] alias rest = zero
            func at()(p: in u64, y: out i32[]) {{ 'y': y[] = deref(p, heap):i32[1] }}
            func k(N)(A: inout i32[N] alias heap, y: out i32[]) {{ {body} }}"
        ))
    };
    let args = || vec![ints(&[1, 2, 3]), ArrayValue::undefined(Type::I32, &[])];
    let results = [
        ("'y': y[] = deref(address(A[0]), heap):i32[2]", 3),
        ("'y': y[] = deref(address(A[1]) + 4:u64, heap):i32[0]", 3),
        ("call at(address(A[1]), &y)", 3),
        ("call at(address(global(g)[0]), &y)", 20),
        ("'y': y[] = i32(address(A[3]) - address(A[0]))", 12),
        ("'a': deref(address(A[2]), heap):i32[0] = 7:i32 'y': y[] = A[2]", 7),
        ("'y': y[] = i32(reinterpret(deref(address(A[0]), heap), u8, 1)[4])", 2),
        ("'y': y[] = i32(deref(address(A[1]) + 1:u64, heap):u8[0])", 0),
        ("'y': y[] = i32(deref(address(slice(A, [2], [-1])[2]), heap):i64[0] >= 0:i64)", 1),
    ];
    for (body, value) in results {
        for results in run(body).agree(args) {
            assert_eq!(results[1].to_i64_vec(), [value], "{body}");
        }
    }
    let wrong = [
        "'y': y[] = deref(address(A[0]), heap):i32[3]",
        "'y': y[] = deref(address(A[3]), heap):i32[0]",
        "'y': y[] = deref(address(A[0]) + 2:u64, heap):i32[0]",
        "'y': y[] = deref(address(global(other)[0]), heap):i32[0]",
        "'y': y[] = i32(deref(address(A[1]), heap):i64[0])",
        "'y': y[] = deref(0:u64, heap):i32[0]",
        "'y': y[] = deref(address(A[0]) + 4096:u64, heap):i32[0]",
    ];
    for body in wrong {
        assert_eq!(run(body).fails(args()), codes::OUT_OF_BOUNDS, "{body}");
    }
}

#[test]
fn races_are_found_through_pointers() {
    let text = |at: &str| {
        Text::new(format!(
            "func k(N)(A: inout i32[N] alias heap) stage scheduled {{
              for i in 0..N cpu {{
                let p: u64 = address(A[0])
                'A'[i]: deref(p, heap):i32[{at}] = i32(i)
                'B'[i]: A[i] = A[i] + 1:i32
              }}
            }}"
        ))
    };
    for results in text("i").agree(|| vec![ints(&[5, 5, 5])]) {
        assert_eq!(results[0].to_i64_vec(), [1, 2, 3]);
    }
    text("min(i + 1, 2)").races(vec![ints(&[5, 5, 5])]);
}
