#!/usr/bin/env python3
"""The homomorphisms' benchmark: every case of mdh_cases.py beside its rivals, with one and with two threads.

    benches/.env/python/bin/python benches/mdh_rows.py                     measures all rows that the results do not have yet
    ... mdh_rows.py matmul conv2d --threads 1 --again                      these rows again
    ... mdh_rows.py --tune 60                                              tunes rows that are not tuned, for at most 60 s each
    ... mdh_rows.py --tune-rivals 60 --threads 2                           the same for TVM's MetaSchedule
    ... mdh_rows.py --decisions 600                                        what 60 s find beside what 600 s find
    ... mdh_rows.py --limit 80                                             begins no row after 80 seconds
    ... mdh_rows.py --avx2                                                 the same rows, Lathe (`x86-64-v3`) and its rivals held to AVX2
    ... mdh_rows.py --together 7                                           as many rows beside each other as 7 cores take, those that
                                                                           memory limits alone
    ... mdh_rows.py --together 8 --streams 2                               two of these beside each other, while others prepare
    ... mdh_rows.py --results FILE                                         keeps them there, and writes the table only with --table
    ... mdh_rows.py --table                                                only writes the table

Results are kept in mdh-results.json (or where `--results` says) row by row, so that every run goes on where the last one ended; the table is
docs/mdh-results.md. Each row is a process of its own, tied to its processors; candidates take turns in rounds of random
order (see bench.py). A figure is the median of the ratios per round to the best rival, with its 95 % interval. A row ends
when the means of Lathe and of the best rival are known to 5 % with 99 % confidence, or when its time is over.
"""
import argparse, json, math, os, re, subprocess, sys, time
import workers
from interleaved import CORETYPE, commit, instruction_set, machine, misses
from mdh_search import NAMED, all_of, environment, long_search, process, rival, said, said_rival, tune
from mdh_table import table

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(HERE, ".env")
RESULTS = os.environ.get("LATHE_BENCH_RESULTS") or os.path.join(HERE, "mdh-results.json")


def load():
    results = json.load(open(RESULTS)) if os.path.exists(RESULTS) else {}
    return {"rows": {}, "tuned": {}, "decisions": {}, **results}


def save(results):
    with open(RESULTS + ".new", "w") as f:
        json.dump(results, f, indent=1, sort_keys=True)
        f.write("\n")
    os.replace(RESULTS + ".new", RESULTS)


def key_of(name, threads):
    """What a row is kept under: rows of fewer instructions than the machine has are others."""
    return f"{name} x{threads}" + (" AVX2" if os.environ.get("LATHE_BENCH_ISA") == "AVX2" else "")


def precision(times):
    """Half of the 99 % interval of the mean, as a part of it."""
    from scipy.stats import t
    v = [x for x in times if x is not None]
    mean = sum(v) / len(v)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in v) / max(1, len(v) - 1))
    return float(t.ppf(0.995, len(v) - 1)) * deviation / math.sqrt(len(v)) / mean if len(v) > 1 else math.inf


def timed(row, rounds, seconds, only=None):
    """Measures a row's candidates: as many rounds, then more until means are known to 5 %, within the seconds."""
    from bench import beside, measure
    candidates = {n: c for n, c in row["candidates"].items() if only is None or n in only}
    once = {}
    for n, call in candidates.items():
        start = time.perf_counter()
        call(1)
        once[n] = time.perf_counter() - start
    fastest = min(once.values())
    slow = {n for n, t in once.items() if t > 0.2 and (t > 3 * fastest or t > 1)}
    # Each candidate is called twice in a round.
    a_round = sum(t * (1 / 3 if n in slow else 2) for n, t in once.items()) + 0.03 * len(once)
    rounds = int(max(min(7, rounds), min(rounds, seconds / a_round)))
    begin = time.perf_counter()

    def known(times):
        rivals = [n for n in times if not n.startswith("lathe")]
        middle = lambda n: sorted(x for x in times[n] if x is not None)[len([x for x in times[n] if x is not None]) // 2]
        best = min(rivals, key=middle, default=None)
        return all(precision(times[n]) <= 0.05 for n in times if (n.startswith("lathe") or n == best) and n not in slow)
    times = measure(candidates, rounds, slow=slow, more=lambda t: time.perf_counter() - begin < seconds and not known(t))
    out = beside(times, row["work"])
    for n, c in out["candidates"].items():
        c["precision"], c["error"] = precision(times[n]), row["errors"].get(n)
    return {"rounds": max(map(len, times.values())), **out}


def child(name, threads, rounds, seconds):
    """One row, in its own process: prints its result."""
    from mdh_cases import CASES
    case, begin = CASES[name](), time.perf_counter()
    tuned = load()["tuned"].get(key_of(name, threads), {})
    row = case.build(name, threads, {"tuned": tuned["params"]} if tuned.get("params") else {})
    made = time.perf_counter() - begin
    workers.wait_to_go()
    begin = time.perf_counter()
    peak, out = row["peak"](), timed(row, rounds, seconds)
    from mdh_rivals import searched
    trials = next((s["trials"] for s in (searched(name, t) for t in (threads, 3 - threads)) if s), None) if case.tvm else None
    print(json.dumps({"threads": threads, "commit": commit(), "instructions": instruction_set(), "machine": machine(), "trials": trials, "group": case.group, "unit": row["unit"], "goal": row["goal"], "peak": peak,
                      "failed": row["failed"], "made_s": made, "took_s": made + time.perf_counter() - begin, **out}))


def decisions_child(name, threads):
    """What a short search found beside what a long one found."""
    from mdh_cases import CASES
    known = load()["decisions"][name]
    case = CASES[name]()
    case.others, case.tvm = {}, None
    row = case.build(name, threads, {n: known[n]["params"] for n in ("short", "long")})
    if row["failed"]:
        raise RuntimeError(str(row["failed"]))
    # The long search's is the one that the other is compared with.
    row["candidates"]["the long search"] = row["candidates"].pop("lathe long")
    print(json.dumps(timed(row, 31, 20)))


def rows_of(script_arguments, threads, limit):
    r = process([sys.executable, os.path.abspath(__file__), *script_arguments, "--threads", str(threads)], threads, limit)
    lines = [l for l in r.stdout.splitlines() if l.startswith("{")]
    if r.returncode or not lines:
        raise RuntimeError(r.stderr[-1500:])
    return json.loads(lines[-1])


def decisions(results, long, short, limit):
    """Search by search, two rows at a time, each on a processor of its own: half an hour where the long ones take ten minutes."""
    threads, begin, left = 1, time.time(), 0
    for which, seconds in (("short", short), ("long", long)):
        def work(name, threads, cpus, which=which, seconds=seconds):
            one = results["decisions"].setdefault(name, {})
            one[which] = long_search(name, threads, seconds, cpus)
            one.pop("beside", None)
            save(results)
            return f"{which}: {said(one[which])}"
        open_ones = [n for n in NAMED if results["decisions"].get(n, {}).get(which, {}).get("budget_s") != seconds]
        left += all_of([(n, threads) for n in open_ones], work, limit - (time.time() - begin))
    if left:
        return left
    for name in NAMED:
        one = results["decisions"].get(name, {})
        if not all(w in one for w in ("short", "long")):
            continue
        if "beside" not in one:
            one["beside"] = rows_of([name, "--decisions-child"], threads, 300)
            save(results)
        c = one["beside"]["candidates"]["lathe short"]
        print(f"{name} x{threads}: {short} s found {c['ratio']:.3f} [{c['interval'][0]:.3f}..{c['interval'][1]:.3f}] of what {long} s found")
    return 0


def versions():
    """Rivals with their versions and the instructions that they use here."""
    import importlib.metadata as meta

    def have(package):
        try:
            return meta.version(package)
        except meta.PackageNotFoundError:
            return "(not there)"
    cargo = open(os.path.join(HERE, "crates", "Cargo.lock")).read()
    crate = lambda n: re.search(rf'name = "{n}"\nversion = "([^"]+)"', cargo).group(1)
    from mdh_libraries import c_compiler, onednn_version, openblas_version
    from mdh_rivals import BATCH, POPULATION
    from interleaved import held
    isa = instruction_set()
    flags = held(os.environ).get("XLA_FLAGS", "").strip()
    return {"OpenBLAS": f"{openblas_version()}, OPENBLAS_CORETYPE={CORETYPE[isa]} ({isa})", "oneDNN": f"{onednn_version()} ({isa})",
            "gemm": f"{crate('gemm')} ({isa})",
            "XLA": f"jax {have('jax')} ({isa}), compiled for the row's sizes, {f'XLA_FLAGS={flags}' if flags else 'no XLA_FLAGS'}, as many threads as the "
            "process has processors",
            "TVM": f"{have('apache-tvm')}, scheduled by hand, for this CPU ({isa})", "TVM MetaSchedule": f"{have('apache-tvm')}, cost model of xgboost {have('xgboost-cpu')}, "
            f"batches of {BATCH}, a population of {POPULATION}, for this CPU ({isa}); trials are in the table of rows",
            "Halide": f"{have('halide')}, scheduled by hand ({isa})",
            "Halide auto": f"{have('halide')}, the fastest of Mullapudi2016, Adams2019 and Li2018 ({isa})", "numpy": have("numpy"), "opt_einsum": have("opt_einsum"),
            "numba": f"{have('numba')} (LLVM, for this CPU)", "C": f"{c_compiler()}, written with GCC's vectors and streaming stores ({isa})"}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("words", nargs="*")
    p.add_argument("--threads", type=int, choices=[1, 2])
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--seconds", type=float, default=8, help="for the rounds of a row")
    p.add_argument("--limit", type=float, default=float("inf"))
    p.add_argument("--tune", type=int, metavar="SECONDS")
    p.add_argument("--tune-rivals", type=int, metavar="SECONDS")
    p.add_argument("--decisions", type=int, metavar="SECONDS", help="of the long searches; --tune says the short one's, 60 if not given")
    p.add_argument("--again", action="store_true")
    p.add_argument("--together", type=int, metavar="CORES", help="measure rows beside each other on so many cores")
    p.add_argument("--streams", type=int, metavar="ROWS", help="with --together: how many rows measure beside each other")
    p.add_argument("--results", metavar="FILE")
    p.add_argument("--table", action="store_true")
    p.add_argument("--avx2", action="store_true", help="hold Lathe and its rivals to AVX2")
    p.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--decisions-child", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    sys.path.insert(0, HERE)
    if a.results:
        global RESULTS
        # Rows in processes of their own read it, too.
        RESULTS = os.environ["LATHE_BENCH_RESULTS"] = os.path.abspath(a.results)
    if a.avx2:
        os.environ["LATHE_BENCH_ISA"] = "AVX2"
        if a.tune_rivals or a.decisions:
            sys.exit("rivals search with what the machine has, and so do long searches: --avx2 measures and tunes rows")
    if a.child:
        return child(a.words[0], a.threads, a.rounds, a.seconds)
    if a.decisions_child:
        return decisions_child(a.words[0], a.threads)
    from mdh_cases import CASES
    results = load()
    if not a.table:
        results.setdefault("versions", {})[instruction_set()] = versions()
    wanted = [] if a.table else [(n, t) for n in CASES if not a.words or n in a.words or any(w in n for w in a.words)
                                 for t in ([a.threads] if a.threads else [1, 2])]
    if a.decisions:
        left = decisions(results, a.decisions, a.tune or 60, a.limit)
    elif a.tune:
        left = tune_rows(wanted, results, a)
    elif a.tune_rivals:
        left = tune_rivals(wanted, a)
    else:
        left = measure_rows(wanted, results, a)
    if a.table or not a.results:
        table(results, list(CASES))
    if left:
        print(f"{left} rows are left: run it again")


def tune_rows(wanted, results, a):
    # Empty parameters are those of a search whose space has other ones now.
    searched = lambda n, t: results["tuned"].get(key_of(n, t), {"params": {}})["params"] != {}
    rows = [(n, t) for n, t in wanted if a.again or not searched(n, t)]

    def work(name, threads, cpus):
        found = tune(name, threads, a.tune, cpus)
        results["tuned"][key_of(name, threads)] = found
        # What was measured with other parameters is of no use.
        results["rows"].pop(key_of(name, threads), None)
        save(results)
        return said(found)
    return all_of(rows, work, a.limit, a.together)


def tune_rivals(wanted, a):
    from mdh_cases import CASES
    from mdh_rivals import searched
    rows = [(n, t) for n, t in wanted if CASES[n]().tvm and (a.again or searched(n, t) is None)]
    return all_of(rows, lambda name, threads, cpus: said_rival(rival(name, threads, a.tune_rivals, cpus)), a.limit, a.together)


def measure_rows(wanted, results, a):
    from mdh_cases import CASES
    rows = {key_of(n, t): (n, t) for n, t in wanted if a.again or key_of(n, t) not in results["rows"]}
    begin, ended = time.time(), []

    def start(key, cpus):
        name, threads = rows[key]
        line = [sys.executable, os.path.abspath(__file__), name, "--child", "--rounds", str(a.rounds), "--seconds", str(a.seconds),
                "--threads", str(threads)]
        return workers.Row(line, environment(threads), cpus, 300)

    def done(key, text, error):
        ended.append(key)
        if error:
            print(f"{key}: FAILED\n{error}", flush=True)
            return
        row = results["rows"][key] = {"name": rows[key][0], **json.loads(text)}
        save(results)
        show(key, row)
        spent = time.time() - begin
        print(f"  [{len(ended)}/{len(rows)}, {row['took_s']:.0f} s of them {row['made_s']:.0f} s before the clock; "
              f"{spent / len(ended) * (len(rows) - len(ended)) / 60:.0f} min left]", flush=True)
    return workers.run([(k, t, CASES[n]().streams()) for k, (n, t) in rows.items()], start, done, a.together, a.limit, a.streams)


def show(key, r):
    print(f"\n{key}   goal {r['goal']}   ceiling {r['peak']:.1f} {r['unit']}")
    for n, c in sorted(r["candidates"].items(), key=lambda x: x[1]["median_s"]):
        ratio = f"   {c['ratio']:.3f} of {r['best']} [{c['interval'][0]:.3f}..{c['interval'][1]:.3f}]" if "ratio" in c else ""
        ratio += "   < goal" if "ratio" in c and misses(r["goal"], r["candidates"], n, r["best"], r["peak"]) else ""
        print(f"  {n:14} {c['median_s'] * 1e3:10.3f} ms [{c['min_s'] * 1e3:.3f}..{c['max_s'] * 1e3:.3f}] {c['rate']:8.1f} {r['unit']}{ratio}")
    for n, why in r["failed"].items():
        print(f"  {n:14} failed: {why}")


if __name__ == "__main__":
    main()
