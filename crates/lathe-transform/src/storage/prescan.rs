//! `prescan`: the iterations of a scan's loop no longer depend on each other (reduce-then-scan).

use super::make::{self, fresh_name, nest, proved, refuse};
use super::scope::Around;
use crate::args::Args;
use crate::codes;
use crate::laws::{self, Relied};
use crate::names;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr, ExprKind, View};
use lathe_ir::names::Role;
use lathe_ir::stmt::{Effects, Part};
use lathe_ir::visit;
use lathe_ir::{
    Buffer, Executor, Label, Loop, Module, Reduce, ReduceOp, Space, Stmt, StmtKind, Store, build,
};
use lathe_prove::Which;
use lathe_strategy::evidence::{Kind, Within};
use lathe_strategy::{Claim, Refusal};
use std::sync::Arc;

const RULE: &str = "prescan";

rule! {
    /// `prescan(s.acc, i.o)` (*reduce-then-scan*) makes the blocks `i.o` of a scan independent: a first loop,
    /// `i.o.total`, reduces every block on its own (`s.total`); the totals are combined one after the other
    /// (`s.carry`); then each block starts from the total of all blocks before it. The values are computed twice, but
    /// both loops can be made `parallel`. Let the blocks of a few threads fit the caches together (`split` twice,
    /// `prescan` inside), and memory is still traversed once.
    ///
    /// `combine: tree` combines the totals of a power of two of blocks in rounds, of which each doubles how many blocks
    /// a total stands for (Sklansky): loops `p` of statements `s.double`, `s.double2`, …, whose iterations are
    /// independent.
    ///
    /// Legal for a running value (`s.acc`, an array without dimensions) that the loop changes only by reductions of one
    /// target whose operator is associative and has an identity; what they add may not depend on what the loop writes.
    /// Blocks keep their order, so that the operator need not be commutative. The result is associated differently,
    /// which is recorded.
    ///
    /// ```lathe
    /// kernel prefix(x: i32[N]) -> (s: i32[N]) {
    ///     s[i] = scan(sum)[i](x[i])
    /// }
    /// strategy par for prefix = split(i, 1024) ; prescan(s.acc, i.o) ; parallel(i.o.total) ; parallel(i.o)
    /// ```
    pub static PRESCAN = prescan, version 1, (array: one Buffer, loop: one Loop, combine: optional Word), apply,
        "reduce-then-scan: lets every block of a scan start from the total of the blocks before";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "loop", 1)?)?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let places = cursor.at(&path).map_or(Places::none(), |s| s.places().clone());
    let no = |text: String, help: &str| refuse(RULE, codes::SHAPE, text, help, &places);
    running_value(RULE, cursor, &buffer, l, &path, &places)?;
    let around = Around::of(cursor.func, &path);
    if around.lanes().is_some() {
        return Err(no("the loop is inside of a vector loop".into(), "do this before vectorizing"));
    }
    let scan = Scan::read(RULE, cursor, l, &buffer, &places)?;
    let (identity, relied) = scan.identity(RULE, cursor, &buffer, &places)?;
    let tree = args.opt_word(RULE, "combine", 2, &["in_order", "tree"])?.is_some_and(|w| w == "tree");
    let m = Maker::new(work, &scan, &buffer, l, &around, &places);
    let blocks = m.count.as_int().filter(|n| *n > 1 && n.count_ones() == 1);
    let blocks = match blocks {
        _ if !tree => None,
        None => {
            let text = "`combine: tree` needs a number of blocks that is a constant power of two".to_string();
            return Err(no(text, "leave `combine:` out: then totals are combined one after the other"));
        }
        some => some,
    };
    let Some(new) = m.make(work, &identity, blocks) else {
        return Err(no(format!("`{}` is not defined on `{}`", scan.op, buffer.elem), ""));
    };
    let (carry, label, array) = (m.carry.clone(), scan.label.to_string(), buffer.name.to_string());
    work.replace_storage(&path, new, Kind::Split)?;
    relied.iter().for_each(|l| work.relies_on(l));
    let help = "choose a loop of stores and reductions";
    work.decide(Claim::InputsKept { label: label.clone() }, help)?;
    work.changes_rounding(&label);
    work.decide(Claim::OnlyBy { label, array: array.clone(), within: Within::Loop }, help)?;
    let claim = Claim::StartsFromTotals { array, totals: carry.name.to_string() };
    work.decide(claim, help)?;
    work.made(&path, &carry);
    work.plays(Role::Carry, &*buffer, &*carry);
    Ok(())
}

/// Checks that an array is a running value that lives around a serial loop.
pub(super) fn running_value(
    rule: &str,
    cursor: &Cursor,
    buffer: &Buffer,
    l: &Loop,
    path: &[usize],
    places: &Places,
) -> Result<(), Refusal> {
    let no = |text: String, help: &str| refuse(rule, codes::SHAPE, text, help, places);
    if !buffer.extents.is_empty() {
        return Err(no(
            format!("`{}` has dimensions; a running value has none", buffer.name),
            "name the accumulator of a scan, for example `s.acc`",
        ));
    }
    if make::find_alloc(cursor.func, buffer.id).is_none_or(|(at, _)| !path.starts_with(&at)) {
        return Err(no(
            format!("`{}` is not a local array that lives around the loop", buffer.name),
            "choose a loop inside of its allocation",
        ));
    }
    if l.step != 1 || l.exec != Executor::Serial {
        return Err(no(
            "the loop is not serial, or its step is not 1".into(),
            "do this before `parallel` and `vectorize`",
        ));
    }
    Ok(())
}

/// What changes the running value.
pub(super) struct Scan {
    pub op: ReduceOp,
    pub label: Label,
    /// The loop's body with nothing but that.
    pub kept: Stmt,
}

impl Scan {
    pub fn read(
        rule: &str,
        cursor: &Cursor,
        l: &Loop,
        acc: &Buffer,
        places: &Places,
    ) -> Result<Scan, Refusal> {
        let no = |text: String, help: &str| Err(refuse(rule, codes::SHAPE, text, help, places));
        let mut first: Option<Reduce> = None;
        let (mut same, mut single, mut strange, mut stored) = (true, true, false, false);
        let mut written = Vec::new();
        visit::walk(&l.body, &mut |s, _| {
            strange |= !s.own_effects().without(Effects::ALLOCATES).is_none() || s.as_compute().is_some();
            written.extend(s.written().cloned());
            let own = s.written().any(|v| *v == View::Buffer(acc.id));
            match s.as_reduce() {
                Some(r) if own => {
                    single &= r.targets.len() == 1;
                    let f = first.get_or_insert_with(|| r.clone());
                    same &= f.op == r.op && f.label == r.label;
                }
                _ => stored |= own,
            }
            true
        });
        let Some(first) = first else {
            return no(
                format!("nothing in the loop reduces into `{}`", acc.name),
                "choose the loop of the scan, or one that was split off it",
            );
        };
        if strange {
            return no(
                "the loop holds checks, calls or other statements whose effects would be doubled".into(),
                "choose a loop of stores and reductions",
            );
        }
        if stored || !same || !single {
            return no(
                format!("`{}` is changed in more than one way, or together with another array", acc.name),
                "only a scan or a reduction of one target may change it",
            );
        }
        let Some(kept) = keep(&l.body, acc) else {
            return no("the loop does nothing".into(), "");
        };
        let alias = |view: &View| view.buffer().is_some_and(|b| make::may_alias(cursor.func, b));
        let mut depends = written.iter().any(alias);
        written.retain(|v| *v != View::Buffer(acc.id));
        let mut look = |e: &Expr| {
            visit::walk_expr(e, &mut |x| match x.kind() {
                ExprKind::Load(a) => {
                    depends |= written.contains(&a.view)
                        || a.view.buffer().is_none()
                        || a.view == View::Buffer(acc.id);
                }
                ExprKind::Call(..) => depends = true,
                _ => {}
            });
        };
        visit::walk(&kept, &mut |s, _| {
            s.for_each_part(&mut |p| {
                if let Part::Expr(e) = p {
                    look(e);
                }
            });
            true
        });
        if depends {
            return no(
                format!("what goes into `{}` may depend on what the loop writes", acc.name),
                "such a recurrence has no independent parts",
            );
        }
        Ok(Scan { op: first.op, label: first.label, kept })
    }

    /// What partial results start from, if the operator may have such.
    pub fn identity(
        &self,
        rule: &str,
        cursor: &Cursor,
        acc: &Buffer,
        places: &Places,
    ) -> Result<(Expr, [Relied; 2]), Refusal> {
        let no = |text: String, help: &str| Err(refuse(rule, codes::SHAPE, text, help, places));
        let types = std::slice::from_ref(&acc.elem);
        let rely = |which| laws::rely(rule, cursor.module, cursor.func, &self.op, types, which, places);
        let identity = lathe_ir::reduce::identity(cursor.module, &self.op, std::slice::from_ref(&acc.elem));
        let Some([identity]) = identity.as_deref() else {
            return no(
                format!("the operator `{}` has no identity to start partial results from", self.op),
                "declare one: `identity(e)`",
            );
        };
        Ok((identity.clone(), [rely(Which::Associative)?, rely(Which::Identity)?]))
    }

    /// The reductions under a label of totals. Nobody sees how far a total has come: if the operator is commutative,
    /// any order will do.
    pub fn labelled(&self, module: &Module, body: &Stmt, label: &str) -> Stmt {
        let any_order = match &self.op {
            ReduceOp::User(name) => module.ops.get(name).is_some_and(|o| o.commutative),
            _ => true,
        };
        visit::map_stmts(body, &mut |s| match s.as_reduce() {
            Some(r) => {
                let label = Label::new(label);
                s.with_kind(StmtKind::Reduce(Reduce { label, licence: r.licence || any_order, ..r.clone() }))
            }
            None => s,
        })
    }
}

/// The statement without all that does not change the running value; none if nothing is left.
fn keep(s: &Stmt, acc: &Buffer) -> Option<Stmt> {
    if let Some(r) = s.as_reduce() {
        return r.targets.iter().any(|t| t.view == View::Buffer(acc.id)).then(|| s.clone());
    }
    // What a local array holds is written in the loop, and so not read by what is kept.
    if let Some((_, body)) = s.as_alloc() {
        return keep(body, acc);
    }
    if let Some(all) = s.as_seq() {
        let kept: Vec<Stmt> = all.iter().filter_map(|s| keep(s, acc)).collect();
        return (!kept.is_empty()).then(|| Stmt::seq(kept));
    }
    if let Some((cond, then, other)) = s.as_if() {
        let (then, other) = (keep(then, acc), other.and_then(|o| keep(o, acc)));
        if then.is_none() && other.is_none() {
            return None;
        }
        let then = then.unwrap_or_else(Stmt::empty);
        return Some(s.with_kind(StmtKind::If { cond: cond.clone(), then, other }));
    }
    let kept: Vec<Stmt> = s.children().filter_map(|s| keep(s, acc)).collect();
    if kept.is_empty() || kept.len() < s.children().len() {
        return None;
    }
    let s = s.with_children(kept);
    // Lanes that combine in order store running values; here are none.
    match s.as_loop() {
        Some(l) if matches!(l.exec, Executor::InScan(_)) => {
            Some(s.with_kind(StmtKind::Loop(Loop { exec: Executor::Serial, ..l.clone() })))
        }
        _ => Some(s),
    }
}

/// Makes the parts of the new statement.
struct Maker<'a> {
    scan: &'a Scan,
    acc: &'a Arc<Buffer>,
    l: &'a Loop,
    around: &'a Around,
    places: &'a Places,
    carry: Arc<Buffer>,
    own: Arc<Buffer>,
    count: Expr,
    /// Labels: the totals of blocks, and the stores of what they start from.
    total: String,
    first: String,
}

impl<'a> Maker<'a> {
    fn new(
        work: &mut Work,
        scan: &'a Scan,
        acc: &'a Arc<Buffer>,
        l: &'a Loop,
        around: &'a Around,
        places: &'a Places,
    ) -> Maker<'a> {
        let count = build::max(build::index(0), build::sub(l.hi.clone(), l.lo.clone()));
        let named = |role: Role| fresh_name(work.func(), &role.of(&scan.label));
        let (carry, own) = (named(Role::Carry), named(Role::Run));
        let (total, first) = (named(Role::Total), named(Role::Start));
        let mut buffer = |name: String, extents: Vec<Expr>, space: Space| {
            let (id, elem) = (work.fresh_buf(), acc.elem.clone());
            Buffer::local(id, name, elem, extents, space)
        };
        let carry = buffer(carry, vec![build::add(count.clone(), build::index(1))], Space::Host);
        let own = buffer(own, Vec::new(), acc.space);
        Maker { scan, acc, l, around, places, carry, own, count, total, first }
    }

    fn carry_at(&self, at: Expr) -> Access {
        proved(self.carry.id, &self.carry.elem, vec![at])
    }

    fn acc(&self) -> Access {
        proved(self.acc.id, &self.acc.elem, Vec::new())
    }

    /// A store with the label of starts; what tells its instances apart comes first.
    fn store(&self, which: i64, at: Vec<Expr>, target: Access, value: Expr) -> Stmt {
        let mut instance = self.around.instance();
        instance.push(build::index(which));
        instance.extend(if at.is_empty() { vec![build::index(0)] } else { at });
        let label = Label::new(&self.first);
        let store = Store::new(label, instance, target, value);
        Stmt::new(StmtKind::Store(store), self.places.clone())
    }

    fn make(&self, work: &mut Work, identity: &Expr, tree: Option<i64>) -> Option<Stmt> {
        let l = self.l;
        let one = build::index(1);
        // The total of every block.
        let block = work.part(Role::Total, &l.binder);
        let position = |v: &Expr| build::sub(v.clone(), l.lo.clone());
        let body = work.copy_as(Role::Total, &self.scan.kept);
        let body = crate::nest::substitute(&body, l.binder.id, build::var(&block));
        let here = build::add(position(&build::var(&block)), one.clone());
        let body = redirect(&body, self.acc, &self.carry_at(here.clone()));
        let body = self.scan.labelled(work.module(), &body, &self.total);
        let start = self.store(0, vec![build::var(&block)], self.carry_at(here), identity.clone());
        let totals = nest(vec![(block, l.lo.clone(), l.hi.clone())], Stmt::seq([start, body]), self.places);
        // What each block starts from.
        let combine = match tree {
            Some(n) => self.rounds(work, n)?,
            None => {
                let c = work.part(Role::Carry, &l.binder);
                let (before, after) = (build::var(&c), build::add(build::var(&c), one));
                let sum = self.sum(work, &before, &after)?;
                let step = self.store(1, vec![build::var(&c)], self.carry_at(after), sum);
                vec![nest(vec![(c, build::index(0), self.count.clone())], step, self.places)]
            }
        };
        // The scan of every block.
        let mine = proved(self.own.id, &self.own.elem, Vec::new());
        let v = build::var(&l.binder);
        let begin = self.store(2, vec![v.clone()], mine.clone(), build::load(self.carry_at(position(&v))));
        let body = Stmt::seq([begin, redirect(&l.body, self.acc, &mine)]);
        let body = Stmt::new(StmtKind::Alloc { buffer: self.own.clone(), body }, self.places.clone());
        let main = Stmt::new(StmtKind::Loop(Loop { body, ..l.clone() }), self.places.clone());
        let enter = self.store(3, Vec::new(), self.carry_at(build::index(0)), build::load(self.acc()));
        let leave = self.store(4, Vec::new(), self.acc(), build::load(self.carry_at(self.count.clone())));
        let body = Stmt::seq([enter, totals].into_iter().chain(combine).chain([main, leave]));
        Some(Stmt::new(StmtKind::Alloc { buffer: self.carry.clone(), body }, self.places.clone()))
    }

    /// The sum of two totals, the first of which comes before the other.
    fn sum(&self, work: &Work, first: &Expr, second: &Expr) -> Option<Expr> {
        let at = |e: &Expr| build::load(self.carry_at(e.clone()));
        lathe_ir::reduce::combine(work.module(), &self.scan.op, &[at(first)], &[at(second)])?.pop()
    }

    /// The value before goes into the first total; then, in each round, the last total of every even span of `half` blocks
    /// goes into all totals of the span behind it.
    fn rounds(&self, work: &mut Work, blocks: i64) -> Option<Vec<Stmt>> {
        let (zero, one) = (build::index(0), build::index(1));
        let first = self.sum(work, &zero, &one)?;
        let mut out = vec![self.store(1, vec![zero.clone()], self.carry_at(one.clone()), first)];
        let mut half = 1;
        while half < blocks {
            let p = work.fresh(Role::Parts.word());
            let (span, off) = (
                build::floor_div(build::var(&p), build::index(half)),
                build::floor_mod(build::var(&p), build::index(half)),
            );
            let begin = build::mul(span, build::index(2 * half));
            let last = build::add(begin.clone(), build::index(half));
            let mine = build::add(last.clone(), build::add(off, one.clone()));
            let value = self.sum(work, &last, &mine)?;
            let label =
                Label::new(fresh_name(work.func(), &Role::Double.nth(&self.scan.label, out.len() - 1)));
            let mut instance = self.around.instance();
            instance.push(build::var(&p));
            let store = Store::new(label, instance, self.carry_at(mine), value);
            let store = Stmt::new(StmtKind::Store(store), self.places.clone());
            out.push(nest(vec![(p, zero.clone(), build::index(blocks / 2))], store, self.places));
            half *= 2;
        }
        Some(out)
    }
}

/// Every access to the running value becomes one to a buffer of the rule's.
pub(super) fn redirect(s: &Stmt, acc: &Buffer, to: &Access) -> Stmt {
    visit::map_accesses(s, &mut |a| {
        (a.view == View::Buffer(acc.id)).then(|| Access { places: a.places.clone(), ..to.clone() })
    })
}
