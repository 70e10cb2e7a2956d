//! Derivatives that the user gives: `derivative f = g`. The rule `g` has the parameters of `vjp(f)` or of `jvp(f)`, by
//! name. A derivative by fewer inputs, or of fewer outputs, calls it with cotangents (or tangents) that are zero, and
//! leaves out the rest of what it computes.

use crate::arrays::{allocated, copy_array, zero_array};
use crate::codes::{self, refuse};
use crate::expr::zero;
use crate::{Derivative, Mode, Request, chosen, is_differentiable, shadow_name};
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::Arg;
use lathe_ir::visit::substitute;
use lathe_ir::{
    BufId, Buffer, Expr, Function, Layout, Mode as ParamMode, Module, Param, ParamKind, Space, Stmt,
    StmtKind, VarId, View, build,
};
use lathe_poly::Linear;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The rule for a derivative of a function, if the module has one.
pub fn rule_of<'m>(module: &'m Module, func: &Function, mode: Mode) -> Option<&'m Function> {
    let rules = module.derivatives.get(&func.name)?.iter().filter_map(|n| module.functions.get(n));
    rules.into_iter().find(|g| fits(func, g).is_ok_and(|m| m == mode))
}

/// Which derivative of a function a rule computes.
///
/// # Errors
/// `E1307` where its parameters are those of neither, with what is different; `E1303` where there is nothing to
/// differentiate.
pub fn fits(func: &Function, rule: &Function) -> Result<Mode, Diagnostic> {
    let has = |mode: Mode| {
        let shadows = func.params.iter().map(|p| shadow_name(func, p.name(), mode));
        shadows.into_iter().any(|n| rule.params.iter().any(|p| **p.name() == *n))
    };
    let mode = if has(Mode::Forward) { Mode::Forward } else { Mode::Reverse };
    let whole = Request::new(mode, &*rule.name);
    let expected = Shape::of(func, &whole)?;
    let wanted = expected.params(func.clone()).0;
    let no = |text: String| {
        let names = wanted.iter().map(|p| format!("{} {}", p.mode.name(), p.name()));
        let derivative = if mode == Mode::Forward { "jvp" } else { "vjp" };
        let all = names.collect::<Vec<_>>().join(", ");
        Err(refuse(codes::RULE, text, &Places::none())
            .help(format!("{derivative}({}) has: {all}", func.name)))
    };
    let sizes = solved(&wanted, rule);
    for p in &wanted {
        let Some(own) = rule.params.iter().find(|o| o.name() == p.name()) else {
            return no(format!("`{}` has no parameter `{}`", rule.name, p.name()));
        };
        let same = match (&p.kind, &own.kind) {
            (ParamKind::Scalar(a), ParamKind::Scalar(b)) => a.ty == b.ty,
            (ParamKind::Array(a), ParamKind::Array(b)) => {
                let extent = |e: &Expr| Linear::of(&substitute(e, &sizes));
                a.elem == b.elem
                    && a.extents.len() == b.extents.len()
                    && a.extents.iter().zip(&b.extents).all(|(x, y)| Linear::of(x) == extent(y))
            }
            (ParamKind::Scalar(_), ParamKind::Array(_)) | (ParamKind::Array(_), ParamKind::Scalar(_)) => {
                false
            }
        };
        if !same || own.mode != p.mode || own.alias.is_some() {
            return no(format!("`{}` of `{}` has another type or direction", p.name(), rule.name));
        }
    }
    if let Some(p) = rule.params.iter().find(|o| wanted.iter().all(|p| p.name() != o.name())) {
        return no(format!("`{}` of `{}` is no parameter of the derivative", p.name(), rule.name));
    }
    Ok(mode)
}

/// What the sizes of a rule are, over those of the function that it is the derivative of.
pub fn sizes_of(func: &Function, rule: &Function) -> HashMap<VarId, Expr> {
    let mode = fits(func, rule).unwrap_or(Mode::Reverse);
    let shape = Shape::of(func, &Request::new(mode, &*rule.name));
    shape.map(|s| solved(&s.params(func.clone()).0, rule)).unwrap_or_default()
}

/// A size is the extent that it stands for alone.
fn solved(wanted: &[Param], rule: &Function) -> HashMap<VarId, Expr> {
    let mut out = HashMap::new();
    for own in &rule.params {
        let theirs = wanted.iter().find(|p| p.name() == own.name()).and_then(|p| p.array());
        let (Some(own), Some(theirs)) = (own.array(), theirs) else { continue };
        for (size, extent) in own.extents.iter().zip(&theirs.extents) {
            size.as_var().map(|v| out.entry(v).or_insert_with(|| extent.clone()));
        }
    }
    out
}

/// The derivative that a rule gives.
pub fn applied(
    module: &Module,
    func: &Function,
    rule: &Function,
    request: &Request,
) -> Result<Derivative, Diagnostic> {
    let shape = Shape::of(func, request)?;
    let whole = Shape::of(func, &Request { wrt: Vec::new(), of: Vec::new(), ..request.clone() })?;
    let (params, mut out) = shape.params(func.clone());
    let (mut locals, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let mut given: BTreeMap<String, Arg> = BTreeMap::new();
    let view = |b: BufId| Arg::View(View::Buffer(b));
    for p in params.iter().chain(&func.params) {
        let arg = match &p.kind {
            ParamKind::Array(b) => view(b.id),
            ParamKind::Scalar(b) => Arg::Value(build::var(b)),
        };
        given.entry(p.name().to_string()).or_insert(arg);
    }
    for wanted in &whole.shadows {
        let mine = shape.shadows.iter().find(|s| s.name == wanted.name);
        let (starts, comes_back) = mine.map_or((false, false), |s| (s.starts, s.comes_back));
        let param = params.iter().find(|p| **p.name() == *wanted.name);
        if (starts, comes_back) == (wanted.starts, wanted.comes_back) {
            continue;
        }
        let ParamKind::Array(like) = &wanted.kind else {
            // A tangent of a number that is not asked for.
            let value = Arg::Value(zero(&wanted.ty()));
            given.insert(wanted.name.clone(), value);
            continue;
        };
        let own = param.and_then(|p| p.array()).filter(|_| comes_back).cloned();
        let to = own.unwrap_or_else(|| {
            let name = format!("{}.rule", wanted.name).into();
            let local = Arc::new(Buffer { id: out.fresh_buf(), name, ..(**like).clone() });
            locals.push(local.clone());
            local
        });
        match param.and_then(|p| p.array()).filter(|_| starts) {
            Some(from) if from.id != to.id => before.push(copy_array(from, &to, &mut out)),
            Some(_) => {}
            None if wanted.starts => before.push(zero_array(&to, &mut out)),
            None => {}
        }
        given.insert(wanted.name.clone(), view(to.id));
    }
    let args = |f: &Function| -> Vec<Arg> {
        f.params.iter().filter_map(|p| given.get(&**p.name()).cloned()).collect()
    };
    let call = |f: &Function| Stmt::of(StmtKind::Call { function: f.name.clone(), args: args(f) });
    if request.mode == Mode::Reverse && request.value {
        after.push(call(func));
    }
    let body = Stmt::seq(before.into_iter().chain([call(rule)]).chain(after));
    out.body = allocated(locals, body);
    out.params = params;
    out.name = request.name.as_str().into();
    let new = crate::tidy::Cotangents::since(out.next_id);
    let func = crate::tidy::tidied(inlined(module, out), new);
    Ok(Derivative {
        func,
        wrt: shape.wrt,
        of: shape.of,
        kept: Vec::new(),
        everything: None,
        rule: Some(rule.name.to_string()),
        also: Vec::new(),
    })
}

/// A derivative of a function, by everything, as its parameters alone.
///
/// # Errors
/// `E1303` where there is nothing to differentiate.
pub fn signature(func: &Function, mode: Mode, name: &str) -> Result<Function, Diagnostic> {
    let (params, all) = Shape::of(func, &Request::new(mode, name))?.params(func.clone());
    Ok(Function { name: name.into(), params, body: Stmt::empty(), summary: None, ..all })
}

/// The function with bodies in place of calls, but for those of recursive functions.
pub fn inlined(module: &Module, func: Function) -> Function {
    let mut calls = false;
    lathe_ir::visit::walk(&func.body, &mut |s, _| {
        calls |= matches!(s.kind(), StmtKind::Call { .. });
        !calls
    });
    if !calls {
        return func;
    }
    let recursive = crate::cycles::recursive(module);
    if recursive.is_empty() {
        return crate::lets::without_copies(&lathe_lower::calls::inline(module, &func));
    }
    let mut others = module.clone();
    recursive.iter().for_each(|n| drop(others.functions.remove(n)));
    // Those have numbers, too.
    let next_id = module.functions.values().map(|f| f.next_id).fold(func.next_id, u32::max);
    crate::lets::without_copies(&lathe_lower::calls::inline(&others, &Function { next_id, ..func }))
}

/// A tangent or cotangent among the parameters.
struct Shadow {
    name: String,
    kind: ParamKind,
    /// Whether it is given, and whether it is a result.
    starts: bool,
    comes_back: bool,
}

impl Shadow {
    fn ty(&self) -> lathe_ir::Type {
        match &self.kind {
            ParamKind::Array(b) => b.elem.clone(),
            ParamKind::Scalar(b) => b.ty.into(),
        }
    }
}

/// The parameters of a derivative.
struct Shape {
    wrt: Vec<String>,
    of: Vec<String>,
    with_value: bool,
    shadows: Vec<Shadow>,
}

impl Shape {
    fn of(func: &Function, request: &Request) -> Result<Shape, Diagnostic> {
        let wrt = chosen(func, &request.wrt, "input", |m| m != ParamMode::Out)?;
        let of = chosen(func, &request.of, "output", |m| m != ParamMode::In)?;
        let forward = request.mode == Mode::Forward;
        let shadows = func.params.iter().filter(|p| is_differentiable(p)).filter_map(|p| {
            let named = |all: &[String]| all.iter().any(|n| **n == **p.name());
            let by = p.mode != ParamMode::Out && named(&wrt);
            let asked = p.mode != ParamMode::In && named(&of);
            let (starts, comes_back) = if forward { (by, asked) } else { (asked, by) };
            let name = shadow_name(func, p.name(), request.mode);
            // The derivative by a number is a result.
            let kind = match &p.kind {
                ParamKind::Scalar(b) if !forward => {
                    let (elem, layout) = (b.ty.into(), Layout::row_major());
                    let (id, space, extents) = (BufId(0), Space::Host, Vec::new());
                    ParamKind::Array(Arc::new(Buffer {
                        id,
                        name: name.as_str().into(),
                        elem,
                        extents,
                        space,
                        layout,
                    }))
                }
                other => other.clone(),
            };
            (by || asked).then_some(Shadow { name, kind, starts, comes_back })
        });
        let shadows = shadows.collect();
        Ok(Shape { with_value: forward || request.value, shadows, wrt, of })
    }

    /// The parameters, those of the function among them; with the function whose numbers they have.
    fn params(&self, mut func: Function) -> (Vec<Param>, Function) {
        let (mut ins, mut outs, mut given, mut results) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for p in func.params.clone() {
            match p.mode {
                ParamMode::In => ins.push(p),
                ParamMode::InOut if self.with_value => ins.push(p),
                ParamMode::InOut => ins.push(Param { mode: ParamMode::In, ..p }),
                ParamMode::Out if self.with_value => outs.push(p),
                ParamMode::Out => {}
            }
        }
        for s in &self.shadows {
            let kind = match &s.kind {
                ParamKind::Array(b) => {
                    let name = s.name.as_str().into();
                    ParamKind::Array(Arc::new(Buffer { id: func.fresh_buf(), name, ..(**b).clone() }))
                }
                ParamKind::Scalar(b) => ParamKind::Scalar(func.fresh_var(&s.name, b.ty)),
            };
            let (mode, to) = match (s.starts, s.comes_back) {
                (true, true) => (ParamMode::InOut, &mut given),
                (true, false) => (ParamMode::In, &mut given),
                (false, _) => (ParamMode::Out, &mut results),
            };
            to.push(Param { kind, mode, alias: None });
        }
        (ins.into_iter().chain(given).chain(outs).chain(results).collect(), func)
    }
}
