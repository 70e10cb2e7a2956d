//! Software prefetch: data that is streamed from memory is loaded into a cache before it is needed. Hardware prefetchers
//! do so too, but not across pages, and not for many rows at a time. Long sums of one or two rows read pieces of these side by side.

use super::Options;
use super::copies::Copies;
use super::cores::in_one_pass;
use super::loops::{Digit, Kind, Loops};
use super::steps::{Blocks, attempt, call, int, name, named, split, unroll, with};
use crate::footprint::bytes;
use crate::homomorphism::Shaped;
use crate::view::Operand;
use lathe_ir::Combine;
use lathe_strategy::Argument;
use lathe_strategy::Strategy;

/// Bytes of a row that are prefetched before they are needed.
const AHEAD: u64 = 2048;

/// Tiles that share the prefetches of a piece, at least, and cycles of arithmetic with each term, beside which they cost nothing: with
/// AVX2, whose tiles take six, products take 1.05 to 1.15 of their time.
const TILES: u64 = 8;
const HIDDEN: u64 = 10;

/// Terms of a block of a sum whose arithmetic takes about as long as results from memory.
const LONG: u64 = 64;

/// Rows that a sum reads side by side: a core asks for more lines of several than of one. A sum of 2²⁶ floats takes 0.82 to 0.87 of
/// its time with four, 0.75 in small pages, and 0.87 with two; a sum of products of two arrays 0.93 to 0.98 with two parts of each, 1.04
/// with four.
const ROWS: u64 = 4;

/// Bytes of a piece that is read beside others. Larger ones are as fast; with 16 KB, prefetch beyond the end is a part of all.
const PIECE: u64 = 1 << 16;

/// `prefetch` for every input that is not copied: of the next block, where the second cache has room for two, or else a
/// little further along its rows.
pub fn read(h: &Shaped, loops: &Loops, copies: &Copies, options: &Options, out: &mut Vec<Strategy>) {
    let scans = h.h.dims.iter().any(|d| matches!(d.combine, Combine::Scan(_)));
    let vectors = scans || loops.digits().any(|d| matches!(d.kind, Kind::Lanes(_)));
    if !vectors || loops.digits().any(|d| matches!(d.kind, Kind::Cores(_))) {
        return;
    }
    let l2 = options.machine.l2_bytes;
    let mut digits: Vec<&Digit> = loops.digits().filter(|d| loops.position(&d.name).is_some()).collect();
    digits.sort_by_key(|d| loops.position(&d.name));
    // Windows read what lies in several places several times.
    let plain = |o: &Operand| {
        let alone = |c: &[i64]| c.iter().filter(|c| **c != 0).count() <= 1;
        o.buffer.elem.scalar().is_some()
            && o.accesses.len() == 1
            && o.accesses[0].subscripts.iter().all(|s| alone(&s.coefficients))
    };
    // Of the loops inside of one, but for those that are other threads'.
    let inside = |l: &Digit| loops.inside(Some(&l.name), |d| d.kind != Kind::Threads);
    let inputs = h.h.inputs.iter().enumerate().filter(|(n, o)| plain(o) && !copies.of_input(*n));
    let mut all: Vec<Stream> = Vec::new();
    for (_, o) in inputs {
        let depends = |d: &&Digit| o.accesses[0].subscripts.iter().any(|s| s.coefficients[d.dim] != 0);
        let again = digits.iter().any(|d| !d.in_registers() && d.parts > 1 && !depends(d));
        if again || bytes(h, o, &h.extents, false) <= 2 * l2 {
            continue;
        }
        let serial: Vec<&Digit> =
            digits.iter().copied().filter(|d| d.kind == Kind::Memory && depends(d)).collect();
        let Some((inner, others)) = serial.split_last() else { continue };
        // Rows that lie apart are followed one by one.
        let along = |d: &Digit| o.accesses[0].subscripts.last().map(|s| s.coefficients[d.dim]) == Some(1);
        if !along(inner) {
            continue;
        }
        // A long row whose lanes are summed up is prefetched on its way: the next rows would be far away.
        let by_lanes =
            |d: &&Digit| matches!(d.kind, Kind::Lanes(_)) && d.dim == inner.dim && loops.reduced(d.dim);
        let most = if digits.iter().any(by_lanes) { 2 * options.machine.l1_bytes } else { l2 / 2 };
        let next = others.last().filter(|l| bytes(h, o, &inside(l), false) <= most.min(l2 / 2));
        let rows = digits.iter().filter(|d| d.in_registers() && depends(d) && !along(d));
        let rows = rows.map(|d| d.parts).fold(1, u64::saturating_mul);
        let last = o.rank().checked_sub(1);
        let range = last.and_then(|k| o.range(k, &h.first, &inside(inner), &h.sizes));
        let each = range.map_or(1, |(lo, hi)| hi.abs_diff(lo) + 1) * o.buffer.elem.bytes();
        all.push(Stream { operand: o, inner, next: next.copied(), rows, each });
    }
    let threads = digits.iter().find(|d| d.kind == Kind::Threads);
    // In one pass of a scan, the block that this thread will probably take next.
    let turns = digits.iter().find(|d| scans && in_one_pass(h, loops, d, options));
    let mut plain = Vec::new();
    for s in &all {
        let (at, ahead) = match (turns, s.next) {
            (Some(d), _) => (*d, options.machine.threads),
            (None, Some(l)) => (l, 1),
            (None, None) if scans => continue,
            (None, None) => (s.inner, s.ahead(s.rows)),
        };
        let mut args = s.args(&loops.at(&at.name), ahead);
        // Of the passes of a scan, the one that writes.
        if turns.is_some() {
            let vectors = Blocks::of(&Blocks::of(&loops.at(&s.inner.name)).outer);
            args.push(named("within", name(&vectors.outer)));
        } else if let Some(d) =
            threads.filter(|d| scans && loops.position(&d.name) > loops.position(&at.name))
        {
            args.push(named("within", name(&loops.at(&d.name))));
        }
        plain.push(attempt(with("prefetch", args)));
    }
    match side_by_side(h, loops, &all) {
        Some(parts) => out.push(Strategy::Choice(vec![Strategy::Seq(parts), Strategy::Seq(plain)])),
        None => out.extend(plain),
    }
}

/// An input that is read once, from beyond the second cache.
struct Stream<'a> {
    operand: &'a Operand,
    /// The loop along its rows, and the one around it, if what that reads next is near enough to be prefetched at once.
    inner: &'a Digit,
    next: Option<&'a Digit>,
    /// Rows that are read side by side, and bytes of each in an iteration.
    rows: u64,
    each: u64,
}

impl Stream<'_> {
    /// Iterations by which so many rows of it are prefetched before they are needed: of several, less.
    fn ahead(&self, rows: u64) -> u64 {
        (2 * AHEAD / rows.max(1)).clamp(AHEAD / 2, AHEAD).div_ceil(self.each.max(1))
    }

    fn args(&self, at: &str, ahead: u64) -> Vec<Argument> {
        let of = Argument::positional(name(self.operand.name()));
        vec![of, named("at", name(at)), named("ahead", int(ahead))]
    }
}

/// The steps by which a long sum reads pieces of its few rows side by side, each prefetched; none where rows are short, or enough.
fn side_by_side(h: &Shaped, loops: &Loops, all: &[Stream]) -> Option<Vec<Strategy>> {
    let first = all.first().filter(|s| loops.reduced(s.inner.dim))?;
    let d = first.inner;
    let read = h.h.inputs.iter().flat_map(|o| &o.accesses).flat_map(|a| &a.subscripts);
    let rows: u64 = all.iter().map(|s| s.rows).sum();
    let parts = ROWS / rows.max(1);
    let alike =
        |s: &Stream| s.next.is_none() && s.inner.name == d.name && s.rows == 1 && s.each == first.each;
    let trips = if d.parts > 0 { d.parts } else { h.extents[d.dim] / d.tile.max(1) };
    let piece = PIECE / first.each.max(1);
    let fits = parts > 1
        && all.iter().all(alike)
        && read.filter(|x| x.coefficients[d.dim] != 0).count() == all.len()
        && piece > 1
        && trips >= 2 * parts * piece;
    if !fits {
        return None;
    }
    let (blocks, block) = split(&loops.at(&d.name), parts * piece);
    let (pieces, rows) = split(&block.inner, piece);
    let steps = [
        blocks,
        attempt(call("separate", vec![name(&block.outer)])),
        pieces,
        call("reorder", vec![name(&rows.inner), name(&rows.outer)]),
        unroll(&rows.outer),
    ];
    let ahead = |s: &Stream| attempt(with("prefetch", s.args(&rows.inner, s.ahead(parts))));
    Some(steps.into_iter().chain(all.iter().map(ahead)).collect())
}

/// `prefetch` for results that a sum in blocks adds to, where no cache keeps them from one block to the next: the next tile's are on
/// their way while this one is computed.
pub fn resumed(h: &Shaped, loops: &Loops, copies: &Copies, options: &Options, out: &mut Vec<Strategy>) {
    for (n, at) in copies.resumed(loops) {
        let o = &h.h.outputs[n];
        let block = loops.inside(Some(at), |d| loops.reduced(d.dim)).into_iter().fold(1, u64::saturating_mul);
        if block >= LONG && bytes(h, o, &h.extents, true) > options.machine.l2_bytes / 2 {
            let args = vec![Argument::positional(name(o.name())), named("at", name(&loops.at(at)))];
            out.push(attempt(with("prefetch", args)));
        }
    }
}

/// `prefetch` for packed inputs that are more than the second cache keeps: while tiles of rows run through one piece, each of them
/// fetches its share of the next piece. The processor would begin with it at the first tile, which then waits for the third cache.
/// (Products of 1021² to 4096² matrices on one core of a Xeon with AVX-512: 0.95 to 0.98 of their times.)
pub fn panels(h: &Shaped, loops: &Loops, copies: &Copies, options: &Options, out: &mut Vec<Strategy>) {
    let (l1, l2) = (options.machine.l1_bytes, options.machine.l2_bytes);
    let written_out = loops.digits().filter(|d| d.kind == Kind::Register && !loops.reduced(d.dim));
    if written_out.map(|d| d.parts).product::<u64>() < HIDDEN * options.machine.vector_units.max(1) {
        return;
    }
    // A thread takes neighbouring pieces.
    let few = |d: &Digit| d.kind == Kind::Threads && d.parts < 2 * options.machine.threads;
    for (n, made, at) in copies.packed() {
        let o = &h.h.inputs[n];
        let depends =
            |d: &Digit| o.accesses.iter().flat_map(|a| &a.subscripts).any(|s| s.coefficients[d.dim] != 0);
        let place = |d: &Digit| loops.position(&d.name);
        let from = at.and_then(|l| loops.position(l));
        let turns =
            |d: &&Digit| matches!(d.kind, Kind::Memory | Kind::Threads) && d.parts > 1 && place(d).is_some();
        let inner = |d: &&Digit| turns(d) && place(d) > from;
        let tiles = loops
            .digits()
            .filter(|d| inner(d) && !depends(d) && !loops.reduced(d.dim))
            .max_by_key(|d| place(d));
        let Some(tiles) = tiles.filter(|d| d.parts >= TILES && d.kind == Kind::Memory) else { continue };
        let read = loops.digits().any(|d| inner(&d) && depends(d) && place(d) > place(tiles));
        let pieces = loops.digits().filter(|d| inner(d) && depends(d) && place(d) < place(tiles));
        let Some(pieces) = pieces.max_by_key(|d| place(d)).filter(|d| read && !few(d)) else { continue };
        let all = bytes(h, o, &loops.inside(at, |_| true), false);
        let piece = bytes(h, o, &loops.inside(Some(&pieces.name), |_| true), false);
        if all <= l2 / 2 || piece <= l1 / 2 || piece > l2 / 4 {
            continue;
        }
        let args = vec![
            Argument::positional(name(made)),
            named("at", name(&loops.at(&pieces.name))),
            named("spread", name(&loops.at(&tiles.name))),
        ];
        out.push(attempt(with("prefetch", args)));
    }
}
