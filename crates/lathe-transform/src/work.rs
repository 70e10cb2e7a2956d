//! A function while a rule changes it: fresh names, replaced subtrees, the questions asked about order,
//! and the evidence that grows with them.

use crate::args::IntoRefusal;
use crate::arithmetic::added_overflow;
use crate::codes;
use crate::laws;
use crate::rule::{Cursor, Edit};
use lathe_analysis::{Env, OrderRefusal, order_preserved};
use lathe_diagnostics::{Code, Diagnostic, Places};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Binder, Function, Label, Module, Reduce, Scalar, Stmt, StmtKind};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;
use lathe_prove::Which;
use lathe_strategy::{Discharge, Evidence, Refusal, Relation, RuleSignature};
use std::collections::HashMap;

pub struct Work<'a> {
    pub rule: &'static str,
    pub module: &'a Module,
    pub func: Function,
    pub evidence: Evidence,
}

impl<'a> Work<'a> {
    pub fn new(cursor: &Cursor<'a>, signature: &RuleSignature) -> Work<'a> {
        Work {
            rule: signature.name,
            module: cursor.module,
            func: cursor.func.clone(),
            evidence: Evidence::new(signature.name, signature.version),
        }
    }

    /// A fresh loop variable.
    pub fn fresh(&mut self, name: impl AsRef<str>) -> Binder {
        self.func.fresh_var(name, Scalar::Index)
    }

    /// A copy of a statement with fresh binders.
    pub fn copy(&mut self, s: &Stmt) -> Stmt {
        visit::refresh(s, &mut self.func.next_id)
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

    /// Replaces a subtree by one that runs the same instances in the same order, by the rule's own
    /// construction; `why` says so.
    pub fn replace_by_rule(
        &mut self,
        path: &[usize],
        new: Stmt,
        kind: &str,
        why: &str,
    ) -> Result<(), Refusal> {
        let old = self.at(path)?.clone();
        self.put(path, &old, new, kind)?;
        self.oblige(why, Discharge::ByRule);
        Ok(())
    }

    /// Replaces a subtree after asking the checker whether every dependence stays ordered.
    pub fn replace_checked(&mut self, path: &[usize], new: Stmt, kind: &str) -> Result<(), Refusal> {
        let old = self.at(path)?.clone();
        self.check_order(path, &old, &new)?;
        self.put(path, &old, new, kind)
    }

    /// Asks the checker whether `new` in the place of `old` keeps every dependence; `path` leads to where
    /// both stand.
    pub fn check_order(&mut self, path: &[usize], old: &Stmt, new: &Stmt) -> Result<(), Refusal> {
        let new = simplify_stmt(new, &mut self.ranges(path));
        let env = Env::at(self.module, &self.func, path);
        let proof = order_preserved(&env, old, &new).map_err(|r| self.order_refusal(&r))?;
        for l in &proof.used_licence {
            if !self.evidence.reassociates.iter().any(|e| e == l.as_str()) {
                self.evidence.reassociates.push(l.to_string());
            }
            for r in reductions(old, l) {
                let types: Vec<_> = r.targets.iter().map(|t| t.elem.clone()).collect();
                for which in [Which::Associative, Which::Commutative] {
                    let law = laws::rely(
                        self.rule,
                        self.module,
                        &self.func,
                        &r.op,
                        &types,
                        which,
                        &Places::none(),
                    )?;
                    self.oblige(&law.what, law.by());
                }
            }
        }
        for f in proof.facts {
            if !self.evidence.facts.contains(&f) {
                self.evidence.facts.push(f);
            }
        }
        let pairs = proof.pairs;
        self.oblige(
            &format!("every dependence keeps its order ({pairs} pairs of statements)"),
            Discharge::ByDependence,
        );
        Ok(())
    }

    pub fn oblige(&mut self, what: &str, by: Discharge) {
        if !self.evidence.obligations.iter().any(|o| o.what == what && o.by == by) {
            self.evidence.obligations.push(lathe_strategy::Obligation { what: what.to_string(), by });
        }
    }

    /// Replaces two neighbours in a sequence by one statement, without touching the others.
    pub fn replace_pair(
        &mut self,
        up: &[usize],
        position: usize,
        new: Stmt,
        kind: &str,
    ) -> Result<(), Refusal> {
        let parent = self.at(up)?.clone();
        let all: Vec<&Stmt> = parent.children().collect();
        let (Some(a), Some(b)) = (all.get(position), all.get(position + 1)) else {
            return Err(self.refuse(codes::SHAPE, "the place is gone"));
        };
        let both = Stmt::of(StmtKind::Seq(vec![(*a).clone(), (*b).clone()]));
        self.check_order(up, &both, &new)?;
        self.keeps_arithmetic(up, &both, &new)?;
        let new = simplify_stmt(&new, &mut self.ranges(up));
        let path = |n: usize| crate::nest::child(up, n);
        let before = self.instances(&[(path(position), (*a).clone()), (path(position + 1), (*b).clone())]);
        let rest = all[..position].iter().copied().chain([&new]).chain(all[position + 2..].iter().copied());
        let rest: Vec<Stmt> = rest.cloned().collect();
        let (seq, at) = if rest.len() == 1 {
            (new.clone(), up.to_vec())
        } else {
            (parent.with_kind(StmtKind::Seq(rest)), path(position))
        };
        self.func.body = visit::replace_at(&self.func.body, up, seq)
            .ok_or_else(|| self.refuse(codes::SHAPE, "the place is gone"))?;
        let after = self.instances(&[(at, new)]);
        self.relate_all(&before, &after, kind);
        Ok(())
    }

    /// Refuses what computes indices that may not fit 64 bits.
    fn keeps_arithmetic(&self, path: &[usize], old: &Stmt, new: &Stmt) -> Result<(), Refusal> {
        let Some(found) = added_overflow(old, new, &self.ranges(path)) else { return Ok(()) };
        let mut env = Env::at(self.module, &self.func, path);
        let mut here = new;
        for n in &found.path {
            env.enter(here, *n);
            here = here.child(*n).unwrap_or(here);
        }
        let text = env.text(&found.operation);
        let d = Diagnostic::error(codes::OVERFLOW, format!("`{}`: `{text}` may leave 64 bits", self.rule));
        Err(d
            .at_places(old.places(), "computed for this")
            .help("take a smaller number, or state how large the inputs are with `assume(…)`")
            .into_refusal(self.rule))
    }

    fn put(&mut self, path: &[usize], old: &Stmt, new: Stmt, kind: &str) -> Result<(), Refusal> {
        self.keeps_arithmetic(path, old, &new)?;
        let new = simplify_stmt(&new, &mut self.ranges(path));
        let before = self.instances(&[(path.to_vec(), old.clone())]);
        self.func.body = visit::replace_at(&self.func.body, path, new.clone())
            .ok_or_else(|| self.refuse(codes::SHAPE, "the place is gone"))?;
        let after = self.instances(&[(path.to_vec(), new)]);
        self.relate_all(&before, &after, kind);
        Ok(())
    }

    fn relate_all(&mut self, before: &Instances, after: &Instances, kind: &str) {
        for (label, text) in &before.order {
            let (map, kind) = match after.by_label.get(label) {
                Some(now) => (format!("{{ {label}{text} -> {label}{now} }}"), kind),
                None => (format!("{{ {label}{text} }}"), "removed"),
            };
            self.relate(label, map, kind);
        }
        for (label, text) in &after.order {
            if !before.by_label.contains_key(label) {
                self.relate(label, format!("{{ {label}{text} }}"), "new");
            }
        }
    }

    /// The instance vector of the first statement of each label in some subtrees, as text.
    fn instances(&self, roots: &[(Path, Stmt)]) -> Instances {
        let mut out = Instances { order: Vec::new(), by_label: HashMap::new() };
        for (path, root) in roots {
            collect_instances(&mut Env::at(self.module, &self.func, path), root, &mut out);
        }
        out
    }

    fn relate(&mut self, label: &str, map: String, kind: &str) {
        let relation = Relation { label: label.to_string(), map, kind: kind.to_string() };
        if !self.evidence.relations.contains(&relation) {
            self.evidence.relations.push(relation);
        }
    }

    /// The message of a refusal about order, with the change that usually helps.
    pub fn order_refusal(&self, refusal: &OrderRefusal) -> Refusal {
        let mut d = refusal.to_diagnostic(codes::ORDER, self.rule);
        if d.help.is_none() {
            d.help = order_help(refusal, self.rule);
        }
        d.into_refusal(self.rule)
    }

    pub fn finish(self) -> Edit {
        Edit { func: self.func, evidence: self.evidence }
    }
}

/// The smallest change that is known to help.
fn order_help(refusal: &OrderRefusal, rule: &str) -> Option<String> {
    let v = match refusal {
        OrderRefusal::Violation(v) => v,
        OrderRefusal::Undecided(_) => {
            return Some("simplify the subscripts, or state what holds with `assume(…)`".to_string());
        }
    };
    let carried = v.carried_by.as_deref();
    let same_label = v.first.0 == v.second.0;
    Some(match (rule, carried) {
        ("parallel" | "vectorize", Some(l)) if same_label && v.concurrent => {
            let array = &v.buffer;
            let first = match rule {
                "parallel" if l.ends_with(".o") => format!("`privatize({array}, {l})`"),
                "parallel" => format!("`split({l}, 1024) ; privatize({array}, {l}.o)`"),
                _ if l.ends_with(".i") => format!("`factor({array}, {l})`"),
                _ => format!("`split({l}, 16) ; factor({array}, {l}.i)`"),
            };
            format!(
                "iterations of `{l}` depend on one another; a reduction can be split up by {first} first, a \
                 recurrence must stay serial, or be skewed so that another loop carries it"
            )
        }
        ("parallel" | "vectorize", _) => {
            let l = carried.unwrap_or("i");
            format!(
                "give every iteration its own elements: `privatize({}, {l})`, or `fission` the loop between `{}` \
                 and `{}`",
                v.buffer, v.first.0, v.second.0
            )
        }
        ("tile" | "reorder", Some(l)) => {
            // The loop as it was called before this step split it.
            let l = if rule == "tile" { l.strip_suffix(".i").unwrap_or(l) } else { l };
            format!(
                "skew the other loop by `{l}` first, for example `remap({l}: {l}, x: x + {l})` for a loop `x`"
            )
        }
        ("fuse", _) => format!(
            "`{}` must stay behind `{}`: delay its loop with `shift` and fuse then, or leave the loops apart",
            v.second.0, v.first.0
        ),
        ("fission", Some(l)) => format!("keep both statements in one loop `{l}`"),
        _ => return None,
    })
}

struct Instances {
    order: Vec<(String, String)>,
    by_label: HashMap<String, String>,
}

/// Goes down with the surroundings in hand, so that deep trees cost no more per statement than flat ones.
fn collect_instances<'a>(env: &mut Env<'a>, s: &'a Stmt, out: &mut Instances) {
    if let Some(label) = s.label()
        && !out.by_label.contains_key(label.as_str())
    {
        let parts: Vec<String> = s.instance().iter().map(|e| env.text(e)).collect();
        let text = format!("[{}]", parts.join(", "));
        out.by_label.insert(label.to_string(), text.clone());
        out.order.push((label.to_string(), text));
    }
    let outside = env.items.len();
    for (position, child) in s.children().enumerate() {
        if s.as_seq().is_none() {
            env.items.truncate(outside);
            env.enter(s, position);
        }
        collect_instances(env, child, out);
        env.pass(child);
    }
    env.items.truncate(outside);
}

/// The reductions of a label, one of each operator.
fn reductions<'a>(s: &'a Stmt, label: &Label) -> Vec<&'a Reduce> {
    let mut out: Vec<&Reduce> = Vec::new();
    let mut left = vec![s];
    while let Some(s) = left.pop() {
        if let Some(r) = s.as_reduce()
            && r.label == *label
            && out.iter().all(|o| o.op != r.op)
        {
            out.push(r);
        }
        left.extend(s.children());
    }
    out
}
