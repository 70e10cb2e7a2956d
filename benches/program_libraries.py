#!/usr/bin/env python3
"""The programs of examples/programs, no strategy given, beside the libraries of numpy's world that do the same, on one thread.

    python3 benches/program_libraries.py [--lathe PATH] [--size large] [--rounds 5] [--only NAME ...] [--machine x86-64-v3]
                                         [--most SECONDS] [--json FILE]

With `LATHE_BENCH_ISA=AVX2` and `--machine x86-64-v3` all are held to AVX2. Each program has all libraries that can be imported here and have what it needs: numpy, SciPy, numexpr, scikit-learn, Pillow, OpenCV,
parasail, PyTorch, XLA (by JAX). They get arrays as they like them, made before, and may leave results where they like; candidates
take turns with Lathe's object file in one process on one processor, and the least of their times counts. Results are compared with
those of gcc on plain C; a library whose arithmetic is another one (a halftone of bytes, a round window) is marked with `*`, with what
was compared instead. `--json FILE` keeps the rows: a second run with the same file measures what is missing.
"""

import os

import interleaved

# Before the first library is loaded.
os.environ.update(interleaved.held(os.environ))
if interleaved.instruction_set() == "AVX2":
    os.environ.update(ATEN_CPU_CAPABILITY="avx2", MKL_ENABLE_INSTRUCTIONS="AVX2", OPENCV_CPU_DISABLE="AVX512-SKX,AVX512-COMMON")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"):
    os.environ[name] = "1"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import importlib
import json
import math
import shutil
import statistics
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np

from polybench_rows import EXAMPLES, SIZES, TOLERANCE, Row


def optional(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Library:
    """A call of a library; what it returns goes into the arrays of a row when its time is known. `differs` says what makes its
    arithmetic another one; `alike` compares its results then, and says what it found."""

    def __init__(self, work, finish, differs=None, alike=None):
        self.work, self.store, self.differs, self.alike = work, finish, differs, alike

    def __call__(self):
        self.made = self.work()

    def finish(self):
        made, self.made = self.made, None
        self.store(made)


def stored(*views):
    """Puts results into arrays, in order."""

    def finish(made):
        for view, result in zip(views, made if isinstance(made, (tuple, list)) else (made,)):
            view[...] = np.asarray(result)

    return finish


# One function per program: the libraries that have it. `a` has the arrays by name.


def black_scholes(a, have):
    rate, volatility = 0.02, 0.3

    def prices(m, ndtr):
        def work(price, strike, years):
            spread = volatility * m.sqrt(years)
            above = (m.log(price / strike) + (rate + 0.5 * volatility**2) * years) / spread
            below = above - spread
            discounted = strike * m.exp(-rate * years)
            return price * ndtr(above) - discounted * ndtr(below), discounted * ndtr(-below) - price * ndtr(-above)

        return work

    inputs, finish = (a["price"], a["strike"], a["years"]), stored(a["call"], a["put"])
    if special := have("scipy.special"):
        work = prices(np, special.ndtr)
        yield "numpy + SciPy", Library(lambda: work(*inputs), finish)
    if torch := have("torch"):
        tensors = [torch.from_numpy(x) for x in inputs]
        eager = prices(torch, torch.special.ndtr)
        yield "PyTorch", Library(lambda: eager(*tensors), finish)
    if jax := have("jax"):
        compiled = jax.jit(prices(jax.numpy, jax.scipy.special.ndtr))
        there = [jax.device_put(x) for x in inputs]
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(*there)), finish)


def n_body(a, have):
    steps, dt, finish = int(a["steps"]), 0.01, stored(a["x"], a["v"])

    def step(m, mass, x, v):
        apart = [x[None, :, d] - x[:, None, d] for d in range(3)]
        far = apart[0] ** 2 + apart[1] ** 2 + apart[2] ** 2 + 0.01
        pull = mass / (far * m.sqrt(far))
        v = v + dt * m.stack([(pull * d).sum(1) for d in apart], 1)
        return x + dt * v, v

    def work(m, mass):
        def steps_of(x, v):
            for _ in range(steps):
                x, v = step(m, mass, x, v)
            return x, v

        return steps_of

    eager = work(np, a["mass"])
    yield "numpy", Library(lambda: eager(a["x"], a["v"]), finish)
    if torch := have("torch"):
        with_torch = work(torch, torch.from_numpy(a["mass"]))
        yield "PyTorch", Library(lambda: with_torch(torch.from_numpy(a["x"]), torch.from_numpy(a["v"])), finish)
    if jax := have("jax"):
        compiled = jax.jit(work(jax.numpy, jax.device_put(a["mass"])))
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(a["x"], a["v"])), finish)


def csr_product(a, have):
    shape = (a["y"].size, a["x"].size)
    if sparse := have("scipy.sparse"):
        matrix = sparse.csr_matrix((a["value"], a["column"], a["start"].astype(np.int32)), shape=shape)
        yield "SciPy", Library(lambda: matrix @ a["x"], stored(a["y"]))
    if torch := have("torch"):
        rows = torch.from_numpy(a["start"].astype(np.int32))
        tensor = torch.sparse_csr_tensor(rows, torch.from_numpy(a["column"]), torch.from_numpy(a["value"]), shape)
        x = torch.from_numpy(a["x"])
        yield "PyTorch", Library(lambda: tensor @ x, stored(a["y"]))


def fft(a, have):
    z = a["re"] + 1j * a["im"]

    def finish(made):
        a["real"][...], a["imaginary"][...] = np.asarray(made.real), np.asarray(made.imag)

    yield "numpy", Library(lambda: np.fft.fft(z, axis=0), finish)
    if scipy := have("scipy.fft"):
        yield "SciPy", Library(lambda: scipy.fft(z, axis=0), finish)
        yield "SciPy in place", Library(lambda: scipy.fft(z.copy(), axis=0, overwrite_x=True), finish)
    if torch := have("torch"):
        tensor = torch.from_numpy(z)
        yield "PyTorch", Library(lambda: torch.fft.fft(tensor, dim=0), finish)
    if jax := have("jax"):
        compiled = jax.jit(lambda z: jax.numpy.fft.fft(z, axis=0))
        there = jax.device_put(z)
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(there)), finish)


def fft_data(a):
    """The factors and the order of a transform; the benchmark beside C has any numbers there."""
    points = a["re"].shape[0]
    bits = points.bit_length() - 1
    k = np.arange(points // 2)
    for t in range(a["cosine"].shape[0]):
        angle = 2 * np.pi * ((k >> t) << t) / points
        a["cosine"][t], a["sine"][t] = np.cos(angle), np.sin(angle)
    a["order"][...] = [int(f"{i:0{bits}b}"[::-1], 2) for i in range(points)]


def sobel(a, have):
    image, finish = a["image"], stored(a["steep"])

    def bordered(steep):
        steep[0] = steep[-1] = 0
        steep[:, 0] = steep[:, -1] = 0
        return steep

    def slices(m, image):
        nw, n, ne = image[:-2, :-2], image[:-2, 1:-1], image[:-2, 2:]
        w, e = image[1:-1, :-2], image[1:-1, 2:]
        sw, s, se = image[2:, :-2], image[2:, 1:-1], image[2:, 2:]
        across, down = ne + 2 * e + se - nw - 2 * w - sw, sw + 2 * s + se - nw - 2 * n - ne
        return m.sqrt(across * across + down * down)

    def with_numpy():
        steep = np.zeros_like(image)
        steep[1:-1, 1:-1] = slices(np, image)
        return steep

    yield "numpy", Library(with_numpy, finish)
    if ndimage := have("scipy.ndimage"):

        def with_scipy():
            across, down = ndimage.sobel(image, 1), ndimage.sobel(image, 0)
            return bordered(np.sqrt(across * across + down * down))

        yield "SciPy", Library(with_scipy, finish)
    if cv2 := have("cv2"):

        def with_opencv():
            across, down = cv2.Sobel(image, cv2.CV_32F, 1, 0, ksize=3), cv2.Sobel(image, cv2.CV_32F, 0, 1, ksize=3)
            return bordered(cv2.magnitude(across, down))

        yield "OpenCV", Library(with_opencv, finish)
    if torch := have("torch"):
        weights = torch.tensor([[[[-1.0, 0, 1], [-2, 0, 2], [-1, 0, 1]]], [[[-1.0, -2, -1], [0, 0, 0], [1, 2, 1]]]])
        tensor = torch.from_numpy(image)[None, None]

        def with_torch():
            both = torch.nn.functional.conv2d(tensor, weights)
            return torch.nn.functional.pad(torch.hypot(both[0, 0], both[0, 1]), (1, 1, 1, 1))

        yield "PyTorch", Library(with_torch, finish)
    if jax := have("jax"):
        compiled = jax.jit(lambda image: jax.numpy.pad(slices(jax.numpy, image), 1))
        there = jax.device_put(image)
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(there)), finish)


def bilateral(a, have):
    image, finish = a["image"], stored(a["out"])

    def windows(m, image):
        height, width = image.shape
        middle, weight, total = image[2:-2, 2:-2], 0, 0
        for v in range(5):
            for u in range(5):
                one = image[v : v + height - 4, u : u + width - 4]
                off = one - middle
                w = m.exp(-(0.125 * ((v - 2) ** 2 + (u - 2) ** 2) + 8 * off * off))
                weight, total = weight + w, total + w * one
        return total / weight

    def within(m, image, out):
        out[2:-2, 2:-2] = windows(m, image)
        return out

    yield "numpy", Library(lambda: within(np, image, image.copy()), finish)
    if cv2 := have("cv2"):
        filtered = lambda: cv2.bilateralFilter(image, 5, sigmaColor=0.25, sigmaSpace=2)

        def alike(want):
            inside = slice(2, -2), slice(2, -2)
            return f"{float(np.abs(a['out'][inside] - want['out'][inside]).mean()):.2g} apart in the mean"

        yield "OpenCV", Library(filtered, finish, "13 pixels of a round window instead of 25", alike)
    if torch := have("torch"):
        tensor = torch.from_numpy(image)
        yield "PyTorch", Library(lambda: within(torch, tensor, tensor.clone()), finish)
    if jax := have("jax"):
        compiled = jax.jit(lambda image: image.at[2:-2, 2:-2].set(windows(jax.numpy, image)))
        there = jax.device_put(image)
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(there)), finish)


def floyd_steinberg(a, have):
    if pillow := have("PIL.Image"):
        # An image has as many grey levels as bytes have values.
        grey = pillow.fromarray(np.clip(a["image"] * 255, 0, 255).astype(np.uint8), "L")

        alike = lambda want: halftones(a["image"], want["image"])
        yield "Pillow", Library(lambda: grey.convert("1"), stored(a["image"]), "bytes instead of floats", alike)


def halftones(image, want):
    """How far the means of blocks of 8 by 8 pixels are apart: one sum that is rounded otherwise turns pixels over from there on."""
    rows, columns = (n // 8 for n in image.shape)
    means = lambda image: image[: rows * 8, : columns * 8].reshape(rows, 8, columns, 8).mean((1, 3))
    apart = float(np.abs(means(image) - means(want)).mean())
    if apart > 0.05:
        raise RuntimeError(f"floyd_steinberg: means of 8 by 8 are {apart} apart")
    return f"means of 8 by 8 pixels are {apart:.2g} apart in the mean, {float((image != want).mean()):.1%} of the pixels differ"


def floyd_steinberg_data(a):
    """From black to white."""
    a["image"] -= 0.5


def k_means(a, have):
    points, centres = a["points"], a["centres"]
    many = centres.shape[0]

    def alike(want):
        same = float((a["label"] == want["label"]).mean())
        apart = float(np.abs(a["centres"] - want["centres"]).max())
        return f"{same:.4%} of the labels are the same, centres up to {apart:.1g} apart"

    differs = "distances by a product, which rounds otherwise"

    def with_numpy():
        label = ((centres * centres).sum(1) - 2 * (points @ centres.T)).argmin(1)
        count = np.bincount(label, minlength=many)
        order = np.argsort(label, kind="stable")
        total = np.add.reduceat(points[order], np.minimum(np.cumsum(count) - count, len(label) - 1), axis=0)
        return label, np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None], centres)

    yield "numpy", Library(with_numpy, stored(a["label"], centres), differs, alike)
    if cluster := have("sklearn.cluster"):

        def with_sklearn():
            # Its rounds end with a pass over the labels, so that a round more is what one takes twice.
            model = cluster.KMeans(many, init=centres.copy(), n_init=1, max_iter=1, algorithm="lloyd").fit(points)
            return model.labels_, model.cluster_centers_

        def apart(want):
            return f"centres up to {float(np.abs(a['centres'] - want['centres']).max()):.1g} apart"

        yield "scikit-learn", Library(with_sklearn, stored(a["label"], centres), f"{differs}; points less their mean; labels of the new centres, too", apart)
    if torch := have("torch"):
        t = torch.from_numpy(points)

        def with_torch():
            c = torch.from_numpy(centres)
            label = torch.addmm((c * c).sum(1), t, c.T, alpha=-2).argmin(1)
            count = torch.bincount(label, minlength=many)
            total = torch.zeros_like(c).index_add_(0, label, t)
            return label, torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], c)

        yield "PyTorch", Library(with_torch, stored(a["label"], centres), differs, alike)
    if jax := have("jax"):
        m = jax.numpy

        def round_of(points, centres):
            label = ((centres * centres).sum(1) - 2 * (points @ centres.T)).argmin(1)
            count = jax.ops.segment_sum(m.ones(len(label), m.float32), label, many)
            total = jax.ops.segment_sum(points, label, many)
            return label, m.where(count[:, None] > 0, total / m.maximum(count, 1)[:, None], centres)

        compiled, there = jax.jit(round_of), jax.device_put(points)
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(there, centres)), stored(a["label"], centres), differs, alike)


def lstm_cell(a, have):
    finish = stored(a["hidden"], a["cell"])
    names = ("x", "h", "c", "w", "u", "b")

    def cell(m, sigmoid):
        def work(x, h, c, w, u, b):
            gate = (w.reshape(-1, w.shape[-1]) @ x + u.reshape(-1, u.shape[-1]) @ h).reshape(b.shape) + b
            after = sigmoid(gate[1]) * c + sigmoid(gate[0]) * m.tanh(gate[3])
            return sigmoid(gate[2]) * m.tanh(after), after

        return work

    if special := have("scipy.special"):
        eager = cell(np, special.expit)
        yield "numpy + SciPy", Library(lambda: eager(*(a[n] for n in names)), finish)
    if torch := have("torch"):
        tensors, by_hand = [torch.from_numpy(a[n]) for n in names], cell(torch, torch.sigmoid)
        yield "PyTorch", Library(lambda: by_hand(*tensors), finish)
        x, h, c, w, u, b = tensors
        # Its gates are input, forgetting, change, output.
        order = [0, 1, 3, 2]
        wide = lambda t: t[order].reshape(4 * t.shape[1], *t.shape[2:]).contiguous()
        module = torch.nn.LSTMCell(x.shape[0], h.shape[0])
        with torch.no_grad():
            module.weight_ih.copy_(wide(w)), module.weight_hh.copy_(wide(u)), module.bias_ih.copy_(wide(b)), module.bias_hh.zero_()

        def with_module():
            with torch.no_grad():
                return module(x, (h, c))

        yield "PyTorch's LSTMCell", Library(with_module, finish)
    if jax := have("jax"):
        compiled = jax.jit(cell(jax.numpy, jax.nn.sigmoid))
        there = [jax.device_put(a[n]) for n in names]
        yield "XLA", Library(lambda: jax.block_until_ready(compiled(*there)), finish)


def decode(a, have):
    heads, wide = a["x"].shape
    size = heads * wide
    tokens = a["key"].shape[0]
    weights = {n: a[n].reshape(-1, size) for n in ("wq", "wk", "wv", "wo", "up", "gate")} | {"down": a["down"].reshape(size, -1)}

    def layer(m, x, key, value, w, last):
        """`last` puts the new token's key and value into theirs, which it returns."""
        norm = lambda x: x / m.sqrt((x * x).mean() + 0.00001)
        n = norm(x)
        q = (w["wq"] @ n).reshape(heads, wide)
        key, value = last(key, (w["wk"] @ n).reshape(heads, wide)), last(value, (w["wv"] @ n).reshape(heads, wide))
        score = m.einsum("he,the->ht", q, key) / math.sqrt(wide)
        score = m.exp(score - m.amax(score, 1)[:, None])
        seen = m.einsum("ht,the->he", score, value) / score.sum(1)[:, None]
        mid = x + w["wo"] @ seen.reshape(size)
        again = norm(mid)
        inner = (w["up"] @ again) * m.maximum(w["gate"] @ again, m.zeros_like(w["gate"][:, 0]))
        return (mid + w["down"] @ inner).reshape(heads, wide), key, value

    def last(array, row):
        array[tokens - 1] = row
        return array

    x = a["x"].reshape(size)
    yield "numpy", Library(lambda: layer(np, x, a["key"], a["value"], weights, last)[0], stored(a["y"]))
    if torch := have("torch"):
        tensors = {n: torch.from_numpy(v) for n, v in weights.items()}
        rest = [torch.from_numpy(v) for v in (x, a["key"], a["value"])]
        f = torch.nn.functional

        def with_torch():
            x, key, value = rest
            n = f.rms_norm(x, (size,), eps=0.00001)
            q = (tensors["wq"] @ n).view(1, heads, 1, wide)
            key[tokens - 1], value[tokens - 1] = (tensors["wk"] @ n).view(heads, wide), (tensors["wv"] @ n).view(heads, wide)
            seen = f.scaled_dot_product_attention(q, key.transpose(0, 1)[None], value.transpose(0, 1)[None])
            mid = x + tensors["wo"] @ seen.reshape(size)
            again = f.rms_norm(mid, (size,), eps=0.00001)
            return (mid + tensors["down"] @ ((tensors["up"] @ again) * torch.relu(tensors["gate"] @ again))).view(heads, wide)

        yield "PyTorch", Library(with_torch, stored(a["y"]))
    if jax := have("jax"):
        put = lambda array, row: array.at[tokens - 1].set(row)
        compiled = jax.jit(lambda x, key, value, w: layer(jax.numpy, x, key, value, w, put), donate_argnums=(1, 2))
        there = {n: jax.device_put(v) for n, v in weights.items()}
        # What the call before left: the row of this token is the same again.
        state = [jax.device_put(a["key"]), jax.device_put(a["value"])]

        def with_jax():
            y, *state[:] = jax.block_until_ready(compiled(x, *state, there))
            return y, state[0], state[1]

        yield "XLA", Library(with_jax, stored(a["y"], a["key"], a["value"]))


def smith_waterman(a, have):
    if parasail := have("parasail"):
        one, other = ("".join("ACGT"[v] for v in a[n]) for n in "ab")
        matrix = parasail.matrix_create("ACGT", 3, -3)

        def finish(result):
            a["table"][...] = 0
            a["table"][1:, 1:] = result.score_table
            a["best"][...] = result.score

        for how in ("striped", "scan", "diag"):
            aligned = getattr(parasail, f"sw_table_{how}_32")
            yield f"parasail, {how}", Library(lambda aligned=aligned: aligned(one, other, 2, 2, matrix), finish)


LIBRARIES = {f.__name__: f for f in (black_scholes, n_body, csr_product, fft, sobel, bilateral, floyd_steinberg, k_means, lstm_cell, decode, smith_waterman)}
DATA = {"fft": fft_data, "floyd_steinberg": floyd_steinberg_data}
# What decides by sums that each compiler rounds in its own way, compared as a whole.
DECIDES = {"floyd_steinberg": lambda a, want: halftones(a["image"], want["image"])}
# Arrays whose contents afterwards are no result.
SCRATCH = {"fft": {"re", "im"}}


class LibraryRow(Row):
    """A program whose rivals are libraries, beside gcc, whose results are the right ones."""

    def __init__(self, name, entry, args, folder, have):
        super().__init__(name, entry, args, folder)
        self.views = {p.name: np.frombuffer(d, d.typecode).reshape(s) for p, d, s in zip(self.params, self.data, self.shapes)}
        if name in DATA:
            DATA[name](self.views)
            self.start = [None if s is None else d[:] for s, d in zip(self.start, self.data)]
        self.notes = {}
        for rival, call in LIBRARIES[name](self.views, have):
            # What compiles at its first call does so now; a version of a library that lacks a function is none less of a row.
            try:
                self.restore()
                call()
                self.candidates[rival] = call
            except Exception as e:
                print(f"{name}: {rival} fails: {type(e).__name__}: {str(e)[:200]}", flush=True)

    def written(self):
        """The parameters that hold results, with their arrays."""
        scratch = SCRATCH.get(self.name, ())
        return [(p, d) for p, d in zip(self.params, self.data) if (p.out or p.inout) and p.name not in scratch]

    def results(self):
        return [(d[:], TOLERANCE[p.ty]) for p, d in self.written()]

    def wrong(self, want):
        call = self.candidates[self.now]
        differs = getattr(call, "differs", None)
        if differs is None and self.name not in DECIDES:
            return super().wrong(want)
        arrays = {p.name: np.frombuffer(w, w.typecode).reshape(self.views[p.name].shape) for (p, _), (w, _) in zip(self.written(), want)}
        if differs is None:
            self.notes[self.now] = DECIDES[self.name](self.views, arrays)
            return 0.0
        self.notes[self.now] = f"{call.differs}: {call.alike(arrays)}"
        return 0.0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lathe", default=shutil.which("lathe") or "lathe")
    p.add_argument("--size", choices=SIZES, default="large")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--only", nargs="+", default=[])
    p.add_argument("--machine")
    p.add_argument("--most", type=float, default=math.inf, help="seconds for the rounds of one candidate")
    p.add_argument("--json", type=Path)
    p.add_argument("--cpu", type=int, default=min(os.sched_getaffinity(0)))
    args = p.parse_args()
    args.folder, args.programs, args.threads, args.strategy, args.objects, args.results = EXAMPLES / "programs", True, 1, None, None, None
    args.rivals, args.lathe_threads = ["gcc"], False
    os.sched_setaffinity(0, {args.cpu})
    modules = {}

    def have(name):
        if name not in modules:
            modules[name] = optional(name)
            if name == "torch" and modules[name]:
                modules[name].set_num_threads(1)
            if name == "jax" and modules[name]:
                modules[name].config.update("jax_enable_x64", True)
            if name == "cv2" and modules[name]:
                modules[name].setNumThreads(1)
        return modules[name]

    kernels = tomllib.loads((args.folder / "kernels.toml").read_text())
    kept = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    kept |= {"commit": interleaved.commit(), "machine": interleaved.machine(), "isa": args.machine or interleaved.instruction_set()}
    rows = kept.setdefault("rows", {})
    print(f"{kept['machine']}, {kept['isa']}, commit {kept['commit']}, one thread", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, entry in kernels.items():
            if name in rows and "error" not in rows[name] or args.only and name not in args.only:
                continue
            try:
                row = LibraryRow(name, entry, args, Path(folder), have)
                times = row.measure(args.rounds, args.most)
                rows[name] = {"seconds": {n: min(t) for n, t in times.items()}, "median": {n: statistics.median(t) for n, t in times.items()}, "notes": row.notes}
            except (RuntimeError, ValueError, TypeError, AttributeError) as e:
                rows[name] = {"error": str(e)}
            if args.json:
                args.json.write_text(json.dumps(kept, indent=1))
            show(name, rows[name])
    factors = [f for f in map(factor, rows.values()) if f]
    if factors:
        print(f"{len(factors)} programs with a library: geometric mean {statistics.geometric_mean(factors):.2f} over the best of each")
    return 1 if any("error" in r for r in rows.values()) else 0


def factor(row):
    """The least time of a library ÷ Lathe's."""
    rivals = [t for n, t in row.get("seconds", {}).items() if n not in ("gcc", "lathe")]
    return min(rivals) / row["seconds"]["lathe"] if rivals else None


def show(name, row):
    if "error" in row:
        print(f"{name:16} {row['error']}", flush=True)
        return
    times = ", ".join(f"{n}{'*' if n in row['notes'] else ''} {t * 1e3:.2f} ({row['median'][n] * 1e3:.2f})" for n, t in row["seconds"].items())
    best = factor(row)
    print(f"{name:16} {f'{best:.2f}' if best else '–'}: {times} ms", flush=True)
    for n, text in row["notes"].items():
        print(f"{'':16} * {n}: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
