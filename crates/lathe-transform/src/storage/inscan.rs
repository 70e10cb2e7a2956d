//! `inscan`: iterations of a scan become lanes that combine in order.

use super::make::refuse;
use super::prescan::{Scan, running_value};
use crate::args::Args;
use crate::blocks::blocks;
use crate::codes;
use crate::laws;
use crate::names;
use crate::nest::around;
use crate::rule;
use crate::work::Work;
use lathe_ir::lower::in_order;
use lathe_ir::{Buffer, Executor, Loop, ReduceOp, Stmt, StmtKind};
use lathe_prove::Which;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Refusal};

const RULE: &str = "inscan";

rule! {
    /// `inscan(s.acc, i, 16)` runs 16 iterations of a scan's loop at a time: the vector of what they add becomes that
    /// of their running values by doubling, in as many steps as 16 has bits, and the running value goes on from its
    /// last lane. A loop of 16 iterations keeps its name; a longer one becomes `i.o` and the lanes `i.i`, and what 16
    /// does not divide a loop `i.rest`, which stays as it was.
    ///
    /// Legal for a running value (`s.acc`, an array without dimensions) that an innermost loop changes by one reduction
    /// with a built-in operator and then stores, where nothing that it reads is written by it and every iteration
    /// writes another element. The result is associated differently, which is recorded.
    ///
    /// An array whose elements take in the one before has no such name: `inscan(t, j, 16)` is legal where a loop does nothing but
    /// `t[i, j] = max(0, e, t[i, j - 1] - 2)` on signed integers, with a number among the operands, so that no sum leaves the type;
    /// likewise `min` with what is added. What takes in the element before is written last.
    ///
    /// ```lathe
    /// kernel prefix(x: f32[N]) -> (s: f32[N]) {
    ///     s[i] = scan(sum)[i](x[i])
    /// }
    /// strategy lanes for prefix = inscan(s.acc, i, vector(f32))
    /// ```
    pub static INSCAN = inscan, version 1, (array: one Buffer, loop: one Loop, width: one Int), apply,
        "runs the iterations of a scan as lanes of a vector that combine in order";
}

/// The widest vectors, in lanes.
const WIDEST: i64 = 64;

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "loop", 1)?)?;
    let width = args.positive(RULE, "width", 2)?;
    let l = names::loop_at(cursor, RULE, &path)?.clone();
    let places = cursor.at(&path).map_or(lathe_diagnostics::Places::none(), |s| s.places().clone());
    let no = |text: String, help: &str| refuse(RULE, codes::SHAPE, text, help, &places);
    if !(2..=WIDEST).contains(&width) || !(width as u64).is_power_of_two() {
        let text = format!("`{RULE}`: {width} is no number of lanes");
        return Err(refuse(RULE, codes::ARGUMENT, text, "give a power of two from 2 to 64", &places));
    }
    let recurrence = !buffer.extents.is_empty() && l.body.as_store().is_some();
    let scan = if recurrence {
        stores_in_turn(&l, &buffer).map_err(|(text, help)| no(text, help))?;
        None
    } else {
        running_value(RULE, cursor, &buffer, &l, &path, &places)?;
        Some(Scan::read(RULE, cursor, &l, &buffer, &places)?)
    };
    if let Some(s) = scan.as_ref().filter(|s| matches!(s.op, ReduceOp::User(_))) {
        let text = format!("the operator `{}` is declared; lanes combine by built-in ones", s.op);
        return Err(no(text, "leave this loop serial"));
    }
    for outer in names::loops_around(&work.func().body, &path) {
        if matches!(names::loop_at(cursor, RULE, &outer)?.exec, Executor::Vector(_)) {
            return Err(no("the loop is inside of a vector loop".into(), "vectorize one of the two"));
        }
    }
    let s = work.at(&path)?.clone();
    let exec = Executor::InScan(width as u32);
    let whole = Loop { exec: exec.clone(), ..l.clone() };
    let (lanes, new) = if in_order(&whole, width as u32).is_ok() {
        (whole.clone(), s.with_kind(StmtKind::Loop(whole)))
    } else {
        let mut b = blocks(work, &l, &s, width, &path, Executor::Serial);
        b.inner.exec = exec;
        let inner = Stmt::new(StmtKind::Loop(b.inner.clone()), s.places().clone());
        (b.inner, Stmt::seq([around(&b.outer, s.places(), inner)].into_iter().chain(b.rest)))
    };
    if let Err(why) = in_order(&lanes, width as u32) {
        let text = format!("the lanes of `{}` cannot combine in order: {why}", l.binder.name);
        return Err(no(
            text,
            "choose the innermost loop of a scan, whose values are stored one after the other",
        ));
    }
    work.replace_by_rule(&path, new, Kind::Bijection, Construction::InOrder)?;
    work.scheduled();
    // Integers that stay in their type are the same in any order.
    let Some(scan) = scan else { return Ok(()) };
    let types = std::slice::from_ref(&buffer.elem);
    let law = laws::rely(RULE, cursor.module, cursor.func, &scan.op, types, Which::Associative, &places)?;
    work.relies_on(&law);
    let label = scan.label.to_string();
    work.changes_rounding(&label);
    work.decide(Claim::InputsKept { label }, "choose a loop of stores and reductions")
}

/// Whether a loop is a serial one that stores into an array; else what is wrong, and what helps.
fn stores_in_turn(l: &Loop, buffer: &Buffer) -> Result<(), (String, &'static str)> {
    let stored = l.body.as_store().and_then(|s| s.target.view.buffer());
    if stored != Some(buffer.id) {
        let text = format!("the loop does not store into `{}`", buffer.name);
        return Err((text, "name the array whose elements take in the ones before them"));
    }
    if l.step != 1 || l.exec != Executor::Serial {
        let text = "the loop is not serial, or its step is not 1".to_string();
        return Err((text, "do this before `parallel` and `vectorize`"));
    }
    Ok(())
}
