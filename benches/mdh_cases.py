"""The cases of the homomorphisms' benchmark at their printed sizes: for each its kernel, its data, and its rivals.

A case gives `name -> call(times)`; every result is compared with numpy's before anything is timed. Rivals that a row does
not have are not able to do it. `auto` is what the cost model chooses without measuring, `tuned` the stored winner of
`lathe tune` (mdh_rows.py --tune).
"""
import ctypes, os, time, zlib
import numpy as np
import rows
from mdh_libraries import by_einsum, by_gemm, by_numba, by_numpy, by_onednn, by_openblas, by_primitive, by_tvm, by_xla, OPENBLAS
from mdh_rivals import by_halide_auto, by_metaschedule, contraction, convolution, convolution2d, seven_points
from interleaved import HALIDE, instruction_set
from rows import ENV, I, aligned, beside_nothing, check, halide_nothing, harness, lib, peaks, ptr, read_peak, repeated, rivals, stream_peak

LINEAR = "mdh/linear_algebra.lathe"
BLAS, DEEP, STENCIL, TENSOR, PATTERN, FUSED = "linear algebra", "deep learning", "stencils", "CCSD(T)", "patterns", "fused"


def sizes_text(sizes):
    return ",".join(f"{n}={v}" for n, v in sizes.items())


class Case:
    """One row: `target`, sizes, arrays in the order of the kernel's parameters (outputs last), and what they hold; `tvm`
    is the same for MetaSchedule."""

    def __init__(self, group, target, sizes, arrays, want, tolerance, work, unit, goal, others, tvm=None):
        self.group, self.target, self.sizes, self.arrays, self.want = group, target, sizes, arrays, want
        self.tolerance, self.work, self.unit, self.goal, self.others, self.tvm = tolerance, work, unit, goal, others, tvm

    def wanted(self, name, ins):
        """numpy's result. What takes long to compute, and is not much longer to read, is kept."""
        which = zlib.crc32(b"".join(i.reshape(-1)[:1024].tobytes() for i in ins))
        kept = os.path.join(ENV, "mdh-wanted", "".join(c if c.isalnum() else "-" for c in name) + f"-{which:08x}.npy")
        if os.path.exists(kept):
            return [np.load(kept)]
        start = time.perf_counter()
        want = self.want(*ins)
        want = list(want) if isinstance(want, (list, tuple)) else [want]
        if time.perf_counter() - start > 1 and len(want) == 1 and np.asarray(want[0]).nbytes < 1 << 28:
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            new = f"{kept}.{os.getpid()}.npy"
            np.save(new, want[0])
            os.replace(new, kept)
        return want

    def streams(self):
        """Whether memory limits it: what comes from far away is worth fewer than ten operations a byte."""
        far = getattr(self.arrays, "bytes", 0)
        return self.unit == "GB/s" or self.unit == "GFLOP/s" and far > 1 << 22 and self.work < 10 * far

    def build(self, name, threads, others=()):
        """Candidates for one process, checked, ready to be timed: `auto`, and `others` by their parameters. `errors`: how
        far each is from numpy's result, as a part of its largest number."""
        rng = np.random.default_rng(0)
        ins, outs = self.arrays(rng)
        want = self.wanted(name, ins)
        self.errors = {}
        candidates, failed, keep = {}, {}, [ins]
        rivals = self.others if self.tvm is None else {**self.others, "TVM MetaSchedule": by_metaschedule(name, self.tvm)}
        strategies = {"auto": "auto"}
        for n, params in dict(others).items():
            strategies[n] = "auto(" + ",".join(f"{k}={v}" for k, v in params.items()) + ")" if params else "auto"
        for name, strategy in strategies.items():
            mine = [aligned(o.shape, o.dtype) for o in outs]
            keep.append(mine)
            try:
                candidates["lathe " + name] = harness().kernel(self.target, strategy, threads, [*ins, *mine], sizes_text(self.sizes))
                self.verify("lathe " + name, candidates["lathe " + name], lambda: mine, want)
            except RuntimeError as e:
                candidates.pop("lathe " + name, None)
                failed["lathe " + name] = str(e).strip().splitlines()[0]
        for name, make in rivals.items():
            theirs = [aligned(o.shape, o.dtype) for o in outs]
            keep.append(theirs)
            try:
                call, result = make(ins, theirs, threads)
                self.verify(name, call, result or (lambda theirs=theirs: theirs), want)
                candidates[name] = call
            except Exception as e:
                text = str(e).strip().splitlines()
                failed[name] = text[0][:200] if text else type(e).__name__
        # What writes next to nothing has the ceiling of reading, the rest that of a copy.
        written, read = (sum(x.nbytes for x in all) for all in (outs, ins))
        bandwidth = read_peak if 20 * written < read else stream_peak
        # Measured beside the candidates, not while other rows prepare.
        peak = lambda: peaks(threads) if self.unit == "GFLOP/s" else bandwidth(threads)
        return dict(candidates=candidates, failed=failed, errors=self.errors, keep=keep, work=self.work, unit=self.unit, goal=self.goal, peak=peak)

    def verify(self, name, call, result, want):
        call(1)
        got = result()
        got = got if isinstance(got, (list, tuple)) else [got]
        for g, w in zip(got, want):
            g, w = np.asarray(g).reshape(np.shape(w)), np.asarray(w)
            for field in g.dtype.names or [...]:
                scale, error = 0.0, 0.0
                for a, b in zip(parts(g[field]), parts(w[field])):
                    check(name, a, b, self.tolerance)
                    finite = np.isfinite(b)
                    scale = max(scale, float(np.max(np.abs(b), initial=0, where=finite)))
                    error = max(error, float(np.max(np.abs(a - b), initial=0, where=finite)))
                self.errors[name] = max(self.errors.get(name, 0.0), error / (scale or 1.0))


def parts(a, cells=1 << 18):
    """An array's numbers in double precision, in parts that a cache holds."""
    flat = np.ascontiguousarray(a).reshape(-1)
    return (flat[i:i + cells].astype(np.float64) for i in range(0, flat.size, cells))


# ---- linear algebra -------------------------------------------------------------------------------

def floats(*shapes):
    """Arrays of the inputs with random numbers, and of the output, which comes last."""
    def make(rng):
        *ins, out = shapes
        return [aligned(s, np.float32, rng=rng) for s in ins], [aligned(out, np.float32)]
    make.bytes = sum(4 * int(np.prod(s)) for s in shapes)
    return make


def dot(n):
    def openblas(ins, outs, threads):
        l = lib(OPENBLAS)
        l.cblas_sdot.restype = ctypes.c_float
        args = (l.cblas_sdot, I(n), ptr(ins[0]), ptr(ins[1]), ptr(outs[0]))
        return (lambda times=1: rivals().mdh_sdot(*args, I(times))), None

    def hand(ins, outs, threads):
        l = rivals()
        return repeated(lambda: l.dot_f32(ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), I(n), threads)), None
    return Case(BLAS, f"{LINEAR}:dot", dict(K=n), floats((n,), (n,), ()), lambda a, b: np.dot(a.astype(np.float64), b),
                8.0, 8.0 * n, "GB/s", ">= min(1.2 x best, 0.92 x roofline)",
                {"OpenBLAS": openblas, "XLA": by_xla(lambda a, b: a @ b), "C": hand}, contraction("k,k->", (n,), (n,)))


def matvec(n):
    def openblas(ins, outs, threads):
        args = (lib(OPENBLAS).cblas_sgemv, I(n), I(n), ptr(ins[0]), ptr(ins[1]), ptr(outs[0]))
        return (lambda times=1: rivals().mdh_sgemv(*args, I(times))), None

    def hand(ins, outs, threads):
        l = rivals()
        return repeated(lambda: l.matvec_f32(ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), I(n), I(n), threads)), None
    return Case(BLAS, f"{LINEAR}:matvec", dict(I=n, K=n), floats((n, n), (n,), (n,)), lambda m, v: m.astype(np.float64) @ v,
                2e-2, 4.0 * n * n + 8 * n, "GB/s", ">= min(1.2 x best, 0.92 x roofline)",
                {"OpenBLAS": openblas, "XLA": by_xla(lambda m, v: m @ v), "C": hand}, contraction("ik,k->i", (n, n), (n,)))


def tvm_product(m, n, k):
    """Rows of 8 (or all) by two vectors in registers, B as it is, blocks of rows over the threads."""
    def compute(te):
        a, b = te.placeholder((m, k), "float32", name="A"), te.placeholder((k, n), "float32", name="B")
        r = te.reduce_axis((0, k), name="r")
        return a, b, te.compute((m, n), lambda i, j: te.sum(a[i, r] * b[r, j], axis=r), name="C")

    def schedule(s, threads):
        block = s.get_sblock("C")
        tile = s.cache_write(block, 0, "local")
        i, j, r = s.get_loops(block)
        rows_ = next(x for x in (8, 5, 4, 2, 1) if m % x == 0)
        columns = next(x for x in (32, 25, 20, 16, 8, 4, 1) if n % x == 0)
        io, ii = s.split(i, [None, rows_])
        jo, ji = s.split(j, [None, columns])
        s.reorder(io, jo, r, ii, ji)
        s.reverse_compute_at(tile, jo)
        s.vectorize(ji), s.unroll(ii)
        s.parallel(s.fuse(io, jo))
        s.decompose_reduction(block, r)
        s.vectorize(s.get_loops(tile)[-1])
    return by_tvm(compute, schedule)


def matmul(m, n, k):
    others = {"OpenBLAS": by_openblas(1, m, n, k), "oneDNN": by_onednn(1, m, n, k), "gemm": by_gemm(m, n, k),
              "XLA": by_xla(lambda a, b: a @ b)}
    if (m, n, k) == (1024, 1024, 1024):
        others["TVM"] = lambda ins, outs, threads: rows.tvm(*ins, threads)
    else:
        others["TVM"] = tvm_product(m, n, k)
    return Case(BLAS if n != 4096 and k != 2048 else DEEP, f"{LINEAR}:matmul", dict(I=m, J=n, K=k), floats((m, k), (k, n), (m, n)),
                lambda a, b: a.astype(np.float64) @ b, 64e-7 * k, 2.0 * m * n * k, "GFLOP/s",
                ">= min(1.2 x best, 0.92 x roofline)", others, contraction("ik,kj->ij", (m, k), (k, n)))


def matmul_t(m, n, k):
    return Case(BLAS, f"{LINEAR}:matmul_t", dict(I=m, J=n, K=k), floats((k, m), (n, k), (n, m)),
                lambda a, b: b.astype(np.float64) @ a, 64e-7 * k, 2.0 * m * n * k, "GFLOP/s",
                ">= min(1.2 x best, 0.92 x roofline)",
                {"OpenBLAS": by_openblas(1, m, n, k, True), "oneDNN": by_onednn(1, m, n, k, True), "XLA": by_xla(lambda a, b: b @ a)},
                contraction("ki,jk->ji", (k, m), (n, k)))


def batched(b, m, n, k):
    return Case(BLAS, f"{LINEAR}:batched_matmul", dict(B=b, I=m, J=n, K=k), floats((b, m, k), (b, k, n), (b, m, n)),
                lambda a, x: a.astype(np.float64) @ x, 64e-7 * k, 2.0 * b * m * n * k, "GFLOP/s",
                ">= min(1.2 x best, 0.92 x roofline)",
                {"OpenBLAS": by_openblas(b, m, n, k), "oneDNN": by_onednn(b, m, n, k), "XLA": by_xla(lambda a, x: a @ x),
                 "OpenBLAS, batch on threads": by_openblas(b, m, n, k, over=True),
                 "oneDNN, batch on threads": by_onednn(b, m, n, k, over=True)},
                contraction("bik,bkj->bij", (b, m, k), (b, k, n)))


# ---- stencils and convolutions --------------------------------------------------------------------

def jacobi3d(n):
    def star(a):
        c = slice(1, -1)
        return (np.float32(0.16) * (a[:-2, c, c] + a[c, :-2, c] + a[c, c, :-2] + a[c, c, 2:] + a[c, 2:, c] + a[2:, c, c])
                + np.float32(0.04) * a[c, c, c])

    def hand(ins, outs, threads):
        l = rivals()
        return repeated(lambda: l.mdh_jacobi3d(ptr(ins[0]), ptr(outs[0]), I(n), threads)), None

    def jax_star(a):
        return (0.16 * (a[:-2, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:] + a[1:-1, 2:, 1:-1]
                        + a[2:, 1:-1, 1:-1]) + 0.04 * a[1:-1, 1:-1, 1:-1])

    def halide(f, i, x, y, z):
        f[x, y, z] = (0.16 * (i[x + 1, y + 1, z] + i[x + 1, y, z + 1] + i[x, y + 1, z + 1] + i[x + 2, y + 1, z + 1]
                              + i[x + 1, y + 2, z + 1] + i[x + 1, y + 1, z + 2]) + 0.04 * i[x + 1, y + 1, z + 1])
    return Case(STENCIL, "mdh/stencils.lathe:jacobi3d", dict(N=n + 2, M=n + 2, L=n + 2), floats((n + 2,) * 3, (n,) * 3), star, 1e-5,
                8.0 * n ** 3, "GB/s", ">= min(1.2 x best, 0.95 x C)",
                {"C": hand, "XLA": by_xla(jax_star), "Halide": by_halide(halide, 3), "Halide auto": by_halide_auto(halide, 3)},
                seven_points(n))


def by_halide(define, rank):
    """Halide with a schedule written by hand: vectors along rows, rows in blocks over the threads."""
    def make(ins, outs, threads):
        import halide as hl
        names = [hl.Var(n) for n in ("x", "y", "z", "w")[:rank]]
        buffers = [hl.Buffer(i) for i in ins]
        f = hl.Func("f")
        define(f, *buffers, *names)
        f.vectorize(names[0], 16)
        if rank > 1:
            yo, yi = hl.Var("yo"), hl.Var("yi")
            f.split(names[1], yo, yi, 8)
            if threads > 1:
                f.parallel(names[-1] if rank > 2 else yo)
        target = hl.Target(HALIDE[instruction_set()])
        f.compile_jit(target)
        o = hl.Buffer(outs[0])
        return beside_nothing(lambda: f.realize(o, target), halide_nothing(target)), None
    return make


def conv2d(n):
    p = n - 4

    def want(image, f):
        out = np.zeros((p, p))
        for y in range(5):
            for x in range(5):
                out += f[y, x].astype(np.float64) * image[y:y + p, x:x + p]
        return out

    def hand(ins, outs, threads):
        l = rivals()
        return repeated(lambda: l.mdh_conv2d_5x5(ptr(ins[0]), ptr(ins[1]), ptr(outs[0]), I(n), I(n), threads)), None

    def jax_conv(image, f):
        from jax import lax
        return lax.conv_general_dilated(image[None, :, :, None], f[:, :, None, None], (1, 1), "VALID",
                                        dimension_numbers=("NHWC", "HWIO", "NHWC"))[0, :, :, 0]

    def halide(g, image, f, x, y):
        total = None
        for b in range(5):
            for a in range(5):
                t = image[x + a, y + b] * f[a, b]
                total = t if total is None else total + t
        g[x, y] = total
    return Case(STENCIL, "mdh/convolution.lathe:conv2d", dict(H=n, W=n, R=5, S=5), floats((n, n), (5, 5), (p, p)), want, 1e-3,
                50.0 * p * p, "GFLOP/s", ">= min(1.2 x best, 0.95 x C)",
                {"C": hand, "oneDNN": onednn_conv(1, n, n, 1, 1, 5, 5, 1), "XLA": by_xla(jax_conv), "Halide": by_halide(halide, 2),
                 "Halide auto": by_halide_auto(halide, 2)}, convolution2d(n, 5))


def onednn_conv(n, h, w, c, k, r, s, stride):
    return by_primitive("convolution", "mdh_conv_open", (n, h, w, c, k, r, s, stride))


def as_convolution(n, h, w, c, k, r, s, stride):
    """Capsules as the plain convolution that they are: rows of matrices are images, what is summed and what is left are
    channels. Arrays are brought into these orders once, outside of all measurements."""
    p, q = (h - r) // stride + 1, (w - s) // stride + 1

    def make(ins, outs, threads):
        image, f = aligned((n, 4, h, w, c, 4), np.float32), aligned((k, 4, r, s, c, 4), np.float32)
        image[...] = ins[0].transpose(0, 4, 1, 2, 3, 5)
        f[...] = ins[1].transpose(0, 5, 1, 2, 3, 4)
        out = aligned((n, 4, p, q, k, 4), np.float32)
        call, _ = onednn_conv(4 * n, h, w, 4 * c, 4 * k, r, s, stride)((image, f), (out,), threads)
        call.keep = image, f, out
        return call, lambda: out.transpose(0, 2, 3, 4, 1, 5)
    return make


def mcc(n, h, w, c, k, r, s, stride):
    p, q = (h - r) // stride + 1, (w - s) // stride + 1

    def want(image, f):
        out = np.zeros((n, p, q, k), np.float32)
        for y in range(r):
            for x in range(s):
                part = image[:, y:y + stride * (p - 1) + 1:stride, x:x + stride * (q - 1) + 1:stride, :]
                out += np.matmul(part.reshape(-1, c), f[:, y, x, :].T).reshape(n, p, q, k)
        return out

    def jax_conv(image, f):
        from jax import lax
        return lax.conv_general_dilated(image, f, (stride, stride), "VALID", dimension_numbers=("NHWC", "OHWI", "NHWC"))
    kernel = "mcc" if stride == 1 else "mcc_stride2"
    return Case(DEEP, f"mdh/convolution.lathe:{kernel}", dict(N=n, H=h, W=w, C=c, K=k, R=r, S=s),
                floats((n, h, w, c), (k, r, s, c), (n, p, q, k)), want, 1e-5 * r * s * c, 2.0 * n * p * q * k * r * s * c, "GFLOP/s",
                ">= 1.0 geometric mean, each >= 0.8",
                {"oneDNN": onednn_conv(n, h, w, c, k, r, s, stride), "XLA": by_xla(jax_conv)}, convolution(n, h, w, c, k, r, s, stride))


def capsule(n, h, w, c, k, r, s, stride):
    p, q = (h - r) // stride + 1, (w - s) // stride + 1

    def want(image, f):
        # As products of matrices: what is summed side by side.
        rows, out = image.transpose(0, 1, 2, 4, 3, 5), np.zeros((n * p * q * 4, k * 4), np.float32)
        for y in range(r):
            for x in range(s):
                part = rows[:, y:y + stride * (p - 1) + 1:stride, x:x + stride * (q - 1) + 1:stride]
                out += part.reshape(-1, c * 4) @ f[:, y, x].transpose(1, 2, 0, 3).reshape(c * 4, k * 4)
        return out.reshape(n, p, q, 4, k, 4).transpose(0, 1, 2, 4, 3, 5)

    def jax_capsule(image, f):
        import jax.numpy as jnp
        total = 0
        for y in range(r):
            for x in range(s):
                part = image[:, y:y + stride * (p - 1) + 1:stride, x:x + stride * (q - 1) + 1:stride]
                total += jnp.einsum("npqcim,kcmj->npqkij", part, f[:, y, x])
        return total
    kernel = "mcc_capsule" if stride == 1 else "mcc_capsule_stride2"
    return Case(DEEP, f"mdh/convolution.lathe:{kernel}", dict(N=n, H=h, W=w, C=c, K=k, R=r, S=s, MI=4, MJ=4, MK=4),
                floats((n, h, w, c, 4, 4), (k, r, s, c, 4, 4), (n, p, q, k, 4, 4)), want, 1e-4 * r * s * c,
                2.0 * n * p * q * k * r * s * c * 64, "GFLOP/s", "capsule >= 2 over XLA",
                {"XLA": by_xla(jax_capsule), "oneDNN, as a convolution": as_convolution(n, h, w, c, k, r, s, stride)},
                convolution(n, h, w, c, k, r, s, stride, 4))


# ---- CCSD(T) --------------------------------------------------------------------------------------

EXTENTS = dict(zip("abcdefg", (24, 16, 16, 24, 16, 16, 24)))


def ccsdt(a, b):
    shape = lambda s: tuple(EXTENTS[x] for x in s)
    spec = f"{a},{b}->abcdef"
    work = 2.0 * np.prod([EXTENTS[x] for x in "abcdefg"])
    return Case(TENSOR, f"mdh/ccsdt.lathe:abcdef_{a}_{b}", {f"N{x.upper()}": v for x, v in EXTENTS.items()},
                floats(shape(a), shape(b), shape("abcdef")), lambda x, y: np.einsum(spec, x, y, optimize=True), 1e-3, work, "GFLOP/s",
                ">= 1.5", {"XLA": by_xla(lambda x, y: __import__("jax").numpy.einsum(spec, x, y)), "opt_einsum": by_einsum(spec)},
                contraction(spec, shape(a), shape(b)))


# ---- patterns -------------------------------------------------------------------------------------

def scan(n):
    def numba_scan(parallel):
        import numba

        @numba.njit
        def f(a, o):
            s = np.float32(0)
            for i in range(a.size):
                s += a[i]
                o[i] = s
        return f

    def arrays(rng):
        a = aligned((n,), np.float32)
        a[...] = rng.integers(-4, 5, n)
        return [a], [aligned((n,), np.float32)]
    return Case(PATTERN, "mdh/patterns.lathe:scan", dict(N=n), arrays, lambda a: np.cumsum(a.astype(np.float64)), 0.5, 8.0 * n, "GB/s",
                ">= 1.0 of the best, >= 0.85 of copy",
                {"numpy": by_numpy(np.cumsum), "XLA": by_xla(lambda a: __import__("jax").numpy.cumsum(a)), "numba": by_numba(numba_scan)})


def mbbs(n, m):
    def arrays(rng):
        a = aligned((n, m), np.float32)
        a[...] = rng.integers(-4, 5, (n, m))
        return [a], [aligned((n,), np.float32)]

    def numba_mbbs(parallel):
        import numba

        @numba.njit(parallel=parallel, fastmath=True)
        def f(a, o):
            for i in numba.prange(a.shape[0]):
                s = np.float32(0)
                for j in range(a.shape[1]):
                    s += a[i, j]
                o[i] = s
            t = np.float32(0)
            for i in range(a.shape[0]):
                t += o[i]
                o[i] = t
        return f
    return Case(PATTERN, "mdh/patterns.lathe:mbbs", dict(N=n, M=m), arrays, lambda a: np.cumsum(a.astype(np.float64).sum(1)), 0.5,
                4.0 * n * m, "GB/s", ">= 1.0 of the best",
                {"numpy": by_numpy(lambda a: np.cumsum(a.sum(1))), "XLA": by_xla(lambda a: __import__("jax").numpy.cumsum(a.sum(1))),
                 "numba": by_numba(numba_mbbs)})


def histogram(n, bins):
    def arrays(rng):
        a = aligned((n,), np.int32)
        a[...] = rng.integers(0, bins, n)
        return [a], [aligned((bins,), np.int32)]

    def numba_histogram(parallel):
        import numba

        @numba.njit(parallel=parallel)
        def f(a, o):
            parts = numba.get_num_threads()
            own = np.zeros((parts, o.size), np.int32)
            step = (a.size + parts - 1) // parts
            for t in numba.prange(parts):
                for i in range(t * step, min(a.size, (t + 1) * step)):
                    own[t, a[i]] += 1
            o[:] = own.sum(0)
        return f
    return Case(PATTERN, "histogram.lathe:histogram", dict(N=n, B=bins), arrays, lambda a: np.bincount(a, minlength=bins), 0.0,
                4.0 * n, "GB/s", ">= 1.0 of the best",
                {"numpy": by_numpy(lambda a: np.bincount(a, minlength=bins)),
                 "XLA": by_xla(lambda a: __import__("jax").numpy.bincount(a, length=bins)), "numba": by_numba(numba_histogram)})


RECORD = np.dtype([("id", "i8"), ("first", "i4"), ("last", "i4"), ("birth", "i4"), ("sex", "i4"), ("zip", "i4")], align=True)
MATCH = np.dtype([("id", "i8"), ("weight", "f4")], align=True)


def prl(n):
    def arrays(rng):
        def records(first):
            r = np.zeros(n, RECORD)
            r["id"] = first + np.arange(n)
            for field, values in (("first", 500), ("last", 2000), ("birth", 20000), ("sex", 2), ("zip", 300)):
                r[field] = rng.integers(0, values, n)
            return r
        return [records(0), records(1 << 20)], [np.zeros(n, MATCH)]

    def numba_prl(parallel):
        import numba

        @numba.njit(parallel=parallel)
        def f(a, e, o):
            for i in numba.prange(a.size):
                best, who = np.float32(-np.inf), np.int64(-1)
                for j in range(e.size):
                    if a[i].last == e[j].last or a[i].birth == e[j].birth:
                        w = np.float32(6.5) if a[i].first == e[j].first else np.float32(-2)
                        w += np.float32(8.5) if a[i].last == e[j].last else np.float32(-3)
                        w += np.float32(11) if a[i].birth == e[j].birth else np.float32(-4)
                        w += np.float32(1) if a[i].sex == e[j].sex else np.float32(-5)
                        w += np.float32(5) if a[i].zip == e[j].zip else np.float32(-1)
                        if w > best:
                            best, who = w, e[j].id
                o[i].id = who
                o[i].weight = best
        return f

    def want(a, e):
        o = np.zeros(n, MATCH)
        numba_prl(False)(a, e, o)
        return o

    def jax_prl(a, e):
        import jax, jax.numpy as jnp
        names = ("first", "last", "birth", "sex", "zip")
        x, y = ({f: jnp.asarray(r[f]) for f in names} for r in (a, e))
        ids, numbers = jnp.asarray(e["id"]), jnp.arange(n, dtype=jnp.int32)

        def one(q):
            same = {f: q[f] == y[f] for f in names}
            w = (jnp.where(same["first"], 6.5, -2.0) + jnp.where(same["last"], 8.5, -3.0) + jnp.where(same["birth"], 11.0, -4.0)
                 + jnp.where(same["sex"], 1.0, -5.0) + jnp.where(same["zip"], 5.0, -1.0)).astype(jnp.float32)
            w = jnp.where(same["last"] | same["birth"], w, -jnp.inf)
            # Faster there than `argmax`, which runs one by one.
            best = jnp.max(w)
            j = jnp.min(jnp.where(w == best, numbers, n - 1))
            return jnp.where(best == -jnp.inf, -1, ids[j]), best
        f = jax.jit(lambda q: jax.lax.map(one, q, batch_size=64))
        f(x)[0].block_until_ready()

        def result():
            ids_, weights = f(x)
            o = np.zeros(n, MATCH)
            o["id"], o["weight"] = np.asarray(ids_), np.asarray(weights)
            return o
        return repeated(lambda: f(x)[0].block_until_ready()), result

    class Prl(Case):
        def verify(self, name, call, result, want):
            call(1)
            got = result()
            got = got[0] if isinstance(got, list) else got
            if not (np.array_equal(got["id"], want[0]["id"]) and np.array_equal(got["weight"], want[0]["weight"])):
                raise RuntimeError(f"{name} is wrong")
    return Prl(PATTERN, "mdh/prl.lathe:prl", dict(I=n, J=n), arrays, want, 0.0, float(n) * n, "Gpairs/s", ">= 1.0 of the best",
               {"XLA": lambda ins, outs, threads: jax_prl(*ins), "numba": by_numba(numba_prl)})


# ---- fused programs -------------------------------------------------------------------------------

def softmax(m, n):
    def want(x):
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    return Case(FUSED, "mdh/fused.lathe:softmax", dict(M=m, N=n), floats((m, n), (m, n)), want, 1e-5, 8.0 * m * n, "GB/s", ">= 1.0 over XLA",
                {"XLA": by_xla(lambda x: __import__("jax").nn.softmax(x, axis=1)),
                 "oneDNN": by_primitive("softmax", "mdh_softmax_open", (m, n))})


def layer_norm(m, n):
    def want(x, g, b):
        x = x.astype(np.float64)
        d = x - x.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b

    def jax_norm(x, g, b):
        d = x - x.mean(1, keepdims=True)
        return d / __import__("jax").numpy.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * g + b
    return Case(FUSED, "mdh/fused.lathe:layer_norm", dict(M=m, N=n), floats((m, n), (n,), (n,), (m, n)), want, 1e-3, 8.0 * m * n, "GB/s",
                ">= 1.0 over XLA", {"XLA": by_xla(jax_norm), "oneDNN": by_primitive("layer normalization", "mdh_layer_norm_open", (m, n))})


def attention(h, t, d):
    scale = 1 / np.sqrt(d)

    def want(q, k, v):
        s = np.einsum("htd,hsd->hts", q.astype(np.float64), k, optimize=True) * scale
        e = np.exp(s - s.max(2, keepdims=True))
        return (e / e.sum(2, keepdims=True)) @ v

    def jax_attention(q, k, v):
        import jax, jax.numpy as jnp
        s = jnp.einsum("htd,hsd->hts", q, k) * np.float32(scale)
        return jax.nn.softmax(s, axis=2) @ v
    return Case(FUSED, "mdh/fused.lathe:attention", dict(H=h, T=t, D=d), floats((h, t, d), (h, t, d), (h, t, d), (h, t, d)), want, 1e-4,
                4.0 * h * t * t * d, "GFLOP/s", ">= 1.0 over XLA", {"XLA": by_xla(jax_attention)})


CASES = {
    "dot 2^24": lambda: dot(1 << 24),
    "dot 10^7": lambda: dot(10 ** 7),
    "matvec 4096": lambda: matvec(4096),
    "matvec 8192": lambda: matvec(8192),
    "matmul 10,500,64": lambda: matmul(10, 500, 64),
    "matmul 1024": lambda: matmul(1024, 1024, 1024),
    "matmul_t 10,500,64": lambda: matmul_t(10, 500, 64),
    "bmatmul 16,10,500,64": lambda: batched(16, 10, 500, 64),
    "jacobi3d 256": lambda: jacobi3d(256),
    "jacobi3d 512": lambda: jacobi3d(512),
    "conv2d 224": lambda: conv2d(224),
    "conv2d 4096": lambda: conv2d(4096),
    "mcc 1,512,7,7,512,3,3": lambda: mcc(1, 7, 7, 512, 512, 3, 3, 1),
    "mcc resnet 1": lambda: mcc(1, 230, 230, 3, 64, 7, 7, 2),
    "mcc resnet 16": lambda: mcc(16, 230, 230, 3, 64, 7, 7, 2),
    "mcc vgg 1": lambda: mcc(1, 226, 226, 3, 64, 3, 3, 1),
    "mcc vgg 16": lambda: mcc(16, 226, 226, 3, 64, 3, 3, 1),
    "mcc mobilenet 1": lambda: mcc(1, 225, 225, 3, 32, 3, 3, 2),
    "mcc mobilenet 16": lambda: mcc(16, 225, 225, 3, 32, 3, 3, 2),
    "matmul resnet 16,1000,2048": lambda: matmul(16, 1000, 2048),
    "matmul resnet 1,1000,2048": lambda: matmul(1, 1000, 2048),
    "matmul vgg 16,4096,25088": lambda: matmul(16, 4096, 25088),
    "matmul vgg 1,4096,25088": lambda: matmul(1, 4096, 25088),
    "capsule resnet 1": lambda: capsule(1, 230, 230, 3, 64, 7, 7, 2),
    "capsule vgg 1": lambda: capsule(1, 226, 226, 3, 64, 3, 3, 1),
    "capsule mobilenet 1": lambda: capsule(1, 225, 225, 3, 32, 3, 3, 2),
    **{f"ccsdt abcdef-{a}-{b}": lambda a=a, b=b: ccsdt(a, b) for a, b in (
        ("gdab", "efgc"), ("gdac", "efgb"), ("gdbc", "efga"), ("geab", "dfgc"), ("geac", "dfgb"), ("gebc", "dfga"), ("gfab", "degc"),
        ("gfbc", "dega"))},
    "prl 2^15": lambda: prl(1 << 15),
    "scan 2^26": lambda: scan(1 << 26),
    "mbbs 8192": lambda: mbbs(8192, 8192),
    "histogram 2^26, 256": lambda: histogram(1 << 26, 256),
    "softmax 4096": lambda: softmax(4096, 4096),
    "layer norm 4096": lambda: layer_norm(4096, 4096),
    "attention 16,1024,64": lambda: attention(16, 1024, 64),
}
