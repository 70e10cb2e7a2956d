//! The text of typed terms; it parses back to the same term.

use crate::names::is_primitive;
use crate::prim::Prim;
use crate::term::{Term, TermKind};
use crate::types::{DepArg, Kind, Type};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{BinOp, Name, Scalar, UnOp};
use std::fmt;

/// How tightly an expression binds.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Level {
    Lambda,
    Pipe,
    Or,
    And,
    Not,
    Compare,
    Add,
    Mul,
    Unary,
    Call,
}

struct Printer {
    /// Names of the binders around, outermost first.
    names: Vec<Name>,
    /// Names that are taken: free variables.
    taken: Vec<Name>,
    /// Whether lambdas say the types of their parameters.
    typed: bool,
}

/// The text; lambdas say the types of their parameters if `typed`.
pub fn print(t: &Term, typed: bool) -> String {
    print_under(t, typed, &[])
}

/// As [`print()`], for a term under binders of these names, outermost first.
pub fn print_under(t: &Term, typed: bool, outer: &[Name]) -> String {
    let mut p = Printer { names: outer.to_vec(), taken: t.free_names(), typed };
    p.term(t, Level::Lambda)
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print(self, false))
    }
}

impl Printer {
    /// A name for a binder that hides nothing that the body mentions.
    fn fresh(&self, hint: &Name, ty: Option<&Type>) -> Name {
        let base = match &**hint {
            "" | "_" => "x",
            h => h,
        };
        let clash = |n: &str| {
            self.names.iter().chain(&self.taken).any(|x| &**x == n)
                || is_primitive(n)
                || Scalar::from_name(n).is_some()
                || ty.is_some_and(|t| t.sizes().iter().any(|s| s.vars().iter().any(|v| &**v == n)))
        };
        if !clash(base) {
            return Name::from(base);
        }
        let stem = base.trim_end_matches(|c: char| c.is_ascii_digit());
        let stem = if stem.is_empty() { "x" } else { stem };
        (1..).map(|n| format!("{stem}{n}")).find(|n| !clash(n)).map_or_else(|| hint.clone(), Name::from)
    }

    fn wrap(&self, text: String, own: Level, wanted: Level) -> String {
        if own < wanted { format!("({text})") } else { text }
    }

    fn term(&mut self, t: &Term, wanted: Level) -> String {
        match t.kind() {
            TermKind::Bound(i) => match self.names.len().checked_sub(1 + *i as usize) {
                Some(n) => self.names[n].to_string(),
                None => format!("outer{}", *i as usize - self.names.len()),
            },
            TermKind::Free(n) => n.to_string(),
            TermKind::Lit(v) => {
                let text = literal(*v);
                let own = if text.starts_with('-') { Level::Unary } else { Level::Call };
                self.wrap(text, own, wanted)
            }
            TermKind::Prim(p) => prim_text(p, &[]),
            TermKind::Lam(..) | TermKind::DepLam(..) => {
                let text = self.lambda(t);
                self.wrap(text, Level::Lambda, wanted)
            }
            TermKind::DepApp(f, a) => {
                let arg = match a {
                    DepArg::Nat(n) => n.to_string(),
                    DepArg::Data(t) => t.to_string(),
                };
                format!("{}({arg})", self.term(f, Level::Call))
            }
            TermKind::App(..) => self.application(t, wanted),
        }
    }

    fn lambda(&mut self, t: &Term) -> String {
        let (mut params, mut body, known) = (Vec::new(), t, self.names.len());
        loop {
            match body.kind() {
                TermKind::Lam(hint, b) => {
                    let from = body.ty().as_fun().map(|f| f.0.clone());
                    let name = if b.mentions(0) { self.fresh(hint, from.as_ref()) } else { Name::from("_") };
                    params.push(match (&from, self.typed) {
                        (Some(ty), true) => format!("{name}: {ty}"),
                        _ => name.to_string(),
                    });
                    self.names.push(name);
                    body = b;
                }
                TermKind::DepLam(k, x, b) => {
                    let kind = if *k == Kind::Nat { "nat" } else { "data" };
                    params.push(format!("{x}: {kind}"));
                    body = b;
                }
                _ => break,
            }
        }
        let inner = self.term(body, Level::Lambda);
        self.names.truncate(known);
        format!("|{}| {inner}", params.join(", "))
    }

    fn application(&mut self, t: &Term, wanted: Level) -> String {
        if let Some((p, args)) = t.spine() {
            let binary = |op: BinOp| match op {
                BinOp::Or => Some(Level::Or),
                BinOp::And => Some(Level::And),
                _ if op.is_comparison() => Some(Level::Compare),
                BinOp::Add | BinOp::Sub => Some(Level::Add),
                BinOp::Mul | BinOp::Div | BinOp::FloorDiv | BinOp::FloorMod => Some(Level::Mul),
                _ => None,
            };
            match (p, args.as_slice()) {
                (Prim::Binary(op), [a, b]) => {
                    if let Some(own) = binary(*op) {
                        let tighter = match own {
                            Level::Or => Level::And,
                            Level::And => Level::Not,
                            Level::Compare => Level::Add,
                            Level::Add => Level::Mul,
                            _ => Level::Unary,
                        };
                        let left = if own == Level::Compare { tighter } else { own };
                        let (a, b) = (self.term(a, left), self.term(b, tighter));
                        return self.wrap(format!("{a} {} {b}", op.symbol()), own, wanted);
                    }
                }
                (Prim::Unary(op), [a]) => {
                    let (sign, own) =
                        if *op == UnOp::Neg { ("-", Level::Unary) } else { ("not ", Level::Not) };
                    let number = matches!(a.kind(), TermKind::Lit(_));
                    let a = self.term(a, own);
                    // `--x` would be read as one sign each; `- 1` as a number.
                    let literal = number || a.starts_with('-');
                    let a = if sign == "-" && literal { format!("({a})") } else { a };
                    if sign == "-" && literal {
                        return format!("neg{a}");
                    }
                    return self.wrap(format!("{sign}{a}"), own, wanted);
                }
                (Prim::Tuple(n), _) if args.len() == *n && *n > 1 => {
                    let parts: Vec<String> = args.iter().map(|a| self.term(a, Level::Lambda)).collect();
                    return format!("({})", parts.join(", "));
                }
                (Prim::Proj(i, _), [a]) => {
                    let a = self.term(a, Level::Call);
                    return format!("{a}.{i}");
                }
                (Prim::AtNat(i), [a]) if i.as_constant().is_some() => {
                    let a = self.term(a, Level::Call);
                    return format!("{a}[{i}]");
                }
                (Prim::At, [i, a]) => {
                    let i = self.term(i, Level::Lambda);
                    let a = self.term(a, Level::Call);
                    return format!("{a}[{i}]");
                }
                (Prim::Let, [e, f]) => {
                    if let TermKind::Lam(hint, b) = f.kind() {
                        let e = self.term(e, Level::Pipe);
                        let name =
                            if b.mentions(0) { self.fresh(hint, Some(e_type(f))) } else { Name::from("_") };
                        self.names.push(name.clone());
                        let b = self.term(b, Level::Lambda);
                        self.names.pop();
                        return self.wrap(format!("let {name} = {e} in {b}"), Level::Lambda, wanted);
                    }
                }
                _ => {}
            }
            // The one argument that is data: `xs |> f(a)`.
            let own: Vec<&Term> = args.clone();
            if own.len() == p.arity() && own.len() + p.nats().len() > 1 && pipes(p) {
                let (data, rest) = (own[own.len() - 1], &own[..own.len() - 1]);
                let data = self.term(data, Level::Pipe);
                // Nothing else says how many elements `gather` picks.
                let typed = self.typed;
                self.typed |= *p == Prim::Gather;
                let rest: Vec<String> = rest.iter().map(|a| self.term(a, Level::Lambda)).collect();
                self.typed = typed;
                return self.wrap(format!("{data} |> {}", prim_text(p, &rest)), Level::Pipe, wanted);
            }
            let args: Vec<String> = own.iter().map(|a| self.term(a, Level::Lambda)).collect();
            return prim_text(p, &args);
        }
        let mut args = Vec::new();
        let mut f = t;
        while let TermKind::App(g, a) = f.kind() {
            args.push(a);
            f = g;
        }
        let f = self.term(f, Level::Call);
        let args: Vec<String> = args.into_iter().rev().map(|a| self.term(a, Level::Lambda)).collect();
        format!("{f}({})", args.join(", "))
    }
}

fn e_type(f: &Term) -> &Type {
    f.ty().as_fun().map_or(f.ty(), |t| t.0)
}

/// Reads best as a stage of a pipeline.
fn pipes(p: &Prim) -> bool {
    matches!(
        p,
        Prim::Map(_)
            | Prim::MapVec(_)
            | Prim::Reduce(..)
            | Prim::Scan(_)
            | Prim::Iterate(..)
            | Prim::Split(_)
            | Prim::Slide(..)
            | Prim::Pad(..)
            | Prim::PadValue(..)
            | Prim::PadWith(..)
            | Prim::Take(_)
            | Prim::Drop(_)
            | Prim::Gather
            | Prim::Scatter
            | Prim::Reorder
            | Prim::AsVector(_)
            | Prim::CircularBuffer(..)
            | Prim::RotateValues(_)
    )
}

/// The primitive with its size arguments and others.
fn prim_text(p: &Prim, rest: &[String]) -> String {
    let mut args: Vec<String> = p.nats().into_iter().map(ToString::to_string).collect();
    match p {
        Prim::Pad(_, _, m) => args.push(
            match m {
                crate::prim::PadMode::Clamp => "clamp",
                crate::prim::PadMode::Mirror => "mirror",
                crate::prim::PadMode::Wrap => "wrap",
            }
            .to_string(),
        ),
        Prim::ToMem(s) | Prim::Reduce(_, Some(s)) => args.push(s.name().to_string()),
        Prim::Proj(i, n) if *n != 2 => args.extend([i.to_string(), n.to_string()]),
        _ => {}
    }
    args.extend_from_slice(rest);
    if args.is_empty() { p.name().to_string() } else { format!("{}({})", p.name(), args.join(", ")) }
}

fn literal(v: ScalarValue) -> String {
    match v.ty {
        Scalar::Bool => v.to_string(),
        t if t.is_float() => {
            let f = v.to_f64();
            if !f.is_finite() {
                return f.to_string().to_lowercase();
            }
            // As few digits as give back the value of the type.
            let text = if t == Scalar::F32 { format!("{:?}", f as f32) } else { format!("{f:?}") };
            if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
        }
        _ => v.to_string(),
    }
}

/// The text of a fun.
pub fn print_fun(p: &crate::program::Program) -> String {
    let params: Vec<String> = p.params.iter().map(|p| format!("{}: {}", p.name, p.ty)).collect();
    let types: Vec<&str> = p.types.iter().map(|t| &**t).collect();
    let types = if types.is_empty() { String::new() } else { format!("<{}>", types.join(", ")) };
    let mut out = format!("fun {}{types}({}) -> {}", p.name, params.join(", "), p.result);
    let facts: Vec<String> = p.facts.all().iter().map(ToString::to_string).collect();
    if !facts.is_empty() {
        out.push_str(&format!(" where {}", facts.join(", ")));
    }
    // The leading lambdas are the parameters.
    let (mut names, mut body): (Vec<Name>, &Term) = (Vec::new(), &p.term);
    for param in &p.params {
        match body.kind() {
            TermKind::Lam(_, b) => {
                names.push(param.name.clone());
                body = b;
            }
            _ => {
                let args: Vec<&str> = p.params[names.len()..].iter().map(|p| &*p.name).collect();
                let f = print_under(body, false, &names);
                out.push_str(&format!(" =\n    ({f})({})", args.join(", ")));
                return out;
            }
        }
    }
    out.push_str(" =\n    ");
    out.push_str(&print_under(body, false, &names));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_read_back() {
        let f = |v: f64| literal(ScalarValue::float(Scalar::F32, v));
        assert_eq!((f(1.0), f(0.1), f(1e-20)), ("1.0".into(), "0.1".into(), "1e-20".into()));
        assert_eq!(literal(ScalarValue::int(Scalar::I8, -3)), "-3");
    }
}
