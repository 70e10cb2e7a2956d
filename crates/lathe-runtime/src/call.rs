//! Calls: arguments become descriptors on the stack, and what a kernel returns becomes a diagnostic
//! with names and numbers.

use crate::array::ArgView;
use crate::codes;
use crate::engine::Kernel;
use crate::externals;
use crate::pool::Pool;
use crate::stop::{Limits, Reason, Watched};
use lathe_abi::{CheckKind, KernelFn, Runtime, dtype, status};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Code, dtype_of};
use lathe_ir::visit::substitute;
use lathe_ir::{Expr, Function, Mode, ParamKind, Scalar, Type, VarId};
use lathe_poly::sizes::{self, SizeSource, size_sources};
use std::collections::HashMap;
use std::mem::MaybeUninit;

/// Descriptors that fit the stack; more arguments than that go to the heap.
const INLINE: usize = 24;

impl Kernel {
    pub fn name(&self) -> &str {
        &self.signature.function.name
    }

    /// The function that was compiled.
    pub fn function(&self) -> &Function {
        &self.signature.function
    }

    /// Calls the kernel: one argument per parameter, in order; scalars are rank-0 arrays. Parallel
    /// loops run on the pool. Nothing is allocated for up to 24 arguments.
    ///
    /// # Errors
    /// `E0808` to `E0817` and `E0822`, naming the argument with expected and given values. Arguments are
    /// checked before anything is written; a failed `check` statement or a division by zero may leave
    /// outputs partly written.
    pub fn call(&self, pool: &Pool, args: &mut [ArgView]) -> Result<(), Diagnostic> {
        self.call_within(pool, args, &Limits::default())
    }

    /// As [`Kernel::call`]; the call may end before the kernel is done, and what it writes is unspecified then. Code of
    /// devices runs to its end; the interpreter looks at limits every few thousand steps.
    ///
    /// # Errors
    /// As [`Kernel::call`]; `E0824` if it was interrupted, `E0825` if its time was over.
    pub fn call_within(&self, pool: &Pool, args: &mut [ArgView], limits: &Limits) -> Result<(), Diagnostic> {
        let written = &self.signature.written;
        if args.len() != written.len() {
            return Err(self.wrong_count(args.len()));
        }
        for (at, (a, w)) in args.iter().zip(written).enumerate() {
            if *w && !(a.writable && distinct(a.shape(), a.strides())) {
                return Err(self.not_writable(at, a));
            }
        }
        self.locals.fit(self.name(), args)?;
        let mut inline = [const { MaybeUninit::<lathe_abi::Array>::uninit() }; INLINE];
        let mut heap = Vec::new();
        let descriptors = if args.len() <= INLINE {
            for (slot, a) in inline.iter_mut().zip(args.iter()) {
                slot.write(a.raw);
            }
            inline.as_ptr().cast::<lathe_abi::Array>()
        } else {
            heap.extend(args.iter().map(|a| a.raw));
            heap.as_ptr()
        };
        // Code of others is not left at any instruction: calls of it run to their end.
        let table = externals::table(self.name(), externals::called(&self.checks))?;
        let runtime = Runtime { externals: table.as_ptr(), ..pool.runtime() };
        let watched = if limits.none() || self.entry.is_some() && !table.is_empty() {
            None
        } else {
            Some(self.watched(*limits)?)
        };
        let run = |entry: Option<KernelFn>, code: &dyn Code| {
            // SAFETY: as many valid descriptors as the kernel has parameters; written arguments were lent
            // mutably. The prologue checks types, ranks, shapes and overlaps before it touches data. The
            // table's pool lives through the call.
            unsafe {
                match (entry, &watched) {
                    (Some(entry), None) => Ok(entry(&runtime, descriptors)),
                    (Some(entry), Some(w)) => Ok(w.enter(entry, (&runtime, descriptors))),
                    (None, w) => {
                        let all = std::slice::from_raw_parts(descriptors, args.len());
                        match w {
                            None => code.call(&runtime, all),
                            Some(w) => code.call_asking(&runtime, all, &|| w.ask()),
                        }
                    }
                }
            }
        };
        let mut result = run(self.entry, &*self.code)?;
        if result == status::STRIDES {
            // The same function, compiled for any strides.
            let code = self.any_strides()?;
            result = run(code.entry(), code)?;
        }
        if result == status::OK {
            return Ok(());
        }
        match watched.as_ref().and_then(|w| w.reason(result)) {
            Some(reason) => Err(self.ended(reason, limits)),
            None => Err(self.explain(result, args)),
        }
    }

    fn watched<'a>(&self, limits: Limits<'a>) -> Result<Watched<'a>, Diagnostic> {
        Watched::begin(limits).ok_or_else(|| {
            let text = format!("no thread can be started that watches the call of `{}`", self.name());
            Diagnostic::error(codes::POOL, text).help("call it without a time limit")
        })
    }

    /// What is said of a call that was ended.
    fn ended(&self, reason: Reason, limits: &Limits) -> Diagnostic {
        let name = self.name();
        let d = match reason {
            Reason::Interrupted => Diagnostic::error(codes::INTERRUPTED, format!("`{name}` was interrupted")),
            Reason::Time => {
                let seconds = limits.time.unwrap_or_default().as_secs_f64();
                let text = format!("`{name}` took longer than its time limit of {seconds} s");
                Diagnostic::error(codes::TIME_LIMIT, text)
            }
        };
        d.note("outputs are partially written: their contents are unspecified")
    }

    /// Runs the kernel that often on a device's own memory, after one run as by [`Kernel::call`] (which must have
    /// accepted such arguments before), and gives the seconds of each by the device's clock; none where code runs on
    /// the host.
    ///
    /// # Errors
    /// Those of the device.
    pub fn seconds(&self, args: &mut [ArgView], runs: usize) -> Result<Option<Vec<f64>>, Diagnostic> {
        let descriptors = self.descriptors(args)?;
        // SAFETY: as in `call`.
        unsafe { self.code.seconds(&descriptors, runs) }
    }

    /// Starts the kernel on arrays in the memory of its device, in the order of a stream (see
    /// [`lathe_engine::Code::start`]); scalars are in the memory of the host.
    ///
    /// # Errors
    /// As [`Kernel::call`], and `E0707` for arrays that kernels of devices do not take.
    ///
    /// # Safety
    /// The memory of arrays is memory of the device, holds the elements that extents and strides describe, and stays
    /// until the stream has reached the end of the kernel.
    pub unsafe fn start(&self, args: &mut [ArgView], stream: u64) -> Result<(), Diagnostic> {
        let descriptors = self.descriptors(args)?;
        // SAFETY: the caller's promise, and as in `call`.
        let result = unsafe { self.code.start(&descriptors, stream) }?;
        if result == status::OK { Ok(()) } else { Err(self.explain(result, args)) }
    }

    fn descriptors(&self, args: &[ArgView]) -> Result<Vec<lathe_abi::Array>, Diagnostic> {
        if args.len() != self.signature.written.len() {
            return Err(self.wrong_count(args.len()));
        }
        let fits = |(a, w): (&ArgView, &bool)| !*w || a.writable && distinct(a.shape(), a.strides());
        if let Some(at) = args.iter().zip(&self.signature.written).position(|p| !fits(p)) {
            return Err(self.not_writable(at, &args[at]));
        }
        Ok(args.iter().map(|a| a.raw).collect())
    }

    pub(crate) fn wrong_count(&self, given: usize) -> Diagnostic {
        let names: Vec<String> = (0..self.signature.written.len()).map(|i| self.signature.param(i)).collect();
        Diagnostic::error(
            codes::ARGUMENT_COUNT,
            format!("`{}` takes {} arguments, {given} were given", self.name(), names.len()),
        )
        .help(format!("in this order: {}", names.join(", ")))
    }

    fn not_writable(&self, at: usize, a: &ArgView) -> Diagnostic {
        let name = self.signature.param(at);
        if a.writable {
            return Diagnostic::error(
                codes::ARGUMENT_OVERLAP,
                format!(
                    "elements of `{name}`, which is written, share memory: shape {:?}, strides {:?}",
                    a.shape(),
                    a.strides()
                ),
            )
            .help("pass an array whose elements do not overlap");
        }
        Diagnostic::error(
            codes::NOT_WRITABLE,
            format!("`{name}` is written by `{}`, but was passed as a read-only view", self.name()),
        )
        .help("pass it with `view_mut`")
    }

    /// What a status means for these arguments.
    pub(crate) fn explain(&self, result: i32, args: &[ArgView]) -> Diagnostic {
        let name = self.name();
        match result {
            status::OUT_OF_MEMORY => {
                return Diagnostic::error(
                    codes::KERNEL_MEMORY,
                    format!("`{name}` could not allocate a local array"),
                )
                .help("use smaller sizes or tiles");
            }
            status::DIVISION_BY_ZERO => {
                return Diagnostic::error(
                    codes::DIVISION_BY_ZERO,
                    format!("`{name}` divided an integer by zero"),
                )
                .note("outputs may be partially written");
            }
            status::ABI => {
                let version = lathe_abi::VERSION;
                return Diagnostic::error(
                    lathe_engine::codes::OBJECT,
                    format!("`{name}` was compiled for another version of the interface than {version}"),
                );
            }
            status::SIZE_OVERFLOW => {
                return Diagnostic::error(
                    codes::KERNEL_SIZE,
                    format!("the size of a local array of `{name}` does not fit 64 bits"),
                )
                .help("use smaller sizes");
            }
            _ => {}
        }
        let check = usize::try_from(result - 1).ok().and_then(|i| self.checks.get(i));
        let Some(check) = check else {
            return Diagnostic::error(
                codes::CHECK_FAILED,
                format!("`{name}` failed with the unknown status {result}"),
            );
        };
        let p = |at: &usize| self.signature.param(*at);
        match check {
            CheckKind::Dtype { param } => {
                let want = self.declared(*param);
                let given = args.get(*param).map_or("nothing", |a| dtype_name(a.dtype()));
                let d = format!("`{}` is {want}, but the argument holds {given}", p(param));
                Diagnostic::error(codes::ARGUMENT_DTYPE, d).help(format!("convert the array to {want} first"))
            }
            CheckKind::Rank { param } => {
                let want = self.extents(*param).len();
                let given = args.get(*param).map_or(0, |a| a.shape().len());
                let d = format!("`{}` has {want} dimensions, but the argument has {given}", p(param));
                Diagnostic::error(codes::ARGUMENT_RANK, d)
            }
            CheckKind::Size { param, dim } => {
                let (e, s) =
                    args.get(*param).map_or((0, 0), |a| (at(a.shape(), *dim), at(a.strides(), *dim)));
                let d = format!(
                    "dimension {dim} of `{}` has extent {e} and stride {s}, which is out of range",
                    p(param)
                );
                Diagnostic::error(codes::ARGUMENT_SIZE, d)
                    .note("extents must not be negative, and elements must be at most 2^47 bytes apart")
            }
            CheckKind::Shape { param, dim } => self.wrong_shape(*param, *dim, args),
            CheckKind::Overlap { a, b } => Diagnostic::error(
                codes::ARGUMENT_OVERLAP,
                format!("`{}` and `{}` share memory, and `{name}` writes one of them", p(a), p(b)),
            )
            .help("pass separate arrays, e.g. a copy"),
            CheckKind::External { name: external } => Diagnostic::error(
                codes::EXTERNAL_FAILED,
                format!("the external function `{external}`, called by `{name}`, failed"),
            )
            .note("outputs may be partially written"),
            CheckKind::User { code, message } => {
                Diagnostic::error(codes::CHECK_FAILED, check_message(name, message, code))
                    .note("this is a check of the kernel; outputs may be partially written")
            }
        }
    }

    fn wrong_shape(&self, param: usize, dim: usize, args: &[ArgView]) -> Diagnostic {
        let f = &self.signature.function;
        let given = |(param, dim): (usize, usize)| args.get(param).map_or(0, |a| at(a.shape(), dim));
        let extent = |(param, dim): (usize, usize), known: &HashMap<VarId, Expr>| {
            self.extents(param).get(dim).and_then(|e| substitute(e, known).as_int())
        };
        // Inputs say what is meant, where they tell all sizes: results may have been made for the call.
        let all = size_sources(f, &|_| true);
        let inputs = size_sources(f, &|p| p.mode != Mode::Out);
        let each = (0..f.params.len()).flat_map(|p| (0..self.extents(p).len()).map(move |d| (p, d)));
        let wrong = {
            let known = self.known_values(&inputs, args);
            let is_wrong = |p: &(usize, usize)| extent(*p, &known).is_some_and(|e| e != given(*p));
            let wrong = [(param, dim)].into_iter().chain(each).find(is_wrong);
            wrong.filter(|_| inputs.len() == all.len())
        };
        let (place, sources) = match wrong {
            Some(place) => (place, inputs),
            None => ((param, dim), all),
        };
        let known = self.known_values(&sources, args);
        let scope = lathe_ir::text::Scope::of_function(f);
        // How an extent is declared, where that is more than a number or a size.
        let declared = |(param, dim): (usize, usize)| match self.extents(param).get(dim) {
            Some(e) if e.as_int().is_none() && e.as_var().is_none() => {
                format!(" (`{}`)", lathe_ir::text::print_expr(e, &scope))
            }
            _ => String::new(),
        };
        let want =
            extent(place, &known).map_or_else(|| "another extent".to_string(), |w| format!("extent {w}"));
        let text = format!(
            "dimension {} of `{}` must have {want}{}, but the argument has {}",
            place.1,
            self.signature.param(place.0),
            declared(place),
            given(place)
        );
        let mut d = Diagnostic::error(codes::ARGUMENT_SHAPE, text);
        for s in &sources {
            let size = f.sizes.iter().find(|b| b.id == s.equation.size);
            let v = known.get(&s.equation.size).and_then(Expr::as_int);
            let (Some(size), Some(v)) = (size, v) else { continue };
            let from = (s.param, s.dim);
            let (param, by) = (self.signature.param(s.param), declared(from));
            d = d.note(format!("{} = {v}, by dimension {} of `{param}`{by}", size.name, s.dim));
            // The extent that tells a size, and that no size has: those around it are of these sizes.
            if from == place {
                let with = |v: i64| {
                    let mut known = known.clone();
                    known.insert(size.id, lathe_ir::build::index(v));
                    extent(place, &known)
                };
                let (here, given) = (with(v), Some(given(place)));
                let beyond = |v: &i64| *v >= 0 && (with(*v).min(here)..=with(*v).max(here)).contains(&given);
                let near = [Some(v), [v - 1, v + 1].into_iter().find(beyond)].into_iter().flatten();
                let near: Vec<String> = near
                    .filter_map(|v| Some(format!("extent {} with {} = {v}", with(v)?, size.name)))
                    .collect();
                d = d.help(format!("pass an array of {}", near.join(", or of ")));
            }
        }
        d
    }

    /// The declared element type of a parameter.
    fn declared(&self, param: usize) -> Type {
        match self.signature.function.params.get(param).map(|p| &p.kind) {
            Some(ParamKind::Array(b)) => b.elem.clone(),
            Some(ParamKind::Scalar(b)) => b.ty.into(),
            None => Type::BOOL,
        }
    }

    fn extents(&self, param: usize) -> &[Expr] {
        let p = self.signature.function.params.get(param);
        p.and_then(|p| p.array()).map_or(&[], |b| &b.extents)
    }

    /// Values of sizes and integer scalars under these arguments.
    fn known_values(&self, sources: &[SizeSource], args: &[ArgView]) -> HashMap<VarId, Expr> {
        let f = &self.signature.function;
        let extent = |p: usize, d: usize| args.get(p).and_then(|a| a.shape().get(d)).copied().unwrap_or(0);
        let sizes = sizes::solve(sources, &extent);
        let mut out: HashMap<VarId, Expr> =
            sizes.into_iter().map(|(id, v)| (id, lathe_ir::build::index(v))).collect();
        for (p, a) in f.params.iter().zip(args) {
            if let ParamKind::Scalar(b) = &p.kind
                && matches!(b.ty, Scalar::Index | Scalar::I64)
                && a.dtype() == dtype_of(&b.ty.into())
                && a.shape().is_empty()
            {
                // SAFETY: a rank-0 argument of a 64-bit integer type, lent for this call.
                let v = unsafe { a.raw.data.cast::<i64>().read_unaligned() };
                out.insert(b.id, lathe_ir::build::int(b.ty, v));
            }
        }
        out
    }
}

/// Whether all elements have a place of their own. Sorted by stride, each dimension must step over
/// all that the smaller ones span.
fn distinct(shape: &[i64], strides: &[i64]) -> bool {
    // Dense arrays, the usual case, are decided in one pass.
    let mut span = 1i64;
    let mut dense = true;
    for (e, s) in shape.iter().zip(strides).rev() {
        dense &= *s >= span || *e <= 1;
        span = span.max(s.saturating_mul(*e));
    }
    if dense || shape.iter().any(|e| *e <= 0) {
        return true;
    }
    let mut dims: Vec<(u64, i64)> =
        shape.iter().zip(strides).filter(|(e, _)| **e > 1).map(|(e, s)| (s.unsigned_abs(), *e)).collect();
    dims.sort_unstable();
    let mut span = 0u64;
    dims.into_iter().all(|(stride, extent)| {
        let free = stride > span;
        span = span.saturating_add(stride.saturating_mul(extent as u64 - 1));
        free
    })
}

fn at(v: &[i64], d: usize) -> i64 {
    v.get(d).copied().unwrap_or(0)
}

fn dtype_name(code: u32) -> &'static str {
    match code {
        dtype::AGGREGATE => "aggregates of a different size",
        dtype::C64 => "c64",
        dtype::C128 => "c128",
        code => Scalar::ALL
            .into_iter()
            .find(|s| dtype_of(&(*s).into()) == code)
            .map_or("an unknown element type", Scalar::name),
    }
}

/// What is said when a `check` statement of a kernel fails.
pub fn check_message(kernel: &str, message: &str, code: &str) -> String {
    format!("`{kernel}`: {message} ({code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_have_places_of_their_own() {
        assert!(distinct(&[], &[]) && distinct(&[0], &[0]) && distinct(&[1, 1], &[0, 0]));
        assert!(distinct(&[3, 4], &[4, 1]) && distinct(&[3, 4], &[1, 3]) && distinct(&[3, 4], &[-4, -1]));
        assert!(distinct(&[2, 3, 4], &[4, 8, 1]) && distinct(&[3, 4], &[5, 1]));
        assert!(!distinct(&[4], &[0]) && !distinct(&[3, 4], &[2, 1]) && !distinct(&[2, 2], &[1, 1]));
        assert!(!distinct(&[4, 4], &[-1, 1]));
    }
}
