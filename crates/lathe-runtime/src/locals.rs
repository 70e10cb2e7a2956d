//! What the local arrays of a kernel take, before it runs: systems grant memory that they do not have, and end the process
//! when it is written to.
//!
//! Counted is what a call surely holds at one time, as far as its arguments tell: arrays whose extents follow from sizes and
//! integers, in loops that run and branches that are taken. It is a bound from below, so nothing is refused that would run.

use crate::array::ArgView;
use crate::codes;
use crate::scratch::kept;
use crate::storage::{available_memory, human};
use lathe_diagnostics::Diagnostic;
use lathe_engine::dtype_of;
use lathe_ir::build::{add, index, lt, max, mul, not, select};
use lathe_ir::text::{Scope, print_expr};
use lathe_ir::visit::{loads_of, substitute, vars_of};
use lathe_ir::{BinOp, Expr, ExprKind, Function, ParamKind, Scalar, Space, Stmt, UnOp, VarId};
use lathe_poly::sizes::{size_sources, within};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Less than this is not looked at.
const LARGE: i128 = 64 << 20;
/// More steps than any amount of memory that was written by somebody takes.
const MAX_STEPS: usize = 512;

/// Amounts of memory over the arguments of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locals {
    total: Vec<Step>,
    arrays: Vec<Array>,
}

/// A local array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Array {
    name: String,
    /// Its bytes, as they are printed.
    text: String,
    /// 0 where it is not allocated.
    bytes: Vec<Step>,
}

/// A step of a calculation on a stack of integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Int(i64),
    Extent { param: usize, dim: usize },
    Scalar { param: usize, dtype: u32, bytes: u32, signed: bool },
    Add,
    Sub,
    Mul,
    FloorDiv,
    FloorMod,
    TruncDiv,
    Min,
    Max,
    Eq,
    Ne,
    Lt,
    Le,
    And,
    Or,
    Not,
    Select,
}

impl Locals {
    /// Of a function that may be for a device: what that allocates is not in the host's memory.
    pub fn on(device: bool, func: &Function) -> Locals {
        if device { Locals::default() } else { Locals::of(func) }
    }

    /// Of a function as engines allocate it.
    pub fn of(func: &Function) -> Locals {
        let mut b = Builder::of(func);
        let total = b.most(&func.body);
        let total = total.and_then(|e| b.steps(&e)).unwrap_or_default();
        let scope = Scope::of_function(func);
        let arrays = std::mem::take(&mut b.arrays).into_iter().filter_map(|(name, bytes, under)| {
            let there = under.into_iter().fold(bytes.clone(), |n, cond| select(cond, n, index(0)));
            Some(Array { name, text: print_expr(&bytes, &scope), bytes: b.steps(&there)? })
        });
        let arrays = arrays.collect();
        if total.is_empty() { Locals::default() } else { Locals { total, arrays } }
    }

    /// Refuses a call whose arrays the machine has no memory for.
    pub(crate) fn fit(&self, name: &str, args: &[ArgView]) -> Result<(), Diagnostic> {
        if self.total.is_empty() {
            return Ok(());
        }
        // Other amounts are an overflow, which the call reports.
        let all = match value(&self.total, args) {
            Some(all) if all >= LARGE && all <= i128::from(i64::MAX) => all,
            _ => return Ok(()),
        };
        match available_memory() {
            // What this thread keeps for its next request is in use and free.
            Some(free) if all > i128::from(free.saturating_add(kept())) => {
                Err(self.refused(name, args, all, free))
            }
            _ => Ok(()),
        }
    }

    fn refused(&self, name: &str, args: &[ArgView], all: i128, free: u64) -> Diagnostic {
        const SHOWN: usize = 4;
        let size = |n: i128| human(u64::try_from(n).unwrap_or(u64::MAX));
        let text = format!("`{name}` needs {} for its local arrays ({all} bytes)", size(all));
        let d = Diagnostic::error(codes::KERNEL_MEMORY, text);
        let d = d.note(format!("the machine has {} available", human(free)));
        let mut each: Vec<(i128, &Array)> =
            self.arrays.iter().filter_map(|a| Some((value(&a.bytes, args)?, a))).collect();
        each.sort_by_key(|(n, _)| std::cmp::Reverse(*n));
        let d =
            each.iter().take(SHOWN).filter(|(n, _)| *n > 0).fold(d, |d, (n, a)| {
                d.note(format!("`{}` takes {}: {} = {n} bytes", a.name, size(*n), a.text))
            });
        // The names of what derivatives keep end so.
        let is_tape = |(n, a): &(i128, &Array)| 2 * *n > LARGE && a.name.ends_with(".tape");
        if each.iter().any(is_tape) {
            return d.help(
                "keep few states instead of values of every iteration: `checkpoint: 8` in files, `lathe grad --checkpoint \
                 revolve:8` or a number of bytes, `checkpoints=8` in Python",
            );
        }
        d.help("use smaller sizes, or a machine with more memory")
    }
}

/// The value of a calculation; `None` where arguments do not fit, or a step has no value.
fn value(steps: &[Step], args: &[ArgView]) -> Option<i128> {
    // Nothing is allocated at a call.
    let mut stack = Stack { all: [0; DEEP], used: 0 };
    for s in steps {
        let v = match s {
            Step::Int(v) => i128::from(*v),
            Step::Extent { param, dim } => i128::from(*args.get(*param)?.shape().get(*dim)?),
            Step::Scalar { param, dtype, bytes, signed } => {
                let a = args.get(*param).filter(|a| a.dtype() == *dtype && a.shape().is_empty())?;
                number(a, *bytes as usize, *signed)?
            }
            Step::Not => 1 - stack.pop()?,
            Step::Select => {
                let (b, a, c) = (stack.pop()?, stack.pop()?, stack.pop()?);
                if c != 0 { a } else { b }
            }
            _ => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                match s {
                    Step::Add => a.saturating_add(b),
                    Step::Sub => a.saturating_sub(b),
                    Step::Mul => a.saturating_mul(b),
                    Step::FloorDiv => floor_div(a, b)?,
                    Step::FloorMod => a.checked_sub(b.checked_mul(floor_div(a, b)?)?)?,
                    Step::TruncDiv => a.checked_div(b)?,
                    Step::Min => a.min(b),
                    Step::Max => a.max(b),
                    Step::Eq => i128::from(a == b),
                    Step::Ne => i128::from(a != b),
                    Step::Lt => i128::from(a < b),
                    Step::Le => i128::from(a <= b),
                    Step::And => a.min(b),
                    Step::Or => a.max(b),
                    _ => return None,
                }
            }
        };
        stack.push(v)?;
    }
    stack.pop()
}

const DEEP: usize = 32;

struct Stack {
    all: [i128; DEEP],
    used: usize,
}

impl Stack {
    fn push(&mut self, v: i128) -> Option<()> {
        *self.all.get_mut(self.used)? = v;
        self.used += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<i128> {
        self.used = self.used.checked_sub(1)?;
        self.all.get(self.used).copied()
    }
}

fn floor_div(a: i128, b: i128) -> Option<i128> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

/// The integer that an argument of rank 0 is.
fn number(a: &ArgView, bytes: usize, signed: bool) -> Option<i128> {
    let mut all = [0u8; 8];
    let own = all.get_mut(..bytes)?;
    // SAFETY: a valid descriptor of rank 0 has one element, of as many bytes as its type, and is lent for the call.
    unsafe { std::ptr::copy_nonoverlapping(a.raw.data.cast::<u8>(), own.as_mut_ptr(), bytes) };
    let shift = 64 - 8 * bytes as u32;
    let bits = u64::from_le_bytes(all) << shift;
    Some(if signed { i128::from(bits as i64 >> shift) } else { i128::from(bits >> shift) })
}

struct Builder<'f> {
    func: &'f Function,
    /// What sizes are, and how integers are read.
    sizes: HashMap<VarId, Vec<Step>>,
    /// Names for values that arguments tell.
    lets: HashMap<VarId, Expr>,
    /// The conditions around what is looked at.
    under: Vec<Expr>,
    arrays: Vec<(String, Expr, Vec<Expr>)>,
}

impl<'f> Builder<'f> {
    fn of(func: &'f Function) -> Builder<'f> {
        let mut b = Builder {
            func,
            sizes: HashMap::new(),
            lets: HashMap::new(),
            under: Vec::new(),
            arrays: Vec::new(),
        };
        for (param, p) in func.params.iter().enumerate() {
            if let ParamKind::Scalar(s) = &p.kind
                && s.ty.is_int()
            {
                let signed = s.ty.is_signed();
                let (dtype, bytes) = (dtype_of(&s.ty.into()), s.ty.bytes() as u32);
                b.sizes.insert(s.id, vec![Step::Scalar { param, dtype, bytes, signed }]);
            }
        }
        for s in size_sources(func, &|_| true) {
            // The extent, for the quotient.
            let extent = VarId(u32::MAX);
            b.sizes.insert(extent, vec![Step::Extent { param: s.param, dim: s.dim }]);
            let e = within(s.equation.quotient(lathe_ir::build::var_id(extent, Scalar::Index)));
            let plain = s.equation.is_plain().then(|| b.sizes[&extent].clone());
            if let Some(steps) = plain.or_else(|| b.steps(&e)) {
                b.sizes.insert(s.equation.size, steps);
            }
            b.sizes.remove(&extent);
        }
        b
    }

    /// An expression over arguments alone.
    fn known(&self, e: &Expr) -> Option<Expr> {
        let e = substitute(e, &self.lets);
        let fits = loads_of(&e).is_empty() && vars_of(&e).iter().all(|v| self.sizes.contains_key(v));
        fits.then_some(e)
    }

    /// The most bytes that a statement surely holds at one time.
    fn most(&mut self, s: &Stmt) -> Option<Expr> {
        // What holds none, and bodies that may never run or that others run, count as nothing: a bound from below.
        if let Some(list) = s.as_seq() {
            return list.iter().filter_map(|c| self.most(c)).reduce(max);
        }
        if let Some((binder, value, body)) = s.as_let() {
            if let Some(v) = self.known(value) {
                self.lets.insert(binder.id, v);
            }
            return self.most(body);
        }
        if let Some((buffer, body)) = s.as_alloc() {
            let extents: Option<Vec<Expr>> = buffer.extents.iter().map(|e| self.known(e)).collect();
            let own = extents.filter(|_| buffer.space == Space::Host).map(|extents| {
                let each = extents.into_iter().map(|e| match e.kind() {
                    // Sizes are no less than 0, nor is what is the larger one of 0 and something.
                    ExprKind::Var(v) if self.func.sizes.iter().any(|s| s.id == *v) => e,
                    ExprKind::Binary(BinOp::Max, _, b) if b.as_int() == Some(0) => e,
                    ExprKind::Int(v) if *v >= 0 => e,
                    _ => max(e, index(0)),
                });
                each.fold(index(buffer.elem.bytes() as i64), mul)
            });
            if let Some(own) = &own {
                self.arrays.push((buffer.name.to_string(), own.clone(), self.under.clone()));
            }
            let inside = self.most(body);
            return own.into_iter().chain(inside).reduce(add);
        }
        if let Some(l) = s.as_loop() {
            let (lo, hi) = (self.known(&l.lo)?, self.known(&l.hi)?);
            let runs = lt(lo, hi);
            let inside = self.most_under(runs.clone(), &l.body)?;
            return Some(if runs.as_bool() == Some(true) { inside } else { select(runs, inside, index(0)) });
        }
        let (cond, then, other) = s.as_if()?;
        let cond = self.known(cond)?;
        let then = self.most_under(cond.clone(), then);
        let other = other.and_then(|o| self.most_under(not(cond.clone()), o));
        if then.is_none() && other.is_none() {
            return None;
        }
        let zero = || index(0);
        Some(select(cond, then.unwrap_or_else(zero), other.unwrap_or_else(zero)))
    }

    fn most_under(&mut self, cond: Expr, s: &Stmt) -> Option<Expr> {
        self.under.push(cond);
        let out = self.most(s);
        self.under.pop();
        out
    }

    /// The calculation of an expression.
    fn steps(&self, e: &Expr) -> Option<Vec<Step>> {
        let mut out = Vec::new();
        self.append(e, &mut out)?;
        Some(out)
    }

    fn append(&self, e: &Expr, out: &mut Vec<Step>) -> Option<()> {
        if out.len() > MAX_STEPS {
            return None;
        }
        let step = match e.kind() {
            ExprKind::Int(v) => Step::Int(*v),
            ExprKind::Bool(v) => Step::Int(i64::from(*v)),
            ExprKind::Var(v) => {
                out.extend(self.sizes.get(v)?);
                return Some(());
            }
            // What of an integer does not fit 64 bits is no size.
            ExprKind::Cast(a) if e.ty().scalar()?.bytes() == 8 && a.ty().scalar()?.is_int() => {
                return self.append(a, out);
            }
            ExprKind::Unary(UnOp::Not, a) if e.ty().scalar() == Some(Scalar::Bool) => {
                self.append(a, out)?;
                Step::Not
            }
            ExprKind::Select(c, a, b) => {
                [c, a, b].into_iter().try_for_each(|x| self.append(x, out))?;
                Step::Select
            }
            ExprKind::Binary(op, a, b) => {
                let ty = a.ty().scalar()?;
                let (a, b) = if matches!(op, BinOp::Gt | BinOp::Ge) { (b, a) } else { (a, b) };
                self.append(a, out)?;
                self.append(b, out)?;
                let is_exact = matches!(ty, Scalar::Index | Scalar::I64);
                match op {
                    BinOp::Add if is_exact => Step::Add,
                    BinOp::Sub if is_exact => Step::Sub,
                    BinOp::Mul if is_exact => Step::Mul,
                    BinOp::FloorDiv if is_exact => Step::FloorDiv,
                    BinOp::FloorMod if is_exact => Step::FloorMod,
                    BinOp::TruncDiv if is_exact => Step::TruncDiv,
                    BinOp::Min if ty.is_int() => Step::Min,
                    BinOp::Max if ty.is_int() => Step::Max,
                    BinOp::Eq if !ty.is_float() => Step::Eq,
                    BinOp::Ne if !ty.is_float() => Step::Ne,
                    BinOp::Lt | BinOp::Gt if ty.is_int() => Step::Lt,
                    BinOp::Le | BinOp::Ge if ty.is_int() => Step::Le,
                    BinOp::And if ty == Scalar::Bool => Step::And,
                    BinOp::Or if ty == Scalar::Bool => Step::Or,
                    _ => return None,
                }
            }
            _ => return None,
        };
        out.push(step);
        Some(())
    }
}
