//! Applications: of primitives, of funs, of functions to what they are called with.

use super::*;

impl Infer<'_> {
    pub(super) fn apply_prim(&mut self, p: Prim, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
        self.s.span = Some(span);
        let ty = scheme(&p, &mut self.s);
        self.apply(Elab { kind: ElabKind::Prim(p), ty, span }, args, span)
    }

    pub(super) fn call(&mut self, f: &Ast, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
        let AstKind::Name(name) = &*f.kind else {
            let f = self.infer(f)?;
            return self.apply(f, args, span);
        };
        if let Some(l) = self.scope.iter().rev().find(|l| l.name == *name) {
            let (level, mut ty, path) = (l.level, l.ty.clone(), l.path.clone());
            let mut e = Elab { kind: ElabKind::Bound(level), ty: ty.clone(), span: f.span };
            for n in path {
                let TypeKind::Tuple(ts) = self.s.head(&ty).kind().clone() else { break };
                ty = ts[n].clone();
                let kind = ElabKind::Part(Box::new(e), n);
                e = Elab { kind, ty: ty.clone(), span: f.span };
            }
            return self.apply(e, args, span);
        }
        if let Some(t) = self.env.holes.get(name) {
            let e = Elab {
                kind: ElabKind::Typed(t.shift(self.depth), t.height()),
                ty: t.ty().clone(),
                span: f.span,
            };
            return self.apply(e, args, span);
        }
        let open = self.open.iter().find(|o| o.0 == *name).map(|o| &o.1);
        if let Some(t) = open.or(self.env.free.get(name)) {
            let e = Elab { kind: ElabKind::Free(name.clone()), ty: t.clone(), span: f.span };
            return self.apply(e, args, span);
        }
        if let Some(p) = self.env.funs.get(name) {
            let e = self.instance(p, f.span)?;
            return self.apply(e, args, span);
        }
        if self.env.sizes.contains_key(name) || self.dep.contains(name) {
            return self.apply_prim(Prim::NatValue(Nat::var(name)), args, span);
        }
        if let Some(e) = self.complex_function(name, args, f.span) {
            return self.apply(e, args, span);
        }
        if &**name == "pad"
            && let [l, r, h, rest @ ..] = args
            && matches!(&*h.kind, AstKind::Lam(..))
        {
            let f = self.infer(&crate::sugar::pad_by(l, r, h))?;
            return self.apply(f, rest, span);
        }
        let owned: Vec<Ast> = args.iter().map(|a| (*a).clone()).collect();
        let known = |n: &str| {
            let env = self.env;
            env.sizes.contains_key(n) || env.nats.contains_key(n) || self.dep.iter().any(|d| &**d == n)
        };
        let found = primitive(name, &owned, span, &known)?;
        let nat = |n: &Nat| n.replace_vars(&|v| self.env.nats.get(v).cloned());
        let found = found.map(|(p, taken)| (p.map_nats(&mut |n| nat(n)), taken));
        let Some((p, taken)) = found else {
            let d = Diagnostic::error(codes::UNKNOWN, format!("there is no `{name}`"));
            return Err(d.at(f.span, "no parameter, size, fun or primitive has this name"));
        };
        self.s.span = Some(span);
        let ty = scheme(&p, &mut self.s);
        self.apply(Elab { kind: ElabKind::Prim(p), ty, span: f.span }, &args[taken..], span)
    }

    /// A fun at sizes that are to be found.
    pub(super) fn instance(&mut self, p: &Program, span: Span) -> Result<Elab, Diagnostic> {
        self.inlined = self.inlined.saturating_add(p.term.size());
        if self.inlined > INLINED {
            let text = format!("inlining the funs that are used gives more than {INLINED} nodes");
            return Err(Diagnostic::error(codes::SYNTAX, text).at(span, "inlined here"));
        }
        let fresh: Vec<(Name, Nat)> = p.sizes.iter().map(|n| (n.clone(), self.s.nat())).collect();
        let value = |v: &Name| fresh.iter().find(|f| f.0 == *v).map(|f| f.1.clone());
        let replace = |n: &Nat| n.replace_vars(&value);
        let types: Vec<(Name, Type)> = p.types.iter().map(|n| (n.clone(), self.s.data())).collect();
        let open = |t: &Type| match t.kind() {
            TypeKind::Var(v) => types.iter().find(|t| t.0 == *v).map(|t| t.1.clone()),
            _ => None,
        };
        self.s.span = Some(span);
        for f in p.facts.all() {
            self.s.oblige(f.replace_vars(&value));
        }
        let term =
            p.term.map_types(&mut |t| t.map(&mut |n| replace(n), &mut |t| open(t)), &mut |n| replace(n));
        let ty = p.declared.map(&mut |n| replace(n), &mut |t| open(t));
        Ok(Elab { kind: ElabKind::Typed(term, p.reach), ty, span })
    }

    pub(super) fn apply(&mut self, f: Elab, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
        if args.is_empty() {
            return Ok(f);
        }
        // A dependent function takes its sizes and types first.
        if let TypeKind::Dep(kind, x, to) = self.s.head(&f.ty).kind().clone() {
            let arg = match kind {
                Kind::Nat => DepArg::Nat(nat_of(args[0])?),
                Kind::Data => {
                    let AstKind::Name(n) = &*args[0].kind else {
                        return Err(Diagnostic::error(codes::ARGUMENTS, "expected a type here")
                            .at(args[0].span, "no type"));
                    };
                    let s = Scalar::from_name(n).ok_or_else(|| {
                        Diagnostic::error(codes::UNKNOWN, format!("there is no type `{n}`"))
                            .at(args[0].span, "unknown type")
                    })?;
                    DepArg::Data(s.into())
                }
            };
            let ty = to.substitute(&x, &arg);
            let e = Elab { kind: ElabKind::DepApp(Box::new(f), arg), ty, span };
            return self.apply(e, &args[1..], span);
        }
        let (mut params, mut ty) = (Vec::new(), f.ty.clone());
        for a in args {
            ty = self.s.head(&ty);
            let (from, to) = match ty.kind() {
                TypeKind::Fun(from, to) => (from.clone(), to.clone()),
                TypeKind::Dep(..) => break,
                TypeKind::Meta(_) => {
                    let (from, to) = (self.s.data(), self.s.ty(Class::Any));
                    self.unify(&Type::fun(from.clone(), to.clone()), &ty, f.span, "expected a function")?;
                    (from, to)
                }
                _ => {
                    let t = self.s.known(&ty);
                    return Err(Diagnostic::error(codes::ARGUMENTS, format!("`{t}` takes no argument"))
                        .at(a.span, "one argument too many")
                        .at(f.span, "of this"));
                }
            };
            params.push(from);
            ty = to;
        }
        let taken = params.len();
        // Data first: it tells lambdas what they work on.
        let mut done: Vec<Option<Elab>> = args[..taken].iter().map(|_| None).collect();
        let is_lambda = |a: &Ast| matches!(&*a.kind, AstKind::Lam(..) | AstKind::Then(..));
        for lambdas in [false, true] {
            for (n, a) in args[..taken].iter().enumerate().filter(|(_, a)| is_lambda(a) == lambdas) {
                let e = self.check(a, &params[n])?;
                self.unify(&params[n], &e.ty.clone(), a.span, "this has another type")?;
                done[n] = Some(e);
            }
        }
        self.known_parts()?;
        let mut e = f;
        for a in done.into_iter().flatten() {
            let to = match self.s.head(&e.ty).kind() {
                TypeKind::Fun(_, to) => to.clone(),
                _ => ty.clone(),
            };
            e = Elab { kind: ElabKind::App(Box::new(e), Box::new(a)), ty: to, span };
        }
        self.apply(e, &args[taken..], span)
    }
}
