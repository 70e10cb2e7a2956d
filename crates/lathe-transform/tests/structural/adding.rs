//! What a transformation costs: one file like this, and an entry in the table of rules. The tree after it, its legality,
//! its evidence and its refusals come from what all rules share.

use crate::support::{only, parse};
use lathe_ir::Stmt;
use lathe_ir::text::print_function;
use lathe_strategy::Refusal;
use lathe_transform::names::find_one_loop;
use lathe_transform::work::Work;
use lathe_transform::{Arg, Args, Cursor, Edit, apply_rule, codes};

lathe_transform::rule! {
    /// `swap(i)` runs what follows the loop `i` before it.
    static SWAP = swap, version 1, (loop: one Loop), swap, "exchanges a loop with the statement behind it";
}

fn swap(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let path = find_one_loop(&work.cursor(), work.rule(), &args.path(work.rule(), "loop", 0)?)?;
    let (position, up) = path.split_last().unwrap_or((&0, &[]));
    let mut all = work.at(up)?.as_seq().unwrap_or_default().to_vec();
    if position + 1 >= all.len() {
        return Err(work.refuse(codes::SHAPE, "nothing follows the loop"));
    }
    all.swap(*position, position + 1);
    work.replace_checked(up, Stmt::seq(all))
}

fn swapped(name: &str, reads: &str) -> Result<Edit, Refusal> {
    let m = parse(&format!(
        "func f(N)(A: in f32[N], B: out f32[N], C: out f32[N]) stage scheduled {{
           for i in 0..N {{ 'B'[i]: B[i] = A[i] }}
           for j in 0..N {{ 'C'[j]: C[j] = {reads}[j] }}
         }}"
    ));
    let mut args = Args::default();
    args.push(None, Arg::Path(name.to_string()));
    apply_rule(&Cursor::new(&m, only(&m)), &SWAP, &args)
}

#[test]
fn a_rule_is_one_file() {
    let edit = swapped("i", "A").expect("loops that share nothing that is written");
    let text = print_function(&edit.func);
    assert!(text.find("for j") < text.find("for i"), "{text}");
    assert_eq!((edit.evidence.rule.as_str(), edit.evidence.obligations.is_empty()), ("swap", false));
    // The second loop reads what the first one writes; nothing follows the last one; there is no third.
    for (name, reads, code) in
        [("i", "B", codes::ORDER), ("j", "A", codes::SHAPE), ("k", "A", codes::UNKNOWN_NAME)]
    {
        let refused = swapped(name, reads).expect_err("no such exchange");
        assert_eq!(refused.diagnostic.code, code, "{refused:?}");
    }
}
