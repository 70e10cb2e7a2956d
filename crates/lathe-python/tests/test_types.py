"""The package's types: what is installed passes mypy, and users' programs are understood."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import lathe

PROGRAM = """
import numpy as np
import lathe

gemm = lathe.kernel("kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }")
c = gemm(np.ones((2, 2)), np.ones((2, 2)), threads=2)
text: str = gemm.explain()
tuned: lathe.Tuned = gemm.tune(sizes={"M": 4}, budget="1s")
cost: float = tuned.cost
s: lathe.Strategy = lathe.strategy(lambda p: p.tile(i=lathe.pick(1, 2)), for_=gemm)
reveal_type(gemm.emit("asm"))
gemm.tune(budget=[1])
lathe.kernel(3)
"""


#: As users run the checkers, with nothing switched off.
STRICT = """
from typing import Annotated, Any

import numpy as np
import lathe
from lathe import device


@lathe.kernel
def blur(I: Annotated[Any, lathe.f32["H", "W"]], c: Annotated[Any, lathe.f32]) -> Annotated[Any, lathe.f32["H-2", "W"]]:
    return lambda y, x: (I[y, x] + I[y + 1, x] + I[y + 2, x]) * c


@lathe.kernel
def heat(u: Annotated[Any, lathe.inout(lathe.f32["T", "X"])], c: Annotated[Any, lathe.f32]) -> None:
    for t in range(u.shape[0] - 1):
        for x in range(1, u.shape[1] - 1):
            u[t + 1, x] = u[t, x] + c * (u[t, x - 1] - 2 * u[t, x] + u[t, x + 1])


@lambda f: lathe.strategy(f, for_=blur)
def wide(p: Any, tx: Any = lathe.pick([16, 32])) -> Any:
    return p.tile(x=tx, y=8) >> p.parallel("y.o")


def on_devices(data: Any, gemm: lathe.Kernel) -> float:
    devices = device.Devices.choose(lambda d: "f64" in d.features and d.memory_bytes > 1 << 30)
    x, y = device.PinnedBuffer(devices, data), device.Buffer.empty(devices, (4, 4), lathe.f32)
    k = device.Kernel.cuda("__global__ void f(float *y, const float *x) {}", flags=["-DN=4"])
    devices[0].launch(k, device.dim3((1, 2), 32), device.write(y[:2]), device.read(x)).wait()
    s = device.Sequence(devices[0])
    s.add(k, device.nd_range(64, 32, shared=16), device.write(y), device.read(x[...]))
    devices[0].call("f", lambda a: print(a.pointer, a.queue, a.shape), device.read_write(y))
    for d in devices:
        print(d.info.name, d.has(y), d.measure(gemm, x, x, y)["kernel_s"], devices.profile().text())
    return float(y.numpy()[0, 0]) + devices.counters()["copies"]


def use(gemm: lathe.Kernel) -> float:
    out = gemm(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32), threads=2)
    try:
        blur(np.ones((3, 3), np.float32), 0.5)
    except lathe.LatheError as e:
        print(e.code, e.message, e.notes, e.help, e.line)
    found = lathe.tune(lambda a: float(a), {"a": lathe.param(range(4))}, until="2 evaluations")
    tuned = gemm.tune(sizes={"M": 4}, budget="1s", store=False)
    c = lathe.einsum("ij,jk->ik", np.ones((2, 2)), np.ones((2, 2)))
    lathe.set_threads(1)
    return float(out[0, 0]) + found.cost + tuned.cost + float(c[0, 0]) + len(gemm.explain().data)


print(blur.name, wide.source(), heat.source(), use(lathe.load("gemm.lathe")))
"""


def test_strict_checkers_have_nothing_to_say(tmp_path):
    (tmp_path / "user.py").write_text(STRICT)
    out = mypy("--strict", str(tmp_path / "user.py"))
    assert "Success" in out, out


def mypy(*args):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", *args], capture_output=True, text=True)
    return done.stdout


def test_the_package_is_typed(tmp_path):
    folder = Path(lathe.__file__).parent
    assert (folder / "py.typed").exists()
    (tmp_path / "user.py").write_text(PROGRAM)
    out = mypy(str(tmp_path / "user.py"))
    errors = re.findall(r"user.py:(\d+): error", out)
    assert errors == ["12", "13"], out
    assert "str | bytes | " in out or "Union[str, bytes" in out
    whole = mypy("-p", "lathe", "--ignore-missing-imports")
    assert "Success" in whole, whole


def test_the_stubs_say_what_is_there():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "lathe._lathe", "--ignore-missing-stub"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
