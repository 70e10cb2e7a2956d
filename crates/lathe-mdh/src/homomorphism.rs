//! A compute read as a multi-dimensional homomorphism (thesis, Def. 3): dimensions with combine operators, and
//! the views of its inputs and outputs. What is not a homomorphism is refused by name.

use crate::codes;
use crate::view::{IndexFunction, Operand, index_function};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::{
    Access, Binder, Buffer, Combine, Compute, Expr, Function, Module, ParamKind, ReduceOp, Stmt, VarId,
    build, visit,
};
use lathe_prove::{Broken, Which, law};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// One dimension: its index runs over `lo..hi`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub name: String,
    pub id: VarId,
    pub lo: Expr,
    pub hi: Expr,
    pub combine: Combine,
    /// The result depends on the order in which parts are combined: a scan, or a reduction by an operator that
    /// is not commutative.
    pub ordered: bool,
}

#[derive(Clone, Debug)]
pub struct Homomorphism {
    /// The label of the compute.
    pub name: String,
    pub dims: Vec<Dimension>,
    /// In the order in which the scalar function mentions them.
    pub inputs: Vec<Operand>,
    pub outputs: Vec<Operand>,
    /// The scalar function: what one index gives, per output.
    pub values: Vec<Expr>,
    /// The accesses that the outputs are written through.
    pub targets: Vec<Access>,
    /// The one operator of all dimensions that are not concatenated.
    pub op: Option<ReduceOp>,
    /// Whether the operator has an identity, from which partial results start.
    pub identity: bool,
    /// The sizes that extents and offsets mention.
    pub sizes: Vec<Binder>,
}

/// A homomorphism for given sizes.
#[derive(Clone, Debug)]
pub struct Shaped<'a> {
    pub h: &'a Homomorphism,
    pub sizes: HashMap<VarId, i64>,
    /// The first index of each dimension, and how many there are.
    pub first: Vec<i64>,
    pub extents: Vec<u64>,
    /// The box is one of the blocks that a larger one was split into: along which dimension, and into how many.
    pub block_of: Option<(usize, u64)>,
    /// Of so many boxes results are adjacent in memory, before anybody reads them.
    pub written: u64,
}

/// The largest extent: products of a dozen of them do not occur, and sums fit 64 bits.
const MOST: i64 = 1 << 48;

impl Homomorphism {
    /// Reads the compute of a label, or the only one of the function.
    ///
    /// # Errors
    /// E1205 (sparse), E1206 (not rectangular), E1207 (operators that do not interchange), E1208 (an operator that
    /// is not associative), E1209 (an output without an index that must be in it).
    pub fn of(module: &Module, func: &Function, label: Option<&str>) -> Result<Homomorphism, Diagnostic> {
        let mut found: Vec<Stmt> = Vec::new();
        let mut labels = Vec::new();
        visit::walk(&func.body, &mut |s, _| {
            if let Some(c) = s.as_compute() {
                labels.push(format!("`{}`", c.label));
                if label.is_none_or(|l| l == c.label.as_str()) {
                    found.push(s.clone());
                }
            }
            true
        });
        let [one] = found.as_slice() else {
            let d = Diagnostic::error(
                codes::RAGGED,
                format!("`{}` has {} computes that could be read as a homomorphism", func.name, found.len()),
            );
            return Err(if labels.is_empty() {
                d.help("write it in index notation; a loop nest is not a homomorphism")
            } else {
                d.help(format!("name one of: {}", labels.join(", ")))
            });
        };
        let Some(c) = one.as_compute() else {
            return Err(Diagnostic::error(codes::RAGGED, "this is not a compute"));
        };
        read(module, func, c)
            .map_err(|d| if d.marks.is_empty() { d.at_places(one.places(), "this compute") } else { d })
    }

    pub fn dim(&self, name: &str) -> Option<usize> {
        self.dims.iter().position(|d| d.name == name)
    }

    /// All buffers, inputs first.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.inputs.iter().chain(&self.outputs)
    }

    /// With numbers for the sizes.
    ///
    /// # Errors
    /// E1223 for sizes that are missing or negative, E1209 where two indices write one cell, E1210 where an index
    /// function leaves its buffer.
    pub fn at(&self, sizes: &BTreeMap<String, i64>) -> Result<Shaped<'_>, Diagnostic> {
        let mut known = HashMap::new();
        for s in &self.sizes {
            match sizes.get(&*s.name) {
                Some(v) if (0..=MOST).contains(v) => known.insert(s.id, *v),
                Some(v) => {
                    return Err(Diagnostic::error(
                        codes::SIZE,
                        format!("the size `{}` cannot be {v}", s.name),
                    ));
                }
                None => {
                    return Err(Diagnostic::error(
                        codes::SIZE,
                        format!("the size `{}` has no value", s.name),
                    ));
                }
            };
        }
        let (mut first, mut extents) = (Vec::new(), Vec::new());
        for d in &self.dims {
            let range = evaluate(&d.lo, &known).zip(evaluate(&d.hi, &known));
            let Some((lo, hi)) = range.filter(|(lo, hi)| lo.abs() <= MOST && hi.abs() <= MOST) else {
                let text = format!("the range of `{}` cannot be computed from the sizes", d.name);
                return Err(Diagnostic::error(codes::SIZE, text));
            };
            first.push(lo);
            extents.push((hi - lo).max(0) as u64);
        }
        let shaped = Shaped { h: self, sizes: known, first, extents, block_of: None, written: 1 };
        shaped.check_views()?;
        Ok(shaped)
    }
}

impl Shaped<'_> {
    /// What the view of a buffer needs of it: one more than the largest subscript, per dimension. The thesis
    /// deduces the sizes of buffers so (§2.2.3).
    pub fn derived_shape(&self, o: &Operand) -> Vec<u64> {
        (0..o.rank())
            .map(|d| {
                o.range(d, &self.first, &self.extents, &self.sizes).map_or(0, |(_, hi)| hi.max(-1) as u64 + 1)
            })
            .collect()
    }

    fn check_views(&self) -> Result<(), Diagnostic> {
        if self.extents.contains(&0) {
            return Ok(());
        }
        for o in self.h.operands() {
            for (d, extent) in o.buffer.extents.iter().enumerate() {
                let Some((lo, hi)) = o.range(d, &self.first, &self.extents, &self.sizes) else {
                    let sizes = |e: &Expr| visit::vars_of(e).iter().all(|v| self.sizes.contains_key(v));
                    if !o.accesses.iter().filter_map(|a| a.subscripts.get(d)).all(|s| sizes(&s.offset)) {
                        let text =
                            format!("a subscript of `{}` depends on a loop around the statement", o.name());
                        return Err(Diagnostic::error(codes::RAGGED, text)
                            .help("the loop is scheduled as a whole: `affine_schedule`"));
                    }
                    let text = format!("the subscripts of `{}` overflow 64 bits", o.name());
                    return Err(Diagnostic::error(codes::LEAVES, text));
                };
                if !o.accesses.iter().all(|a| a.subscripts[d].is_fixed(&self.sizes)) {
                    continue;
                }
                let have = evaluate(extent, &self.sizes);
                if lo < 0 || have.is_some_and(|n| hi >= n) {
                    let n = have.map_or("unknown".to_string(), |n| n.to_string());
                    return Err(Diagnostic::error(
                        codes::LEAVES,
                        format!(
                            "the subscripts of dimension {} of `{}` range from {lo} to {hi}, but its extent is {n}",
                            d + 1,
                            o.name()
                        ),
                    )
                    .help("change the index function or the sizes"));
                }
            }
        }
        for o in &self.h.outputs {
            for a in &o.accesses {
                self.injective(o, a)?;
            }
        }
        Ok(())
    }

    /// Different indices of the dimensions that stay must give different subscripts.
    fn injective(&self, o: &Operand, a: &IndexFunction) -> Result<(), Diagnostic> {
        let stays = |d: usize| !matches!(self.h.dims[d].combine, Combine::Reduce(_)) && self.extents[d] > 1;
        let mut open: Vec<usize> = (0..self.extents.len()).filter(|d| stays(*d)).collect();
        // A subscript determines the indices in it that nothing else determined, if each factor is larger than
        // all that the smaller ones can add.
        loop {
            let determined = a.subscripts.iter().find_map(|s| {
                let mut here: Vec<usize> = open.iter().copied().filter(|d| s.coefficients[*d] != 0).collect();
                here.sort_by_key(|d| s.coefficients[*d].unsigned_abs());
                let mut reach: u128 = 0;
                for d in &here {
                    let c = u128::from(s.coefficients[*d].unsigned_abs());
                    if c <= reach {
                        return None;
                    }
                    reach += c * u128::from(self.extents[*d] - 1);
                }
                (!here.is_empty()).then_some(here)
            });
            match determined {
                Some(done) => open.retain(|d| !done.contains(d)),
                None => break,
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = open.iter().map(|d| format!("`{}`", self.h.dims[*d].name)).collect();
        Err(Diagnostic::error(
            codes::NOT_INJECTIVE,
            format!("different {} may write the same element of `{}`", names.join(", "), o.name()),
        )
        .help("the output's subscripts must determine every concatenated index"))
    }
}

/// A statement that combines into old values, each element by itself, as one that makes new values of old ones.
fn folded(module: &Module, c: &Compute) -> Option<Compute> {
    let op = c.update.as_ref()?;
    let free = c.dims.iter().all(|d| d.combine == Combine::Concat);
    let old: Vec<Expr> = c.targets.iter().map(|t| build::load(t.clone())).collect();
    let values = lathe_ir::reduce::combine(module, op, &old, &c.values).filter(|_| free)?;
    Some(Compute { update: None, values, ..c.clone() })
}

/// Reads a compute that may be in no function yet.
///
/// # Errors
/// As [`Homomorphism::of`].
pub(crate) fn read(module: &Module, func: &Function, c: &Compute) -> Result<Homomorphism, Diagnostic> {
    let folded = folded(module, c);
    let c = folded.as_ref().unwrap_or(c);
    let unsupported = |text: String, help: &str| Err(Diagnostic::error(codes::RAGGED, text).help(help));
    if c.guard.is_some() {
        return unsupported(
            format!("`{}` has a guard: its domain is not a box", c.label),
            "select the operator's identity where the guard does not hold",
        );
    }
    if let Some(op) = &c.update {
        return unsupported(
            format!("`{}` updates existing values (`{op}=`)", c.label),
            "reduce into a new array and add that",
        );
    }
    let ids: Vec<VarId> = c.dims.iter().map(|d| d.binder.id).collect();
    for d in &c.dims {
        if [&d.lo, &d.hi].iter().any(|e| visit::vars_of(e).iter().any(|v| ids.contains(v))) {
            return unsupported(
                format!(
                    "the range of `{}` depends on another index: ragged arrays are not supported",
                    d.binder.name
                ),
                "give every index a range that does not depend on other indices",
            );
        }
        if [&d.lo, &d.hi].iter().any(|e| !visit::loads_of(e).is_empty()) {
            let text = format!(
                "the range of `{}` depends on data: sparse accesses are not supported",
                d.binder.name
            );
            return Err(Diagnostic::error(codes::SPARSE, text));
        }
    }
    let ops: Vec<(usize, &ReduceOp)> = c
        .dims
        .iter()
        .enumerate()
        .filter_map(|(n, d)| match &d.combine {
            Combine::Concat => None,
            Combine::Reduce(op) | Combine::Scan(op) => Some((n, op)),
        })
        .collect();
    if let Some((n, other)) = ops.iter().find(|o| o.1 != ops[0].1) {
        let (a, b) = (&c.dims[ops[0].0].binder.name, &c.dims[*n].binder.name);
        return Err(Diagnostic::error(
            codes::MIXED,
            format!(
                "`{a}` is combined by `{}` and `{b}` by `{other}`, which do not commute with each other: combining first along \
                 `{a}` differs from combining first along `{b}`",
                ops[0].1
            ),
        )
        .help("reduce along one of them into a temporary array first"));
    }
    let op = ops.first().map(|o| o.1.clone());
    let mut commutative = true;
    let mut identity = false;
    if let Some(op) = &op {
        let types: Vec<_> = c.targets.iter().map(|t| t.elem.clone()).collect();
        let elements = [c.values.clone()];
        let ask = |which| match law(module, op, &types, which, &elements) {
            Ok(_) => Ok(true),
            Err(Broken::Undeclared { .. }) if which != Which::Associative => Ok(false),
            Err(broken) => Err(broken.diagnostic()),
        };
        ask(Which::Associative)?;
        (commutative, identity) = (ask(Which::Commutative)?, ask(Which::Identity)?);
        if !commutative && ops.len() > 1 {
            return Err(Diagnostic::error(
                codes::MIXED,
                format!(
                    "`{op}` combines {} dimensions but is not commutative, so the order of its dimensions matters",
                    ops.len()
                ),
            )
            .help("reduce along one of them into a temporary array first"));
        }
    }
    if ops.iter().filter(|o| matches!(c.dims[o.0].combine, Combine::Scan(_))).count() > 1 {
        return unsupported(
            format!("`{}` scans two dimensions", c.label),
            "write one compute per scanned dimension",
        );
    }
    let dims: Vec<Dimension> = c
        .dims
        .iter()
        .map(|d| Dimension {
            name: d.binder.name.to_string(),
            id: d.binder.id,
            lo: d.lo.clone(),
            hi: d.hi.clone(),
            combine: d.combine.clone(),
            ordered: match d.combine {
                Combine::Concat => false,
                Combine::Scan(_) => true,
                Combine::Reduce(_) => !commutative,
            },
        })
        .collect();

    let buffers = buffers(func);
    let mut inputs: Vec<Operand> = Vec::new();
    for value in &c.values {
        for a in visit::loads_of(value) {
            add(&mut inputs, &buffers, &a, &ids)?;
        }
        let mut call = None;
        visit::walk_expr(value, &mut |e| {
            if let lathe_ir::ExprKind::Call(f, _) = e.kind() {
                call = Some(f.clone());
            }
        });
        if let Some(f) = call {
            return unsupported(format!("the scalar function calls `{f}`"), "inline the function");
        }
    }
    let mut outputs: Vec<Operand> = Vec::new();
    for t in &c.targets {
        add(&mut outputs, &buffers, t, &ids)?;
    }
    for o in &outputs {
        // Each element may become another one of itself.
        let itself = |i: &Operand| op.is_none() && o.accesses.len() == 1 && i.accesses == o.accesses;
        if let Some(i) = inputs.iter().find(|i| i.buffer.id == o.buffer.id && !itself(i)) {
            return unsupported(
                format!("`{}` is both read and written", i.name()),
                "a homomorphism makes new arrays from old ones, or each element of an array from itself",
            );
        }
        let reduced = |d: usize| matches!(dims[d].combine, Combine::Reduce(_));
        for s in o.accesses.iter().flat_map(|a| &a.subscripts) {
            if let Some(d) = (0..dims.len()).find(|d| reduced(*d) && s.coefficients[*d] != 0) {
                let text = format!("`{}` is subscripted by `{}`, which is reduced", o.name(), dims[d].name);
                return Err(Diagnostic::error(codes::NOT_INJECTIVE, text)
                    .help("a reduced index has only the value 0 in an output"));
            }
        }
    }
    Ok(Homomorphism {
        name: c.label.to_string(),
        dims,
        inputs,
        outputs,
        values: c.values.clone(),
        targets: c.targets.clone(),
        op,
        identity,
        sizes: func.sizes.clone(),
    })
}

/// Every buffer of a function, local ones included.
fn buffers(func: &Function) -> Vec<Arc<Buffer>> {
    let params = func.params.iter().filter_map(|p| match &p.kind {
        ParamKind::Array(b) => Some(b.clone()),
        ParamKind::Scalar(_) => None,
    });
    let mut out: Vec<Arc<Buffer>> = params.collect();
    visit::walk(&func.body, &mut |s, _| {
        out.extend(s.allocated().cloned());
        true
    });
    out
}

fn add(
    into: &mut Vec<Operand>,
    buffers: &[Arc<Buffer>],
    a: &Access,
    dims: &[VarId],
) -> Result<(), Diagnostic> {
    let Some(buffer) = a.view.buffer().and_then(|id| buffers.iter().find(|b| b.id == id)) else {
        return Err(Diagnostic::error(codes::SPARSE, "an access is made through a pointer")
            .at_places(&a.places, "this access"));
    };
    let f = index_function(a, dims, &buffer.name)?;
    match into.iter_mut().find(|o| o.buffer.id == buffer.id) {
        Some(o) if o.accesses.contains(&f) => {}
        Some(o) => o.accesses.push(f),
        None => into.push(Operand { buffer: buffer.clone(), accesses: vec![f] }),
    }
    Ok(())
}
