//! `fuse`: two loops of a block become one (loop fusion).

use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names::{find_all_loops, labels_in, list};
use crate::nest::{around, substitute};
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_analysis::{Memory, Touched};
use lathe_diagnostics::Diagnostic;
use lathe_ir::stmt::block::{self, Item};
use lathe_ir::visit::Path;
use lathe_ir::{Function, Loop, Stmt, build};
use lathe_strategy::evidence::Obligation;
use lathe_strategy::{Claim, Refusal};

rule! {
    /// `fuse(B.i, C.i)` makes one loop of two that run over the same range: each iteration runs the
    /// body of the first loop and then that of the second. The loop keeps the first one's name. `fuse(i)` fuses the two
    /// adjacent loops `i`. To fuse nests, fuse the outer loops, then the inner ones. What stands between the two loops, such as
    /// the first value of a sum, moves in front of the fused loop; what uses results of the first loop moves behind it.
    ///
    /// **Legal** if every dependence keeps its order: no iteration of the second loop may depend on a later one of the
    /// first.
    ///
    /// ```lathe
    /// kernel two(A: f32[N]) -> (B: f32[N], C: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    ///     C[i] = B[i] + 1.0
    /// }
    /// strategy s for two = fuse(B.i, C.i)
    /// ```
    pub static RULE = fuse, version 1, (first: one Loop, second: optional Loop), apply,
        "loop fusion: makes one loop of two of a block";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let first = args.path(RULE.signature.name, "first", 0)?;
    let second = args.opt_path(RULE.signature.name, "second", 1)?;
    let (a, b) = match pair(cursor, work, &first, second.as_deref()) {
        Ok(found) => found,
        Err(refusal) => {
            // The end of a local array's life may be all that is between them.
            let func = Function { body: crate::work::widened(&cursor.func.body), ..cursor.func.clone() };
            let wider = Cursor { func: &func, ..cursor.clone() };
            let found = (cursor.focus.is_empty()).then(|| pair(&wider, work, &first, second.as_deref()));
            let Some(Ok(found)) = found else {
                return match in_block(cursor, work, &first, second.as_deref())? {
                    Some(found) => with_others_between(work, &found),
                    None => Err(refusal),
                };
            };
            work.widen_lifetimes();
            found
        }
    };
    let (la, sa) = work.serial_loop(&a)?;
    let (lb, sb) = work.serial_loop(&b)?;
    same_range(work, &a, (&la, &sa), (&lb, &sb))?;
    let Some((&position, up)) = a.split_last() else {
        return Err(work.refuse(codes::SHAPE, "`fuse`: the loops are not adjacent"));
    };
    work.replace_pair(up, position, joined((&la, &sa), (&lb, &sb)))
}

/// The loop that runs both bodies.
fn joined(a: (&Loop, &Stmt), b: (&Loop, &Stmt)) -> Stmt {
    let second_body = substitute(&b.0.body, b.0.binder.id, build::var(&a.0.binder));
    let body = Stmt::seq([a.0.body.clone(), second_body]);
    around(a.0, &a.1.places().union(b.1.places()), body)
}

/// Two loops of one block with other statements between them.
struct InBlock {
    block: Path,
    items: Vec<Item>,
    /// The entries that are the two loops, and where they are in the tree.
    first: (usize, Path),
    second: (usize, Path),
}

/// The only such pair of these names, if there is one.
fn in_block(
    cursor: &Cursor,
    work: &Work,
    first: &str,
    second: Option<&str>,
) -> Result<Option<InBlock>, Refusal> {
    let firsts = find_all_loops(cursor, work.rule(), first)?;
    let seconds = match second {
        Some(s) => find_all_loops(cursor, work.rule(), s)?,
        None => firsts.clone(),
    };
    let mut found = None;
    for (a, b) in firsts.iter().flat_map(|a| seconds.iter().map(move |b| (a, b))).filter(|(a, b)| a < b) {
        let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let block = a[..same].to_vec();
        let items = block::flat(work.at(&block)?);
        let entry = |p: &Path| -> Result<Option<usize>, Refusal> {
            let address = work.at(p)?.address();
            Ok(items.iter().position(|i| matches!(i, Item::Do(s) if s.address() == address)))
        };
        if let (Some(x), Some(y)) = (entry(a)?, entry(b)?) {
            if found.is_some() {
                return Ok(None);
            }
            found = Some(InBlock { block, items, first: (x, a.clone()), second: (y, b.clone()) });
        }
    }
    Ok(found)
}

fn with_others_between(work: &mut Work, found: &InBlock) -> Result<(), Refusal> {
    let (la, sa) = work.serial_loop(&found.first.1)?;
    let (lb, sb) = work.serial_loop(&found.second.1)?;
    same_range(work, &found.first.1, (&la, &sa), (&lb, &sb))?;
    let memory = Memory::of(work.func());
    let mut behind = memory.touched(&sa).as_ref().clone();
    let conflict = |a: &Touched, b: &Touched| {
        let one = |a: &Touched, b: &Touched| a.writes.iter().any(|p| b.writes(*p) || b.reads(*p));
        a.anything || b.anything || one(a, b) || one(b, a)
    };
    // In front of the fused loop, as far as nothing that stays behind it is concerned.
    let (mut new, mut rest) = (found.items[..found.first.0].to_vec(), Vec::new());
    for item in &found.items[found.first.0 + 1..found.second.0] {
        let here = match item {
            Item::Do(s) => memory.touched(s).as_ref().clone(),
            Item::Let(_, e, _) => Touched { reads: memory.read_by(e), ..Touched::default() },
            Item::Alloc(..) => Touched::default(),
        };
        if !conflict(&here, &behind) {
            new.push(item.clone());
        } else if let Item::Do(s) = item {
            behind.reads.extend(&here.reads);
            behind.writes.extend(&here.writes);
            behind.anything |= here.anything;
            rest.push(Item::Do(s.clone()));
        } else {
            return Err(
                work.refuse(codes::SHAPE, "`fuse`: a `let` between the loops depends on the first one")
            );
        }
    }
    new.push(Item::Do(joined((&la, &sa), (&lb, &sb))));
    new.extend(rest);
    new.extend(found.items[found.second.0 + 1..].iter().cloned());
    let lives_longer = found.items[found.first.0..].iter().any(|i| matches!(i, Item::Alloc(..)));
    work.replace_checked(&found.block, block::rebuilt(new))?;
    if lives_longer {
        work.oblige(Obligation::by_rule(Claim::LifetimeOnly));
    }
    Ok(())
}

/// The two loops: `b` directly follows `a`.
fn pair(cursor: &Cursor, work: &Work, first: &str, second: Option<&str>) -> Result<(Path, Path), Refusal> {
    let firsts = find_all_loops(cursor, work.rule(), first)?;
    let seconds = match second {
        Some(s) => find_all_loops(cursor, work.rule(), s)?,
        None => firsts.clone(),
    };
    let next = |a: &Path| {
        let mut b = a.clone();
        *b.last_mut()? += 1;
        Some(b)
    };
    let pairs: Vec<(Path, Path)> = firsts
        .iter()
        .filter_map(|a| Some((a.clone(), next(a)?)))
        .filter(|p| seconds.contains(&p.1))
        .collect();
    match pairs.len() {
        1 => Ok(pairs[0].clone()),
        0 => {
            let names = [first, second.unwrap_or(first)].map(str::to_string);
            let mut d = Diagnostic::error(
                codes::SHAPE,
                format!("`fuse`: no loop `{}` directly follows a loop `{}`", names[1], names[0]),
            );
            let sibling = firsts.iter().find_map(|a| {
                let (from, up) = a.split_last()?;
                let to = seconds.iter().filter_map(|b| b.split_last()).find(|b| b.1 == up && b.0 > from)?.0;
                let between = (from + 1..*to).filter_map(|n| cursor.at(&crate::nest::child(up, n)));
                Some(between.flat_map(labels_in).collect::<Vec<String>>())
            });
            if let Some(between) = sibling {
                d = d.note(format!("between them: {}", list(&between)));
            }
            for p in firsts.iter().chain(&seconds).take(2) {
                if let Some(s) = cursor.at(p) {
                    d = d.at_places(s.places(), "one of the loops");
                }
            }
            Err(d
                .help("fuse the loops around them first; loops with others between them are fused in turn")
                .into_refusal(work.rule()))
        }
        n => Err(Diagnostic::error(codes::AMBIGUOUS, format!("`fuse`: {n} pairs of loops have these names"))
            .help("qualify them by labels: `fuse(B.i, C.i)`")
            .into_refusal(work.rule())),
    }
}

fn same_range(work: &Work, at: &[usize], a: (&Loop, &Stmt), b: (&Loop, &Stmt)) -> Result<(), Refusal> {
    let r = work.ranges(at);
    let same = |x, y| x == y || (r.le(x, y) && r.le(y, x));
    if a.0.step == b.0.step && same(&a.0.lo, &b.0.lo) && same(&a.0.hi, &b.0.hi) {
        return Ok(());
    }
    let env = lathe_analysis::Env::at(work.module(), work.func(), at);
    let text = |l: &Loop| format!("`{}` runs over {}..{}", l.binder.name, env.text(&l.lo), env.text(&l.hi));
    Err(Diagnostic::error(codes::SHAPE, "`fuse`: the loops run over different ranges")
        .at_places(a.1.places(), "the first loop")
        .at_places(b.1.places(), "the second loop")
        .note(format!("{}, {}", text(a.0), text(b.0)))
        .help("`cut` or `peel` the iterations that only one of them has, or `shift` one of them; `compute_at` fuses a producer with overlap. Where \
               they differ only for the smallest sizes, exclude these: `assume(N >= 4)`")
        .into_refusal(work.rule()))
}
