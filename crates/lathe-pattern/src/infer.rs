//! From terms as they are written to typed terms.

mod binders;
mod calls;
mod complex;
mod finish;

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
use finish::reach;
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

/// A typed term, and what its sizes must satisfy besides the known facts.
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
    fn size(&mut self) -> Nat;
    /// One of so many.
    fn which(&mut self, n: usize) -> usize;
}

/// Types a term; `expected` is what its context wants.
pub fn infer(env: &Env, ast: &Ast, expected: Option<(&Type, Span)>) -> Result<Inferred, Diagnostic> {
    infer_with(env, ast, expected, None).map_err(with_blanks)
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
    infer_with(env, ast, None, Some((open, choose))).map_err(with_blanks)
}

/// Unknown sizes and types as `_`: their numbers mean nothing to a reader.
fn with_blanks(mut d: Diagnostic) -> Diagnostic {
    let marks = d.marks.iter_mut().map(|m| &mut m.text);
    for text in marks.chain([&mut d.message]).chain(&mut d.notes).chain(&mut d.help) {
        let mut parts = text.split('?');
        let first = parts.next().unwrap_or_default().to_string();
        *text = parts.fold(first, |out, part| {
            let rest =
                part.strip_prefix('t').unwrap_or(part).trim_start_matches(|c: char| c.is_ascii_digit());
            let is_unknown = part.len() > rest.len()
                && part[..part.len() - rest.len()].ends_with(|c: char| c.is_ascii_digit());
            if is_unknown { out + "_" + rest } else { out + "?" + part }
        });
    }
    d
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
        magnitudes: Vec::new(),
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
            i.declared(t, &e, span)?;
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
        return Err(Diagnostic::error(
            codes::UNDETERMINED,
            format!("cannot decide whether `{a}` equals `{b}`"),
        )
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
    Int(i128),
    Float(f64),
    Lit(ScalarValue),
    Prim(Prim),
    Imaginary(f64),
    /// A function of complex numbers, by its name.
    Complex(Name),
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
    /// Of `abs`: the argument, the result, the place.
    magnitudes: Vec<(Type, Type, Span)>,
    /// Types of literals, and what they are if nothing says so.
    numbers: Vec<(Type, Scalar)>,
    /// Nodes of funs written in place.
    inlined: u32,
    /// Free variables of types that are to be found.
    open: Vec<(Name, Type)>,
}

impl Infer<'_> {
    /// Compares what was declared, at its place, with what was found: of functions the results, since parameters
    /// have the types that are declared for them.
    fn declared(&mut self, ty: &Type, found: &Elab, span: Span) -> Result<(), Diagnostic> {
        if let (TypeKind::Fun(from, to), ElabKind::Lam(_, own, body)) = (ty.kind(), &found.kind) {
            self.unify(from, own, span, "this type is declared")?;
            return self.declared(to, body, span);
        }
        self.unify(ty, &found.ty, found.span, "this").map_err(|mut d| {
            let declared = self.s.known(ty);
            d.marks.retain(|m| m.span != span);
            if let Some(first) = d.marks.first_mut() {
                first.text = format!("this is `{}`", self.s.known(&found.ty));
            }
            d.at(span, format!("`{declared}` is declared"))
        })
    }

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
            d.note(format!("expected `{e}`, found `{a}`"))
        })
    }

    fn mismatch(&self, m: &Mismatch, span: Span) -> Diagnostic {
        let (code, text) = match m {
            Mismatch::Sizes(a, b) => (codes::SIZES, format!("the sizes `{a}` and `{b}` differ")),
            Mismatch::Types(a, b) => (codes::TYPES, format!("the types `{a}` and `{b}` differ")),
            Mismatch::NotData(t) => (codes::NOT_DATA, format!("`{t}` is a function, which cannot be stored")),
            Mismatch::Class(c, t) => {
                let wanted = named(*c);
                let help = matches!(t.kind(), TypeKind::Index(_)) && *c >= Class::Scalar;
                let text = format!("`{t}` is not {wanted}");
                let d = Diagnostic::error(codes::TYPES, text).at(span, format!("expected {wanted} here"));
                return if help { d.help("`index(i)` converts an index to a number") } else { d };
            }
            Mismatch::Classes(a, b) => {
                (codes::TYPES, format!("both {} and {} are required", named(*a), named(*b)))
            }
            Mismatch::Endless => (codes::TYPES, "the type would contain itself (infinite type)".to_string()),
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
        if let AstKind::Int(_) = &*ast.kind
            && matches!(self.s.head(expected).kind(), TypeKind::Index(_))
        {
            let TypeKind::Index(n) = self.s.head(expected).kind().clone() else {
                return self.infer(ast);
            };
            self.s.span = Some(ast.span);
            let at = nat_of(ast)?;
            self.s.oblige(Fact::AtMost(at.plus(&1.into()), n.clone()));
            self.s.oblige(Fact::AtMost(Nat::zero(), at.clone()));
            let index = Elab {
                kind: ElabKind::Prim(Prim::AsIndex(n.clone())),
                ty: Type::fun(Scalar::Index.into(), Type::index(n.clone())),
                span: ast.span,
            };
            let lit = Elab {
                kind: ElabKind::Lit(ScalarValue::int(Scalar::Index, at.as_constant().unwrap_or_default())),
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
            AstKind::Imaginary(v) => {
                let part = self.s.ty(Class::Float);
                self.numbers.push((part.clone(), Scalar::F32));
                elab(ElabKind::Imaginary(*v), Type::complex(part))
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
                self.unify(&Type::fun(a.clone(), b.clone()), &f.ty.clone(), f.span, "expected a function")?;
                let g = self.check(g, &Type::fun(b.clone(), c.clone()))?;
                self.unify(&Type::fun(b.clone(), c.clone()), &g.ty.clone(), g.span, "expected a function")?;
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
                    self.unify(&array, &e.ty.clone(), e.span, "expected an array")?;
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
                        self.unify(&index, &i.ty.clone(), i.span, "expected an index of this array")?;
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

    /// Determines what is open by choice.
    fn choose(&mut self, choose: &mut dyn Choose, span: Span) -> Result<(), Diagnostic> {
        self.known_parts()?;
        self.known_magnitudes(true)?;
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
            let size = choose.size();
            let chosen = self.s.equal(&Nat::atom(Atom::Meta(i)), &size);
            chosen.map_err(|m| self.mismatch(&m, span))?;
        }
    }
}

/// Nodes that the funs written in place may have.
const INLINED: u32 = 100_000;

fn is_name(e: &Ast, name: &str) -> bool {
    matches!(&*e.kind, AstKind::Name(n) if &**n == name)
}

/// The members of a class, as messages name them.
fn named(c: Class) -> &'static str {
    match c {
        Class::Any | Class::Data => "data",
        Class::Single => "a scalar or an index",
        Class::Scalar => "a scalar",
        Class::Number => "a number",
        Class::Logical => "an integer or `bool`",
        Class::Float => "a float",
        Class::Integer => "an integer",
    }
}
