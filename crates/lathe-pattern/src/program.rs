//! A fun: sizes, parameters, what is known of the sizes, and the term.

use crate::ast::FunAst;
use crate::codes;
use crate::condition::fact_of;
use crate::facts::{Fact, Facts};
use crate::infer::{Env, infer};
use crate::nat::Nat;
use crate::parse::parse_funs;
use crate::term::Term;
use crate::types::{Type, TypeKind};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{CombineOp, Name};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    pub name: Name,
    pub ty: Type,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub name: Name,
    /// Types of data that are found where it is used.
    pub types: Vec<Name>,
    /// In the order in which parameters bind them.
    pub sizes: Vec<Name>,
    pub params: Vec<Param>,
    pub result: Type,
    /// The whole type as it is declared: complex numbers, which `params`, `result` and `term` have as pairs, by name.
    pub declared: Type,
    /// What a call must check: what the source says, and what inference and rewriting relied on.
    pub facts: Facts,
    /// Closed: one lambda per parameter around the body.
    pub term: Term,
    /// How deep the source's term may nest once all functions are applied.
    pub reach: u32,
    /// What combines tuples in its reductions, where that is associative and commutative, and they start from the identity.
    pub operators: Vec<CombineOp>,
}

impl Program {
    /// Types a fun; `funs` may be used in it.
    pub fn new(fun: &FunAst, funs: &BTreeMap<Name, Program>) -> Result<Program, Diagnostic> {
        let mut sizes: Vec<Name> = Vec::new();
        let mut places: BTreeMap<Name, Option<Span>> = BTreeMap::new();
        // `N` and `N + 2` bind N; what takes other sizes binds once they are bound.
        while let Some((v, span)) = fun.params.iter().find_map(|p| Some((binds(&p.ty, &sizes)?, p.span))) {
            places.insert(v.clone(), Some(span));
            sizes.push(v);
        }
        let unbound = |t: &Type| t.sizes().iter().flat_map(Nat::vars).find(|v| !sizes.contains(v));
        let spans = fun.params.iter().map(|p| (&p.ty, p.span)).chain([(&fun.result, fun.result_span)]);
        for (t, span) in spans {
            if let Some(v) = unbound(t) {
                return Err(Diagnostic::error(codes::UNKNOWN, format!("nothing binds the size `{v}`"))
                    .at(span, "used here")
                    .help(format!("a parameter of a type like `f32[{v}]` binds it")));
            }
        }
        let mut facts = Facts::default();
        for e in &fun.facts {
            for f in fact_of(e)? {
                facts.learn(f);
            }
        }
        if let Some(v) = facts.vars().iter().find(|v| !sizes.contains(v)) {
            return Err(Diagnostic::error(codes::UNKNOWN, format!("nothing binds the size `{v}`"))
                .at(fun.facts[0].span, "used here"));
        }
        let types = types(fun, &sizes)?;
        let env = Env { funs: funs.clone(), sizes: places, facts, ..Env::default() };
        let lambda = as_lambda(fun);
        let params = fun.params.iter().map(|p| p.ty.clone());
        let whole = Type::funs(params.collect::<Vec<_>>(), fun.result.clone());
        let typed = infer(&env, &lambda, Some((&whole, fun.result_span)))?;
        let mut facts = env.facts;
        for (f, _) in typed.obligations {
            facts.learn(f);
        }
        let params = fun.params.iter().map(|p| Param { name: p.name.clone(), ty: p.ty.in_parts() }).collect();
        Ok(Program {
            name: fun.name.clone(),
            types,
            sizes,
            params,
            result: fun.result.in_parts(),
            declared: whole,
            facts,
            term: typed.term,
            reach: typed.reach,
            operators: Vec::new(),
        })
    }

    /// Why it is for other funs only, whatever its translation: it takes functions, or its types are open.
    pub fn helps(&self) -> Option<Diagnostic> {
        let code = codes::NOT_DATA;
        if let Some(p) = self.params.iter().find(|p| !p.ty.is_data()) {
            let text =
                format!("`{}` takes the function `{}`, but a kernel takes only data", self.name, p.name);
            return Some(Diagnostic::error(code, text));
        }
        let t = self.types.first()?;
        Some(Diagnostic::error(
            code,
            format!("`{}` is generic in the type `{t}`, but a kernel has fixed types", self.name),
        ))
    }

    /// The same fun with another term, relying on more facts.
    pub fn with_term(&self, term: Term, more: impl IntoIterator<Item = Fact>) -> Program {
        let mut p = Program { term, ..self.clone() };
        for f in more {
            p.facts.learn(f);
        }
        p
    }

    /// The same fun where some sizes have values, which are part of it from here on.
    pub fn at_sizes(&self, values: &BTreeMap<Name, i64>) -> Program {
        let nat = |n: &Nat| n.replace_vars(&|v| values.get(v).map(|n| Nat::constant(*n)));
        let ty = |t: &Type| t.map_sizes(&mut |n| nat(n));
        Program {
            name: self.name.clone(),
            types: self.types.clone(),
            sizes: self.sizes.iter().filter(|n| !values.contains_key(*n)).cloned().collect(),
            params: self.params.iter().map(|p| Param { name: p.name.clone(), ty: ty(&p.ty) }).collect(),
            result: ty(&self.result),
            declared: ty(&self.declared),
            facts: Facts::new(self.facts.all().iter().map(|f| f.map(nat))),
            term: self.term.map_types(&mut |t| ty(t), &mut |n| nat(n)),
            reach: self.reach,
            operators: self.operators.clone(),
        }
    }

    /// What the term's type must be, however it is rewritten.
    pub fn ty(&self) -> Type {
        Type::funs(self.params.iter().map(|p| p.ty.clone()).collect::<Vec<_>>(), self.result.clone())
    }
}

/// The types that a fun leaves open: each has a name of its own and is in the type of a parameter.
fn types(fun: &FunAst, sizes: &[Name]) -> Result<Vec<Name>, Diagnostic> {
    let mut out: Vec<Name> = Vec::new();
    for (t, span) in &fun.types {
        let taken = if lathe_ir::Scalar::from_name(t).is_some() || matches!(&**t, "idx" | "vector") {
            Some("is already a type")
        } else if out.contains(t) {
            Some("is there twice")
        } else if sizes.contains(t) {
            Some("is also a size")
        } else {
            None
        };
        if let Some(why) = taken {
            return Err(
                Diagnostic::error(codes::ARGUMENTS, format!("the type `{t}` {why}")).at(*span, "here")
            );
        }
        if !fun.params.iter().any(|p| p.ty.mentions(t)) {
            let text = format!("the type `{t}` is not determined: no parameter has it");
            return Err(Diagnostic::error(codes::UNDETERMINED, text).at(*span, "here"));
        }
        out.push(t.clone());
    }
    Ok(out)
}

/// The first size that an extent of a type determines, the others being known: `c * N + …`.
fn binds(ty: &Type, known: &[Name]) -> Option<Name> {
    ty.sizes().iter().find_map(|n| {
        let mut open = n.vars().into_iter().filter(|v| !known.contains(v));
        let (v, None) = (open.next()?, open.next()) else { return None };
        let mut with = n
            .terms()
            .iter()
            .map(|t| &t.0)
            .filter(|m| m.atoms().iter().any(|(a, _)| Nat::atom(a.clone()).vars().contains(&v)));
        let (m, None) = (with.next()?, with.next()) else { return None };
        // The product with nothing else, or a quotient, does not tell.
        let alone = matches!(m.atoms(), [(a, 1)] if Nat::atom(a.clone()).as_var() == Some(&v));
        alone.then_some(v)
    })
}

/// The parameters as lambdas.
fn as_lambda(fun: &FunAst) -> crate::ast::Ast {
    use crate::ast::{Ast, AstKind, LamParam, Pattern};
    if fun.params.is_empty() {
        return fun.body.clone();
    }
    let params = fun
        .params
        .iter()
        .map(|p| LamParam::Data(Pattern::Name(p.name.clone()), Some(p.ty.clone())))
        .collect();
    Ast::new(AstKind::Lam(params, fun.body.clone()), fun.span)
}

/// Reads and types funs; later ones may use earlier ones.
pub fn programs(file: FileId, text: &str) -> Result<BTreeMap<Name, Program>, Diagnostic> {
    let mut out: BTreeMap<Name, Program> = BTreeMap::new();
    for f in parse_funs(file, text)? {
        let p = Program::new(&f, &out)?;
        if out.insert(f.name.clone(), p).is_some() {
            return Err(Diagnostic::error(codes::ARGUMENTS, format!("two funs are named `{}`", f.name))
                .at(f.span, "the second one"));
        }
    }
    Ok(out)
}

/// Reads and types one fun, the last one of the text.
pub fn program(text: &str) -> Result<Program, Diagnostic> {
    let last = parse_funs(FileId(0), text)?.last().map(|f| f.name.clone());
    let mut all = programs(FileId(0), text)?;
    last.and_then(|n| all.remove(&n)).ok_or_else(|| Diagnostic::error(codes::SYNTAX, "there is no fun"))
}

/// Whether a type is one that a kernel can take: arrays of scalars, or of tuples of scalars.
pub fn is_plain(t: &Type) -> bool {
    match t.kind() {
        TypeKind::Array(_, e) => is_plain(e),
        _ => t.is_element(),
    }
}
