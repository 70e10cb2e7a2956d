//! What a function owes before any step: the accesses that only a check or the user's word keeps in bounds.
//! They stand in the evidence of the first step, so that an account of a strategy is complete.

use lathe_ir::stmt::Establishes;
use lathe_ir::visit;
use lathe_ir::{Function, Stmt, StmtKind};
use lathe_strategy::{Claim, Obligation};

/// One obligation per check and per trusted fact, in the order of the tree.
pub fn claims(func: &Function) -> Vec<Obligation> {
    let mut out: Vec<Obligation> = Vec::new();
    let mut add = |new: Obligation| {
        if !out.contains(&new) {
            out.push(new);
        }
    };
    let mut checked: Vec<Stmt> = Vec::new();
    visit::walk(&func.body, &mut |s, _| {
        if let StmtKind::Check { message, .. } = s.kind() {
            checked.push(s.clone());
            add(Obligation::guarded(match message.strip_suffix(" is outside of the array") {
                Some(access) => Claim::InBounds { access: access.to_string() },
                None => Claim::NoFailure { message: message.to_string() },
            }));
        }
        if let Some(Establishes::Assumed(_, provenance)) = s.establishes()
            && !checked.iter().any(|c| establishes(c, s))
        {
            add(Obligation::stated(Claim::Fact { text: provenance.to_string() }));
        }
        true
    });
    out
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
