//! Partial tiles, and tiles that are written out.

use super::copies::Copies;
use super::loops::{Digit, Kind, Loops, Rest};
use super::steps::{attempt, call, name, with, word};
use lathe_strategy::{Argument, Strategy};

/// Tiles in registers need constant bounds. Where sizes leave partial ones, buffers that have room for a full tile
/// let it run in full (`pad`); else full tiles get code of their own (`separate`), and partial ones are written out with
/// guards, so that they are in registers as well. Returns which copies of loops partial tiles may have, which are to be
/// treated as those of full ones.
pub fn partial(loops: &Loops, copies: &Copies, out: &mut Vec<Strategy>) -> Vec<Rest> {
    let tiles: Vec<&Digit> = loops.digits().filter(|d| d.in_registers() && loops.partial[d.dim]).collect();
    let (padded, cut): (Vec<&Digit>, Vec<&Digit>) =
        tiles.into_iter().partition(|d| copies.have_room(loops, d));
    let mut apart_too = 0;
    for d in padded {
        let mut full = Vec::new();
        if loops.own_init(d) && copies.init_inside(loops) {
            full.push(call("pad", vec![name(&loops.at_init(&d.name))]));
        }
        full.push(call("pad", vec![name(&loops.at(&d.name))]));
        // What is read around a tile (the rim of a window) may not be there.
        let apart = loops.coarser(d).map(|c| attempt(call("separate", vec![name(&loops.at(&c.name))])));
        apart_too += usize::from(apart.is_some());
        out.push(Strategy::Choice(vec![Strategy::Seq(full), apart.unwrap_or(Strategy::Id)]));
    }
    let mut outer: Vec<&Digit> = cut.iter().filter_map(|d| loops.coarser(d)).collect();
    // From the inside outward: copies of a loop do not have its name.
    outer.sort_by_key(|d| std::cmp::Reverse(loops.position(&d.name)));
    outer.dedup_by_key(|d| d.name.clone());
    for d in &outer {
        let mut args = vec![Argument::positional(name(&loops.at(&d.name)))];
        // Behind a loop on threads, one of them would run the partial tile while the others wait.
        if d.kind == Kind::Threads {
            args.push(word("partial", "inside"));
        }
        out.push(attempt(with("separate", args)));
    }
    (1..=outer.len() + apart_too).map(Rest).collect()
}

/// Register layers are written out, where their tiles are full.
pub fn unroll(loops: &Loops, rests: &[Rest], out: &mut Vec<Strategy>) {
    for d in loops.digits().filter(|d| d.kind == Kind::Register) {
        let at = call("unroll", vec![name(&loops.at(&d.name))]);
        out.push(if loops.partial[d.dim] { attempt(at) } else { at });
        if loops.own_init(d) {
            out.push(attempt(call("unroll", vec![name(&loops.at_init(&d.name))])));
        }
        for rest in rests {
            out.push(attempt(loops.write_out(&loops.at(&rest.of(&d.name)))));
            if !loops.own_init(d) {
                continue;
            }
            out.push(attempt(loops.write_out(&loops.at_init(&rest.of(&d.name)))));
        }
    }
}
