//! Which parameters depend on each other: names are resolved, parameters sorted and grouped.

use super::constraint::Constraint;
use super::def::{SpaceDef, ValueRange};
use super::domain::unknown;
use crate::bind::Values;
use crate::codes;
use crate::eval::FUNCTIONS;
use crate::expr::{BinOp, Expr};
use lathe_diagnostics::Diagnostic;
use std::collections::{BTreeSet, HashMap};

/// A condition that must hold; a constraint that is a conjunction gives several.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    /// The parameter whose constraint it is part of.
    pub owner: usize,
    pub constraint: Constraint,
    /// The parameters that it mentions, ascending.
    pub scope: Vec<usize>,
    /// Whether it comes from the parameter's range.
    pub range: bool,
}

/// Parameters that depend on each other, directly or through others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Members {
    /// Sorted so that constraints mention earlier ones only; in declaration order as far as that allows.
    pub sorted: Vec<usize>,
    /// Positions in the list of conditions.
    pub conditions: Vec<usize>,
}

/// Conditions and groups of a space; the conditions that mention no parameter at all belong to no group.
pub(crate) struct Analysis {
    pub conditions: Vec<Condition>,
    pub groups: Vec<Members>,
}

/// Resolves names, splits constraints, and finds the groups, in the order of their first parameters.
pub(crate) fn analyse(def: &SpaceDef) -> Result<Analysis, Diagnostic> {
    let index = names(def)?;
    let mut conditions = Vec::new();
    // What each parameter mentions: as a whole, because that is what makes a group.
    let mut mentions: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); def.params.len()];
    for (owner, p) in def.params.iter().enumerate() {
        let mut parts: Vec<(Constraint, bool)> = range_conditions(def, owner, &index);
        if let Some(c) = &p.constraint {
            let mut all = Vec::new();
            split(c, &mut all);
            parts.extend(all.into_iter().map(|c| (c, false)));
        }
        for (constraint, range) in parts {
            let place = if range { "range" } else { "constraint" };
            let mut scope = BTreeSet::new();
            for n in free_names(&constraint, &p.name, &def.constants)
                .map_err(|f| unknown_function(&p.name, &f, place))?
            {
                match index.get(n.as_str()) {
                    Some(i) => {
                        scope.insert(*i);
                    }
                    None if def.constants.contains_key(&n) => {}
                    None => return Err(unknown(&p.name, &n, place)),
                }
            }
            mentions[owner].extend(scope.iter().copied());
            conditions.push(Condition { owner, constraint, scope: scope.into_iter().collect(), range });
        }
        mentions[owner].remove(&owner);
    }
    let sorted = sort(def, &mentions)?;
    let mut group_of: Vec<usize> = (0..def.params.len()).collect();
    for (p, names) in mentions.iter().enumerate() {
        for q in names {
            let (a, b) = (find(&mut group_of, p), find(&mut group_of, *q));
            group_of[a.max(b)] = a.min(b);
        }
    }
    let mut groups: Vec<Members> = Vec::new();
    let mut number: HashMap<usize, usize> = HashMap::new();
    for p in 0..def.params.len() {
        let root = find(&mut group_of, p);
        number.entry(root).or_insert_with(|| {
            groups.push(Members { sorted: Vec::new(), conditions: Vec::new() });
            groups.len() - 1
        });
    }
    for p in sorted {
        groups[number[&find(&mut group_of, p)]].sorted.push(p);
    }
    for (i, c) in conditions.iter().enumerate() {
        if let Some(p) = c.scope.first() {
            groups[number[&find(&mut group_of, *p)]].conditions.push(i);
        }
    }
    Ok(Analysis { conditions, groups })
}

fn find(parents: &mut [usize], mut i: usize) -> usize {
    while parents[i] != i {
        parents[i] = parents[parents[i]];
        i = parents[i];
    }
    i
}

/// Parameters by name.
fn names(def: &SpaceDef) -> Result<HashMap<&str, usize>, Diagnostic> {
    let mut index = HashMap::new();
    let error = |text: String| Diagnostic::error(codes::SPACE_NAME, text);
    for (i, p) in def.params.iter().enumerate() {
        if p.name.trim().is_empty() {
            return Err(error(format!("parameter {} has no name", i + 1)));
        }
        if index.insert(p.name.as_str(), i).is_some() {
            return Err(error(format!("two parameters are called `{}`", p.name)));
        }
        if def.constants.contains_key(&p.name) {
            return Err(error(format!("`{}` is both a parameter and a constant", p.name)));
        }
    }
    Ok(index)
}

/// Where the bounds of an interval mention parameters: what they demand of the value.
fn range_conditions(def: &SpaceDef, owner: usize, index: &HashMap<&str, usize>) -> Vec<(Constraint, bool)> {
    let p = &def.params[owner];
    let ValueRange::Interval { lo, hi, step, generator: None } = &p.values else { return Vec::new() };
    let depends = |e: &Expr| {
        let names = free_names(&Constraint::Expr(e.clone()), &p.name, &def.constants);
        names.is_ok_and(|names| names.iter().any(|n| index.contains_key(n.as_str())))
    };
    if !depends(lo) && !depends(hi) && !step.as_ref().is_some_and(depends) {
        return Vec::new();
    }
    let v = || Box::new(Expr::Name(p.name.clone()));
    let binary = |op, a: Box<Expr>, b: &Expr| Expr::Binary(op, a, Box::new(b.clone()));
    let mut all = vec![binary(BinOp::Ge, v(), lo), binary(BinOp::Le, v(), hi)];
    if let Some(step) = step {
        let away = binary(BinOp::Sub, v(), lo);
        all.push(Expr::Call("is_multiple".into(), vec![away, step.clone()]));
    }
    all.into_iter().map(|e| (Constraint::Expr(e), true)).collect()
}

/// The parts of a conjunction.
fn split(c: &Constraint, out: &mut Vec<Constraint>) {
    match c {
        Constraint::And(all) => all.iter().for_each(|c| split(c, out)),
        Constraint::Expr(Expr::Binary(BinOp::And, a, b)) => {
            split(&Constraint::Expr((**a).clone()), out);
            split(&Constraint::Expr((**b).clone()), out);
        }
        c => out.push(c.clone()),
    }
}

/// The names that a constraint mentions, constants included; facts like `vector(f32)` count as one name.
/// An unknown function is the error.
pub(crate) fn free_names(c: &Constraint, own: &str, constants: &Values) -> Result<BTreeSet<String>, String> {
    fn expr(e: &Expr, constants: &Values, out: &mut BTreeSet<String>) -> Result<(), String> {
        match e {
            Expr::Value(_) => {}
            Expr::Name(n) => {
                out.insert(n.clone());
            }
            Expr::Unary(_, a) => expr(a, constants, out)?,
            Expr::Binary(_, a, b) => {
                expr(a, constants, out)?;
                expr(b, constants, out)?;
            }
            Expr::Call(name, args) => {
                if FUNCTIONS.iter().any(|f| f.0 == name) {
                    for a in args {
                        expr(a, constants, out)?;
                    }
                } else if constants.contains_key(&e.to_string()) {
                    out.insert(e.to_string());
                } else {
                    return Err(name.clone());
                }
            }
        }
        Ok(())
    }
    let mut out = BTreeSet::new();
    match c {
        Constraint::Expr(e) => expr(e, constants, &mut out)?,
        Constraint::Alias(_, e) => {
            out.insert(own.to_string());
            expr(e, constants, &mut out)?;
        }
        Constraint::Closure { reads, .. } => out.extend(reads.iter().cloned()),
        Constraint::And(all) | Constraint::Or(all) => {
            for c in all {
                out.extend(free_names(c, own, constants)?);
            }
        }
    }
    Ok(out)
}

pub(crate) fn unknown_function(param: &str, function: &str, place: &str) -> Diagnostic {
    let known: Vec<&str> = FUNCTIONS.iter().map(|f| f.0).collect();
    let text = format!("unknown function `{function}` in the {place} of parameter `{param}`");
    Diagnostic::error(codes::SPACE_UNKNOWN, text).help(format!("functions: {}", known.join(", ")))
}

/// All parameters, each after those that it mentions; otherwise as declared.
fn sort(def: &SpaceDef, mentions: &[BTreeSet<usize>]) -> Result<Vec<usize>, Diagnostic> {
    let mut waits: Vec<usize> = mentions.iter().map(BTreeSet::len).collect();
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); mentions.len()];
    for (p, names) in mentions.iter().enumerate() {
        names.iter().for_each(|q| users[*q].push(p));
    }
    let mut ready: BTreeSet<usize> = (0..waits.len()).filter(|p| waits[*p] == 0).collect();
    let mut sorted = Vec::with_capacity(waits.len());
    while let Some(p) = ready.pop_first() {
        sorted.push(p);
        for u in &users[p] {
            waits[*u] -= 1;
            if waits[*u] == 0 {
                ready.insert(*u);
            }
        }
    }
    let Some(start) = waits.iter().position(|w| *w > 0) else { return Ok(sorted) };
    // Everything that still waits waits for something that waits: following that closes a circle.
    let mut circle = vec![start];
    loop {
        let last = circle[circle.len() - 1];
        let Some(next) = mentions[last].iter().copied().find(|q| waits[*q] > 0) else { return Ok(sorted) };
        if let Some(at) = circle.iter().position(|p| *p == next) {
            circle.drain(..at);
            break;
        }
        circle.push(next);
    }
    circle.push(circle[0]);
    let names: Vec<String> = circle.iter().map(|p| format!("`{}`", def.params[*p].name)).collect();
    let text =
        format!("the constraints of parameters refer to each other cyclically: {}", names.join(" needs "));
    Err(Diagnostic::error(codes::SPACE_CYCLE, text).help(
        "move the condition to one of the parameters: a condition constrains all parameters that it mentions",
    ))
}
