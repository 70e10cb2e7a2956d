"""The rows of the Python package, with its goals: the overhead of a call beside Numba and jax.jit, import, the first call
of a process, calls with arrays of PyTorch and JAX, and einsum beside numpy + opt_einsum and XLA.

    python benches/python_rows.py [overhead] [doors] [start] [einsum]

It needs the wheel installed, and for the rivals numba, jax and opt_einsum. Everything is measured in interleaved rounds;
the numbers are medians, with the range of the rounds.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

# numpy's own choice on newer processors uses half of their vector width.
if "OPENBLAS_CORETYPE" not in os.environ and "avx512" in open("/proc/cpuinfo").read():
    os.environ["OPENBLAS_CORETYPE"] = "SkylakeX"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import numpy as np

from interleaved import rounds


def overhead():
    import lathe

    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    out = np.empty(4, np.float32)
    add = lathe.kernel("kernel add(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = x[i] + y[i] }")
    all_ = {"lathe": lambda: add(x, y), "lathe, out=": lambda: add(x, y, out=out), "numpy": lambda: np.add(x, y)}
    try:
        import numba

        @numba.njit
        def numba_add(x, y):
            z = np.empty_like(x)
            for i in range(x.shape[0]):
                z[i] = x[i] + y[i]
            return z

        all_["numba"] = lambda: numba_add(x, y)
    except ImportError:
        pass
    try:
        import jax

        f = jax.jit(lambda a, b: a + b)
        p, q = jax.numpy.asarray(x), jax.numpy.asarray(y)
        all_["jax.jit"] = lambda: f(p, q).block_until_ready()
        all_["jax.jit, numpy's arrays"] = lambda: f(x, y).block_until_ready()
    except ImportError:
        pass
    shown("call overhead on arrays of 4 elements (goal 1 us; a third of jax.jit's)", all_)


def shown(title, all_):
    """Prints what calls cost beyond that of a function of Python that does nothing."""
    nothing = rounds({"nothing": lambda: None}, 15)["nothing"][0]
    print(title)
    for name, (m, lo, hi) in rounds(all_, 25).items():
        print(f"  {name:28} {(m - nothing) * 1e6:7.3f} us  [{lo * 1e6:.3f}..{hi * 1e6:.3f}]")


def doors():
    """Calls with tensors of PyTorch and arrays of JAX, and tiny contractions."""
    import lathe

    lathe.set_threads(1)
    add = lathe.kernel("kernel add(x: f32[N], y: f32[N]) -> (z: f32[N]) { z[i] = x[i] + y[i] }")
    try:
        import torch

        import lathe.torch

        x, y = torch.ones(4), torch.ones(4)
        wants = torch.ones(4, requires_grad=True)
        op = lathe.torch.op(add)
        ruled = lathe.torch.op(add, vjp=lambda x, y, g: (g, g))
        shown("PyTorch's tensors of 4 elements (goal 8 us each; a native addition beside them)", {
            "native": lambda: torch.add(x, y), "direct": lambda: add(x, y), "operator": lambda: op(x, y),
            "native, with a gradient": lambda: torch.add(wants, y), "operator, with a gradient": lambda: ruled(wants, y),
        })
    except ImportError:
        pass
    try:
        import jax

        import lathe.jax

        p, q = jax.numpy.ones(4), jax.numpy.ones(4)
        op = lathe.jax.op(add)
        f, g = jax.jit(lambda a, b: op(a, b)), jax.jit(lambda a, b: a + b)
        shown("JAX's arrays of 4 elements (goals: direct 25 us, under jit 10 us)", {
            "native": lambda: (p + q).block_until_ready(), "direct": lambda: add(p, q),
            "operator": lambda: op(p, q).block_until_ready(),
            "native, jit": lambda: g(p, q).block_until_ready(), "operator, jit": lambda: f(p, q).block_until_ready(),
        })
    except ImportError:
        pass
    v, m = np.ones(4), np.ones((3, 3))
    small = {}
    for text, args in (("ij,jk->ik", (m, m)), ("i,i->", (v, v)), ("ii->", (m,)), ("i,j->ij", (v, v)), ("ij->ji", (m,))):
        small[f"{text}, lathe"] = lambda text=text, args=args: lathe.einsum(text, *args)
        small[f"{text}, numpy"] = lambda text=text, args=args: np.einsum(text, *args)
    shown("einsum of 3 x 3 matrices and vectors of 4 (goal: no more than numpy's)", small)


FIRST = """
import time, sys
import numpy as np
a = np.ones((200, 200), np.float32)
begin = time.perf_counter()
import lathe
imported = time.perf_counter()
gemm = lathe.kernel(open(sys.argv[1]).read(), "gemm")
c = gemm(a, a)
done = time.perf_counter()
assert (c == 200).all()
print(imported - begin, done - imported)
"""


def start():
    source = os.path.join(os.path.dirname(__file__), "..", "examples", "gemm.lathe")
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "LATHE_CACHE": os.path.join(folder, "cache"), "LATHE_STORE": os.path.join(folder, "s")}

        def run(text, *args, **more):
            begin = time.perf_counter()
            out = subprocess.run([sys.executable, "-c", text, *args], env={**env, **more}, capture_output=True, text=True,
                                 check=True)
            return time.perf_counter() - begin, [float(v) for v in out.stdout.split()]

        cold = run(FIRST, source)[1]
        warm = [run(FIRST, source)[1] for _ in range(11)]
        none, numpy_, lathe_ = ([run(t)[0] for _ in range(11)] for t in ("", "import numpy", "import lathe"))
    m = statistics.median
    print("start of a process")
    print(f"  import lathe, numpy with it   {(m(lathe_) - m(none)) * 1e3:7.1f} ms  (goal 150; numpy alone "
          f"{(m(numpy_) - m(none)) * 1e3:.1f})")
    print(f"  import lathe after numpy      {m([w[0] for w in warm]) * 1e3:7.1f} ms")
    print(f"  first gemm, warm cache        {m([w[1] for w in warm]) * 1e3:7.1f} ms  (goal 30) "
          f"[{min(w[1] for w in warm) * 1e3:.1f}..{max(w[1] for w in warm) * 1e3:.1f}]")
    print(f"  first gemm, nothing kept      {cold[1] * 1e3:7.1f} ms")


#: Thirty contractions: products of matrices in all orders, batches, attention, contractions of quantum chemistry and of
#: tensor networks, decompositions, sums, outer products and diagonals.
CONTRACTIONS = [
    ("ij,jk->ik", (512, 512), (512, 512)), ("ij,kj->ik", (512, 512), (512, 512)), ("ji,jk->ik", (512, 512), (512, 512)),
    ("ij,jk->ki", (512, 512), (512, 512)), ("ij,jk->ik", (2000, 64), (64, 2000)), ("ij,jk->ik", (64, 4000), (4000, 64)),
    ("ij,j->i", (2000, 2000), (2000,)), ("ij,i->j", (2000, 2000), (2000,)), ("i,i->", (1000000,), (1000000,)),
    ("i,j->ij", (2000,), (2000,)), ("ij,ij->ij", (1500, 1500), (1500, 1500)), ("ij,ij->", (1500, 1500), (1500, 1500)),
    ("ij,ij->i", (1500, 1500), (1500, 1500)), ("ij->i", (2000, 2000)), ("ij->j", (2000, 2000)), ("ijk->ki", (150, 150, 150)),
    ("bij,bjk->bik", (64, 64, 64), (64, 64, 64)), ("bij,bkj->bik", (32, 128, 64), (32, 128, 64)),
    ("bhqd,bhkd->bhqk", (4, 8, 128, 64), (4, 8, 128, 64)), ("bhqk,bhkd->bhqd", (4, 8, 128, 128), (4, 8, 128, 64)),
    ("bqhd,bkhd->bhqk", (4, 128, 8, 64), (4, 128, 8, 64)), ("abcd,dcef->abef", (24, 24, 24, 24), (24, 24, 24, 24)),
    ("abcd,efcd->abef", (24, 24, 24, 24), (24, 24, 24, 24)), ("aebf,dfce->abcd", (24, 24, 24, 24), (24, 24, 24, 24)),
    ("ijk,kl->ijl", (100, 100, 100), (100, 100)), ("ijk,jl->ilk", (100, 100, 100), (100, 100)),
    ("ijk,jl,kl->il", (100, 100, 100), (100, 32), (100, 32)), ("ij,jk,kl,lm->im", (300, 300), (300, 300), (300, 300), (300, 300)),
    ("ijk,il,jm,kn->lmn", (60, 60, 60), (60, 20), (60, 20), (60, 20)), ("bi,bj,ijk->bk", (256, 64), (256, 64), (64, 64, 64)),
]


def einsum():
    import jax
    import opt_einsum

    import lathe

    lathe.set_threads(2)
    rng = np.random.default_rng(0)
    over_numpy, over_xla = [], []
    print("einsum in single precision, 2 threads (goals: 1.5 times numpy + opt_einsum, 1.0 times XLA)")
    print(f"  {'':26} {'lathe':>10} {'numpy':>10} {'XLA':>10}   times numpy, XLA")
    for text, *shapes in CONTRACTIONS:
        arrays = [rng.random(s, np.float32) for s in shapes]
        path = opt_einsum.contract_path(text, *arrays)[0]
        there = [jax.numpy.asarray(a) for a in arrays]
        f = jax.jit(lambda *x, text=text: jax.numpy.einsum(text, *x, precision="highest"))
        all_ = {
            "lathe": lambda: lathe.einsum(text, *arrays),
            "numpy": lambda: opt_einsum.contract(text, *arrays, optimize=path),
            "xla": lambda: f(*there).block_until_ready(),
        }
        want = np.asarray(opt_einsum.contract(text, *[a.astype(np.float64) for a in arrays]))
        got = np.asarray(lathe.einsum(text, *arrays), np.float64)
        assert np.allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max()), text
        r = {k: v[0] for k, v in rounds(all_, 7, limit=2.5).items()}
        over_numpy.append(r["numpy"] / r["lathe"])
        over_xla.append(r["xla"] / r["lathe"])
        print(f"  {text:26} {r['lathe'] * 1e6:10.1f} {r['numpy'] * 1e6:10.1f} {r['xla'] * 1e6:10.1f}   "
              f"{over_numpy[-1]:5.2f} {over_xla[-1]:5.2f}", flush=True)
    print(f"  geometric means: {statistics.geometric_mean(over_numpy):.2f} over numpy + opt_einsum, "
          f"{statistics.geometric_mean(over_xla):.2f} over XLA")


for part in sys.argv[1:] or ["overhead", "doors", "start", "einsum"]:
    {"overhead": overhead, "doors": doors, "start": start, "einsum": einsum}[part]()
