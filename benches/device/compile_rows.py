"""How long kernels take from source to code on a CUDA device, in a process that has compiled before, beside NVRTC alone; and from disk.

    python3 compile_rows.py --rows sum,softmax --out compile_rows.json

Needs the driver, PyTorch, the Python package, and the folder that `make device-bundle` makes. Each row has a cache of its own.
One process compiles the kernel for three sizes (`compile_ms`); another one loads it from that cache, five times, each time from the
source on (`disk_ms`, the first one included), and loads such code by the driver alone (`driver_ms`); a third one gives NVRTC the
CUDA C that Lathe prints, three times under other names (`nvrtc_ms`): only first times count, NVRTC keeps what it made of a text. The ratio is that
of the medians.
"""

import argparse
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import driver

HERE = Path(__file__).parent
# The file, the kernel, its element type, the sizes: those of `rows.json`, and two others with other code; shapes of its arrays.
ROWS = {
    "sum": ("reductions.lathe", "sum", None, (2**28, 2**28 - 65536, 2**28 - 131072), lambda n: [[n]]),
    "softmax": ("softmax.lathe", "softmax", None, (8192, 9216, 7168), lambda n: [[8192, n]]),
    "gemm4096": ("gemm.lathe", "gemm", None, (4096, 4224, 3968), lambda n: [[4096, n], [n, 4096]]),
    "scan": ("scan.lathe", "scan", "f32", (2**28, 2**28 - 4096, 2**28 - 8192), lambda n: [[n]]),
    "layernorm": ("layernorm.lathe", "layernorm", None, (8192, 9216, 7168), lambda n: [[8192, n], [n], [n]]),
}


def examples():
    """Beside the benchmarks, in the repository and in the bundle."""
    return next(p for p in (HERE / "../../examples/devices", HERE / "examples/devices") if p.exists())


def timed(f):
    start = time.perf_counter()
    result = f()
    return result, round(1e3 * (time.perf_counter() - start), 3)


def kernel(name):
    import lathe

    file, of, element, _, _ = ROWS[name]
    k = lathe.load(str(examples() / file), of)
    return k.typed(T=getattr(lathe, element)) if element else k


def made(name, which=0):
    """The arrays of a row, of the first size or another one."""
    import torch

    sizes, shapes = ROWS[name][3:]
    return [torch.randn(s, device="cuda") for s in shapes(sizes[which])]


def warmed(name):
    """The arrays of a row, after another kernel was compiled and run: driver, compiler and libraries are there."""
    import lathe
    import torch

    other = lathe.kernel(f"kernel warm(A: f32[N]) -> (B: f32[N]) {{ B[i] = A[i] + {os.getpid() % 1000}.0 }}")
    other(torch.zeros(4096, device="cuda"))
    torch.cuda.synchronize()
    return made(name)


def compiling(name):
    warmed(name)
    times = []
    for n in range(3):
        arrays = made(name, n)
        times.append(timed(lambda: kernel(name).compile(*arrays))[1])
    return {"compile_ms": times, "compile_median_ms": statistics.median(times)}


def from_disk(name):
    arrays = warmed(name)
    times = []
    for _ in range(5):
        k = kernel(name)
        times.append(timed(lambda: k.compile(*arrays))[1])
        k(*arrays)
    out = {"disk_ms": times, "disk_median_ms": statistics.median(times)}
    code = (HERE / f"bundle/{name}.cubin").read_bytes()
    cuda = driver.opened()
    load = lambda: cuda.cuModuleLoadData(ctypes.byref(ctypes.c_void_p()), code)
    loads = [timed(load)[1] for _ in range(5)]
    return {**out, "driver_ms": loads, "driver_median_ms": statistics.median(loads)}


def nvrtc():
    """The library that Lathe finds, too."""
    import torch

    near = Path(torch.__file__).parent.parent
    places = [os.environ.get("LATHE_NVRTC", ""), *glob.glob(str(near / "nvidia/*/lib")), "/usr/local/cuda/lib64"]
    found = [f for p in places if p for f in sorted(glob.glob(p + "/libnvrtc.so*"))]
    for f in found:
        for b in glob.glob(str(Path(f).parent / "libnvrtc-builtins.so*")):
            ctypes.CDLL(b, mode=ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(f)
    raise RuntimeError("no NVRTC")


def alone(name):
    warmed(name)
    library, source = nvrtc(), (HERE / f"bundle/{name}.cu").read_bytes()
    options = [b"--gpu-architecture=sm_90a", b"-default-device", b"--fmad=false"]

    def once(text):
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
        if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)):
            raise RuntimeError("NVRTC fails")
        library.nvrtcGetCUBINSize(program, ctypes.byref(size))
        library.nvrtcGetCUBIN(program, ctypes.create_string_buffer(size.value))

    once(b"__global__ void warm(float *x) { x[threadIdx.x] += 1; }")
    times = [timed(lambda: once(source.replace(b"_kernel", f"_kernel{n}".encode())))[1] for n in range(3)]
    return {"nvrtc_ms": times, "nvrtc_median_ms": statistics.median(times)}


STEPS = {f.__name__: f for f in (compiling, from_disk, alone)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", default=",".join(ROWS))
    p.add_argument("--out", default="compile_rows.json")
    p.add_argument("--steps", default=",".join(STEPS))
    p.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.one:
        step, name = a.one
        print("ROW " + json.dumps(STEPS[step](name)))
        return
    driver.opened()
    done = []
    for name in a.rows.split(","):
        row = {"name": name}
        with tempfile.TemporaryDirectory() as cache:
            env = {**os.environ, "LATHE_CACHE": cache}
            for step in a.steps.split(","):
                # What compiles for NVRTC alone keeps nothing: the driver's cache would answer, too.
                command = [sys.executable, __file__, "--one", step, name]
                ran = subprocess.run(command, env=env, capture_output=True, text=True, timeout=480)
                said = [line[4:] for line in ran.stdout.splitlines() if line.startswith("ROW ")]
                row.update(json.loads(said[0]) if said else {f"{step}_failed": (ran.stderr or ran.stdout)[-600:]})
        if "nvrtc_ms" in row and "compile_ms" in row:
            row["against_nvrtc"] = row["compile_median_ms"] / row["nvrtc_median_ms"]
        done.append(row)
        print(json.dumps(row), flush=True)
        Path(a.out).write_text(json.dumps(done, indent=1) + "\n")


if __name__ == "__main__":
    main()
