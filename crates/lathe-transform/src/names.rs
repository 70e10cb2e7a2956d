//! From names to places: loops by path name, statements by label, buffers by name.
//!
//! A loop's name is its binder's name, dots included (`i.o.i`). `C.i` narrows to loops named `i` around
//! a statement labelled `C`; `copy(A).i` likewise. Names are looked up in the focus; where it has none,
//! among the loops around the focus.

use crate::args::IntoRefusal;
use crate::codes;
use crate::rule::Cursor;
use lathe_diagnostics::{Diagnostic, nearest};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Buffer, Loop, Stmt};
use lathe_strategy::Refusal;
use std::sync::Arc;

pub use lathe_ir::names::of_family;

/// Whether the subtree holds a statement of the label.
pub fn has_label(s: &Stmt, label: &str) -> bool {
    s.may_name(label)
        && (s.label().is_some_and(|l| l.as_str() == label) || s.children().any(|c| has_label(c, label)))
}

/// All loops that a path name denotes, in the order of the text.
pub fn find_loops(cursor: &Cursor, name: &str) -> Vec<Path> {
    let inside = loops_in(cursor.focused(), &cursor.focus, name);
    if !inside.is_empty() || cursor.focus.is_empty() {
        return inside;
    }
    // The innermost loop around the focus.
    let around = loops_in(&cursor.func.body, &[], name);
    around.into_iter().rfind(|p| cursor.focus.starts_with(p)).into_iter().collect()
}

fn loops_in(root: &Stmt, prefix: &[usize], name: &str) -> Vec<Path> {
    let mut plain = Vec::new();
    let mut qualified = Vec::new();
    // `C.i.o` may be a loop of that name, `i.o` around `C`, or `o` around `C.i`.
    let readings: Vec<&str> =
        std::iter::once(name).chain(name.match_indices('.').map(|(p, _)| &name[p + 1..])).collect();
    visit::walk(root, &mut |s, path| {
        if !readings.iter().any(|r| s.may_name(r)) {
            return false;
        }
        if let Some(l) = s.as_loop() {
            let full = || prefix.iter().chain(path).copied().collect::<Path>();
            if &*l.binder.name == name {
                plain.push(full());
            } else if let Some(q) = name.strip_suffix(&*l.binder.name).and_then(|q| q.strip_suffix('.'))
                && has_label(&l.body, q)
            {
                qualified.push(full());
            }
        }
        true
    });
    if plain.is_empty() { qualified } else { plain }
}

/// All loops that a path name denotes, in the order of the text; at least one.
pub fn find_all_loops(cursor: &Cursor, rule: &str, name: &str) -> Result<Vec<Path>, Refusal> {
    let found = find_loops(cursor, name);
    if found.is_empty() {
        return Err(unknown_loop(cursor, rule, name).into_refusal(rule));
    }
    Ok(found)
}

/// The one loop that a path name denotes.
pub fn find_one_loop(cursor: &Cursor, rule: &str, name: &str) -> Result<Path, Refusal> {
    let mut found = find_loops(cursor, name);
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => Err(unknown_loop(cursor, rule, name).into_refusal(rule)),
        _ => {
            let mut d =
                Diagnostic::error(codes::AMBIGUOUS, format!("`{name}` denotes {} loops", found.len()));
            let mut qualifier = None;
            for p in &found {
                let Some(s) = cursor.at(p) else { continue };
                let labels = labels_in(s);
                d = d.note(format!("a loop `{name}` around {}", list(&labels)));
                d = d.at_places(s.places(), "one of the loops");
                qualifier = qualifier.or(labels.into_iter().next());
            }
            let help = match qualifier {
                Some(q) => {
                    format!("qualify it by a label, for example `{q}.{name}`, or `{rule}(…) @ stmt({q})`")
                }
                None => format!("give the loops different names, or focus `{rule}(…) @ stmt(…)`"),
            };
            Err(d.help(help).into_refusal(rule))
        }
    }
}

/// The loop at a path that [`find_one_loop`] gave.
pub fn loop_at<'a>(cursor: &Cursor<'a>, rule: &str, path: &[usize]) -> Result<&'a Loop, Refusal> {
    cursor
        .at(path)
        .and_then(Stmt::as_loop)
        .ok_or_else(|| Diagnostic::error(codes::SHAPE, "the focus is no longer a loop").into_refusal(rule))
}

/// Statements of a label in the focus.
pub fn find_label(cursor: &Cursor, label: &str) -> Vec<Path> {
    let mut out = Vec::new();
    visit::walk(cursor.focused(), &mut |s, path| {
        if s.label().is_some_and(|l| l.as_str() == label) {
            out.push(cursor.focus.iter().chain(path).copied().collect());
        }
        s.may_name(label)
    });
    out
}

/// Statements of a label; at least one, or a refusal that lists the labels.
pub fn find_some_label(cursor: &Cursor, rule: &str, label: &str) -> Result<Vec<Path>, Refusal> {
    let found = find_label(cursor, label);
    if found.is_empty() {
        return Err(unknown(rule, "label", label, &labels_in(cursor.focused())).into_refusal(rule));
    }
    Ok(found)
}

/// A buffer of the function: a parameter, or a local one anywhere in the body.
pub fn find_buffer(cursor: &Cursor, rule: &str, name: &str) -> Result<Arc<Buffer>, Refusal> {
    if let Some(b) = cursor.func.array(name) {
        return Ok(b.clone());
    }
    let mut names: Vec<String> =
        cursor.func.params.iter().filter_map(|p| p.array()).map(|b| b.name.to_string()).collect();
    let mut found = Vec::new();
    visit::walk(&cursor.func.body, &mut |s, p| {
        if let Some(buffer) = s.allocated() {
            if &*buffer.name == name {
                found.push((p.to_vec(), buffer.clone()));
            }
            names.push(buffer.name.to_string());
        }
        true
    });
    // Of several, the one that is declared in the focus or around it.
    let here = |p: &Path| p.starts_with(&cursor.focus) || cursor.focus.starts_with(p);
    if found.iter().any(|(p, _)| here(p)) {
        found.retain(|(p, _)| here(p));
    }
    match found.len() {
        1 => Ok(found.remove(0).1),
        0 => Err(unknown(rule, "array", name, &names).into_refusal(rule)),
        n => Err(Diagnostic::error(codes::AMBIGUOUS, format!("`{name}` denotes {n} local arrays"))
            .help("give them different names where they are created")
            .into_refusal(rule)),
    }
}

/// Names of the loops of a subtree, each once, in the order of the text.
pub fn loop_names(root: &Stmt) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    visit::walk(root, &mut |s, _| {
        if let Some(l) = s.as_loop()
            && !out.iter().any(|n| **n == *l.binder.name)
        {
            out.push(l.binder.name.to_string());
        }
        true
    });
    out
}

/// Labels of a subtree, each once, in the order of the text.
pub fn labels_in(root: &Stmt) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    visit::walk(root, &mut |s, _| {
        if let Some(l) = s.label()
            && !out.iter().any(|n| n == l.as_str())
        {
            out.push(l.to_string());
        }
        true
    });
    out
}

/// Paths of the loops around a place, outermost first.
pub fn loops_around(root: &Stmt, path: &[usize]) -> Vec<Path> {
    (0..path.len())
        .map(|n| path[..n].to_vec())
        .filter(|p| visit::at(root, p).is_some_and(|s| s.as_loop().is_some()))
        .collect()
}

/// A message for a loop that no longer exists: what became of it.
fn unknown_loop(cursor: &Cursor, rule: &str, name: &str) -> Diagnostic {
    let d = unknown(rule, "loop", name, &loop_names(cursor.focused()));
    let mut became: Vec<String> =
        cursor.history.became(name, cursor.func).iter().map(ToString::to_string).collect();
    became.dedup();
    match became.as_slice() {
        [] => d,
        all => {
            let note = format!("`{name}` became {} by a step before", list(all));
            d.note(note).help(format!("say which part of `{name}` is meant: {}", list(all)))
        }
    }
}

fn unknown(rule: &str, what: &str, name: &str, known: &[String]) -> Diagnostic {
    let d = Diagnostic::error(codes::UNKNOWN_NAME, format!("`{rule}`: there is no {what} `{name}` here"));
    let near = nearest(name, known.iter().map(String::as_str));
    match (near, known.is_empty()) {
        (Some(n), _) => d.note(format!("there are: {}", list(known))).help(format!("did you mean `{n}`?")),
        (None, false) => d.help(format!("there are: {}", list(known))),
        (None, true) => d.help(format!("there are no {what}s at this point of the strategy")),
    }
}

/// Names for a message, the first dozen.
pub fn list(names: &[String]) -> String {
    const SHOWN: usize = 12;
    let mut text = names.iter().take(SHOWN).map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text += &format!(" and {} more", names.len() - SHOWN);
    }
    text
}

/// The largest subtree that holds all statements of a label's family (`C`, `C.init`, …) and no others.
pub(crate) fn find_family(cursor: &Cursor, label: &str) -> Result<Path, Refusal> {
    let mut all: Vec<Path> = Vec::new();
    visit::walk(cursor.focused(), &mut |s, p| {
        if s.label().is_some_and(|l| of_family(l.as_str(), label)) {
            all.push(cursor.focus.iter().chain(p).copied().collect());
        }
        s.may_name(label)
    });
    let Some(first) = all.first() else {
        return Err(find_some_label(cursor, "stmt", label).err().unwrap_or_else(|| {
            Diagnostic::error(codes::UNKNOWN_NAME, format!("there is no statement `{label}`"))
                .into_refusal("stmt")
        }));
    };
    let shared =
        all.iter().fold(first.len(), |n, p| p.iter().zip(first).take(n).take_while(|(a, b)| a == b).count());
    let mut path = first[..shared].to_vec();
    // Outward while there is nothing but this family.
    while path.len() > cursor.focus.len() {
        let up = &path[..path.len() - 1];
        if cursor.at(up).is_none_or(|s| has_other(s, label)) {
            break;
        }
        path.pop();
    }
    Ok(path)
}

/// Whether there is a label of another family in the subtree.
fn has_other(s: &Stmt, family: &str) -> bool {
    s.label().is_some_and(|l| !of_family(l.as_str(), family)) || s.children().any(|c| has_other(c, family))
}
