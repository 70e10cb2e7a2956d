//! What a function owes before any step: the accesses that only a check or the user's word keeps in bounds.
//! They stand in the evidence of the first step, so that an account of a strategy is complete.

use crate::work::formula::formula;
use lathe_analysis::{Change, Env};
use lathe_ir::stmt::Establishes;
use lathe_ir::visit;
use lathe_ir::{Expr, Function, Module, Stmt, StmtKind};
use lathe_strategy::{Claim, Formula, Obligation};

/// One obligation per check and per trusted fact, in the order of the tree. What holds is the condition in the tree.
pub fn claims(module: &Module, func: &Function) -> Vec<Obligation> {
    let mut out: Vec<Obligation> = Vec::new();
    let mut add = |new: Obligation| {
        if !out.contains(&new) {
            out.push(new);
        }
    };
    let mut checked: Vec<Stmt> = Vec::new();
    visit::walk(&func.body, &mut |s, path| {
        let holds = |e: &Expr| formula(&Env::at(module, func, path), e);
        if let StmtKind::Check { cond, code, .. } = s.kind() {
            checked.push(s.clone());
            let holds = holds(cond);
            add(Obligation::guarded(match &**code {
                "bounds" => Claim::InBounds { holds },
                "assume" | "sizes" => Claim::Fact { holds },
                _ => Claim::NoFailure { holds },
            }));
        }
        if let Some(Establishes::Assumed(fact, _)) = s.establishes()
            && !checked.iter().any(|c| establishes(c, s))
        {
            add(Obligation::stated(Claim::Fact { holds: holds(fact) }));
        }
        true
    });
    out
}

/// Whether a function owes what a claim says: a check, or what is stated, has this very condition. None where the formula
/// does not say all of it, so that other conditions would have the same one.
pub(crate) fn stands(c: &Change, claim: &Claim) -> Option<Result<usize, String>> {
    if !claim.formulas().into_iter().all(Formula::is_whole) {
        return None;
    }
    let own = claims(c.module, c.before);
    let found = own.iter().filter(|o| o.claim == *claim).count();
    let missing = || "nothing in the tree checks or states it".to_string();
    Some(if found == 0 { Err(missing()) } else { Ok(found) })
}

/// The facts that the user stated, in the order of the tree: who says so, and whether code looks after it.
pub fn assumptions(func: &Function) -> Vec<(String, bool)> {
    let mut out = Vec::new();
    let mut checked: Vec<Stmt> = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        match s.establishes() {
            Some(Establishes::Checked(_)) => checked.push(s.clone()),
            Some(Establishes::Assumed(_, provenance)) => {
                out.push((provenance.to_string(), checked.iter().any(|c| establishes(c, s))));
            }
            None => {}
        }
        true
    });
    out
}

/// The same function with a check in the place of every trusted fact.
pub fn with_facts_checked(func: &Function) -> Function {
    let body = visit::map_stmts(&func.body, &mut |s| match s.establishes() {
        Some(Establishes::Assumed(fact, provenance)) => s.with_kind(StmtKind::Check {
            cond: fact.clone(),
            code: "assume".into(),
            message: format!("{provenance} does not hold").into(),
        }),
        Some(Establishes::Checked(_)) | None => s,
    });
    Function { body, ..func.clone() }
}

/// Whether a check looks after a fact: wherever it stands, its message says whose it is.
fn establishes(check: &Stmt, assume: &Stmt) -> bool {
    let StmtKind::Check { code, message, .. } = check.kind() else { return false };
    match assume.establishes() {
        Some(Establishes::Assumed(_, who)) => {
            &**code == "assume" && message.strip_suffix(" does not hold") == Some(who)
        }
        Some(Establishes::Checked(_)) | None => false,
    }
}
