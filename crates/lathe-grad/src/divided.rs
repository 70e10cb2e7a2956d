//! Functions over parts for those with derivatives of their own: what the function with parts as parameters does is to put the
//! structs together, to call, and to take apart what it gets; and so do its derivatives, as derivatives by parts.

use crate::arrays::allocated;
use crate::calls::signature;
use crate::custom::fits;
use crate::parts::leaf::{Leaf, assembled, component, element, is_struct, leaves, named, over};
use crate::shadow_name;
use lathe_ir::stmt::Arg;
use lathe_ir::{
    BufId, Buffer, Function, Mode as ParamMode, Module, Name, Param, ParamKind, Space, Stmt, StmtKind, Type,
    View, build,
};
use std::sync::Arc;

/// What a parameter becomes: for every scalar of its type, a parameter of this name, or nothing.
type Split = Vec<(Leaf, Option<String>)>;

/// The module with a function over parts for each that a function calls and that has derivatives of its own.
pub fn with_parts(module: &Module, f: &Function) -> Module {
    let mut names: Vec<Name> = Vec::new();
    lathe_ir::visit::walk(&f.body, &mut |s, _| {
        if let StmtKind::Call { function, .. } = s.kind() {
            names.push(function.clone());
        }
        true
    });
    names.iter().fold(module.clone(), over_parts)
}

fn over_parts(mut module: Module, name: &Name) -> Module {
    let own = named(name);
    let known = signature(&module, name).filter(|f| f.params.iter().any(is_struct));
    let Some(of) = known.filter(|_| !module.functions.contains_key(&own)) else { return module };
    let rules: Vec<Function> = module
        .derivatives
        .get(name)
        .into_iter()
        .flatten()
        .filter_map(|g| module.functions.get(g).cloned())
        .collect();
    if rules.is_empty() {
        return module;
    }
    let every = |p: &Param, name: &str| -> Option<Split> {
        let elem = &p.array().filter(|_| is_struct(p))?.elem;
        Some(leaves(elem).into_iter().map(|l| (l.clone(), Some(l.of(name)))).collect())
    };
    let f = wrapped(&of, own.clone(), |p| every(p, p.name()));
    for (n, g) in rules.iter().enumerate() {
        let Ok(mode) = fits(&of, g) else { continue };
        let shadowed = |p: &Param| of.params.iter().find(|o| shadow_name(&of, o.name(), mode) == **p.name());
        let split = |p: &Param| match shadowed(p) {
            Some(o) => Some(
                every(p, o.name())?
                    .into_iter()
                    .map(|(l, part)| {
                        let part = part.filter(|_| l.ty.is_float()).map(|part| shadow_name(&f, &part, mode));
                        (l, part)
                    })
                    .collect(),
            ),
            None => every(p, p.name()),
        };
        let rule = wrapped(g, format!("{own}.rule{n}").as_str().into(), split);
        module.derivatives.entry(own.clone()).or_default().push(rule.name.clone());
        module.functions.insert(rule.name.clone(), rule);
    }
    module.functions.insert(own.clone(), f);
    module
}

/// A function that calls another one, with parts as parameters where `split` says so.
fn wrapped(of: &Function, name: Name, split: impl Fn(&Param) -> Option<Split>) -> Function {
    let ids = of.params.iter().map(|p| match &p.kind {
        ParamKind::Array(b) => b.id.0,
        ParamKind::Scalar(b) => b.id.0,
    });
    let next_id = ids.chain(of.sizes.iter().map(|b| b.id.0)).max().map_or(0, |n| n + 1);
    let mut out =
        Function { name, params: Vec::new(), next_id, summary: None, body: Stmt::empty(), ..of.clone() };
    let (mut locals, mut before, mut after, mut args) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for p in &of.params {
        let (Some(b), Some(parts)) = (p.array(), split(p)) else {
            args.push(match &p.kind {
                ParamKind::Array(b) => Arg::View(View::Buffer(b.id)),
                ParamKind::Scalar(b) => Arg::Value(build::var(b)),
            });
            out.params.push(p.clone());
            continue;
        };
        let space = if b.extents.is_empty() { Space::Register } else { Space::Host };
        let whole = Arc::new(Buffer { id: out.fresh_buf(), space, ..(**b).clone() });
        let halved: Vec<Option<Arc<Buffer>>> = parts
            .iter()
            .map(|(l, name)| {
                let name = name.as_deref()?.into();
                Some(Arc::new(Buffer {
                    id: BufId(out.fresh_buf().0),
                    name,
                    elem: l.ty.into(),
                    ..(**b).clone()
                }))
            })
            .collect();
        let params =
            halved.iter().flatten().map(|h| Param { kind: ParamKind::Array(h.clone()), ..p.clone() });
        out.params.extend(params);
        if p.mode != ParamMode::Out {
            before.push(over(&mut out, &b.name, &whole, |at| {
                let mut all = halved.iter().zip(&parts).map(|(h, (l, _))| match h {
                    Some(h) => build::load(element(h, at)),
                    None => lathe_transform::storage::zero(&Type::from(l.ty)),
                });
                let value = assembled(&whole.elem, &mut all);
                (element(&whole, at), value.unwrap_or_else(|| build::load(element(&whole, at))))
            }));
        }
        for (h, (l, _)) in halved.iter().zip(&parts).filter(|_| p.mode != ParamMode::In) {
            let Some(h) = h else { continue };
            after.push(over(&mut out, &h.name, &whole, |at| {
                (element(h, at), component(build::load(element(&whole, at)), &l.path))
            }));
        }
        args.push(Arg::View(View::Buffer(whole.id)));
        locals.push(whole);
    }
    let call = Stmt::of(StmtKind::Call { function: of.name.clone(), args });
    out.body = allocated(locals, Stmt::seq(before.into_iter().chain([call]).chain(after)));
    out
}
