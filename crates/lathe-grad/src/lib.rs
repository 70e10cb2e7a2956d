//! Derivatives: from a function of the tree to another one, which is checked, scheduled and run like any other, and
//! can be differentiated again.
//!
//! * **Forward mode** ([`Mode::Forward`]): `f(A, …) -> (C, …)` becomes `f(A, …, A_dot, …) -> (C, …, C_dot, …)`: the
//!   derivative of the outputs along a direction of the inputs.
//! * **Reverse mode** ([`Mode::Reverse`]): `f(A, …) -> (C, …)` becomes `f(A, …, C_bar, …) -> (A_bar, …)`: the
//!   derivative of `Σ C_bar · C` by every element of the inputs.
//!
//! Statements in index notation stay in index notation. The way, file by file: `serial`, `raise`, `sink` and `lets` bring a function into
//! the form that all else works on; `activity` says what is differentiated; `node` is that form as a tree with scopes
//! and numbered places; `expr` differentiates expressions; `forward` and `reverse` differentiate statements;
//! `tidy` removes what both sweeps together compute twice; `account` says what a derivative does.
//!
//! One rule for points without a derivative: where several operands of `min`, `max`, `argmin`, … are equal, the first
//! one is what was chosen; a condition chooses a branch, and the derivative is that of the branch; what
//! [`lathe_ir::math::derivative`] says of a math function holds at its kinks, too. A NaN is chosen as the primal
//! chooses it.

mod account;
pub mod activity;
mod arrays;
mod bytes;
mod calls;
mod checkpoint;
pub mod codes;
pub mod custom;
mod cycles;
mod directions;
mod divided;
pub mod expr;
mod filled;
mod forward;
mod lets;
mod node;
pub mod parallel;
mod parts;
mod planes;
mod prepare;
mod raise;
mod recursive;
mod reverse;
mod serial;
mod sink;
mod sparsity;
mod tidy;
mod widen;

pub use account::Accumulation;
pub use activity::Activity;
pub use codes::CODES;
pub use widen::{wide, widened};

use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::{Function, Mode as ParamMode, Module, Param, ParamKind, Type, VarId};
use std::collections::{BTreeMap, HashMap};

/// Which products are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Tangents: Jacobian times vector.
    Forward,
    /// Cotangents: transposed Jacobian times vector.
    Reverse,
}

impl Mode {
    /// What files call the derivative.
    fn derivative(self) -> &'static str {
        match self {
            Mode::Forward => "jvp",
            Mode::Reverse => "vjp",
        }
    }
}

/// What to differentiate by what.
#[derive(Clone, Debug)]
pub struct Request {
    pub mode: Mode,
    /// The name of the derived function.
    pub name: String,
    /// Inputs (`in` and `inout` parameters); empty: all of float type.
    pub wrt: Vec<String>,
    /// Outputs (`out` and `inout` parameters); empty: all of float type.
    pub of: Vec<String>,
    /// Reverse mode: the outputs of the function are outputs of the derived one, too.
    pub value: bool,
    /// `floor`, `round` and conversions to integers count as locally constant, instead of being refused.
    pub allow_steps: bool,
    /// Reverse mode: how many states of an outermost loop that carries arrays from one iteration to the next are kept at
    /// once, instead of values of every iteration; iterations between them run again (binomial checkpointing).
    pub checkpoints: Option<std::num::NonZeroU16>,
    /// Vector mode: tangents and cotangents have one dimension more, the last one, of an extent with this name: so many
    /// products at once.
    pub directions: Option<String>,
    /// Sizes and integers that are known, by name: they decide which of several values takes the fewest bytes to keep.
    /// Without them, only what is less for all sizes is.
    pub sizes: BTreeMap<String, i64>,
    /// Loops that are equivalent to index notation are brought into it first, so that their adjoints are in it, too.
    pub raise: bool,
    /// Reverse mode: redundant and dead computations of the two sweeps are removed.
    pub tidy: bool,
}

impl Request {
    /// Everything by everything.
    pub fn new(mode: Mode, name: impl Into<String>) -> Request {
        Request {
            mode,
            name: name.into(),
            wrt: Vec::new(),
            of: Vec::new(),
            value: mode == Mode::Forward,
            allow_steps: false,
            checkpoints: None,
            directions: None,
            sizes: BTreeMap::new(),
            raise: true,
            tidy: true,
        }
    }

    /// The known sizes and integers of a function.
    fn sizes_of(&self, func: &Function) -> HashMap<VarId, i64> {
        let scalars = func.params.iter().filter_map(|p| match &p.kind {
            ParamKind::Scalar(b) => Some(b),
            ParamKind::Array(_) => None,
        });
        let all = func.sizes.iter().chain(scalars);
        all.filter_map(|b| Some((b.id, *self.sizes.get(&*b.name)?))).collect()
    }
}

/// A local array that keeps values of the forward sweep for the reverse one.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The array that the values are of.
    pub of: String,
    /// The statement that reads them.
    pub label: String,
    /// Extents over the sizes; empty for one value. Of a counted tape, only the count.
    pub extents: Vec<lathe_ir::Expr>,
    pub elem: Type,
}

/// A derived function, and what it was made of.
#[derive(Clone, Debug)]
pub struct Derivative {
    pub func: Function,
    pub wrt: Vec<String>,
    pub of: Vec<String>,
    /// What is stored between the sweeps, in the outermost scope, and within an iteration of a checkpointed loop; what is kept
    /// within an iteration of another one is not listed.
    pub kept: Vec<Kept>,
    /// What would be stored if every value that the reverse sweep needs and that is gone by then were, for each place
    /// that reads it: what `kept` is compared with. `None` where the number of values is not known, or was not asked.
    pub everything: Option<Vec<Kept>>,
    /// The function that the user gives for it.
    pub rule: Option<String>,
    /// Functions that `func` calls and that are new: the derivatives of recursive functions.
    pub also: Vec<Function>,
}

impl Derivative {
    /// The module with what the derivative calls.
    pub fn within(&self, module: &Module) -> Module {
        let mut out = module.clone();
        out.functions.extend(self.also.iter().map(|f| (f.name.clone(), f.clone())));
        out
    }
}

/// Differentiates a function.
///
/// # Errors
/// `E1301` where a value depends on an input through a step, with the path from input to output; `E1302` for what is
/// not differentiated; `E1303` for names that do not fit; `E1304` for values to keep whose number is not known;
/// `E1305` for a derivative that is too large; `E1306` where checkpoints are asked for and no loop carries anything.
pub fn differentiate(module: &Module, func: &Function, request: &Request) -> Result<Derivative, Diagnostic> {
    let d = match recursive::ruled(module, func, request) {
        Ok(None) => in_one_direction(module, func, request)?,
        Ok(Some(ruled)) => {
            let d = in_one_direction(&ruled.module, func, request)?;
            let rule = d.rule.filter(|g| module.functions.contains_key(g.as_str()));
            Derivative { also: ruled.needed(module, &d.func), rule, ..d }
        }
        // What does not depend on inputs needs no derivative.
        Err(why) => in_one_direction(module, func, request).map_err(|_| why)?,
    };
    let Some(size) = &request.directions else { return Ok(d) };
    let shadows = d.wrt.iter().chain(&d.of).map(|n| shadow_name(func, n, request.mode)).collect();
    Ok(Derivative { func: directions::along(&d.func, &shadows, size)?, ..d })
}

/// Which results depend on which inputs: the function `(A, …, A_dot, …) -> (C_dot, …)` whose tangents are truth values, the
/// same for all values of the floats among `A`. The pattern of the Jacobian, with a unit vector for each input.
///
/// # Errors
/// `E1308` where what depends on what is data, `E1302` for inputs and outputs that are structs, else as
/// [`differentiate`].
pub fn sparsity(module: &Module, func: &Function, request: &Request) -> Result<Derivative, Diagnostic> {
    let request = Request { mode: Mode::Forward, ..request.clone() };
    let wrt = chosen(func, &request.wrt, "input", |m| m != ParamMode::Out)?;
    let of = chosen(func, &request.of, "output", |m| m != ParamMode::In)?;
    // Of functions with derivatives of their own, the bodies say more.
    let module = Module { derivatives: BTreeMap::new(), ..module.clone() };
    let called = calls::opened(&module, &serial::serial(&module, func)?, request.mode)?;
    let made = |f: &Function| {
        let prepared = prepare::prepare(&module, f, &wrt, &of, &request)?;
        sparsity::dependences(prepared, &request, wrt.clone(), of.clone())
    };
    let d = if parts::has_wholes(&called) {
        let whole = |n: &String| func.params.iter().any(|p| **p.name() == **n && parts::is_struct(p));
        if let Some(n) = wrt.iter().chain(&of).find(|n| whole(n)) {
            let text = format!("`{n}` is not an array of numbers, whose derivatives would have a pattern");
            return Err(codes::refuse(codes::UNSUPPORTED, text, &Places::none()));
        }
        let split = parts::split(&module, &called)?;
        split.joined(func, &request, made(&split.func)?)?
    } else {
        made(&called)?
    };
    within_limits(&d.func)?;
    let Some(size) = &request.directions else { return Ok(d) };
    let shadows = wrt.iter().chain(&of).map(|n| shadow_name(func, n, request.mode)).collect();
    Ok(Derivative { func: directions::along(&d.func, &shadows, size)?, ..d })
}

fn in_one_direction(module: &Module, func: &Function, request: &Request) -> Result<Derivative, Diagnostic> {
    if let Some(rule) = custom::rule_of(module, func, request.mode) {
        return custom::applied(module, func, rule, request);
    }
    from_body(module, func, request)
}

/// The derivative of what the statements of a function compute, whatever the module says of it.
fn from_body(module: &Module, func: &Function, request: &Request) -> Result<Derivative, Diagnostic> {
    let wrt = chosen(func, &request.wrt, "input", |m| m != ParamMode::Out)?;
    let of = chosen(func, &request.of, "output", |m| m != ParamMode::In)?;
    let func = &serial::serial(module, func)?;
    let called = calls::opened(module, func, request.mode)?;
    if parts::has_wholes(&called) {
        let module = &divided::with_parts(module, &called);
        let split = parts::split(module, &called)?;
        let (wrt, of) = (split.names(&wrt), split.names(&of));
        let d = real(module, &split.func, request, wrt, of)?;
        let d = split.joined(func, request, d)?;
        within_limits(&d.func)?;
        return Ok(d);
    }
    real(module, func, request, wrt, of)
}

/// The derivative of a function without structs by these inputs, of these outputs.
fn real(
    module: &Module,
    func: &Function,
    request: &Request,
    wrt: Vec<String>,
    of: Vec<String>,
) -> Result<Derivative, Diagnostic> {
    let prepared = prepare::prepare(module, func, &wrt, &of, request)?;
    match request.mode {
        Mode::Forward => {
            let d = forward::tangents(prepared, request, wrt, of)?;
            let d = Derivative { func: custom::inlined(module, d.func), ..d };
            within_limits(&d.func)?;
            Ok(d)
        }
        Mode::Reverse => {
            let new = tidy::Cotangents::since(prepared.func.next_id);
            let d = reverse::cotangents(module, prepared, request, wrt, of)?;
            let d = Derivative { func: custom::inlined(module, d.func), ..d };
            within_limits(&d.func)?;
            let func = if request.tidy { tidy::tidied(d.func, new) } else { tidy::under_own_names(d.func) };
            Ok(Derivative { func, ..d })
        }
    }
}

/// Nodes of a derived function before it is tidied. The largest of any program that was written by somebody has a few
/// thousand.
const MAX_NODES: u64 = 50_000;

/// Derivatives of derivatives grow by a factor each time.
fn within_limits(func: &Function) -> Result<(), Diagnostic> {
    let nodes = func.body.nodes();
    if nodes <= MAX_NODES {
        return Ok(());
    }
    let text = format!("the derivative would have {nodes} operations, of at most {MAX_NODES}");
    let help = "differentiate less often, or by fewer inputs (`wrt`) and outputs (`of`)";
    Err(codes::refuse(codes::SIZE, text, &Places::none()).help(help))
}

/// What the tangent or cotangent of a parameter is called: `A_dot`, `A_bar`; `A_dot2`, … where the function, being a
/// derivative itself, has a parameter of that name.
pub fn shadow_name(func: &Function, name: &str, mode: Mode) -> String {
    let base = format!("{name}_{}", if mode == Mode::Forward { "dot" } else { "bar" });
    let taken = |n: &String| func.params.iter().any(|p| &**p.name() == n.as_str());
    let others = (2..).map(|n| format!("{base}{n}"));
    std::iter::once(base.clone()).chain(others).find(|n| !taken(n)).unwrap_or(base)
}

/// Whether a parameter holds numbers that have derivatives.
pub fn is_differentiable(p: &Param) -> bool {
    match &p.kind {
        ParamKind::Array(b) => parts::has_floats(&b.elem),
        ParamKind::Scalar(b) => b.ty.is_float(),
    }
}

/// The parameters that are asked for, or all that can be.
fn chosen(
    func: &Function,
    asked: &[String],
    what: &str,
    fits: impl Fn(ParamMode) -> bool,
) -> Result<Vec<String>, Diagnostic> {
    let can: Vec<String> = func
        .params
        .iter()
        .filter(|p| fits(p.mode) && is_differentiable(p))
        .map(|p| p.name().to_string())
        .collect();
    let help = if can.is_empty() {
        format!("it has no {what} of a float type")
    } else {
        format!("{what}s of float types: {}", can.join(", "))
    };
    let wrong = |text: String| Err(codes::refuse(codes::NAME, text, &Places::none()).help(help.clone()));
    if asked.is_empty() {
        return if can.is_empty() {
            wrong(format!("`{}` has nothing to differentiate", func.name))
        } else {
            Ok(can)
        };
    }
    for (n, name) in asked.iter().enumerate() {
        if !can.contains(name) {
            return wrong(format!("`{}` has no differentiable {what} `{name}`", func.name));
        }
        if asked[..n].contains(name) {
            return wrong(format!("the {what} `{name}` is named twice"));
        }
    }
    // In the order of the parameters, so that the derived signature depends on the set alone.
    Ok(can.into_iter().filter(|c| asked.contains(c)).collect())
}
