"""What `rows.py` asks for rows, one after the other: names on standard input, a line of JSON for each on standard output.

Kernels are loaded by the driver and run on PyTorch's arrays; rounds of Lathe and of each rival alternate, timed by events
of the device. A row whose result is wrong has no time. The first line says what the device is.
"""

import argparse
import ctypes
import json
import os
import statistics
import struct
import sys
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import driver

cuda = driver.opened()
try:
    import torch
except ImportError:
    raise SystemExit("no PyTorch, whose arrays and kernels the rows are measured with; sanitize.py needs none") from None
if not torch.cuda.is_available():
    raise SystemExit(f"PyTorch {torch.__version__} finds no CUDA device: it needs to be one built for CUDA")

from rivals import of

FORMATS = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "index": "q", "u32": "I", "u64": "Q"}
# Structs are rows of words.
WORDS = {"Record": 8, "Match": 4}
TYPES = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64}


def ok(result, what):
    if result != 0:
        raise RuntimeError(f"{what} failed ({result})")


class Kernels:
    """The kernels of one function on fixed arrays."""

    def __init__(self, name, folder):
        self.plan = json.loads((folder / f"{name}.json").read_text())
        module = ctypes.c_void_p()
        ok(cuda.cuModuleLoadData(ctypes.byref(module), (folder / f"{name}.cubin").read_bytes()), "loading the cubin")
        self.functions = {}
        for launch in self.plan["launches"]:
            function = ctypes.c_void_p()
            symbol = launch["kernel"].encode()
            ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, symbol), "finding the kernel")
            if launch["dynamic_shared"]:
                ok(cuda.cuFuncSetAttribute(function, 8, launch["dynamic_shared"]), "asking for shared memory")
            self.functions[launch["kernel"]] = function
        self.status = torch.zeros(4, dtype=torch.int32, device="cuda")
        self.arrays, self.scalars = {}, {}
        for a in self.plan["arrays"]:
            if a["mode"] == "scalar":
                self.scalars[a["name"]] = 0.5
            elif a["type"] in WORDS:
                self.arrays[a["name"]] = torch.zeros([*a["shape"], WORDS[a["type"]]], dtype=torch.int32, device="cuda")
            elif a["mode"] == "in" and TYPES[a["type"]] in (torch.int32, torch.int64):
                self.arrays[a["name"]] = torch.randint(0, 256, a["shape"], dtype=TYPES[a["type"]], device="cuda")
            elif a["mode"] == "in":
                self.arrays[a["name"]] = torch.randn(a["shape"], dtype=TYPES[a["type"]], device="cuda")
            else:
                self.arrays[a["name"]] = torch.zeros(a["shape"], dtype=TYPES[a["type"]], device="cuda")
        self.buffers = {b["name"]: torch.empty(max(b["bytes"], 16), dtype=torch.uint8, device="cuda") for b in self.plan["buffers"]}
        self.prepared = [self.prepare(launch) for launch in self.plan["launches"]]

    def prepare(self, launch):
        cells = []
        for a in launch["arguments"]:
            if "array" in a:
                tensor = self.arrays.get(a["array"], self.buffers.get(a["array"]))
                data = struct.pack("Q", tensor.data_ptr())
            elif "bytes" in a:
                data = bytes.fromhex(a["bytes"])
            else:
                data = struct.pack(FORMATS[a["type"]], self.scalars[a["scalar"]])
            cells.append(ctypes.create_string_buffer(data.ljust(8, b"\0"), 8))
        # Words by which blocks wait for one another: 0 before every launch.
        turns = torch.zeros(launch.get("turns", 0) // 8, dtype=torch.int64, device="cuda")
        if turns.numel():
            cells.append(ctypes.create_string_buffer(struct.pack("Q", turns.data_ptr()), 8))
        if launch["status"]:
            cells.append(ctypes.create_string_buffer(struct.pack("Q", self.status.data_ptr()), 8))
        pointers = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(c) for c in cells])
        return self.functions[launch["kernel"]], launch, pointers, (cells, turns)

    def __call__(self):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for function, l, pointers, (_, turns) in self.prepared:
            if turns.numel():
                turns.zero_()
            if l.get("after") == 1:
                self.status[1:2].copy_(self.status[:1])
            started = cuda.cuLaunchKernel(
                function, l["blocks"], 1, 1, l["threads"], 1, 1, l["dynamic_shared"], stream, pointers, None
            )
            ok(started, f"starting {l['kernel']}")


def wrong_by(got, want, each):
    if not want.dtype.is_floating_point:
        return 0.0 if torch.equal(got.to(want.dtype), want) else 1.0
    # Beside the largest one, or, if every element has a large value of its own, each beside itself.
    scale = (want.abs() if each else want.abs().max()).clamp(min=1e-30)
    return ((got - want).abs() / scale).max().item()


# Whether this process measures no further rows.
spoiled = False


def captured(f, repeat):
    """So many calls as one launch: without it, short kernels wait for Python. None where `f` cannot be captured."""
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(repeat):
                f()
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay
    except Exception:
        # What PyTorch knows of random numbers and memory is that of a capture from now on.
        global spoiled
        spoiled = True
        torch.cuda.synchronize()
        return None


def seconds(f, repeat):
    if getattr(f, "timed_by_host", False):
        return f(repeat)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(repeat):
        f()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / repeat


def measure(name, row, folder, rounds, alone, times):
    k = Kernels(name, folder)
    got, want, rivals, moved, flops = of(row)(k)
    k()
    torch.cuda.synchronize()
    error = wrong_by(got.reshape(want.shape), want, row == "scan")
    row = {"name": name, "error": error, "status": int(k.status[0])}
    if not error < 1e-4 or row["status"]:
        return {**row, "wrong": True}
    # Blocks that wait for one another, and updates by atomics, are repeated.
    first, other = got.clone(), 0
    for n in range(times):
        k()
        other += not torch.equal(got, first)
        if n % 50 == 0 and not wrong_by(got.reshape(want.shape), want, row["name"].startswith("scan")) < 1e-4:
            return {**row, "wrong": f"repetition {n}"}
    row.update(repetitions=times, other_bits=other)
    del want, first
    who = {"lathe": k}
    for n, f in {} if alone else rivals.items():
        try:
            f(1) if getattr(f, "timed_by_host", False) else f()
            who[n] = f
        except Exception as e:
            row.setdefault("left_out", {})[n] = f"{type(e).__name__}: {e}"[:200]
    once = {n: seconds(f, 2) for n, f in who.items()}
    calls = {n: (f, 1) for n, f in who.items()}
    for n, f in who.items():
        if once[n] < 1e-3 and not getattr(f, "timed_by_host", False):
            graph = captured(f, 20)
            if graph:
                calls[n] = (graph, 20)
    row["captured"] = [n for n, c in calls.items() if c[1] > 1]
    taken = {n: [] for n in who}
    for _ in range(rounds):
        for n, (f, each) in calls.items():
            repeat = max(1, min(50, int(0.01 / max(once[n] * each, 1e-6))))
            taken[n].append(seconds(f, repeat) / each)
    row["median_s"] = {n: statistics.median(t) for n, t in taken.items()}
    row["spread_s"] = {n: [min(t), max(t)] for n, t in taken.items()}
    if len(who) > 1:
        best = min(t for n, t in row["median_s"].items() if n != "lathe")
        row["against_best"] = best / row["median_s"]["lathe"]
    if moved:
        row["gbytes_per_s"] = {n: moved / t / 1e9 for n, t in row["median_s"].items()}
    if flops:
        row["tflops"] = {n: flops / t / 1e12 for n, t in row["median_s"].items()}
    return row


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bundle", required=True)
    p.add_argument("--rounds", type=int, required=True)
    p.add_argument("--alone", action="store_true")
    p.add_argument("--repeat", type=int, default=0)
    a = p.parse_args()
    # Only answers go to standard output, whatever rivals and their compilers print.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    say = lambda of: print(json.dumps(of), file=answers, flush=True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    folder = Path(a.bundle)
    known = json.loads((folder / "rows.json").read_text())
    say({"device": torch.cuda.get_device_name(), "torch": torch.__version__})
    for name in map(str.strip, sys.stdin):
        try:
            row = measure(name, known[name].get("row", name), folder, a.rounds, a.alone, a.repeat)
        except Exception as e:
            row = {"name": name, "failed": f"{type(e).__name__}: {e}"}
        say({**row, "last": True} if spoiled else row)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
