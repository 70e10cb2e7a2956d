#!/usr/bin/env python3
"""The homomorphisms' benchmark: every case of mdh_cases.py beside its rivals, with one and with two threads.

    benches/.env/python/bin/python benches/mdh_rows.py                     all rows that the results do not have yet
    ... mdh_rows.py matmul conv2d --threads 1 --again                      these rows anew
    ... mdh_rows.py --tune 60 jacobi                                       tunes these rows for 60 s each, then measures
    ... mdh_rows.py --limit 80                                             begins no row after 80 seconds
    ... mdh_rows.py --table                                                only writes the table

Results are kept in mdh-results.json row by row, so that a run goes on where the last one ended; the table is
docs/mdh-results.md. Each row is a process of its own, tied to its processors; candidates take turns in rounds of random
order (see bench.py). A figure is the median of the ratios per round to the best rival, with its 95 % interval.
"""
import argparse, json, math, os, platform, re, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(HERE, ".env")
RESULTS = os.path.join(HERE, "mdh-results.json")
TABLE = os.path.join(HERE, "..", "docs", "mdh-results.md")


def load():
    return json.load(open(RESULTS)) if os.path.exists(RESULTS) else {"rows": {}, "tuned": {}}


def save(results):
    with open(RESULTS + ".new", "w") as f:
        json.dump(results, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(RESULTS + ".new", RESULTS)


def child(name, threads, rounds):
    """One row, in its own process: prints its result."""
    from bench import beside, measure
    from mdh_cases import CASES
    case = CASES[name]()
    row = case.build(threads, load()["tuned"].get(f"{name} x{threads}", {}).get("params"))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # A slow row gets fewer rounds: each candidate runs for about a second.
    start = time.perf_counter()
    for call in row["candidates"].values():
        call(1)
    once = time.perf_counter() - start
    rounds = int(max(5, min(rounds, 25 / max(once, 1e-9))))
    times = measure(row["candidates"], rounds)
    print(json.dumps({"threads": threads, "group": case.group, "unit": row["unit"], "goal": row["goal"], "peak": row["peak"],
                      "rounds": rounds, "failed": row["failed"], **beside(times, row["work"])}))


def process(arguments, threads, limit):
    env = dict(os.environ, OPENBLAS_CORETYPE="SkylakeX", OMP_NUM_THREADS=str(threads), TVM_NUM_THREADS=str(threads),
               OPENBLAS_NUM_THREADS=str(threads), HL_NUM_THREADS=str(threads), NUMBA_NUM_THREADS="2", OMP_PROC_BIND="true")
    cpus = "0" if threads == 1 else "0,1"
    return subprocess.run(["taskset", "-c", cpus, *arguments], env=env, capture_output=True, text=True, timeout=limit)


def lathe():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
    return os.path.join(target, "release", "lathe")


def tune(name, threads, budget, results):
    from mdh_cases import CASES
    case = CASES[name]()
    sizes = [x for n, v in case.sizes.items() for x in ("-D", f"{n}={v}")]
    store = os.path.join(ENV, "mdh-store.sqlite")
    r = process([lathe(), "tune", os.path.join(HERE, "..", "examples", case.target), "-s", "auto", "--specialize", *sizes, "--threads",
                 str(threads), "--budget", f"{budget}s", "--store", store, "--json"], threads, 20 * budget + 120)
    if r.returncode:
        print(f"{name} x{threads}: tuning failed\n{r.stderr[-800:]}")
        return
    found = json.loads(r.stdout)
    results["tuned"][f"{name} x{threads}"] = {"params": found["params"], "budget_s": budget}
    save(results)


def versions():
    """Rivals with their versions and the instructions that they use here."""
    import importlib.metadata as meta
    have = lambda n: meta.version(n)
    dpkg = lambda n: subprocess.run(["dpkg-query", "-W", "-f", "${Version}", n], capture_output=True, text=True).stdout or "?"
    cargo = open(os.path.join(HERE, "harness", "Cargo.lock")).read()
    crate = lambda n: re.search(rf'name = "{n}"\nversion = "([^"]+)"', cargo).group(1)
    gcc = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    return {"OpenBLAS": f"{dpkg('libopenblas0-pthread')}, OPENBLAS_CORETYPE=SkylakeX (AVX-512)", "oneDNN": f"{dpkg('libdnnl2')} (AVX-512)",
            "gemm": f"{crate('gemm')} (AVX-512)", "XLA": f"jax {have('jax')} (AVX-512)", "TVM": f"{have('apache-tvm')}, scheduled by hand, "
            "for this CPU (AVX-512)", "Halide": f"{have('halide')}, scheduled by hand (AVX-512)", "numpy": have("numpy"), "opt_einsum": have("opt_einsum"),
            "numba": f"{have('numba')} (LLVM, for this CPU)", "C": f"gcc {gcc} -O3 -march=native, written with AVX-512 and streaming stores"}


def portability(efficiencies):
    """Pennycook: the harmonic mean over all platforms, 0 if one is not supported."""
    return len(efficiencies) / sum(1 / e for e in efficiencies) if efficiencies and all(efficiencies) else 0.0


def table(results):
    rows = results["rows"]
    out = ["# Homomorphisms beside others", "", "Made by `benches/mdh_rows.py`; do not edit.", "",
           f"Machine: {results.get('machine', '?')}. Each figure is the median of the ratios per round, best rival's time over Lathe's (above 1: "
           "Lathe is faster), with the interval that holds the median with 95 % probability. *auto* is what the cost model chooses without "
           "measuring, *tuned* what `lathe tune --budget 60s` found. Every result was compared with numpy's.", "",
           "| row | threads | auto | tuned | best rival | of the ceiling | goal |", "|---|---|---|---|---|---|---|"]
    if not rows:
        out = out[:6] + ["", "No row has been measured yet: run `benches/mdh_rows.py`."]
    geo = {}
    for key in sorted(rows, key=lambda k: (ORDER.index(rows[k]["name"]) if rows[k]["name"] in ORDER else 999, rows[k]["threads"])):
        r = rows[key]
        def shown(n):
            c = r["candidates"].get(n)
            if c is None:
                return r["failed"].get(n, "–").replace("|", "/")[:60]
            if "ratio" not in c:
                return f"{c['median_s'] * 1e3:.3g} ms"
            return f"{c['ratio']:.2f} [{c['interval'][0]:.2f}..{c['interval'][1]:.2f}]"
        mine = [c for n, c in r["candidates"].items() if n.startswith("lathe")]
        best = r.get("best", "–")
        rival = r["candidates"].get(best)
        rival = f"{best}, {rival['median_s'] * 1e3:.3g} ms [{rival['min_s'] * 1e3:.3g}..{rival['max_s'] * 1e3:.3g}]" if rival else "–"
        ceiling = f"{max(c['rate'] for c in mine) / r['peak'] * 100:.0f} % of {r['peak']:.0f} {r['unit']}" if mine and r["unit"] != "Gpairs/s" else "–"
        out.append(f"| {r['name']} | {r['threads']} | {shown('lathe auto')} | {shown('lathe tuned')} | {rival} | {ceiling} | {r['goal']} |")
        ratios = [c["ratio"] for c in mine if "ratio" in c]
        if ratios:
            geo.setdefault((r["group"], r["threads"]), []).append(max(ratios))
    if rows:
        out += ["", "Geometric means of the better of both:", "", "| work | threads | rows | mean |", "|---|---|---|---|"]
    for (group, threads), ratios in sorted(geo.items()):
        out.append(f"| {group} | {threads} | {len(ratios)} | {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f} |")
    out += ["", "## Portability", "", "Pennycook's metric over the platforms that are here, one and two threads of this CPU: the harmonic mean of "
            "(best time of all candidates / own time), 0 where one is not supported.", "", "| row | Lathe | best single rival |", "|---|---|---|"]
    for name in ORDER:
        both = [rows[f"{name} x{t}"] for t in (1, 2) if f"{name} x{t}" in rows]
        if len(both) < 2:
            continue
        def of(pick):
            e = []
            for r in both:
                own = [c["median_s"] for n, c in r["candidates"].items() if pick(n)]
                e.append(min(c["median_s"] for c in r["candidates"].values()) / min(own) if own else 0)
            return portability(e)
        rivals = {n for r in both for n in r["candidates"] if not n.startswith("lathe")}
        ranked = sorted(((of(lambda n, x=x: n == x), x) for x in rivals), reverse=True)
        best = f"{ranked[0][0]:.2f} ({ranked[0][1]})" if ranked else "–"
        out.append(f"| {name} | {of(lambda n: n.startswith('lathe')):.2f} | {best} |")
    out += ["", "## Rivals", "", "| rival | version and instructions |", "|---|---|"]
    out += [f"| {n} | {v} |" for n, v in sorted(results.get("versions", {}).items())]
    missing = {(r["name"], n): why for r in rows.values() for n, why in r["failed"].items()}
    if missing:
        out += ["", "What did not run:", ""]
        out += [f"* {row}: {n}: {why}" for (row, n), why in sorted(missing.items())]
    with open(TABLE, "w") as f:
        f.write("\n".join(out) + "\n")


ORDER = []


def main():
    p = argparse.ArgumentParser()
    p.add_argument("words", nargs="*")
    p.add_argument("--threads", type=int, choices=[1, 2])
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--limit", type=float, default=float("inf"))
    p.add_argument("--tune", type=int, metavar="SECONDS")
    p.add_argument("--again", action="store_true")
    p.add_argument("--table", action="store_true")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    sys.path.insert(0, HERE)
    if a.child:
        return child(a.words[0], a.threads, a.rounds)
    from mdh_cases import CASES
    ORDER.extend(CASES)
    results = load()
    if not a.table:
        results["versions"] = versions()
        model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read()).group(1)
        results["machine"] = f"{model}, {os.cpu_count()} processors of a virtual machine, {platform.system()}"
    start, left = time.time(), 0
    for name in CASES:
        if a.table or (a.words and not any(w in name for w in a.words)):
            continue
        for threads in [a.threads] if a.threads else [1, 2]:
            key = f"{name} x{threads}"
            if a.tune and (a.again or key not in results["tuned"]):
                if time.time() - start > a.limit:
                    left += 1
                    continue
                tune(name, threads, a.tune, results)
            elif key in results["rows"] and not a.again:
                continue
            if time.time() - start > a.limit:
                left += 1
                continue
            try:
                r = process([sys.executable, os.path.abspath(__file__), name, "--child", "--threads", str(threads), "--rounds",
                             str(a.rounds)], threads, 300)
            except subprocess.TimeoutExpired:
                print(f"{key}: took too long")
                continue
            lines = [l for l in r.stdout.splitlines() if l.startswith("{")]
            if r.returncode or not lines:
                print(f"{key}: FAILED\n{r.stderr[-1500:]}")
                continue
            results["rows"][key] = {"name": name, **json.loads(lines[-1])}
            save(results)
            show(key, results["rows"][key])
    table(results)
    if left:
        print(f"{left} rows are left: run it again")


def show(key, r):
    print(f"\n{key}   goal {r['goal']}   ceiling {r['peak']:.1f} {r['unit']}")
    for n, c in sorted(r["candidates"].items(), key=lambda x: x[1]["median_s"]):
        ratio = f"   {c['ratio']:.3f} of {r['best']} [{c['interval'][0]:.3f}..{c['interval'][1]:.3f}]" if "ratio" in c else ""
        print(f"  {n:14} {c['median_s'] * 1e3:10.3f} ms [{c['min_s'] * 1e3:.3f}..{c['max_s'] * 1e3:.3f}] {c['rate']:8.1f} {r['unit']}{ratio}")
    for n, why in r["failed"].items():
        print(f"  {n:14} failed: {why}")


if __name__ == "__main__":
    main()
