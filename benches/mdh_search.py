"""Searching for mdh_rows.py: `lathe tune` and TVM's MetaSchedule for all rows, and how good what a minute finds is.

Searches with one thread run two at a time, one per core, those with two threads alone; more beside each other where the machine
has more cores and is said to be used for it (`--together`).
"""
import itertools, json, os, queue, shutil, signal, subprocess, sys, tempfile, threading, time
from interleaved import held, instruction_set
from workers import cores

HERE = os.path.dirname(os.path.abspath(__file__))
ENV = os.path.join(HERE, ".env")
STORE = os.path.join(ENV, "mdh-store.sqlite")
# Nothing better by a hundredth for this part of the budget: the search ends.
PATIENCE = (1.01, 1 / 3)
NAMED = ["matmul 1024", "mcc resnet 1", "conv2d 4096", "jacobi3d 256", "ccsdt abcdef-gdab-efgc"]


def environment(threads):
    # Bound threads wait for the caller where it runs on the processor of one of them.
    return dict(held(os.environ), OMP_NUM_THREADS=str(threads), TVM_NUM_THREADS=str(threads),
                OPENBLAS_NUM_THREADS=str(threads), HL_NUM_THREADS=str(threads), NUMBA_NUM_THREADS="2", OMP_PROC_BIND="false")


def process(arguments, threads, limit, cpus=None):
    line = ["taskset", "-c", cpus or ("0" if threads == 1 else "0,1"), *arguments]
    return subprocess.run(line, env=environment(threads), capture_output=True, text=True, timeout=limit)


def lathe():
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(HERE, "..", "target"))
    return os.path.join(target, "release", "lathe")


def tune(name, threads, budget, cpus=None, patience=True, store=STORE, seed=0):
    """What `lathe tune` finds from `auto` on; raises what it says where it fails."""
    from mdh_cases import CASES
    case = CASES[name]()
    sizes = [x for n, v in case.sizes.items() for x in ("-D", f"{n}={v}")]
    factor, part = PATIENCE
    cpu = ["--cpu", "x86-64-v3"] if instruction_set() == "AVX2" else []
    until = ["--until", f"speedup<seconds>({factor}, {part * budget:g})"] if patience else []
    r = process([lathe(), "tune", os.path.join(HERE, "..", "examples", case.target), "-s", "auto", "--specialize", *sizes, *cpu,
                 "--threads", str(threads), "--budget", f"{budget}s", *until, "--store", store, "--seed", str(seed), "--json"],
                threads, 20 * budget + 120, cpus)
    if r.returncode:
        if "E1085" in r.stderr or "E1085" in r.stdout:
            return {"params": None, "budget_s": budget, "space": "1", "elapsed_s": 0}
        raise RuntimeError((r.stderr or r.stdout).strip()[-800:])
    f = json.loads(r.stdout)
    return {"params": f["params"], "budget_s": budget, "space": f["space_size"], "evaluations": f["evaluations"],
            "valid": f["valid"], "elapsed_s": f["elapsed_s"], "stopped": f["stopped"], "median_s": f["median_s"],
            "default_s": f["default_s"], "invalid": {k: v["first"] for k, v in f["invalid"].items()}}


def said(t):
    if t["params"] is None:
        return "nothing to tune"
    gain = f"{t['default_s'] / t['median_s']:.2f} x auto, " if t.get("default_s") else ""
    return (f"{t['median_s'] * 1e3:.4g} ms, {gain}{t['evaluations']} of {t['space']} tried ({t['valid']} valid) in "
            f"{t['elapsed_s']:.0f} s, {t['stopped']}")


def rival(name, threads, budget, cpus=None):
    """Lets MetaSchedule search a row for so long; what it measured is kept in files."""
    import mdh_rivals
    line = ["taskset", "-c", cpus or ("0" if threads == 1 else "0,1"), sys.executable, os.path.join(HERE, "mdh_rivals.py"), name,
            str(threads)]
    began, steps = [], []
    with tempfile.TemporaryFile("w+") as log:
        p = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True, env=environment(threads), start_new_session=True)

        def read():
            for text in p.stdout:
                if text.startswith('{"at_s"'):
                    (steps if began else began).append(json.loads(text))
                    began.append(time.time())
        reader = threading.Thread(target=read)
        reader.start()
        start = time.time()
        while p.poll() is None:
            # From its beginning on; importing it may take as long again.
            if time.time() - (began[1] if began[1:] else start) > (budget if steps or not began else 3 * budget):
                break
            time.sleep(0.2)
        ended = p.poll()
        if ended is None:
            os.killpg(p.pid, signal.SIGKILL)
        p.wait()
        reader.join()
        log.seek(0)
        text = log.read()
    if ended or not began:
        raise RuntimeError(text.strip()[-600:] or "it never began")
    last = steps[-1] if steps else {"trials": 0, "best_s": None}
    done = {"at_s": time.time() - began[1], "budget_s": budget, "trials": last["trials"], "best_s": last["best_s"],
            "first_s": steps[0]["at_s"] if steps else None}
    with open(os.path.join(mdh_rivals.records(name, threads), "done.json"), "w") as f:
        json.dump(done, f)
    return done


def said_rival(d):
    best = f"{d['best_s'] * 1e3:.4g} ms, " if d["best_s"] else ""
    return f"{best}{d['trials']} measured in {d['at_s']:.0f} s"


def all_of(rows, work, limit, together=None):
    """`work(name, threads, cpus)` for all rows, on as many cores as are said, which tells what is shown; the number of rows that were
    not begun."""
    begin, lock, done, left = time.time(), threading.Lock(), itertools.count(1), [0]
    one, two = [r for r in rows if r[1] == 1], [r for r in rows if r[1] == 2]
    # One that memory limits beside one that it does not.
    from mdh_cases import CASES
    streams = lambda r: CASES[r[0]]().unit == "GB/s"
    halves = [[r for r in one if streams(r)], [r for r in one if not streams(r)]]
    paired = [r for pair in itertools.zip_longest(*halves) for r in pair if r]
    spent = []

    def run(waiting, cpus):
        while True:
            try:
                name, threads = waiting.get_nowait()
            except queue.Empty:
                return
            if time.time() - begin > limit:
                left[0] += 1
                continue
            start = time.time()
            try:
                text = work(name, threads, cpus)
            except (RuntimeError, subprocess.TimeoutExpired, ValueError, KeyError) as e:
                text = f"FAILED: {e}"
            with lock:
                spent.append((threads, time.time() - start))
                n = next(done)
                of = lambda t: [s for k, s in spent if k == t] or [s for _, s in spent]
                mean = lambda t: sum(of(t)) / len(of(t))
                ahead = len(rows) - n
                singles = max(0, len(one) - sum(1 for t, _ in spent if t == 1))
                rest = singles * mean(1) / 2 + (ahead - singles) * mean(2)
                print(f"[{n}/{len(rows)}, {rest / 60:.0f} min left] {name} x{threads}: {text}", flush=True)

    have = [str(c) for c in cores()[:together or 2]]
    pairs = [",".join(p) for p in zip(have[::2], have[1::2])] or have
    for group, workers in ((paired, have), (two, pairs if together else pairs[:1])):
        waiting = queue.Queue()
        for r in group:
            waiting.put(r)
        threads = [threading.Thread(target=run, args=(waiting, cpus)) for cpus in workers]
        [t.start() for t in threads]
        [t.join() for t in threads]
    return left[0]


def long_search(name, threads, budget, cpus):
    """A search that neither knows nor leaves what others found."""
    folder = tempfile.mkdtemp()
    try:
        return tune(name, threads, budget, cpus, patience=False, store=os.path.join(folder, "store.sqlite"), seed=1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
