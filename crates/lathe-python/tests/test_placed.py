"""Arrays of JAX on devices, and contractions and tuning there: the programs of placed_programs.py where there is a CUDA device. On
any machine the steps of such contractions run on arrays of numpy, and tuning on a device of OpenCL."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lathe
import placed_programs
from lathe._placed import Numpy, contract
from refusals import refused

PROGRAMS = Path(placed_programs.__file__)
NAMES = [line.split("(")[0].removeprefix("def ") for line in PROGRAMS.read_text().splitlines()
         if line.startswith("def ") and not line.startswith(("def of_", "def numbers(", "def _"))]


@pytest.mark.parametrize("name", NAMES)
def test_program(name):
    if not lathe.devices("cuda"):
        pytest.skip("no CUDA device")
    env = {k: v for k, v in os.environ.items() if k != "JAX_PLATFORMS"}
    done = subprocess.run([sys.executable, PROGRAMS, name], capture_output=True, text=True, timeout=600, env=env)
    said = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[")))[1]
    if said.startswith("skipped: "):
        pytest.skip(said.removeprefix("skipped: "))
    assert said == "ok", said


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex64, np.bool_])
@pytest.mark.parametrize("text", [*placed_programs.CONTRACTIONS, "ab,bc,cd,de->ae", "aab,b->a", "ij,jk->ki"])
def test_steps_on_arrays_of_numpy(text, dtype):
    given = [(3 * (a + 0.5j * a)).astype(dtype) if dtype == np.complex64 else (3 * a).astype(dtype)
             for a in placed_programs._operands(text, np.float64)]
    for optimize in (True, False, "greedy"):
        made, want = contract(text, given, optimize, Numpy()), np.einsum(text, *given)
        assert made.dtype == want.dtype and made.shape == want.shape and np.allclose(made, want, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("shapes", [((1, 5), (5, 3)), ((4, 1), (5, 3)), ((0, 5), (5, 3)), ((2, 0), (0, 3)), ((1, 1), (1, 1))])
def test_steps_on_stretched_and_empty_operands(shapes):
    a, b = (np.arange(float(np.prod(s))).reshape(s) for s in shapes)
    made, want = contract("ij,jk->ik", [a, b], True, Numpy()), np.einsum("ij,jk->ik", a, b)
    assert made.shape == want.shape and np.allclose(made, want)
    if shapes[1][0] == 5:
        c = np.arange(15.0).reshape(3, 5)
        assert np.allclose(contract("ij,ij->ij", [a[:1], c], True, Numpy()) if a.shape == (1, 5) else c,
                           np.einsum("ij,ij->ij", a[:1], c) if a.shape == (1, 5) else c)


SCALE = """kernel scale(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }
strategy device(t = 64 in 16..=64 step 16) for scale = split(i, t) ; bind(i.o, grid) ; bind(i.i, block)"""


def test_tuning_on_a_device_is_stored_for_it(tmp_path):
    # In a process of its own: drivers of OpenCL start threads, which a fork does not survive.
    program = f'''
import sys, lathe
if not lathe.devices("opencl"): sys.exit(9)
k = lathe.kernel("""{SCALE}""")
best = k.tune(sizes={{"N": 4096}}, until="4 evaluations", budget="60s", device="opencl", store={str(tmp_path / "s.sqlite")!r})
assert best.params["t"] in (16, 32, 48, 64) and 0 < best.cost < 1 and best.checked and best.strategy == "device", best
# Nothing is measured but the best ones beside each other, any of which may win.
again = k.tune(sizes={{"N": 4096}}, until="4 evaluations", budget="60s", device="opencl:0", store={str(tmp_path / "s.sqlite")!r})
assert again.known == 4 and again.params["t"] in (16, 32, 48, 64), again
host = lathe.kernel("""{SCALE.replace("device(", "other(").replace("bind(i.o, grid) ; bind(i.i, block)", "id")}""")
mine = host.tune(sizes={{"N": 4096}}, strategy="other", until="3 evaluations", budget="60s", store={str(tmp_path / "s.sqlite")!r})
assert mine.known == 0, mine
import numpy as np
from lathe.device import Buffer, Devices
import os
os.environ["LATHE_STORE"] = {str(tmp_path / "s.sqlite")!r}
d = Devices.of_kind("opencl")
x, y = Buffer(d, np.ones(4096, np.float32)), Buffer.empty(d, 4096, np.float32)
d[0].launch(lathe.kernel(k.source()), x, y)
assert (y.numpy() == 2).all()
'''
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600)
    if done.returncode == 9:
        pytest.skip("no device of OpenCL")
    assert done.returncode == 0, done.stderr


def test_places_that_do_not_fit_are_refused():
    k = lathe.kernel(SCALE)
    with refused(lathe.MachineError, "E0823", "abacus:0"):
        k.tune(sizes={"N": 4}, device="abacus")

    class Array:
        ndim, shape, __cuda_array_interface__ = 1, (4,), {}

        def __dlpack_device__(self):
            return (2, 3)

    add = placed_programs.add
    with refused(lathe.DeviceError, "E0916", "cuda:3", "cpu"):
        add.tune(Array(), np.zeros(4, np.float32))
    with refused(lathe.DeviceError, "E0916", "cuda:3", "cuda:0"):
        add.tune(Array(), Array(), device="cuda")
