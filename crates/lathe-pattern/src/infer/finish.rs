//! From what was inferred to typed terms: everything must be known.

use super::*;

impl Infer<'_> {
    /// Looks into tuples that became known.
    pub(super) fn known_parts(&mut self) -> Result<(), Diagnostic> {
        self.known_magnitudes(false)?;
        let mut wait = Vec::new();
        for (tuple, n, ty, span) in std::mem::take(&mut self.parts) {
            match self.s.head(&tuple).kind().clone() {
                TypeKind::Tuple(ts) => match ts.get(n) {
                    Some(t) => self.unify(&ty, t, span, "this part")?,
                    None => {
                        let t = self.s.known(&tuple);
                        return Err(Diagnostic::error(codes::TYPES, format!("`{t}` has no component {n}"))
                            .at(span, "components are counted from 0"));
                    }
                },
                TypeKind::Meta(_) => wait.push((tuple, n, ty, span)),
                _ => {
                    let t = self.s.known(&tuple);
                    return Err(Diagnostic::error(codes::TYPES, format!("`{t}` is not a tuple"))
                        .at(span, "has no parts"));
                }
            }
        }
        self.parts = wait;
        Ok(())
    }

    /// Everything that is still open, at the end.
    pub(super) fn settle(&mut self) -> Result<(), Diagnostic> {
        loop {
            let before = self.parts.len();
            self.known_parts()?;
            if self.parts.len() == before {
                break;
            }
        }
        self.known_magnitudes(true)?;
        for (t, s) in std::mem::take(&mut self.numbers) {
            self.s.default_to(&t, s);
        }
        match self.parts.first() {
            None => Ok(()),
            Some(p) => {
                Err(Diagnostic::error(codes::UNDETERMINED, "the type of this tuple is not determined")
                    .at(p.3, "write `|(x, y)|`, or the type of the parameter"))
            }
        }
    }

    pub(super) fn known(&self, t: &Type, span: Span) -> Result<Type, Diagnostic> {
        let k = self.s.known(t);
        if k.has_meta() {
            let text = format!("the type `{k}` is not determined");
            return Err(Diagnostic::error(codes::UNDETERMINED, text).at(span, "nothing says more"));
        }
        Ok(k.in_parts())
    }

    /// The typed term, `depth` binders inside.
    pub(super) fn finish(&self, e: &Elab, depth: u32) -> Result<Term, Diagnostic> {
        let ty = || self.known(&e.ty, e.span);
        let t = match &e.kind {
            ElabKind::Bound(level) => Term::bound(depth - 1 - level, ty()?),
            ElabKind::Free(n) => Term::free(n, ty()?),
            ElabKind::Lam(x, from, b) => Term::lam(x, self.known(from, e.span)?, self.finish(b, depth + 1)?),
            ElabKind::App(f, a) if let Some(t) = self.beside_literal(f, a, depth)? => t,
            ElabKind::App(f, a) => {
                let (f, a) = (self.finish(f, depth)?, self.finish(a, depth)?);
                // A fun that is written in place is applied at once.
                match &f.kind() {
                    crate::term::TermKind::Lam(_, b)
                        if is_instance(&e.kind) && (a.size() <= 8 || !a.ty().is_data()) =>
                    {
                        let size = b.uses().saturating_mul(a.size()).saturating_add(b.size());
                        if size > INLINED {
                            let text =
                                format!("inlining the funs that are used gives more than {INLINED} nodes");
                            return Err(Diagnostic::error(codes::SYNTAX, text).at(e.span, "inlined here"));
                        }
                        b.open(&a)
                    }
                    _ => Term::app(f, a),
                }
            }
            ElabKind::DepLam(k, x, b) => Term::dep_lam(*k, x, self.finish(b, depth)?),
            ElabKind::DepApp(f, a) => {
                let a = match a {
                    DepArg::Nat(n) => DepArg::Nat(self.s.known_nat(n)),
                    DepArg::Data(t) => DepArg::Data(self.known(t, e.span)?),
                };
                let f = self.finish(f, depth)?;
                Term::dep_app(f, a).ok_or_else(|| {
                    Diagnostic::error(codes::ARGUMENTS, "no such argument").at(e.span, "here")
                })?
            }
            ElabKind::Int(v) if let Some(s) = self.complex_part(&e.ty) => {
                complex::literal(s, [*v as f64, 0.0])
            }
            ElabKind::Float(v) if let Some(s) = self.complex_part(&e.ty) => complex::literal(s, [*v, 0.0]),
            ElabKind::Imaginary(v) => {
                self.known(&e.ty, e.span)?;
                complex::literal(self.complex_part(&e.ty).unwrap_or(Scalar::F32), [0.0, *v])
            }
            ElabKind::Int(v) => {
                let s = ty()?.as_scalar().unwrap_or(Scalar::I32);
                let value = if s.is_float() {
                    Some(ScalarValue::float(s, *v as f64))
                } else {
                    crate::scalars::integer(s, *v)
                };
                let wrong = || {
                    Diagnostic::error(codes::TYPES, format!("`{v}` does not match `{s}`"))
                        .at(e.span, "too large")
                };
                Term::lit(value.ok_or_else(wrong)?)
            }
            ElabKind::Float(v) => Term::lit(ScalarValue::float(ty()?.as_scalar().unwrap_or(Scalar::F32), *v)),
            ElabKind::Lit(v) => Term::lit(*v),
            ElabKind::Complex(name) => complex::function(name, &self.declared_at(e)?, e.span)?,
            ElabKind::Prim(p) if let Some(t) = complex::primitive(p, &self.declared_at(e)?, e.span)? => t,
            ElabKind::Prim(p) => Term::prim(p.map_nats(&mut |n| self.s.known_nat(n)), ty()?),
            ElabKind::Part(p, n) => {
                let p = self.finish(p, depth)?;
                let count = match p.ty().kind() {
                    TypeKind::Tuple(ts) => ts.len(),
                    _ => 0,
                };
                let f = Type::fun(p.ty().clone(), ty()?);
                Term::app(Term::prim(Prim::Proj(*n, count), f), p)
            }
            ElabKind::Typed(t, _) => {
                if !t.any(&mut |t| t.ty().has_meta()) {
                    t.clone()
                } else {
                    let mut open = None;
                    let known = t.map_types(
                        &mut |t| {
                            let k = self.s.known(t).in_parts();
                            if k.has_meta() {
                                open = Some(k.clone());
                            }
                            k
                        },
                        &mut |n| self.s.known_nat(n),
                    );
                    if let Some(k) = open {
                        return Err(Diagnostic::error(
                            codes::UNDETERMINED,
                            format!("the type `{k}` is not determined"),
                        )
                        .at(e.span, "of what this fun works on"));
                    }
                    known
                }
            }
        };
        Ok(t.with_places(Places::one(e.span)))
    }
}

/// How deep a term may nest once functions are applied: arguments go where parameters stand.
pub(super) fn reach(e: &Elab) -> u32 {
    match &e.kind {
        ElabKind::Lam(_, _, b) | ElabKind::DepLam(_, _, b) => 1 + reach(b),
        ElabKind::DepApp(f, _) | ElabKind::Part(f, _) => 1 + reach(f),
        ElabKind::App(f, a) => {
            let mut head = f;
            while let ElabKind::App(g, _) | ElabKind::DepApp(g, _) = &head.kind {
                head = g;
            }
            let (f, a) = (reach(f), reach(a));
            let known = matches!(head.kind, ElabKind::Typed(..) | ElabKind::Lam(..) | ElabKind::DepLam(..));
            1 + if known { f.saturating_add(a) } else { f.max(a) }
        }
        ElabKind::Typed(_, reach) => *reach,
        _ => 1,
    }
}

/// Whether an application is of a fun written in place (a lambda that the text does not have here).
pub(super) fn is_instance(kind: &ElabKind) -> bool {
    match kind {
        ElabKind::App(f, _) => matches!(f.kind, ElabKind::Typed(..)) || is_instance(&f.kind),
        _ => false,
    }
}
