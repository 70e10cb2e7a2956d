//! The host's side of a call: memory, loops, checks and launches, as the plan says.

use crate::codes;
use crate::kept::Hosted;
use lathe_abi::{CheckKind, status};
use lathe_device::{Argument, Item};
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::{BufId, Buffer, Expr, Name, Scalar, VarId};
use lathe_source::device::DeviceKernel;
use std::collections::HashMap;

/// What a kernel is given.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Array(BufId),
    /// The bytes of a scalar, as the kernel declares it.
    Bytes(Vec<u8>, Scalar),
    /// A scalar parameter whose value is not known yet.
    Named(Name, Scalar),
}

/// One launch.
pub struct Launch<'a> {
    pub number: usize,
    pub kernel: &'a DeviceKernel,
    pub blocks: u64,
    pub threads: u64,
    /// Those of the plan; then come the words by which blocks wait for one another, and the status.
    pub arguments: Vec<Value>,
    /// Bytes of these words, which are 0 before the launch; 0 if the kernel has none.
    pub turns: u64,
    /// Sizes, scalars, and the loops of the host that are around.
    pub known: &'a Known,
}

/// Executes the plan.
pub trait Launcher {
    /// Memory of a buffer of the function, of that many bytes.
    ///
    /// # Errors
    /// When there is none.
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic>;

    fn free(&mut self, buffer: BufId);

    /// An iteration, of so many, of a loop over devices begins. It ends with [`Launcher::leave_device`].
    fn enter_device(&mut self, _iteration: u64, _of: u64) {}

    fn leave_device(&mut self) {}

    /// Starts a kernel after all that were started before.
    ///
    /// # Errors
    /// What the device refuses.
    fn launch(&mut self, launch: &Launch) -> Result<(), Diagnostic>;
}

/// Values of sizes, scalars, and what the host has bound.
#[derive(Clone, Default)]
pub struct Known {
    /// Integers, for expressions.
    pub integers: HashMap<VarId, i64>,
    /// Scalars as kernels take them.
    pub scalars: HashMap<VarId, Value>,
}

impl Known {
    fn bind(&mut self, id: VarId, ty: Scalar, value: i64) {
        self.integers.insert(id, value);
        let bytes = value.to_le_bytes()[..ty.bytes() as usize].to_vec();
        self.scalars.insert(id, Value::Bytes(bytes, ty));
    }

    /// Binds a size.
    pub fn size(&mut self, id: VarId, value: i64) {
        self.bind(id, Scalar::Index, value);
    }

    /// The value of an expression of the host, or the status of what went wrong.
    fn value(&self, e: &Expr) -> Result<i64, Diagnostic> {
        evaluate(e, &self.integers).ok_or_else(|| {
            Diagnostic::error(codes::LAUNCHES, format!("the host cannot compute the value of `{e:?}`"))
                .help("use sizes and scalars that are known before the call")
        })
    }
}

/// Executes the plan: 0, or the number of the check that failed.
///
/// # Errors
/// Those of the driver.
pub fn run(hosted: &Hosted, driver: &mut dyn Launcher, known: &Known) -> Result<i32, Diagnostic> {
    let mut known = known.clone();
    items(hosted, driver, &mut known, &hosted.plan.items)
}

fn items(s: &Hosted, d: &mut dyn Launcher, known: &mut Known, all: &[Item]) -> Result<i32, Diagnostic> {
    for item in all {
        let failed = one(s, d, known, item)?;
        if failed != status::OK {
            return Ok(failed);
        }
    }
    Ok(status::OK)
}

fn one(s: &Hosted, d: &mut dyn Launcher, known: &mut Known, item: &Item) -> Result<i32, Diagnostic> {
    match item {
        Item::Alloc { buffer, body } => {
            let extents =
                lathe_ir::lower::storage(buffer).map_or_else(|_| buffer.extents.clone(), |s| s.extents);
            let mut bytes = buffer.elem.bytes();
            for e in &extents {
                let n = known.value(e)?.max(0) as u64;
                match bytes.checked_mul(n) {
                    Some(b) => bytes = b,
                    None => return Ok(status::SIZE_OVERFLOW),
                }
            }
            d.alloc(buffer, bytes)?;
            let done = items(s, d, known, body);
            d.free(buffer.id);
            done
        }
        Item::Let { binder, value, body } => {
            let value = known.value(value)?;
            known.bind(binder.id, binder.ty, value);
            items(s, d, known, body)
        }
        Item::Loop { binder, lo, hi, step, devices, body } => {
            let (lo, hi) = (known.value(lo)?, known.value(hi)?);
            let trips = hi.saturating_sub(lo).max(0) as u64;
            let (trips, mut number) = (trips.div_ceil(*step as u64), 0);
            let mut at = lo;
            while at < hi {
                known.bind(binder.id, binder.ty, at);
                if *devices {
                    d.enter_device(number, trips);
                }
                let failed = items(s, d, known, body);
                if *devices {
                    d.leave_device();
                }
                number += 1;
                let failed = failed?;
                if failed != status::OK {
                    return Ok(failed);
                }
                match at.checked_add(*step) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            Ok(status::OK)
        }
        Item::If { cond, then, other } => {
            let branch = if known.value(cond)? != 0 { then } else { other };
            items(s, d, known, branch)
        }
        Item::Check { cond, code, message } => {
            if known.value(cond)? != 0 {
                return Ok(status::OK);
            }
            let same = |c: &CheckKind| matches!(c, CheckKind::User { code: k, message: m } if **k == **code && **m == **message);
            let at = s.checks.iter().position(same);
            at.map(|at| at as i32 + 1).ok_or_else(|| {
                Diagnostic::error(lathe_engine::codes::DEFECT, format!("check `{code}` has no number"))
            })
        }
        Item::Launch(number) => {
            let (plan, kernel) = (&s.plan.kernels[*number], &s.kernels[*number]);
            let mut blocks = plan.cluster.as_ref().map_or(1, |c| c.blocks.max(1) as u64);
            for n in &plan.counts {
                let n = known.value(n)?.max(0) as u64;
                blocks = blocks.checked_mul(n).filter(|b| *b <= i32::MAX as u64).ok_or_else(|| {
                    let text = format!("the grid of `{}` has more than {} blocks", kernel.name, i32::MAX);
                    Diagnostic::error(codes::DEVICE_LIMIT, text).help("give each block more work")
                })?;
            }
            if blocks == 0 {
                return Ok(status::OK);
            }
            let argument = |a: &Argument| match a {
                Argument::Array(b) => Ok(Value::Array(b.id)),
                Argument::Scalar(b) => known.scalars.get(&b.id).cloned().ok_or_else(|| {
                    Diagnostic::error(lathe_engine::codes::DEFECT, format!("`{}` has no value", b.name))
                }),
            };
            let arguments = plan.arguments.iter().map(argument).collect::<Result<_, _>>()?;
            let words = kernel.turns.checked_mul(blocks).and_then(|w| w.checked_add(1)?.checked_mul(8));
            let turns = if kernel.turns == 0 { Some(0) } else { words };
            let Some(turns) = turns else { return Ok(status::SIZE_OVERFLOW) };
            let threads = plan.threads as u64;
            d.launch(&Launch { number: *number, kernel, blocks, threads, arguments, turns, known: &*known })?;
            Ok(status::OK)
        }
    }
}
