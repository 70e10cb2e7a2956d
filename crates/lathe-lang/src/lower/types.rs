//! What the names of types mean, and the declarations that kernels share.

use super::scalar_fun::ScalarFun;
use crate::ast::{self, TypeKind};
use crate::codes;
use lathe_diagnostics::nearest;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::types::StructType;
use lathe_ir::{CombineOp, Scalar, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The most numbers in one element of an array, and how deep structs and tuples may nest.
const MOST: usize = 1024;
const DEEPEST: usize = 100;

/// The structs and combine operators of a program.
#[derive(Default)]
pub struct Globals {
    pub structs: BTreeMap<String, (Arc<StructType>, Span)>,
    pub ops: BTreeMap<String, (CombineOp, Span)>,
    /// Names of kernels and funs.
    pub callables: Vec<String>,
    /// Kernels, which statements of kernels can call.
    pub kernels: BTreeMap<String, Arc<ast::Kernel>>,
    /// Those of them that are derivatives, of which only the signature is known.
    pub derived: BTreeSet<String>,
    /// Those that expressions of kernels can call.
    pub funs: BTreeMap<String, ScalarFun>,
}

impl Globals {
    /// The type of one element; extents are the caller's business.
    pub fn element(&self, t: &ast::Type, errors: &mut Vec<Diagnostic>) -> Option<Type> {
        match &t.kind {
            TypeKind::Tuple(parts) => {
                let mut out = Vec::new();
                for p in parts {
                    if p.extents.is_some() {
                        errors.push(
                            Diagnostic::error(
                                codes::NOT_YET,
                                "arrays inside of tuples are not available yet",
                            )
                            .at(p.span, "an array as a component")
                            .help("use one array per component"),
                        );
                        return None;
                    }
                    out.push(self.element(p, errors)?);
                }
                self.bounded(Type::Tuple(Arc::from(out)), t.span, errors)
            }
            TypeKind::Name(name, args) => {
                if !args.is_empty() {
                    errors.push(
                        Diagnostic::error(codes::NOT_YET, "types with arguments are not available yet")
                            .at(t.span, "arguments of a type"),
                    );
                    return None;
                }
                if let Some(s) = Scalar::from_name(&name.text) {
                    return Some(s.into());
                }
                if let Some((s, _)) = self.structs.get(&name.text) {
                    return Some(Type::Struct(s.clone()));
                }
                if let Some(t) = Type::complex_named(&name.text) {
                    return Some(t);
                }
                let known =
                    Scalar::ALL.iter().map(|s| s.name()).chain(self.structs.keys().map(String::as_str));
                let mut d = Diagnostic::error(codes::UNKNOWN_TYPE, format!("unknown type `{}`", name.text))
                    .at(name.span, "not a type");
                let other = match name.text.as_str() {
                    "float" => Some("f32".to_string()),
                    "double" => Some("f64".to_string()),
                    "int" => Some("i32".to_string()),
                    "usize" | "size" => Some("index".to_string()),
                    "complex" | "complex64" => Some("c64".to_string()),
                    "complex128" => Some("c128".to_string()),
                    n => nearest(n, known),
                };
                if let Some(n) = other {
                    d = d.help(format!("did you mean `{n}`?"));
                }
                errors.push(d);
                None
            }
        }
    }

    /// A type that values are kept of: each of its numbers becomes a variable wherever one is used.
    fn bounded(&self, t: Type, span: Span, errors: &mut Vec<Diagnostic>) -> Option<Type> {
        /// Numbers in a type, and how deep they lie; types that are declared are small, so this ends soon.
        fn measure(t: &Type) -> (usize, usize) {
            let parts = t.fields();
            let inside = parts.iter().map(measure);
            let (n, deep) = inside.fold((0, 0), |(n, deep), (m, d)| (n + m, deep.max(d)));
            (n.max(1), deep + 1)
        }
        let (n, deep) = measure(&t);
        if n <= MOST && deep <= DEEPEST {
            return Some(t);
        }
        let text = format!("this type has {n} numbers, {deep} levels deep");
        errors.push(
            Diagnostic::error(codes::NESTING, text)
                .at(span, format!("at most {MOST} numbers and {DEEPEST} levels"))
                .help("use arrays: one for each part, or one more dimension"),
        );
        None
    }

    /// Declares the structs of a program; fields may use structs declared before.
    pub fn declare_struct(&mut self, s: &ast::Struct, errors: &mut Vec<Diagnostic>) {
        if let Some((_, first)) = self.structs.get(&s.name.text) {
            errors.push(duplicate("struct", &s.name, *first));
            return;
        }
        if Type::element_named(&s.name.text).is_some() {
            errors.push(
                Diagnostic::error(codes::DUPLICATE, format!("`{}` is a built-in type", s.name.text))
                    .at(s.name.span, "choose another name"),
            );
            return;
        }
        let mut fields: Vec<(lathe_ir::Name, Type)> = Vec::new();
        for (name, ty) in &s.fields {
            if ty.extents.is_some() {
                errors.push(
                    Diagnostic::error(codes::NOT_YET, "arrays inside of structs are not available yet")
                        .at(ty.span, "an array as a field"),
                );
                continue;
            }
            if fields.iter().any(|f| *f.0 == *name.text) {
                errors.push(
                    Diagnostic::error(codes::DUPLICATE, format!("two fields are called `{}`", name.text))
                        .at(name.span, "again"),
                );
                continue;
            }
            if let Some(t) = self.element(ty, errors) {
                fields.push((name.text.as_str().into(), t));
            }
        }
        let parts: Vec<Type> = fields.iter().map(|f| f.1.clone()).collect();
        if self.bounded(Type::Tuple(Arc::from(parts)), s.name.span, errors).is_none() {
            // What uses it is not at fault, too.
            fields = vec![("x".into(), Type::F32)];
        }
        if s.fields.is_empty() {
            errors.push(
                Diagnostic::error(codes::NOT_YET, "structs without fields are not available")
                    .at(s.name.span, "has no field"),
            );
            return;
        }
        let ty = StructType { name: s.name.text.as_str().into(), fields };
        self.structs.insert(s.name.text.clone(), (Arc::new(ty), s.name.span));
    }
}

pub fn duplicate(what: &str, name: &ast::Ident, first: Span) -> Diagnostic {
    Diagnostic::error(codes::DUPLICATE, format!("two {what}s are called `{}`", name.text))
        .at(name.span, "declared again")
        .at(first, "first declared here")
}
