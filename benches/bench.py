#!/usr/bin/env python3
"""Lathe beside its rivals, in interleaved rounds of one pinned process per row and thread count.

    benches/.env/python/bin/python benches/bench.py            every row
    benches/.env/python/bin/python benches/bench.py gemm dot   rows whose name contains one of the words
    ... --threads 1 --rounds 15 --json out.json

Every candidate is checked against numpy before it is timed. A short call is repeated until 5 ms have passed. A
row's figure is the median of the per-round ratios (best rival's time / Lathe's time, the best rival being the
one with the smallest median), with the 95 % interval of that median.
"""
import argparse, json, math, os, random, statistics, subprocess, sys, time

from interleaved import commit, everywhere, held, misses

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(HERE, ".env")


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
            # OpenMP's threads go on spinning for some milliseconds after their last loop, on the processors of the next.
            time.sleep(0.02)
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
    times = measure(row["candidates"], rounds)
    print(json.dumps({"row": name, "threads": threads, "commit": commit(), "unit": row["unit"], "goal": row["goal"], "peak": row.get("peak"),
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
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    sys.path.insert(0, HERE)
    if a.child:
        return child(a.words[0], a.threads, a.rounds)
    results = []
    names = [n for n in all_rows() if not a.words or any(w in n for w in a.words)]
    if not names:
        sys.exit("no row has that name; rows: " + ", ".join(all_rows()))
    for threads in [a.threads] if a.threads else [1, 2]:
        for name in names:
            env = dict(held(os.environ), OMP_NUM_THREADS=str(threads), TVM_NUM_THREADS=str(threads),
                       OPENBLAS_NUM_THREADS=str(threads), HL_NUM_THREADS=str(threads), OMP_PROC_BIND="true")
            cpus = "0" if threads == 1 else "0,1"
            cmd = ["taskset", "-c", cpus, sys.executable, os.path.abspath(__file__), name, "--child",
                   "--threads", str(threads), "--rounds", str(a.rounds)]
            r = subprocess.run(cmd, env=env, capture_output=True, text=True)
            lines = [l for l in r.stdout.splitlines() if l.startswith("{")]
            if r.returncode or not lines:
                print(f"{name} x{threads}: FAILED\n{r.stderr[-1500:]}")
                continue
            out = json.loads(lines[-1])
            results.append(out)
            show(out)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(results, f, indent=1)
    if not results:
        sys.exit("nothing was measured")


def show(o):
    print(f"\n{o['row']}, {o['threads']} thread{'s' if o['threads'] > 1 else ''}, commit {o['commit']}   goal {o['goal']}"
          + (f"   ceiling {o['peak']:.1f} {o['unit']}" if o["peak"] else ""))
    for n, c in sorted(o["candidates"].items(), key=lambda x: x[1]["median_s"]):
        ratio = f"   {c['ratio']:.3f} of {o['best']} [{c['interval'][0]:.3f}..{c['interval'][1]:.3f}]" if "ratio" in c else ""
        ratio += "   < goal" if "ratio" in c and misses(o["goal"], c["ratio"], c["rate"] / o["peak"] if o["peak"] else None) else ""
        share = f" {c['rate'] / o['peak'] * 100:5.1f} %" if o["peak"] else ""
        print(f"  {n:22} {c['median_s'] * 1e3:10.3f} ms [{c['min_s'] * 1e3:.3f}..{c['max_s'] * 1e3:.3f}]"
              f" {c['rate']:8.1f} {o['unit']}{share}{ratio}")


if __name__ == "__main__":
    main()
