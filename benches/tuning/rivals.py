"""Runs other tuners on tables of recorded costs: pyATF, OpenTuner, and the strategies of Kernel Tuner.

    rivals.py TABLES OUT.json [--seeds N] [--evaluations N] [--rival NAME,...] [--table NAME,...]

TABLES is a folder of NAME_T1.json and NAME_T4.json, as `score --write` makes it. OUT gets one object per run:
table, technique, seed, score, final, and trace: the rows of the T4 file in the order of their evaluation. What OUT
already has is not run again: with more seeds the same command goes on where it was. Every rival runs with its defaults. Only configurations that are new and meet the constraints count as
evaluations, also for rivals that ask for others.

Needs: pip install pyatf kernel_tuner opentuner 'SQLAlchemy<2'. OpenTuner takes about ten seconds per run.
"""

import argparse
import json
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from score import random_baseline, score

INF = float("inf")
# Strategies of Kernel Tuner; the first is its default among those that search.
KERNEL_TUNER = [
    "random_sample",
    "genetic_algorithm",
    "simulated_annealing",
    "pso",
    "diff_evo",
    "greedy_ils",
    "basinhopping",
    "dual_annealing",
    "mls",
    "greedy_mls",
    "firefly_algorithm",
    "hybrid_vndx",
    "adaptive_tabu_greywolf",
    "bayes_opt",
]


class Done(Exception):
    """The budget is spent."""


class Table:
    def __init__(self, folder, name):
        t1 = json.loads((folder / f"{name}_T1.json").read_text())["ConfigurationSpace"]
        self.name = name
        self.params = {p["Name"]: eval(p["Values"]) for p in t1["TuningParameters"]}
        self.conditions = [c["Expression"] for c in t1["Conditions"]]
        self.costs, self.position = {}, {}
        for i, r in enumerate(json.loads((folder / f"{name}_T4.json").read_text())["results"]):
            value = r["measurements"][0]["value"]
            key = tuple(r["configuration"][n] for n in self.params)
            self.costs[key] = INF if isinstance(value, str) or r["invalidity"] != "correct" else value
            self.position[key] = i
        self.optimum = min(self.costs.values())
        self.spaces = {}

    def baseline(self, n):
        return random_baseline(list(self.costs.values()), n)


class Run:
    """Counts evaluations and remembers the best."""

    def __init__(self, table, evaluations):
        self.table, self.left = table, evaluations
        self.known, self.best, self.trace, self.idle = {}, [], [], 0

    def cost(self, key):
        """The cost; infinity for what fails; None for what violates a constraint."""
        if key in self.known or key not in self.table.costs:
            # What costs nothing must not go on forever either.
            self.idle += 1
            if self.idle > 200_000:
                raise Done
            return self.known.get(key)
        if self.left == 0:
            raise Done
        self.left -= 1
        self.idle = 0
        cost = self.table.costs[key]
        self.known[key] = cost
        self.best.append(min(cost, self.best[-1] if self.best else INF))
        self.trace.append(self.table.position[key])
        if self.left == 0:
            raise Done
        return cost


def pyatf(table, run, _technique):
    from pyatf import TP, Set
    from pyatf.search_space import SearchSpace
    from pyatf.search_techniques import AUCBandit, PatternSearch, SimulatedAnnealing, Torczon

    if "pyatf" not in table.spaces:
        conditions = {}
        for c in table.conditions:
            names = [n for n in table.params if n in re.findall(r"\w+", c)]
            conditions.setdefault(names[-1], []).append((c, names))
        params = []
        for name, values in table.params.items():
            constraint = None
            if name in conditions:
                reads = sorted({n for _, names in conditions[name] for n in names})
                text = " and ".join(f"({c})" for c, _ in conditions[name])
                constraint = eval(f"lambda {', '.join(reads)}: {text}")
            params.append(TP(name, Set(*values), constraint))
        table.spaces["pyatf"] = SearchSpace(*params, verbosity=0)
    space = table.spaces["pyatf"]
    # Fresh arms: the default ones are shared by all instances.
    technique = AUCBandit((SimulatedAnnealing(), PatternSearch(), Torczon()))
    technique.initialize(len(table.params))
    while True:
        points = technique.get_next_coordinates()
        costs = {}
        for p in points:
            c = space.get_configuration(p)
            cost = run.cost(tuple(c[n] for n in table.params))
            costs[p] = sys.float_info.max if cost in (None, INF) else cost
        technique.report_costs(costs)


def opentuner(table, run, _technique):
    import argparse as args_of

    import opentuner as ot
    from opentuner.api import TuningRunManager
    from opentuner.measurement.interface import DefaultMeasurementInterface

    with tempfile.TemporaryDirectory() as folder:
        parser = args_of.ArgumentParser(parents=ot.argparsers())
        args = parser.parse_args(["--no-dups", "--database", f"sqlite:///{folder}/db", "--quiet"])
        manipulator = ot.ConfigurationManipulator()
        for name, values in table.params.items():
            # Numbers by position, so that numeric techniques work on them; words without order.
            if isinstance(values[0], str):
                manipulator.add_parameter(ot.EnumParameter(name, list(range(len(values)))))
            elif len(values) > 1:
                manipulator.add_parameter(ot.IntegerParameter(name, 0, len(values) - 1))
        interface = DefaultMeasurementInterface(
            args=args, manipulator=manipulator, project_name="t", program_name="t", program_version="1"
        )
        api = TuningRunManager(interface, args)
        try:
            while True:
                desired = api.get_next_desired_result()
                if desired is None:
                    run.cost(None)
                    continue
                data = desired.configuration.data
                key = tuple(v[data[n]] if n in data else v[0] for n, v in table.params.items())
                cost = run.cost(key)
                failed = cost in (None, INF)
                api.report_result(desired, ot.resultsdb.models.Result(
                    time=1e30 if failed else cost, state="ERROR" if failed else "OK"))
        finally:
            api.session.close()


class Runner:
    """What Kernel Tuner's strategies need of a runner."""

    dev = SimpleNamespace(max_threads=10**9)

    def __init__(self, table, run):
        self.table, self.recorded = table, run

    def add_strategy_time(self, _seconds):
        pass

    def run(self, configurations, options):
        from kernel_tuner import util

        results = []
        for c in configurations:
            if options.budget.is_done():
                results.append(None)
                continue
            key = tuple(c)
            result = dict(zip(self.table.params, key))
            before = self.recorded.left
            try:
                cost = self.recorded.cost(key)
            except Done:
                cost = self.recorded.known.get(key)
                if before == self.recorded.left:
                    raise
            options.budget.add_evaluations(before - self.recorded.left)
            if cost is None:
                result["__error__"] = util.InvalidConfig()
            elif cost == INF:
                result["__error__"] = util.RuntimeFailedConfig()
            else:
                result["time"] = cost
            results.append(result)
        return results


def kernel_tuner(table, run, technique):
    import kernel_tuner.interface as kt
    import numpy
    from kernel_tuner import util
    from kernel_tuner.searchspace import Searchspace

    numpy.random.seed(random.getrandbits(31))
    if "kt" not in table.spaces:
        params = {n: list(v) for n, v in table.params.items()}
        table.spaces["kt"] = Searchspace(params, list(table.conditions), 10**9)
    space = table.spaces["kt"]
    # Neighbours that a run has used up are kept from later ones, which would make runs depend on each other.
    for cache in ("_Searchspace__neighbor_cache", "_Searchspace__neighbor_partial_cache"):
        for known in getattr(space, cache).values():
            known.clear()
    n = run.left
    options = kt.Options(
        objective=["time"],
        objective_higher_is_better=[False],
        strategy_options=kt.Options(max_fevals=n),
        max_fevals=n,
        budget=util.TuningBudget(None, n),
        tune_params=space.tune_params,
        restrictions=space._modified_restrictions,
        restrictions_unmodified=list(table.conditions),
        verbose=False,
        quiet=True,
        metrics=None,
    )
    kt.strategy_map[technique].tune(space, Runner(table, run), options)


def write(path, out):
    """All or nothing: a run of hours is not lost to an interrupt."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(out))
    new.replace(path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--evaluations", type=int, default=200)
    parser.add_argument("--rival", default=",".join(["pyatf", "opentuner"] + KERNEL_TUNER))
    parser.add_argument("--table", default="")
    args = parser.parse_args()
    names = sorted(p.name[: -len("_T1.json")] for p in args.tables.glob("*_T1.json"))
    names = [n for n in names if not args.table or n in args.table.split(",")]
    out = json.loads(args.out.read_text()) if args.out.exists() else []
    for name in names:
        table = Table(args.tables, name)
        baseline = table.baseline(args.evaluations)
        for rival in args.rival.split(","):
            known = {r["seed"] for r in out if r["table"] == name and r["technique"] == rival}
            if known.issuperset(range(args.seeds)):
                continue
            search = pyatf if rival == "pyatf" else opentuner if rival == "opentuner" else kernel_tuner
            began, scores = time.time(), []
            for seed in sorted(set(range(args.seeds)) - known):
                random.seed(seed)
                run = Run(table, args.evaluations)
                try:
                    search(table, run, rival)
                except Done:
                    pass
                except Exception as e:  # a rival that fails is scored by what it found until then
                    if seed == 0:
                        print(f"{rival} on {name}: {type(e).__name__}: {e}", file=sys.stderr)
                scores.append(score(run.best, baseline, table.optimum))
                out.append({
                    "table": name, "technique": rival, "seed": seed, "score": scores[-1],
                    "final": run.best[-1] if run.best else None, "trace": run.trace,
                })
                write(args.out, out)
            print(f"{name:14} {rival:24} {sum(scores) / len(scores):8.3f} {time.time() - began:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
