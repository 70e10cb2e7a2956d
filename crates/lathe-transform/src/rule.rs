//! The interface of a rule: a cursor and arguments in, an edit with its evidence or a refusal out.

use crate::args::Args;
use lathe_ir::visit::Path;
use lathe_ir::{Function, Module, Stmt};
use lathe_strategy::{Evidence, Refusal, RuleSignature};

/// Where a rule is applied.
#[derive(Clone)]
pub struct Cursor<'a> {
    /// The module that the function belongs to: structs, combine operators, callees.
    pub module: &'a Module,
    pub func: &'a Function,
    /// The subtree that names are looked up in (`s @ stmt(C)`); empty: the whole body.
    pub focus: Path,
}

impl<'a> Cursor<'a> {
    /// A cursor on the whole body.
    pub fn new(module: &'a Module, func: &'a Function) -> Cursor<'a> {
        Cursor { module, func, focus: Path::new() }
    }

    /// The focused statement; the body when the focus does not exist.
    pub fn focused(&self) -> &'a Stmt {
        lathe_ir::visit::at(&self.func.body, &self.focus).unwrap_or(&self.func.body)
    }

    /// The statement at a path from the body.
    pub fn at(&self, path: &[usize]) -> Option<&'a Stmt> {
        lathe_ir::visit::at(&self.func.body, path)
    }
}

/// What a rule did: the whole function afterwards (sharing all that it did not touch), and why that is legal.
/// The rule fills in relations, obligations, buffers, facts and `reassociates`; [`crate::apply`] adds
/// the arguments, the path and the hashes.
#[derive(Clone, Debug)]
pub struct Edit {
    pub func: Function,
    pub evidence: Evidence,
}

/// A rule as data: one static per file, listed in [`crate::rules`].
pub struct Rule {
    pub signature: RuleSignature,
    pub apply: fn(&Cursor, &Args) -> Result<Edit, Refusal>,
}

impl Rule {
    pub fn name(&self) -> &'static str {
        self.signature.name
    }
}
