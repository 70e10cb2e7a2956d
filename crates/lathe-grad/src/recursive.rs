//! Functions that call themselves, directly or through one another: the derivative of each is a function of its own,
//! that by all inputs of all outputs, which calls itself where the function does. Its parameters are known before its
//! statements are, so that it stands for the derivative of the calls, as a rule does, while these are made.
//!
//! Nothing is kept from one call for another: the derivative of a call begins with the arguments of the call and
//! computes again what it needs of it. In reverse mode, a recursion of depth d takes up to d times as long as the
//! function, one that halves its work at every level log d times.

use crate::codes::{self, refuse};
use crate::custom::{fits, rule_of, signature};
use crate::cycles::{among, calls};
use crate::{Request, parts};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::Arg;
use lathe_ir::text::print_function;
use lathe_ir::{Function, Module, Name, ParamKind, Stmt, StmtKind, View, build};
use std::collections::BTreeMap;

/// A module in which the recursive functions that a function reaches have rules.
pub struct Ruled {
    pub module: Module,
    /// The rules.
    made: Vec<Function>,
}

impl Ruled {
    /// The rules that a function calls and the module it was made in does not have.
    pub fn needed(&self, module: &Module, func: &Function) -> Vec<Function> {
        let reached = self.module.reached(func);
        let missing =
            |f: &&Function| reached.contains_key(&f.name) && !module.functions.contains_key(&f.name);
        self.made.iter().filter(missing).cloned().collect()
    }
}

/// Gives rules to the recursive functions that a function reaches and that have none in this mode. `None`: there are no
/// such functions.
///
/// # Errors
/// What one of their derivatives is refused for.
pub fn ruled(module: &Module, func: &Function, request: &Request) -> Result<Option<Ruled>, Diagnostic> {
    let open = without_rules(module, func, request);
    if open.is_empty() {
        return Ok(None);
    }
    if let Some(f) = open.iter().find(|f| f.params.iter().any(parts::is_struct)) {
        let text = format!("`{}` calls itself and has structs among its parameters", f.name);
        let help =
            "recursive functions are differentiated where their parameters are numbers and arrays of numbers";
        return Err(refuse(codes::UNSUPPORTED, text, &Places::none()).help(help));
    }
    // The module may have them, from another derivative, or other functions of these names.
    for suffix in std::iter::once(String::new()).chain((2..).map(|n| n.to_string())) {
        let name = |f: &Function| format!("{}.{}{suffix}", f.name, request.mode.derivative());
        let taken = open.iter().any(|f| module.functions.contains_key(name(f).as_str()));
        match with_names(module, &open, request, name) {
            Err(d) if !taken => return Err(d),
            Ok(all) if all.made.iter().all(|f| is_free(module, f)) => return Ok(Some(all)),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(None)
}

fn is_free(module: &Module, f: &Function) -> bool {
    module.functions.get(&f.name).is_none_or(|old| print_function(old) == print_function(f))
}

/// Recursive functions that are differentiated as what they are: those that can be, and that are not reached through
/// one with a rule alone.
fn without_rules(module: &Module, func: &Function, request: &Request) -> Vec<Function> {
    let own = |f: &Function| rule_of(module, f, request.mode).is_none();
    if calls(func).is_empty() || !own(func) {
        return Vec::new();
    }
    let mut reached: BTreeMap<Name, Function> = BTreeMap::new();
    let mut todo: Vec<Name> = calls(func).into_iter().collect();
    while let Some(name) = todo.pop() {
        let Some(f) = module.functions.get(&name).filter(|f| f.result.is_none() && own(f)) else { continue };
        if reached.insert(name, f.clone()).is_none() {
            todo.extend(calls(f));
        }
    }
    let recursive = among(&reached);
    let has_derivative = |f: &Function| signature(f, request.mode, "").is_ok();
    reached.into_values().filter(|f| recursive.contains(&f.name) && has_derivative(f)).collect()
}

fn with_names(
    module: &Module,
    open: &[Function],
    request: &Request,
    name: impl Fn(&Function) -> String,
) -> Result<Ruled, Diagnostic> {
    let mut module = module.clone();
    for f in open {
        let stub = signature(f, request.mode, &name(f))?;
        // It calls itself, as what takes its place does, so that it is nowhere written out.
        let args = stub.params.iter().map(|p| match &p.kind {
            ParamKind::Array(b) => Arg::View(View::Buffer(b.id)),
            ParamKind::Scalar(b) => Arg::Value(build::var(b)),
        });
        let body = Stmt::of(StmtKind::Call { function: stub.name.clone(), args: args.collect() });
        // The rules before it, if any, are of the other mode.
        module.derivatives.entry(f.name.clone()).or_default().push(stub.name.clone());
        module.functions.insert(stub.name.clone(), Function { body, ..stub });
    }
    let mut made = Vec::new();
    for f in open {
        let ask = Request { allow_steps: request.allow_steps, ..Request::new(request.mode, name(f)) };
        let d = crate::from_body(&module, f, &ask)?;
        fits(f, &d.func)?;
        let stub = module.functions.get(&d.func.name).map(|s| s.params.clone()).unwrap_or_default();
        let own = |n: &Name| d.func.params.iter().find(|p| p.name() == n).cloned();
        // Calls pass arguments in the order of the stub.
        let params = stub.iter().filter_map(|p| own(p.name())).collect();
        made.push(Function { params, ..d.func });
    }
    for f in &made {
        module.functions.insert(f.name.clone(), f.clone());
    }
    Ok(Ruled { module, made })
}
