"""The rows of the benchmark table: each builds its arrays, its candidates and checks all of them.

A candidate is a callable that takes a number of calls to make in a row, and writes its result into an array of
its own (or returns it).
"""
import ctypes, os
import numpy as np
from interleaved import HALIDE, built, instruction_set

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(HERE, ".env")
EXAMPLES = os.path.join(HERE, "..", "examples")
P, I = ctypes.c_void_p, ctypes.c_int64
CPUS = os.sched_getaffinity(0)


def repeated(call):
    """A candidate from a callable without arguments."""
    def run(times=1):
        for _ in range(times):
            call()
    return run


def ptr(a):
    return ctypes.c_void_p(a.ctypes.data)


def lib(path):
    return ctypes.CDLL(path)


class Harness:
    """Lathe behind a C interface (harness/src/lib.rs)."""

    def __init__(self):
        self.l = lib(os.path.join(ENV, "harness.so"))
        self.l.lathe_open.restype = P
        self.l.lathe_open.argtypes = [ctypes.c_char_p] * 2 + [I, ctypes.c_char_p]
        self.l.lathe_bind.restype = P
        self.l.lathe_bind.argtypes = [P, I, P, P, P, P]
        self.l.lathe_repeat.argtypes = [P, I]
        self.l.lathe_error.restype = ctypes.c_char_p

    def kernel(self, target, strategy, threads, arrays, sizes=""):
        """A callable that runs the kernel on these arrays, in the order of its parameters. `sizes` such as
        `N=4096` specializes."""
        # The pool's threads are tied to the processors of the whole process, not to those of this thread.
        os.sched_setaffinity(0, CPUS)
        h = self.l.lathe_open(os.path.join(EXAMPLES, target).encode(), strategy.encode(), threads, sizes.encode())
        if not h:
            raise RuntimeError(self.l.lathe_error().decode())
        n = len(arrays)
        data = (P * n)(*[a.ctypes.data for a in arrays])
        self.keep = getattr(self, "keep", [])
        shape_arrays = [(I * max(a.ndim, 1))(*a.shape) for a in arrays]
        stride_arrays = [(I * max(a.ndim, 1))(*[s // a.itemsize for s in a.strides]) for a in arrays]
        shapes = (P * n)(*[ctypes.addressof(s) for s in shape_arrays])
        strides = (P * n)(*[ctypes.addressof(s) for s in stride_arrays])
        ranks = (I * n)(*[a.ndim for a in arrays])
        self.keep += [shape_arrays, stride_arrays, data, shapes, strides, ranks, arrays]
        bound = self.l.lathe_bind(h, n, data, shapes, strides, ranks)
        if not bound:
            raise RuntimeError(self.l.lathe_error().decode())
        call = self.l.lathe_repeat

        def run(times=1):
            if call(bound, times) != 0:
                raise RuntimeError(self.l.lathe_error().decode())
        return run


HARNESS = None


def harness():
    global HARNESS
    HARNESS = HARNESS or Harness()
    return HARNESS


def aligned(shape, dtype, fill=None, rng=None):
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(n + 4096, np.uint8)
    off = -raw.ctypes.data % 4096
    a = raw[off:off + n].view(dtype).reshape(shape)
    if rng is not None:
        a[...] = rng.standard_normal(shape, dtype) if dtype in (np.float32, np.float64) else rng.standard_normal(shape).astype(dtype)
    return a


def check(name, got, want, tolerance):
    err = float(np.max(np.abs(got - want))) if got.size else 0.0
    if not err <= tolerance:
        raise RuntimeError(f"{name} is wrong: max abs error {err} > {tolerance}")


def peaks(threads):
    l = rivals()
    import time
    l.peak_f32(1000)
    best = []
    for _ in range(9):
        n = 1 << 18
        t = time.perf_counter()
        flops = l.peak_f32(n)
        best.append(flops / (time.perf_counter() - t))
    return float(np.median(best)) / 1e9 * threads


def stream_peak(threads):
    l = rivals()
    import time
    n = 1 << 25
    a, b = aligned((n,), np.float32), aligned((n,), np.float32)
    a[...], b[...] = 1, 2  # untouched pages would be one page of zeros
    rates = []
    for _ in range(7):
        t = time.perf_counter()
        l.copy_f32(ptr(a), ptr(b), I(n), threads)
        rates.append(8 * n / (time.perf_counter() - t))
    return float(np.median(rates)) / 1e9


def read_peak(threads):
    """Of the ways to read an array that no cache holds, the fastest one's bytes per second."""
    l = rivals()
    import time
    n, medians = 1 << 25, []
    a = aligned((n,), np.float32)
    a[...] = 1
    for streams in (1, 2, 4, 8):
        rates = []
        for _ in range(7):
            t = time.perf_counter()
            l.read_f32(ptr(a), I(n), threads, streams)
            rates.append(4 * n / (time.perf_counter() - t))
        medians.append(float(np.median(rates)) / 1e9)
    return max(medians)


CRATES = None


def crates():
    """`gemm` and `faer` (crates/src/lib.rs)."""
    global CRATES
    CRATES = CRATES or lib(os.path.join(ENV, built("crates")))
    return CRATES


RIVALS = None


def rivals():
    global RIVALS
    if RIVALS is None:
        RIVALS = lib(os.path.join(ENV, built("rivals")))
        RIVALS.peak_f32.restype = ctypes.c_double
        RIVALS.peak_f32.argtypes = [I]
    return RIVALS


# ---- gemm ---------------------------------------------------------------------------------------

def blas(dtype):
    l = lib("/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0")
    f, loop = (l.cblas_sgemm, rivals().repeat_sgemm) if dtype == np.float32 else (l.cblas_dgemm, rivals().repeat_dgemm)
    return lambda a, b, c: in_a_row(loop, f, a, b, c)


def in_a_row(loop, f, a, b, c):
    args = (f, I(a.shape[0]), I(b.shape[1]), I(a.shape[1]), ptr(a), ptr(b), ptr(c))
    return lambda times=1: loop(*args, I(times))


def onednn(a, b, c):
    return in_a_row(rivals().repeat_dnnl, lib("libdnnl.so.2").dnnl_sgemm, a, b, c)


def xla(f, *arrays):
    os.sched_setaffinity(0, CPUS)
    import jax
    jax.config.update("jax_enable_x64", True)
    g = jax.jit(f)
    xs = [jax.device_put(a) for a in arrays]
    g(*xs).block_until_ready()
    call = repeated(lambda: g(*xs).block_until_ready())
    # A program that does nothing, called with the same arrays.
    nothing = jax.jit(lambda *_: jax.numpy.float32(0))
    nothing(*xs).block_until_ready()
    call.empty = repeated(lambda: nothing(*xs).block_until_ready())
    return call, (lambda: np.asarray(g(*xs)))


def tvm(a, b, threads):
    """TVM's TensorIR schedule as a user writes it by hand: B packed into panels of 32 columns (two vectors), blocks of 64
    rows over the threads, an 8 x 32 tile of C in registers while k runs through."""
    os.sched_setaffinity(0, CPUS)
    import tvm
    from tvm import te
    from tvm.s_tir import Schedule
    (m, k), n = a.shape, b.shape[1]
    dtype = str(a.dtype)
    lanes = 64 // a.itemsize
    rows, columns = 8, 2 * lanes
    x, y = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    packed = te.compute((n // columns, k, columns), lambda p, q, j: y[q, p * columns + j], name="P")
    r = te.reduce_axis((0, k), name="r")
    c = te.compute((m, n), lambda i, j: te.sum(x[i, r] * packed[j // columns, r, j % columns], axis=r), name="C")
    s = Schedule(te.create_prim_func([x, y, c]))
    block = s.get_sblock("C")
    tile = s.cache_write(block, 0, "local")
    i, j, r = s.get_loops(block)
    io, i1, ii = s.split(i, [None, 64 // rows, rows])
    jo, ji = s.split(j, [None, columns])
    j1, j2 = s.split(ji, [None, lanes])
    s.reorder(io, jo, i1, r, ii, j1, j2)
    s.reverse_compute_at(tile, i1)
    s.vectorize(j2), s.unroll(ii), s.unroll(j1), s.parallel(io)
    s.decompose_reduction(block, r)
    out = s.get_loops(tile)
    o1, o2 = s.split(out[-1], [None, lanes])
    s.vectorize(o2), s.unroll(o1), s.unroll(out[-2])
    panel, _, column = s.get_loops(s.get_sblock("P"))
    s.vectorize(s.split(column, [None, lanes])[1]), s.parallel(panel)
    cpu = {"kind": "llvm", "mcpu": llvm_cpu(), "num-cores": threads}
    f = tvm.compile(s.mod, target=cpu)["main"]
    args = [tvm.runtime.tensor(v) for v in (a, b, np.zeros((m, n), a.dtype))]
    return beside_nothing(lambda: f(*args), tvm_nothing(args)), lambda: args[2].numpy()


def beside_nothing(call, empty):
    """A candidate that is called through Python, and a call that does nothing on the same arrays, whose time is taken off."""
    out = repeated(call)
    out.empty = repeated(empty)
    return out


def tvm_nothing(args):
    """A call of a compiled function of TVM with these arrays, which writes one number into one of its own."""
    import tvm
    from tvm import te
    places = [te.placeholder(a.shape, a.dtype, name=f"X{n}") for n, a in enumerate(args)]
    one = te.compute((1,), lambda i: tvm.tirx.const(0, "float32"), name="Z")
    g = tvm.compile(te.create_prim_func([*places, one]), target={"kind": "llvm", "mcpu": llvm_cpu()})["main"]
    z = tvm.runtime.tensor(np.zeros(1, np.float32))
    return lambda: g(*args, z)


def halide_nothing(target):
    """A call of a compiled pipeline of Halide that writes one number."""
    import halide as hl
    f, x = hl.Func("nothing"), hl.Var("x")
    f[x] = hl.f32(0)
    f.compile_jit(target)
    one = hl.Buffer(np.zeros(1, np.float32))
    return lambda: f.realize(one, target)


def llvm_cpu():
    """This machine's name in LLVM, from its family and model, or that of one with the instructions that all are held to."""
    if instruction_set() == "AVX2":
        return "haswell"
    info = open("/proc/cpuinfo").read()
    family = int(info.split("cpu family")[1].split(":")[1].split()[0])
    return {26: "znver5", 25: "znver4"}.get(family, "skylake-avx512")


def gemm_row(m, n, k, dtype, goal, target="gemm.lathe:gemm"):
    def build(threads):
        rng = np.random.default_rng(0)
        a, b = aligned((m, k), dtype, rng=rng), aligned((k, n), dtype, rng=rng)
        want = a.astype(np.float64) @ b.astype(np.float64)
        tolerance = 4 * k * np.finfo(dtype).eps * 16
        outs, candidates = {}, {}

        def out(name):
            outs[name] = aligned((m, n), dtype)
            return outs[name]
        h = harness()
        candidates["lathe"] = h.kernel(target, "fast", threads, [a, b, out("lathe")])
        candidates["lathe specialized"] = h.kernel(target, "fast", threads, [a, b, out("lathe specialized")],
                                                   f"M={m},N={n},K={k}")
        candidates["OpenBLAS"] = blas(dtype)(a, b, out("OpenBLAS"))
        if dtype == np.float32:
            candidates["oneDNN"] = onednn(a, b, out("oneDNN"))
        suffix = "f32" if dtype == np.float32 else "f64"
        for rival in ["gemm", "faer"]:
            f = getattr(crates(), f"rival_{rival}_{suffix}")
            c = out(rival)
            args = (I(m), I(n), I(k), ptr(a), ptr(b), ptr(c), I(threads))
            candidates[rival] = lambda times=1, f=f, args=args: f(*args, I(times))
        candidates["XLA"], xla_result = xla(lambda x, y: x @ y, a, b)
        if m % 64 == 0 and n % 32 == 0:
            candidates["TVM"], tvm_result = tvm(a, b, threads)
            candidates["TVM"]()
            check("TVM", tvm_result().astype(np.float64), want, tolerance)
        for name, c in outs.items():
            candidates[name]()
            check(name, c.astype(np.float64), want, tolerance)
        check("XLA", xla_result().astype(np.float64), want, tolerance)
        scale = 1 if dtype == np.float32 else 0.5
        return dict(candidates=candidates, keep=(a, b, outs), work=2.0 * m * n * k, unit="GFLOP/s", goal=goal, peak=peaks(threads) * scale)
    return build


def gemm_prime(threads):
    """1021 x 1013 x 1019 beside Lathe's own 1024 cubed, per operation."""
    rng = np.random.default_rng(0)
    candidates = {}
    h = harness()
    work = {}
    for name, (m, n, k) in {"lathe": (1021, 1013, 1019), "1024 cubed, scaled": (1024, 1024, 1024)}.items():
        a, b = aligned((m, k), np.float32, rng=rng), aligned((k, n), np.float32, rng=rng)
        c = aligned((m, n), np.float32)
        candidates[name] = h.kernel("gemm.lathe:gemm", "fast", threads, [a, b, c])
        candidates[name]()
        check(name, c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), 1e-2)
        work[name] = 2.0 * m * n * k
    # Same work for both columns: the figure is then times (1021*1013*1019) / 1024^3.
    return dict(candidates=candidates, work=work["lathe"], unit="GFLOP/s", goal=f"ratio >= {0.85 * 1024**3 / (1021 * 1013 * 1019):.3f} of the time",
                peak=peaks(threads))


# ---- memory-bound rows --------------------------------------------------------------------------

def memory_row(target, goal, arrays, rival, work, verify, tolerance):
    def build(threads):
        rng = np.random.default_rng(0)
        ins, outs = arrays(rng)
        mine, theirs = [aligned(o.shape, o.dtype) for o in outs], [aligned(o.shape, o.dtype) for o in outs]
        h, l = harness(), rivals()
        candidates = {
            "lathe": h.kernel(target, "fast", threads, ins + mine),
            "C": repeated(rival(l, ins, theirs, threads)),
        }
        for name, got in (("lathe", mine), ("C", theirs)):
            candidates[name]()
            check(name, got[0], verify(ins), tolerance)
        return dict(candidates=candidates, keep=(ins, mine, theirs), work=work, unit="GB/s", goal=goal, peak=stream_peak(threads))
    return build


def matvec(n):
    return memory_row(
        "matvec.lathe:matvec", ">= 1.0 (1 thread), >= 0.95 (2)",
        lambda r: ([aligned((n, n), np.float32, rng=r), aligned((n,), np.float32, rng=r)], [aligned((n,), np.float32)]),
        lambda l, i, o, t: lambda: l.matvec_f32(ptr(i[0]), ptr(i[1]), ptr(o[0]), I(n), I(n), t),
        4.0 * n * n + 8 * n, lambda i: i[0] @ i[1], 1e-2)


def dot(n):
    return memory_row(
        "dot.lathe:dot", ">= 1.0 (1 thread), >= 0.95 (2)",
        lambda r: ([aligned((n,), np.float32, rng=r), aligned((n,), np.float32, rng=r)], [aligned((), np.float32)]),
        lambda l, i, o, t: lambda: l.dot_f32(ptr(i[0]), ptr(i[1]), ptr(o[0]), I(n), t),
        8.0 * n, lambda i: np.dot(i[0].astype(np.float64), i[1].astype(np.float64)), 5.0)


def copy(n):
    return memory_row(
        "../benches/copy.lathe:copy", ">= 1.0 (1 thread), >= 0.95 (2)",
        lambda r: ([aligned((n,), np.float32, rng=r)], [aligned((n,), np.float32)]),
        lambda l, i, o, t: lambda: l.copy_f32(ptr(i[0]), ptr(o[0]), I(n), t),
        8.0 * n, lambda i: i[0], 0)


SCALE = np.array(0.2, np.float32)


def star2(a):
    return (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:]) * SCALE


def star3(a):
    c = a[1:-1, 1:-1, 1:-1]
    return (c + a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
            + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]) * SCALE


def scalar():
    a = aligned((), np.float32)
    a[...] = SCALE
    return a


def jacobi2d(n):
    return memory_row(
        "jacobi.lathe:jacobi2d", ">= 1.0 (1 thread), >= 0.95 (2)",
        lambda r: ([aligned((n + 2, n + 2), np.float32, rng=r), scalar()], [aligned((n, n), np.float32)]),
        lambda l, i, o, t: lambda: l.jacobi2d_f32(ptr(i[0]), ptr(o[0]), ctypes.c_float(SCALE), I(n), t),
        8.0 * n * n, lambda i: star2(i[0]), 1e-5)


def jacobi3d(n):
    return memory_row(
        "jacobi.lathe:jacobi3d", ">= 1.0 (1 thread), >= 0.95 (2)",
        lambda r: ([aligned((n + 2, n + 2, n + 2), np.float32, rng=r), scalar()], [aligned((n, n, n), np.float32)]),
        lambda l, i, o, t: lambda: l.jacobi3d_f32(ptr(i[0]), ptr(o[0]), ctypes.c_float(SCALE), I(n), t),
        8.0 * n ** 3, lambda i: star3(i[0]), 1e-5)


def heat2d(n, steps):
    """Lathe's time-tiled strategy beside an untiled, vectorized C loop (and Lathe's own untiled loop)."""
    def build(threads):
        rng = np.random.default_rng(0)
        start = aligned((2, n, n), np.float32, rng=rng)
        a = aligned((steps,), np.float32)
        a[...] = 0.1
        h, l = harness(), rivals()
        mine, theirs, plain = (aligned((2, n, n), np.float32) for _ in range(3))
        for x in (mine, theirs, plain):
            x[...] = start
        candidates = {
            "lathe": h.kernel("heat2d.lathe:heat2d", "fast", threads, [mine, a]),
            "C, untiled": repeated(lambda: l.heat2d_f32(ptr(theirs), ptr(a), I(n), I(steps), threads)),
            "untiled strategy": h.kernel("heat2d.lathe:heat2d", "untiled", threads, [plain, a]),
        }
        for c in candidates.values():
            c()
        check("heat2d", mine, theirs, 1e-4)
        check("heat2d untiled", plain, theirs, 1e-4)
        return dict(candidates=candidates, keep=(mine, theirs, plain, a), work=8.0 * n * n * steps, unit="GB/s", goal=">= 2 over the untiled loop", peak=stream_peak(threads))
    return build


def blur(n):
    """Halide's published schedule of the two-stage blur (PLDI 2013), strips of 32 rows, vectors of 16."""
    def build(threads):
        import halide as hl
        rng = np.random.default_rng(0)
        image, mine = aligned((n + 2, n + 2), np.float32, rng=rng), aligned((n, n), np.float32)
        theirs = aligned((n, n), np.float32)
        i, o = hl.Buffer(image), hl.Buffer(theirs)
        x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
        bx, by = hl.Func("bx"), hl.Func("by")
        bx[x, y] = (i[x, y] + i[x + 1, y] + i[x + 2, y]) / 3
        by[x, y] = (bx[x, y] + bx[x, y + 1] + bx[x, y + 2]) / 3
        by.split(y, y, yi, 32).vectorize(x, 16)
        if threads > 1:
            by.parallel(y)
        bx.store_at(by, y).compute_at(by, yi).vectorize(x, 16)
        target = hl.Target(HALIDE[instruction_set()])
        by.compile_jit(target)
        h = harness()
        candidates = {
            "lathe": h.kernel("blur.lathe:blur", "fast", threads, [image, mine]),
            "Halide": beside_nothing(lambda: by.realize(o, target), halide_nothing(target)),
        }
        for c in candidates.values():
            c()
        check("blur", mine, theirs, 1e-5)
        return dict(candidates=candidates, keep=(image, mine, theirs), work=8.0 * n * n, unit="GB/s", goal=">= 1.0", peak=stream_peak(threads))
    return build


F32_GOAL = ">= 0.95 (1 thread), >= 0.92 (2)"
SMALL_GOAL = ">= min(1.2 x best, 0.92 x peak), 1 thread"
ROWS = {
    "gemm 512": gemm_row(512, 512, 512, np.float32, F32_GOAL),
    "gemm 1024": gemm_row(1024, 1024, 1024, np.float32, F32_GOAL),
    "gemm 2048": gemm_row(2048, 2048, 2048, np.float32, F32_GOAL),
    "gemm_f64 1024": gemm_row(1024, 1024, 1024, np.float64, F32_GOAL, "gemm.lathe:gemm_f64"),
    "gemm prime": gemm_prime,
    "gemm 10x500x64": gemm_row(10, 500, 64, np.float32, SMALL_GOAL),
    "gemm 64": gemm_row(64, 64, 64, np.float32, SMALL_GOAL),
    "gemm 16x1000x2048": gemm_row(16, 1000, 2048, np.float32, SMALL_GOAL),
    "matvec 8192": matvec(8192),
    "dot 2^24": dot(1 << 24),
    "copy 2^25": copy(1 << 25),
    "jacobi2d 4096": jacobi2d(4096),
    "jacobi3d 256": jacobi3d(256),
    "jacobi3d 512": jacobi3d(512),
    "heat2d 4096, 100 steps": heat2d(4096, 100),
    "blur 4096": blur(4096),
}
