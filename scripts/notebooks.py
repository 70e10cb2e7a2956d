"""Runs the notebooks of examples/notebooks with the installed package, and writes what they show into them.

    python scripts/notebooks.py [NAME...]
"""

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "examples" / "notebooks"


def shown(value):
    """A value as the outputs of a notebook have it."""
    data = {}
    for kind, method in (("image/svg+xml", "_repr_svg_"), ("text/html", "_repr_html_")):
        f = getattr(value, method, None)
        text = f() if f is not None else None
        if text:
            data[kind] = text.splitlines(keepends=True)
    data["text/plain"] = repr(value)[:500].splitlines(keepends=True)
    return {"data": data, "metadata": {}}


def run(cell, scope, number, folder):
    source = "".join(cell["source"])
    file = folder / f"cell{number}.py"
    file.write_text(source)
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    outputs = []
    scope["display"] = lambda *values: outputs.extend({"output_type": "display_data", **shown(v)} for v in values)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        exec(compile(tree, str(file), "exec"), scope)
        value = eval(compile(ast.Expression(last.value), str(file), "eval"), scope) if last else None
    if text.getvalue():
        outputs.insert(0, {"output_type": "stream", "name": "stdout", "text": text.getvalue().splitlines(keepends=True)})
    if value is not None:
        outputs.append({"output_type": "execute_result", "execution_count": number, **shown(value)})
    cell["outputs"], cell["execution_count"] = outputs, number


def main(names):
    for path in sorted(ROOT.glob("*.ipynb")):
        if names and path.stem not in names:
            continue
        book = json.loads(path.read_text())
        with tempfile.TemporaryDirectory() as folder:
            os.environ["LATHE_STORE"] = os.path.join(folder, "results.sqlite")
            scope = {"__name__": path.stem}
            for n, cell in enumerate((c for c in book["cells"] if c["cell_type"] == "code"), 1):
                run(cell, scope, n, Path(folder))
        path.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n")
        print(path.name)


main(sys.argv[1:])
