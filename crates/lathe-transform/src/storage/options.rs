//! Arguments that several storage rules share: space, layout, padding.

use super::region::Region;
use crate::args::{Arg, Args, IntoRefusal, wrong};
use crate::convert::{to_index, variable_at};
use crate::names;
use crate::work::Work;
use lathe_diagnostics::Span;
use lathe_ir::{Layout, LayoutStep, Space, Stmt, VarId};
use lathe_poly::bounds;
use lathe_space::{Expr, Value};
use lathe_strategy::Refusal;
use std::collections::HashSet;

/// `invariant: i`: the variables of these loops, which are inside of the statement that is staged.
pub fn invariant(work: &Work, args: &Args, at: &[usize]) -> Result<HashSet<VarId>, Refusal> {
    let (rule, cursor) = (work.rule(), work.cursor());
    let Some(name) = args.opt_path(rule, "invariant", 7)? else { return Ok(HashSet::new()) };
    let mut out = HashSet::new();
    for path in names::find_all_loops(&cursor, rule, &name)? {
        let inside = cursor.at(&path).and_then(Stmt::as_loop).filter(|_| path.starts_with(at));
        out.extend(inside.map(|l| l.binder.id));
    }
    if out.is_empty() {
        let text = format!("`{rule}`: no loop `{name}` is inside of the statement");
        return Err(wrong(text, None).help("name a loop that changes the other accesses").into_refusal(rule));
    }
    Ok(out)
}

/// `space: host|stack|register|global|shared`
pub fn space(rule: &str, args: &Args, position: usize) -> Result<Option<Space>, Refusal> {
    let word = args.opt_word(rule, "space", position, &["host", "stack", "register", "global", "shared"])?;
    Ok(word.and_then(Space::from_name))
}

/// A call of integers: its name and arguments.
fn call(rule: &str, arg: &Arg, span: Option<Span>) -> Result<(String, Vec<i64>), Refusal> {
    let refuse = || {
        wrong(format!("`{rule}` cannot use `{arg}` as a step of a layout"), span)
            .help(
                "write tile(dim, size), permute(0, 2, 1), pad(dim, multiple) or swizzle(dim, by, modulus), `layout:` once for each step",
            )
            .into_refusal(rule)
    };
    let Arg::Data(Expr::Call(name, parts)) = arg else { return Err(refuse()) };
    let ints = parts.iter().map(|p| match p {
        Expr::Value(Value::Int(v)) if *v >= 0 => Ok(*v),
        _ => Err(refuse()),
    });
    Ok((name.clone(), ints.collect::<Result<_, _>>()?))
}

/// Every `layout:` argument (or positional one from `position` on) in order, checked against the rank.
pub fn layout(rule: &str, args: &Args, position: usize, rank: usize) -> Result<Layout, Refusal> {
    let named = args.items.iter().filter(|i| i.0.as_deref() == Some("layout")).map(|i| (&i.1, i.2));
    let rest = args.positional().skip(position);
    let mut steps = Vec::new();
    let mut dims = rank;
    for (arg, span) in named.chain(rest) {
        let (name, ints) = call(rule, arg, span)?;
        let refuse = |why: String| wrong(why, span).into_refusal(rule);
        let in_range = |d: i64| -> Result<usize, Refusal> {
            usize::try_from(d).ok().filter(|d| *d < dims).ok_or_else(|| {
                refuse(format!(
                    "`{arg}`: there is no dimension {d}; the steps before leave {dims}, from 0 on"
                ))
            })
        };
        match (name.as_str(), ints.as_slice()) {
            ("tile", [d, size]) => {
                let dim = in_range(*d)?;
                if *size < 1 {
                    return Err(refuse(format!("`{arg}`: the size of a tile is at least 1")));
                }
                steps.push(LayoutStep::Tile { dim, size: *size as u64 });
                dims += 1;
            }
            ("pad", [d, multiple]) => {
                let dim = in_range(*d)?;
                if *multiple < 1 {
                    return Err(refuse(format!("`{arg}`: the multiple is at least 1")));
                }
                steps.push(LayoutStep::Pad { dim, multiple: *multiple as u64 });
            }
            ("swizzle", [d, by, modulus]) => {
                let (dim, by) = (in_range(*d)?, in_range(*by)?);
                if dim == by || *modulus < 1 || !modulus.unsigned_abs().is_power_of_two() {
                    return Err(refuse(format!(
                        "`{arg}`: the two dimensions differ, and the modulus is a power of two"
                    )));
                }
                steps.push(LayoutStep::Swizzle { dim, by, modulus: *modulus as u64 });
            }
            ("permute", order) => {
                let order = order.iter().map(|d| in_range(*d)).collect::<Result<Vec<_>, _>>()?;
                if order.len() != dims || (0..dims).any(|d| !order.contains(&d)) {
                    return Err(refuse(format!("`{arg}` is not a permutation of the {dims} dimensions")));
                }
                steps.push(LayoutStep::Permute(order));
            }
            _ => {
                return Err(wrong(format!("`{arg}` is no step of a layout that engines take"), span)
                    .help("write tile(dim, size), permute(0, 2, 1), pad(dim, multiple) or swizzle(dim, by, modulus)")
                    .into_refusal(rule));
            }
        }
    }
    Ok(Layout { steps })
}

/// The logical dimensions that a layout tiles, with the size of the first tile of each.
pub fn tiled_dims(layout: &Layout, rank: usize) -> Vec<Option<i64>> {
    // Which logical dimension each current dimension holds the (outer part of the) index of.
    let mut holds: Vec<Option<usize>> = (0..rank).map(Some).collect();
    let mut out = vec![None; rank];
    for step in &layout.steps {
        match step {
            LayoutStep::Permute(order) => {
                holds = order.iter().map(|d| holds.get(*d).copied().flatten()).collect();
            }
            LayoutStep::Tile { dim, size } => {
                if let Some(d) = holds.get(*dim).copied().flatten() {
                    out[d] = out[d].or(i64::try_from(*size).ok());
                }
                // Parts of a tiled dimension are not tiled for padding's sake once more.
                if *dim < holds.len() {
                    holds[*dim] = None;
                    holds.insert(*dim + 1, None);
                }
            }
            _ => {}
        }
    }
    out
}

/// How far a dimension of a staged copy is filled with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pad {
    /// Exactly the elements that exist.
    Exact,
    /// Up to a multiple.
    Multiple(i64),
    /// The whole buffer.
    Whole,
}

/// `pad: true` (multiples of the layout's tiles; the whole buffer without tiles), or `pad: pad(dim, multiple)`
/// once for each dimension.
pub fn pads(rule: &str, args: &Args, layout: &Layout, rank: usize) -> Result<Vec<Pad>, Refusal> {
    let mut out = vec![Pad::Exact; rank];
    for (name, arg, span) in &args.items {
        if name.as_deref() != Some("pad") {
            continue;
        }
        match arg {
            Arg::Bool(false) => {}
            Arg::Bool(true) => {
                let tiles = tiled_dims(layout, rank);
                if tiles.iter().all(Option::is_none) {
                    out.fill(Pad::Whole);
                }
                for (o, t) in out.iter_mut().zip(tiles) {
                    *o = t.map_or(*o, Pad::Multiple);
                }
            }
            arg => {
                let (name, ints) = call(rule, arg, *span)?;
                match (name.as_str(), ints.as_slice()) {
                    ("pad", [d, m]) if (*d as usize) < rank && *m >= 1 => {
                        out[*d as usize] = Pad::Multiple(*m);
                    }
                    _ => {
                        return Err(wrong(format!("`{rule}` cannot pad by `{arg}`"), *span)
                            .help("write `pad: true`, or `pad: pad(dim, multiple)` for a dimension")
                            .into_refusal(rule));
                    }
                }
            }
        }
    }
    Ok(out)
}

/// Every `window:` argument, one per dimension: `range(lo, size)` or `range(lo, size, step)` over the names at a place.
pub fn window(work: &Work, args: &Args, at: &[usize], rank: usize) -> Result<Option<Region>, Refusal> {
    let rule = work.rule();
    let mut out = Region { lo: Vec::new(), hi: Vec::new(), step: Vec::new() };
    for (_, arg, span) in args.items.iter().filter(|i| i.0.as_deref() == Some("window")) {
        let refuse = |why: String| {
            wrong(format!("`{rule}`: {why}"), *span)
                .help("write `window: range(lo, size)` once for each dimension")
                .into_refusal(rule)
        };
        let (lo, size, step) = match arg {
            Arg::Data(Expr::Call(name, parts)) if name == "range" => match parts.as_slice() {
                [lo, size] => (lo, size, 1),
                [lo, size, Expr::Value(Value::Int(step))] if *step >= 1 => (lo, size, *step),
                _ => return Err(refuse(format!("`{arg}` is no range"))),
            },
            _ => return Err(refuse(format!("`{arg}` is no range"))),
        };
        let index = |e: &Expr| to_index(e, &|n| variable_at(work.func(), at, n)).map_err(refuse);
        let (lo, size) = (bounds::normal(&index(lo)?), bounds::normal(&index(size)?));
        let Some(hi) = lo.plus(&size, 1) else { return Err(refuse("numbers are too large".to_string())) };
        // The least of several sizes is as many ends.
        let ends = bounds::mins(&size).iter().filter_map(|s| lo.plus(s, 1)).collect::<Vec<_>>();
        out.hi.push(if ends.is_empty() { vec![hi] } else { ends });
        out.lo.push(lo);
        out.step.push(step);
    }
    match out.rank() {
        0 => Ok(None),
        n if n == rank => Ok(Some(out)),
        n => Err(wrong(format!("`{rule}`: the window has {n} dimensions, the array has {rank}"), None)
            .help("write `window: range(lo, size)` once for each dimension")
            .into_refusal(rule)),
    }
}
