//! `affine_schedule`: new loops for all statements of a nest at once, by isl's scheduler.

use crate::affine_along::{Along, Moves};
use crate::args::{Args, IntoRefusal};
use crate::arithmetic::SMALL;
use crate::codes;
use crate::failing::may_fail;
use crate::names::{find_all_loops, find_one_loop};
use crate::rule;
use crate::rule::Cursor;
use crate::storage::may_alias;
use crate::work::{Work, edited};
use lathe_analysis::affine::{self, BandPlan, Fuse, Member, Schedule, Tree};
use lathe_analysis::{Env, within_work};
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Access, Binder, BufId, Expr, Function, Reduce, Scalar, Stage, Stmt, StmtKind, Store, VarId, build,
};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Construction, Refusal};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};

rule! {
    /// `affine_schedule(i)` replaces the loop `i` and everything in it by new loops that isl's scheduler computes
    /// (Verdoolaege and Janssens, 2017; the objective is that of Pluto): dependences become short, outer loops
    /// independent of one another where that is possible. Without a loop it takes everything from the first to the last
    /// loop of the function.
    ///
    /// * `fuse: max` makes common loops wherever dependences allow it, `fuse: none` only for statements with cyclic
    ///   dependences; `fuse: smart`, the default, for those that share values.
    /// * `tile: 32` cuts loops that may be interchanged into tiles. With lanes and without `jam`, the loop of the lanes
    ///   stays whole.
    /// * `vector: 8` vectorizes the loop along which arrays are contiguous in memory. Ranges are split where a vector
    ///   or a statement begins or ends, so that only the remainder runs with masks or conditions. Where one statement
    ///   in an inner loop depends on another one, the loop is distributed. `lanes: any` also vectorizes independent
    ///   iterations whose elements are not contiguous, by gathers and scatters, where there is no contiguous loop;
    ///   `lanes: dense`, the default, does not.
    ///   `lanes: none` makes no lanes, but loops that `vectorize` takes: each statement has a loop of its own along the row, if
    ///   it only depends on earlier statements there; if there is only one other loop, tiles are 32 times as wide along the row.
    ///   `row: 512` says how wide tiles are along the row, however many loops there are; these tiles are skewed by whole vectors
    ///   where dependences allow it.
    /// * `jam: 4` jams that many iterations of another independent loop, with the reduction innermost, so that results
    ///   stay in registers; where there is none, the reduction runs innermost for lanes of `lanes: any`. Without lanes it jams iterations of the
    ///   last loop but one, if the band may be tiled, skewed until no row of a block waits for another one in the same
    ///   iteration: chains of dependences along the rows of a block overlap.
    /// * `parallel: outer` runs the outermost loop whose iterations are independent on host threads; where there is
    ///   none, loops inside are tried. `parallel: wavefront` also takes tiles that depend on one another, along the
    ///   diagonals of the first two tile loops (it needs `tile:`); `parallel: diamond` makes diamonds of these tiles where
    ///   the dependences allow it and no statement waits for another one of its step, so that all threads have work from the
    ///   first row of tiles on (Bandishti, Pananilath and Bondhugula, 2012); elsewhere it is `wavefront`. `parallel: none` is the default.
    /// * `blocks: 64` makes a blocked algorithm: the loop that is summed over runs in blocks; in each of them, the block
    ///   itself comes first, then its rows and columns in tiles as wide, and then one nest updates all that is beyond it. The
    ///   loops of that nest end in `.rest`, and stay plain: they are those of a matrix product. Statements that wait for one
    ///   another there, such as the two of modified Gram-Schmidt, share a nest.
    ///
    /// **Legal** if every dependence keeps its order and every instance is run once, which is checked as for every
    /// step. Refused (`E0625`): bounds or conditions around loops that are not affine, variables and local arrays that
    /// are declared around loops (declare an array of them outside of the nest), statements that may fail.
    ///
    /// ```lathe
    /// kernel lu(A: inout f64[N, N]) {
    ///     for k in 0..N {
    ///         for i in k + 1..N {
    ///             A[i, k] = A[i, k] / A[k, k]
    ///             for j in k + 1..N {
    ///                 A[i, j] += -(A[i, k] * A[k, j])
    ///             }
    ///         }
    ///     }
    /// }
    /// strategy s for lu = affine_schedule(k, vector: vector(f64))
    /// ```
    pub static RULE = affine_schedule, version 1,
        (loop: optional Loop, fuse: optional Word, tile: optional Int, vector: optional Int, jam: optional Int, lanes: optional Word, parallel: optional Word, blocks: optional Int, row: optional Int),
        apply,
        "polyhedral scheduling: computes new loops for all statements of a nest: fused, interchanged, skewed, tiled, with vector lanes inside";
}

/// What the arguments ask for.
struct Wanted {
    fuse: Fuse,
    tile: i64,
    /// How wide tiles are along the row; 1: nobody said.
    row: i64,
    lanes: i64,
    jam: i64,
    /// Elements of neighbouring lanes may lie apart.
    apart: bool,
    /// Rows instead of lanes: plain loops that may become some.
    rows: bool,
    /// A loop runs on threads; tiles on diagonals do, too.
    threads: bool,
    wavefront: bool,
    diamonds: bool,
    /// How wide the blocks of the loop are that is summed over; 1: there are none.
    blocks: i64,
}

/// The widest tiles, the most lanes and copies.
const MOST: [i64; 3] = [1 << 20, 512, 64];

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let wanted = Wanted::read(args)?;
    let paths = match args.opt_path(work.rule(), "loop", 0)? {
        Some(name) => match find_all_loops(cursor, work.rule(), &name)?.as_slice() {
            [one] => vec![one.clone()],
            _ => vec![find_one_loop(cursor, work.rule(), &name)?],
        },
        None => whole(cursor).into_iter().collect(),
    };
    if paths.is_empty() {
        return Err(work.refuse(codes::SHAPE, "`affine_schedule`: there are no loops"));
    }
    for path in paths {
        one(work, &path, &wanted)?;
    }
    Ok(())
}

/// What the step would make of all loops in the focus for arguments that `ask` has, without asking whether it is legal: for
/// cost models, which then take the step with the best ones. `None` where there are no loops.
pub fn proposing<T>(cursor: &Cursor, ask: impl FnOnce(&mut Proposals) -> T) -> Option<T> {
    let mut path = whole(cursor)?;
    let bounded = edited(cursor, &RULE, |work| {
        path = small(work, &path)?;
        in_place(work, &path)
    });
    let bounded = bounded.ok()?;
    let old = visit::at(&bounded.body, &path)?;
    let env = Env::at(cursor.module, &bounded, &path);
    let units = affine::unscheduled(&env, old);
    let orders = Vec::new();
    Some(ask(&mut Proposals { bounded: &bounded, path: &path, old, units, orders, planned: Vec::new() }))
}

/// What the step would make of some loops, for several arguments: what these have in common is done once.
pub struct Proposals<'a> {
    bounded: &'a Function,
    path: &'a Path,
    old: &'a Stmt,
    units: Result<Schedule, String>,
    orders: Vec<(Fuse, Result<Schedule, String>)>,
    planned: Vec<(Schedule, Vec<BandPlan>)>,
}

/// Loops that are planned, but not made. Those for other arguments may be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    loops: usize,
    stage: Stage,
}

impl Proposals<'_> {
    /// The loops that arguments ask for.
    ///
    /// # Errors
    /// Why there are none.
    pub fn planned(&mut self, args: &Args) -> Result<Proposal, Refusal> {
        let wanted = Wanted::read(args)?;
        if !self.orders.iter().any(|o| o.0 == wanted.fuse) {
            let found = self.units.as_ref().map_err(Clone::clone).and_then(|u| u.reordered(wanted.fuse));
            self.orders.push((wanted.fuse, found));
        }
        let order = self.orders.iter().find(|o| o.0 == wanted.fuse).map(|o| &o.1);
        let blocks = order.map_or(Err(String::new()), |s| in_blocks(s.clone()?, &wanted));
        let s = apart(with_lanes(blocks.map_err(|why| refusal(self.old, &why))?, &wanted), &wanted);
        let plans = plans(&s, &wanted);
        // What has the same order and the same plans is the same loops.
        let known = self.planned.iter().position(|(o, p)| (&o.tree, p) == (&s.tree, &plans));
        let loops = known.unwrap_or_else(|| {
            self.planned.push((s, plans));
            self.planned.len() - 1
        });
        Ok(Proposal { loops, stage: wanted.stage() })
    }

    /// The function with loops that are planned.
    ///
    /// # Errors
    /// Why they cannot be made.
    pub fn made(&self, proposal: Proposal) -> Result<Function, Refusal> {
        let made = self.planned.get(proposal.loops).ok_or_else(String::new).and_then(|(s, plans)| {
            let mut func = self.bounded.clone();
            let new = affine::generate(s, plans, SPLITS[0], &mut func.next_id)?;
            let new = simplify_stmt(&new, &mut Ranges::at(self.bounded, self.path));
            func.body = visit::replace_at(&func.body, self.path, new).ok_or_else(String::new)?;
            func.stage = func.stage.max(proposal.stage);
            Ok(func)
        });
        made.map_err(|why| refusal(self.old, &why))
    }
}

/// Arguments of the function that bound loops may be so large that sums of them overflow 64 bits; then the loops are
/// left as they are.
const LARGE: i64 = 1 << 40;

/// The place of a nest whose bounds are sums of small numbers: that of one branch of a condition that says so, if
/// need be.
fn small(work: &mut Work, path: &Path) -> Result<Path, Refusal> {
    let (nest, ranges) = (work.at(path)?.clone(), work.ranges(path));
    let (mut wide, mut inside): (BTreeSet<VarId>, HashSet<VarId>) = Default::default();
    visit::walk(&nest, &mut |s, _| {
        inside.extend(s.binders().into_iter().map(|b| b.0.id));
        if let Some(l) = s.as_loop() {
            // A number of another type is converted, which no bound of this place says anything about.
            for bound in [&l.lo, &l.hi] {
                visit::walk_expr(bound, &mut |e| wide.extend(e.as_var().filter(|_| e.ty().is_index())));
            }
        }
        true
    });
    wide.retain(|v| {
        let r = ranges.range(&build::var_id(*v, Scalar::Index));
        !inside.contains(v) && !SMALL.contains(r)
    });
    let bounded = wide.iter().map(|v| {
        let v = build::var_id(*v, Scalar::Index);
        build::and(build::le(build::index(-LARGE), v.clone()), build::le(v, build::index(LARGE)))
    });
    let Some(cond) = bounded.reduce(build::and) else { return Ok(path.clone()) };
    let other = Some(work.copy(&nest));
    let places = nest.places().clone();
    let both = Stmt::new(StmtKind::If { cond, then: nest, other }, places);
    work.replace_by_rule(path, both, Kind::Bijection, Construction::Unchanged)?;
    Ok(path.iter().copied().chain([0]).collect())
}

impl Wanted {
    fn read(args: &Args) -> Result<Wanted, Refusal> {
        let rule = RULE.signature.name;
        let refuse = |text: String| Diagnostic::error(codes::ARGUMENT, text).into_refusal(rule);
        let number = |name: &str, position, most| -> Result<i64, Refusal> {
            let n = args.opt_positive(rule, name, position)?.unwrap_or(1);
            if n > most { Err(refuse(format!("`{rule}`: `{name}: {n}` is too large"))) } else { Ok(n) }
        };
        let words = args.opt_word(rule, "lanes", 5, &["dense", "any", "none"])?;
        let parallel = args.opt_word(rule, "parallel", 6, &["none", "outer", "wavefront", "diamond"])?;
        let wanted = Wanted {
            fuse: match args.opt_word(rule, "fuse", 1, &["max", "smart", "none"])? {
                Some("max") => Fuse::Max,
                Some("none") => Fuse::None,
                _ => Fuse::Smart,
            },
            tile: number("tile", 2, MOST[0])?,
            row: number("row", 8, MOST[0])?,
            lanes: number("vector", 3, MOST[1])?,
            jam: number("jam", 4, MOST[2])?,
            apart: words == Some("any"),
            rows: words == Some("none"),
            threads: !matches!(parallel, None | Some("none")),
            wavefront: matches!(parallel, Some("wavefront" | "diamond")),
            diamonds: parallel == Some("diamond"),
            blocks: number("blocks", 7, MOST[0])?,
        };
        match (wanted.lanes as u64).is_power_of_two() {
            true => Ok(wanted),
            false => Err(refuse(format!("`{rule}`: {} is not a number of lanes", wanted.lanes))),
        }
    }

    /// A tree whose innermost loops are given.
    fn stage(&self) -> Stage {
        if self.lanes > 1 && !self.rows || self.jam > 1 || self.threads {
            Stage::Scheduled
        } else {
            Stage::Plain
        }
    }
}

/// The smallest part of the focus that holds all loops.
fn whole(cursor: &Cursor) -> Option<Path> {
    let mut loops: Vec<Path> = Vec::new();
    visit::walk(cursor.focused(), &mut |s, p| {
        if s.as_loop().is_some() {
            loops.push(cursor.focus.iter().chain(p).copied().collect());
        }
        s.as_loop().is_none()
    });
    let first = loops.first()?;
    let shared = |n: usize, p: &Path| p.iter().zip(first).take(n).take_while(|(a, b)| a == b).count();
    let n = loops.iter().fold(first.len(), shared);
    Some(first[..n].to_vec())
}

/// How many times as wide tiles are along the lanes, where these are tiled.
const ROW: i64 = 32;
/// How often a range may be split, from the fastest code to the smallest.
const SPLITS: [usize; 3] = [8, 2, 0];
/// What making one form of the loops and deciding about it may take: some seconds at the worst.
const WORK: u64 = 30_000_000;

fn one(work: &mut Work, path: &Path, wanted: &Wanted) -> Result<(), Refusal> {
    let path = &small(work, path)?;
    in_place(work, path)?;
    numbered(work, path)?;
    let old = work.at(path)?.clone();
    let refuse = |why: String| refusal(&old, &why);
    let before = work.func().clone();
    let env = Env::at(work.module(), &before, path);
    let s = affine::schedule(&env, &old, wanted.fuse).and_then(|s| in_blocks(s, wanted)).map_err(refuse)?;
    let s = apart(with_lanes(s, wanted), wanted);
    let plans = plans(&s, wanted);
    let mut refused = None;
    // What is split often may be too much to be decided about; conditions instead of pieces cost time, but little code.
    for splits in SPLITS {
        let make = |next: &mut u32| affine::generate(&s, &plans, splits, next).map_err(refuse);
        refused = within_work(WORK, || work.replace_instances(path, make)).err();
        if refused.is_none() {
            break;
        }
    }
    if let Some(r) = refused {
        return Err(r);
    }
    if wanted.stage() > Stage::Plain {
        work.scheduled();
    }
    Ok(())
}

/// Puts values in the place of their names, where a `let` encloses loops: of values that cannot fail, and read nothing that the
/// nest writes.
fn in_place(work: &mut Work, path: &Path) -> Result<(), Refusal> {
    let nest = work.at(path)?.clone();
    let mut written: HashSet<BufId> = HashSet::new();
    visit::walk(&nest, &mut |s, _| {
        written.extend(s.accesses().filter(|(_, mode)| mode.writes()).filter_map(|(a, _)| a.view.buffer()));
        true
    });
    let func = work.func().clone();
    let stays = |a: &Access| a.view.buffer().is_some_and(|b| !written.contains(&b) && !may_alias(&func, b));
    let plain = |e: &Expr| !may_fail(e) && visit::loads_of(e).iter().all(stays);
    let new = visit::map_stmts(&nest, &mut |s| match s.as_let() {
        Some((binder, value, body)) if encloses_loops(body) && plain(value) => {
            visit::substitute_stmt(body, &HashMap::from([(binder.id, value.clone())]))
        }
        _ => s,
    });
    if new == nest {
        Ok(())
    } else {
        work.replace_by_rule(path, new, Kind::Bijection, Construction::Unchanged)
    }
}

fn encloses_loops(s: &Stmt) -> bool {
    s.as_loop().is_some() || s.children().any(encloses_loops)
}

/// Extends the instance vectors of statements that do not distinguish the iterations of the nest, such as index
/// notation inside of loops, by the iterators.
fn numbered(work: &mut Work, path: &Path) -> Result<(), Refusal> {
    fn of(s: &Stmt, around: &mut Vec<Binder>, once: &dyn Fn(&Stmt) -> bool) -> Stmt {
        let binder = s.as_loop().map(|l| l.binder.clone());
        around.extend(binder.clone());
        let new = s.with_children(s.children().map(|c| of(c, around, once)).collect());
        if binder.is_some() {
            around.pop();
        }
        let told = |b: &Binder| s.instance().iter().any(|e| visit::vars_of(e).contains(&b.id));
        if around.iter().all(told) || !once(s) {
            return new;
        }
        let instance: Vec<Expr> = around.iter().map(build::var).collect();
        match (s.as_store(), s.as_reduce()) {
            (Some(st), _) => s.with_kind(StmtKind::Store(Store { instance, ..st.clone() })),
            (_, Some(r)) => s.with_kind(StmtKind::Reduce(Reduce { instance, ..r.clone() })),
            (None, None) => new,
        }
    }
    let nest = work.at(path)?.clone();
    let mut labels: HashMap<String, usize> = HashMap::new();
    visit::walk(&nest, &mut |s, _| {
        s.label().into_iter().for_each(|l| *labels.entry(l.to_string()).or_default() += 1);
        true
    });
    let once = |s: &Stmt| s.label().is_some_and(|l| labels.get(l.as_str()) == Some(&1));
    let new = of(&nest, &mut Vec::new(), &once);
    if new == nest {
        Ok(())
    } else {
        work.replace_by_rule(path, new, Kind::Bijection, Construction::Unchanged)
    }
}

fn refusal(nest: &Stmt, why: &str) -> Refusal {
    Diagnostic::error(codes::UNSUPPORTED, format!("`affine_schedule`: {why}"))
        .at_places(nest.places(), "this nest")
        .help("name a loop inside of it, or separate what cannot be scheduled from the rest with `fission`")
        .into_refusal(RULE.signature.name)
}

/// The schedule with the first loop in blocks that sums, if blocks are asked for.
fn in_blocks(s: Schedule, wanted: &Wanted) -> Result<Schedule, String> {
    if wanted.blocks < 2 {
        return Ok(s);
    }
    let moves: Vec<_> = (0..s.units.len()).map(|u| s.directions(u)).collect();
    for (band, (units, members)) in bands(&s).into_iter().enumerate() {
        for m in (0..members).filter(|m| Along::of(&s, (band, *m), &units, &moves).reduces) {
            if let Some(made) = s.blocked(band, m, wanted.blocks) {
                return Ok(made);
            }
        }
    }
    Err("no loop that is summed over has others beyond it, so that there are no blocks".into())
}

/// The schedule with inner loops distributed where that is necessary for vectorization: isl keeps tilable loops together.
fn with_lanes(s: Schedule, wanted: &Wanted) -> Schedule {
    let mut best = (laned(&s, wanted), s);
    if wanted.lanes < 2 {
        return best.1;
    }
    loop {
        let next = distributions(&best.1).map(|s| (laned(&s, wanted), s)).find(|n| n.0 > best.0);
        match next {
            Some(next) => best = next,
            None => return best.1,
        }
    }
}

/// The schedule with rows that are jammed without lanes so far apart that none waits for another one in the same iteration:
/// each of them has its own chain, however many there are, and the processor need not look ahead by a chain for each row. Tiles of
/// rows are skewed by whole vectors.
fn apart(mut s: Schedule, wanted: &Wanted) -> Schedule {
    if (wanted.jam < 2 || wanted.lanes > 1) && !(wanted.rows && wanted.row > 1) {
        return s;
    }
    for (band, (_, members)) in bands(&s).into_iter().enumerate() {
        let plan = plans(&s, wanted).into_iter().nth(band).unwrap_or_default();
        // Rows of tiles that have a loop of their own begin where vectors do.
        if let Some(v) = plan.in_turn.filter(|v| wanted.row > 1 && plan.tile(*v) > 1) {
            s = s.spread(band, v, wanted.lanes).unwrap_or(s);
        }
        let last_but_one = |m: &usize| matches!(plan.blocks[..], [(u, _, false)] if u == *m);
        let Some(jammed) = members.checked_sub(2).filter(last_but_one) else { continue };
        let others: Vec<usize> = (0..members).filter(|m| *m != jammed).collect();
        if !s.independent(band, jammed, &others) {
            s = s.skewed(band, members - 1, jammed).unwrap_or(s);
        }
    }
    s
}

/// How many of the most frequently executed statements are vectorized.
fn laned(s: &Schedule, wanted: &Wanted) -> usize {
    let deepest = s.units.iter().map(|u| u.iters.len()).max();
    let often = |u: &usize| s.units.get(*u).map(|u| u.iters.len()) == deepest;
    let lanes = |p: &BandPlan| p.blocks.iter().any(|b| b.2);
    let all = bands(s).into_iter().zip(plans(s, wanted)).filter(|(_, p)| lanes(p));
    all.map(|((units, _), _)| units.iter().filter(|u| often(u)).count()).sum()
}

/// Each band with one of its members innermost, and distributed.
fn distributions(s: &Schedule) -> impl Iterator<Item = Schedule> {
    let all = bands(s).into_iter().enumerate();
    all.flat_map(|(band, (_, members))| (0..members).map(move |m| (band, m)))
        .filter_map(|(b, m)| s.distributed(b, m))
}

/// The units and the number of members of every band, outer ones first.
fn bands(s: &Schedule) -> Vec<(Vec<usize>, usize)> {
    fn of(t: &Tree, units: &[usize], out: &mut Vec<(Vec<usize>, usize)>) {
        match t {
            Tree::Leaf => {}
            Tree::Sequence(parts) => parts.iter().for_each(|(inside, t)| of(t, inside, out)),
            Tree::Blocks { child, .. } => of(child, units, out),
            Tree::Band { members, child, .. } => {
                out.push((units.to_vec(), members.len()));
                of(child, units, out);
            }
        }
    }
    let mut out = Vec::new();
    of(&s.tree, &(0..s.units.len()).collect::<Vec<_>>(), &mut out);
    out
}

/// A plan for every band, outer ones first.
fn plans(s: &Schedule, wanted: &Wanted) -> Vec<BandPlan> {
    let mut out = Vec::new();
    let all: Vec<usize> = (0..s.units.len()).collect();
    let moves: Vec<_> = all.iter().map(|u| s.directions(*u)).collect();
    walk(s, &s.tree, &all, wanted, &moves, false, &mut out);
    out
}

fn walk(
    s: &Schedule,
    t: &Tree,
    units: &[usize],
    wanted: &Wanted,
    moves: &[Moves],
    concurrent: bool,
    out: &mut Vec<BandPlan>,
) {
    match t {
        Tree::Leaf => {}
        Tree::Sequence(parts) => {
            parts.iter().for_each(|(inside, t)| walk(s, t, inside, wanted, moves, concurrent, out));
        }
        Tree::Blocks { width, cuts, places, child, .. } => {
            let Tree::Sequence(parts) = &**child else { return };
            for ((inside, t), place) in parts.iter().zip(places) {
                let plain = Wanted { lanes: 1, jam: 1, tile: 1, threads: false, ..*wanted };
                let last = *place == affine::last_part(cuts.len());
                let (wanted, first) = (if last { &plain } else { wanted }, out.len());
                walk(s, t, inside, wanted, moves, concurrent, out);
                // What is beyond the block in a part only follows from the block: tiles of it as wide stay in the first cache.
                if let (false, Tree::Band { members, .. }, Some(plan)) = (last, t, out.get_mut(first)) {
                    let beyond = |c: &(usize, &Member)| place >> c.0 & 1 == 1;
                    for (_, cut) in cuts.iter().enumerate().filter(beyond) {
                        let same = |m: &Member| inside.iter().all(|u| m.rows.get(u) == cut.rows.get(u));
                        if let Some(m) = members.iter().position(same) {
                            plan.tiles[m] = *width;
                        }
                    }
                }
            }
        }
        Tree::Band { members, permutable, child } => {
            let band = out.len();
            let mut plan = plan(s, band, members, *permutable, innermost(child), units, wanted, moves);
            if wanted.threads && !concurrent {
                on_threads(s, band, *permutable, wanted, &mut plan);
            }
            let concurrent = concurrent || plan.threads.is_some();
            out.push(plan);
            walk(s, child, units, wanted, moves, concurrent, out);
        }
    }
}

/// Chooses the loop of a band that runs on threads, if there is one: the outermost one that carries no dependence, or
/// tiles along diagonals.
fn on_threads(s: &Schedule, band: usize, permutable: bool, wanted: &Wanted, plan: &mut BandPlan) {
    let tiled: Vec<usize> = plan.order.iter().copied().filter(|m| plan.tile(*m) > 1).collect();
    if tiled.is_empty() {
        let inner = plan.blocks.last().filter(|b| b.2).map(|b| b.0);
        let free = |n: &usize| s.independent(band, plan.order[*n], &plan.order[..*n]);
        plan.threads =
            (0..plan.order.len()).filter(|n| Some(plan.order[*n]) != inner).find(free).map(|n| plan.order[n]);
        return;
    }
    // Tiles of other members hold several of their iterations.
    plan.threads = tiled.iter().copied().find(|m| s.independent(band, *m, &[]));
    // What carries no dependence may be outermost: threads meet once.
    if let (Some(m), true) = (plan.threads, permutable) {
        plan.order.retain(|o| *o != m);
        plan.order.insert(0, m);
    }
    if let (None, true, [a, b, ..]) = (plan.threads, wanted.wavefront && permutable, tiled.as_slice())
        && s.forward(band, *a)
        && s.forward(band, *b)
    {
        (plan.threads, plan.wavefront) = (Some(*b), true);
        // Blocks would count several iterations.
        let plain = |m: usize| plan.blocks.iter().all(|block| block.0 != m);
        if wanted.diamonds && plain(*a) && plain(*b) {
            plan.diamond = s.diamond(band, *a, *b);
        }
    }
}

/// No band is below.
fn innermost(t: &Tree) -> bool {
    match t {
        Tree::Leaf => true,
        Tree::Sequence(parts) => parts.iter().all(|p| innermost(&p.1)),
        Tree::Blocks { .. } => false,
        Tree::Band { .. } => false,
    }
}

#[allow(clippy::too_many_arguments)]
fn plan(
    s: &Schedule,
    band: usize,
    members: &[Member],
    permutable: bool,
    innermost: bool,
    units: &[usize],
    wanted: &Wanted,
    moves: &[Moves],
) -> BandPlan {
    let all = 0..members.len();
    let mut plan =
        BandPlan { order: all.clone().collect(), tiles: vec![0; members.len()], ..BandPlan::default() };
    let tiled = permutable && members.len() > 1 && wanted.tile > 1;
    // Beside one other loop, that of the rows is tiled, too, and beside several where that is asked for.
    let rows = wanted.rows && tiled && (members.len() == 2 || wanted.row > 1);
    let along: Vec<Along> = all.clone().map(|m| Along::of(s, (band, m), units, moves)).collect();
    let may = all.clone().filter(|m| {
        let last = m + 1 == members.len();
        // What is not coincident may still be lanes inside of the members that carry the dependences.
        let free = || !members[*m].alone || rows && s.lanes_in_turn(band, *m, units);
        let may = (permutable || last) && free();
        innermost && wanted.lanes > 1 && along[*m].moves_results && may
    });
    let dense = may.clone().filter(|m| along[*m].far == 0 && along[*m].near > 0);
    let dense = dense.max_by_key(|m| (members[*m].coincident, along[*m].near, *m));
    let any = may.filter(|m| wanted.apart && members[*m].coincident && along[*m].near + along[*m].far > 0);
    let any = any.max_by_key(|m| (Reverse(along[*m].far), *m));
    let apart = dense.is_none();
    let Some(v) = dense.or(any) else {
        if tiled {
            plan.tiles = vec![wanted.tile; members.len()];
        }
        // Rows of which each waits for the one before, and all elements for those beside them.
        if let Some(u) = members.len().checked_sub(2).filter(|_| wanted.jam > 1 && wanted.lanes < 2)
            && permutable
            && innermost
        {
            plan.blocks = vec![(u, wanted.jam, false)];
        }
        return plan;
    };
    let reduces = all.clone().any(|m| along[m].reduces);
    let jammed = all
        .filter(|m| {
            let good = along[*m].moves_results && along[*m].same > 0;
            *m != v && permutable && reduces && wanted.jam > 1 && good
        })
        .max_by_key(|m| (along[*m].same, *m));
    let others = plan.order.iter().copied().filter(|m| *m != v && Some(*m) != jammed);
    let (carrying, free): (Vec<usize>, Vec<usize>) = others.partition(|m| along[*m].reduces);
    // Where no other loop is independent, results whose elements lie apart stay in registers as well.
    let alone = apart && permutable && reduces && wanted.jam > 1 && !carrying.is_empty();
    if jammed.is_some() || alone {
        plan.order = free.into_iter().chain(jammed).chain([v]).chain(carrying).collect();
        plan.blocks = jammed.map(|u| (u, wanted.jam, false)).into_iter().collect();
        plan.blocks.push((v, wanted.lanes, true));
        if tiled {
            plan.tiles = vec![wanted.tile; members.len()];
        }
        return plan;
    }
    if permutable {
        plan.order.retain(|m| *m != v);
        plan.order.push(v);
    }
    match wanted.rows {
        true => plan.in_turn = Some(v).filter(|v| plan.order.last() == Some(v)),
        false => plan.blocks = vec![(v, wanted.lanes, true)],
    }
    if tiled {
        plan.tiles = vec![wanted.tile; members.len()];
        plan.tiles[v] = match (rows, wanted.row) {
            (true, 2..) => wanted.row,
            (true, _) => wanted.tile * ROW,
            (false, _) => 0,
        };
    }
    plan
}
