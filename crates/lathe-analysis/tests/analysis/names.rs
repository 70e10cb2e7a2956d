//! Named values around accesses: those that a subscript speaks of decide the order, all others cost nothing.

use lathe_analysis::{Env, OrderProof, OrderRefusal, order_preserved, within_work};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

/// The verdict on a loop over `i` in tiles, whose loop of tiles becomes parallel.
fn parallel(body: &str) -> Result<OrderProof, OrderRefusal> {
    let tree = |executor: &str| {
        let text = format!(
            "func f(N)(key: in u32, X: in index[N], Y: inout f32[N]) {{
               for o in 0..(N + 15) // 16 {executor} {{
                 for j in 0..min(16, N - o * 16) {{ let i: index = o * 16 + j\n {body} }} }} }}"
        );
        parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{d:?}\n{text}"))
    };
    let (old, new) = (tree(""), tree("cpu"));
    let (before, after) = (&old.functions["f"], &new.functions["f"]);
    order_preserved(&Env::root(&old, before), &before.body, &after.body)
}

fn concurrent(verdict: Result<OrderProof, OrderRefusal>) {
    match verdict {
        Err(OrderRefusal::Violation(v)) => assert!(v.concurrent, "{v:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_chain_that_no_subscript_speaks_of_costs_nothing() {
    let mut chain = String::from("let a0: u32 = key + u32(i)\n let b0: u32 = xor(a0, shr(a0, 19:u32))\n");
    for k in 1..60 {
        let last = k - 1;
        chain += &format!("let a{k}: u32 = a{last} + b{last}\n");
        chain += &format!("let b{k}: u32 = xor(xor(shl(b{last}, 13:u32), shr(b{last}, 19:u32)), a{k})\n");
    }
    let body = format!("{chain} 'y'[i]: Y[i]? = Y[i]? + f32(b59)");
    let proof = within_work(20_000, || parallel(&body)).expect("each iteration has an element of its own");
    assert!(proof.pairs > 0);
}

#[test]
fn what_a_subscript_speaks_of_decides() {
    parallel("let d: index = i + 1\n let e: index = d - 1\n 'y'[i]: Y[e]? = 1.0:f32")
        .expect("its own element");
    concurrent(parallel("let d: index = i + 1\n let e: index = d // 3\n 'y'[i]: Y[e]? = 1.0:f32"));
    concurrent(parallel("let d: index = X[i]?\n let e: index = d + i\n 'y'[i]: Y[e]? = 1.0:f32"));
    // A condition speaks of it: there is only one iteration.
    parallel("let d: index = i - 5\n let e: index = d + N\n if e == N { 'y'[i]: Y[0]? = 1.0:f32 }")
        .expect("one");
}
