//! What an engine costs: one that makes closures of lowered trees, whole. It has a case per statement and expression
//! that is left after lowering; calls, reductions and floats of 16 bits are gone by then, and the checks of arguments
//! and the memory behind them are those of `lathe_engine`.

use lathe_abi::{Array, LoopBody, Runtime, status};
use lathe_diagnostics::{Diagnostic, FileId};
use lathe_engine::checks::element_type;
use lathe_engine::feature::{Statement, Step, Through};
use lathe_engine::memory::Shape;
use lathe_engine::{
    Capabilities, CheckTable, Code, Engine, Entry, Interpreter, Object, Options, accept, check_table,
    dtype_of,
};
use lathe_ir::interp::ArrayValue;
use lathe_ir::lower::resolve;
use lathe_ir::math::expand_expr;
use lathe_ir::scalar::{Undefined, binary, bitcast, cast, exact_math, fma, of_f64, unary};
use lathe_ir::text::{parse_module, print_module};
use lathe_ir::{
    Access, Expr, ExprKind, Function, MathFn, Mode, Module, ParamKind, Scalar, Space, Stmt, StmtKind,
};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::LazyLock;

struct Closures;

static CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(|| {
    use Statement::*;
    Capabilities::none()
        .statements(&[Let, Store, Reduce, Loop, If, While, Alloc, Check, Assume, Prefetch, Call])
        .executors(&["serial", "unrolled", "vector", "inscan", "cpu"])
        .spaces(&[Space::Host, Space::Stack, Space::Register])
        .types(&Scalar::ALL)
        .views(&[Through::Slice, Through::Reshape])
        .layouts(&[Step::Permute, Step::Tile, Step::Pad])
});

impl Engine for Closures {
    fn name(&self) -> &'static str {
        "closures"
    }

    fn compiler(&self) -> String {
        self.name().to_string()
    }

    fn capabilities(&self) -> &Capabilities {
        &CAPABILITIES
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        Ok(self.compiler())
    }

    fn compile(&self, module: &Module, func: &Function, _: &Options) -> Result<Object, Diagnostic> {
        accept(self.name(), &CAPABILITIES, module, func)?;
        let checks = check_table(module, func).map_err(lathe_engine::needs::free_size)?.entries;
        let lowered = lathe_lower::lower(module, func).map_err(lathe_engine::needs::free_size)?;
        let functions = [(func.name.clone(), lowered)].into();
        let (symbol, times) = (func.name.to_string(), Vec::new());
        let bytes = print_module(&Module { functions, ..Module::default() }).into_bytes();
        Ok(Object {
            engine: self.name().into(),
            fingerprint: self.fingerprint()?,
            symbol,
            checks,
            bytes,
            times,
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let text = std::str::from_utf8(&object.bytes).expect("a tree");
        let module = parse_module(FileId(0), text).expect("a tree");
        let func = module.functions[object.symbol.as_str()].clone();
        let sizes = check_table(&module, &func).expect("its sizes are told").sizes;
        let table = CheckTable { entries: object.checks.clone(), sizes };
        let body = action(&func.body, &table);
        let entry = Entry::of(&table, &func);
        Ok(Box::new(Loaded { func, entry, body }))
    }
}

/// What a run has in its hands, by number.
#[derive(Default)]
struct Frame {
    vars: HashMap<u32, u64>,
    bufs: HashMap<u32, (Vec<i64>, Vec<u64>)>,
}

type Value = Box<dyn Fn(&Frame) -> Result<u64, i32> + Send + Sync>;
type Action = Box<dyn Fn(&mut Frame) -> Result<(), i32> + Send + Sync>;

/// The buffer of an access, and the position of its element.
/// Where an element is: the array's number, and the element's in it; or the status of a failed call.
type Place = Box<dyn Fn(&Frame) -> Result<(u32, usize), i32> + Send + Sync>;

fn place(a: &Access) -> Place {
    let (id, indices) = resolve(a).expect("a view that this engine takes");
    let indices: Vec<Value> = indices.iter().map(value).collect();
    Box::new(move |f| {
        let extents = &f.bufs[&id.0].0;
        let at =
            indices.iter().zip(extents).try_fold(0, |at, (i, n)| Ok::<i64, i32>(at * n + i(f)? as i64))?;
        Ok((id.0, at as usize))
    })
}

fn scalar(e: &Expr) -> Scalar {
    e.ty().scalar().expect("a scalar")
}

fn value(e: &Expr) -> Value {
    let ty = scalar(e);
    let of = |v: Result<u64, Undefined>| v.map_err(|_| status::DIVISION_BY_ZERO);
    match e.kind() {
        ExprKind::Bool(v) => constant(u64::from(*v)),
        ExprKind::Int(v) => constant(*v as u64),
        ExprKind::Float(v) => constant(of_f64(ty, v.get())),
        ExprKind::Var(v) => {
            let id = v.0;
            Box::new(move |f| Ok(f.vars[&id]))
        }
        ExprKind::Unary(op, a) => {
            let (op, s, a) = (*op, scalar(a), value(a));
            Box::new(move |f| of(unary(op, s, a(f)?)))
        }
        ExprKind::Binary(op, a, b) => {
            let (op, s, a, b) = (*op, scalar(a), value(a), value(b));
            Box::new(move |f| of(binary(op, s, a(f)?, b(f)?)))
        }
        ExprKind::Select(c, a, b) => {
            let (c, a, b) = (value(c), value(a), value(b));
            Box::new(move |f| if c(f)? != 0 { a(f) } else { b(f) })
        }
        ExprKind::Cast(a) => {
            let (from, a) = (scalar(a), value(a));
            Box::new(move |f| of(cast(from, ty, a(f)?)))
        }
        ExprKind::Bitcast(a) => {
            let (from, a) = (scalar(a), value(a));
            Box::new(move |f| of(bitcast(from, ty, a(f)?)))
        }
        ExprKind::Math(MathFn::Fma, args) => {
            let args: Vec<Value> = args.iter().map(value).collect();
            Box::new(move |f| Ok(fma(ty, args[0](f)?, args[1](f)?, args[2](f)?)))
        }
        ExprKind::Math(m, args) if m.is_exact() => {
            let (m, a) = (*m, value(&args[0]));
            Box::new(move |f| of(exact_math(m, ty, a(f)?)))
        }
        ExprKind::Math(..) => value(&expand_expr(e)),
        ExprKind::Load(a) => {
            let at = place(a);
            Box::new(move |f| at(f).map(|(id, at)| f.bufs[&id].1[at]))
        }
        // Of what is left, a division that is evaluated for nothing (`lathe_lower::calls`).
        ExprKind::Field(a, i) => {
            let ExprKind::Aggregate(parts) = a.kind() else { panic!("not declared: {e:?}") };
            let (parts, i): (Vec<Value>, usize) = (parts.iter().map(value).collect(), *i as usize);
            Box::new(move |f| Ok(parts.iter().map(|p| p(f)).collect::<Result<Vec<_>, _>>()?[i]))
        }
        ExprKind::Address(_) | ExprKind::Aggregate(_) | ExprKind::Call(..) => panic!("not declared: {e:?}"),
    }
}

fn constant(v: u64) -> Value {
    Box::new(move |_| Ok(v))
}

fn action(s: &Stmt, table: &CheckTable) -> Action {
    match s.kind() {
        StmtKind::Seq(all) => {
            let all: Vec<Action> = all.iter().map(|s| action(s, table)).collect();
            Box::new(move |f| all.iter().try_for_each(|s| s(f)))
        }
        StmtKind::Let { binder, value: v, body } => {
            let (id, v, body) = (binder.id.0, value(v), action(body, table));
            Box::new(move |f| {
                let v = v(f)?;
                f.vars.insert(id, v);
                body(f)
            })
        }
        StmtKind::Store(st) => {
            let (v, at) = (value(&st.value), place(&st.target));
            Box::new(move |f| {
                let (v, (id, at)) = (v(f)?, at(f)?);
                f.bufs.get_mut(&id).expect("a buffer in scope").1[at] = v;
                Ok(())
            })
        }
        // Lanes and threads write elements of their own: one after the other is one of their orders.
        StmtKind::Loop(l) => {
            let (id, step) = (l.binder.id.0, l.step as usize);
            let (lo, hi, body) = (value(&l.lo), value(&l.hi), action(&l.body, table));
            Box::new(move |f| {
                let all = lo(f)? as i64..hi(f)? as i64;
                all.step_by(step).try_for_each(|i| {
                    f.vars.insert(id, i as u64);
                    body(f)
                })
            })
        }
        StmtKind::If { cond, then, other } => {
            let (c, then) = (value(cond), action(then, table));
            let other = other.as_ref().map(|o| action(o, table));
            Box::new(move |f| match (c(f)? != 0, &other) {
                (true, _) => then(f),
                (false, Some(other)) => other(f),
                (false, None) => Ok(()),
            })
        }
        StmtKind::While { cond, body } => {
            let (c, body) = (value(cond), action(body, table));
            Box::new(move |f| {
                while c(f)? != 0 {
                    body(f)?;
                }
                Ok(())
            })
        }
        StmtKind::Alloc { buffer, body } => {
            let (id, body) = (buffer.id.0, action(body, table));
            let extents: Vec<Value> = buffer.extents.iter().map(value).collect();
            Box::new(move |f| {
                let extents = extents.iter().map(|x| Ok(x(f)? as i64)).collect::<Result<Vec<_>, i32>>()?;
                let count: i64 = extents.iter().map(|n| *n.max(&0)).product();
                f.bufs.insert(id, (extents, vec![0; count as usize]));
                body(f)
            })
        }
        StmtKind::Check { cond, code, message } => {
            let (c, number) = (value(cond), table.user(code, message).expect("a number"));
            Box::new(move |f| if c(f)? != 0 { Ok(()) } else { Err(number) })
        }
        StmtKind::Assume { .. } | StmtKind::Prefetch(_) => Box::new(|_| Ok(())),
        other => panic!("not declared: {other:?}"),
    }
}

struct Loaded {
    func: Function,
    entry: Entry,
    body: Action,
}

impl Code for Loaded {
    unsafe fn call(&self, _: &Runtime, args: &[Array]) -> Result<i32, Diagnostic> {
        // SAFETY: the caller's promise: valid descriptors.
        let shapes: Vec<Shape> = args.iter().map(|a| unsafe { Shape::of(a) }).collect();
        let array = |at: usize| {
            let shape: Vec<usize> = shapes[at].extents.iter().map(|n| *n as usize).collect();
            // SAFETY: as above; this is called once types and ranks are known to be right.
            let bytes = unsafe { shapes[at].gather() };
            ArrayValue::from_bytes(element_type(&self.func.params[at].kind), &shape, bytes).expect("elements")
        };
        let number = |at: usize| array(at).leaf(0, 0);
        let known = match self.entry.check(&shapes, &|at| Some(number(at)?.to_i64())) {
            Ok(known) => known,
            Err(failed) => return Ok(failed),
        };
        let mut f = Frame::default();
        f.vars.extend(known.into_iter().map(|(v, n)| (v.0, n as u64)));
        for (at, p) in self.func.params.iter().enumerate() {
            let cells = (0..array(at).len()).filter_map(|n| array(at).leaf(n, 0)).map(|v| v.bits).collect();
            match &p.kind {
                ParamKind::Array(b) => drop(f.bufs.insert(b.id.0, (shapes[at].extents.clone(), cells))),
                ParamKind::Scalar(b) => drop(f.vars.insert(b.id.0, cells[0])),
            }
        }
        let ran = (self.body)(&mut f);
        for (at, p) in self.func.params.iter().enumerate().filter(|(_, p)| p.mode != Mode::In) {
            let (Some(b), mut out) = (p.array(), array(at)) else { continue };
            f.bufs[&b.id.0].1.iter().enumerate().for_each(|(n, bits)| out.set_leaf(n, 0, *bits));
            // SAFETY: a written parameter, whose memory was lent for that.
            unsafe { shapes[at].scatter(out.bytes()) };
        }
        Ok(ran.err().unwrap_or(status::OK))
    }
}

unsafe extern "C" fn in_order(_: *mut c_void, count: i64, body: LoopBody, env: *mut c_void) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { body(env, 0, count) }
}

unsafe extern "C" fn no_memory(_: *mut c_void, _: u64) -> *mut c_void {
    std::ptr::null_mut()
}

unsafe extern "C" fn keeps(_: *mut c_void, _: *mut c_void) {}

unsafe extern "C" fn never(_: *mut c_void) -> i32 {
    unreachable!("iterations run in order")
}

/// One call of an engine's code: the number that it returns, and the bytes of all arguments after it.
fn run(engine: &dyn Engine, text: &str, args: &[(&[i64], Vec<u8>)]) -> (i32, Vec<Vec<u8>>) {
    let module = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{d:#?}\n{text}"));
    let func = &module.functions["f"];
    let object = engine.compile(&module, func, &Options::default()).unwrap_or_else(|d| panic!("{d}"));
    let code = engine.load(&object, func).unwrap_or_else(|d| panic!("{d}"));
    let ctx = std::ptr::null_mut();
    let runtime = Runtime {
        version: lathe_abi::VERSION.into(),
        ctx,
        parallel_for: in_order,
        alloc: no_memory,
        free: keeps,
        wait: never,
        externals: std::ptr::null(),
    };
    let mut memory: Vec<Vec<u8>> = args.iter().map(|a| a.1.clone()).collect();
    let strides: Vec<Vec<i64>> = args
        .iter()
        .map(|(shape, _)| (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect())
        .collect();
    let descriptors: Vec<Array> = (0..args.len())
        .map(|at| {
            let ty = element_type(&func.params[at].kind);
            Array {
                data: memory[at].as_mut_ptr().cast(),
                shape: args[at].0.as_ptr(),
                strides: strides[at].as_ptr(),
                dtype: dtype_of(&ty),
                rank: args[at].0.len() as u32,
                elem_bytes: ty.bytes(),
            }
        })
        .collect();
    // SAFETY: a descriptor for every parameter, of memory that is this function's own.
    let status = unsafe { code.call(&runtime, &descriptors) }.unwrap_or_else(|d| panic!("{d}"));
    (status, memory)
}

fn bytes(n: usize, step: u64) -> Vec<u8> {
    (0..n as u64).flat_map(|i| (((i * step) % 13) as f32 - 4.5).to_ne_bytes()).collect()
}

fn agree(text: &str, args: &[(&[i64], Vec<u8>)]) -> i32 {
    let (status, made) = run(&Closures, text, args);
    assert_eq!((status, made), run(&Interpreter, text, args), "{text}");
    status
}

#[test]
fn an_engine_is_one_file() {
    let gemm = "func f(M, N, K)(A: in f32[M, K], B: in f32[K, N], C: out f32[M, N]) stage scheduled {
      for i in 0..M cpu {
        alloc T: f32[2, 20] register layout permute(1, 0)
        for o in 0..(N + 7) // 8 {
          for j in 8 * o..min(8 * o + 8, N) vector(8) { 'T'[i, j]: T[0, j - 8 * o] = 0.0:f32 }
          for k in 0..K { for j in 8 * o..min(8 * o + 8, N) vector(8) {
            'C'[i, j, k]: T[0, j - 8 * o] sum= A[i, k] * B[k, j] licensed contract } }
          for j in 8 * o..min(8 * o + 8, N) vector(8) { 'C.copy'[i, j]: C[i, j] = T[0, j - 8 * o] }
        }
      }
    }";
    assert_eq!(
        agree(gemm, &[(&[3, 5], bytes(15, 3)), (&[5, 11], bytes(55, 7)), (&[3, 11], bytes(33, 0))]),
        0
    );
    let more =
        "func f(N)(A: in f32[N], v: inout f32[], at: inout i32[], h: inout bf16[2 * N]) stage scheduled {
      for i in 0..N { 'best'[i]: {v[], at[]} argmax= {A[i], i32(i)} }
      call half(&A, &slice(h, [N], [1]), exp(A[0]))
      while v[] > 1.0:f32 { 'v'[]: v[] = v[] * 0.5:f32 }
    }
    func half(M)(x: in f32[M], y: inout bf16[M], by: in f32) stage plain {
      for i in 0..M { 'y'[i]: y[i] = bf16(x[i]) * bf16(by) + call third(y[i]):bf16 }
    }
    func third()(x: in bf16) stage plain = x / 3.0:bf16";
    let of = |n: usize| (0..n).flat_map(|_| [0u8, 0x3f]).collect::<Vec<u8>>();
    assert_eq!(
        agree(more, &[(&[9], bytes(9, 5)), (&[], bytes(1, 1)), (&[], vec![0; 4]), (&[18], of(18))]),
        0
    );
    let fails = "func f(N)(A: inout f32[N], d: in i32) stage scheduled {
      for i in 0..N { check A[i] < 8.0:f32 or d > 0:i32, \"E9\", \"large\" 'A'[i]: A[i] = A[i] + f32(7:i32 // d) } }";
    let with = |d: i32| agree(fails, &[(&[13], bytes(13, 1)), (&[], d.to_ne_bytes().to_vec())]);
    assert_eq!((with(2), with(0)), (status::OK, status::DIVISION_BY_ZERO));
    let refused = parse_module(
        FileId(0),
        "func f(N)(A: inout i32[N]) { atomic 'A': A[0] sum= 1:i32 relaxed scope cpu }",
    )
    .map(|m| Closures.compile(&m, &m.functions["f"], &Options::default()).map_err(|d| d.code));
    assert_eq!(refused.expect("a tree"), Err(lathe_engine::codes::UNSUPPORTED));
}
