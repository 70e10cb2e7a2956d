//! What strategies can ask of a place in a tree of loops.

use crate::names;
use crate::rule::Cursor;
use lathe_ir::{Executor, Stmt, visit};
use lathe_strategy::StepArg;

/// `isLoop` and `isStmt` take a name: that of the loop, or the label whose statements are there and no others.
pub const NAMES: &[&str] = &[
    "isLoop",
    "isStmt",
    "isSerial",
    "isParallel",
    "isVector",
    "isUnrolled",
    "isStore",
    "isReduction",
    "isAlloc",
    "isIf",
    "isSequence",
    "isInnermost",
];

/// Whether a predicate holds at a path from the body.
pub fn holds(cursor: &Cursor, predicate: &str, path: &[usize], args: &[StepArg]) -> bool {
    let Some(s) = visit::at(&cursor.func.body, path) else { return false };
    let runs = |is: fn(&Executor) -> bool| s.as_loop().is_some_and(|l| is(&l.exec));
    let name = args.first().map(|a| a.value.to_string());
    match (predicate, name) {
        ("isLoop", None) => s.as_loop().is_some(),
        ("isLoop", Some(n)) => {
            s.as_loop().is_some() && names::find_loops(cursor, &n).iter().any(|p| p.as_slice() == path)
        }
        ("isStmt", None) => s.label().is_some(),
        ("isStmt", Some(l)) => names::find_family(cursor, &l).is_ok_and(|p| p.as_slice() == path),
        ("isSerial", _) => runs(|e| *e == Executor::Serial),
        ("isParallel", _) => runs(|e| !e.is_ordered() && !matches!(e, Executor::Vector(_))),
        ("isVector", _) => runs(|e| matches!(e, Executor::Vector(_) | Executor::InScan(_))),
        ("isUnrolled", _) => runs(|e| *e == Executor::Unrolled),
        ("isStore", _) => s.as_store().is_some(),
        ("isReduction", _) => s.as_reduce().is_some(),
        ("isAlloc", _) => s.as_alloc().is_some(),
        ("isIf", _) => s.as_if().is_some(),
        ("isSequence", _) => s.as_seq().is_some(),
        ("isInnermost", _) => s.as_loop().is_some_and(|l| !has_loop(&l.body)),
        _ => false,
    }
}

fn has_loop(s: &Stmt) -> bool {
    s.as_loop().is_some() || s.children().any(has_loop)
}
