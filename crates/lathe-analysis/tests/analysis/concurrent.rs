//! Trees that say by themselves what runs at the same time.

use lathe_analysis::{codes, prove_concurrent};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

fn races(text: &str) -> Vec<String> {
    let module = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{text}\n{d:?}"));
    let func = module.functions.values().next().expect("a function");
    prove_concurrent(&module, func).iter().map(|d| d.code.0.to_string()).collect()
}

#[test]
fn the_page_of_the_code_is_right() {
    let page = codes::CODES.iter().find(|c| c.code == codes::RACE).expect("a page");
    assert_eq!(races(page.wrong), ["E0505"]);
    assert!(races(page.right).is_empty());
}

#[test]
fn iterations_that_share_elements_are_found() {
    for (body, ok) in [
        ("for i in 0..N cpu { 'h'[i]: h[i] = x[i] }", true),
        ("for i in 0..N cpu { 'h'[i]: h[i // 2] = x[i] }", false),
        ("for i in 0..N cpu { 'h'[i]: h[i % 8] = x[i] }", false),
        ("for i in 1..N cpu { 'h'[i]: h[i] = h[i - 1] + x[i] }", false),
        ("for i in 1..N { for j in 0..4 vector(4) { 'h'[i, j]: h[i * 4 + j] = x[j] } }", true),
        ("for j in 0..4 vector(4) { 'h'[j]: h[0] sum= x[j] }", false),
        // The inner loop runs in order, and each iteration of the outer one has a row.
        ("for i in 0..N cpu { for j in 0..8 { 'h'[i, j]: h[i] sum= x[j] licensed } }", true),
        ("for i in 0..N cpu { for j in 0..8 cpu { 'h'[i, j]: h[i] sum= x[j] licensed } }", false),
        ("for i in 0..N cpu { alloc t: i32[] stack { 't'[i]: t[] = x[i] 'h'[i]: h[i] = t[] } }", true),
        ("alloc t: i32[] stack { for i in 0..N cpu { 't'[i]: t[] = x[i] 'h'[i]: h[i] = t[] } }", false),
        ("for i in 0..N cpu { atomic 'h'[i]: h[x[i] % 8]! sum= 1:i32 relaxed scope system }", true),
    ] {
        let text = format!("func f(N)(x: in i32[N], h: inout i32[8 * N]) stage scheduled {{ {body} }}");
        assert_eq!(races(&text).is_empty(), ok, "{body}");
    }
}
