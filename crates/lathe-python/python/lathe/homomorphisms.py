"""Multi-dimensional homomorphisms as decorated functions: the notation of the thesis in the syntax of Python.

What a function says is written in the notation of ``.mdh`` files, which is then read as always: both forms give the same
tree. Nothing of the function is ever run, so the words of the notation need not be imported.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable
from typing import Any, overload

from ._reading import Scope, Source, comment
from ._writer import Writer
from ._written import begin, end, known
from .errors import SourceError
from .kernels import Kernel
from .types import BY_NAME, ScalarType

__all__ = ["mdh"]

_NAMED = {"add": "+", "mul": "*", "+": "+", "*": "*", "sum": "+", "prod": "*", "min": "min", "max": "max", "all": "all",
          "any": "any", "minimum": "min", "maximum": "max"}


@overload
def mdh(source: Callable[..., Any], /) -> Kernel: ...
@overload
def mdh(*, declare: str = "", **types: ScalarType) -> Callable[[Callable[..., Any]], Kernel]: ...


def mdh(source: Callable[..., Any] | None = None, /, *, declare: str = "", **types: ScalarType) -> Any:
    """A kernel from a homomorphism, written as a decorated function of its types and sizes.

    ::

        @lathe.mdh
        def matvec(T, I: int, K: int):
            def mul(out, inp):
                out["w"] = inp["M"] * inp["v"]

            return (
                out_view[T](w=[lambda i, k: (i)]),
                md_hom[I, K](mul, (cc, pw("+"))),
                inp_view[T, T](M=[lambda i, k: (i, k)], v=[lambda i, k: (k)]),
            )

    The scalar function is a function of ``out`` and ``inp`` (and the indices, if it needs them), a ``lambda`` of the
    accesses in order, or ``"*"``, ``"+"``, ``"id"``. Combine operators are ``cc``, ``pw(op)`` and ``ps(op)``, where ``op`` is
    ``"+"``, ``"*"``, ``min``, ``max``, ``all``, ``any``, or a function of two values. Type parameters stand for ``f32``, or for
    what is given: ``@lathe.mdh(T=lathe.f64)``. ``declare`` holds structs and operators in the language of ``.lathe`` files.

    The thesis's own nesting is understood, too: a function decorated with ``mdh(out(w=Buffer[T, [I]]), inp(...))`` inside of
    one that returns it. Shapes follow from the views; those that are stated are compared with them.
    """
    if source is None:
        return lambda f: _made(f, declare, types)
    return _made(source, declare, types)


def _made(f: Callable[..., Any], declare: str, types: dict[str, ScalarType]) -> Kernel:
    reader = _Reader(f, types)
    text = reader.text()
    declared = [part.strip("\n") for part in (declare, *reader.operators) if part.strip()]
    # Messages about the notation are shown at the function.
    whole = "\n\n".join([*declared, text])
    written = reader.source.written(f"{begin(0)}{whole}{end()}", [reader.tree])
    written.name += ".mdh"
    made = Kernel(written.text, f.__name__, file=known(written))
    reader.compare(made)
    return made


class _Reader:
    """One function, from its syntax tree to the notation."""

    def __init__(self, f: Callable[..., Any], types: dict[str, ScalarType]) -> None:
        self.f, self.source = f, Source(f)
        self.scope = Scope(f)
        tree = self.source.tree
        if not isinstance(tree, ast.FunctionDef):
            raise self.source.fail(tree, "a homomorphism is made of a function: @lathe.mdh before `def`")
        self.tree = tree
        #: Operators that functions of Python stand for, as declarations.
        self.operators: list[str] = []
        self.stated: list[tuple[ast.AST, str, list[str]]] = []
        body = [s for s in tree.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        inner = [s for s in body if isinstance(s, ast.FunctionDef) and s.decorator_list]
        if len(inner) == 1:
            for d in inner[0].decorator_list:
                self.buffers(d)
            body = inner[0].body
        self.functions = {s.name: s for s in body if isinstance(s, ast.FunctionDef)}
        match [s for s in body if not isinstance(s, ast.FunctionDef)]:
            case [ast.Return(value=ast.Tuple(elts=[outputs, hom, inputs]))]:
                self.outputs, self.hom, self.inputs = outputs, hom, inputs
            case other:
                raise self.fail(other[0] if other else tree, "a homomorphism returns its three parts",
                                "return (out_view[T](...), md_hom[I, K](...), inp_view[T, T](...))")
        self.generic, self.sizes = self.parameters()
        self.types = {n: str(t) for n, t in types.items()}
        for n in self.types:
            if n not in self.generic:
                raise self.fail(tree, f"`{n}` is not a type parameter of `{f.__name__}`")

    def fail(self, node: ast.AST, message: str, help: str | None = None) -> SourceError:
        return self.source.fail(node, message, help)

    def parameters(self) -> tuple[list[str], list[str]]:
        """Types are what stands in the brackets of a view; everything else is a size."""
        a = self.tree.args
        if a.vararg or a.kwarg or a.kwonlyargs or a.defaults:
            raise self.fail(self.tree, "the parameters of a homomorphism are plain names: types, then sizes")
        used = {t.id for view in (self.outputs, self.inputs) for t in self.brackets(view) if isinstance(t, ast.Name)}
        names = [x.arg for x in (*a.posonlyargs, *a.args)]
        return [n for n in names if n in used], [n for n in names if n not in used]

    def brackets(self, e: ast.expr) -> list[ast.expr]:
        match e:
            case ast.Call(func=ast.Subscript(slice=ast.Tuple(elts=all_))):
                return all_
            case ast.Call(func=ast.Subscript(slice=one)):
                return [one]
        raise self.fail(e, "this is not part of a homomorphism", "out_view[T](...), md_hom[I, K](...), inp_view[T, T](...)")

    def writer(self, names: list[str]) -> Writer:
        w = Writer(self.source, self.scope, {}, set(self.sizes), marked=False)
        w.bound.update(names)
        return w

    # Views.

    def type(self, e: ast.expr) -> str:
        match e:
            case ast.Name(id=name) if name in self.generic:
                return self.types.get(name, name)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                known = self.scope.all.get(name) if isinstance(e, ast.Name) else BY_NAME.get(name.rstrip("_"))
                return str(known) if isinstance(known, ScalarType) else name
        raise self.fail(e, "this is not a type of an element")

    def view(self, e: ast.expr, word: str) -> tuple[list[tuple[str, list[ast.Lambda]]], str]:
        """Buffers with their accesses, and the view as text."""
        call = self.called(e, word)
        entries: list[tuple[Any, ast.expr]] = [(k.arg or "", k.value) for k in call.keywords]
        for d in call.args:
            if not isinstance(d, ast.Dict):
                raise self.fail(d, f"the buffers of {word} have names: {word}[T](A=[lambda i: (i)])")
            entries += [(k.value if isinstance(k, ast.Constant) else "", v) for k, v in zip(d.keys, d.values)]
        found, texts = [], []
        for name, value in entries:
            if not isinstance(name, str) or not name.isidentifier():
                raise self.fail(value, "a buffer has a name")
            accesses = value.elts if isinstance(value, (ast.List, ast.Tuple)) else [value]
            lambdas = [a for a in accesses if isinstance(a, ast.Lambda)]
            if not lambdas or len(lambdas) != len(accesses):
                raise self.fail(value, "accesses are functions of the indices", f"{name}=[lambda i, k: (i, k)]")
            found.append((name, lambdas))
            texts.append(f"{name}:" + ",".join(self.access(a) for a in lambdas))
        types = ",".join(self.type(t) for t in self.brackets(e))
        return found, f"{word}<{types}>( {', '.join(texts)} )"

    def access(self, a: ast.Lambda) -> str:
        indices = [x.arg for x in a.args.args]
        w = self.writer(indices)
        at = a.body.elts if isinstance(a.body, ast.Tuple) else [a.body]
        return f"({','.join(indices)})->({','.join(w.expr(x) for x in at)})"

    def called(self, e: ast.expr, word: str) -> ast.Call:
        match e:
            case ast.Call(func=ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name))) if name == word:
                return e
        raise self.fail(e, f"`{word}[...](...)` is expected here")

    # The scalar function.

    def scalar(self, e: ast.expr, outputs: list[tuple[str, list[ast.Lambda]]], inputs: list[tuple[str, list[ast.Lambda]]]) -> str:
        match e:
            case ast.Constant(value=str(name)):
                return name
            case ast.Lambda():
                names = [a.arg for a in e.args.args]
                w = self.writer(names)
                return f"({','.join(names)}) -> {w.expr(e.body)}"
            case ast.Name(id=name) if name in self.functions:
                return self.function(self.functions[name], outputs, inputs)
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in ("mul", "add"):
                return _NAMED[name]
        raise self.fail(e, "the scalar function is a function, or '*', '+', 'id'", "md_hom[I, K](lambda a, b: a * b, (cc, pw('+')))")

    def function(self, f: ast.FunctionDef, outputs: list[tuple[str, list[ast.Lambda]]],
                 inputs: list[tuple[str, list[ast.Lambda]]]) -> str:
        """`def f(out, inp, i, k)`: what each access of the outputs is set to."""
        names = [a.arg for a in f.args.args]
        if len(names) < 2:
            raise self.fail(f, "a scalar function has the parameters `out` and `inp`, then the indices")
        params = {(n, at): f"{n}_{at}" if len(all_) > 1 else n for n, all_ in inputs for at in range(len(all_))}
        taken = {*params.values(), *self.sizes}
        indices = [n if n not in taken else f"{n}_" for n in names[2:]]
        inline = _Inline(self, names[1], {n: len(all_) for n, all_ in inputs}, params, dict(zip(names[2:], indices)))
        values: dict[tuple[str, int], ast.expr] = {}
        for s in f.body:
            match s:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    inline.locals[name] = inline.visit(value)
                case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=base)) | ast.Subscript(value=ast.Subscript(value=ast.Name(id=base)))
                                         as target], value=value) if base == names[0]:
                    values[self.accessed(target, {n: len(all_) for n, all_ in outputs})] = inline.visit(value)
                case ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    raise self.fail(s, "a scalar function sets its outputs", "out['w'] = inp['M'] * inp['v']")
        wanted = [(n, at) for n, all_ in outputs for at in range(len(all_))]
        missing = [n for n in wanted if n not in values]
        if missing:
            raise self.fail(f, f"`{f.name}` does not set the output `{missing[0][0]}`")
        w = self.writer([*params.values(), *indices])
        results = [w.expr(values[n]) for n in wanted]
        return f"({','.join([*params.values(), *indices])}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"

    def accessed(self, e: ast.expr, counts: dict[str, int]) -> tuple[str, int]:
        """`x['w']`, `x['w'][1]`, `x['w', 1]`"""
        match e:
            case ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(n))) if counts.get(n) == 1:
                return n, 0
            case ast.Subscript(value=ast.Subscript(value=ast.Name(), slice=ast.Constant(value=str(n))), slice=ast.Constant(value=int(at))) \
                    | ast.Subscript(value=ast.Name(), slice=ast.Tuple(elts=[ast.Constant(value=str(n)), ast.Constant(value=int(at))])) \
                    if n in counts and 0 <= at < counts[n]:
                return n, at
        raise self.fail(e, "this is not an access of the views", "x['w'], or x['w'][1] where `w` has several accesses")

    # Operators.

    def operator(self, e: ast.expr, ty: str) -> str:
        match e:
            case ast.Name(id="cc" | "CC") | ast.Attribute(attr="cc" | "CC") | ast.Constant(value="++"):
                return "++"
            case ast.Call(func=ast.Name(id=word) | ast.Attribute(attr=word), args=[op]) if word.lower() in ("pw", "ps"):
                return f"{word.lower()}({self.combined(op, ty, word.lower())})"
        raise self.fail(e, "this is not a combine operator", "cc, pw('+'), ps(max)")

    def combined(self, e: ast.expr, ty: str, word: str) -> str:
        match e:
            case ast.Constant(value=str(name)) | ast.Name(id=name) | ast.Attribute(attr=name):
                if isinstance(e, ast.Name) and name in self.functions:
                    return self.declared(self.functions[name], ty, word)
                return _NAMED.get(name, name)
        raise self.fail(e, "an operator is a name, a function, '+' or '*'")

    def declared(self, f: ast.FunctionDef, ty: str, word: str) -> str:
        """A function of two values: one that there is by another name, else a declaration."""
        names = [a.arg for a in f.args.args]
        body = [s for s in f.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        match body:
            case [ast.Return(value=ast.expr() as value)] if len(names) == 2:
                left, right = names
            case [ast.Assign(targets=[ast.Subscript(value=ast.Name(id=res))], value=value)] if len(names) == 3 and res == names[0]:
                # The thesis's form: res['w'] = lhs['w'] + rhs['w'].
                left, right = names[1:]
                value = _Unsubscripted({left, right}).visit(value)
            case _:
                raise self.fail(f, "an operator returns what two values come to", "def plus(lhs, rhs): return lhs + rhs")
        w = self.writer([left, right])
        text = w.expr(value)
        known = {f"{left} + {right}": "+", f"{left} * {right}": "*", f"max({left}, {right})": "max", f"min({left}, {right})": "min",
                 f"{left} and {right}": "all", f"{left} or {right}": "any"}.get(text)
        if known:
            return known
        laws = "associative commutative" if word == "pw" else "associative"
        declaration = f"op {f.name}(x_: {ty}, y_: {ty}) -> {ty} {laws} = "
        renamed = _Renamed({left: "x_", right: "y_"}).visit(value)
        declaration += self.writer(["x_", "y_"]).expr(renamed)
        if declaration not in self.operators:
            self.operators.append(declaration)
        return f.name

    # All of it.

    def text(self) -> str:
        outputs, out_text = self.view(self.outputs, "out_view")
        inputs, inp_text = self.view(self.inputs, "inp_view")
        call = self.called(self.hom, "md_hom")
        if len(call.args) != 2 or call.keywords:
            raise self.fail(call, "md_hom has a scalar function and combine operators", "md_hom[I, K](mul, (cc, pw('+')))")
        extents = [x.id if isinstance(x, ast.Name) else "" for x in self.brackets(self.hom)]
        if not all(x in self.sizes for x in extents):
            raise self.fail(self.hom, "the extents of md_hom are sizes: parameters of the function")
        function = self.scalar(call.args[0], outputs, inputs)
        operators = call.args[1].elts if isinstance(call.args[1], (ast.Tuple, ast.List)) else [call.args[1]]
        ty = self.type(self.brackets(self.outputs)[0])
        element = "f32" if ty in self.generic else ty
        combined = ",".join(self.operator(o, element) for o in operators)
        generic = [n for n in self.generic if n not in self.types]
        head = " | ".join([*([f"{','.join(generic)} in TYPE"] if generic else []), f"{','.join(self.sizes)} in IN"])
        lines = [*comment(self.f), f"{self.f.__name__}<{head}> :=", f"    {out_text}",
                 f"  o md_hom<{','.join(extents)}>( {function}, ({combined}) )", f"  o {inp_text}", ""]
        return "\n".join(lines)

    # Shapes that are stated.

    def buffers(self, d: ast.expr) -> None:
        """`mdh(out(w=Buffer[T, [I]]), inp(M=Buffer[T, [I, K]]))`"""
        if not isinstance(d, ast.Call):
            return
        for part in [*d.args, *(k.value for k in d.keywords)]:
            entries: list[tuple[Any, ast.expr]] = [(k.arg, k.value) for k in part.keywords] if isinstance(part, ast.Call) else []
            if isinstance(part, ast.Dict):
                entries = [(k.value if isinstance(k, ast.Constant) else None, v) for k, v in zip(part.keys, part.values)]
            for name, value in entries:
                match value:
                    case ast.Subscript(value=ast.Name(id="Buffer"), slice=ast.Tuple(elts=[_, ast.List(elts=extents)])) if name:
                        self.stated.append((value, str(name), [ast.unparse(x) for x in extents]))
                    case ast.Subscript(value=ast.Name(id="Buffer")):
                        pass
                    case _:
                        raise self.fail(value, "this is not a buffer", "Buffer[T, [I, K]]")

    def compare(self, made: Kernel) -> None:
        """Shapes that are stated must be those that follow from the views."""
        derived = {n: kind[kind.index("[") + 1 : -1] for n, _, kind in made.parameters if "[" in kind}
        for node, name, extents in self.stated:
            if name not in derived:
                raise self.fail(node, f"no view has a buffer `{name}`")
            follow = ast.parse(f"[{derived[name]}]", mode="eval").body
            texts = [ast.unparse(x) for x in follow.elts] if isinstance(follow, ast.List) else []
            for point in itertools.product((11, 23), repeat=min(len(self.sizes), 6)):
                values = {n: point[i % len(point)] + i for i, n in enumerate(self.sizes)} | {"max": max, "min": min, "__builtins__": {}}
                try:
                    same = [eval(t, dict(values)) for t in extents] == [eval(t, dict(values)) for t in texts]  # noqa: S307
                except (NameError, TypeError) as e:
                    raise self.fail(node, f"this shape is not understood: {e}") from e
                if not same:
                    raise self.fail(node, f"`{name}` has the shape [{', '.join(texts)}], by its accesses")


class _Inline(ast.NodeTransformer):
    """Accesses of the inputs become parameters, and locals what they were set to."""

    def __init__(self, reader: _Reader, inp: str, counts: dict[str, int], params: dict[tuple[str, int], str],
                 indices: dict[str, str]) -> None:
        self.reader, self.inp, self.counts, self.params, self.indices = reader, inp, counts, params, indices
        self.locals: dict[str, ast.expr] = {}

    def visit_Subscript(self, e: ast.Subscript) -> ast.expr:
        base = e.value.value if isinstance(e.value, ast.Subscript) else e.value
        if isinstance(base, ast.Name) and base.id == self.inp:
            return ast.copy_location(ast.Name(self.params[self.reader.accessed(e, self.counts)], ast.Load()), e)
        self.generic_visit(e)
        return e

    def visit_Name(self, e: ast.Name) -> ast.expr:
        if e.id in self.locals:
            return self.locals[e.id]
        return ast.copy_location(ast.Name(self.indices.get(e.id, e.id), e.ctx), e)


class _Unsubscripted(ast.NodeTransformer):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Subscript(self, e: ast.Subscript) -> ast.expr:
        return e.value if isinstance(e.value, ast.Name) and e.value.id in self.names else e


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, e: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Name(self.names.get(e.id, e.id), e.ctx), e)
