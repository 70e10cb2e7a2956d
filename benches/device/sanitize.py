"""Runs each kernel of a bundle once, with nothing but the driver: for `compute-sanitizer`, which watches what it does.

    compute-sanitizer --tool memcheck python3 sanitize.py --bundle small
    compute-sanitizer --tool racecheck python3 sanitize.py --bundle small

The bundle is made like that of `rows.py`, with small sizes (`small.json`).
"""

import argparse
import ctypes
import json
import random
import struct
from pathlib import Path

import driver

cuda = driver.opened()
BYTES = {"f32": 4, "f64": 8, "i32": 4, "i64": 8, "Record": 32, "Match": 16}
FORMATS = {"f32": "f", "f64": "d", "i32": "i", "i64": "q", "index": "q", "u32": "I", "u64": "Q"}


def ok(result, what):
    if result != 0:
        raise RuntimeError(f"{what} failed ({result})")


def memory(data):
    at = ctypes.c_uint64()
    ok(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(len(data))), "allocating")
    ok(cuda.cuMemcpyHtoD_v2(at, data, ctypes.c_size_t(len(data))), "copying")
    return at.value


def filled(a):
    """Small integers, which subscripts may be, or numbers between 0 and 1."""
    count = 1
    for n in a["shape"]:
        count *= n
    size = count * BYTES[a["type"]]
    if a["mode"] != "in":
        return bytes(size)
    some = 4096
    pieces = {
        "f32": lambda: struct.pack(f"{some}f", *(random.random() for _ in range(some))),
        "f64": lambda: struct.pack(f"{some}d", *(random.random() for _ in range(some))),
        "i64": lambda: struct.pack(f"{some}q", *(random.randrange(64) for _ in range(some))),
    }
    piece = pieces.get(a["type"], lambda: struct.pack(f"{some}i", *(random.randrange(64) for _ in range(some))))()
    return (piece * (size // len(piece) + 1))[:size]


def run(name, folder):
    plan = json.loads((folder / f"{name}.json").read_text())
    module = ctypes.c_void_p()
    ok(cuda.cuModuleLoadData(ctypes.byref(module), (folder / f"{name}.cubin").read_bytes()), "loading")
    arrays = {a["name"]: memory(filled(a)) for a in plan["arrays"] if a["mode"] != "scalar"}
    arrays.update({b["name"]: memory(bytes(max(b["bytes"], 16))) for b in plan["buffers"]})
    status = memory(bytes(16))
    for l in plan["launches"]:
        function = ctypes.c_void_p()
        ok(cuda.cuModuleGetFunction(ctypes.byref(function), module, l["kernel"].encode()), "finding")
        if l["dynamic_shared"]:
            ok(cuda.cuFuncSetAttribute(function, 8, l["dynamic_shared"]), "asking for shared memory")
        values = []
        for a in l["arguments"]:
            if "array" in a:
                values.append(struct.pack("Q", arrays[a["array"]]))
            elif "bytes" in a:
                values.append(bytes.fromhex(a["bytes"]))
            else:
                values.append(struct.pack(FORMATS[a["type"]], 0.5))
        values += [struct.pack("Q", memory(bytes(l["turns"])))] if l.get("turns") else []
        values += [struct.pack("Q", status)] if l["status"] else []
        cells = [ctypes.create_string_buffer(v.ljust(8, b"\0"), 8) for v in values]
        pointers = (ctypes.c_void_p * len(cells))(*[ctypes.addressof(c) for c in cells])
        started = cuda.cuLaunchKernel(function, l["blocks"], 1, 1, l["threads"], 1, 1, l["dynamic_shared"], None, pointers, None)
        ok(started, f"starting {l['kernel']}")
    ok(cuda.cuCtxSynchronize(), f"running {name}")
    # In its place: freed memory is given to others.
    for at in [*arrays.values(), status]:
        cuda.cuMemFree_v2(ctypes.c_uint64(at))
    cuda.cuModuleUnload(module)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--bundle", required=True)
    p.add_argument("--rows", default="")
    a = p.parse_args()
    device, context = ctypes.c_int(), ctypes.c_void_p()
    ok(cuda.cuInit(0), "starting the driver")
    ok(cuda.cuDeviceGet(ctypes.byref(device), 0), "finding the device")
    ok(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "opening the device")
    ok(cuda.cuCtxSetCurrent(context), "using the device")
    random.seed(0)
    folder = Path(a.bundle)
    for name in [n for n in a.rows.split(",") if n] or json.loads((folder / "rows.json").read_text()):
        run(name, folder)
        print("ran", name, flush=True)


if __name__ == "__main__":
    main()
