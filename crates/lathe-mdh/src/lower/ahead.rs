//! Software prefetch: data that is streamed from memory is loaded into a cache before it is needed. Hardware prefetchers
//! do so too, but not across pages, and not for many rows at a time.

use super::Options;
use super::copies::Copies;
use super::cores::in_one_pass;
use super::loops::{Digit, Kind, Loops};
use super::steps::{Blocks, attempt, int, name, named, with};
use crate::footprint::bytes;
use crate::homomorphism::Shaped;
use crate::view::Operand;
use lathe_ir::Combine;
use lathe_strategy::Argument;
use lathe_strategy::Strategy;

/// Bytes of a row that are prefetched before they are needed.
const AHEAD: u64 = 2048;

/// Tiles that share the prefetches of a piece, at least.
const TILES: u64 = 8;

/// Terms of a block of a sum whose arithmetic takes about as long as results from memory.
const LONG: u64 = 64;

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
    let inputs = h.h.inputs.iter().enumerate().filter(|(n, o)| plain(o) && !copies.of_input(*n));
    for (_, o) in inputs {
        let depends = |d: &&Digit| o.accesses[0].subscripts.iter().any(|s| s.coefficients[d.dim] != 0);
        let again = digits.iter().any(|d| !d.in_registers() && d.parts > 1 && !depends(d));
        if again || bytes(h, o, &h.extents, false) <= 2 * l2 {
            continue;
        }
        // Of the loops inside of one, but for those that are other threads'.
        let inside = |l: &Digit| loops.inside(Some(&l.name), |d| d.kind != Kind::Threads);
        let serial: Vec<&Digit> =
            digits.iter().copied().filter(|d| d.kind == Kind::Memory && depends(d)).collect();
        let Some((inner, others)) = serial.split_last() else { continue };
        // Rows that lie apart are followed one by one.
        let along = |d: &Digit| o.accesses[0].subscripts.last().map(|s| s.coefficients[d.dim]) == Some(1);
        if !along(inner) {
            continue;
        }
        let turns = digits.iter().find(|d| in_one_pass(h, loops, d, options));
        let next = others.last().filter(|l| bytes(h, o, &inside(l), false) <= l2 / 2);
        // In one pass, the block that this thread will probably take next.
        let (at, ahead) = match (turns, next) {
            (Some(d), _) => (d, options.machine.threads),
            (None, Some(l)) => (l, 1),
            (None, None) if scans => continue,
            (None, None) => {
                let last = o.rank().checked_sub(1);
                let range = last.and_then(|k| o.range(k, &h.first, &inside(inner), &h.sizes));
                let bytes = range.map_or(1, |(lo, hi)| hi.abs_diff(lo) + 1) * o.buffer.elem.bytes();
                (inner, AHEAD.div_ceil(bytes.max(1)))
            }
        };
        let mut args = vec![
            Argument::positional(name(o.name())),
            named("at", name(&loops.at(&at.name))),
            named("ahead", int(ahead)),
        ];
        // Of the passes of a scan, the one that writes.
        let threads = digits.iter().find(|d| d.kind == Kind::Threads);
        if turns.is_some() {
            let vectors = Blocks::of(&Blocks::of(&loops.at(&inner.name)).outer);
            args.push(named("within", name(&vectors.outer)));
        } else if let Some(d) =
            threads.filter(|d| scans && loops.position(&d.name) > loops.position(&at.name))
        {
            args.push(named("within", name(&loops.at(&d.name))));
        }
        out.push(attempt(with("prefetch", args)));
    }
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
/// (Products of 1024², 1152² and 2048² matrices on one core of a Xeon with AVX-512: 0.92 to 0.95 of their times.)
pub fn panels(h: &Shaped, loops: &Loops, copies: &Copies, options: &Options, out: &mut Vec<Strategy>) {
    let (l1, l2) = (options.machine.l1_bytes, options.machine.l2_bytes);
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
