"""Rows of programs made of patterns: TVM's seven versions of a matrix product, the binomial filter beside Halide,
stencils beside hand-written C and beside the loop kernels of the same computations."""
import ctypes, os
import numpy as np
from interleaved import HALIDE, instruction_set
from rows import CPUS, I, aligned, beside_nothing, check, halide_nothing, harness, llvm_cpu, peaks, ptr, repeated, rivals, stream_peak

# ---- matmul -------------------------------------------------------------------------------------

# Names of Lathe's strategies, in the order of TVM's tutorial "How to optimize GEMM on CPU".
VERSIONS = ["baseline", "blocking", "vectorized", "loopPerm", "arrayPacking", "cacheBlocks", "parallel"]


def tvm_version(version, a, b, threads):
    """The schedule of that tutorial's version: blocks of 32, k in steps of 4."""
    import tvm
    from tvm import te
    from tvm.s_tir import Schedule
    (m, k), n, bn = a.shape, b.shape[1], 32
    step = VERSIONS.index(version)
    x, y = te.placeholder((m, k), "float32", name="A"), te.placeholder((k, n), "float32", name="B")
    r = te.reduce_axis((0, k), name="r")
    if step >= 4:
        packed = te.compute((n // bn, k, bn), lambda p, q, j: y[q, p * bn + j], name="P")
        c = te.compute((m, n), lambda i, j: te.sum(x[i, r] * packed[j // bn, r, j % bn], axis=r), name="C")
    else:
        c = te.compute((m, n), lambda i, j: te.sum(x[i, r] * y[r, j], axis=r), name="C")
    s = Schedule(te.create_prim_func([x, y, c]))
    block = s.get_sblock("C")
    tile = s.cache_write(block, 0, "local") if step >= 5 else None
    if step >= 1:
        i, j, q = s.get_loops(block)
        io, ii = s.split(i, [None, bn])
        jo, ji = s.split(j, [None, bn])
        qo, qi = s.split(q, [None, 4])
        s.reorder(*([io, jo, qo, qi, ii, ji] if step < 3 else [io, jo, qo, ii, qi, ji]))
        if step >= 5:
            s.reverse_compute_at(tile, jo)
            s.unroll(qi)
            s.vectorize(s.get_loops(tile)[-1])
        if step >= 2:
            s.vectorize(ji)
        if step >= 6:
            s.parallel(io)
        s.decompose_reduction(block, qo)
    if step >= 4:
        panel, _, column = s.get_loops(s.get_sblock("P"))
        s.vectorize(column)
        if step >= 6:
            s.parallel(panel)
    f = tvm.compile(s.mod, target={"kind": "llvm", "mcpu": llvm_cpu(), "num-cores": threads})["main"]
    args = [tvm.runtime.tensor(v) for v in (a, b, np.zeros((m, n), a.dtype))]
    return repeated(lambda: f(*args)), lambda: args[2].numpy()


def matmul_inputs(n):
    rng = np.random.default_rng(0)
    return aligned((n, n), np.float32, rng=rng), aligned((n, n), np.float32, rng=rng)


def matmul(version, n):
    def build(threads):
        a, b = matmul_inputs(n)
        want = a.astype(np.float64) @ b.astype(np.float64)
        mine = aligned((n, n), np.float32)
        os.sched_setaffinity(0, CPUS)
        candidates = {"lathe": harness().kernel("patterns/matmul.lathe:mm", version, threads, [a, b, mine])}
        candidates["TVM"], result = tvm_version(version, a, b, threads)
        for c in candidates.values():
            c()
        check("lathe", mine.astype(np.float64), want, 1e-2)
        check("TVM", result().astype(np.float64), want, 1e-2)
        return dict(candidates=candidates, keep=(a, b, mine), work=2.0 * n ** 3, unit="GFLOP/s", goal=">= 1.0", peak=peaks(threads))
    return build


def registers(n):
    """A strategy on the patterns beside the best strategy of the index-notation kernel."""
    def build(threads):
        a, b = matmul_inputs(n)
        want = a.astype(np.float64) @ b.astype(np.float64)
        mine, theirs = aligned((n, n), np.float32), aligned((n, n), np.float32)
        h = harness()
        candidates = {"lathe": h.kernel("patterns/matmul.lathe:mm", "registers", threads, [a, b, mine]),
                      "index notation, fast": h.kernel("gemm.lathe:gemm", "fast", threads, [a, b, theirs])}
        for name, c in (("lathe", mine), ("index notation, fast", theirs)):
            candidates[name]()
            check(name, c.astype(np.float64), want, 1e-2)
        return dict(candidates=candidates, keep=(a, b, mine, theirs), work=2.0 * n ** 3, unit="GFLOP/s", goal=">= 0.9", peak=peaks(threads))
    return build


# ---- binomial filter ----------------------------------------------------------------------------

def binomial_wanted(image):
    rows = image[:-2] + 2 * image[1:-1] + image[2:]
    return (rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) / 16


def halide_binomial(strategy, image, out, threads):
    """The filter as 3 x 3 taps, or as a column pass kept for the rows that follow."""
    import halide as hl
    i, o = hl.Buffer(image), hl.Buffer(out)
    x, y, yi = hl.Var("x"), hl.Var("y"), hl.Var("yi")
    f, column = hl.Func("f"), hl.Func("column")
    strip = 32
    if strategy == "naive":
        w = [1, 2, 1]
        f[x, y] = sum((i[x + c, y + r] * float(w[r] * w[c]) for r in range(3) for c in range(3)), hl.f32(0)) * (1 / 16)
        f.split(y, y, yi, strip).vectorize(x, 16)
    else:
        column[x, y] = i[x, y] + 2.0 * i[x, y + 1] + i[x, y + 2]
        f[x, y] = (column[x, y] + 2.0 * column[x + 1, y] + column[x + 2, y]) * (1 / 16)
        f.split(y, y, yi, strip).vectorize(x, 16)
        if strategy == "separated":
            column.compute_at(f, yi).vectorize(x, 16)
        # "rotated": the sums of columns live in registers while x runs along; inlined here, which is what Halide's
        # own schedule for it comes to.
    if threads > 1:
        f.parallel(y)
    target = hl.Target(HALIDE[instruction_set()])
    f.compile_jit(target)
    return beside_nothing(lambda: f.realize(o, target), halide_nothing(target))


def binomial(strategy, n):
    def build(threads):
        image = aligned((n + 2, n + 2), np.float32, rng=np.random.default_rng(0))
        mine, theirs = aligned((n, n), np.float32), aligned((n, n), np.float32)
        name = strategy + ("Par" if threads > 1 else "")
        os.sched_setaffinity(0, CPUS)
        candidates = {"lathe": harness().kernel("patterns/binomial.lathe:binomial", name, threads, [image, mine]),
                      "Halide": halide_binomial(strategy, image, theirs, threads)}
        want = binomial_wanted(image.astype(np.float64))
        for name, got in (("lathe", mine), ("Halide", theirs)):
            candidates[name]()
            check(name, got, want, 1e-4)
        return dict(candidates=candidates, keep=(image, mine, theirs), work=8.0 * n * n, unit="GB/s", goal=">= 1.0", peak=stream_peak(threads))
    return build


# ---- stencils -----------------------------------------------------------------------------------

def cell(*offsets):
    """The neighbour at these offsets of every inner cell of an array with a border of one."""
    return lambda a: a[tuple(slice(1 + o, a.shape[d] - 1 + o) for d, o in enumerate(offsets))]


def number(v):
    a = aligned((), np.float32)
    a[...] = v
    return a


def stencil(kernel, file, shapes, scalars, c, wanted, goal, n, loop="../benches/stencils.lathe", after=(), tolerance=1e-3):
    """`shapes` are those of the inputs, `after` what only C gets (before its output); `c` names its function."""
    def build(threads):
        rng = np.random.default_rng(0)
        ins = [aligned(shape, np.float32) for shape in shapes]
        for a in ins:
            a[...] = rng.uniform(1, 2, a.shape)
        dims = len(shapes[0])
        names = ("lathe", "loop kernel", "C")
        outs = {name: aligned((n,) * dims, np.float32) for name in names}
        numbers = [number(v) for v in scalars]
        h, f = harness(), getattr(rivals(), c)
        extra = [ptr(a) for a in after]
        args = [ptr(a) for a in ins] + extra + [ptr(outs[names[2]])] + [ctypes.c_float(v) for v in scalars] + [I(n), threads]
        candidates = {
            "lathe": h.kernel(f"patterns/{file}.lathe:{kernel}", "fast", threads, ins + numbers + [outs["lathe"]]),
            "loop kernel": h.kernel(f"{loop}:{kernel}", "fast", threads, ins + numbers + [outs["loop kernel"]]),
            "C": repeated(lambda: f(*args)),
        }
        want = wanted(*(a.astype(np.float64) for a in ins), *scalars)
        for name in names:
            candidates[name]()
            check(name, outs[name], want, tolerance)
        bytes = 4.0 * n ** dims * (len(shapes) + 1)
        return dict(candidates=candidates, keep=(ins, numbers, outs, after), work=bytes, unit="GB/s", goal=goal, peak=stream_peak(threads))
    return build


def star(a, dims):
    return sum(cell(*(o if e == d else 0 for e in range(dims)))(a) for d in range(dims) for o in (-1, 1))


def jacobi(dims):
    return lambda a, c: c * (cell(*[0] * dims)(a) + star(a, dims))


def gaussian(a):
    w = np.array([[2, 4, 5, 4, 2], [4, 9, 12, 9, 4], [5, 12, 15, 12, 5], [4, 9, 12, 9, 4], [2, 4, 5, 4, 2]]) / 159
    n = a.shape[0] - 4
    return sum(w[r, c] * a[r:r + n, c:c + n] for r in range(5) for c in range(5))


def differences(a):
    here = cell(0, 0)(a)
    return [cell(*o)(a) - here for o in ((-1, 0), (1, 0), (0, -1), (0, 1))]


def hotspot2d(t, power, sx, sy, sz, air):
    north, south, west, east = differences(t)
    return cell(0, 0)(t) + power + sy * (north + south) + sx * (west + east) + sz * (air - cell(0, 0)(t))


def srad(x, q0):
    d, h = differences(x), cell(0, 0)(x)
    slope, curve = sum(v * v for v in d) / (h * h), sum(d) / h
    q = (0.5 * slope - 0.0625 * curve ** 2) / (1 + 0.25 * curve) ** 2
    return np.clip(1 / (1 + (q - q0) / (q0 * (1 + q0))), 0, 1)


def hotspot3d(t, power, c, e, n, u, s, air):
    at = lambda *o: cell(*o)(t)
    return (c * at(0, 0, 0) + e * (at(0, 0, -1) + at(0, 0, 1)) + n * (at(0, -1, 0) + at(0, 1, 0))
            + u * (at(-1, 0, 0) + at(1, 0, 0)) + s * power + u * air)


def acoustic(before, now, k, loss):
    n = before.shape[0]
    free = np.full(n, 2.0)
    free[0] -= 1
    free[-1] -= 1
    v = free[:, None, None] + free[None, :, None] + free[None, None, :]
    walls = 0.5 * loss * (6 - v)
    return ((2 - k * v) * cell(0, 0, 0)(now) + k * star(now, 3) + (walls - 1) * before) / (1 + walls)


def stencils():
    flat, cube = 4096, 256
    b2, b3 = (flat + 2,) * 2, (cube + 2,) * 3
    ends = aligned((cube,), np.float32)
    ends[0] = ends[-1] = 1
    memory, both = ">= 0.95 of C, of the loop kernel", ">= 0.95 of the loop kernel"
    loops = "jacobi.lathe"
    return {
        "jacobi2d": stencil("jacobi2d", "jacobi", [b2], [0.2], "jacobi2d_f32", jacobi(2), memory, flat, loops),
        "jacobi3d": stencil("jacobi3d", "jacobi", [b3], [0.125], "jacobi3d_f32", jacobi(3), memory, cube, loops),
        "gaussian": stencil("gaussian", "gaussian", [(flat + 4,) * 2], [], "gaussian_f32", gaussian, both, flat),
        "gradient": stencil("gradient", "gaussian", [b2], [], "gradient_f32", lambda a: np.sqrt(sum(v * v for v in differences(a))), memory, flat),
        "hotspot2d": stencil("hotspot2d", "hotspot", [b2, (flat,) * 2], [0.1, 0.2, 0.05, 3.0], "hotspot2d_f32", hotspot2d, memory, flat),
        "hotspot3d": stencil("hotspot3d", "hotspot", [b3, (cube,) * 3], [0.4, 0.1, 0.1, 0.1, 0.2, 3.0], "hotspot3d_f32", hotspot3d, memory, cube),
        "srad": stencil("srad", "srad", [b2], [0.05], "srad_f32", srad, both, flat),
        "acoustic": stencil("acoustic", "acoustic", [(cube,) * 3, b3], [0.2, 0.1], "acoustic_f32", acoustic, memory, cube, after=[ends]),
    }


ROWS = {f"patterns matmul {v}": matmul(v, 1024) for v in VERSIONS}
ROWS["patterns matmul registers"] = registers(1024)
ROWS.update({f"patterns binomial {s}": binomial(s, 4096) for s in ("naive", "separated", "rotated")})
ROWS.update({f"patterns {name}": row for name, row in stencils().items()})
