//! Functions that steps changed, with the steps.

use super::setting::Setting;
use crate::applied::{Form, Version};
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Function, Stmt};
use lathe_strategy::Evidence;
use lathe_target::Machine;
use lathe_transform::{Arg, Args, Cursor};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// What a function is expected to take.
pub(super) type Cost<'a> = &'a (dyn Fn(&Function) -> f64 + Sync);

/// What functions are expected to take for some sizes. The model is asked about each once: what is left as it is, and what two ways
/// lead to, is compared again and again.
pub(super) struct Costs<'a> {
    sizes: &'a BTreeMap<String, i64>,
    machine: &'a Machine,
    known: Mutex<HashMap<u64, Vec<(Function, f64)>>>,
}

impl<'a> Costs<'a> {
    pub fn new(sizes: &'a BTreeMap<String, i64>, machine: &'a Machine) -> Costs<'a> {
        Costs { sizes, machine, known: Mutex::default() }
    }

    pub fn of(&self, func: &Function) -> f64 {
        let hash = lathe_ir::structural_hash(func);
        let all = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all().get(&hash).and_then(|k| k.iter().find(|k| k.0 == *func)).map(|k| k.1);
        known.unwrap_or_else(|| {
            let cycles = lathe_model::estimate(func, self.sizes, self.machine).cycles();
            all().entry(hash).or_default().push((func.clone(), cycles));
            cycles
        })
    }
}

/// A function that steps changed.
#[derive(Clone)]
pub(super) struct Made {
    pub func: Function,
    /// The steps, each with its text and the function before it.
    pub steps: Vec<(String, Evidence, Function)>,
}

impl Made {
    pub fn of(func: &Function) -> Made {
        Made { func: func.clone(), steps: Vec::new() }
    }

    /// One more step on a nest.
    pub fn then(&self, set: &Setting, path: &Path, rule: &str, args: &Args) -> Result<Made, Diagnostic> {
        self.with(set, path, rule, args, &format!(" @ stmt({})", label(&self.func.body, path)))
    }

    /// The same for positional arguments and the `name` of what is made, if the step gives one; `None` if it is refused.
    pub fn naming(
        &self,
        set: &Setting,
        path: &Path,
        rule: &str,
        args: Vec<Arg>,
        name: Option<&String>,
    ) -> Option<Made> {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        name.into_iter().for_each(|n| all.push(Some("name"), Arg::Path(n.clone())));
        self.then(set, path, rule, &all).ok()
    }

    /// One more step on the whole function.
    pub fn everywhere(&self, set: &Setting, rule: &str, args: &Args) -> Result<Made, Diagnostic> {
        self.with(set, &Path::new(), rule, args, "")
    }

    fn with(
        &self,
        set: &Setting,
        path: &Path,
        rule: &str,
        args: &Args,
        place: &str,
    ) -> Result<Made, Diagnostic> {
        let cursor = Cursor { focus: path.clone(), ..Cursor::new(set.module, &self.func) };
        let edit = lathe_transform::apply(&cursor, rule, args).map_err(|r| *r.diagnostic)?;
        let text = format!("{rule}({}){place}", args.texts().join(", "));
        let mut out = self.clone();
        out.steps.push((text, edit.evidence, std::mem::replace(&mut out.func, edit.func)));
        Ok(out)
    }

    /// These steps, and then those that were made of what they made.
    pub fn followed_by(mut self, next: Made) -> Made {
        self.steps.extend(next.steps);
        Made { func: next.func, ..self }
    }

    /// The same steps in a version that begins with them.
    pub fn before(self, mut v: Version) -> Version {
        let (texts, steps, forms) = self.parts();
        v.taken.strategy = joined(texts.into_iter().chain([v.taken.strategy]));
        v.steps.splice(0..0, steps);
        v.forms.splice(0..0, forms);
        v
    }

    /// The same steps in a version that ends with them.
    pub fn after(self, mut v: Version) -> Version {
        let func = self.func.clone();
        let (texts, steps, forms) = self.parts();
        v.taken.strategy = joined([v.taken.strategy].into_iter().chain(texts));
        v.steps.extend(steps);
        v.forms.extend(forms);
        Version { func, ..v }
    }

    fn parts(self) -> (Vec<String>, Vec<Evidence>, Vec<Form>) {
        let mut out = (Vec::new(), Vec::new(), Vec::new());
        for (text, evidence, before) in self.steps {
            out.0.push(text);
            out.1.push(evidence);
            out.2.push(Form::Tree(before));
        }
        out
    }
}

fn joined(steps: impl Iterator<Item = String>) -> String {
    steps.filter(|s| !s.is_empty()).collect::<Vec<_>>().join(" ; ")
}

/// The first label in a nest.
pub(super) fn label(body: &Stmt, path: &Path) -> String {
    let mut out = None;
    if let Some(s) = visit::at(body, path) {
        visit::walk(s, &mut |s, _| {
            out = out.take().or_else(|| s.label().map(ToString::to_string));
            out.is_none()
        });
    }
    out.unwrap_or_default()
}
