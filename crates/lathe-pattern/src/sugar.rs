//! Terms that stand for other terms.

use crate::ast::{Ast, AstKind, LamParam, Pattern};
use lathe_ir::Name;

/// `pad(l, r, h)` for any `h`: outside, element `i` is element `h(i, n)` of the array, as
/// `|xs| padWith(l, r, |i, n| xs[asIndex(h(i, n))], xs)`. Inside nothing is asked, so nothing is reordered.
pub fn pad_by(l: &Ast, r: &Ast, h: &Ast) -> Ast {
    let span = h.span;
    let new = |kind: AstKind| Ast::new(kind, span);
    // Names that `h` does not use.
    let used = format!("{h:?}");
    let fresh = |hint: &str| {
        let names = std::iter::once(hint.to_string()).chain((1..).map(|n| format!("{hint}{n}")));
        Name::from(names.into_iter().find(|n| !used.contains(&format!("\"{n}\""))).unwrap_or_default())
    };
    let (xs, i, n) = (fresh("xs"), fresh("i"), fresh("n"));
    let name = |n: &Name| new(AstKind::Name(n.clone()));
    let lambda = |params: &[&Name], body: Ast| {
        let params = params.iter().map(|p| LamParam::Data(Pattern::Name((*p).clone()), None)).collect();
        new(AstKind::Lam(params, body))
    };
    let call = |f: &str, args: Vec<Ast>| new(AstKind::Call(name(&Name::from(f)), args));
    let position = new(AstKind::Call(h.clone(), vec![name(&i), name(&n)]));
    let element = new(AstKind::Index(name(&xs), vec![call("asIndex", vec![position])]));
    let outside = lambda(&[&i, &n], element);
    lambda(&[&xs], call("padWith", vec![l.clone(), r.clone(), outside, name(&xs)]))
}
