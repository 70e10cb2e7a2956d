//! What holds for globals, external functions, and declared effects.

use super::Verifier;
use super::item::misnamed;
use crate::buffer::Space;
use crate::codes;
use crate::expr::{Expr, ExprKind};
use crate::func::{Function, Mode, Param, ParamKind, Stage};
use crate::module::{External, Global, Init, Module};
use crate::stmt::Effects;
use crate::summaries::Summaries;
use crate::summary::{Base, Summary, TouchMode};
use crate::text::Scope;
use crate::types::Name;
use crate::visit::loads_of;
use lathe_diagnostics::Diagnostic;

pub(super) fn global(module: &Module, key: &Name, g: &Global) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    if *key != g.name {
        out.push(misnamed("global", key, &g.name));
    }
    let mut v = Verifier::new(module, Stage::Machine, None);
    v.place = format!("global `{}`", g.name);
    v.known_type(&g.elem);
    let why = match (g.elements().and_then(|n| n.checked_mul(g.elem.bytes().max(1))), &g.init) {
        (None, _) => Some("has more bytes than can be addressed".to_string()),
        (_, Init::Values(values)) if Some(values.len() as u64) != g.elements() => {
            Some(format!("has {} values for {} elements", values.len(), g.elements().unwrap_or(0)))
        }
        (_, Init::Values(values)) => values
            .iter()
            .find(|e| *e.ty() != g.elem || !is_constant(e))
            .map(|e| format!("has a value of type {} that is not a constant of type {}", e.ty(), g.elem)),
        (_, Init::Undefined) if g.space == Space::Constant => {
            Some("is constant, and has no value".to_string())
        }
        (_, Init::Undefined | Init::Zero) => None,
    };
    let local = matches!(g.space, Space::Register | Space::Stack | Space::Fragment | Space::Shared);
    let why = why
        .or_else(|| local.then(|| format!("persists across calls, and cannot live in {}", g.space.name())));
    if let Some(why) = why {
        v.wrong(codes::BAD_GLOBAL, [format!("the global `{}` {why}", g.name).into()]);
    }
    out.extend(v.finish(Scope::new));
    out
}

fn is_constant(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Bool(_) | ExprKind::Int(_) | ExprKind::Float(_) => true,
        ExprKind::Aggregate(parts) => parts.iter().all(is_constant),
        _ => false,
    }
}

pub(super) fn external(module: &Module, key: &Name, x: &External) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    if *key != x.name {
        out.push(misnamed("external function", key, &x.name));
    }
    if module.functions.contains_key(&x.name) {
        let text = format!("`{}` is both a function of the module and external", x.name);
        out.push(Diagnostic::error(codes::BAD_MODULE, text));
    }
    let mut v = Verifier::new(module, Stage::Machine, None);
    v.place = format!("external function `{}`", x.name);
    v.signature(&x.sizes, &x.params);
    v.summary(&x.summary, &x.params);
    if let Some(t) = &x.result {
        v.known_type(t);
        let pure = x.summary.effects.without(Effects::FAILS.and(Effects::DIVERGES)).is_none();
        if x.params.iter().any(|p| p.array().is_some()) || !x.summary.touches.is_empty() || !pure {
            let text = format!("`{}` has a result, and arrays or effects as well", x.name);
            v.wrong(codes::RESULT, [text.into()]);
        }
    }
    if let Some(name) = &x.meaning {
        v.meaning(x, name);
    }
    out.extend(v.finish(|| {
        let mut s = Scope::new();
        x.sizes.iter().for_each(|b| s.bind_var(b));
        for p in &x.params {
            match &p.kind {
                ParamKind::Array(b) => s.bind_buf(b.id, &b.name, &b.elem),
                ParamKind::Scalar(b) => s.bind_var(b),
            }
        }
        s
    }));
    out
}

/// Derivatives of what the module does not have, and by what it does not have.
pub(super) fn derivatives(module: &Module) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (of, rules) in &module.derivatives {
        let known = rules.iter().filter(|r| !module.functions.contains_key(*r)).map(|r| (r, "function"));
        let primal = Some((of, "function, and no external one,")).filter(|_| module.callee(of).is_none());
        for (name, what) in known.chain(primal) {
            let text = format!("the module has no {what} `{name}`");
            out.push(Diagnostic::error(codes::BAD_MODULE, text).note(format!("in the derivative of `{of}`")));
        }
    }
    out
}

/// Functions that do more than they declare.
pub(super) fn undeclared(module: &Module) -> Vec<Diagnostic> {
    let declares = module.functions.values().any(|f| f.summary.is_some());
    let meant = module.externals.values().any(|x| x.meaning.is_some());
    if !declares && !meant {
        return Vec::new();
    }
    let known = Summaries::of(module);
    let mut out = Vec::new();
    let mut compare = |name: &Name, declared: &Summary, by: &Function| {
        let done = known.inferred(&by.name);
        if let Some(more) = done.and_then(|s| declared.missing(s)) {
            let text = format!("`{name}` does not declare all of its effects: `{more}`");
            let d = Diagnostic::error(codes::UNDECLARED, text).note(format!("in function `{}`", by.name));
            out.push(d.help("list it in `effects (…)`, or omit the list to have it inferred"));
        }
    };
    for f in module.functions.values() {
        f.summary.iter().for_each(|s| compare(&f.name, s, f));
    }
    for x in module.externals.values() {
        if let Some(f) = x.meaning.as_ref().and_then(|m| module.functions.get(m)) {
            compare(&x.name, &x.summary.renamed((&x.sizes, &x.params), (&f.sizes, &f.params)), f);
        }
    }
    out
}

impl Verifier<'_> {
    /// Declared effects, after the parameters were bound.
    pub(super) fn summary(&mut self, s: &Summary, params: &[Param]) {
        for t in &s.touches {
            let rank = match &t.base {
                Base::Param(id) => {
                    let param = params.iter().find(|p| p.array().is_some_and(|b| b.id == *id));
                    if let (Some(p), TouchMode::Write | TouchMode::Reduce(_)) = (param, &t.mode)
                        && p.mode == Mode::In
                    {
                        let text = format!("`{}` is declared to be written, but it is `in`", p.name());
                        self.wrong(codes::BAD_EFFECT, [text.into()]);
                    }
                    param.and_then(Param::array).map(|b| b.extents.len())
                }
                Base::Global(name) => self.module.globals.get(name).map(|g| g.extents.len()),
                Base::Class(_) => Some(0),
            };
            let Some(rank) = rank else {
                let text = format!("`{t}` is neither an array parameter nor a global");
                self.wrong(codes::BAD_EFFECT, [text.into()]);
                continue;
            };
            let Some(region) = &t.region else { continue };
            if region.len() != rank {
                let text = format!("a region of {} dimensions in an array of {rank}", region.len());
                self.wrong(codes::BAD_EFFECT, [text.into()]);
            }
            for e in region.iter().flat_map(|(lo, hi)| [lo, hi]) {
                self.expr(e);
                self.index(e, codes::BAD_EFFECT, "a bound of a region");
                if !loads_of(e).is_empty() {
                    self.wrong(codes::BAD_EFFECT, ["the bound ".into(), e.into(), " reads memory".into()]);
                }
            }
        }
    }

    /// What an external function means is a function of the same signature.
    fn meaning(&mut self, x: &External, name: &Name) {
        let Some(f) = self.module.functions.get(name) else {
            let text = format!("`{}` means `{name}`, which the module does not have", x.name);
            return self.wrong(codes::UNKNOWN_FUNCTION, [text.into()]);
        };
        let same = |a: &Param, b: &Param| match (&a.kind, &b.kind) {
            (ParamKind::Scalar(a), ParamKind::Scalar(b)) => a.ty == b.ty,
            (ParamKind::Array(x), ParamKind::Array(y)) => {
                x.elem == y.elem && x.extents.len() == y.extents.len() && a.mode == b.mode
            }
            (ParamKind::Scalar(_), ParamKind::Array(_)) | (ParamKind::Array(_), ParamKind::Scalar(_)) => {
                false
            }
        };
        let fits = x.sizes.len() == f.sizes.len()
            && x.params.len() == f.params.len()
            && x.params.iter().zip(&f.params).all(|(a, b)| same(a, b))
            && x.result.as_ref() == f.result.as_ref().map(Expr::ty);
        if !fits {
            let text = format!("`{}` means `{name}`, which has other parameters or another result", x.name);
            self.wrong(codes::CALL_ARGUMENTS, [text.into()]);
        }
    }
}
