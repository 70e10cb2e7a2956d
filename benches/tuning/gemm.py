"""Tuning a matrix product of 1024 x 1024 x 1024 in single precision: how long until the hand strategy's speed is
reached, beside TVM's MetaSchedule, and how much ten winners differ.

    gemm.py LATHE [PHASE ...] [--threads 1] [--budget 12] [--seeds 10] [--work FOLDER] [--tvm PYTHON] [--cap 180]

Phases, all by default; each keeps its results in the work folder, so that they may be run one by one:

    tune     tunes `packed`, once per seed, from the worst corner of its ranges instead of the author's values
    compare  measures the author's values and the winner of seed 0 side by side: the hand strategy's speed, and that
             a winner's own time, taken while tuning, is true
    winners  measures all winners side by side, and one winner under as many names: their spreads
    tvm      MetaSchedule on the same product, until it reaches 0.95 of the hand strategy or the cap
    table    prints what is there

`tune` runs the search to the end of its budget; the table also says when its best first reached 0.95 of the hand
strategy's speed, and when the whole command was over, with the final and the check of the winner.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "examples/gemm.lathe"
N = 1024
FLOPS = 2 * N**3
GOAL = 0.95
SIZES = ["-D", f"M={N}", "-D", f"N={N}", "-D", f"K={N}"]
PHASES = ["tune", "compare", "winners", "tvm", "table"]


def packed(values):
    """Names of strategies for given values of the parameters, appended to the example."""
    text = SOURCE.read_text()
    for name, (nc, mc) in values.items():
        text += f"\nstrategy {name} for gemm = packed({nc}, {mc})\n"
    return text


def lathe(args, *line):
    done = subprocess.run([args.lathe, *map(str, line), "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def load(args, name):
    path = args.work / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(args, name, value):
    (args.work / f"{name}.json").write_text(json.dumps(value, indent=1))


def own_values():
    found = re.search(r"strategy packed\(nc = (\d+) in .*?, mc = (\d+) in .*?\) for gemm =", SOURCE.read_text())
    return int(found[1]), int(found[2])


def tune(args):
    text = re.sub(
        r"(strategy packed\()nc = \d+( in .*?), mc = \d+( in .*?\) for gemm =)",
        r"\1nc = 256\2, mc = 256\3",
        SOURCE.read_text(),
    )
    file = args.work / "corner.lathe"
    file.write_text(text)
    for seed in range(args.seeds):
        if load(args, f"tune-{seed}"):
            continue
        store = args.work / f"store-{seed}.sqlite"
        start = time.perf_counter()
        found = lathe(
            args, "tune", f"{file}:gemm", "--strategy", "packed", *SIZES, "--threads", args.threads,
            "--budget", f"{args.budget}s", "--seed", seed, "--fresh", "--store", store,
        )
        found["wall_s"] = time.perf_counter() - start
        save(args, f"tune-{seed}", found)
        print(f"seed {seed}: {found['params']}, {found['evaluations']} tried in {found['wall_s']:.1f} s", flush=True)


def measured(args, values):
    """Medians of strategies, measured in interleaved rounds of several processes. Within one process a strategy's
    arrays keep their place in memory, and whether the system gave them huge pages decides over some percent."""
    file = args.work / "named.lathe"
    file.write_text(packed(values))
    names, medians = list(values), {}
    for process in range(args.processes):
        random.Random(process).shuffle(names)
        rows = lathe(
            args, "bench", f"{file}:gemm", "--strategy", ",".join(names), *SIZES, "--threads", args.threads,
            "--runs", args.runs,
        )
        for r in rows:
            medians.setdefault(r["strategy"], []).append(r["median_s"])
    return {n: statistics.median(medians[n]) for n in values}


def winner(args, seed):
    p = load(args, f"tune-{seed}")["params"]
    return p["nc"], p["mc"]


def compare(args):
    save(args, "compare", measured(args, {"hand": own_values(), "tuned": winner(args, 0)}))


def winners(args):
    seeds = [s for s in range(args.seeds) if load(args, f"tune-{s}")]
    values = {f"winner{s}": winner(args, s) for s in seeds}
    values.update({f"same{s}": winner(args, seeds[0]) for s in seeds})
    save(args, "winners", measured(args, values))


TVM = """
import json, sys, time
import tvm
from tvm import te
from tvm.s_tir import meta_schedule as ms
from tvm.ir.utils import derived_object
n, threads, work = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
A = te.placeholder((n, n), "float32", name="A")
B = te.placeholder((n, n), "float32", name="B")
k = te.reduce_axis((0, n), name="k")
C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
func = te.create_prim_func([A, B, C])
target = tvm.target.Target({"kind": "llvm", "mcpu": tvm.target.codegen.llvm_get_system_cpu(), "num-cores": threads})
start, best, steps = time.perf_counter(), [float("inf")], []

@derived_object
class Watch(ms.measure_callback.PyMeasureCallback):
    def apply(self, scheduler, task, candidates, builds, runs):
        for r in runs:
            if r.run_secs:
                best[0] = min(best[0], min(float(s) for s in r.run_secs))
        steps.append((time.perf_counter() - start, best[0]))
        print(json.dumps(steps[-1]), flush=True)

ms.tune_tir(func, target, work, max_trials_global=100000, num_trials_per_iter=8, cost_model="random",
            measure_callbacks=[ms.measure_callback.AddToDatabase(), Watch()])
"""


def tvm(args):
    hand = load(args, "compare")["hand"]
    work = args.work / "tvm"
    work.mkdir(exist_ok=True)
    env = dict(os.environ, TVM_NUM_THREADS=str(args.threads))
    line = [args.tvm, "-c", TVM, str(N), str(args.threads), str(work)]
    steps, start = [], time.perf_counter()
    with open(args.work / "tvm.log", "w") as log:
        p = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True, env=env, start_new_session=True)
        lines = (line for line in p.stdout if line.startswith("["))
        reader = threading.Thread(target=lambda: steps.extend(map(json.loads, lines)))
        reader.start()
        while p.poll() is None and time.perf_counter() - start < args.cap:
            time.sleep(0.2)
            if steps and steps[-1][1] <= hand / GOAL:
                break
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        reader.join()
    save(args, "tvm", {"steps": steps, "cap": args.cap, "status": p.returncode})


def reached(steps, limit):
    return next((at for at, seconds in steps if seconds <= limit), None)


def table(args):
    both = load(args, "compare")
    rate = lambda s: f"{FLOPS / s / 1e9:.0f} GF/s"
    print(f"gemm {N}^3, f32, {args.threads} thread(s), goal {GOAL} of the hand strategy")
    if both:
        print(f"hand strategy {rate(both['hand'])}, winner of seed 0 {rate(both['tuned'])} beside it")
    runs = [load(args, f"tune-{s}") for s in range(args.seeds)]
    runs = [r for r in runs if r]
    print(f"{'':16} {'0.95 reached':>14} {'command over':>14} {'configurations':>15} {'best':>10}")
    for i, r in enumerate(runs):
        steps = [(s["at_s"], s["cost"]) for s in r["improvements"]]
        at = reached(steps, both["hand"] / GOAL) if both else None
        at = f"{at:.1f} s" if at is not None else "-"
        print(f"lathe, seed {i:<4} {at:>14} {r['wall_s']:>12.1f} s {r['evaluations']:>15} {rate(r['median_s']):>10}")
    t = load(args, "tvm")
    if t and both and t["steps"]:
        at = reached(t["steps"], both["hand"] / GOAL)
        at = f"{at:.1f} s" if at is not None else f"> {t['cap']:.0f} s"
        best = min(s for _, s in t["steps"])
        print(f"{'MetaSchedule':16} {at:>14} {t['steps'][-1][0]:>12.1f} s {8 * len(t['steps']):>15} {rate(best):>10}")
    w = load(args, "winners")
    if w:
        spread = lambda kind: [s for n, s in w.items() if n.startswith(kind)]
        for kind in ("winner", "same"):
            s = spread(kind)
            what = "winners of different seeds" if kind == "winner" else "one winner under as many names"
            print(f"{len(s)} {what}: median {rate(statistics.median(s))}, spread {100 * (max(s) / min(s) - 1):.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lathe")
    parser.add_argument("phases", nargs="*", default=PHASES)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--budget", type=float, default=12)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--runs", type=int, default=15, help="rounds of a process")
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--cap", type=float, default=180)
    parser.add_argument("--work", type=Path, default=Path("gemm-tuning"))
    parser.add_argument("--tvm", default=str(ROOT / "benches/.env/python/bin/python"))
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    for phase in args.phases:
        if phase not in PHASES:
            parser.error(f"no phase `{phase}`: {', '.join(PHASES)}")
        globals()[phase](args)


if __name__ == "__main__":
    main()
