"""Contractions, convolutions, layers and record linkage beside cuBLAS, cuDNN, JAX, Triton and CUDA C by hand."""

import time

import torch


def row_contraction(k, spec):
    """A contraction of two arrays as `einsum` writes it."""
    a, b, c = k.arrays.values()
    inputs, output = spec.split("->")
    x, y = inputs.split(",")
    sizes = {**dict(zip(x, a.shape)), **dict(zip(y, b.shape))}
    flops = 2
    for n in sizes.values():
        flops *= n
    out = torch.empty_like(c)
    # What einsum returns may lie in another order in memory; the copy is in that of the result.
    rivals = {"cuBLAS (einsum)": lambda: torch.einsum(spec, a, b), "einsum, copied": lambda: out.copy_(torch.einsum(spec, a, b))}
    return c, torch.einsum(spec, a.double(), b.double()).float(), rivals, 0, flops


def row_bmatmul(k):
    return row_contraction(k, "bik,bkj->bij")


def row_ccsdt(k):
    return row_contraction(k, "gdab,efgc->abcdef")


def row_ccsdt_last(k):
    return row_contraction(k, "gfbc,dega->abcdef")


def row_convolution(k, stride=1):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    conv = torch.nn.functional.conv2d
    # The library's own order of dimensions, in the same memory; and its other one.
    last = lambda x: x.permute(0, 3, 1, 2)
    x, w = last(image), last(f)
    first = x.contiguous(), w.contiguous()
    want = conv(x.double(), w.double(), stride=stride).permute(0, 2, 3, 1).float()
    rivals = {
        "cuDNN (channels last)": lambda: conv(x, w, stride=stride),
        "cuDNN (channels first)": lambda: conv(*first, stride=stride),
    }
    return o, want, rivals, 0, 2 * o.numel() * f[0].numel()


def row_convolution2(k):
    return row_convolution(k, 2)


def row_capsule(k, stride=1):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    _, p, q = o.shape[:3]

    def capsules(image, f):
        total = 0
        for y in range(f.shape[1]):
            for x in range(f.shape[2]):
                part = image[:, y : y + stride * (p - 1) + 1 : stride, x : x + stride * (q - 1) + 1 : stride]
                total = total + torch.einsum("npqcim,kcmj->npqkij", part, f[:, y, x])
        return total

    rivals = {"cuBLAS (einsum)": lambda: capsules(image, f)}
    flops = 2 * o.numel() * f.shape[1] * f.shape[2] * f.shape[3] * f.shape[4]
    return o, capsules(image.double(), f.double()).float(), rivals, 0, flops


def row_capsule2(k):
    return row_capsule(k, 2)


def on_jax(f, *inputs):
    """`f` of JAX's arrays, compiled by XLA, without TF32. Small inputs are many, so that a call is not only its launch."""
    try:
        import jax

        if jax.default_backend() != "gpu":
            return {}
        jax.config.update("jax_default_matmul_precision", "highest")
    except (ImportError, RuntimeError):
        return {}
    many = 20 if sum(x.numel() for x in inputs) < 1 << 21 else 1
    own = [[jax.dlpack.from_dlpack(x.clone()) for x in inputs] for _ in range(many)]
    compiled = jax.jit(lambda all: [f(*x) for x in all])

    def run(repeat):
        compiled(own)[0].block_until_ready()
        start = time.perf_counter()
        for _ in range(repeat):
            last = compiled(own)
        jax.block_until_ready(last)
        return (time.perf_counter() - start) / (repeat * many)

    run.timed_by_host = True
    return {"JAX": run}


def on_triton(a, b):
    """A product of matrices as in Triton's tutorial, without TF32, the best of some shapes of tiles."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return {}
    shapes = [(64, 64, 32, 4), (128, 64, 32, 4), (32, 64, 32, 4), (16, 64, 64, 4), (16, 32, 128, 2)]
    configs = [triton.Config({"BM": m, "BN": n, "BK": k}, num_warps=w, num_stages=3) for m, n, k, w in shapes]

    @triton.autotune(configs=configs, key=["M", "N", "K"])
    @triton.jit
    def product(A, B, C, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
        i = tl.program_id(0) * BM + tl.arange(0, BM)
        j = tl.program_id(1) * BN + tl.arange(0, BN)
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for first in range(0, K, BK):
            k = first + tl.arange(0, BK)
            x = tl.load(A + i[:, None] * K + k[None, :], mask=(i[:, None] < M) & (k[None, :] < K), other=0.0)
            y = tl.load(B + k[:, None] * N + j[None, :], mask=(k[:, None] < K) & (j[None, :] < N), other=0.0)
            sums = tl.dot(x, y, sums, input_precision="ieee")
        tl.store(C + i[:, None] * N + j[None, :], sums, mask=(i[:, None] < M) & (j[None, :] < N))

    (m, k), n = a.shape, b.shape[1]
    out = torch.empty((m, n), device="cuda")
    return {"Triton": lambda: product[lambda c: (triton.cdiv(m, c["BM"]), triton.cdiv(n, c["BN"]))](a, b, out, m, n, k)}


def row_matmul(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(a, b, out=out), **on_jax(lambda x, y: x @ y, a, b), **on_triton(a, b)}
    return c, (a.double() @ b.double()).float(), rivals, 0, 2 * a.numel() * b.shape[1]


def row_matmul_t(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(b, a, out=out), **on_jax(lambda x, y: y @ x, a, b)}
    return c, (b.double() @ a.double()).float(), rivals, 0, 2 * a.numel() * b.shape[0]


def row_tmm(k):
    a, b, c = (k.arrays[n] for n in "ABC")
    out = torch.empty_like(c)
    rivals = {"cuBLAS": lambda: torch.mm(a, b.t(), out=out), **on_jax(lambda x, y: x @ y.T, a, b)}
    return c, (a.double() @ b.double().t()).float(), rivals, 0, 2 * a.numel() * b.shape[0]


def row_tbmm(k):
    x, y, z = (k.arrays[n] for n in "XYZ")
    out = torch.empty_like(z)
    rivals = {"cuBLAS": lambda: torch.bmm(x, y.transpose(1, 2), out=out)}
    rivals.update(on_jax(lambda x, y: x @ y.transpose(0, 2, 1), x, y))
    return z, (x.double() @ y.double().transpose(1, 2)).float(), rivals, 0, 2 * z.numel() * x.shape[2]


def layers(i, *weights):
    """Layers of a perceptron; their weights and biases in turn."""
    for w, b in zip(weights[::2], weights[1::2]):
        i = torch.relu(torch.nn.functional.linear(i, w, b))
    return i


def row_mlp(k, names, out):
    inputs = [k.arrays[n] for n in names]
    compiled = torch.compile(layers)
    rivals = {"cuBLAS": lambda: layers(*inputs), "torch.compile": lambda: compiled(*inputs)}

    def of_jax(i, *weights):
        import jax

        for w, b in zip(weights[::2], weights[1::2]):
            i = jax.nn.relu(i @ w.T + b)
        return i

    flops = 2 * inputs[0].shape[0] * sum(w.numel() for w in inputs[1::2])
    want = layers(*(x.double() for x in inputs)).float()
    return k.arrays[out], want, {**rivals, **on_jax(of_jax, *inputs)}, 0, flops


def row_mlp1(k):
    return row_mlp(k, ["I", "W", "bias"], "O")


def row_mlp3(k):
    return row_mlp(k, ["I", "W2", "B2", "W3", "B3", "W4", "B4"], "O4")


def row_lookup(k):
    table, numbers, o = k.arrays["T"], k.arrays["I"], k.arrays["O"]
    numbers.copy_(torch.randint(0, table.shape[0], numbers.shape, device="cuda"))
    bag = lambda: torch.nn.functional.embedding_bag(numbers, table, mode="sum")
    compiled = torch.compile(lambda t, i: t[i].sum(1))
    rivals = {"torch embedding_bag": bag, "torch.compile": lambda: compiled(table, numbers)}
    rivals["torch, a gather and a sum"] = lambda: table[numbers].sum(1)
    return o, table[numbers].double().sum(1).float(), rivals, 4 * (numbers.numel() * table.shape[1] + o.numel()), 0


def row_mdh_dot(k):
    x, y = k.arrays["A"].abs_(), k.arrays["B"].abs_()
    want = (x.double() * y.double()).sum().float()
    compiled = torch.compile(lambda x, y: (x * y).sum())
    rivals = {"cuBLAS": lambda: torch.dot(x, y), "torch.compile": lambda: compiled(x, y), **on_jax(lambda x, y: x @ y, x, y)}
    return k.arrays["C"], want, rivals, 8 * x.numel(), 0


def row_mdh_matvec(k):
    a, x, y = k.arrays["M"], k.arrays["v"], k.arrays["w"]
    out = torch.empty_like(y)
    compiled = torch.compile(lambda a, x: (a * x).sum(1))
    rivals = {"cuBLAS": lambda: torch.mv(a, x, out=out), "torch.compile": lambda: compiled(a, x)}
    return y, (a.double() @ x.double()).float(), {**rivals, **on_jax(lambda a, x: a @ x, a, x)}, 4 * a.numel(), 0


def row_mdh_jacobi3d(k):
    a, b = k.arrays["I"], k.arrays["O"]

    def step(a):
        m = a[1:-1, 1:-1]
        sides = a[:-2, 1:-1, 1:-1] + a[2:, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1] + a[1:-1, 2:, 1:-1]
        return 0.16 * (sides + m[:, :, :-2] + m[:, :, 2:]) + 0.04 * m[:, :, 1:-1]

    compiled = torch.compile(step)
    return b, step(a.double()).float(), {"torch.compile": lambda: compiled(a), **on_jax(step, a)}, 4 * (a.numel() + b.numel()), 0


def row_conv2d(k):
    image, f, o = k.arrays["I"], k.arrays["F"], k.arrays["O"]
    conv = torch.nn.functional.conv2d
    rivals = {"cuDNN": lambda: conv(image[None, None], f[None, None])}

    def windows(a, f):
        return sum(f[r, s] * a[r : r + o.shape[0], s : s + o.shape[1]] for r in range(f.shape[0]) for s in range(f.shape[1]))

    compiled = torch.compile(windows)
    rivals["torch.compile"] = lambda: compiled(image, f)
    rivals.update(on_jax(windows, image, f))
    return o, windows(image.double(), f.double()).float(), rivals, 4 * (image.numel() + o.numel()), 2 * o.numel() * f.numel()


PRL = """
struct Record { long long id; int first, last, birth, sex, zip; };
struct Match { long long id; float weight; };
extern "C" __global__ void __launch_bounds__(128) hand(const Record *__restrict__ N, const Record *__restrict__ E, Match *M, int n, int m) {
  __shared__ Record tile[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  Record r = N[i];
  Match best = {-1, -__int_as_float(0x7f800000)};
  for (int j = 0; j < m; j += 128) {
    __syncthreads();
    tile[threadIdx.x] = E[j + threadIdx.x];
    __syncthreads();
    for (int t = 0; t < 128; t++) {
      const Record &e = tile[t];
      if (r.last == e.last || r.birth == e.birth) {
        float w = (r.first == e.first ? 6.5f : -2.0f) + (r.last == e.last ? 8.5f : -3.0f) + (r.birth == e.birth ? 11.0f : -4.0f)
          + (r.sex == e.sex ? 1.0f : -5.0f) + (r.zip == e.zip ? 5.0f : -1.0f);
        if (w > best.weight || w == best.weight && e.id < best.id) best = {e.id, w};
      }
    }
  }
  M[i] = best;
}"""


def row_prl(k):
    new, old, m = k.arrays["N"], k.arrays["E"], k.arrays["M"]
    for records in (new, old):
        # Identities (two words), then the fields.
        records[:, 0] = torch.arange(len(records), device="cuda")
        for field, values in zip(range(2, 7), (1000, 5000, 20000, 2, 8000)):
            records[:, field] = torch.randint(0, values, (len(records),), device="cuda")

    def weights(a, b):
        same = [a[:, None, f] == b[None, :, f] for f in range(2, 7)]
        parts = zip(same, (6.5, 8.5, 11.0, 1.0, 5.0), (-2.0, -3.0, -4.0, -5.0, -1.0))
        w = sum(torch.where(s, yes, no) for s, yes, no in parts)
        return torch.where(same[1] | same[2], w, -float("inf"))

    best = torch.compile(lambda a, b: weights(a, b).max(1))
    some = new[:512]
    w = torch.cat([weights(some, part) for part in old.split(1 << 15)], 1)
    top = w.max(1).values
    first = torch.where(w == top[:, None], old[None, :, 0], 1 << 30).min(1).values
    first = torch.where(top == -float("inf"), -1, first).to(torch.int32)
    want = torch.stack([first, torch.where(first < 0, -1, 0).to(torch.int32), top.view(torch.int32)], 1)
    rivals = {} if len(new) > 1 << 16 else {"torch.compile": lambda: best(new, old)}
    try:
        import cupy

        kernel, out = cupy.RawKernel(PRL, "hand"), torch.empty_like(m)
        arguments = tuple(cupy.from_dlpack(x) for x in (new, old, out)) + (cupy.int32(len(new)), cupy.int32(len(old)))

        def run():
            with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
                kernel((len(new) // 128,), (128,), arguments)

        rivals["CUDA C"] = run
    except ImportError:
        pass
    return m[:512, :3], want, rivals, 0, 0


def row_ccsdt_gdac_efgb(k):
    return row_contraction(k, "gdac,efgb->abcdef")


def row_ccsdt_gdbc_efga(k):
    return row_contraction(k, "gdbc,efga->abcdef")


def row_ccsdt_geab_dfgc(k):
    return row_contraction(k, "geab,dfgc->abcdef")


def row_ccsdt_geac_dfgb(k):
    return row_contraction(k, "geac,dfgb->abcdef")


def row_ccsdt_gebc_dfga(k):
    return row_contraction(k, "gebc,dfga->abcdef")


def row_ccsdt_gfab_degc(k):
    return row_contraction(k, "gfab,degc->abcdef")
