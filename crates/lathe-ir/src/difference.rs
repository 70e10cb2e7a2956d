//! Where two trees differ, according to their sharing: unchanged subtrees need no second check.

use crate::stmt::{Enters, Stmt};
use crate::visit::Path;

/// The innermost place that holds everything in which two trees differ.
#[derive(Clone, Debug)]
pub struct Difference<'a> {
    /// To the place, in both trees; every statement on the way says the same to its children in both.
    pub path: Path,
    pub old: &'a Stmt,
    pub new: &'a Stmt,
    /// How many children at the beginning of a sequence both have.
    pub start: usize,
    /// How many at its end.
    pub end: usize,
}

impl<'a> Difference<'a> {
    pub fn between(old: &'a Stmt, new: &'a Stmt) -> Difference<'a> {
        let (mut path, mut old, mut new) = (Path::new(), old, new);
        while let Some((n, x, y)) = only_child(old, new) {
            path.push(n);
            (old, new) = (x, y);
        }
        let (start, end) = shared(old, new);
        Difference { path, old, new, start, end }
    }

    /// What is in the old tree only.
    pub fn gone(&self) -> &'a [Stmt] {
        self.apart(self.old)
    }

    /// What is in the new tree only.
    pub fn made(&self) -> &'a [Stmt] {
        self.apart(self.new)
    }

    fn apart(&self, s: &'a Stmt) -> &'a [Stmt] {
        if self.old.ptr_eq(self.new) {
            return &[];
        }
        match (self.old.as_seq(), self.new.as_seq(), s.as_seq()) {
            (Some(_), Some(_), Some(all)) => &all[self.start..all.len() - self.end],
            _ => std::slice::from_ref(s),
        }
    }
}

/// The child in which two statements differ, if they differ in nothing else.
fn only_child<'a>(old: &'a Stmt, new: &'a Stmt) -> Option<(usize, &'a Stmt, &'a Stmt)> {
    let (a, b) = (old.children(), new.children());
    if a.len() != b.len() || !same_header(old, new) {
        return None;
    }
    let mut differ = a.zip(b).enumerate().filter(|(_, (x, y))| !x.ptr_eq(y));
    match (differ.next(), differ.next()) {
        (Some((n, (x, y))), None) => Some((n, x, y)),
        _ => None,
    }
}

/// Whether two statements say the same to their children.
fn same_header(a: &Stmt, b: &Stmt) -> bool {
    match (a.enters(0), b.enters(0)) {
        (Enters::Nothing, Enters::Nothing) => a.as_seq().is_some() && b.as_seq().is_some(),
        (Enters::Loop(x), Enters::Loop(y)) => {
            (&x.binder, x.binder.ty, x.step, &x.exec) == (&y.binder, y.binder.ty, y.step, &y.exec)
                && (&x.lo, &x.hi) == (&y.lo, &y.hi)
        }
        (Enters::Let(x, v), Enters::Let(y, w)) => x == y && v == w,
        (Enters::Condition(x, p), Enters::Condition(y, q)) => x == y && p == q,
        (Enters::Alloc(x), Enters::Alloc(y)) => x == y,
        _ => false,
    }
}

/// How many children at the beginnings and ends of two sequences are the same.
fn shared(a: &Stmt, b: &Stmt) -> (usize, usize) {
    let (Some(a), Some(b)) = (a.as_seq(), b.as_seq()) else { return (0, 0) };
    let start = a.iter().zip(b).take_while(|(x, y)| x.ptr_eq(y)).count();
    let rest = a.len().min(b.len()) - start;
    let end = (0..rest).take_while(|k| a[a.len() - 1 - k].ptr_eq(&b[b.len() - 1 - k])).count();
    (start, end)
}
