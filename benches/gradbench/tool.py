#!/usr/bin/env python3
"""Lathe as a tool of GradBench: one JSON object a line from the eval on stdin, one a line back on stdout.

    gradbench run --eval EVAL --tool 'python3 benches/gradbench/tool.py'

What each eval computes is in `evals.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import IO, Any

import evals


def evaluate(prepare: Callable[[Any], tuple[Callable[[], Any], Callable[[Any], Any]]], data: Any) -> dict[str, Any]:
    """Runs a function of an eval as often and as long as its input asks for. Only the runs count as "evaluate"; reading the
    input into arrays, compiling, and writing the output do not."""
    begin = time.perf_counter_ns()
    run, output = prepare(data)
    result = run()
    timings = [{"name": "prepare", "nanoseconds": time.perf_counter_ns() - begin}]
    runs, seconds = (data.get("min_runs", 1), data.get("min_seconds", 1)) if isinstance(data, dict) else (1, 0)
    spent = done = 0
    while done < max(runs, 1) or spent < seconds * 1e9:
        begin = time.perf_counter_ns()
        result = run()
        took = time.perf_counter_ns() - begin
        timings.append({"name": "evaluate", "nanoseconds": took})
        spent, done = spent + took, done + 1
    return {"success": True, "output": output(result), "timings": timings}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    """The response to a message. Messages of unknown kinds are answered by their number alone."""
    kind = message.get("kind")
    if kind == "start":
        return {"tool": "lathe"}
    if kind == "define":
        begin = time.perf_counter_ns()
        try:
            known = evals.define(message["module"])
        except Exception as e:  # The eval goes on with the next module.
            return {"success": False, "error": f"{type(e).__name__}: {e}"}
        return {"success": known, "timings": [{"name": "define", "nanoseconds": time.perf_counter_ns() - begin}]}
    if kind == "evaluate":
        function = evals.MODULES.get(message["module"], {}).get(message["function"])
        if function is None:
            return {"success": False, "error": f"there is no `{message['function']}` in `{message['module']}`"}
        try:
            return evaluate(function, message.get("input"))
        except Exception as e:
            return {"success": False, "error": f"{type(e).__name__}: {e}"}
    return {}


def serve(messages: IO[str], responses: IO[str]) -> None:
    """Answers until the messages end."""
    for line in messages:
        if line.strip():
            message = json.loads(line)
            print(json.dumps({"id": message["id"], **answer(message)}), file=responses, flush=True)


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
