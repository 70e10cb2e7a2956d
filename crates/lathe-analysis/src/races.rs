//! Whether what a tree runs at the same time may run so: trees that no strategy made say it by themselves.
//!
//! Two accesses of one element, of which one writes, are ordered by the outermost loop in which their iterations differ,
//! if it runs its iterations in order; by their sequence, if they differ in none; and by a barrier between them. The
//! rest is a race. For each pair of accesses, and each concurrent loop around both, that is one system: both in the
//! domain, one element, different iterations of the loop, and no barrier passed from the one to the other
//! ([`between`]). The model follows "barrier intervals" of SPMD programs as in Loopy's check of dependences, which orders
//! instances per thread, per group and globally; here every concurrent loop has barriers of its own.

mod between;
mod tasks;
mod uneven;

use crate::budget::within_work;
use crate::codes;
use crate::copy::{Copy, Place, earlier};
use crate::env::Env;
use crate::leaves::{
    Leaf, Level, Obstacle, Relative, Role, Touch, leaves, leaves_between_barriers, relate, written_buffers,
};
use crate::order::{
    Conflict, aliases, beyond, buffer_name, conflict_of, is_ordered, orders_others, outer_values,
};
use crate::refusal::{instance_text, sizes_text};
use crate::solve::{Answer, Reduced, refuted, solve_from};
use crate::system::{Conj, Lin};
use crate::translate::{Builder, Scope};
use between::{Between, Fence};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::visit::walk;
use lathe_ir::{BufId, Executor, Function, Label, Module, Name, Space, Stmt, StmtKind};
use std::collections::HashSet;
use uneven::Varying;

/// What the questions about one function may take ([`within_work`]).
const WORK: u64 = 160_000_000;

/// Refuses a function of which iterations that run at the same time touch one element, and one of them writes it, with no
/// barrier between; and one with barriers that not all iterations are shown to reach. Of functions with asynchronous bodies
/// those are refused that surely have a race: not every order that waits make is followed. Nothing for trees in which all
/// runs in order.
pub fn prove_concurrent(module: &Module, func: &Function) -> Vec<Diagnostic> {
    match Concurrent::of(func) {
        Concurrent::Nothing => Vec::new(),
        Concurrent::Bodies => certain_race(module, func).into_iter().collect(),
        Concurrent::Iterations => {
            let uneven = uneven::uneven_barriers(func);
            if !uneven.is_empty() {
                return uneven;
            }
            races_in(module, func, &mut |_| true)
                .map(|found| found.to_diagnostic(&func.name))
                .into_iter()
                .collect()
        }
    }
}

/// A race that runs of a function surely have, for the sizes that the message names; as [`prove_concurrent`], but what is
/// undecided is no refusal.
pub fn certain_race(module: &Module, func: &Function) -> Option<Diagnostic> {
    if matches!(Concurrent::of(func), Concurrent::Nothing) || !uneven::uneven_barriers(func).is_empty() {
        return None;
    }
    races_in(module, func, &mut |found| found.certain()).map(|found| found.to_diagnostic(&func.name))
}

/// What of a function runs at the same time.
enum Concurrent {
    Nothing,
    /// Iterations of loops, ordered by nothing but barriers.
    Iterations,
    /// Bodies that were started, and perhaps iterations; no barriers.
    Bodies,
}

impl Concurrent {
    fn of(func: &Function) -> Concurrent {
        let (mut concurrent, mut tokens, mut barriers) = (false, false, false);
        walk(&func.body, &mut |s, _| {
            concurrent |= s.as_loop().is_some_and(|l| !l.exec.is_ordered());
            tokens |= matches!(s.kind(), StmtKind::Token { .. });
            barriers |= matches!(s.kind(), StmtKind::Barrier { .. });
            true
        });
        match (tokens, barriers) {
            (true, false) => Concurrent::Bodies,
            (false, _) if concurrent => Concurrent::Iterations,
            // Barriers among bodies order what is not followed.
            _ => Concurrent::Nothing,
        }
    }
}

/// The first of what was found that counts.
fn races_in(module: &Module, func: &Function, counts: &mut dyn FnMut(&Found) -> bool) -> Option<Found> {
    let env = Env::root(module, func);
    let written = written_buffers(&func.body);
    let mut conflicting = written.clone();
    conflicting.extend(aliases(&env).into_iter().filter(|(a, _)| written.contains(a)).map(|(_, b)| b));
    let leaves = leaves_between_barriers(&func.body, &conflicting);
    within_work(WORK, || races(&env, &func.body, &written, leaves, counts)).err()
}

/// Whether iterations of a statement that run at the same time touch no element of an array that one of them writes. Gives
/// how many pairs of statements were examined.
///
/// # Errors
/// What could not be shown, in words.
pub(crate) fn runs_apart(env: &Env, s: &Stmt, array: BufId) -> Result<usize, String> {
    let array = HashSet::from([array]);
    races(env, s, &written_buffers(s), leaves(s, &array), &mut |_| true)
        .map_err(|found| found.to_diagnostic("the statement").message)
}

/// What was found instead of a proof.
enum Found {
    Race(Box<Race>),
    Undecided(String),
}

/// Two instances that touch one element in different iterations of a concurrent loop.
struct Race {
    instances: [(Label, Vec<i64>); 2],
    places: [Places; 2],
    buffer: Name,
    element: Option<Vec<i64>>,
    sizes: Vec<(Name, i64)>,
    of: Of,
    /// The point is one of the program.
    exact: bool,
}

/// What runs at the same time.
enum Of {
    /// Iterations of a concurrent loop.
    Loop(Name, Executor, Option<(i64, i64)>),
    /// A body that was started under a token, and what comes after its start.
    Token(Name),
}

impl Found {
    fn certain(&self) -> bool {
        matches!(self, Found::Race(race) if race.exact)
    }

    fn to_diagnostic(&self, function: &str) -> Diagnostic {
        let race = match self {
            Found::Race(race) => race,
            Found::Undecided(why) => {
                let text = format!("`{function}` could not be shown to be free of races: {why}");
                return Diagnostic::error(codes::RACE, text);
            }
        };
        let [first, second] = &race.instances;
        let (first, second) =
            (instance_text(first.0.as_str(), &first.1), instance_text(second.0.as_str(), &second.1));
        let may = if race.exact { "" } else { "may " };
        let mut d = Diagnostic::error(
            codes::RACE,
            format!(
                "`{function}` {may}run{} `{first}` and `{second}` at the same time",
                if race.exact { "s" } else { "" }
            ),
        )
        .at_places(&race.places[0], &format!("`{first}`"))
        .at_places(&race.places[1], &format!("`{second}`"));
        let element = match &race.element {
            Some(e) => format!("`{}`", instance_text(&race.buffer, e)),
            None => format!("an element of `{}`", race.buffer),
        };
        let which = match &race.of {
            Of::Loop(of, _, Some((a, b))) => format!("iterations {a} and {b} of `{of}`"),
            Of::Loop(of, _, None) => format!("two iterations of `{of}`"),
            Of::Token(token) => format!("a body started under `{token}` and what follows its start"),
        };
        let with =
            if race.sizes.is_empty() { String::new() } else { format!(", with {}", sizes_text(&race.sizes)) };
        d = d.note(format!("{which} access {element}, and one of them writes it{with}"));
        match &race.of {
            Of::Loop(_, Executor::Vector(_), _) => d,
            Of::Loop(of, ..) => d.help(format!(
                "`barrier {of}` between the two orders them, where all iterations of `{of}` reach it"
            )),
            Of::Token(token) => d.help(format!("`wait {token}` between the two orders them")),
        }
    }
}

struct Check<'e, 'w> {
    env: &'e Env<'e>,
    start: (Builder<'w>, Scope),
    aliases: HashSet<(BufId, BufId)>,
}

/// What distinguishes conflicts that are put as one question.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind<'t> {
    at: (Place, Place),
    spaces: (Space, Space),
    /// The scopes of two atomics.
    scopes: Option<(&'t Name, &'t Name)>,
}

impl Kind<'_> {
    /// The same of the second access and the first.
    fn turned(&self) -> Self {
        let both = |(p, q)| (q, p);
        let at = (self.at.1, self.at.0);
        Kind { at, spaces: (self.spaces.1, self.spaces.0), scopes: self.scopes.map(both) }
    }
}

fn turned<'t>(touches: &[(&'t Touch, &'t Touch)]) -> Vec<(&'t Touch, &'t Touch)> {
    touches.iter().map(|(x, y)| (*y, *x)).collect()
}

/// The pairs of accesses of a statement's leaves; gives how many of them were examined.
fn races<'a>(
    env: &Env,
    root: &'a Stmt,
    written: &HashSet<BufId>,
    leaves: Result<Vec<Leaf<'a>>, Obstacle>,
    counts: &mut dyn FnMut(&Found) -> bool,
) -> Result<usize, Found> {
    let followed = match orders_others(root) {
        Some(label) => Err(format!("the atomic `{label}` orders other accesses")),
        None => leaves,
    };
    let all = match followed.map_err(Found::Undecided) {
        Ok(all) => all,
        Err(found) if counts(&found) => return Err(found),
        Err(_) => return Ok(0),
    };
    let mut builder = Builder::new(written);
    let outer = builder.surroundings(env);
    let check = Check { env, start: (builder, outer), aliases: aliases(env).into_iter().collect() };
    let mut pairs = 0;
    for (i, a) in all.iter().enumerate() {
        for b in &all[i..] {
            match check.pair(a, b) {
                Ok(touch) => pairs += usize::from(touch),
                Err(found) if counts(&found) => return Err(found),
                Err(_) => {}
            }
        }
    }
    Ok(pairs)
}

impl Check<'_, '_> {
    /// Whether the two touch one buffer at all.
    fn pair(&self, a: &Leaf, b: &Leaf) -> Result<bool, Found> {
        let mut kinds: Vec<(Kind, Vec<(&Touch, &Touch)>)> = Vec::new();
        for x in &a.touches {
            for y in b.touches.iter().filter(|y| self.conflict(x, y)) {
                let scopes = x.role.scope().zip(y.role.scope());
                let spaces = (self.space(a, x.buffer), self.space(b, y.buffer));
                let kind = Kind { at: (Place::of(x), Place::of(y)), spaces, scopes };
                match kinds.iter_mut().find(|(k, _)| *k == kind) {
                    Some((_, list)) => list.push((x, y)),
                    None => kinds.push((kind, vec![(x, y)])),
                }
            }
        }
        for (kind, touches) in &kinds {
            self.beside(a, b, (kind, touches))?;
            if !std::ptr::eq(a, b) {
                let (kind, turned) = (kind.turned(), turned(touches));
                self.beside(b, a, (&kind, &turned))?;
            }
            let (common, _) = relate(&a.path[..kind.at.0.depth], &b.path[..kind.at.1.depth]);
            for (level, of) in a.levels(common).iter().enumerate() {
                let Level::Loop(_, exec) = of else { continue };
                let divisible = kind
                    .scopes
                    .is_none_or(|(p, q)| beyond(self.env, a, p, level) || beyond(self.env, b, q, level));
                if exec.is_ordered() || !divisible {
                    continue;
                }
                let fenced = self.unordered(level, (a, kind.at.0), (b, kind.at.1), kind, touches, false)?;
                if fenced && !std::ptr::eq(a, b) {
                    let (kind, turned) = (kind.turned(), turned(touches));
                    self.unordered(level, (b, kind.at.0), (a, kind.at.1), &kind, &turned, true)?;
                }
            }
        }
        Ok(!kinds.is_empty())
    }

    fn conflict(&self, x: &Touch, y: &Touch) -> bool {
        let atomics = matches!((&x.role, &y.role), (Role::Atomic(_), Role::Atomic(_)));
        (x.role.writes() || y.role.writes())
            && (x.buffer == y.buffer || !atomics && self.aliases.contains(&(x.buffer, y.buffer)))
    }

    fn space(&self, leaf: &Leaf, id: BufId) -> Space {
        let mut local = leaf.path.iter().filter_map(|step| step.stmt.allocated());
        let found = local.find(|b| b.id == id).or_else(|| self.env.buffer(id));
        found.map_or(Space::Host, |b| b.space)
    }

    /// Looks for instances in different iterations of one concurrent loop around both, `a`'s no later than `b`'s by the
    /// barriers that were passed. Whether barriers were looked at: without any, the other direction is the same question.
    fn unordered(
        &self,
        level: usize,
        (a, at_a): (&Leaf, Place),
        (b, at_b): (&Leaf, Place),
        kind: &Kind,
        touches: &[(&Touch, &Touch)],
        turned: bool,
    ) -> Result<bool, Found> {
        let (common, relative) = relate(&a.path[..at_a.depth], &b.path[..at_b.depth]);
        let relative = if turned && relative == Relative::Same { Relative::Second } else { relative };
        let levels = a.levels(common);
        let excluded = relative == Relative::Apart && one_branch(a, level, common);
        if excluded && !levels[level + 1..].iter().any(is_ordered) {
            return Ok(false);
        }
        let Level::Loop(binder, exec) = &levels[level] else { return Ok(false) };
        let mut both = self.both((a, at_a), (b, at_b), touches);
        let (builder, x, y) = (&mut both.builder, &mut both.x, &mut both.y);
        let differ = vec![earlier(&levels, level, x, y), earlier(&levels, level, y, x)];
        let mut clauses = vec![differ];
        let mut fenced = false;
        let owners = a.stepped(common).take(level + 1).filter(|(_, l)| !is_ordered(l));
        for (step, _) in owners {
            let owner = a.path[step].stmt;
            let fence = Fence::Barrier(owner.as_loop().map(|l| l.binder.id), kind.spaces);
            let mut between = Between::new(builder, owner, fence);
            if !between.any() {
                continue;
            }
            fenced = true;
            let ways = between.ways(step + 1, (a, x, at_a), (b, y, at_b), (common, relative), excluded);
            if ways.is_empty() {
                return Ok(true);
            }
            if !ways.iter().any(Vec::is_empty) {
                clauses.push(ways);
            }
        }
        let iterations = x.level(&levels[level]).zip(y.level(&levels[level]));
        both.settle(self, (a, b), clauses, |p| {
            let pair = iterations.and_then(|(i, j)| Some((i.at(p)?, j.at(p)?)));
            Of::Loop(binder.name.clone(), (*exec).clone(), pair)
        })?;
        Ok(fenced)
    }

    /// Two accesses side by side: an instance of each, over one system, and where the two conflict.
    fn both<'t>(
        &self,
        (a, at_a): (&Leaf, Place),
        (b, at_b): (&Leaf, Place),
        touches: &[(&'t Touch, &'t Touch)],
    ) -> Both<'_, 't> {
        let (mut builder, outer) = self.start.clone();
        let mut x = Copy::new(&mut builder, &outer, a, &at_a);
        let mut y = Copy::new(&mut builder, &outer, b, &at_b);
        let levels = a.levels(relate(&a.path[..at_a.depth], &b.path[..at_b.depth]).0);
        let conflict =
            |t: &(&'t Touch, &'t Touch)| conflict_of(&mut builder, a, &levels, (&mut x, &mut y), *t);
        let conflicts = touches.iter().map(conflict).collect();
        Both { builder, outer, x, y, conflicts }
    }
}

/// See [`Check::both`].
struct Both<'w, 't> {
    builder: Builder<'w>,
    outer: Scope,
    x: Copy,
    y: Copy,
    conflicts: Vec<Conflict<'t>>,
}

impl Both<'_, '_> {
    /// Refuses two instances that conflict where one part of each clause holds; what they do at the same time says `of`.
    fn settle(
        mut self,
        check: &Check,
        (a, b): (&Leaf, &Leaf),
        mut clauses: Vec<Vec<Conj>>,
        of: impl FnOnce(&[i64]) -> Of,
    ) -> Result<(), Found> {
        let system = &mut self.builder.system;
        clauses.insert(0, self.conflicts.iter().map(|c| c.when.clone()).collect());
        clauses.append(&mut system.clauses);
        let mut state = Reduced::default();
        if clauses.iter().any(Vec::is_empty) || !state.absorb(&system.cons) || refuted(&state, &clauses) {
            return Ok(());
        }
        let p = match solve_from(&state, &[], &clauses, system.columns) {
            Answer::Empty => return Ok(()),
            Answer::Unknown => {
                let text = "may run at the same time could not be decided within the budget";
                return Err(Found::Undecided(format!("whether `{}` and `{}` {text}", a.label, b.label)));
            }
            Answer::Point(p) => p,
        };
        let one_array = self.conflicts.iter().all(|c| c.touches.0.buffer == c.touches.1.buffer);
        let exact = system.exact && !system.symbolic && one_array;
        let hit = self.conflicts.iter().find(|c| c.when.iter().all(|c| c.holds(&p)));
        let touch = hit.unwrap_or(&self.conflicts[0]).touches;
        let mut instance = |copy: &mut Copy, leaf: &Leaf| {
            let all = copy.instance(&mut self.builder, leaf);
            let number = |l: &Option<Lin>| l.as_ref().and_then(|l| l.at(&p)).unwrap_or(0);
            (leaf.label.clone(), all[..leaf.instance.len()].iter().map(number).collect())
        };
        Err(Found::Race(Box::new(Race {
            instances: [instance(&mut self.x, a), instance(&mut self.y, b)],
            places: [a.stmt.places().clone(), b.stmt.places().clone()],
            buffer: buffer_name(check.env, a, touch.0.buffer),
            element: hit.and_then(|c| c.element.as_ref()).and_then(|e| e.iter().map(|l| l.at(&p)).collect()),
            sizes: outer_values(check.env, &self.outer, &p),
            of: of(&p),
            exact,
        })))
    }
}

/// Whether all iterations of a concurrent loop take the same branch of the `if` at the end of a path's common part, when
/// they are at the same iterations of the serial loops around it.
fn one_branch(leaf: &Leaf, level: usize, common: usize) -> bool {
    let Some((owner, Level::Loop(binder, _))) = leaf.stepped(common).nth(level) else { return false };
    let mut varying = Varying::between(binder.id);
    leaf.path[owner + 1..common].iter().for_each(|step| varying.enter(step.stmt, step.position));
    let cond = leaf.path.get(common).and_then(|step| step.stmt.as_if());
    cond.is_some_and(|(cond, ..)| !varying.differs(cond))
}
