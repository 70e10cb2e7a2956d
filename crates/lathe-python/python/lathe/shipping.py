"""Kernels compiled ahead of time, as a package of Python that needs no Lathe."""

from __future__ import annotations

import base64
import hashlib
import keyword
import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from . import _lathe
from .kernels import Kernel, _file_error

__all__ = ["ship"]

_TYPES = ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "index", "f16", "f32", "f64", "c64", "c128")


def ship(kernels: Kernel | Iterable[Kernel | tuple[Kernel, Mapping[str, Any]]], folder: str | os.PathLike[str], *, name: str,
         version: str = "0.1.0", cpu: str | None = None) -> Path:
    """Writes a wheel with these kernels, compiled now; returns its path.

    The package `name` has a function for each kernel, with the kernel's inputs as parameters and ``out=``; it needs numpy and
    nothing of Lathe. A kernel may come with options: ``(kernel, dict(strategy="fast", params={...}, specialize={...}))``. The
    code is for this processor, or for the oldest one of the family `cpu` (``x86-64-v3``, ``aarch64``, …).

    A C compiler must be there now (the environment's ``CC``, else ``cc``), and none where the wheel is used.

    >>> import lathe, tempfile
    >>> scale = lathe.kernel("kernel scale(a: f32, x: f32[N]) -> (y: f32[N]) { y[i] = a * x[i] }")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(lathe.ship(scale, folder, name="scales").name[:26])
    scales-0.1.0-py3-none-linu
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z_][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise _lathe.fail("E0917", f"a package has a name like `my_kernels`, not {name!r}", [], None)
    if not isinstance(version, str) or not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.(post|dev)\d+)?", version):
        raise _lathe.fail("E0917", f"a version is a text like `1.2.3`, not {version!r}", [], None)
    given = [kernels] if isinstance(kernels, Kernel) else list(kernels)
    taken: dict[str, tuple[Kernel, dict[str, Any]]] = {}
    for one in given:
        kernel, options = one if isinstance(one, tuple) and len(one) == 2 else (one, {})
        if not isinstance(kernel, Kernel):
            raise _lathe.fail("E0917", f"what is shipped are kernels, not {type(kernel).__name__}", [], "lathe.kernel(…)")
        if not isinstance(options, Mapping) or set(options) - {"strategy", "params", "specialize"}:
            raise _lathe.fail("E0917", f"the options of a kernel are strategy, params and specialize, not {options!r}", [], None)
        if kernel.name in taken:
            raise _lathe.fail("E0917", f"two kernels are called `{kernel.name}`", [], "a package has one function of a name")
        for parameter, _, kind in kernel.parameters:
            if kind.split("[")[0] not in _TYPES:
                raise _lathe.fail("E0809", f"`{parameter}` of `{kernel.name}` is {kind}, which a package cannot take", [],
                                  f"of these types: {', '.join(_TYPES)}")
        taken[kernel.name] = kernel, dict(options)
    if not taken:
        raise _lathe.fail("E0917", "a package has at least one kernel", [], None)
    with tempfile.TemporaryDirectory(prefix="lathe-") as room:
        library = _library(Path(room), taken, cpu)
        files = {f"{name}/__init__.py": _module(taken).encode(), f"{name}/kernels.so": library, f"{name}/py.typed": b""}
    platform = re.sub(r"[^a-zA-Z0-9_]", "_", sysconfig.get_platform())
    tag = f"py3-none-{platform}"
    info = f"{name}-{version}.dist-info"
    files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: Kernels compiled by Lathe\n"
                                 "Requires-Python: >=3.9\nRequires-Dist: numpy\n").encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: lathe\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    path = Path(folder) / f"{name}-{version}-{tag}.whl"
    try:
        _zip(path, files, f"{info}/RECORD")
    except OSError as e:
        raise _file_error("E0919", f"cannot write `{path}`", e) from e
    return path


def _library(room: Path, kernels: dict[str, tuple[Kernel, dict[str, Any]]], cpu: str | None) -> bytes:
    """A shared library with a function for each kernel, which takes descriptors alone."""
    stub, objects = ["#define LATHE_STANDALONE"], []
    for n, (kernel, options) in enumerate(kernels.values()):
        path = room / f"k{n}.o"
        kernel.emit("object", path, cpu=cpu, **options)
        objects.append(str(path))
        found = re.search(r"^int32_t (\w+)\(const lathe_runtime \*rt", path.with_suffix(".h").read_text(), re.M)
        assert found is not None, "a header declares its kernel"
        stub += [f'#include "k{n}.h"', f"int32_t lathe_call_{n}(const lathe_array *args) {{",
                 "    const lathe_runtime rt = lathe_default_runtime();", f"    return {found[1]}(&rt, args);", "}"]
    (room / "stub.c").write_text("\n".join(stub) + "\n")
    out = room / "kernels.so"
    compiler = shlex.split(os.environ.get("CC", "")) or ["cc"]
    command = [*compiler, "-std=gnu11", "-O2", "-shared", "-fPIC", "-fopenmp", "stub.c", *objects, "-lm", "-o", str(out)]
    try:
        done = subprocess.run(command, cwd=room, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as e:
        raise _lathe.fail("E0910", f"the C compiler `{compiler[0]}` cannot be run: {e}", [], "install one, or set CC") from e
    if done.returncode:
        raise _lathe.fail("E0910", f"the C compiler `{compiler[0]}` made no library of the kernels", done.stderr.splitlines()[:8], None)
    return out.read_bytes()


def _module(kernels: dict[str, tuple[Kernel, dict[str, Any]]]) -> str:
    """The package's text: what is the same for all, then a function for each kernel."""
    out = [resources.files(__package__).joinpath("_shipped.py").read_text()]
    functions = []
    for n, (kernel, options) in enumerate(kernels.values()):
        rules, formulas = kernel.shape_rules()
        params = [(p, mode, kind.split("[")[0], None if "[" not in kind else kind[kind.index("["):]) for p, mode, kind in kernel.parameters]
        function = kernel.name if not keyword.iskeyword(kernel.name) else kernel.name + "_"
        functions.append(function)
        doc = f"{kernel!r}"[1:-1].replace("lathe kernel ", "")
        fixed = dict(options.get("specialize") or {})
        out.append(f"{function} = _Function({n}, {function!r}, {doc!r}, {params!r}, {rules!r},\n    {formulas!r}, {fixed!r})\n")
    out.append(f"__all__ = {functions!r}\n")
    return "\n".join(out)


def _zip(path: Path, files: dict[str, bytes], record: str) -> None:
    """A wheel: its last file lists the others with their hashes. The same files give the same bytes."""
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files = {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".lathe-")
    try:
        with os.fdopen(handle, "wb") as f, zipfile.ZipFile(f, "w", zipfile.ZIP_DEFLATED) as z:
            for member, data in files.items():
                entry = zipfile.ZipInfo(member, (2020, 1, 1, 0, 0, 0))
                entry.external_attr = (0o755 if member.endswith(".so") else 0o644) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                z.writestr(entry, data)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
