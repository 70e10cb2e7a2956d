//! Kernels that are generic in their element types.
//!
//! `kernel gemm<T in {f32, f64}>(A: T[M, K], …)` stands for the kernels `gemm`, for `f32`, and `gemm_f64`. They are made here,
//! on the syntax tree and before names mean anything, so that nothing after this knows of type parameters: each choice
//! is typed, scheduled, tuned and compiled as a kernel of its own. What the parameter stands for is written where a
//! type is: in the types of arrays, as a cast (`T(x)`), and in facts of strategies (`vector(T)`). Strategies and tests
//! that are for the generic kernel are for every choice; a test that sets `T = f32` is for that one. `kernel d = vjp(gemm)` is generic
//! like `gemm`.

use crate::ast::{
    self, Expr, ExprKind, Ident, Item, Kernel, Stmt, StmtKind, Subscript, Type, TypeKind, TypeParam,
};
use crate::codes;
use crate::lower::types::duplicate;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{self as ir, Scalar};
use lathe_space::Expr as Arith;
use lathe_strategy::{ArgValue, Definition, Strategy};
use std::collections::BTreeMap;

/// So many choices a kernel may have: each is a kernel of its own.
const MAX_CHOICES: usize = 64;

/// The kernels that a generic kernel stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Generic {
    /// Its type parameters, in the order of the source.
    pub params: Vec<String>,
    /// What the parameters stand for, and the name of the kernel.
    pub choices: Vec<(Vec<ir::Type>, String)>,
    /// The position of the choice that is taken where nobody chooses: of the defaults; without them of `f32`, or else
    /// of the type that is named first.
    pub default: usize,
}

impl Generic {
    /// The name of the kernel for these types; parameters that are not given have their defaults.
    ///
    /// # Errors
    /// What cannot be chosen, and what can.
    pub fn choose(&self, given: &BTreeMap<String, ir::Type>) -> Result<&str, String> {
        if let Some(unknown) = given.keys().find(|n| !self.params.contains(n)) {
            return Err(format!("`{unknown}` is no element type of it; there is {}", self.params.join(", ")));
        }
        let usual = &self.choices[self.default].0;
        let wanted: Vec<ir::Type> =
            self.params.iter().zip(usual).map(|(n, d)| given.get(n).unwrap_or(d).clone()).collect();
        if let Some(found) = self.choices.iter().find(|c| c.0 == wanted) {
            return Ok(&found.1);
        }
        let n = (0..wanted.len()).find(|n| self.choices.iter().all(|c| c.0[*n] != wanted[*n])).unwrap_or(0);
        let mut can: Vec<String> = self.choices.iter().map(|c| c.0[n].to_string()).collect();
        can.dedup();
        Err(format!("`{}` cannot be {}; it can be {}", self.params[n], wanted[n], can.join(", ")))
    }
}

/// What a generic kernel stands for, with all that is for it.
struct Choice {
    types: BTreeMap<String, Ident>,
    name: String,
}

/// Replaces generic kernels, and the strategies and tests for them, by those of each choice of types.
pub(crate) fn expand(
    items: Vec<(Item, bool)>,
    errors: &mut Vec<Diagnostic>,
) -> (Vec<(Item, bool)>, BTreeMap<String, Generic>) {
    let mut generics = BTreeMap::new();
    let mut choices: BTreeMap<String, Vec<Choice>> = BTreeMap::new();
    if !items.iter().any(|i| is_generic(&i.0)) {
        return (items, generics);
    }
    let mut seen: BTreeMap<String, (Ident, bool)> = BTreeMap::new();
    for (item, _) in &items {
        let Some(name) = named(item) else { continue };
        // Two kernels that are not generic are the business of whoever lowers them.
        if let Some((first, other)) = seen.get(&name.text) {
            if *other || is_generic(item) {
                errors.push(duplicate("kernel", &name, first.span));
            }
            continue;
        }
        seen.insert(name.text.clone(), (name, is_generic(item)));
        if let Item::Kernel(k) = item
            && is_generic(item)
            && let Some((generic, all)) = resolve(k, errors)
        {
            generics.insert(k.name.text.clone(), generic);
            choices.insert(k.name.text.clone(), all);
        }
    }
    derived(&items, &mut generics, &mut choices);
    let mut out = Vec::new();
    for (item, main) in items {
        let target = match &item {
            Item::Kernel(k) if !k.types.is_empty() => Some(&k.name.text),
            Item::Derived(d) => Some(&d.of_kernel.text),
            Item::Strategy(s) => s.target.as_ref().map(|t| &t.text),
            Item::Test(t) => Some(&t.kernel.text),
            _ => None,
        };
        match (target.and_then(|t| choices.get(t)), item) {
            (Some(all), Item::Kernel(k)) => {
                out.extend(all.iter().map(|c| (Item::Kernel(c.kernel(&k)), main)))
            }
            (Some(all), Item::Derived(d)) => {
                let names = choices.get(&d.name.text).into_iter().flatten();
                out.extend(all.iter().zip(names).map(|(of, own)| {
                    let mut d = d.clone();
                    (d.of_kernel.text, d.name.text) = (of.name.clone(), own.name.clone());
                    (Item::Derived(d), main)
                }));
            }
            (Some(all), Item::Strategy(s)) => {
                out.extend(all.iter().map(|c| (Item::Strategy(c.strategy(&s)), main)))
            }
            (Some(all), Item::Test(t)) => {
                let fit = all.iter().filter_map(|c| c.test(&t));
                let before = out.len();
                out.extend(fit.map(|t| (Item::Test(t), main)));
                if out.len() == before {
                    errors.push(
                        Diagnostic::error(
                            codes::TEST,
                            format!("the test \"{}\" is for no choice of types", t.name),
                        )
                        .at(t.kernel.span, "none of its choices has these types"),
                    );
                }
            }
            // What is wrong with it was said.
            (None, Item::Kernel(k)) if !k.types.is_empty() => {}
            (_, item) => out.push((item, main)),
        }
    }
    (out, generics)
}

/// Derivatives of generic kernels, and of such derivatives, are generic over the same types.
fn derived(
    items: &[(Item, bool)],
    generics: &mut BTreeMap<String, Generic>,
    choices: &mut BTreeMap<String, Vec<Choice>>,
) {
    let mut open: Vec<&ast::Derived> = items
        .iter()
        .filter_map(|(item, _)| if let Item::Derived(d) = item { Some(d) } else { None })
        .filter(|d| !generics.contains_key(&d.name.text))
        .collect();
    while let Some(n) = open.iter().position(|d| choices.contains_key(&d.of_kernel.text)) {
        let d = open.remove(n);
        let (of, name) = (&d.of_kernel.text, &d.name.text);
        let (Some(generic), Some(all)) = (generics.get(of), choices.get(of)) else { continue };
        let names =
            generic.choices.iter().enumerate().map(|(n, (types, _))| {
                if n == generic.default { name.clone() } else { own_name(name, types) }
            });
        let names: Vec<String> = names.collect();
        let own =
            all.iter().zip(&names).map(|(c, name)| Choice { types: c.types.clone(), name: name.clone() });
        let own: Vec<Choice> = own.collect();
        let types = generic.choices.iter().map(|c| c.0.clone());
        let made = Generic { choices: types.zip(names).collect(), ..generic.clone() };
        generics.insert(name.clone(), made);
        choices.insert(name.clone(), own);
    }
}

/// What a generic kernel is called for types that are not the default.
fn own_name(name: &str, types: &[ir::Type]) -> String {
    types.iter().fold(name.to_string(), |name, t| format!("{name}_{t}"))
}

fn is_generic(item: &Item) -> bool {
    matches!(item, Item::Kernel(k) if !k.types.is_empty())
}

/// The name of what can be run.
fn named(item: &Item) -> Option<Ident> {
    match item {
        Item::Kernel(k) => Some(k.name.clone()),
        Item::Derived(d) => Some(d.name.clone()),
        Item::Fun(f, _) => Some(Ident { text: f.name.to_string(), span: f.name_span }),
        _ => None,
    }
}

/// What the parameters of a kernel can be; reports what no type is.
fn resolve(k: &Kernel, errors: &mut Vec<Diagnostic>) -> Option<(Generic, Vec<Choice>)> {
    let mut params: Vec<(&TypeParam, Vec<ir::Type>, usize)> = Vec::new();
    for p in &k.types {
        if let Some((first, ..)) = params.iter().find(|o| o.0.name.text == p.name.text) {
            errors.push(duplicate("element type", &p.name, first.name.span));
            return None;
        }
        if ir::Type::element_named(&p.name.text).is_some() {
            let text = format!("`{}` is a built-in type", p.name.text);
            errors.push(Diagnostic::error(codes::DUPLICATE, text).at(p.name.span, "choose another name"));
            return None;
        }
        let mut all: Vec<ir::Type> = Vec::new();
        for c in &p.choices {
            let found = element(c, errors)?;
            if all.contains(&found) {
                let text = format!("`{}` is a choice of `{}` twice", c.text, p.name.text);
                errors.push(Diagnostic::error(codes::DUPLICATE, text).at(c.span, "again"));
                return None;
            }
            all.push(found);
        }
        if all.is_empty() {
            let text = format!("`{}` has no choices", p.name.text);
            errors.push(Diagnostic::error(codes::EXPECTED, text).at(p.name.span, "can be nothing"));
            return None;
        }
        let default = match &p.default {
            Some(d) => {
                let wanted = element(d, errors)?;
                let found = all.iter().position(|s| *s == wanted);
                if found.is_none() {
                    let text = format!("the default of `{}` is none of its choices", p.name.text);
                    errors.push(Diagnostic::error(codes::UNKNOWN_TYPE, text).at(d.span, "not in the set"));
                }
                found?
            }
            None => all.iter().position(|s| *s == ir::Type::F32).unwrap_or(0),
        };
        params.push((p, all, default));
    }
    let count = params.iter().try_fold(1usize, |n, p| n.checked_mul(p.1.len())).unwrap_or(usize::MAX);
    if count > MAX_CHOICES {
        let text = format!("`{}` stands for {count} kernels", k.name.text);
        errors.push(
            Diagnostic::error(codes::EXPECTED, text)
                .at(k.name.span, "too many choices")
                .help(format!("at most {MAX_CHOICES}: each is typed, checked and compiled by itself")),
        );
        return None;
    }
    let mut generic = Generic {
        params: k.types.iter().map(|p| p.name.text.clone()).collect(),
        choices: Vec::new(),
        default: 0,
    };
    generic.default = params.iter().fold(0, |n, p| n * p.1.len() + p.2);
    let mut choices = Vec::new();
    for n in 0..count {
        let (mut rest, mut digits) = (n, vec![0; params.len()]);
        for (d, p) in digits.iter_mut().zip(&params).rev() {
            (*d, rest) = (rest % p.1.len(), rest / p.1.len());
        }
        let scalars: Vec<ir::Type> = digits.iter().zip(&params).map(|(d, p)| p.1[*d].clone()).collect();
        let name = &k.name.text;
        let name = if generic.default == n { name.clone() } else { own_name(name, &scalars) };
        let types = digits
            .iter()
            .zip(&params)
            .map(|(d, p)| (p.0.name.text.clone(), p.0.choices[*d].clone()))
            .collect();
        generic.choices.push((scalars, name.clone()));
        choices.push(Choice { types, name });
    }
    Some((generic, choices))
}

fn element(name: &Ident, errors: &mut Vec<Diagnostic>) -> Option<ir::Type> {
    let found = ir::Type::element_named(&name.text);
    if found.is_none() {
        let known: Vec<&str> = Scalar::ALL.iter().map(|s| s.name()).chain(["c64", "c128"]).collect();
        errors.push(
            Diagnostic::error(codes::UNKNOWN_TYPE, format!("`{}` is no scalar or complex type", name.text))
                .at(name.span, "cannot be chosen")
                .help(format!("an element type is one of {}", known.join(", "))),
        );
    }
    found
}

impl Choice {
    fn kernel(&self, k: &Kernel) -> Kernel {
        let mut k = k.clone();
        k.types.clear();
        k.name.text = self.name.clone();
        for p in k.params.iter_mut().chain(&mut k.results) {
            self.in_type(&mut p.ty);
        }
        self.in_block(&mut k.body);
        k
    }

    fn strategy(&self, s: &ast::Strategy) -> ast::Strategy {
        let mut s = s.clone();
        if let Some(t) = &mut s.target {
            t.text = self.name.clone();
        }
        let Definition { params, constraints, target, body, .. } = &mut s.definition;
        *target = Some(self.name.clone());
        for p in params {
            let range = match &mut p.range {
                Some(lathe_space::Range::Interval { lo, hi, step }) => {
                    vec![Some(lo), Some(hi), step.as_mut()]
                }
                _ => Vec::new(),
            };
            for e in p.default.iter_mut().chain(range.into_iter().flatten()) {
                self.in_arithmetic(e, false);
            }
        }
        for c in constraints {
            self.in_arithmetic(c, false);
        }
        self.in_strategy(body);
        s
    }

    /// The test for this choice; `None` where it sets other types.
    fn test(&self, t: &ast::Test) -> Option<ast::Test> {
        let mut t = t.clone();
        for s in t.settings.iter().filter(|s| s.indices.is_none()) {
            if let Some(own) = self.types.get(&s.name.text)
                && s.value.as_name() != Some(&own.text)
            {
                return None;
            }
        }
        let free: Vec<String> = self
            .types
            .iter()
            .filter(|(n, _)| !t.settings.iter().any(|s| s.name.text == **n))
            .map(|(n, s)| format!("{n} = {}", s.text))
            .collect();
        if !free.is_empty() {
            t.name += &format!(" ({})", free.join(", "));
        }
        t.settings.retain(|s| !self.types.contains_key(&s.name.text));
        t.kernel.text = self.name.clone();
        for s in &mut t.settings {
            self.in_expr(&mut s.value);
        }
        self.in_block(&mut t.expect);
        for (_, e) in &mut t.data {
            self.in_expr(e);
        }
        Some(t)
    }

    fn in_type(&self, t: &mut Type) {
        match &mut t.kind {
            TypeKind::Name(name, args) => {
                if let Some(own) = self.types.get(&name.text) {
                    name.text = own.text.clone();
                }
                args.iter_mut().for_each(|e| self.in_expr(e));
            }
            TypeKind::Tuple(parts) => parts.iter_mut().for_each(|p| self.in_type(p)),
        }
        t.extents.iter_mut().flatten().for_each(|e| self.in_expr(e));
    }

    fn in_block(&self, body: &mut [Stmt]) {
        for s in body {
            match &mut s.kind {
                StmtKind::Assign { label: _, target, op: _, value, ranges } => {
                    self.in_expr(target);
                    self.in_expr(value);
                    ranges.iter_mut().for_each(|r| self.in_range(r));
                }
                StmtKind::For { var: _, lo, hi, step, body } => {
                    [Some(lo), Some(hi), step.as_mut()].into_iter().flatten().for_each(|e| self.in_expr(e));
                    self.in_block(body);
                }
                StmtKind::While { cond, body } => {
                    self.in_expr(cond);
                    self.in_block(body);
                }
                StmtKind::If { cond, then, other } => {
                    self.in_expr(cond);
                    self.in_block(then);
                    self.in_block(other.as_deref_mut().unwrap_or_default());
                }
                StmtKind::Let { name: _, value } => self.in_expr(value),
                StmtKind::Var { name: _, ty } => self.in_type(ty),
                StmtKind::Assume { cond } => self.in_expr(cond),
                StmtKind::Print { parts } => self.in_line(parts),
                StmtKind::Assert { cond, says } => {
                    self.in_expr(cond);
                    self.in_line(says);
                }
                StmtKind::Call { args, .. } => args.iter_mut().for_each(|a| self.in_expr(&mut a.value)),
                StmtKind::Break => {}
            }
        }
    }

    fn in_range(&self, r: &mut ast::Range) {
        if let Some((lo, hi)) = &mut r.bounds {
            self.in_expr(lo);
            self.in_expr(hi);
        }
    }

    fn in_line(&self, parts: &mut [ast::Printed]) {
        for p in parts {
            if let ast::Printed::Value(e) = p {
                self.in_expr(e);
            }
        }
    }

    /// Only what is called can be a type here: a name that is read is a value.
    fn in_expr(&self, e: &mut Expr) {
        match &mut e.kind {
            ExprKind::Int(_)
            | ExprKind::Large(_)
            | ExprKind::Float(_)
            | ExprKind::Imaginary(_)
            | ExprKind::Bool(_)
            | ExprKind::Name(_)
            | ExprKind::Error => {}
            ExprKind::Unary(_, a) | ExprKind::Field(a, _) | ExprKind::Component(a, ..) => self.in_expr(a),
            ExprKind::Binary(_, a, b) => {
                self.in_expr(a);
                self.in_expr(b);
            }
            ExprKind::Call(f, args) => {
                match &mut f.kind {
                    ExprKind::Name(n) => {
                        if let Some(own) = self.types.get(n) {
                            *n = own.text.clone();
                        }
                    }
                    _ => self.in_expr(f),
                }
                args.iter_mut().for_each(|a| self.in_expr(&mut a.value));
            }
            ExprKind::Index(a, subscripts) => {
                self.in_expr(a);
                for s in subscripts {
                    match s {
                        Subscript::Expr(e) => self.in_expr(e),
                        Subscript::Range(r) => self.in_range(r),
                    }
                }
            }
            ExprKind::Tuple(all) | ExprKind::List(all) => all.iter_mut().for_each(|e| self.in_expr(e)),
            ExprKind::Block(lets, e) => {
                lets.iter_mut().for_each(|l| self.in_expr(&mut l.1));
                self.in_expr(e);
            }
        }
    }

    fn in_strategy(&self, s: &mut Strategy) {
        match s {
            Strategy::Id | Strategy::Fail(_) => {}
            Strategy::Call { args, .. } => {
                for a in args {
                    match &mut a.value {
                        ArgValue::Strategy(s) => self.in_strategy(s),
                        ArgValue::Expr(e) => self.in_arithmetic(e, false),
                    }
                }
            }
            Strategy::Seq(all) | Strategy::Choice(all) => all.iter_mut().for_each(|s| self.in_strategy(s)),
            Strategy::At(s, place) => {
                self.in_strategy(s);
                self.in_strategy(place);
            }
            Strategy::If { cond, then, other, .. } => {
                self.in_arithmetic(cond, false);
                self.in_strategy(then);
                self.in_strategy(other);
            }
        }
    }

    /// A type is what a fact is asked about: `vector(T)`. Anywhere else the name is a loop's or a parameter's.
    fn in_arithmetic(&self, e: &mut Arith, asked: bool) {
        match e {
            Arith::Value(_) => {}
            Arith::Name(n) => {
                if let Some(own) = self.types.get(n).filter(|_| asked) {
                    *n = own.text.clone();
                }
            }
            Arith::Unary(_, a) => self.in_arithmetic(a, asked),
            Arith::Binary(_, a, b) => {
                self.in_arithmetic(a, asked);
                self.in_arithmetic(b, asked);
            }
            Arith::Call(_, args) => args.iter_mut().for_each(|a| self.in_arithmetic(a, true)),
        }
    }
}
