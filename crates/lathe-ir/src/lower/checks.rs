//! The checks that a kernel's prologue makes, and their numbers.
//!
//! The prologue runs the entries of the table in order and returns the 1-based number of the first
//! that fails. First come, parameter by parameter, element type, rank and extents (so that later
//! checks may read shapes); then extents against the declared types; then overlaps. `check`
//! statements have the last numbers and run where they stand in the body.

use super::Unsupported;
use crate::func::{Function, Mode};
use crate::ids::VarId;
use crate::stmt::StmtKind;
use crate::types::Name;
use crate::visit;

/// The largest extent, and the largest distance in bytes between elements of one array, that a
/// kernel accepts: more than a process can map, and small enough that sums of a few of them and
/// products with small constants fit 64 bits.
pub const MAX_EXTENT: i64 = 1 << 47;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Check {
    /// `dtype` and `elem_bytes` are those of the parameter's element type.
    Dtype { param: usize },
    /// `rank` is the declared one; 0 for scalars.
    Rank { param: usize },
    /// `0 <= shape[dim] <= MAX_EXTENT`, and `(shape[dim] - 1) * |strides[dim]| * elem_bytes <=
    /// MAX_EXTENT` without overflow.
    Size { param: usize, dim: usize },
    /// `shape[dim]` equals the declared extent. Not made where the extent is what binds a size.
    Shape { param: usize, dim: usize },
    /// The byte ranges from lowest to highest element are disjoint (an array without elements
    /// overlaps nothing). `a < b`; at least one is written; they share no alias class.
    Overlap { a: usize, b: usize },
    /// A `check` statement.
    User { code: Name, message: Name },
}

#[derive(Clone, Debug, PartialEq)]
pub struct CheckTable {
    pub entries: Vec<Check>,
    /// For each size in the function's order: the parameter and dimension whose extent is its value.
    pub sizes: Vec<(VarId, usize, usize)>,
}

impl CheckTable {
    /// The number that a failed `check` statement returns.
    pub fn user(&self, code: &Name, message: &Name) -> Option<i32> {
        let at = self
            .entries
            .iter()
            .position(|c| matches!(c, Check::User { code: k, message: m } if k == code && m == message))?;
        Some(at as i32 + 1)
    }
}

/// The table of a function.
///
/// # Errors
/// When a size is no parameter's extent: then no argument tells its value.
pub fn check_table(f: &Function) -> Result<CheckTable, Unsupported> {
    let mut sizes = Vec::new();
    for size in &f.sizes {
        let found = f.params.iter().enumerate().find_map(|(p, param)| {
            let dim = param.array()?.extents.iter().position(|e| e.as_var() == Some(size.id))?;
            Some((size.id, p, dim))
        });
        sizes.push(found.ok_or_else(|| {
            Unsupported::new(format!("size `{}`, which is no parameter's extent by itself", size.name))
                .help("give the kernel a parameter one of whose extents is exactly this size")
        })?);
    }
    let mut entries = Vec::new();
    for (param, p) in f.params.iter().enumerate() {
        entries.push(Check::Dtype { param });
        entries.push(Check::Rank { param });
        let rank = p.array().map_or(0, |b| b.extents.len());
        entries.extend((0..rank).map(|dim| Check::Size { param, dim }));
    }
    for (param, p) in f.params.iter().enumerate() {
        let rank = p.array().map_or(0, |b| b.extents.len());
        let binds = |dim: &usize| sizes.iter().any(|(_, p, d)| (*p, *d) == (param, *dim));
        entries.extend((0..rank).filter(|d| !binds(d)).map(|dim| Check::Shape { param, dim }));
    }
    for (b, pb) in f.params.iter().enumerate() {
        for (a, pa) in f.params[..b].iter().enumerate() {
            let arrays = pa.array().is_some() && pb.array().is_some();
            let written = pa.mode != Mode::In || pb.mode != Mode::In;
            let may_alias = pa.alias.is_some() && pa.alias == pb.alias;
            if arrays && written && !may_alias {
                entries.push(Check::Overlap { a, b });
            }
        }
    }
    visit::walk(&f.body, &mut |s, _| {
        if let StmtKind::Check { code, message, .. } = s.kind() {
            let check = Check::User { code: code.clone(), message: message.clone() };
            if !entries.contains(&check) {
                entries.push(check);
            }
        }
        true
    });
    Ok(CheckTable { entries, sizes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{add, index, var};
    use crate::func::{Buffer, Param, ParamKind, Space, Stage};
    use crate::layout::Layout;
    use crate::types::{Scalar, Type};
    use std::sync::Arc;

    #[test]
    fn sizes_are_bound_once_and_checked_elsewhere() {
        let mut f = Function::empty("f", Stage::Plain);
        let n = f.fresh_var("N", Scalar::Index);
        f.sizes.push(n.clone());
        for (name, extent, mode) in
            [("A", add(var(&n), index(1)), Mode::In), ("B", var(&n), Mode::In), ("C", var(&n), Mode::Out)]
        {
            let id = f.fresh_buf();
            let b = Buffer {
                id,
                name: name.into(),
                elem: Type::F32,
                extents: vec![extent],
                space: Space::Host,
                layout: Layout::row_major(),
            };
            f.params.push(Param { kind: ParamKind::Array(Arc::new(b)), mode, alias: None });
        }
        let t = check_table(&f).unwrap();
        assert_eq!(t.sizes, vec![(n.id, 1, 0)]);
        let tail = &t.entries[9..];
        assert_eq!(
            tail,
            [
                Check::Shape { param: 0, dim: 0 },
                Check::Shape { param: 2, dim: 0 },
                Check::Overlap { a: 0, b: 2 },
                Check::Overlap { a: 1, b: 2 },
            ]
        );
        f.params.truncate(1);
        assert!(check_table(&f).unwrap_err().construct.contains('N'));
    }
}
