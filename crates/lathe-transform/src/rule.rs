//! The interface of a rule: work at a place and arguments in, edits through [`Work`] or a refusal out.

use crate::args::Args;
use crate::handle::{History, Made};
use crate::work::Work;
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
    /// What steps before made.
    pub history: History,
}

impl<'a> Cursor<'a> {
    /// A cursor on the whole body.
    pub fn new(module: &'a Module, func: &'a Function) -> Cursor<'a> {
        Cursor { module, func, focus: Path::new(), history: History::default() }
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

/// What [`crate::apply`] gives: the whole function afterwards (sharing all that was not touched), and why that is legal.
#[derive(Clone, Debug)]
pub struct Edit {
    pub func: Function,
    pub evidence: Evidence,
    /// Handles to what the step made, and to what loops became that are gone.
    pub made: Vec<Made>,
}

/// A rule as data: one static per file, listed in [`crate::rules`].
pub struct Rule {
    pub signature: RuleSignature,
    /// Edits through [`Work`], or refuses.
    pub apply: fn(&mut Work, &Args) -> Result<(), Refusal>,
}

impl Rule {
    pub fn name(&self) -> &'static str {
        self.signature.name
    }
}

/// Declares rules: the comment is the page in the reference (meaning, legality, an example), the line behind the name
/// says what arguments there are and in which order.
#[macro_export]
macro_rules! rule {
    ($($(#[doc = $line:literal])+ $vis:vis static $id:ident = $name:ident, version $version:literal,
        ($($formal:ident: $kind:ident $sort:ident),*), $apply:path, $summary:literal;)+) => {$(
        #[doc = $summary]
        $vis static $id: $crate::Rule = $crate::Rule {
            signature: $crate::RuleSignature {
                name: stringify!($name),
                version: $version,
                formals: &[$($crate::Formal::$kind(stringify!($formal), $crate::Sort::$sort)),*],
                summary: $summary,
                page: concat!($($line, "\n"),+),
            },
            apply: $apply,
        };
    )+};
}
