//! `print` and `assert`: nothing, but in a kernel that is debugged.
//!
//! There they are ordinary statements: they write what they show to an array, the last parameter of the kernel. So every
//! engine runs them, and no step of a strategy can bring them out of order: each of them reads and writes the first element
//! of that array, which says how much of it is used. Who called the kernel shows what the array holds ([`shown`]).

pub use super::log::{Part, Site};
use super::scope::{Cx, place};
use crate::ast::{self, ExprKind as K, Printed, Subscript};
use crate::codes;
use lathe_diagnostics::{Span, visible};
use lathe_ir::stmt::block::{Item, rebuilt};
use lathe_ir::{
    Access, Expr, ExprKind, Mode, Param, ParamKind, Scalar, Space, Stmt, StmtKind, Store, Type, build,
};

/// The name of the parameter.
pub const LOG: &str = "debug.log";

/// How many elements the array has: how many are used behind the first two, how many statements found no room, then the
/// records, each the number of a site and its values.
pub const SLOTS: i64 = 1 << 18;

/// What only the `assert` that fails may use.
const RESERVED: i64 = 256;

/// The code of checks that are asserts.
pub const ASSERT: &str = "assert";

/// An `assert` that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub span: Span,
    /// What the program says about it; empty if it says nothing.
    pub text: String,
    /// `x[i] = 2.5`, for each name in the condition, then for each loop around.
    pub values: Vec<String>,
}

/// What a call showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// A line for each `print`, in their order.
    pub printed: Vec<String>,
    pub failed: Option<Failed>,
}

impl Cx<'_> {
    /// Begins: the parameter.
    pub(super) fn logs(&mut self) -> Param {
        let buffer = self.buffer(LOG, Type::from(Scalar::I64), vec![build::index(SLOTS)], Space::Host);
        self.log.buffer = Some(buffer.clone());
        Param { kind: ParamKind::Array(buffer), mode: Mode::InOut, alias: None }
    }

    pub(super) fn print(&mut self, parts: &[Printed], span: Span) -> Option<Vec<Item>> {
        let (mut pieces, parts, values) = self.line(parts)?;
        let site = Site { span, is_assert: false, parts, named: Vec::new() };
        let Some(record) = self.record(site, values) else { return Some(Vec::new()) };
        pieces.extend(record);
        Some(vec![Item::Do(rebuilt(pieces))])
    }

    pub(super) fn assert(&mut self, cond: &ast::Expr, says: &[Printed], span: Span) -> Option<Vec<Item>> {
        let c = self.expr_as(cond, &Type::BOOL);
        let c = c.and_then(|c| self.without_reductions(c, ASSERT));
        let line = self.line(says);
        let ((mut pieces, c), (mut inner, parts, mut values)) = (c?, line?);
        let mut site = Site { span, is_assert: true, parts, named: Vec::new() };
        if self.log.buffer.is_none() {
            self.log.sites.push(site);
            return Some(Vec::new());
        }
        let holds = self.fresh_var(ASSERT, Scalar::Bool);
        pieces.push(Item::Let(holds.clone(), c, place(span)));
        let mut named = Vec::new();
        // What only part of the condition reads may not be there when it fails.
        values_of(cond, is_whole(cond), &mut named);
        for l in self.loops.clone() {
            let span = Span::new(span.file, 0, 0);
            named.push(ast::Expr { kind: K::Name(l.name.to_string()), span, height: 1 });
        }
        for e in &named {
            let name = match e.as_name() {
                Some(n) => n.to_string(),
                None => self.written(e.span),
            };
            // Names of arrays and functions have no value, and need none.
            let before = self.errors.len();
            let value = self.shown(e);
            self.errors.truncate(before);
            if let Some((more, value)) = value
                && site.named.iter().all(|n| n.0 != name)
                && values.len() + value.ty().leaves().len() < RESERVED as usize
            {
                inner.extend(more);
                site.named.push((name, value.ty().clone()));
                leaves(value, &mut values);
            }
        }
        inner.extend(self.record(site, values).unwrap_or_default());
        let if_ = StmtKind::If { cond: build::not(build::var(&holds)), then: rebuilt(inner), other: None };
        pieces.push(Item::Do(Stmt::new(if_, place(span))));
        let (line, _) = self.map.line_column(span.file, span.start);
        let message = format!("the `assert` in line {line} does not hold").as_str().into();
        let check = StmtKind::Check { cond: build::var(&holds), code: ASSERT.into(), message };
        pieces.push(Item::Do(Stmt::new(check, place(span))));
        Some(vec![Item::Do(rebuilt(pieces))])
    }

    /// A line: what comes before it, its parts, and the scalars that they show. Parts are separated by blanks; a text takes
    /// what follows it for its `{}`.
    fn line(&mut self, all: &[Printed]) -> Option<(Vec<Item>, Vec<Part>, Vec<Expr>)> {
        let (mut pieces, mut parts, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut ok = true;
        let mut rest = all.iter();
        while let Some(p) = rest.next() {
            if !parts.is_empty() {
                parts.push(Part::Text(" ".to_string()));
            }
            let mut value = |cx: &mut Self, e: &ast::Expr, parts: &mut Vec<Part>| match cx.shown(e) {
                Some((more, value)) => {
                    pieces.extend(more);
                    parts.push(Part::Value(value.ty().clone()));
                    leaves(value, &mut values);
                }
                None => ok = false,
            };
            let (text, span) = match p {
                Printed::Value(e) => {
                    value(self, e, &mut parts);
                    continue;
                }
                Printed::Text(text, span) => (text, *span),
            };
            for piece in holes(text) {
                match piece {
                    Ok(Some(text)) => parts.push(Part::Text(text)),
                    Ok(None) => match rest.next() {
                        Some(Printed::Value(e)) => value(self, e, &mut parts),
                        _ => {
                            let message = "a `{}` in a text has no value: fewer follow than it has";
                            self.error(codes::ARGUMENTS, message, span, "this text");
                            self.help("a brace that is meant as such is doubled: `{{}}`");
                            return None;
                        }
                    },
                    Err(brace) => {
                        let message = format!("a single `{brace}` in a text that is shown");
                        self.error(codes::ARGUMENTS, message, span, "this text");
                        self.help("`{}` stands for the next value, `{{` and `}}` for braces");
                        return None;
                    }
                }
            }
        }
        ok.then_some((pieces, parts, values))
    }

    /// A value that can be shown, with what comes before it.
    fn shown(&mut self, e: &ast::Expr) -> Option<(Vec<Item>, Expr)> {
        let x = self.expr(e, None)?;
        let (pieces, x) = self.without_reductions(x, "print")?;
        if x.ty().leaves().len() as i64 >= RESERVED {
            let message = format!("this is too large to be shown: `{}`", x.ty());
            self.error(codes::NOT_YET, message, e.span, "has too many parts");
            self.help("name one of its parts");
            return None;
        }
        Some((pieces, x))
    }

    fn written(&self, span: Span) -> String {
        let text = self.map.text(span.file).get(span.start as usize..span.end as usize).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Writes the number of a site and its values behind what the array holds.
    fn record(&mut self, site: Site, values: Vec<Expr>) -> Option<Vec<Item>> {
        let (span, is_assert) = (site.span, site.is_assert);
        let number = self.log.sites.len() as i64;
        self.log.sites.push(site);
        let buffer = self.log.buffer.clone()?;
        let slot = |e: Expr| Access::buffer(buffer.id, buffer.elem.clone(), vec![e]).at(place(span));
        let store = |cx: &mut Self, at: Expr, value: Expr| {
            let label = cx.label(None, LOG);
            let instance = cx.loops.iter().map(build::var).collect();
            Stmt::new(StmtKind::Store(Store::new(label, instance, slot(at), value)), place(span))
        };
        let long = |v: i64| build::int(Scalar::I64, v);
        let load = |n: i64| build::load(slot(build::index(n)));
        let at = self.fresh_var("debug.at", Scalar::Index);
        let size = values.len() as i64 + 1;
        let first = Item::Let(at.clone(), build::cast(Type::INDEX, load(0)), place(span));
        let behind = |n: i64| build::add(build::var(&at), build::index(n + 2));
        let mut all = vec![store(self, behind(0), long(number))];
        for (n, v) in values.into_iter().enumerate() {
            all.push(store(self, behind(n as i64 + 1), bits(v)));
        }
        all.push(store(self, build::index(0), build::add(load(0), long(size))));
        let last = SLOTS - 2 - size - if is_assert { 0 } else { RESERVED };
        let room = build::and(
            build::le(build::index(0), build::var(&at)),
            build::le(build::var(&at), build::index(last)),
        );
        let missed = store(self, build::index(1), build::add(load(1), long(1)));
        let kind = StmtKind::If { cond: room, then: Stmt::seq(all), other: Some(missed) };
        Some(vec![first, Item::Do(Stmt::new(kind, place(span)))])
    }
}

/// A text, cut at its `{}`, which are `None`; or a brace that is neither doubled nor one of these.
fn holes(text: &str) -> Vec<Result<Option<String>, char>> {
    let (mut out, mut now) = (Vec::new(), String::new());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('{', Some('{')) | ('}', Some('}')) => {
                chars.next();
                now.push(c);
            }
            ('{', Some('}')) => {
                chars.next();
                out.push(Ok(Some(std::mem::take(&mut now))));
                out.push(Ok(None));
            }
            ('{' | '}', _) => out.push(Err(c)),
            _ => now.push(c),
        }
    }
    out.push(Ok(Some(now)));
    out
}

/// The scalars of a value, in order.
fn leaves(e: Expr, out: &mut Vec<Expr>) {
    match e.ty().fields().len() {
        0 => out.push(e),
        n => (0..n).for_each(|i| leaves(build::field(e.clone(), i as u32), out)),
    }
}

/// A scalar as 64 bits.
fn bits(v: Expr) -> Expr {
    let long = Type::from(Scalar::I64);
    match v.ty().is_float() {
        true => Expr::new(ExprKind::Bitcast(build::cast(Type::from(Scalar::F64), v)), long),
        false => build::cast(long, v),
    }
}

/// Whether all of an expression is evaluated wherever it is.
fn is_whole(e: &ast::Expr) -> bool {
    match &e.kind {
        K::Binary(ast::BinOp::And | ast::BinOp::Or, ..) | K::Call(..) | K::Block(..) => false,
        K::Binary(_, a, b) => is_whole(a) && is_whole(b),
        K::Unary(_, a) | K::Field(a, _) | K::Component(a, ..) => is_whole(a),
        K::Index(_, subs) => subs.iter().all(|s| matches!(s, Subscript::Expr(e) if is_whole(e))),
        _ => true,
    }
}

/// The names and, where all of it is evaluated, the elements in an expression.
fn values_of(e: &ast::Expr, elements: bool, out: &mut Vec<ast::Expr>) {
    match &e.kind {
        K::Name(_) => out.push(e.clone()),
        K::Index(_, subs) => {
            if elements {
                out.push(e.clone());
            }
            for s in subs {
                if let Subscript::Expr(e) = s {
                    values_of(e, elements, out);
                }
            }
        }
        K::Field(a, _) | K::Component(a, ..) => {
            if elements {
                out.push(e.clone());
            }
            values_of(a, elements, out);
        }
        K::Unary(_, a) => values_of(a, elements, out),
        K::Binary(_, a, b) => {
            values_of(a, elements, out);
            values_of(b, elements, out);
        }
        K::Call(_, args) => args.iter().for_each(|a| values_of(&a.value, elements, out)),
        _ => {}
    }
}

/// What the array of a call holds.
pub fn shown(sites: &[Site], log: &[i64]) -> Shown {
    let mut out = Shown::default();
    let [used, missed, records @ ..] = log else { return out };
    let records = records.get(..usize::try_from(*used).unwrap_or(0)).unwrap_or(records);
    let mut records = records.iter().copied();
    let mut too_many = (*missed > 0).then(|| format!("… {missed} more were dropped"));
    while let Some(number) = records.next() {
        let Some(site) = usize::try_from(number).ok().and_then(|n| sites.get(n)) else { break };
        let mut line = String::new();
        for p in &site.parts {
            match p {
                Part::Text(text) => line += &visible(text),
                Part::Value(ty) => line += &value(ty, &mut records),
            }
        }
        if site.is_assert {
            let values = site.named.iter();
            let values = values.map(|(name, ty)| format!("{name} = {}", value(ty, &mut records))).collect();
            // It is the last record, behind what was dropped.
            out.printed.extend(too_many.take());
            out.failed = Some(Failed { span: site.span, text: line, values });
        } else {
            out.printed.push(line);
        }
    }
    out.printed.extend(too_many);
    out
}

/// The next value.
fn value(ty: &Type, bits: &mut impl Iterator<Item = i64>) -> String {
    if let Type::Scalar(s) = ty {
        return scalar(bits.next().unwrap_or(0), *s);
    }
    let parts: Vec<String> = ty.fields().iter().map(|t| value(t, bits)).collect();
    match (ty, parts.as_slice()) {
        (t, [re, im]) if t.complex_part().is_some() => match im.strip_prefix('-') {
            Some(im) => format!("{re} - {im}i"),
            None => format!("{re} + {im}i"),
        },
        (Type::Struct(s), _) => {
            let parts: Vec<String> =
                s.fields.iter().zip(parts).map(|(f, v)| format!("{}: {v}", f.0)).collect();
            format!("{}({})", s.name, parts.join(", "))
        }
        _ => format!("({})", parts.join(", ")),
    }
}

/// The shortest number that is this value of its type; of floats of 16 bits, as one of 32.
fn scalar(bits: i64, ty: Scalar) -> String {
    let double = f64::from_bits(bits as u64);
    match ty {
        Scalar::Bool => (bits != 0).to_string(),
        Scalar::U64 => (bits as u64).to_string(),
        Scalar::F64 => format!("{double:?}"),
        Scalar::F16 | Scalar::Bf16 | Scalar::F32 => format!("{:?}", double as f32),
        _ => bits.to_string(),
    }
}
