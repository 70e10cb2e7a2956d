"""The compiled part of the package."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from typing_extensions import Self, disjoint_base

__version__: str

@disjoint_base
class Kernel:
    def __new__(cls, source: str, name: str | None = None, *, file: str | os.PathLike[str] | None = None) -> Self: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    @property
    def name(self) -> str:
        """The kernel's name."""
    @property
    def file(self) -> str:
        """The file that the source is from, or ``<kernel>``."""
    @property
    def sizes(self) -> list[str]:
        """The names of the sizes."""
    @property
    def parameters(self) -> list[tuple[str, str, str]]:
        """The parameters: name, ``in``, ``inout`` or ``out``, and type."""
    def source(self) -> str:
        """The source, with the definitions that it was made with."""
    def dtype(self, parameter: str) -> np.dtype[Any]:
        """numpy's description of the elements of a parameter."""
    def choice(self, types: dict[str, str]) -> str: ...
    def call_plain(self, *args: Any, **kwargs: Any) -> Any: ...
    def check_number(self, parameter: int, value: Any) -> None: ...
    def shape_rules(self) -> tuple[list[tuple[str, int, int, int, int, list[tuple[int, int]]]], list[list[str | None]]]: ...
    def debugging(self) -> Kernel | None: ...
    def shown(self, log: list[int]) -> tuple[list[str], BaseException | None]: ...
    def strategies(self) -> list[tuple[str, list[str]]]:
        """The names of the strategies that fit, with their parameters."""
    def compile_(self, how: dict[str, Any]) -> tuple[str, str, dict[str, str], list[str], bool]: ...
    def compile_call(self, *args: Any, **kwargs: Any) -> tuple[str, str, dict[str, str], list[str], bool]: ...
    def explain_(self, how: dict[str, Any], diff: bool) -> str: ...
    def explain_json(self, how: dict[str, Any]) -> str: ...
    def emit_(self, form: str, how: dict[str, Any], cpu: str | None = None) -> bytes: ...

def devices(kind: str | None) -> list[dict[str, Any]]: ...
def cache_folder() -> str | None:
    """Where compiled code is kept; ``None`` if nowhere."""

def get_threads() -> int:
    """How many threads kernels use that are not told."""

def set_threads(threads: int) -> None:
    """How many threads kernels use that are not told; 0 means all that the process may run on."""

def before_fork() -> None: ...
def after_fork(child: bool) -> None: ...
def lying(args: tuple[Any, ...]) -> bytes | None: ...
def strided(array: np.ndarray, shape: Sequence[int], strides: Sequence[int]) -> np.ndarray: ...
def format_source(source: str) -> str:
    """A source as ``lathe fmt`` writes it."""

def explain_code(code: str) -> tuple[str, str, str, str]: ...
def fail(code: str, text: str, notes: list[str], help: str | None) -> Exception: ...
def work() -> None: ...
def tune_kernel(
    kernel: Kernel,
    file: str,
    strategy: str | None,
    sizes: Mapping[str, int],
    inputs: Mapping[str, str],
    fixed: dict[str, Any],
    threads: int,
    specialize: bool,
    rules: Mapping[str, Any],
    worker: Sequence[str],
    listener: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]: ...
def tune_function(
    function: Callable[[dict[str, Any]], Any],
    parameters: str,
    conditions: Sequence[tuple[str, list[str], Callable[..., Any]]],
    starts: Sequence[dict[str, Any]],
    order: str | None,
    rules: Mapping[str, Any],
    key: tuple[str, str] | None,
    listener: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]: ...
def tune_command(
    file: str,
    arguments: Sequence[str],
    rules: Mapping[str, Any],
    timeout: float,
    memory: int | None,
    jobs: int,
    side_by_side: bool,
    repeated: tuple[int | None, bool],
    gold: tuple[str, float, str | None] | None,
    order: str | None,
    listener: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]: ...
def count_space(
    parameters: str, conditions: Sequence[tuple[str, list[str], Callable[..., Any]]]
) -> tuple[str, str]: ...
def ffi_content(kernel: Kernel, how: dict[str, Any], threads: int | None = None) -> tuple[str, str]: ...
def ffi_capsule() -> object: ...
