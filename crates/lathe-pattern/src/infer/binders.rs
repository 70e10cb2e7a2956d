//! Lambdas, and the patterns that they bind.

use super::*;

impl Infer<'_> {
    pub(super) fn lambda(
        &mut self,
        params: &[LamParam],
        body: &Ast,
        span: Span,
        expected: Option<&Type>,
    ) -> Result<Elab, Diagnostic> {
        let Some((first, rest)) = params.split_first() else {
            return match expected {
                Some(t) => self.check(body, t),
                None => self.infer(body),
            };
        };
        let expected = expected.map(|t| self.s.head(t));
        match first {
            LamParam::Dep(kind, x) => {
                if self.env.sizes.contains_key(x) || self.dep.contains(x) {
                    return Err(Diagnostic::error(codes::ARGUMENTS, format!("`{x}` is already a size"))
                        .at(span, "take another name"));
                }
                self.dep.push(x.clone());
                let inner = self.lambda(rest, body, span, None)?;
                self.dep.pop();
                let ty = Type::new(TypeKind::Dep(*kind, x.clone(), inner.ty.clone()));
                Ok(Elab { kind: ElabKind::DepLam(*kind, x.clone(), Box::new(inner)), ty, span })
            }
            LamParam::Data(pattern, declared) => {
                let (from, to) = match expected.as_ref().and_then(Type::as_fun) {
                    Some((a, b)) => (a.clone(), Some(b.clone())),
                    None => (self.s.ty(Class::Data), None),
                };
                if let Some(t) = declared {
                    self.unify(t, &from, span, "the parameter is declared with another type")?;
                }
                let (level, known) = (self.depth, self.scope.len());
                self.depth += 1;
                self.bind(pattern, level, &from, &mut Vec::new(), span)?;
                let inner = self.lambda(rest, body, span, to.as_ref())?;
                self.scope.truncate(known);
                self.depth -= 1;
                let hint = match pattern {
                    Pattern::Name(n) => n.clone(),
                    Pattern::Tuple(_) => Name::from("p"),
                    Pattern::Any => Name::from("_"),
                };
                let ty = Type::fun(from.clone(), inner.ty.clone());
                Ok(Elab { kind: ElabKind::Lam(hint, from, Box::new(inner)), ty, span })
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        p: &Pattern,
        level: u32,
        ty: &Type,
        path: &mut Vec<usize>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        match p {
            Pattern::Any => {}
            Pattern::Name(name) => {
                // The type is that of the whole; the way leads to the part.
                let whole = self.scope_type(level, ty, path);
                self.scope.push(Local { name: name.clone(), level, ty: whole, path: path.clone() });
            }
            Pattern::Tuple(parts) => {
                let types: Vec<Type> = parts.iter().map(|_| self.s.data()).collect();
                self.unify(&Type::tuple(types.clone()), ty, span, "a tuple is taken apart here")?;
                let root = if path.is_empty() { Some(ty.clone()) } else { None };
                if let Some(t) = root {
                    self.scope.push(Local { name: Name::from(""), level, ty: t, path: Vec::new() });
                }
                for (n, (p, t)) in parts.iter().zip(&types).enumerate() {
                    path.push(n);
                    self.bind(p, level, t, path, span)?;
                    path.pop();
                }
            }
        }
        Ok(())
    }

    /// The type of the whole that a binder binds.
    pub(super) fn scope_type(&self, level: u32, ty: &Type, path: &[usize]) -> Type {
        if path.is_empty() {
            return ty.clone();
        }
        let whole = self.scope.iter().rev().find(|l| l.level == level && l.path.is_empty());
        whole.map_or_else(|| ty.clone(), |l| l.ty.clone())
    }
}
