//! The one interface for edits: a function while a rule changes it. A rule gets a [`Work`] and can reach the tree in
//! it only through edits that ask the checker, or name what they owe; relations between instances are read off the
//! trees at the end.

pub(crate) mod formula;
mod help;
mod places;
mod relations;

use crate::args::{Args, IntoRefusal};
use crate::arithmetic::added_overflow;
use crate::codes;
use crate::decide::decide;
use crate::handle::{self, Handle, Made as Part};
use crate::laws::{self, Relied};
use crate::nest::rename_loops;
use crate::rule::{Cursor, Edit, Rule};
use crate::runs::runs_kept;
use lathe_analysis::{
    Change, Env, OrderRefusal, Unkept, exhausted, order_preserved, padded, same_content, same_instances,
};
use lathe_diagnostics::{Code, Diagnostic, Places, Severity};
use lathe_ir::names::Role;
use lathe_ir::stmt::{Atomic, AtomicOp};
use lathe_ir::{
    Binder, BufId, Buffer, Expr, Function, Label, Module, ReduceOp, Scalar, Stage, Stmt, StmtKind, Type,
};
use lathe_ir::{verify, visit};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;
use lathe_prove::Which;
use lathe_strategy::evidence::{Kind, Made, Range, Simplified};
use lathe_strategy::{Claim, Construction, Discharge, Evidence, Formula, Obligation, Refusal, Witness};

/// A function while a rule changes it.
pub struct Work<'a> {
    rule: &'static str,
    cursor: Cursor<'a>,
    func: Function,
    kind: Kind,
    evidence: Evidence,
    parts: Vec<Part>,
}

/// Runs a rule, and completes its evidence but for the hashes of the trees.
///
/// # Errors
/// What the rule refuses; `E0625` where a rule leaves a tree that is ill-formed, or owes nothing for a change: both are
/// defects, and the result is not used.
pub(crate) fn perform(cursor: &Cursor, rule: &'static Rule, args: &Args) -> Result<Edit, Refusal> {
    let mut work = Work::new(cursor, rule);
    (rule.apply)(&mut work, args)?;
    work.same_runs()?;
    let Work { func, kind, mut evidence, parts, .. } = work;
    well_formed(cursor, rule.name(), &func)?;
    if evidence.obligations.is_empty() && func.body != cursor.func.body {
        return Err(defect(rule.name(), "changed the tree without a proof obligation"));
    }
    evidence.relations = relations::relations(cursor.module, cursor.func, &func, kind);
    evidence.args = args.texts();
    evidence.path.clone_from(&cursor.focus);
    let made = handle::complete(parts, cursor.func, &func);
    Ok(Edit { func, evidence, made })
}

/// The tree after some edits of a rule, for those who need no evidence.
pub(crate) fn edited(
    cursor: &Cursor,
    rule: &'static Rule,
    edit: impl FnOnce(&mut Work) -> Result<(), Refusal>,
) -> Result<Function, Refusal> {
    let mut work = Work::new(cursor, rule);
    edit(&mut work)?;
    well_formed(cursor, rule.name(), &work.func)?;
    Ok(work.func)
}

/// The verifier runs after every rule, in every build: a rule that breaks an invariant of the tree is a defect, and its
/// result is not used.
fn well_formed(cursor: &Cursor, rule: &str, new: &Function) -> Result<(), Refusal> {
    let own = |d: &Diagnostic| d.severity == Severity::Error;
    let Some(found) = verify::verify_edit(cursor.module, cursor.func, new).into_iter().find(own) else {
        return Ok(());
    };
    // A tree that was broken before is not the rule's fault.
    if verify::verify_function(cursor.module, cursor.func).iter().any(own) {
        return Ok(());
    }
    // What lanes that combine in order may hold is known in one place, which looks at what a rule put there.
    if found.code == lathe_ir::codes::LANES_IN_ORDER {
        return Err(Diagnostic::error(codes::SHAPE, format!("`{rule}`: {}", found.message))
            .help("`serial` makes these iterations run one after the other; or apply `inscan` later")
            .into_refusal(rule));
    }
    debug_assert!(false, "`{rule}` broke the tree: {found}");
    Err(defect(rule, &format!("produced an ill-formed tree: {}", found.message)))
}

fn defect(rule: &str, what: &str) -> Refusal {
    Diagnostic::error(codes::ILL_FORMED, format!("`{rule}` {what}"))
        .help("this is a bug in Lathe: please report it with the program and the strategy")
        .into_refusal(rule)
}

impl<'a> Work<'a> {
    fn new(cursor: &Cursor<'a>, rule: &'static Rule) -> Work<'a> {
        Work {
            rule: rule.name(),
            cursor: cursor.clone(),
            func: cursor.func.clone(),
            kind: Kind::Bijection,
            evidence: Evidence::new(rule.name(), rule.signature.version),
            parts: Vec::new(),
        }
    }

    pub fn rule(&self) -> &'static str {
        self.rule
    }

    pub fn module(&self) -> &'a Module {
        self.cursor.module
    }

    /// Where the rule is applied, in the function as it was.
    pub fn cursor(&self) -> Cursor<'a> {
        self.cursor.clone()
    }

    /// The function as it is now.
    pub fn func(&self) -> &Function {
        &self.func
    }

    /// A fresh loop variable.
    pub fn fresh(&mut self, name: impl AsRef<str>) -> Binder {
        self.func.fresh_var(name, Scalar::Index)
    }

    /// A fresh loop variable that plays a part for a loop, called after it.
    pub fn part(&mut self, role: Role, of: &Binder) -> Binder {
        self.part_called(role.of(&of.name), role, of)
    }

    /// A fresh loop variable that plays a part for a loop, of a name that is given.
    pub fn part_called(&mut self, name: impl AsRef<str>, role: Role, of: &Binder) -> Binder {
        let new = self.fresh(name);
        self.plays(role, of, &new);
        new
    }

    /// Says what the step makes of what.
    pub fn plays(&mut self, role: Role, of: impl Into<Handle>, new: impl Into<Handle>) {
        self.parts.push(Part { role: Some(role), of: of.into(), new: new.into() });
    }

    /// Says what takes the place of what.
    pub fn becomes(&mut self, of: impl Into<Handle>, new: impl Into<Handle>) {
        self.parts.push(Part { role: None, of: of.into(), new: new.into() });
    }

    /// A fresh variable of any type.
    pub fn fresh_scalar(&mut self, name: &str, ty: Scalar) -> Binder {
        self.func.fresh_var(name, ty)
    }

    pub fn fresh_buf(&mut self) -> BufId {
        self.func.fresh_buf()
    }

    /// A copy of a statement with fresh binders.
    pub fn copy(&mut self, s: &Stmt) -> Stmt {
        visit::refresh(s, &mut self.func.next_id)
    }

    /// A copy whose loops play a part for those of the statement, and are called so.
    pub fn copy_as(&mut self, role: Role, s: &Stmt) -> Stmt {
        let copy = rename_loops(&self.copy(s), &|n| role.of(n));
        for (old, new) in loops_of(s).into_iter().zip(loops_of(&copy)) {
            self.plays(role, &old, &new);
        }
        copy
    }

    pub fn at(&self, path: &[usize]) -> Result<&Stmt, Refusal> {
        visit::at(&self.func.body, path).ok_or_else(|| self.refuse(codes::SHAPE, "the place is gone"))
    }

    pub fn ranges(&self, path: &[usize]) -> Ranges {
        Ranges::at(&self.func, path)
    }

    pub fn refuse(&self, code: Code, message: impl Into<String>) -> Refusal {
        Diagnostic::error(code, message).into_refusal(self.rule)
    }

    /// An expression at a place of the function as it was, for evidence.
    pub fn formula(&self, path: &[usize], e: &Expr) -> Formula {
        formula::formula(&Env::at(self.cursor.module, self.cursor.func, path), e)
    }

    /// One dimension of a window, for evidence.
    pub fn range(&self, path: &[usize], lo: &Expr, size: &Expr, step: i64) -> Range {
        let env = Env::at(self.cursor.module, self.cursor.func, path);
        Range { lo: formula::formula(&env, lo), size: formula::formula(&env, size), step }
    }

    /// Replaces a subtree by one that runs the same instances in the same order, by the form of the rewrite.
    pub fn replace_by_rule(
        &mut self,
        path: &[usize],
        new: Stmt,
        kind: Kind,
        why: Construction,
    ) -> Result<(), Refusal> {
        let old = self.at(path)?.clone();
        self.put(path, &old, new, kind)?;
        self.oblige(Obligation::order(why));
        Ok(())
    }

    /// Asks the checker, for all edits together, what rules say of order by their form: whether the tree runs what it ran and
    /// in that order. What the trees do not tell stays as it is.
    fn same_runs(&mut self) -> Result<(), Refusal> {
        let by_form =
            |o: &Obligation| o.by == Discharge::ByRule && matches!(o.claim, Claim::OrderKept { .. });
        for at in 0..self.evidence.obligations.len() {
            if !by_form(&self.evidence.obligations[at]) {
                continue;
            }
            let claim = self.evidence.obligations[at].claim.clone();
            let change = Change { module: self.module(), before: self.cursor.func, after: &self.func };
            match decide(&change, &claim) {
                Some(Ok(compared)) => {
                    self.evidence.obligations[at] = Obligation::by_accesses(claim, compared);
                }
                Some(Err(why)) => return Err(self.refuse(codes::VALUE, format!("`{}`: {why}", self.rule))),
                None => {}
            }
        }
        Ok(())
    }

    /// How many statements say that the function runs what it ran when the rule began, in that order. None where only the
    /// form of the rewrite says what statements do, and their instances and order are what they were.
    pub fn runs_compared(&self) -> Result<Option<usize>, Refusal> {
        let change = Change { module: self.module(), before: self.cursor.func, after: &self.func };
        match runs_kept(&change) {
            Some(Ok(compared)) => Ok(Some(compared)),
            Some(Err(why)) => Err(self.refuse(codes::VALUE, format!("`{}`: {why}", self.rule))),
            None => Ok(None),
        }
    }

    /// Replaces the whole function by another form of it; the rule names what it owes for that.
    pub fn whole(&mut self, new: Function, stage: Stage) {
        self.func.next_id = new.next_id;
        self.func.body = new.body;
        self.func.stage = stage;
    }

    /// Replaces a subtree by what computes the same on other storage; the rule names what it owes for that.
    pub fn replace(&mut self, path: &[usize], new: Stmt, kind: Kind) -> Result<(), Refusal> {
        let old = self.at(path)?.clone();
        self.put(path, &old, new, kind)
    }

    /// Replaces the body by what a pass makes of it, after asking the checker whether it computes the same. A pass works on
    /// a copy, of which the body and the numbers that it took come back.
    pub fn pass(&mut self, by: Simplified, pass: impl FnOnce(&mut Function)) -> Result<(), Refusal> {
        let mut copy = self.func.clone();
        pass(&mut copy);
        let named = relations::named(self.module(), &self.func, &copy);
        self.func.next_id = copy.next_id;
        self.func.body = copy.body;
        self.kind = match by {
            Simplified::Overwritten | Simplified::Unread => Kind::Subset,
            Simplified::Invariant => Kind::Contraction,
            Simplified::Common | Simplified::Stored | Simplified::Cell | Simplified::Call => Kind::Bijection,
        };
        self.decide(Claim::Simplified { by, named }, "nothing was changed")
    }

    /// Replaces a subtree after asking the checker whether every dependence stays ordered.
    pub fn replace_checked(&mut self, path: &[usize], new: Stmt) -> Result<(), Refusal> {
        self.replace_reordered(path, new, false)
    }

    /// The same. If `every` is set, it has to be known of every instance that it is run once, whatever decides that; this is
    /// asked first then.
    fn replace_reordered(&mut self, path: &[usize], new: Stmt, every: bool) -> Result<(), Refusal> {
        let old = self.at(path)?.clone();
        let mut ranges = self.ranges(path);
        let fits = self.keeps_arithmetic(path, &old, &new, &ranges);
        let new = simplify_stmt(&new, &mut ranges);
        let known = if every { self.compared_instances(path, &old, &new, true)? } else { None };
        // What an iteration has for itself stays as it is, if both are simplified.
        let mut local = false;
        visit::walk(&old, &mut |s, _| {
            local |= s.as_alloc().is_some();
            !local
        });
        let was = if local { simplify_stmt(&old, &mut self.ranges(path)) } else { old.clone() };
        self.check_order(path, &was, &new)?;
        let compared = if every { known } else { self.compared_instances(path, &old, &new, false)? };
        compared.into_iter().for_each(|n| self.oblige(Obligation::by_accesses(Claim::InstancesKept, n)));
        fits?;
        self.check_content(path, &old, &new)?;
        self.replace_as_is(path, new, Kind::Bijection)
    }

    /// Asks the checker whether `new` runs each instance of `old` once; gives how many statements were compared. Where that
    /// depends on data, the form of the rewrite has to say so, unless it must be known of `every` instance; where the work
    /// that may be done did not suffice, nothing does.
    fn compared_instances(
        &self,
        path: &[usize],
        old: &Stmt,
        new: &Stmt,
        every: bool,
    ) -> Result<Option<usize>, Refusal> {
        let env = Env::at(self.cursor.module, &self.func, path);
        match same_instances(&env, old, new) {
            Ok(compared) => Ok(Some(compared)),
            Err(Unkept { why, known }) if known || every || exhausted() => {
                Err(self.order_refusal(&OrderRefusal::Undecided(why.into())))
            }
            Err(_) => Ok(None),
        }
    }

    /// Asks the checker whether every statement of `new` does what it did in `old`.
    fn check_content(&self, path: &[usize], old: &Stmt, new: &Stmt) -> Result<(), Refusal> {
        let env = Env::at(self.cursor.module, &self.func, path);
        match same_content(&env, old, new, &|| self.ranges(path)) {
            Err(Unkept { why, known: true }) => {
                Err(self.refuse(codes::VALUE, format!("`{}`: {why}", self.rule)))
            }
            Err(Unkept { why, known: false }) if exhausted() => {
                Err(self.order_refusal(&OrderRefusal::Undecided(why.into())))
            }
            Ok(_) | Err(Unkept { known: false, .. }) => Ok(()),
        }
    }

    /// Names how the iterations of what was replaced last got their new numbers: that each has one is known of the
    /// instances, or, where these depend on data, by the form of the rewrite.
    pub fn renumbered(&mut self, claim: Claim) {
        let known = self.evidence.obligations.iter_mut().find(|o| o.claim == Claim::InstancesKept);
        match known {
            Some(o) => o.claim = claim,
            None => self.oblige(Obligation::by_rule(claim)),
        }
    }

    /// Replaces a subtree by other loops for its instances, after asking the checker whether each of them is run exactly
    /// once and every dependence stays ordered. Where it refuses, nothing has changed.
    pub fn replace_instances(
        &mut self,
        path: &[usize],
        make: impl FnOnce(&mut u32) -> Result<Stmt, Refusal>,
    ) -> Result<(), Refusal> {
        self.attempt(|work| work.other_instances(path, make))
    }

    fn other_instances(
        &mut self,
        path: &[usize],
        make: impl FnOnce(&mut u32) -> Result<Stmt, Refusal>,
    ) -> Result<(), Refusal> {
        let new = make(&mut self.func.next_id)?;
        let new = self.copy(&new);
        self.replace_reordered(path, new, true)
    }

    /// Replaces a subtree by one with other storage; `kind` is what happens to the instances of labels that stay. The
    /// rule names what it owes for that.
    pub fn replace_storage(&mut self, path: &[usize], new: Stmt, kind: Kind) -> Result<(), Refusal> {
        let new = simplify_stmt(&new, &mut self.ranges(path));
        self.scheduled();
        self.replace_as_is(path, new, kind)
    }

    /// As [`Work::replace_storage`] for what makes no storage, and nothing is simplified.
    pub fn replace_as_is(&mut self, path: &[usize], new: Stmt, kind: Kind) -> Result<(), Refusal> {
        self.func.body = visit::replace_at(&self.func.body, path, new).ok_or_else(|| {
            self.refuse(codes::SHAPE, format!("`{}`: the place does not exist any more", self.rule))
        })?;
        self.kind = kind;
        Ok(())
    }

    /// Asks the checker whether the loop at a place may run to `hi`: nobody reads what additional iterations compute.
    pub fn check_padding(&mut self, path: &[usize], hi: &Expr) -> Result<(), Refusal> {
        let (written, read) = padded(self.module(), &self.func, path, hi).map_err(|why| {
            let places = visit::at(&self.func.body, path).map_or(Places::none(), |s| s.places().clone());
            Diagnostic::error(codes::PADDING, format!("`{}`: {why}", self.rule))
                .at_places(&places, "here")
                .help(
                    "stage what the tile reads with `pad: true`, and what it writes, before padding the loop",
                )
                .into_refusal(self.rule)
        })?;
        let over = self.at(path)?.as_loop().map_or(String::new(), |l| l.binder.name.to_string());
        for (array, accesses) in written {
            let claim = Claim::PaddingUnread { array, over: over.clone() };
            self.oblige(Obligation::by_accesses(claim, accesses));
        }
        self.oblige(Obligation::by_accesses(Claim::PaddingDefined { over }, read));
        Ok(())
    }

    /// Edits that are taken back where one of them is refused.
    pub fn attempt<T>(
        &mut self,
        edits: impl FnOnce(&mut Work<'a>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let before = (self.func.clone(), self.evidence.clone(), self.kind);
        let parts = self.parts.len();
        let made = edits(self);
        if made.is_err() {
            (self.func, self.evidence, self.kind) = before;
            self.parts.truncate(parts);
        }
        made
    }

    /// Asks the checker whether a claim holds of the function as it was and as it is now, and names it.
    pub fn decide(&mut self, claim: Claim, help: &str) -> Result<(), Refusal> {
        let focus = self.cursor.focus.clone();
        self.decide_at(&focus, claim, help)
    }

    /// As [`Work::decide`], of what stood at a place.
    pub fn decide_at(&mut self, path: &[usize], claim: Claim, help: &str) -> Result<(), Refusal> {
        let change = Change { module: self.module(), before: self.cursor.func, after: &self.func };
        match decide(&change, &claim) {
            Some(Ok(examined)) => self.oblige(Obligation::by_accesses(claim, examined)),
            Some(Err(why)) => {
                let code = match claim {
                    Claim::Redirected { .. }
                    | Claim::Exclusive { .. }
                    | Claim::Recomputed { .. }
                    | Claim::WrittenFirst { .. }
                    | Claim::PartsCombined { .. } => codes::WINDOW,
                    _ => codes::VALUE,
                };
                let place = visit::at(&self.cursor.func.body, path);
                return Err(Diagnostic::error(code, format!("`{}`: {why}", self.rule))
                    .at_places(&place.map_or(Places::none(), |s| s.places().clone()), "here")
                    .help(help)
                    .into_refusal(self.rule));
            }
            None => return Err(defect(self.rule, "makes a claim that nothing checks")),
        }
        Ok(())
    }

    /// Lets local arrays live to the end of the sequence that they are made in.
    pub fn widen_lifetimes(&mut self) {
        self.func.body = widened(&self.func.body);
        self.oblige(Obligation::by_rule(Claim::LifetimeOnly));
    }

    /// The tree has executors or local arrays now.
    pub fn scheduled(&mut self) {
        self.func.stage = self.func.stage.max(Stage::Scheduled);
    }

    /// Asks the checker whether `new`, simplified, in the place of `old` keeps every dependence; `path` leads to where
    /// both stand.
    fn check_order(&mut self, path: &[usize], old: &Stmt, new: &Stmt) -> Result<(), Refusal> {
        let env = Env::at(self.cursor.module, &self.func, path);
        let proof = order_preserved(&env, old, new).map_err(|r| self.order_refusal(&r))?;
        let facts: Vec<_> =
            env.stated().map(|(e, who)| (formula::formula(&env, e), who.to_string())).collect();
        for l in &proof.used_licence {
            self.changes_rounding(l.as_str());
            for (op, types) in reductions(old, l) {
                for which in [Which::Associative, Which::Commutative] {
                    let places = Places::none();
                    let law = laws::rely(self.rule, self.module(), &self.func, op, &types, which, &places)?;
                    self.relies_on(&law);
                }
            }
        }
        for (fact, from) in facts {
            let relied = lathe_strategy::evidence::Relied { fact, from };
            if !self.evidence.facts.contains(&relied) {
                self.evidence.facts.push(relied);
            }
        }
        self.oblige(Obligation {
            claim: Claim::DependencesKept,
            by: Discharge::ByDependence,
            witness: Witness::Pairs(proof.pairs),
        });
        Ok(())
    }

    /// Names what the step had to show, and how it was discharged.
    pub fn oblige(&mut self, o: Obligation) {
        self.evidence.oblige(o);
    }

    /// A law that the step relies on.
    pub fn relies_on(&mut self, law: &Relied) {
        self.oblige(law.obligation());
    }

    /// The results of a label may be rounded in another way.
    pub fn changes_rounding(&mut self, label: &str) {
        if !self.evidence.reassociates.iter().any(|e| e == label) {
            self.evidence.reassociates.push(label.to_string());
        }
    }

    /// A buffer that the step made; `path` is where its extents are known.
    pub fn made(&mut self, path: &[usize], b: &Buffer) {
        let extents = b.extents.iter().map(|e| self.formula(path, e)).collect();
        let made = Made { name: b.name.to_string(), extents, space: b.space.name().to_string() };
        self.evidence.buffers.push(made);
    }

    /// Replaces two neighbours in a sequence by one statement, without touching the others.
    pub fn replace_pair(&mut self, up: &[usize], position: usize, new: Stmt) -> Result<(), Refusal> {
        let parent = self.at(up)?.clone();
        let all: Vec<&Stmt> = parent.children().collect();
        let (Some(a), Some(b)) = (all.get(position), all.get(position + 1)) else {
            return Err(self.refuse(codes::SHAPE, "the place is gone"));
        };
        let both = Stmt::of(StmtKind::Seq(vec![(*a).clone(), (*b).clone()]));
        let mut ranges = self.ranges(up);
        let fits = self.keeps_arithmetic(up, &both, &new, &ranges);
        let new = simplify_stmt(&new, &mut ranges);
        self.check_order(up, &both, &new)?;
        let compared = self.compared_instances(up, &both, &new, false)?;
        compared.into_iter().for_each(|n| self.oblige(Obligation::by_accesses(Claim::InstancesKept, n)));
        fits?;
        self.check_content(up, &both, &new)?;
        let rest = all[..position].iter().copied().chain([&new]).chain(all[position + 2..].iter().copied());
        let rest: Vec<Stmt> = rest.cloned().collect();
        let seq = if rest.len() == 1 { new.clone() } else { parent.with_kind(StmtKind::Seq(rest)) };
        self.func.body = visit::replace_at(&self.func.body, up, seq)
            .ok_or_else(|| self.refuse(codes::SHAPE, "the place is gone"))?;
        Ok(())
    }

    /// Refuses what computes indices that may not fit 64 bits.
    fn keeps_arithmetic(&self, path: &[usize], old: &Stmt, new: &Stmt, at: &Ranges) -> Result<(), Refusal> {
        let Some(found) = added_overflow(old, new, at) else { return Ok(()) };
        let mut env = Env::at(self.cursor.module, &self.func, path);
        let mut here = new;
        for n in &found.path {
            env.enter(here, *n);
            here = here.child(*n).unwrap_or(here);
        }
        let text = env.text(&found.operation);
        let d = Diagnostic::error(codes::OVERFLOW, format!("`{}`: `{text}` may overflow 64 bits", self.rule));
        Err(d
            .at_places(old.places(), "computed for this")
            .help("use a smaller number, or bound the inputs with `assume(…)`")
            .into_refusal(self.rule))
    }

    fn put(&mut self, path: &[usize], old: &Stmt, new: Stmt, kind: Kind) -> Result<(), Refusal> {
        let mut ranges = self.ranges(path);
        self.keeps_arithmetic(path, old, &new, &ranges)?;
        let new = simplify_stmt(&new, &mut ranges);
        self.replace_as_is(path, new, kind)
    }

    /// The message of a refusal about order, with the change that usually helps.
    fn order_refusal(&self, refusal: &OrderRefusal) -> Refusal {
        let mut d = refusal.to_diagnostic(codes::ORDER, self.rule);
        if d.help.is_none() {
            d.help = help::order_help(refusal, self.rule, &self.cursor.history.with(self.parts.clone()));
        }
        d.into_refusal(self.rule)
    }
}

/// The variables of the loops of a statement, in the order of the text.
fn loops_of(s: &Stmt) -> Vec<Binder> {
    let mut out = Vec::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.as_loop().map(|l| l.binder.clone()));
        true
    });
    out
}

/// Local arrays live to the end of the sequence that they are made in.
pub fn widened(s: &Stmt) -> Stmt {
    visit::map_stmts(s, &mut |s| {
        let Some(all) = s.as_seq() else { return s };
        let longer = all.iter().rev().fold(Vec::<Stmt>::new(), |rest, one| match one.as_alloc() {
            Some((_, body)) if !rest.is_empty() => {
                vec![one.with_child(0, Stmt::seq(std::iter::once(body.clone()).chain(rest)))]
            }
            _ => std::iter::once(one.clone()).chain(rest).collect(),
        });
        Stmt::seq(longer)
    })
}

/// The reductions of a label, one of each operator.
fn reductions<'a>(s: &'a Stmt, label: &Label) -> Vec<(&'a ReduceOp, Vec<Type>)> {
    let mut out: Vec<(&ReduceOp, Vec<Type>)> = Vec::new();
    let mut left = vec![s];
    while let Some(s) = left.pop() {
        let mut found = None;
        if let StmtKind::Reduce(r) = s.kind() {
            found = Some((&r.op, r.targets.iter().map(|t| t.elem.clone()).collect()));
        } else if let StmtKind::Atomic(Atomic { op: AtomicOp::Update(op, _), target, .. }) = s.kind() {
            found = Some((op, vec![target.elem.clone()]));
        }
        out.extend(found.filter(|f| s.label() == Some(label) && out.iter().all(|o| o.0 != f.0)));
        left.extend(s.children());
    }
    out
}
