//! From terms as they are written to typed terms.

use crate::ast::{Ast, AstKind, HEIGHT, LamParam, Pattern};
use crate::codes;
use crate::facts::{Fact, Facts};
use crate::names::primitive;
use crate::nat::{Atom, Nat};
use crate::parse::nat_of;
use crate::prim::Prim;
use crate::program::Program;
use crate::scheme::scheme;
use crate::solve::{Class, Mismatch, Solver};
use crate::term::Term;
use crate::types::{DepArg, Kind, Type, TypeKind};
use lathe_diagnostics::{Diagnostic, Places, Span};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Name, Scalar};
use std::collections::BTreeMap;

/// What is in scope of a term.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Other funs, which are written in place where they are used.
    pub funs: BTreeMap<Name, Program>,
    /// Free variables and their types.
    pub free: BTreeMap<Name, Type>,
    /// Sizes, with the place that binds each.
    pub sizes: BTreeMap<Name, Option<Span>>,
    pub facts: Facts,
    /// Metavariables of a rule: typed terms by name.
    pub holes: BTreeMap<Name, Term>,
    /// Its metavariables for sizes.
    pub nats: BTreeMap<Name, Nat>,
}

/// A typed term, and what its sizes must fulfil besides the known facts.
#[derive(Clone, Debug)]
pub struct Inferred {
    pub term: Term,
    pub obligations: Vec<(Fact, Option<Span>)>,
    /// How deep it may nest once all functions are applied.
    pub reach: u32,
}

/// What is chosen for types and sizes that nothing determines: an instance of a term that fits many.
pub trait Choose {
    fn ty(&mut self, class: Class) -> Type;
    fn size(&mut self) -> i64;
    /// One of so many.
    fn which(&mut self, n: usize) -> usize;
}

/// Types a term; `expected` is what its context wants.
pub fn infer(env: &Env, ast: &Ast, expected: Option<(&Type, Span)>) -> Result<Inferred, Diagnostic> {
    infer_with(env, ast, expected, None)
}

/// Types an instance of a term: the names in `open` become free variables of types that fit.
///
/// # Errors
/// Also where the choices do not fit one another.
pub fn infer_instance(
    env: &Env,
    ast: &Ast,
    open: &[Name],
    choose: &mut dyn Choose,
) -> Result<Inferred, Diagnostic> {
    infer_with(env, ast, None, Some((open, choose)))
}

fn infer_with(
    env: &Env,
    ast: &Ast,
    expected: Option<(&Type, Span)>,
    choice: Option<(&[Name], &mut dyn Choose)>,
) -> Result<Inferred, Diagnostic> {
    if ast.height > 2 * HEIGHT {
        let text = format!("the term nests deeper than {}", 2 * HEIGHT);
        return Err(Diagnostic::error(codes::SYNTAX, text).at(ast.span, "here"));
    }
    let mut i = Infer {
        env,
        s: Solver::new(env.facts.clone()),
        scope: Vec::new(),
        depth: 0,
        dep: Vec::new(),
        parts: Vec::new(),
        numbers: Vec::new(),
        inlined: 0,
        open: Vec::new(),
    };
    let (open, choose) = choice.unzip();
    for n in open.unwrap_or_default() {
        let ty = i.s.ty(Class::Any);
        i.open.push((n.clone(), ty));
    }
    let e = match expected {
        Some((t, span)) => {
            let e = i.check(ast, t)?;
            i.unify(t, &e.ty.clone(), span, "this type is declared")?;
            e
        }
        None => i.infer(ast)?,
    };
    if let Some(choose) = choose {
        i.choose(choose, ast.span)?;
    }
    i.settle()?;
    let obligations = match i.s.discharge() {
        Ok(o) => o,
        Err((m, span)) => return Err(i.mismatch(&m, span.unwrap_or(ast.span))),
    };
    if let Some((a, b, span)) = i.s.unsolved() {
        return Err(Diagnostic::error(codes::UNDETERMINED, format!("it cannot be told when `{a}` is `{b}`"))
            .at(span.unwrap_or(ast.span), "a size here is not determined"));
    }
    let reach = reach(&e);
    if reach > 2 * HEIGHT {
        let text = format!("with the funs that it uses, the term nests deeper than {}", 2 * HEIGHT);
        return Err(Diagnostic::error(codes::SYNTAX, text).at(ast.span, "here"));
    }
    let term = i.finish(&e, 0)?;
    Ok(Inferred { term, obligations, reach })
}

/// A term whose types still have unknowns.
struct Elab {
    kind: ElabKind,
    ty: Type,
    span: Span,
}

enum ElabKind {
    /// The binder so many from outside.
    Bound(u32),
    Free(Name),
    Lam(Name, Type, Box<Elab>),
    App(Box<Elab>, Box<Elab>),
    DepLam(Kind, Name, Box<Elab>),
    DepApp(Box<Elab>, DepArg),
    Int(i64),
    Float(f64),
    Lit(ScalarValue),
    Prim(Prim),
    Part(Box<Elab>, usize),
    /// Under so many binders of this term; how deep it may nest.
    Typed(Term, u32),
}

/// A name in scope: the binder (from outside) and the way to it through tuples.
struct Local {
    name: Name,
    level: u32,
    ty: Type,
    path: Vec<usize>,
}

struct Infer<'a> {
    env: &'a Env,
    s: Solver,
    scope: Vec<Local>,
    depth: u32,
    /// Sizes that dependent functions in scope take.
    dep: Vec<Name>,
    /// Parts of tuples that are not known yet: tuple, number, type of the part, place.
    parts: Vec<(Type, usize, Type, Span)>,
    /// Types of literals, and what they are if nothing says so.
    numbers: Vec<(Type, Scalar)>,
    /// Nodes of funs written in place.
    inlined: u32,
    /// Free variables of types that are to be found.
    open: Vec<(Name, Type)>,
}

impl Infer<'_> {
    fn unify(&mut self, expected: &Type, actual: &Type, span: Span, what: &str) -> Result<(), Diagnostic> {
        self.s.span = Some(span);
        self.s.unify(expected, actual).map_err(|m| {
            let (e, a) = (self.s.known(expected), self.s.known(actual));
            let mut d = self.mismatch(&m, span);
            if let (Mismatch::Sizes(x, y), Some(first)) = (&m, d.marks.first_mut()) {
                first.text = format!("{what}: `{a}`");
                // The other size came from where an unknown got its value, or from a declaration.
                let from = self.s.origins(expected).into_iter().chain(self.s.origins(actual));
                let mut origins: Vec<(Nat, Span)> =
                    from.filter(|o| o.1 != span && (o.0 == *x || o.0 == *y)).collect();
                for n in [x, y] {
                    for v in n.vars() {
                        if let Some(Some(s)) = self.env.sizes.get(&v) {
                            origins.push((Nat::var(&v), *s));
                        }
                    }
                }
                origins.dedup();
                for (n, s) in origins {
                    d = d.at(s, format!("`{n}` comes from here"));
                }
            }
            d.note(format!("`{e}` is wanted, this is `{a}`"))
        })
    }

    fn mismatch(&self, m: &Mismatch, span: Span) -> Diagnostic {
        let (code, text) = match m {
            Mismatch::Sizes(a, b) => (codes::SIZES, format!("the sizes `{a}` and `{b}` differ")),
            Mismatch::Types(a, b) => (codes::TYPES, format!("the types `{a}` and `{b}` differ")),
            Mismatch::NotData(t) => (codes::NOT_DATA, format!("`{t}` is a function, which cannot be stored")),
            Mismatch::Class(c, t) => {
                let wanted = match c {
                    Class::Any | Class::Data => "data",
                    Class::Single => "a scalar or an index",
                    Class::Scalar => "a scalar",
                    Class::Number => "a number",
                    Class::Float => "a float",
                };
                let help = matches!(t.kind(), TypeKind::Index(_)) && *c >= Class::Scalar;
                let text = format!("`{t}` is not {wanted}");
                let d = Diagnostic::error(codes::TYPES, text).at(span, format!("{wanted} is wanted here"));
                return if help { d.help("`index(i)` makes a number of an index") } else { d };
            }
            Mismatch::Endless => (codes::TYPES, "the type would be part of itself".to_string()),
            Mismatch::Never(Fact::Divides(b, a)) => {
                (codes::DOES_NOT_FIT, format!("`{b}` does not divide `{a}`"))
            }
            Mismatch::Never(f) => (codes::DOES_NOT_FIT, format!("`{f}` cannot be")),
            Mismatch::Huge => (codes::HUGE, "a size does not fit 64 bits".to_string()),
        };
        Diagnostic::error(code, text).at(span, "here")
    }

    /// Infers against a type that may be known: lambdas learn the types of their parameters.
    fn check(&mut self, ast: &Ast, expected: &Type) -> Result<Elab, Diagnostic> {
        if let AstKind::Lam(params, body) = &*ast.kind {
            return self.lambda(params, body, ast.span, Some(expected));
        }
        if let AstKind::Int(v) = &*ast.kind
            && matches!(self.s.head(expected).kind(), TypeKind::Index(_))
        {
            let TypeKind::Index(n) = self.s.head(expected).kind().clone() else {
                return self.infer(ast);
            };
            self.s.span = Some(ast.span);
            self.s.oblige(Fact::AtMost(Nat::constant(*v).plus(&1.into()), n.clone()));
            self.s.oblige(Fact::AtMost(Nat::zero(), Nat::constant(*v)));
            let index = Elab {
                kind: ElabKind::Prim(Prim::AsIndex(n.clone())),
                ty: Type::fun(Scalar::Index.into(), Type::index(n.clone())),
                span: ast.span,
            };
            let lit = Elab {
                kind: ElabKind::Lit(ScalarValue::int(Scalar::Index, *v)),
                ty: Scalar::Index.into(),
                span: ast.span,
            };
            let kind = ElabKind::App(Box::new(index), Box::new(lit));
            return Ok(Elab { kind, ty: Type::index(n), span: ast.span });
        }
        self.infer(ast)
    }

    fn infer(&mut self, ast: &Ast) -> Result<Elab, Diagnostic> {
        let span = ast.span;
        let elab = |kind, ty| Ok(Elab { kind, ty, span });
        match &*ast.kind {
            AstKind::Int(v) => {
                let ty = self.s.ty(Class::Number);
                self.numbers.push((ty.clone(), Scalar::I32));
                elab(ElabKind::Int(*v), ty)
            }
            AstKind::Float(v) => {
                let ty = self.s.ty(Class::Float);
                self.numbers.push((ty.clone(), Scalar::F32));
                elab(ElabKind::Float(*v), ty)
            }
            AstKind::Bool(v) => elab(ElabKind::Lit(ScalarValue::boolean(*v)), Scalar::Bool.into()),
            AstKind::Name(_) => self.call(ast, &[], span),
            AstKind::Lam(params, body) => self.lambda(params, body, span, None),
            AstKind::Call(f, args) => {
                let args: Vec<&Ast> = args.iter().collect();
                self.call(f, &args, span)
            }
            AstKind::Unary(op, a) => self.apply_prim(Prim::Unary(*op), &[a], span),
            AstKind::Binary(op, a, b) => self.apply_prim(Prim::Binary(*op), &[a, b], span),
            AstKind::Tuple(parts) => {
                let parts: Vec<&Ast> = parts.iter().collect();
                self.apply_prim(Prim::Tuple(parts.len()), &parts, span)
            }
            AstKind::Then(f, g) => {
                // |x| g(f(x))
                let (a, b, c) = (self.s.ty(Class::Data), self.s.ty(Class::Data), self.s.ty(Class::Any));
                let level = self.depth;
                self.depth += 1;
                let f = self.check(f, &Type::fun(a.clone(), b.clone()));
                let f = f?;
                self.unify(&Type::fun(a.clone(), b.clone()), &f.ty.clone(), f.span, "a function is wanted")?;
                let g = self.check(g, &Type::fun(b.clone(), c.clone()))?;
                self.unify(&Type::fun(b.clone(), c.clone()), &g.ty.clone(), g.span, "a function is wanted")?;
                self.depth -= 1;
                let x = Elab { kind: ElabKind::Bound(level), ty: a.clone(), span };
                let y = Elab { kind: ElabKind::App(Box::new(f), Box::new(x)), ty: b, span };
                let z = Elab { kind: ElabKind::App(Box::new(g), Box::new(y)), ty: c.clone(), span };
                elab(ElabKind::Lam(Name::from("x"), a.clone(), Box::new(z)), Type::fun(a, c))
            }
            AstKind::Index(xs, subscripts) => {
                let mut e = self.infer(xs)?;
                for i in subscripts {
                    let (n, d) = (self.s.nat(), self.s.data());
                    let array = Type::array(n.clone(), d.clone());
                    self.unify(&array, &e.ty.clone(), e.span, "an array is wanted")?;
                    let constant = matches!(&*i.kind, AstKind::Int(_));
                    let (f, f_ty) = if constant {
                        let at = nat_of(i)?;
                        self.s.span = Some(i.span);
                        self.s.oblige(Fact::AtMost(Nat::zero(), at.clone()));
                        self.s.oblige(Fact::AtMost(at.plus(&1.into()), n));
                        let ty = Type::fun(array, d.clone());
                        (Elab { kind: ElabKind::Prim(Prim::AtNat(at)), ty: ty.clone(), span: i.span }, ty)
                    } else {
                        let index = Type::index(n.clone());
                        let i = match &*i.kind {
                            // `xs[asIndex(e)]`: the size is that of the array.
                            AstKind::Call(f, e) if e.len() == 1 && is_name(f, "asIndex") => {
                                self.apply_prim(Prim::AsIndex(n), &[&e[0]], i.span)?
                            }
                            _ => self.check(i, &index)?,
                        };
                        self.unify(&index, &i.ty.clone(), i.span, "an index of this array is wanted")?;
                        let rest = Type::fun(array, d.clone());
                        let ty = Type::fun(index, rest.clone());
                        let at = Elab { kind: ElabKind::Prim(Prim::At), ty, span: i.span };
                        let span = i.span;
                        let kind = ElabKind::App(Box::new(at), Box::new(i));
                        (Elab { kind, ty: rest.clone(), span }, rest)
                    };
                    debug_assert!(f_ty.as_fun().is_some());
                    e = Elab { kind: ElabKind::App(Box::new(f), Box::new(e)), ty: d, span };
                }
                Ok(e)
            }
            AstKind::Part(p, n) => {
                let p = self.infer(p)?;
                let ty = self.s.data();
                self.parts.push((p.ty.clone(), *n, ty.clone(), span));
                self.known_parts()?;
                elab(ElabKind::Part(Box::new(p), *n), ty)
            }
            AstKind::Let(pattern, value, body) => {
                let value = self.infer(value)?;
                let from = value.ty.clone();
                let param = [LamParam::Data(pattern.clone(), None)];
                let to = self.s.ty(Class::Any);
                let f_ty = Type::fun(from.clone(), to);
                let f = self.lambda(&param, body, span, Some(&f_ty))?;
                let TypeKind::Fun(_, to) = self.s.head(&f.ty).kind().clone() else {
                    return Err(self.mismatch(&Mismatch::Endless, span));
                };
                let data = self.s.data();
                self.unify(&data, &to, body.span, "data is wanted")?;
                let after = Type::fun(f.ty.clone(), to.clone());
                let prim_ty = Type::fun(from, after.clone());
                let prim = Elab { kind: ElabKind::Prim(Prim::Let), ty: prim_ty, span };
                let first = Elab { kind: ElabKind::App(Box::new(prim), Box::new(value)), ty: after, span };
                elab(ElabKind::App(Box::new(first), Box::new(f)), to)
            }
        }
    }

    fn apply_prim(&mut self, p: Prim, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
        self.s.span = Some(span);
        let ty = scheme(&p, &mut self.s);
        self.apply(Elab { kind: ElabKind::Prim(p), ty, span }, args, span)
    }

    fn call(&mut self, f: &Ast, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
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
    fn instance(&mut self, p: &Program, span: Span) -> Result<Elab, Diagnostic> {
        self.inlined = self.inlined.saturating_add(p.term.size());
        if self.inlined > INLINED {
            let text = format!("the funs that are used come to more than {INLINED} parts");
            return Err(Diagnostic::error(codes::SYNTAX, text).at(span, "written in place here"));
        }
        let fresh: Vec<(Name, Nat)> = p.sizes.iter().map(|n| (n.clone(), self.s.nat())).collect();
        let value = |v: &Name| fresh.iter().find(|f| f.0 == *v).map(|f| f.1.clone());
        let replace = |n: &Nat| n.replace_vars(&value);
        self.s.span = Some(span);
        for f in p.facts.all() {
            self.s.oblige(f.replace_vars(&value));
        }
        let term = p.term.map_types(&mut |t| t.map_sizes(&mut |n| replace(n)), &mut |n| replace(n));
        let ty = term.ty().clone();
        Ok(Elab { kind: ElabKind::Typed(term, p.reach), ty, span })
    }

    fn apply(&mut self, f: Elab, args: &[&Ast], span: Span) -> Result<Elab, Diagnostic> {
        if args.is_empty() {
            return Ok(f);
        }
        // A dependent function takes its sizes and types first.
        if let TypeKind::Dep(kind, x, to) = self.s.head(&f.ty).kind().clone() {
            let arg = match kind {
                Kind::Nat => DepArg::Nat(nat_of(args[0])?),
                Kind::Data => {
                    let AstKind::Name(n) = &*args[0].kind else {
                        return Err(Diagnostic::error(codes::ARGUMENTS, "a type is wanted here")
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
                    self.unify(&Type::fun(from.clone(), to.clone()), &ty, f.span, "a function is wanted")?;
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

    fn lambda(
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
                    return Err(Diagnostic::error(codes::ARGUMENTS, format!("`{x}` is a size already"))
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
                    self.unify(t, &from, span, "the parameter is declared otherwise")?;
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

    fn bind(
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
    fn scope_type(&self, level: u32, ty: &Type, path: &[usize]) -> Type {
        if path.is_empty() {
            return ty.clone();
        }
        let whole = self.scope.iter().rev().find(|l| l.level == level && l.path.is_empty());
        whole.map_or_else(|| ty.clone(), |l| l.ty.clone())
    }

    /// Looks into tuples that became known.
    fn known_parts(&mut self) -> Result<(), Diagnostic> {
        let mut wait = Vec::new();
        for (tuple, n, ty, span) in std::mem::take(&mut self.parts) {
            match self.s.head(&tuple).kind().clone() {
                TypeKind::Tuple(ts) => match ts.get(n) {
                    Some(t) => self.unify(&ty, t, span, "this part")?,
                    None => {
                        let t = self.s.known(&tuple);
                        return Err(Diagnostic::error(codes::TYPES, format!("`{t}` has no part {n}"))
                            .at(span, "parts count from 0"));
                    }
                },
                TypeKind::Meta(_) => wait.push((tuple, n, ty, span)),
                _ => {
                    let t = self.s.known(&tuple);
                    return Err(Diagnostic::error(codes::TYPES, format!("`{t}` is no tuple"))
                        .at(span, "has no parts"));
                }
            }
        }
        self.parts = wait;
        Ok(())
    }

    /// Determines what is open by choice.
    fn choose(&mut self, choose: &mut dyn Choose, span: Span) -> Result<(), Diagnostic> {
        self.known_parts()?;
        while let Some((tuple, n, ..)) = self.parts.first() {
            // A tuple that has this part.
            let (tuple, n) = (tuple.clone(), *n);
            let parts: Vec<Type> = (0..(n + 1).max(2)).map(|_| self.s.data()).collect();
            self.unify(&Type::tuple(parts), &tuple, span, "a tuple")?;
            self.known_parts()?;
        }
        for (i, class) in self.s.open_types() {
            let var = Type::new(TypeKind::Meta(i));
            if matches!(self.s.head(&var).kind(), TypeKind::Meta(_)) {
                self.unify(&choose.ty(class), &var, span, "a choice")?;
            }
        }
        loop {
            let open = self.s.open_sizes();
            if open.is_empty() {
                return Ok(());
            }
            let i = open[choose.which(open.len())];
            let size = Nat::constant(choose.size());
            let chosen = self.s.equal(&Nat::atom(Atom::Meta(i)), &size);
            chosen.map_err(|m| self.mismatch(&m, span))?;
        }
    }

    /// Everything that is still open, at the end.
    fn settle(&mut self) -> Result<(), Diagnostic> {
        loop {
            let before = self.parts.len();
            self.known_parts()?;
            if self.parts.len() == before {
                break;
            }
        }
        for (t, s) in std::mem::take(&mut self.numbers) {
            self.s.default_to(&t, s);
        }
        match self.parts.first() {
            None => Ok(()),
            Some(p) => Err(Diagnostic::error(codes::UNDETERMINED, "nothing says what tuple this is")
                .at(p.3, "write `|(x, y)|`, or the type of the parameter")),
        }
    }

    fn known(&self, t: &Type, span: Span) -> Result<Type, Diagnostic> {
        let k = self.s.known(t);
        if k.has_meta() {
            let text = format!("the type `{k}` is not determined");
            return Err(Diagnostic::error(codes::UNDETERMINED, text).at(span, "nothing says more"));
        }
        Ok(k)
    }

    /// The typed term, `depth` binders inside.
    fn finish(&self, e: &Elab, depth: u32) -> Result<Term, Diagnostic> {
        let ty = || self.known(&e.ty, e.span);
        let t = match &e.kind {
            ElabKind::Bound(level) => Term::bound(depth - 1 - level, ty()?),
            ElabKind::Free(n) => Term::free(n, ty()?),
            ElabKind::Lam(x, from, b) => Term::lam(x, self.known(from, e.span)?, self.finish(b, depth + 1)?),
            ElabKind::App(f, a) => {
                let (f, a) = (self.finish(f, depth)?, self.finish(a, depth)?);
                // A fun that is written in place is applied at once.
                match &f.kind() {
                    crate::term::TermKind::Lam(_, b) if is_instance(&e.kind) && a.size() <= 8 => b.open(&a),
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
            ElabKind::Int(v) => {
                let s = ty()?.as_scalar().unwrap_or(Scalar::I32);
                let fits = s.is_float() || lathe_ir::build::wrap(s, *v) == *v;
                if !fits || (s == Scalar::U64 && *v < 0) {
                    return Err(Diagnostic::error(codes::TYPES, format!("`{v}` does not fit `{s}`"))
                        .at(e.span, "too large"));
                }
                Term::lit(if s.is_float() {
                    ScalarValue::float(s, *v as f64)
                } else {
                    ScalarValue::int(s, *v)
                })
            }
            ElabKind::Float(v) => Term::lit(ScalarValue::float(ty()?.as_scalar().unwrap_or(Scalar::F32), *v)),
            ElabKind::Lit(v) => Term::lit(*v),
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
                            let k = self.s.known(t);
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

/// Nodes that the funs written in place may have.
const INLINED: u32 = 100_000;

/// How deep a term may nest once functions are applied: arguments go where parameters stand.
fn reach(e: &Elab) -> u32 {
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
fn is_instance(kind: &ElabKind) -> bool {
    match kind {
        ElabKind::App(f, _) => matches!(f.kind, ElabKind::Typed(..)) || is_instance(&f.kind),
        _ => false,
    }
}

fn is_name(e: &Ast, name: &str) -> bool {
    matches!(&*e.kind, AstKind::Name(n) if &**n == name)
}
