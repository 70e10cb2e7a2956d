//! Constant arrays of the module that kernels read. Printers declare them at file scope, in constant memory, as words of their
//! bits, so that every value is exactly that of the tree, NaNs and zeros with signs, too.

use lathe_diagnostics::Places;
use lathe_ir::build::index;
use lathe_ir::lower::Unsupported;
use lathe_ir::scalar::of_f64;
use lathe_ir::visit::map_accesses;
use lathe_ir::{
    Access, BufId, Buffer, Expr, ExprKind, Function, Global, Init, Module, Name, Space, Type, View,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of constant memory: what CUDA gives a module, and OpenCL at least (`CL_DEVICE_MAX_CONSTANT_BUFFER_SIZE`).
pub const MOST: u64 = 64 << 10;

/// An array of values that nothing writes.
pub struct Constant {
    /// It stands for the array in the tree; nothing declares it there.
    pub buffer: Arc<Buffer>,
    /// Bytes of a word: the alignment of an element, at most 8.
    pub word: u64,
    /// The bits of its elements, as they lie in memory; of an array without elements, one word that nothing reads.
    pub words: Vec<u64>,
    /// Constant memory has room for it, beside those before it.
    pub fits: bool,
    /// Bytes of constant memory that those before it leave.
    pub left: u64,
}

impl Constant {
    pub fn bytes(&self) -> u64 {
        self.word * self.words.len() as u64
    }
}

/// The function with buffers in the place of the constant arrays that it reads, and these, in the order of their names.
///
/// # Errors
/// Arrays that may be written, and values that are no constants.
pub fn constants(module: &Module, func: &Function) -> Result<(Vec<Constant>, Function), Unsupported> {
    let (mut all, mut failed, mut next) = (BTreeMap::new(), None, func.next_id);
    let body = map_accesses(&func.body, &mut |a| {
        let name = global(&a.view)?;
        if !all.contains_key(name) {
            match constant(module, name, BufId(next), &a.places) {
                Ok(c) => {
                    next += 1;
                    all.insert(name.clone(), c);
                }
                Err(u) => {
                    failed.get_or_insert(u);
                }
            }
        }
        let id = all.get(name)?.buffer.id;
        Some(Access { view: with_base(&a.view, &View::Buffer(id)), ..a.clone() })
    });
    let mut used = 0;
    for c in all.values_mut() {
        c.left = MOST - used;
        c.fits = c.bytes() <= c.left;
        used += if c.fits { c.bytes() } else { 0 };
    }
    match failed {
        Some(u) => Err(u),
        None if all.is_empty() => Ok((Vec::new(), func.clone())),
        None => Ok((all.into_values().collect(), Function { body, next_id: next, ..func.clone() })),
    }
}

/// The function with the names of the arrays again.
pub fn named(all: &[Constant], func: &Function) -> Function {
    if all.is_empty() {
        return func.clone();
    }
    let names: BTreeMap<BufId, &Name> = all.iter().map(|c| (c.buffer.id, &c.buffer.name)).collect();
    let body = map_accesses(&func.body, &mut |a| {
        let name = (*names.get(&a.view.buffer()?)?).clone();
        Some(Access { view: with_base(&a.view, &View::Global(name)), ..a.clone() })
    });
    Function { body, ..func.clone() }
}

/// The global that a view ends in.
fn global(v: &View) -> Option<&Name> {
    match v {
        View::Global(name) => Some(name),
        View::Slice { base, .. } | View::Reshape { base, .. } => global(base),
        View::Buffer(_) | View::Reinterpret { .. } | View::Deref { .. } => None,
    }
}

/// The same view of something else.
fn with_base(v: &View, to: &View) -> View {
    match v {
        View::Slice { base, offsets, steps } => View::Slice {
            base: Box::new(with_base(base, to)),
            offsets: offsets.clone(),
            steps: steps.clone(),
        },
        View::Reshape { base, extents } => {
            View::Reshape { base: Box::new(with_base(base, to)), extents: extents.clone() }
        }
        View::Buffer(_) | View::Global(_) => to.clone(),
        View::Reinterpret { .. } | View::Deref { .. } => v.clone(),
    }
}

fn constant(module: &Module, name: &Name, id: BufId, at: &Places) -> Result<Constant, Unsupported> {
    let Some(g) = module.globals.get(name).filter(|g| g.space == Space::Constant) else {
        let text = format!("the global `{name}`, which is not constant, in a kernel");
        return Err(Unsupported::new(text).at(at).help("declare it `constant`, or make it a parameter"));
    };
    let word = g.elem.align().clamp(1, 8);
    let Some(words) = words(g, word) else {
        let text = format!("the constant array `{name}` in a kernel, whose values are not all constants");
        return Err(Unsupported::new(text).at(at).help("make it a parameter of the function"));
    };
    let extents = g.extents.iter().map(|n| index(i64::try_from(*n).unwrap_or(i64::MAX))).collect();
    let buffer = Buffer::local(id, name.clone(), g.elem.clone(), extents, Space::Constant);
    Ok(Constant { buffer, word, words, fits: false, left: 0 })
}

/// The bits of all elements; of an array without elements, one word that nothing reads.
fn words(g: &Global, word: u64) -> Option<Vec<u64>> {
    let size = g.elem.bytes().next_multiple_of(word);
    let mut bytes = vec![0u8; usize::try_from(size.checked_mul(g.elements()?)?).ok()?];
    if let Init::Values(values) = &g.init {
        for (v, to) in values.iter().zip(bytes.chunks_mut(size as usize)) {
            fill(v, to)?;
        }
    }
    let le = |b: &[u8]| b.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let mut out: Vec<u64> = bytes.chunks(word as usize).map(le).collect();
    if out.is_empty() {
        out.push(0);
    }
    Some(out)
}

/// Writes a constant as it lies in memory; what is between its fields stays 0.
fn fill(v: &Expr, to: &mut [u8]) -> Option<()> {
    let scalar = || v.ty().scalar();
    let bits = match v.kind() {
        ExprKind::Aggregate(parts) => {
            let fields: Vec<Type> = v.ty().fields();
            let places = v.ty().offsets();
            return parts.iter().zip(fields.iter().zip(places)).try_for_each(|(part, (ty, at))| {
                fill(part, to.get_mut(at as usize..(at + ty.bytes()) as usize)?)
            });
        }
        ExprKind::Bool(b) => u64::from(*b),
        ExprKind::Int(n) => *n as u64,
        ExprKind::Float(f) => of_f64(scalar()?, f.get()),
        _ => return None,
    };
    let n = scalar()?.bytes() as usize;
    to.get_mut(..n)?.copy_from_slice(&bits.to_le_bytes()[..n]);
    Some(())
}
