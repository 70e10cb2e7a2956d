//! What holds for items: structs, operators, functions and their parameters.

use super::{Part, Role, Verifier};
use crate::buffer::{Buffer, Space};
use crate::codes;
use crate::expr::View;
use crate::func::{Function, Mode, Param, ParamKind, Stage};
use crate::ids::Binder;
use crate::layout::LayoutStep;
use crate::module::{CombineOp, Module};
use crate::text::Scope;
use crate::types::{Name, Scalar, Type};
use crate::visit::loads_of;
use lathe_diagnostics::{Diagnostic, Places};
use rustc_hash::FxHashSet;

pub(super) fn misnamed(kind: &str, key: &str, name: &str) -> Diagnostic {
    Diagnostic::error(
        codes::BAD_MODULE,
        format!("the {kind} `{name}` is stored in the module under the name `{key}`"),
    )
}

pub(super) fn structs(module: &Module) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    for (key, s) in &module.structs {
        if *key != s.name {
            out.push(misnamed("struct", key, &s.name));
        }
        let mut v = Verifier::new(module, Stage::Machine, None);
        v.place = format!("struct `{}`", s.name);
        s.fields.iter().for_each(|f| v.known_type(&f.1));
        out.extend(v.finish(Scope::new));
    }
    out
}

pub(super) fn op(module: &Module, key: &Name, op: &CombineOp) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    if *key != op.name {
        out.push(misnamed("operator", key, &op.name));
    }
    let mut v = Verifier::new(module, Stage::Machine, None);
    v.place = format!("op `{}`", op.name);
    v.known_type(&op.ty);
    let (a, b): (Name, Name) = ("a".into(), "b".into());
    if let Some(identity) = &op.identity {
        v.expr(identity);
        if *identity.ty() != op.ty {
            v.op_type(op, "identity", identity.ty());
        }
    }
    v.bind_buf(op.a, &a, 0, &op.ty, true);
    v.bind_buf(op.b, &b, 0, &op.ty, true);
    v.expr(&op.body);
    if *op.body.ty() != op.ty {
        v.op_type(op, "value", op.body.ty());
    }
    for l in op.identity.iter().flat_map(loads_of) {
        v.places = l.places.clone();
        v.wrong(codes::OP_TYPE, [format!("the identity of `{}` reads memory", op.name).into()]);
    }
    out.extend(v.finish(|| {
        let mut s = Scope::new();
        s.bind_buf(op.a, &a, &op.ty);
        s.bind_buf(op.b, &b, &op.ty);
        s
    }));
    out
}

impl Verifier<'_> {
    fn op_type(&mut self, op: &CombineOp, what: &str, is: &Type) {
        let text = format!("the {what} of the operator `{}` is of type {is}, not {}", op.name, op.ty);
        self.wrong(codes::OP_TYPE, [text.into()]);
    }

    /// Structs in a type are those of the module.
    pub(super) fn known_type(&mut self, t: &Type) {
        match t {
            Type::Scalar(_) | Type::Vector(..) => {}
            Type::Tuple(ts) => ts.iter().for_each(|t| self.known_type(t)),
            Type::Array(t, _) => self.known_type(t),
            // Every module has these, unless it declares a struct of that name.
            Type::Struct(s) if t.complex_part().is_some() && !self.module.structs.contains_key(&s.name) => {}
            Type::Struct(s) => {
                if self.module.structs.get(&s.name) != Some(s) {
                    let text = format!(
                        "the struct `{}` is not declared in the module, or is declared differently",
                        s.name
                    );
                    self.wrong(codes::BAD_MODULE, [text.into()]);
                }
            }
        }
    }

    pub(super) fn signature(&mut self, sizes: &[Binder], params: &[Param]) {
        for b in sizes {
            if b.ty != Scalar::Index {
                let text = format!("the size `{}` is of type {}, not index", b.name, b.ty);
                self.wrong(codes::SIZE_TYPE, [text.into()]);
            }
            self.bind_var(b, Role::Value);
        }
        params.iter().for_each(|p| self.param(p));
    }

    pub(super) fn function(&mut self, f: &Function) {
        self.signature(&f.sizes, &f.params);
        if let Some(summary) = &f.summary {
            self.summary(summary, &f.params);
        }
        if let Some(e) = &f.result {
            self.fresh_statement();
            self.expr(e);
            if !f.body.is_empty() || f.params.iter().any(|p| p.mode != Mode::In) {
                let text = format!("`{}` has a result, and a body or outputs as well", f.name);
                let help = "a function with a result is pure: `in` parameters only, and no statements";
                self.wrong_help(codes::RESULT, [text.into()], Some(help));
            }
            // What calls in expressions read is not an access of the statement around them.
            let shared = |view: &View| match (view.buffer(), view.global()) {
                (Some(_), _) => false,
                (None, Some(name)) => {
                    self.module.globals.get(name).is_some_and(|g| g.space != Space::Constant)
                }
                (None, None) => true,
            };
            if loads_of(e).iter().any(|a| shared(&a.view)) {
                let text = format!("`{}` has a result, and reads data that others may write", f.name);
                let help = "a function with a result is pure: of globals it reads constant ones only";
                self.wrong_help(codes::RESULT, [text.into()], Some(help));
            }
        }
        self.body(&f.body);
    }

    fn param(&mut self, p: &Param) {
        match &p.kind {
            ParamKind::Scalar(b) => {
                if p.mode != Mode::In {
                    let text = format!("the scalar parameter `{}` is `{}`", b.name, p.mode.name());
                    let help = "a scalar output is an array without dimensions: `out f32[]`";
                    self.wrong_help(codes::SCALAR_OUTPUT, [text.into()], Some(help));
                }
                self.bind_var(b, Role::Value);
            }
            ParamKind::Array(b) => {
                self.buffer(b, true);
                self.bind_buf(b.id, &b.name, b.extents.len(), &b.elem, p.mode == Mode::In);
                if let Some(buf) = self.bufs.get_mut(&b.id) {
                    buf.aliased = p.alias.is_some();
                }
            }
        }
    }

    /// A buffer where it is bound, before it is in scope.
    pub(super) fn buffer(&mut self, b: &Buffer, param: bool) {
        self.fresh_statement();
        self.known_type(&b.elem);
        for e in &b.extents {
            self.expr(e);
            self.index(e, codes::NOT_INDEX, "an extent");
        }
        let fixed = matches!(b.space, Space::Register | Space::Stack);
        if let Some(e) = b.extents.iter().find(|e| fixed && e.as_int().is_none()) {
            let text = format!("`{}` lives in {}, but its extent ", b.name, b.space.name());
            let help = "registers and stack frames have constant sizes: use `host`, or a constant";
            let what = [text.into(), Part::from(e), " is not constant".into()];
            self.wrong_help(codes::EXTENT_NOT_CONSTANT, what, Some(help));
        }
        let plain_space = match b.space {
            Space::Host => true,
            Space::Register => !param && b.extents.is_empty(),
            _ => false,
        };
        if self.stage == Stage::Plain && (!plain_space || !b.layout.is_row_major()) {
            let text = format!("`{}` has a space or layout that a plain tree does not have", b.name);
            let help = "plain buffers are row-major in `host`, or scalars in `register`; else the stage is \
                        `scheduled`";
            self.wrong_help(codes::PLAIN_STORAGE, [text.into()], Some(help));
        }
        if self.stage != Stage::Machine && b.space == Space::Fragment {
            let text = format!("`{}` is a fragment, before the stage `machine`", b.name);
            self.wrong(codes::MACHINE_ONLY, [text.into()]);
        }
        self.layout(b);
    }

    fn layout(&mut self, b: &Buffer) {
        // Per dimension, the loop that it is distributed over.
        let mut dims: Vec<Option<&Name>> = vec![None; b.extents.len()];
        for step in &b.layout.steps {
            let rank = dims.len();
            let gone = |dim: &usize| dims[*dim].is_some();
            let bad = match step {
                LayoutStep::Permute(order) => {
                    let mut sorted = order.clone();
                    sorted.sort_unstable();
                    (!sorted.into_iter().eq(0..rank))
                        .then(|| format!("`permute` is not a permutation of {rank} dimensions"))
                }
                LayoutStep::Tile { size: 0, .. } => Some("tiles of size 0".to_string()),
                LayoutStep::Pad { multiple: 0, .. } => Some("padding to a multiple of 0".to_string()),
                LayoutStep::Swizzle { modulus, .. } if !modulus.is_power_of_two() => {
                    Some(format!("swizzle by {modulus}, which is not a power of two"))
                }
                LayoutStep::Swizzle { dim, by, .. } if dim == by => {
                    Some("swizzle of a dimension by itself".to_string())
                }
                LayoutStep::Tile { dim, .. }
                | LayoutStep::Pad { dim, .. }
                | LayoutStep::Distribute { dim, .. }
                    if *dim >= rank =>
                {
                    Some(format!("there is no dimension {dim} of {rank}"))
                }
                LayoutStep::Swizzle { dim, by, .. } if *dim.max(by) >= rank => {
                    Some(format!("there is no dimension {} of {rank}", dim.max(by)))
                }
                LayoutStep::Tile { dim, .. }
                | LayoutStep::Pad { dim, .. }
                | LayoutStep::Distribute { dim, .. }
                    if gone(dim) =>
                {
                    Some(format!("dimension {dim} is distributed already"))
                }
                LayoutStep::Swizzle { dim, by, .. } if gone(dim) || gone(by) => {
                    Some("swizzle of a dimension that is distributed".to_string())
                }
                LayoutStep::Distribute { over, .. } if dims.contains(&Some(over)) => {
                    Some(format!("two dimensions are distributed over `{over}`"))
                }
                _ => None,
            };
            if let Some(why) = bad {
                self.wrong(
                    codes::BAD_LAYOUT,
                    [format!("the layout of `{}` is invalid: {why}", b.name).into()],
                );
                return;
            }
            match step {
                LayoutStep::Tile { dim, .. } => dims.insert(dim + 1, None),
                LayoutStep::Permute(order) => dims = order.iter().map(|d| dims[*d]).collect(),
                LayoutStep::Distribute { dim, over } => dims[*dim] = Some(over),
                LayoutStep::Pad { .. } | LayoutStep::Swizzle { .. } => {}
            }
        }
    }

    /// Forgets where the last statement was.
    pub(super) fn at(&mut self, places: &Places) {
        self.places = places.clone();
        self.fresh_statement();
    }

    fn fresh_statement(&mut self) {
        // Clearing costs what the largest statement took, so large tables are dropped instead.
        if self.seen.capacity() > 256 {
            self.seen = FxHashSet::default();
        }
        self.seen.clear();
    }
}
