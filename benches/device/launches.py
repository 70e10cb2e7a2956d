"""Launches from Python: microseconds of the host for each, beside PyTorch, CuPy and JAX, on a machine with a CUDA device.

    python benches/device/launches.py

Prints a line of JSON for each row: the median of seven rounds of 500 launches, until the last one was given to the driver
(`host_us`) and until all have ended (`whole_us`). The driver alone is the row `launch` of
`cargo run --release -p lathe-gpu --example device_rows`.
"""

import json
import statistics
import time

import numpy as np

import lathe
from lathe.device import Buffer, Devices, Kernel, Sequence, dim3, read_write

ROUNDS, LAUNCHES = 7, 500
SOURCE = 'extern "C" __global__ void add(float *y, float a) { y[threadIdx.x] += a; }'


def row(name, launch, finish, count=LAUNCHES):
    launch()
    finish()
    host, whole = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(count):
            launch()
        given = time.perf_counter()
        finish()
        host.append((given - start) / count * 1e6)
        whole.append((time.perf_counter() - start) / count * 1e6)
    print(json.dumps({"row": name, "host_us": round(statistics.median(host), 2), "whole_us": round(statistics.median(whole), 2)}))


def main():
    devices = Devices.of_kind("cuda")
    device, kernel = devices[0], Kernel.cuda(SOURCE)
    y, z = Buffer(devices, np.zeros(1024, np.float32)), Buffer.empty(devices, 1024, np.float32)
    tag, grid = read_write(y), dim3(1, 256)
    row("lathe.device, arguments made before", lambda: device.launch(kernel, grid, tag, 1.0), devices.finish)
    row("lathe.device, arguments made for the launch", lambda: device.launch(kernel, dim3(1, 256), read_write(y), 1.0), devices.finish)
    steps = Sequence(device)
    for _ in range(20):
        steps.add(kernel, grid, tag, 1.0)
    row("lathe.device, a Sequence of 20", steps.launch, devices.finish, 100)
    own = lathe.kernel("kernel inc(x: f32[N]) -> (z: f32[N]) { z[i] = x[i] + 1 }")
    row("lathe.device, a kernel of Lathe", lambda: device.launch(own, y, z), devices.finish)
    try:
        import torch

        x, out = torch.ones(1024, device="cuda"), torch.empty(1024, device="cuda")
        row("torch.add(x, 1, out=out)", lambda: torch.add(x, 1, out=out), torch.cuda.synchronize)
        row("a kernel of Lathe on tensors, out=", lambda: own(x, out=out), torch.cuda.synchronize)
    except ImportError:
        pass
    try:
        import cupy

        c, raw, a = cupy.zeros(1024, "f4"), cupy.RawKernel(SOURCE, "add"), np.float32(1)
        row("cupy.RawKernel", lambda: raw((1,), (256,), (c, a)), cupy.cuda.runtime.deviceSynchronize)
    except ImportError:
        pass
    try:
        import jax

        import lathe.jax

        x = jax.device_put(np.ones(1024, np.float32), jax.devices("cuda")[0])
        op, last = lathe.jax.op(own), [x]
        for name, f in (("jax.jit(x + 1)", jax.jit(lambda v: v + 1)), ("jax.jit of an operator of Lathe", jax.jit(lambda v: op(v)))):
            row(name, lambda f=f: last.__setitem__(0, f(x)), lambda: jax.block_until_ready(last[0]))
    except (ImportError, RuntimeError):
        pass


if __name__ == "__main__":
    main()
