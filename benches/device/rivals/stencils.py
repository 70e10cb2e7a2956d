"""Stencils of Lift's table beside `torch.compile` and CUDA C by hand."""

import torch


def by_hand(k, dims, halo, element):
    """A stencil in CUDA C as one writes it first: a thread has an element. `a(i, j)`: the neighbour, `at`: the own place."""
    import cupy

    names = "lmn"[3 - dims :]
    sizes = "".join(f", int {n}" for n in names)
    wide = lambda n: f"({n} + {2 * halo})"
    if dims == 2:
        start = "int j = blockIdx.x * 32 + threadIdx.x, i = blockIdx.y * 8 + threadIdx.y; if (i >= m || j >= n) return;"
        macro = f"#define a(y, x) A[(size_t)(i + {halo} + y) * {wide('n')} + (j + {halo} + x)]"
        at = "(size_t)i * n + j"
    else:
        start = "int k = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y, i = blockIdx.z; if (j >= m || k >= n) return;"
        macro = f"#define a(z, y, x) A[((size_t)(i + {halo} + z) * {wide('m')} + (j + {halo} + y)) * {wide('n')} + (k + {halo} + x)]"
        at = "((size_t)i * m + j) * n + k"
    source = f"""{macro}
extern "C" __global__ void hand(const float *__restrict__ A, const float *__restrict__ P, float *__restrict__ B{sizes}) {{
  {start} size_t at = {at}; B[at] = {element};
}}"""
    kernel = cupy.RawKernel(source, "hand")
    a = k.arrays["A"] if "A" in k.arrays else k.arrays["T"]
    power, b = k.arrays.get("P", a), torch.empty_like(k.arrays["B"])
    grid = (-(-b.shape[-1] // 32), -(-b.shape[-2] // 8), *b.shape[:-2])
    arguments = tuple(cupy.from_dlpack(x) for x in (a, power, b)) + tuple(cupy.int32(n) for n in b.shape)

    def run():
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel(grid, (32, 8), arguments)

    return run


def stencil(k, dims, halo, value, element):
    """`value(a)` of neighbours in PyTorch, `element` the same in CUDA C."""
    a = k.arrays["A"] if "A" in k.arrays else k.arrays["T"]
    b = k.arrays["B"]

    def step(a):
        def at(*offsets):
            return a[tuple(slice(halo + o, n - halo + o) for o, n in zip(offsets, a.shape))]

        return value(at)

    compiled = torch.compile(step)
    rivals = {"torch.compile": lambda: compiled(a)}
    try:
        rivals["CUDA C"] = by_hand(k, dims, halo, element)
    except ImportError:
        pass
    moved = 4 * (a.numel() + b.numel() + (k.arrays["P"].numel() if "P" in k.arrays else 0))
    return b, step(a.double() if "P" not in k.arrays else a).float(), rivals, moved, 0


def linear(k, dims, halo, weights):
    """Neighbours by their offsets, each with a weight."""
    element = " + ".join(f"{w!r}f * a({', '.join(map(str, o))})" for o, w in weights.items())
    return stencil(k, dims, halo, lambda at: sum(w * at(*o) for o, w in weights.items()), element)


def faces(dims, distance=1):
    return [tuple(s * distance if d == e else 0 for e in range(dims)) for d in range(dims) for s in (-1, 1)]


def row_stencil2d(k):
    centre, side, corner = (k.scalars[n] for n in ("centre", "side", "corner"))
    corners = [(y, x) for y in (-1, 1) for x in (-1, 1)]
    weights = {(0, 0): centre, **dict.fromkeys(faces(2), side), **dict.fromkeys(corners, corner)}
    return linear(k, 2, 1, weights)


def row_gaussian(k):
    line = [[2, 4, 5, 4, 2], [4, 9, 12, 9, 4], [5, 12, 15, 12, 5]]
    weights = {(y, x): line[2 - abs(y)][x + 2] / 159 for y in range(-2, 3) for x in range(-2, 3)}
    return linear(k, 2, 2, weights)


def row_gradient(k):
    def value(at):
        c = at(0, 0)
        return 1 / torch.sqrt(0.0001 + sum((c - at(*o)) ** 2 for o in faces(2)))

    squares = " + ".join(f"(a(0, 0) - a({y}, {x})) * (a(0, 0) - a({y}, {x}))" for y, x in faces(2))
    return stencil(k, 2, 1, value, f"1.0f / sqrtf(0.0001f + {squares})")


def row_jacobi2d9(k):
    return linear(k, 2, 1, {(y, x): 1 / 9 for y in (-1, 0, 1) for x in (-1, 0, 1)})


def row_hotspot3d(k):
    cc, cn, ce, ct, power, ambient = (k.scalars[n] for n in ("cc", "cn", "ce", "ct", "power", "ambient"))
    p = k.arrays["P"]

    def value(at):
        ns, ew, tb = at(0, -1, 0) + at(0, 1, 0), at(0, 0, -1) + at(0, 0, 1), at(-1, 0, 0) + at(1, 0, 0)
        return cc * at(0, 0, 0) + cn * ns + ce * ew + ct * tb + power * p + ct * ambient

    element = f"""{cc}f * a(0, 0, 0) + {cn}f * (a(0, -1, 0) + a(0, 1, 0)) + {ce}f * (a(0, 0, -1) + a(0, 0, 1))
      + {ct}f * (a(-1, 0, 0) + a(1, 0, 0)) + {power}f * P[at] + {ct * ambient}f"""
    return stencil(k, 3, 1, value, element)


def row_jacobi3d13(k):
    weights = dict.fromkeys(faces(3) + faces(3, 2), 0.083)
    return linear(k, 3, 2, {**weights, (0, 0, 0): -0.996})


def row_poisson(k):
    near = [(z, y, x) for z in (-1, 0, 1) for y in (-1, 0, 1) for x in (-1, 0, 1)]
    weight = {0: 2.666, 1: -0.166, 2: -0.0833}
    weights = {o: weight[n] for o in near if (n := sum(map(abs, o))) < 3}
    return linear(k, 3, 1, weights)


def row_heat(k):
    return linear(k, 3, 1, {**dict.fromkeys(faces(3), 0.125), (0, 0, 0): 0.25})
