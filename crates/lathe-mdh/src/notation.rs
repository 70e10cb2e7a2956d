//! The thesis's own notation (Sections 2.2 and 7), read into the same computes that index notation gives.
//!
//! ```text
//! MatVec<T in TYPE | I,K in IN> :=
//!     out_view<T>( w:(i,k)->(i) )
//!   o md_hom<I,K>( *, (++,+) )
//!   o inp_view<T,T>( M:(i,k)->(i,k), v:(i,k)->(k) )
//! ```
//!
//! The scalar function is `*`, `+`, `id`, or written out over the accesses in order: `(a,b,c) -> (a+b+c)/3`.
//! Operators are `++` (or `cc`), `pw(op)` (or just `op`) and `ps(op)`, where `op` is `+`, `*`, `min`, `max`, `all`,
//! `any`, or one that is declared (see [`parse_with`]). Shapes are derived and never written. Several accesses of one
//! buffer are listed in order: `I:(i)->(i),(i)->(i+1)`. A file holds any number of definitions; `#` starts a comment.

use crate::codes;
use crate::notation_rules as rules;
use crate::notation_scalar::{Scalars, covers, ends, index_expr, larger, never_negative};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{
    Access, Binder, Buffer, Combine, Compute, Dim, Expr, Function, Label, Mode, Module, Param, ParamKind,
    ReduceOp, Scalar, Space, Stage, Stmt, StmtKind, Type, build,
};
use lathe_space::{Expr as Text, parse::expression};
use lathe_syntax::{Cursor, Dialect, EXPRESSIONS, Grammar, Read, Rules, Tok, read_all};
use std::collections::BTreeMap;

/// The longest text, and the most dimensions, buffers and accesses of a definition.
const MOST_BYTES: usize = 1 << 20;
const MOST: usize = 64;

/// Reads a file: one function per definition. `types` says what type parameters stand for; others are `f32`.
///
/// # Errors
/// E1221 with the place where the text is another one, E1210 for subscripts below 0. What is read may still be
/// no homomorphism: [`crate::Homomorphism::of`] decides.
pub fn parse(file: FileId, text: &str, types: &BTreeMap<String, Scalar>) -> Result<Module, Diagnostic> {
    parse_with(file, text, types, Module::default())
}

/// As [`parse`], with the structs and operators of a module, to which the functions are added. Views name structs as
/// types, `better` and `ps(better)` are operators, and scalar functions read `x.field` and make `Name(a, b)`.
///
/// # Errors
/// As [`parse`].
pub fn parse_with(
    file: FileId,
    text: &str,
    types: &BTreeMap<String, Scalar>,
    mut module: Module,
) -> Result<Module, Diagnostic> {
    if text.len() > MOST_BYTES {
        return Err(Diagnostic::error(codes::NOTATION, format!("the text has more than {MOST_BYTES} bytes")));
    }
    let declared = Module { structs: module.structs.clone(), ops: module.ops.clone(), ..Module::default() };
    read_all(&NOTATION, &GRAMMAR, (file, text), |cursor| {
        let mut r = Reader { cursor, types, declared: &declared };
        while !r.ended() {
            let f = r.definition()?;
            if module.functions.contains_key(&f.name) {
                return r.fail(r.last_span(), &format!("`{}` is defined twice", f.name));
            }
            module.functions.insert(f.name.clone(), f);
        }
        Ok(())
    })?;
    Ok(module)
}

/// The notation of the thesis.
static NOTATION: Dialect = Dialect {
    symbols: &[
        ":=", "++", "->", "==", "!=", "<=", ">=", "//", ",", ":", ".", "+", "-", "*", "/", "%", "<", ">",
        "(", ")", "|", "→", "∘",
    ],
    comments: true,
    quotes: &[],
    hints: &[],
    ..EXPRESSIONS
};

static GRAMMAR: Grammar = Grammar {
    character: codes::NOTATION,
    number: codes::NOTATION,
    string: codes::NOTATION,
    expected: codes::NOTATION,
    nesting: codes::NOTATION,
    chain: codes::NOTATION,
    depth: 200,
    shallower: "move parts of it to other definitions",
};

struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    types: &'c BTreeMap<String, Scalar>,
    /// Structs and operators.
    declared: &'c Module,
}

lathe_syntax::parser!(<'a> Reader<'_, 'a>);

/// `(i,k)->(i,k+1)`: the indices, and each subscript with where it is.
struct Raw {
    indices: Vec<String>,
    subscripts: Vec<(Text, Span)>,
    span: Span,
}

/// A buffer of a view: its name and its accesses.
type View = (String, Vec<Raw>);

/// The extents, the scalar function, and the operators with where they are.
type Homomorphic = (Vec<String>, ScalarFunction, Vec<(Combine, Span)>);

enum ScalarFunction {
    /// `*`, `+`, `id`.
    Named(String, Span),
    /// Parameters, and each result.
    Written(Vec<String>, Vec<(Text, Span)>),
}

impl Reader<'_, '_> {
    fn fail<T>(&self, span: Span, message: &str) -> Read<T> {
        Err(self.error(codes::NOTATION, message, span, "here"))
    }

    fn ident(&mut self) -> Read<String> {
        self.name("a name").map(str::to_string)
    }

    /// What is between brackets.
    fn entries<T>(&mut self, open: &str, close: &str, one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let start = self.span();
        let out = self.listed(open, close, one)?;
        match out.len() > MOST {
            true => self.fail(start, &format!("there are more than {MOST} entries")),
            false => Ok(out),
        }
    }

    fn arrow(&mut self) -> Read<()> {
        if self.take("->") || self.take("→") { Ok(()) } else { self.expected("`->`") }
    }

    /// An expression, with where it is.
    fn entry(&mut self) -> Read<(Text, Span)> {
        let start = self.span();
        let e = expression(self)?;
        Ok((e, self.since(start)))
    }

    fn definition(&mut self) -> Read<Function> {
        let name = self.ident()?;
        let (mut generic, mut sizes) = (Vec::new(), Vec::new());
        if self.take("<") {
            // `T in TYPE | I,K in IN`, each half optional.
            while !self.take(">") {
                let mut names = vec![self.ident()?];
                while self.take(",") {
                    names.push(self.ident()?);
                }
                self.expect("in")?;
                match self.name("`TYPE` or `IN`")? {
                    "TYPE" => generic.extend(names),
                    "IN" => sizes.extend(names),
                    _ => return self.fail(self.last_span(), "parameters are `in TYPE` or `in IN`"),
                }
                let _ = self.take("|") || self.take(",");
            }
        }
        self.expect(":=")?;
        let (out_types, outputs) = self.view("out_view", &generic)?;
        self.compose()?;
        let (extents, f, operators) = self.md_hom()?;
        self.compose()?;
        let (in_types, inputs) = self.view("inp_view", &generic)?;
        let parts = Parts { name, sizes, extents, f, operators, inputs, in_types, outputs, out_types };
        self.function(parts)
    }

    fn compose(&mut self) -> Read<()> {
        if self.take("o") || self.take("∘") {
            Ok(())
        } else {
            self.expected("`o` between the three functions")
        }
    }

    fn view(&mut self, word: &str, generic: &[String]) -> Read<(Vec<Type>, Vec<View>)> {
        let start = self.expect(word)?;
        let types = self.entries("<", ">", |r| {
            let n = r.ident()?;
            let known = Scalar::from_name(&n).or_else(|| r.types.get(&n).copied());
            let param = generic.contains(&n).then_some(Scalar::F32);
            let own = r
                .declared
                .structs
                .get(n.as_str())
                .cloned()
                .map(Type::Struct)
                .or_else(|| Type::complex_named(&n));
            let found = known.or(param).map(Type::from).or(own);
            found.map_or_else(|| r.fail(r.last_span(), &format!("there is no type `{n}`")), Ok)
        })?;
        let mut views: Vec<View> = Vec::new();
        self.entries("(", ")", |r| {
            // Another access of the buffer before starts with a bracket.
            if !r.is("(") || views.is_empty() {
                let name = r.ident()?;
                if views.iter().any(|v| v.0 == name) {
                    return r.fail(r.last_span(), &format!("`{name}` has its accesses in one list"));
                }
                r.expect(":")?;
                views.push((name, Vec::new()));
            }
            let start = r.span();
            let indices = r.entries("(", ")", Self::ident)?;
            r.arrow()?;
            let subscripts = r.entries("(", ")", Self::entry)?;
            if let Some(v) = views.last_mut() {
                v.1.push(Raw { indices, subscripts, span: r.since(start) });
            }
            Ok(())
        })?;
        if types.len() != views.len() {
            let text = format!("{word} has {} types for {} buffers", types.len(), views.len());
            return self.fail(start, &text);
        }
        Ok((types, views))
    }

    fn md_hom(&mut self) -> Read<Homomorphic> {
        self.expect("md_hom")?;
        let extents = self.entries("<", ">", Self::ident)?;
        self.inside("(", ")", |r| {
            let f = r.scalar_function()?;
            r.expect(",")?;
            Ok((extents, f, r.entries("(", ")", Self::operator)?))
        })
    }

    /// `*`, `+`, `id`, `(a,b) -> a * b`, `(a,b) -> (a, b)`
    fn scalar_function(&mut self) -> Read<ScalarFunction> {
        if let Tok::Sym(f @ ("*" | "+")) | Tok::Name(f) = self.peek() {
            let span = self.span();
            self.advance();
            return Ok(ScalarFunction::Named(f.to_string(), span));
        }
        let params = self.entries("(", ")", Self::ident)?;
        self.arrow()?;
        let results =
            if self.is_tuple() { self.entries("(", ")", Self::entry)? } else { vec![self.entry()?] };
        match results.is_empty() {
            true => self.fail(self.last_span(), "a scalar function has a result"),
            false => Ok(ScalarFunction::Written(params, results)),
        }
    }

    /// Whether a bracket opens here that holds a whole result: `(x, x)` before the comma or the end.
    fn is_tuple(&self) -> bool {
        let mut depth = 0usize;
        for ahead in 0.. {
            match self.token(ahead).tok {
                Tok::Sym("(") => depth += 1,
                Tok::Sym(")") if depth > 0 => depth -= 1,
                Tok::End => return false,
                _ => {}
            }
            if depth == 0 {
                return ahead > 0 && self.is_at(ahead + 1, ",");
            }
        }
        false
    }

    /// `++`, `cc`, `pw(+)`, `+`, `ps(max)`, …
    fn operator(&mut self) -> Read<(Combine, Span)> {
        let start = self.span();
        let combine = if self.take("++") || self.take("cc") {
            Combine::Concat
        } else if self.is_at(1, "(") && self.take("pw") {
            Combine::Reduce(self.inside("(", ")", Self::reduction)?)
        } else if self.is_at(1, "(") && self.take("ps") {
            Combine::Scan(self.inside("(", ")", Self::reduction)?)
        } else {
            Combine::Reduce(self.reduction()?)
        };
        Ok((combine, self.since(start)))
    }

    fn reduction(&mut self) -> Read<ReduceOp> {
        let op = match self.peek() {
            Tok::Sym("+") => ReduceOp::Sum,
            Tok::Sym("*") => ReduceOp::Prod,
            Tok::Name(t @ ("sum" | "prod" | "min" | "max" | "all" | "any")) => ReduceOp::from_name(t),
            Tok::Name(t) if self.declared.ops.contains_key(t) => ReduceOp::User(t.into()),
            _ => return self.expected("a combine operator"),
        };
        self.advance();
        Ok(op)
    }

    fn function(&self, p: Parts) -> Read<Function> {
        let dims = p.extents.len();
        if p.operators.len() != dims {
            let at = p.operators.first().map_or(self.last_span(), |o| o.1);
            let text = format!("md_hom has {dims} dimensions, but {} combine operators", p.operators.len());
            return self.fail(at, &text);
        }
        if let Some((at, d)) = rules::one_operator(&p.operators) {
            return Err(d.at(at, "this operator"));
        }
        let mut func = Function::empty(&p.name, Stage::Plain);
        for s in p.sizes.iter().chain(&p.extents) {
            if func.size(s).is_none() {
                let b = func.fresh_var(s, Scalar::Index);
                func.sizes.push(b);
            }
        }
        let size = |func: &Function, n: &str| func.size(n).cloned();
        let extents: Option<Vec<Binder>> = p.extents.iter().map(|e| size(&func, e)).collect();
        let Some(extents) = extents else { return self.fail(self.last_span(), "an extent is not a size") };
        // Indices are called as in the first index function.
        let first = p.outputs.iter().chain(&p.inputs).flat_map(|v| &v.1).next();
        let names: Vec<String> = match first {
            Some(raw) if raw.indices.len() == dims => raw.indices.clone(),
            _ => (1..=dims).map(|d| format!("i{d}")).collect(),
        };
        let binders: Vec<Binder> = names.iter().map(|n| func.fresh_var(n, Scalar::Index)).collect();

        let (mut inputs, mut loads) = (Vec::new(), Vec::new());
        for ((name, raws), ty) in p.inputs.iter().zip(&p.in_types) {
            let (param, accesses) = self.buffer(&mut func, name, raws, ty, Mode::In, (&binders, &extents))?;
            inputs.push(param);
            loads.extend(accesses.into_iter().map(build::load));
        }
        let (mut outputs, mut targets) = (Vec::new(), Vec::new());
        for ((name, raws), ty) in p.outputs.iter().zip(&p.out_types) {
            if inputs.iter().any(|i| &**i.name() == name.as_str()) {
                let at = raws.first().map_or(self.last_span(), |r| r.span);
                return self.fail(at, &format!("`{name}` is both an input and an output"));
            }
            let (param, accesses) =
                self.buffer(&mut func, name, raws, ty, Mode::Out, (&binders, &extents))?;
            let at = raws.first().map_or(self.last_span(), |r| r.span);
            rules::told_apart(name, &accesses, &binders, &p.operators).map_err(|d| d.at(at, "this view"))?;
            outputs.push(param);
            targets.extend(accesses);
        }
        let wanted: Vec<Type> = targets.iter().map(|t| t.elem.clone()).collect();
        let scalars = Scalars { loads: &loads, indices: &binders, declared: self.declared };
        let values = match &p.f {
            ScalarFunction::Named(f, at) => scalars.named(f, *at, &wanted)?,
            ScalarFunction::Written(params, results) => scalars.written(params, results, &wanted)?,
        };
        let label = p.outputs.first().map_or(p.name.as_str(), |o| o.0.as_str());
        let all = binders.iter().zip(&extents).zip(&p.operators);
        let dims = all.map(|((b, n), (c, _))| Dim {
            binder: b.clone(),
            lo: build::index(0),
            hi: build::var(n),
            combine: c.clone(),
        });
        func.body = Stmt::of(StmtKind::Compute(Compute {
            label: Label::new(label),
            dims: dims.collect(),
            targets,
            values,
            guard: None,
            update: None,
        }));
        func.params = inputs.into_iter().chain(outputs).collect();
        Ok(func)
    }

    /// The parameter of a buffer, whose shape follows from its accesses.
    fn buffer(
        &self,
        func: &mut Function,
        name: &str,
        raws: &[Raw],
        ty: &Type,
        mode: Mode,
        dims: (&[Binder], &[Binder]),
    ) -> Read<(Param, Vec<Access>)> {
        let id = func.fresh_buf();
        let rank = raws.first().map_or(0, |r| r.subscripts.len());
        let mut extents: Vec<Option<Expr>> = vec![None; rank];
        let (mut accesses, mut kept) = (Vec::new(), mode);
        for raw in raws {
            if raw.indices.len() != dims.0.len() {
                let text = format!(
                    "this index function of `{name}` takes {} indices, not {}",
                    dims.0.len(),
                    raw.indices.len()
                );
                return self.fail(raw.span, &text);
            }
            if raw.subscripts.len() != rank {
                return self.fail(raw.span, &format!("`{name}` has {rank} subscripts elsewhere"));
            }
            let (mut subscripts, mut least) = (Vec::new(), Vec::new());
            for (d, (written, at)) in raw.subscripts.iter().enumerate() {
                let e = index_expr(written, &raw.indices, dims.0, &func.sizes)
                    .or_else(|why| self.fail(*at, &why))?;
                let (low, high) = ends(&e, dims, &func.sizes)
                    .map_or_else(|| self.fail(*at, "this subscript is not affine"), Ok)?;
                if !never_negative(&low) {
                    return Err(Diagnostic::error(
                        codes::LEAVES,
                        format!("a subscript of `{name}` may be below 0"),
                    )
                    .at(*at, "this subscript"));
                }
                let needed = high.offset(1);
                let needed =
                    needed.map_or_else(|| self.fail(*at, "this subscript does not fit 64 bits"), Ok)?;
                // With no index at all, an array has no element.
                let needed = match never_negative(&needed) {
                    true => needed.to_expr(),
                    false => build::max(needed.to_expr(), build::index(0)),
                };
                extents[d] = Some(match extents[d].take() {
                    Some(e) => larger(e, needed),
                    None => needed,
                });
                subscripts.push(e);
                least.push(low);
            }
            // What an output leaves out keeps the caller's values: a stride, a diagonal.
            if mode == Mode::Out && raws.len() == 1 && !covers(&subscripts, &least, dims.0) {
                kept = Mode::InOut;
            }
            accesses.push(Access::buffer(id, ty.clone(), subscripts));
        }
        let extents = extents.into_iter().flatten().collect();
        let buffer = Buffer::local(id, name, ty.clone(), extents, Space::Host);
        Ok((Param { kind: ParamKind::Array(buffer), mode: kept, alias: None }, accesses))
    }
}

struct Parts {
    name: String,
    sizes: Vec<String>,
    extents: Vec<String>,
    f: ScalarFunction,
    operators: Vec<(Combine, Span)>,
    inputs: Vec<View>,
    in_types: Vec<Type>,
    outputs: Vec<View>,
    out_types: Vec<Type>,
}
