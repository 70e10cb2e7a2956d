//! Which atomics may change places, and which may run at the same time.

use lathe_analysis::{Env, OrderProof, OrderRefusal, order_preserved};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

/// The verdict on a loop over `i` that gets another executor; `{}` is where that stands.
fn run_by(executor: &str, program: &str) -> Result<OrderProof, OrderRefusal> {
    let tree = |executor: &str| {
        let body = program.replace("{}", executor);
        let text = format!(
            "func f(N)(X: in i32[N], H: inout i32[N], F: inout f32[N], O: inout i32[N]) {{ {body} }}"
        );
        parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{d:?}\n{text}"))
    };
    let (old, new) = (tree(""), tree(executor));
    let (before, after) = (&old.functions["f"], &new.functions["f"]);
    order_preserved(&Env::root(&old, before), &before.body, &after.body)
}

/// A statement in `for i in 0..N`.
fn alone(statement: &str, executor: &str) -> Result<OrderProof, OrderRefusal> {
    run_by(executor, &format!("for i in 0..N {{}} {{ {statement} }}"))
}

fn concurrent(verdict: Result<OrderProof, OrderRefusal>) {
    match verdict {
        Err(OrderRefusal::Violation(v)) => assert!(v.concurrent, "{v:?}"),
        other => panic!("{other:?}"),
    }
}

const COUNT: &str = "atomic 'H'[i]: H[index(X[i])]? sum= 1:i32 relaxed scope system";

#[test]
fn updates_of_one_operator_run_at_once() {
    for executor in ["cpu", "level(grid)", "level(block)"] {
        let proof = alone(COUNT, executor).expect("legal");
        assert_eq!(proof.used_licence.len(), 1, "their order changes");
    }
    alone("atomic 'F'[i]: F[0]? sum= 1.0:f32 relaxed scope system", "cpu").expect("of one statement");
    alone("atomic 'H'[i]: H[i]? exchange 1:i32 relaxed scope system", "cpu").expect("elements of their own");
    alone("atomic 'H'[i]: H[0]? load relaxed scope system", "cpu").expect("nobody writes");
}

#[test]
fn what_tells_who_was_first_stays_in_order() {
    for statement in [
        "atomic 'H'[i]: H[0]? store X[i] relaxed scope system",
        "atomic 'H'[i]: H[0]? exchange X[i] relaxed scope system",
        "atomic 'H'[i]: H[0]? compare 0:i32 exchange X[i] relaxed scope system",
        "atomic 'H'[i]: H[0]? sum= 1:i32 relaxed scope system as old: i32 { 'O'[i]: O[i] = old }",
        "atomic 'H'[i]: H[0]? sum= 1:i32 relaxed scope system  atomic 'H.2'[i]: H[0]? max= 3:i32 relaxed scope system",
        "atomic 'F'[i]: F[0]? sum= 1.0:f32 relaxed scope system  atomic 'F.2'[i]: F[0]? sum= 2.0:f32 relaxed scope system",
        "atomic 'H'[i]: H[0]? sum= 1:i32 relaxed scope system  'O'[i]: O[i] = H[0]?",
        "atomic 'H'[i]: H[0]? sum= 1:i32 relaxed scope system  'H.2'[i]: H[i] = 0:i32",
        "'H'[i]: H[0]? sum= 1:i32 licensed",
    ] {
        concurrent(alone(statement, "cpu"));
    }
    // Integers are added in any order, by whatever statement.
    let both = "atomic 'H'[i]: H[0]? sum= 1:i32 relaxed scope system  atomic 'H.2'[i]: H[0]? sum= 2:i32 relaxed scope system";
    alone(both, "cpu").expect("legal");
}

#[test]
fn what_nothing_ordered_needs_no_order() {
    // Iterations of the outer loop run at once before and after; those of the inner one in their order.
    let program = |statement: &str| format!("for j in 0..N cpu {{ for i in 0..N {{}} {{ {statement} }} }}");
    let own = "atomic 'H'[j, i]: H[0]? exchange X[i] relaxed scope system";
    concurrent(run_by("cpu", &program(own)));
    run_by("unrolled", &program(own).replace("0..N {}", "0..4 {}")).expect("kept in order");
}

#[test]
fn scopes_say_how_far_it_is_indivisible() {
    let nest = |scope: &str| {
        format!(
            "for j in 0..N {{}} {{ for i in 0..N level(block) {{ atomic 'H'[j, i]: H[0]? sum= 1:i32 relaxed scope {scope} }} }}"
        )
    };
    run_by("level(grid)", &nest("system")).expect("everywhere");
    run_by("level(grid)", &nest("grid")).expect("among all blocks");
    concurrent(run_by("level(grid)", &nest("block")));
    // A loop that takes the name makes the scope smaller.
    let inner = |scope: &str| {
        format!(
            "for j in 0..N level(grid) {{ for i in 0..N {{}} {{ atomic 'H'[j, i]: H[0]? sum= 1:i32 relaxed scope {scope} }} }}"
        )
    };
    run_by("level(block)", &inner("system")).expect("everywhere");
    assert!(matches!(run_by("level(block)", &inner("block")), Err(OrderRefusal::Undecided(_))));
}

#[test]
fn atomics_that_order_others_are_left_where_they_are() {
    let verdict = alone("atomic 'H'[i]: H[i]? store 1:i32 release scope system", "cpu");
    assert!(matches!(verdict, Err(OrderRefusal::Undecided(_))), "{verdict:?}");
}
