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
//! Operators are `++` (or `cc`), `pw(op)` (or just `op`) and `ps(op)`, where `op` is `+`, `*`, `min`, `max`,
//! `all`, `any`, or one that is declared (see [`parse_with`]). Shapes are derived and never written. Several accesses of one buffer are listed in order:
//! `I:(i)->(i),(i)->(i+1)`. A file holds any number of definitions; `#` starts a comment.

use crate::codes;
use crate::notation_rules as rules;
use crate::notation_scalar::{Scalars, covers, ends, index_expr, larger, never_negative, operator};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::{
    Access, Binder, Buffer, Combine, Compute, Dim, Expr, Function, Label, Layout, Mode, Module, Param,
    ParamKind, Scalar, Space, Stage, Stmt, StmtKind, Type, build,
};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    let mut r = Reader { file, text, at: 0, types, declared: &declared };
    r.skip();
    while r.at < text.len() {
        let f = r.definition()?;
        if module.functions.contains_key(&f.name) {
            return r.fail(&format!("`{}` is defined twice", f.name));
        }
        module.functions.insert(f.name.clone(), f);
        r.skip();
    }
    Ok(module)
}

struct Reader<'a> {
    file: FileId,
    text: &'a str,
    at: usize,
    types: &'a BTreeMap<String, Scalar>,
    /// Structs and operators.
    declared: &'a Module,
}

/// `(i,k)->(i,k+1)`: the indices, and the text of each subscript with where it stands.
struct Raw {
    indices: Vec<String>,
    subscripts: Vec<(String, usize)>,
}

/// A buffer of a view: its name and its accesses.
type View = (String, Vec<Raw>);

/// The extents, the scalar function, and the operators with where they stand.
type Homomorphic = (Vec<String>, ScalarFunction, Vec<(Combine, usize)>);

enum ScalarFunction {
    /// `*`, `+`, `id`.
    Named(String, usize),
    /// Parameters, and the text of each result.
    Written(Vec<String>, Vec<(String, usize)>),
}

impl Reader<'_> {
    fn skip(&mut self) {
        loop {
            let rest = &self.text[self.at..];
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            if !self.text[self.at..].starts_with('#') {
                return;
            }
            self.at += self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
        }
    }

    fn fail<T>(&self, message: &str) -> Result<T, Diagnostic> {
        self.fail_at(self.at, message)
    }

    fn fail_at<T>(&self, at: usize, message: &str) -> Result<T, Diagnostic> {
        let next = self.text[at..].chars().next().map_or(0, char::len_utf8);
        Err(Diagnostic::error(codes::NOTATION, message).at(Span::new(self.file, at, at + next), "here"))
    }

    fn eat(&mut self, word: &str) -> bool {
        self.skip();
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<(), Diagnostic> {
        if self.eat(word) { Ok(()) } else { self.fail(&format!("`{word}` is expected here")) }
    }

    fn name(&mut self) -> Result<String, Diagnostic> {
        self.skip();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        if end == 0 || rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.fail("a name is expected here");
        }
        self.at += end;
        Ok(rest[..end].to_string())
    }

    /// Names between commas, up to a closing word.
    fn names(&mut self, close: &str) -> Result<Vec<String>, Diagnostic> {
        let mut out = Vec::new();
        if self.eat(close) {
            return Ok(out);
        }
        loop {
            out.push(self.name()?);
            if out.len() > MOST {
                return self.fail(&format!("there are more than {MOST} names"));
            }
            if self.eat(close) {
                return Ok(out);
            }
            self.expect(",")?;
        }
    }

    fn arrow(&mut self) -> Result<(), Diagnostic> {
        if self.eat("->") || self.eat("→") { Ok(()) } else { self.fail("`->` is expected here") }
    }

    /// The text up to the next comma or bracket that closes what is open.
    fn raw(&mut self) -> Result<(String, usize), Diagnostic> {
        self.skip();
        let (start, mut depth) = (self.at, 0usize);
        for (n, c) in self.text[start..].char_indices() {
            match c {
                '(' => depth += 1,
                ')' | ',' if depth == 0 => {
                    self.at = start + n;
                    return Ok((self.text[start..self.at].trim().to_string(), start));
                }
                ')' => depth -= 1,
                _ => {}
            }
        }
        self.fail_at(start, "a bracket is not closed")
    }

    /// `(a, b+1, c)`
    fn list(&mut self) -> Result<Vec<(String, usize)>, Diagnostic> {
        self.expect("(")?;
        let mut out = Vec::new();
        if self.eat(")") {
            return Ok(out);
        }
        loop {
            out.push(self.raw()?);
            if out.len() > MOST {
                return self.fail(&format!("there are more than {MOST} entries"));
            }
            if self.eat(")") {
                return Ok(out);
            }
            self.expect(",")?;
        }
    }

    fn definition(&mut self) -> Result<Function, Diagnostic> {
        let name = self.name()?;
        let (mut generic, mut sizes) = (Vec::new(), Vec::new());
        if self.eat("<") {
            // `T in TYPE | I,K in IN`, each half optional.
            while !self.eat(">") {
                let mut names = vec![self.name()?];
                while self.eat(",") {
                    names.push(self.name()?);
                }
                self.expect("in")?;
                match self.name()?.as_str() {
                    "TYPE" => generic.extend(names),
                    "IN" => sizes.extend(names),
                    _ => return self.fail("parameters are `in TYPE` or `in IN`"),
                }
                let _ = self.eat("|") || self.eat(",");
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

    fn compose(&mut self) -> Result<(), Diagnostic> {
        self.skip();
        let word = self.text[self.at..].starts_with("o ") || self.text[self.at..].starts_with("o\n");
        if word {
            self.at += 1;
            return Ok(());
        }
        if self.eat("∘") { Ok(()) } else { self.fail("`o` is expected between the three functions") }
    }

    fn view(&mut self, word: &str, generic: &[String]) -> Result<(Vec<Type>, Vec<View>), Diagnostic> {
        self.expect(word)?;
        self.expect("<")?;
        let at = self.at;
        let mut types = Vec::new();
        for n in self.names(">")? {
            let known = Scalar::from_name(&n).or_else(|| self.types.get(&n).copied());
            let param = generic.contains(&n).then_some(Scalar::F32);
            let own = self.declared.structs.get(n.as_str()).cloned().map(Type::Struct);
            match known.or(param).map(Type::from).or(own) {
                Some(t) => types.push(t),
                None => return self.fail_at(at, &format!("there is no type `{n}`")),
            }
        }
        self.expect("(")?;
        let mut views: Vec<View> = Vec::new();
        while !self.eat(")") {
            self.skip();
            // Another access of the buffer before starts with a bracket.
            if !self.text[self.at..].starts_with('(') || views.is_empty() {
                let name = self.name()?;
                if views.iter().any(|v| v.0 == name) {
                    return self.fail(&format!("`{name}` has its accesses in one list"));
                }
                self.expect(":")?;
                views.push((name, Vec::new()));
            }
            self.expect("(")?;
            let indices = self.names(")")?;
            self.arrow()?;
            let subscripts = self.list()?;
            if let Some(v) = views.last_mut() {
                v.1.push(Raw { indices, subscripts });
            }
            if views.iter().map(|v| v.1.len()).sum::<usize>() > MOST {
                return self.fail(&format!("there are more than {MOST} accesses"));
            }
            if !self.eat(",") {
                self.expect(")")?;
                break;
            }
        }
        if types.len() != views.len() {
            return self
                .fail_at(at, &format!("{word} has {} types for {} buffers", types.len(), views.len()));
        }
        Ok((types, views))
    }

    fn md_hom(&mut self) -> Result<Homomorphic, Diagnostic> {
        self.expect("md_hom")?;
        self.expect("<")?;
        let extents = self.names(">")?;
        self.expect("(")?;
        self.skip();
        let f = if self.text[self.at..].starts_with('(') {
            self.at += 1;
            let params = self.names(")")?;
            self.arrow()?;
            self.skip();
            let results = if self.text[self.at..].starts_with('(') && self.is_tuple() {
                self.list()?
            } else {
                vec![self.raw()?]
            };
            ScalarFunction::Written(params, results)
        } else {
            let (f, at) = self.raw()?;
            ScalarFunction::Named(f, at)
        };
        self.expect(",")?;
        let mut operators = Vec::new();
        for (t, at) in self.list()? {
            match operator(&t, self.declared) {
                Some(c) => operators.push((c, at)),
                None => return self.fail_at(at, &format!("`{}` is no combine operator", t.escape_debug())),
            }
        }
        self.expect(")")?;
        Ok((extents, f, operators))
    }

    /// Whether the bracket that opens here holds a whole result: `(x, x)` before the comma or the end.
    fn is_tuple(&self) -> bool {
        let mut depth = 0usize;
        for (n, c) in self.text[self.at..].char_indices() {
            match c {
                '(' => depth += 1,
                ')' => {
                    depth -= 1;
                    if depth == 0 {
                        return self.text[self.at + n + 1..].trim_start().starts_with(',');
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn function(&self, p: Parts) -> Result<Function, Diagnostic> {
        let dims = p.extents.len();
        if p.operators.len() != dims {
            let at = p.operators.first().map_or(self.at, |o| o.1);
            let text = format!("md_hom has {dims} dimensions, but {} combine operators", p.operators.len());
            return self.fail_at(at.min(self.text.len()), &text);
        }
        if let Some((at, d)) = rules::one_operator(&p.operators) {
            return Err(d.at(Span::new(self.file, at, at), "this operator"));
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
        let Some(extents) = extents else { return self.fail("an extent is no size") };
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
                return self.fail(&format!("`{name}` is both an input and an output"));
            }
            let (param, accesses) =
                self.buffer(&mut func, name, raws, ty, Mode::Out, (&binders, &extents))?;
            let at = raws.iter().flat_map(|r| &r.subscripts).next().map_or(self.at, |s| s.1);
            rules::told_apart(name, &accesses, &binders, &p.operators).map_err(|d| {
                d.at(Span::new(self.file, at.min(self.text.len()), at.min(self.text.len())), "this view")
            })?;
            outputs.push(param);
            targets.extend(accesses);
        }
        let wanted: Vec<Type> = targets.iter().map(|t| t.elem.clone()).collect();
        let scalars = Scalars { file: self.file, loads: &loads, indices: &binders, declared: self.declared };
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
    ) -> Result<(Param, Vec<Access>), Diagnostic> {
        let id = func.fresh_buf();
        let rank = raws.first().map_or(0, |r| r.subscripts.len());
        let mut extents: Vec<Option<Expr>> = vec![None; rank];
        let (mut accesses, mut kept) = (Vec::new(), mode);
        for raw in raws {
            let at = raw.subscripts.first().map_or(self.at, |s| s.1).min(self.text.len());
            if raw.indices.len() != dims.0.len() {
                let text = format!(
                    "this index function of `{name}` takes {} indices, not {}",
                    dims.0.len(),
                    raw.indices.len()
                );
                return self.fail_at(at, &text);
            }
            if raw.subscripts.len() != rank {
                return self.fail_at(at, &format!("`{name}` has {rank} subscripts elsewhere"));
            }
            let (mut subscripts, mut least) = (Vec::new(), Vec::new());
            for (d, (text, at)) in raw.subscripts.iter().enumerate() {
                let e = index_expr(text, &raw.indices, dims.0, &func.sizes)
                    .or_else(|why| self.fail_at(*at, &why))?;
                let (low, high) = ends(&e, dims, &func.sizes)
                    .map_or_else(|| self.fail_at(*at, "this subscript is not affine"), Ok)?;
                if !never_negative(&low) {
                    return Err(Diagnostic::error(
                        codes::LEAVES,
                        format!("a subscript of `{name}` may be below 0"),
                    )
                    .at(Span::new(self.file, *at, at + text.len()), "this subscript"));
                }
                let needed = high.offset(1);
                let needed =
                    needed.map_or_else(|| self.fail_at(*at, "this subscript does not fit 64 bits"), Ok)?;
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
        let buffer = Buffer {
            id,
            name: name.into(),
            elem: ty.clone(),
            extents: extents.into_iter().flatten().collect(),
            space: Space::Host,
            layout: Layout::row_major(),
        };
        Ok((Param { kind: ParamKind::Array(Arc::new(buffer)), mode: kept, alias: None }, accesses))
    }
}

struct Parts {
    name: String,
    sizes: Vec<String>,
    extents: Vec<String>,
    f: ScalarFunction,
    operators: Vec<(Combine, usize)>,
    inputs: Vec<View>,
    in_types: Vec<Type>,
    outputs: Vec<View>,
    out_types: Vec<Type>,
}
