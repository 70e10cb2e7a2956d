//! The checks that a kernel makes of its arguments, and their numbers. What they compute is in [`crate::entry`].
//!
//! A kernel runs the entries of the table in order and returns the 1-based number of the first that fails. First come,
//! parameter by parameter, element type, rank and extents (so that later checks may read shapes); then extents
//! against the declared types; then overlaps. `check` statements have the last numbers and run where they are in
//! the body.

use lathe_abi::{CheckKind, dtype};
use lathe_ir::lower::Unsupported;
use lathe_ir::{
    ExprKind, Function, Mode, Module, Name, ParamKind, Scalar, Stmt, StmtKind, Type, VarId, visit,
};
use lathe_poly::sizes::{SizeSource, size_sources};
use std::collections::HashSet;

/// The checks of one function, in the order of their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckTable {
    pub entries: Vec<CheckKind>,
    /// Where the sizes are read, each after those that it needs.
    pub sizes: Vec<SizeSource>,
}

impl CheckTable {
    /// The number that a failed `check` statement returns.
    pub fn user(&self, code: &str, message: &str) -> Option<i32> {
        let at = self.entries.iter().position(
            |c| matches!(c, CheckKind::User { code: k, message: m } if k == code && m == message),
        )?;
        Some(at as i32 + 1)
    }

    /// The place of an external function in the runtime's table, and the number that its failure returns.
    pub fn external(&self, name: &str) -> Option<(usize, i32)> {
        let number = |at: usize| at as i32 + 1;
        let numbered = self.entries.iter().enumerate().filter_map(|(at, c)| match c {
            CheckKind::External { name } => Some((name, number(at))),
            _ => None,
        });
        numbered.enumerate().find(|(_, (n, _))| *n == name).map(|(place, (_, number))| (place, number))
    }
}

/// The code of an element type in a descriptor.
pub fn dtype_of(ty: &Type) -> u32 {
    match ty.scalar() {
        None => match ty.complex_part() {
            Some(Scalar::F32) => dtype::C64,
            Some(_) => dtype::C128,
            None => dtype::AGGREGATE,
        },
        Some(Scalar::Bool) => dtype::BOOL,
        Some(Scalar::I8) => dtype::I8,
        Some(Scalar::I16) => dtype::I16,
        Some(Scalar::I32) => dtype::I32,
        Some(Scalar::I64) => dtype::I64,
        Some(Scalar::U8) => dtype::U8,
        Some(Scalar::U16) => dtype::U16,
        Some(Scalar::U32) => dtype::U32,
        Some(Scalar::U64) => dtype::U64,
        Some(Scalar::Index) => dtype::INDEX,
        Some(Scalar::F16) => dtype::F16,
        Some(Scalar::Bf16) => dtype::BF16,
        Some(Scalar::F32) => dtype::F32,
        Some(Scalar::F64) => dtype::F64,
    }
}

/// The type of a parameter's elements; a scalar is an array of rank 0.
pub fn element_type(kind: &ParamKind) -> Type {
    match kind {
        ParamKind::Array(b) => b.elem.clone(),
        ParamKind::Scalar(b) => b.ty.into(),
    }
}

/// The table of a function. `check` statements of the functions that it calls have numbers, too.
///
/// # Errors
/// When no extent of a parameter tells a size.
pub fn check_table(module: &Module, f: &Function) -> Result<CheckTable, Unsupported> {
    let sizes = all_sizes(f)?;
    let mut entries = Vec::new();
    let rank = |param: usize| f.params[param].array().map_or(0, |b| b.extents.len());
    for param in 0..f.params.len() {
        entries.push(CheckKind::Dtype { param });
        entries.push(CheckKind::Rank { param });
        entries.extend((0..rank(param)).map(|dim| CheckKind::Size { param, dim }));
    }
    for param in 0..f.params.len() {
        let binds =
            |dim: &usize| sizes.iter().any(|s| (s.param, s.dim) == (param, *dim) && s.equation.is_plain());
        entries.extend((0..rank(param)).filter(|d| !binds(d)).map(|dim| CheckKind::Shape { param, dim }));
    }
    for (b, pb) in f.params.iter().enumerate() {
        for (a, pa) in f.params[..b].iter().enumerate() {
            let arrays = pa.array().is_some() && pb.array().is_some();
            let written = pa.mode != Mode::In || pb.mode != Mode::In;
            let may_alias = pa.alias.is_some() && pa.alias == pb.alias;
            if arrays && written && !may_alias {
                entries.push(CheckKind::Overlap { a, b });
            }
        }
    }
    let mut called = HashSet::from([f.name.clone()]);
    user_checks(module, &f.body, &mut called, &mut entries);
    Ok(CheckTable { entries, sizes })
}

/// Where all sizes of a function are read.
///
/// # Errors
/// As [`check_table`].
fn all_sizes(f: &Function) -> Result<Vec<SizeSource>, Unsupported> {
    let sources = size_sources(f, &|_| true);
    let told = |v: VarId| sources.iter().any(|s| s.equation.size == v);
    match f.sizes.iter().find(|b| !told(b.id)) {
        None => Ok(sources),
        Some(free) => Err(Unsupported::new(format!("the size `{}`, which no argument's extent determines", free.name))
            .help("add a parameter that has this size as an extent, or an extent linear in it with the other sizes known; or bake the size in (`--specialize`)")),
    }
}

fn user_checks(module: &Module, body: &Stmt, called: &mut HashSet<Name>, out: &mut Vec<CheckKind>) {
    let mut calls: Vec<Name> = Vec::new();
    visit::walk(body, &mut |s, _| {
        if let StmtKind::Check { code, message, .. } = s.kind() {
            let check = CheckKind::User { code: code.to_string(), message: message.to_string() };
            if !out.contains(&check) {
                out.push(check);
            }
        }
        if let StmtKind::Call { function, .. } = s.kind() {
            calls.push(function.clone());
        }
        for e in s.exprs() {
            visit::walk_expr(e, &mut |e| {
                if let ExprKind::Call(name, _) = e.kind() {
                    calls.push(name.clone());
                }
            });
        }
        true
    });
    for name in calls {
        if !called.insert(name.clone()) {
            continue;
        }
        match module.functions.get(&name) {
            Some(f) => user_checks(module, &f.body, called, out),
            None => out.push(CheckKind::External { name: name.to_string() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Entry;
    use crate::memory::Shape;
    use lathe_ir::build::{add, index, var};
    use lathe_ir::{Buffer, Param, Space, Stage};

    fn function() -> Function {
        let mut f = Function::empty("f", Stage::Plain);
        let n = f.fresh_var("N", Scalar::Index);
        f.sizes.push(n.clone());
        for (name, extent, mode) in
            [("A", add(var(&n), index(1)), Mode::In), ("B", var(&n), Mode::In), ("C", var(&n), Mode::Out)]
        {
            let id = f.fresh_buf();
            let b = Buffer::local(id, name, Type::F32, vec![extent], Space::Host);
            f.params.push(Param { kind: ParamKind::Array(b), mode, alias: None });
        }
        f
    }

    #[test]
    fn sizes_are_bound_once_and_checked_elsewhere() {
        let mut f = function();
        let t = check_table(&Module::default(), &f).unwrap();
        assert!(t.sizes.len() == 1 && t.sizes[0].param == 1 && t.sizes[0].equation.is_plain());
        assert_eq!(
            t.entries[9..],
            [
                CheckKind::Shape { param: 0, dim: 0 },
                CheckKind::Shape { param: 2, dim: 0 },
                CheckKind::Overlap { a: 0, b: 2 },
                CheckKind::Overlap { a: 1, b: 2 },
            ]
        );
        // `N + 1` tells it, too, and is compared then.
        f.params.truncate(1);
        let t = check_table(&Module::default(), &f).unwrap();
        assert_eq!(t.entries.last(), Some(&CheckKind::Shape { param: 0, dim: 0 }));
        f.params.clear();
        assert!(check_table(&Module::default(), &f).unwrap_err().construct.contains('N'));
    }

    #[test]
    fn descriptors_are_checked_in_the_order_of_the_table() {
        let f = function();
        let t = check_table(&Module::default(), &f).unwrap();
        let entry = Entry::of(&t, &f);
        let shape = |at: usize, n: i64, stride: i64| Shape {
            address: at,
            extents: vec![n],
            strides: vec![stride],
            dtype: dtype::F32,
            elem_bytes: 4,
        };
        let first = |args: [Shape; 3]| {
            let number = entry.check(&args, &|_| None).err()?;
            t.entries.get(number as usize - 1).cloned()
        };
        let (a, b, c) = (shape(0x1000, 5, 1), shape(0x2000, 4, 1), shape(0x3000, 4, -1));
        assert_eq!(first([a.clone(), b.clone(), c.clone()]), None);
        let other = Shape { dtype: dtype::F64, ..a.clone() };
        assert_eq!(first([other, b.clone(), c.clone()]), Some(CheckKind::Dtype { param: 0 }));
        let flat = Shape { extents: vec![], strides: vec![], ..b.clone() };
        assert_eq!(first([a.clone(), flat, c.clone()]), Some(CheckKind::Rank { param: 1 }));
        let (most, far) = (lathe_abi::MAX_EXTENT, lathe_abi::MAX_EXTENT / 4 / 3);
        for bad in [(-1, 1), (4, i64::MIN), (i64::MAX, 0), (i64::MIN, i64::MIN), (most + 1, 0), (4, far + 1)]
        {
            let bad = shape(0x2000, bad.0, bad.1);
            assert_eq!(first([a.clone(), bad, c.clone()]), Some(CheckKind::Size { param: 1, dim: 0 }));
        }
        // Along one element or none any stride will do.
        for (n, stride) in [(most, 0), (1, i64::MIN), (0, i64::MAX), (4, -far)] {
            let right = [shape(0x1000, n + 1, 0), shape(0x2000, n, stride), shape(1 << 60, n, stride)];
            let first = first(right);
            assert!(!matches!(first, Some(CheckKind::Size { param: 1 | 2, .. })), "{n}, {stride}: {first:?}");
        }
        assert_eq!(
            first([a.clone(), b.clone(), shape(0x3000, 5, 1)]),
            Some(CheckKind::Shape { param: 2, dim: 0 })
        );
        // The last element of `B` is the first of `C`, which goes downwards.
        let meets = shape(0x2000 + 24, 4, -1);
        assert_eq!(first([a, b, meets]), Some(CheckKind::Overlap { a: 1, b: 2 }));
    }
}
