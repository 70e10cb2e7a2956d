//! Index functions: which element of a buffer an index of the homomorphism reads or writes (thesis, Def. 30).

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::{Access, Buffer, Expr, ExprKind, VarId, View, visit};
use lathe_poly::Linear;
use std::collections::HashMap;
use std::sync::Arc;

/// One subscript: `Σ coefficients[d] · index[d] + offset`, the offset over sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Subscript {
    pub coefficients: Vec<i64>,
    /// Over sizes, and over variables of the loops around the homomorphism, which are the same for all of it.
    pub offset: Expr,
}

impl Subscript {
    /// Whether the offset is one over sizes alone.
    pub fn is_fixed(&self, sizes: &HashMap<VarId, i64>) -> bool {
        visit::vars_of(&self.offset).iter().all(|v| sizes.contains_key(v))
    }

    /// The offset; 0 where it depends on the loops around. None where the numbers overflow 64 bits.
    fn start(&self, sizes: &HashMap<VarId, i64>) -> Option<i64> {
        if self.is_fixed(sizes) { evaluate(&self.offset, sizes) } else { Some(0) }
    }
}

/// One subscript per dimension of the buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexFunction {
    pub subscripts: Vec<Subscript>,
}

/// A buffer and all accesses to it, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct Operand {
    pub buffer: Arc<Buffer>,
    pub accesses: Vec<IndexFunction>,
}

impl Operand {
    pub fn name(&self) -> &str {
        &self.buffer.name
    }

    pub fn rank(&self) -> usize {
        self.buffer.extents.len()
    }

    /// The smallest and largest subscript in a dimension of the buffer, over all accesses and the indices
    /// `first[d] .. first[d] + count[d]`, relative to what depends on the loops around. None where the box is empty
    /// or the numbers overflow 64 bits.
    pub fn range(
        &self,
        dim: usize,
        first: &[i64],
        count: &[u64],
        sizes: &HashMap<VarId, i64>,
    ) -> Option<(i64, i64)> {
        if count.contains(&0) {
            return None;
        }
        let mut all: Option<(i64, i64)> = None;
        for a in &self.accesses {
            let s = a.subscripts.get(dim)?;
            let start = s.start(sizes)?;
            let (mut lo, mut hi) = (start, start);
            for ((c, f), n) in s.coefficients.iter().zip(first).zip(count) {
                let last = f.checked_add(i64::try_from(*n).ok()?.checked_sub(1)?)?;
                let (x, y) = (c.checked_mul(*f)?, c.checked_mul(last)?);
                lo = lo.checked_add(x.min(y))?;
                hi = hi.checked_add(x.max(y))?;
            }
            all = Some(all.map_or((lo, hi), |(l, h)| (l.min(lo), h.max(hi))));
        }
        all
    }
}

/// Reads an access; `dims` are the indices of the homomorphism.
///
/// # Errors
/// E1205 for subscripts that depend on data, E1206 for views of views and subscripts that are not affine.
pub fn index_function(a: &Access, dims: &[VarId], name: &str) -> Result<IndexFunction, Diagnostic> {
    if !matches!(a.view, View::Buffer(_)) {
        let d = Diagnostic::error(codes::RAGGED, format!("`{name}` is accessed through a view"));
        return Err(d
            .at_places(&a.places, "this access")
            .help("a homomorphism must subscript its buffers directly"));
    }
    let subscripts =
        a.indices.iter().map(|e| subscript(e, dims, name).map_err(|d| d.at_places(&a.places, "this access")));
    Ok(IndexFunction { subscripts: subscripts.collect::<Result<_, _>>()? })
}

fn subscript(e: &Expr, dims: &[VarId], name: &str) -> Result<Subscript, Diagnostic> {
    if !visit::loads_of(e).is_empty() || has_call(e) {
        let text = format!("a subscript of `{name}` depends on data: sparse accesses are not supported");
        return Err(Diagnostic::error(codes::SPARSE, text)
            .help("views of a homomorphism are static; write a strategy for this kernel"));
    }
    let not_affine = || {
        Diagnostic::error(codes::RAGGED, format!("a subscript of `{name}` is not affine in the indices"))
            .help("use sums of indices with constant factors")
    };
    let mut form = Linear::of(e);
    let mut coefficients = vec![0; dims.len()];
    form.terms.retain(|(atom, factor)| match atom.as_var().and_then(|v| dims.iter().position(|d| *d == v)) {
        Some(d) => {
            coefficients[d] = *factor;
            false
        }
        None => true,
    });
    if form.terms.iter().any(|(atom, _)| visit::vars_of(atom).iter().any(|v| dims.contains(v))) {
        return Err(not_affine());
    }
    Ok(Subscript { coefficients, offset: form.to_expr() })
}

fn has_call(e: &Expr) -> bool {
    let mut found = false;
    visit::walk_expr(e, &mut |x| found |= matches!(x.kind(), ExprKind::Call(..)));
    found
}
