//! Phases that differ in order or assignment: three nests (thesis, App. .8). The inputs are copied in the order of D1,
//! where they are copied at all; the scalar function fills an array of its own in the order of S1 (`materialize`); and
//! what is there is combined in the order of R1. Between nests everything lies in memory, whichever region the
//! phases use: registers and caches do not outlive a nest.

use super::cores::run_by;
use super::hierarchy::nested;
use super::loops::{self, Kind, Loops};
use super::steps::{call, data, int, name, named, word};
use super::{Options, nest};
use crate::codes;
use crate::decisions::{Decisions, Level, Phase, Placement, Spot, at, by_position};
use crate::homomorphism::{Dimension, Homomorphism, Shaped};
use crate::model::Model;
use crate::view::{IndexFunction, Operand, Subscript};
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::{self, Role};
use lathe_ir::{Access, BufId, Buffer, Combine, Space, build};
use lathe_strategy::{Argument, Strategy};

/// Whether the levels with several parts have one order and one assignment in all phases.
pub fn alike(h: &Shaped, d: &Decisions) -> bool {
    same(h, d, Phase::Down, Phase::Scalar) && same(h, d, Phase::Scalar, Phase::Up)
}

/// Levels with one part are not loops: their places say nothing.
fn same(h: &Shaped, d: &Decisions, p: Phase, q: Phase) -> bool {
    let nest = |p: Phase| {
        let order = by_position(&d.steps(p).order)?;
        let used = order.into_iter().filter(|l| d.parts_at(*l) > 1 && h.extents[l.dim] > 1);
        Some(used.map(|l| (l, at(&d.steps(p).assignment, l).map(|a| a.layer))).collect::<Vec<_>>())
    };
    nest(p) == nest(q)
}

/// # Errors
/// Those of one nest.
pub fn separate(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    o: &Options,
    out: &mut Vec<Strategy>,
) -> Result<(), Diagnostic> {
    let apart = !same(h, d, Phase::Scalar, Phase::Up);
    let label = h.h.name.clone();
    if apart {
        out.push(call("materialize", vec![name(&label)]));
    }
    // The nest that reads the inputs: that of the scalar function, or, where it is the same, of the combination.
    let mut first = h.h.clone();
    let mut one = d.clone();
    if apart {
        first.name = Role::Map.of(&label);
    }
    if same(h, d, Phase::Down, Phase::Scalar) {
        // Copies are made on the way.
    } else {
        decompose(h, model, d, &mut first, &mut one, o, out)?;
        one.down = one.scalar.clone();
    }
    if !apart {
        return nest(&Shaped { h: &first, ..h.clone() }, model, &one, o, out);
    }
    let values = values(h);
    first.dims.iter_mut().for_each(|x| (x.combine, x.ordered) = (Combine::Concat, false));
    first.op = None;
    first.identity = false;
    first.outputs = values.clone();
    first.targets = values.iter().map(|v| whole(v, &h.h.dims)).collect();
    one.up = one.scalar.clone();
    (one.writes, one.results) = plain(&values, d);
    nest(&Shaped { h: &first, ..h.clone() }, model, &one, o, out)?;

    let mut second = h.h.clone();
    second.values = values.iter().map(|v| build::load(whole(v, &h.h.dims))).collect();
    second.inputs = values;
    let mut two = d.clone();
    (two.down, two.scalar) = (d.up.clone(), d.up.clone());
    (two.reads, two.operands) = plain(&second.inputs, d);
    nest(&Shaped { h: &second, ..h.clone() }, model, &two, o, out)
}

/// Whether what is reduced has to be added up before it is scanned: in parts, or outside of what is scanned.
pub fn sums_first(h: &Shaped, loops: &Loops) -> bool {
    let place = |dim: usize| {
        let (base, digits) = &loops.dims[dim];
        let names = digits.iter().map(|d| &d.name).chain(digits.is_empty().then_some(base));
        names.filter_map(|n| loops.position(n)).collect::<Vec<_>>()
    };
    let of = |scan: bool| {
        let dims = h.h.dims.iter().enumerate();
        let dims = dims.filter(move |d| matches!(d.1.combine, Combine::Scan(_)) == scan);
        dims.flat_map(|d| place(d.0)).collect::<Vec<_>>()
    };
    let scans = h.h.dims.iter().any(|d| matches!(d.combine, Combine::Scan(_)));
    let all = h.h.dims.iter().all(|d| d.combine != Combine::Concat);
    // Sums of a scan are added in order.
    let mixed = !of(false).is_sorted();
    let cores = loops.digits().any(|d| loops.reduced(d.dim) && d.kind.is_core());
    scans
        && all
        && h.h.targets.len() == 1
        && (cores || mixed || of(false).iter().min() < of(true).iter().max())
        && !of(false).is_empty()
}

/// A scan of sums as two computations: the sums, in the order of the decisions, and the scan over them.
///
/// # Errors
/// Those of one nest.
pub fn sums(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    o: &Options,
    loops: &Loops,
    out: &mut Vec<Strategy>,
) -> Result<(), Diagnostic> {
    let scan = |x: &Dimension| matches!(x.combine, Combine::Scan(_));
    let Some(dim) = h.h.dims.iter().position(scan) else { return Ok(()) };
    out.push(call("prereduce", vec![name(&h.h.name)]));
    let mut coefficients = vec![0; h.extents.len()];
    coefficients[dim] = 1;
    let extent = build::index(i64::try_from(h.extents[dim]).unwrap_or(i64::MAX));
    let (id, name, elem) = (BufId(u32::MAX / 2), Role::Part.of(&h.h.name), h.h.targets[0].elem.clone());
    let buffer = Buffer::local(id, name, elem, vec![extent], Space::Host);
    let subscript = Subscript { coefficients, offset: build::index(-h.first[dim]) };
    let sums = Operand { buffer, accesses: vec![IndexFunction { subscripts: vec![subscript] }] };
    let access = whole(&sums, std::slice::from_ref(&h.h.dims[dim]));

    let mut first = h.h.clone();
    first.name = Role::Part.of(&h.h.name);
    (first.dims[dim].combine, first.dims[dim].ordered) = (Combine::Concat, false);
    first.outputs = vec![sums.clone()];
    first.targets = vec![access.clone()];
    let mut one = d.clone();
    (one.writes, one.results) = plain(&first.outputs, d);
    let mut inside = o.clone();
    let names = loops.dims.iter().zip(&h.h.dims);
    inside.inside.loops = names.map(|((base, _), d)| (d.name.clone(), base.clone())).collect();
    nest(&Shaped { h: &first, ..h.clone() }, model, &one, &inside, out)?;

    let mut second = h.h.clone();
    second.inputs = vec![sums];
    second.values = vec![build::load(access)];
    let mut two = d.clone();
    (two.reads, two.operands) = plain(&second.inputs, d);
    let mut inside = o.clone();
    let mut extents = h.extents.clone();
    for k in (0..extents.len()).filter(|k| *k != dim) {
        extents[k] = 1;
        two.parts.iter_mut().for_each(|layer| layer[k] = Some(1));
        inside.inside.around.insert(loops.dims[k].0.clone());
    }
    nest(&Shaped { h: &second, extents, ..h.clone() }, model, &two, &inside, out)
}

/// The arrays that the scalar function fills: one element per index.
fn values(h: &Shaped) -> Vec<Operand> {
    let dims = h.extents.len();
    let subscript = |k: usize| {
        let mut coefficients = vec![0; dims];
        coefficients[k] = 1;
        Subscript { coefficients, offset: build::index(-h.first[k]) }
    };
    let one = |n: usize| {
        let name = Role::Values.nth(&h.h.name, n);
        let elem = h.h.targets[n].elem.clone();
        let extents = h.extents.iter().map(|e| build::index(i64::try_from(*e).unwrap_or(i64::MAX)));
        // They are told apart by their numbers only within this strategy.
        let id = BufId(u32::MAX - n as u32);
        let buffer = Buffer::local(id, name.as_str(), elem, extents.collect(), Space::Host);
        Operand { buffer, accesses: vec![IndexFunction { subscripts: (0..dims).map(subscript).collect() }] }
    };
    (0..h.h.targets.len()).map(one).collect()
}

/// The access of one index.
fn whole(o: &Operand, dims: &[Dimension]) -> Access {
    let at = |d: &Dimension| build::sub(build::var_id(d.id, lathe_ir::Scalar::Index), d.lo.clone());
    Access::buffer(o.buffer.id, o.buffer.elem.clone(), dims.iter().map(at).collect())
}

/// In the first memory, row by row.
fn plain(operands: &[Operand], d: &Decisions) -> (Vec<Placement>, Vec<Spot>) {
    let rows = |o: &Operand| -> Vec<usize> { (0..o.rank()).collect() };
    let table = |o: &Operand| Placement {
        buffer: o.name().to_string(),
        region: vec![vec![Some(0); d.dims()]; d.layers()],
        layout: vec![vec![Some(rows(o)); d.dims()]; d.layers()],
    };
    let spot = |o: &Operand| Spot { buffer: o.name().to_string(), region: Some(0), layout: Some(rows(o)) };
    (operands.iter().map(table).collect(), operands.iter().map(spot).collect())
}

/// Copies every input that the levels of D1 place elsewhere, in a nest of D1's order; the nest that follows reads the
/// copies.
fn decompose(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    first: &mut Homomorphism,
    one: &mut Decisions,
    o: &Options,
    out: &mut Vec<Strategy>,
) -> Result<(), Diagnostic> {
    let free = || Diagnostic::error(codes::FREE, "lowering needs every decision");
    let mut order = by_position(&d.down.order).ok_or_else(free)?;
    let cores = |l: &Level| match d.parts_at(*l) {
        1 => None,
        _ => loops::kind(model, d, Phase::Down, *l).ok().and_then(Kind::depth),
    };
    let written = order.clone();
    nested(&mut order, &cores, &|_| false);
    let outermost = outermost(h, o);
    for (n, operand) in h.h.inputs.iter().enumerate() {
        let rows: Vec<usize> = (0..operand.rank()).collect();
        let (mut here, mut copied) = ((0, rows.clone()), false);
        for l in written.iter().filter(|l| d.parts_at(**l) > 1) {
            let region = at(&d.reads[n].region, *l).copied().ok_or_else(free)?;
            let layout = at(&d.reads[n].layout, *l).cloned().ok_or_else(free)?;
            let explicit = region != here.0 && !model.memories[region].implicit;
            copied |= explicit || layout != here.1;
            here = (region, layout);
        }
        // What remains is what the scalar function itself wants.
        let spot = &mut one.operands[n];
        let regions = one.reads[n].region.iter_mut().flatten();
        regions.for_each(|r| *r = Some(0));
        one.reads[n].layout.iter_mut().flatten().for_each(|l| *l = Some(rows.clone()));
        if spot.region == Some(here.0) {
            spot.region = Some(0);
        }
        // A layout that cuts dimensions is about tiles in registers, which are copied inside.
        let moved = |l: &Vec<usize>| l.len() == rows.len();
        if !copied || !moved(&here.1) {
            continue;
        }
        let Some(outermost) = &outermost else { continue };
        let made = Role::Down.of(names::around(operand.name(), &h.h.name));
        let mut args = vec![
            Argument::positional(name(operand.name())),
            named("at", name(&names::around(&first.name, outermost))),
            word("space", "host"),
            word("name", &made),
        ];
        if here.1 != rows {
            args.push(named("layout", data("permute", here.1.iter().copied())));
        }
        out.push(super::steps::with("accumulate", args));
        if spot.layout.as_ref() == Some(&here.1) {
            spot.layout = Some(rows.clone());
        }
        copying(h, model, d, o, operand, &order, out)?;
        let buffer = Buffer { name: made.as_str().into(), ..(*operand.buffer).clone() };
        first.inputs[n].buffer = buffer.into();
        one.reads[n].buffer.clone_from(&made);
        spot.buffer = made;
    }
    Ok(())
}

/// The outermost loop once the compute is open: free indices, then scanned, then reduced ones.
fn outermost(h: &Shaped, o: &Options) -> Option<String> {
    let rank = |d: &&Dimension| match d.combine {
        Combine::Concat => 0,
        Combine::Scan(_) => 1,
        Combine::Reduce(_) => 2,
    };
    let d = h.h.dims.iter().min_by_key(rank)?;
    Some(o.inside.loops.get(&d.name).unwrap_or(&d.name).clone())
}

/// Cuts and orders the loops that copy an input, and says who runs them.
fn copying(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    o: &Options,
    operand: &Operand,
    order: &[Level],
    out: &mut Vec<Strategy>,
) -> Result<(), Diagnostic> {
    let label = names::copy_of(operand.name());
    // Rank, loop, who runs it.
    let mut made: Vec<(usize, String, Kind)> = Vec::new();
    for k in 0..operand.rank() {
        let base = names::dimension(&label, k);
        let Some(dim) = runs_through(operand, k) else {
            made.push((0, base, Kind::Memory));
            continue;
        };
        let levels: Vec<Level> =
            (0..d.layers()).map(|layer| Level { layer, dim }).filter(|l| d.parts_at(*l) > 1).collect();
        let rank = |l: &Level| order.iter().position(|x| x == l).unwrap_or(0);
        let tile = |n: usize| levels[n..].iter().fold(1u64, |t, l| t.saturating_mul(d.parts_at(*l)));
        let mut kinds = Vec::new();
        for l in &levels {
            kinds.push(loops::kind(model, d, Phase::Down, *l)?);
        }
        let extent = operand.range(k, &h.first, &h.extents, &h.sizes).map(|(lo, hi)| hi.abs_diff(lo) + 1);
        let exact = o.exact && extent == Some(tile(0));
        let own = |l: &Level| Role::Level.numbered(&base, l.layer + 1);
        // Where tiles do not divide, bounds of finer loops depend on coarser ones.
        if !exact && levels.windows(2).any(|w| rank(&w[1]) < rank(&w[0])) {
            let names: Vec<String> = levels.iter().map(own).collect();
            let rows = levels.iter().zip(&names).enumerate().map(|(n, (l, x))| (rank(l), &**x, tile(n + 1)));
            out.push(loops::remap(&name(&base), rows.collect()));
            made.extend(levels.iter().zip(names).zip(kinds).map(|((l, x), kind)| (rank(l), x, kind)));
            continue;
        }
        let mut rest = base.clone();
        for ((n, l), kind) in levels.iter().enumerate().zip(kinds) {
            let last = n + 1 == levels.len();
            let own = if last { rest.clone() } else { own(l) };
            if !last {
                let inner = Role::Uncut.numbered(&base, n + 1);
                let args = vec![name(&rest), int(tile(n + 1)), name(&own), name(&inner)];
                out.push(call("split", args));
                rest = inner;
            }
            made.push((rank(l), own, kind));
        }
        if levels.is_empty() {
            made.push((0, base, Kind::Memory));
        }
    }
    made.sort_by_key(|m| m.0);
    if made.len() > 1 {
        out.push(call("reorder", made.iter().map(|m| name(&m.1)).collect()));
    }
    let lanes = made.iter().position(|m| matches!(m.2, Kind::Lanes(_)));
    for (n, (_, l, kind)) in made.iter().enumerate() {
        match kind {
            _ if lanes.is_none_or(|v| n < v) && kind.is_core() => out.extend(run_by(*kind, l)),
            Kind::Lanes(w) if n + 1 == made.len() => out.push(call("vectorize", vec![name(l), int(*w)])),
            _ => {}
        }
    }
    Ok(())
}

/// The one dimension of the computation that a dimension of a buffer runs through, one by one.
fn runs_through(o: &Operand, k: usize) -> Option<usize> {
    let mut dims = o.accesses.iter().map(|a| {
        let mut used = a.subscripts[k].coefficients.iter().enumerate().filter(|c| *c.1 != 0);
        match (used.next(), used.next()) {
            (Some((d, 1)), None) => Some(d),
            _ => None,
        }
    });
    let first = dims.next()??;
    dims.all(|d| d == Some(first)).then_some(first)
}
