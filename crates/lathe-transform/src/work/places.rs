//! What a rule's arguments name, and refusals that show it.

use super::Work;
use crate::args::{Args, IntoRefusal, wrong};
use crate::codes;
use crate::convert::{arg_expr, to_index, variable_at};
use crate::names;
use crate::split::executor_word;
use lathe_diagnostics::{Code, Diagnostic, Places};
use lathe_ir::visit::Path;
use lathe_ir::{Executor, Expr, Loop, Stmt};
use lathe_strategy::Refusal;
use std::fmt::Display;

impl Work<'_> {
    /// The loops that the argument `loop` names, innermost first: replacing one keeps the paths of the others.
    pub fn loops(&self, args: &Args) -> Result<Vec<Path>, Refusal> {
        let name = args.path(self.rule, "loop", 0)?;
        let mut all = names::find_all_loops(&self.cursor, self.rule, &name)?;
        all.reverse();
        Ok(all)
    }

    /// A loop and its statement (for the places), copied out of the function.
    pub fn loop_at(&self, path: &[usize]) -> Result<(Loop, Stmt), Refusal> {
        let s = self.at(path)?.clone();
        match s.as_loop() {
            Some(l) => Ok((l.clone(), s.clone())),
            None => Err(self.refuse(codes::SHAPE, "the focus is no longer a loop")),
        }
    }

    /// A loop that one thread runs in order; others are refused.
    pub fn serial_loop(&self, path: &[usize]) -> Result<(Loop, Stmt), Refusal> {
        let (l, s) = self.loop_at(path)?;
        if l.exec == Executor::Serial {
            return Ok((l, s));
        }
        let (rule, name) = (self.rule, &l.binder.name);
        let help = format!("apply `{rule}` before the step that made it so, or `serial({name})` first");
        Err(self.refuse_loop(&s, format!("the loop `{name}` is {}", executor_word(&l.exec)), help))
    }

    /// The statements that the argument `label` names, in the order of the text, and the label.
    pub fn labelled(&self, args: &Args) -> Result<(String, Vec<(Path, Stmt)>), Refusal> {
        let label = args.path(self.rule, "label", 0)?;
        let found = names::find_some_label(&self.cursor, self.rule, &label)?;
        let found = found.into_iter().filter_map(|p| self.cursor.at(&p).cloned().map(|s| (p, s)));
        Ok((label, found.collect()))
    }

    /// An argument as an `index` expression of a place.
    pub fn index_argument(
        &self,
        args: &Args,
        name: &str,
        position: usize,
        path: &[usize],
    ) -> Result<Expr, Refusal> {
        let Some((value, span)) = args.get(name, position) else {
            return Err(self.refuse(codes::ARGUMENT, format!("`{}` needs `{name}`", self.rule)));
        };
        to_index(&arg_expr(value), &|n| variable_at(self.cursor.func, path, n))
            .map_err(|e| wrong(format!("`{}`: {e}", self.rule), span).into_refusal(self.rule))
    }

    /// A refusal that shows a place; `help` may be empty.
    pub fn refuse_at(
        &self,
        code: Code,
        text: impl Display,
        help: impl Into<String>,
        places: &Places,
    ) -> Refusal {
        self.refuse_marked(code, text, help, places, "here")
    }

    /// A refusal of the form of a loop.
    pub fn refuse_loop(&self, s: &Stmt, text: impl Display, help: impl Into<String>) -> Refusal {
        self.refuse_marked(codes::SHAPE, text, help, s.places(), "this loop")
    }

    fn refuse_marked(
        &self,
        code: Code,
        text: impl Display,
        help: impl Into<String>,
        places: &Places,
        mark: &str,
    ) -> Refusal {
        let d = Diagnostic::error(code, format!("`{}`: {text}", self.rule)).at_places(places, mark);
        let help = help.into();
        if help.is_empty() { d } else { d.help(help) }.into_refusal(self.rule)
    }
}
