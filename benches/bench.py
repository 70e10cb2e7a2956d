#!/usr/bin/env python3
"""Lathe beside its rivals, in interleaved rounds of one pinned process per row and thread count.

    benches/.env/python/bin/python benches/bench.py            every row
    benches/.env/python/bin/python benches/bench.py gemm dot   rows whose name contains one of the words
    ... --threads 1 --rounds 15 --json out.json
    ... --avx2                                 Lathe and its rivals held to AVX2
    ... --together 7                           as many rows beside each other as 7 cores take; those that memory limits alone

Every candidate is checked against numpy before it is timed. A short call is repeated until 5 ms have passed. A
row's figure is the median of the per-round ratios (best rival's time / Lathe's time, the best rival being the
one with the smallest median), with the 95 % interval of that median.
"""
import argparse, json, math, os, random, statistics, sys, time

import workers
from interleaved import commit, everywhere, held, instruction_set, machine, misses, settle

HERE = os.path.dirname(os.path.abspath(__file__))
# What the names of rows that arithmetic limits say; memory limits the others.
ARITHMETIC = ("gemm", "matmul")


def all_rows():
    import pattern_rows, rows
    return {**rows.ROWS, **pattern_rows.ROWS}


def interval(values):
    """Order statistics that hold the median with 95 % probability."""
    v, n = sorted(values), len(values)
    k, p = None, 0.5 ** n
    cumulative = p
    for i in range(n // 2):
        if 2 * cumulative > 0.05:
            break
        k = i
        p *= (n - i) / (i + 1)
        cumulative += p
    return (v[0], v[-1]) if k is None else (v[k], v[n - 1 - k])


def measure(candidates, rounds, at_least=0.005, slow=(), more=None):
    """Seconds per call and round, by name. A candidate takes the number of calls that it makes in a row. The order is
    drawn again in each round and a call before the clock starts warms up, so that nobody pays for what the one before left
    behind (spinning threads, caches). Those that are `slow` sit out two rounds of three, with `None` as their time, and are
    not warmed up. After all rounds come others while `more` says of all times that they are not enough."""
    order = random.Random(1)
    names = list(candidates)
    times, repeats = {n: [] for n in names}, {n: 1 for n in names}
    r = -2
    while r < rounds or more is not None and more(times):
        for name in order.sample(names, len(names)):
            if name in slow and r % 3 != 0:
                if r >= 0:
                    times[name].append(None)
                continue
            call, calls = candidates[name], repeats[name]
            settle()
            everywhere()
            if name not in slow:
                call(1)
            start = time.perf_counter()
            call(calls)
            taken = time.perf_counter() - start
            if r >= 0:
                times[name].append(taken / calls - through_python(call, taken / calls, calls))
            else:
                repeats[name] = max(1, math.ceil(calls * at_least / taken))
        r += 1
    return times


# Calls that take longer do not feel what calls through Python cost.
SHORT = 2e-4


def through_python(call, seconds, calls):
    """What of a call is the way to it: the time of one that does nothing on the same arrays, if the candidate has such a call
    (`empty`). At least a tenth of the call stays."""
    empty = getattr(call, "empty", None)
    if empty is None or seconds > SHORT:
        return 0.0
    start = time.perf_counter()
    empty(calls)
    return min((time.perf_counter() - start) / calls, 0.9 * seconds)


def child(name, threads, rounds):
    row = all_rows()[name](threads)
    workers.wait_to_go()
    times = measure(row["candidates"], rounds)
    print(json.dumps({"row": name, "threads": threads, "commit": commit(), "instructions": instruction_set(), "machine": machine(), "unit": row["unit"], "goal": row["goal"], "peak": row.get("peak"),
                      **beside(times, row["work"])}))


def beside(times, work):
    """Candidates by their times per round, Lathe's with the median ratio to the best rival and its interval."""
    taken = {n: [x for x in t if x is not None] for n, t in times.items()}
    medians = {n: statistics.median(t) for n, t in taken.items()}
    rivals = {n: m for n, m in medians.items() if not n.startswith("lathe")}
    out = {"candidates": {n: {"median_s": medians[n], "min_s": min(t), "max_s": max(t), "rate": work / medians[n] / 1e9}
                          for n, t in taken.items()}}
    if rivals:
        best = out["best"] = min(rivals, key=rivals.get)
        for n in (n for n in times if n.startswith("lathe")):
            ratios = [b / l for b, l in zip(times[best], times[n]) if b is not None and l is not None]
            out["candidates"][n].update(ratio=statistics.median(ratios), interval=interval(ratios))
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("words", nargs="*")
    p.add_argument("--threads", type=int, choices=[1, 2])
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--json")
    p.add_argument("--avx2", action="store_true")
    p.add_argument("--together", type=int, metavar="CORES")
    p.add_argument("--streams", type=int, metavar="ROWS", help="with --together: how many rows measure beside each other")
    p.add_argument("--limit", type=float, default=float("inf"), help="begins no row after so many seconds")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    sys.path.insert(0, HERE)
    if a.child:
        return child(a.words[0], a.threads, a.rounds)
    results = []
    names = [n for n in all_rows() if not a.words or any(w in n for w in a.words)]
    if not names:
        sys.exit("no row has that name; rows: " + ", ".join(all_rows()))
    if a.avx2:
        os.environ["LATHE_BENCH_ISA"] = "AVX2"

    def start(key, cpus):
        name, threads = key
        env = dict(held(os.environ), OMP_NUM_THREADS=str(threads), TVM_NUM_THREADS=str(threads),
                   OPENBLAS_NUM_THREADS=str(threads), HL_NUM_THREADS=str(threads), OMP_PROC_BIND="false")
        line = [sys.executable, os.path.abspath(__file__), name, "--child", "--threads", str(threads), "--rounds", str(a.rounds)]
        return workers.Row(line, env, cpus, 300)

    def done(key, text, error):
        if error:
            print(f"{key[0]} x{key[1]}: FAILED\n{error}", flush=True)
            return
        results.append(json.loads(text))
        show(results[-1])
        if a.json:
            save(a.json, results)
    streams = lambda name: not any(w in name for w in ARITHMETIC)
    left = workers.run([((n, t), t, streams(n)) for t in ([a.threads] if a.threads else [1, 2]) for n in names], start, done, a.together, a.limit, a.streams)
    if left:
        print(f"{left} rows were not begun")
    if not results:
        sys.exit("nothing was measured")


def save(path, results):
    with open(path + ".new", "w") as f:
        json.dump(results, f, indent=1)
    os.replace(path + ".new", path)


def show(o):
    print(f"\n{o['row']}, {o['threads']} thread{'s' if o['threads'] > 1 else ''}, commit {o['commit']}   goal {o['goal']}"
          + (f"   ceiling {o['peak']:.1f} {o['unit']}" if o["peak"] else ""))
    for n, c in sorted(o["candidates"].items(), key=lambda x: x[1]["median_s"]):
        ratio = f"   {c['ratio']:.3f} of {o['best']} [{c['interval'][0]:.3f}..{c['interval'][1]:.3f}]" if "ratio" in c else ""
        ratio += "   < goal" if "ratio" in c and misses(o["goal"], o["candidates"], n, o["best"], o["peak"]) else ""
        share = f" {c['rate'] / o['peak'] * 100:5.1f} %" if o["peak"] else ""
        print(f"  {n:22} {c['median_s'] * 1e3:10.3f} ms [{c['min_s'] * 1e3:.3f}..{c['max_s'] * 1e3:.3f}]"
              f" {c['rate']:8.1f} {o['unit']}{share}{ratio}")


if __name__ == "__main__":
    main()
