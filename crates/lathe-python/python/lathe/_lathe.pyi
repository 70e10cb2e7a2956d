"""The compiled part of the package."""

import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as _Sequence
from types import EllipsisType
from typing import Any, TypeAlias, final

import numpy as np
from typing_extensions import Self, disjoint_base

__version__: str

_Ints: TypeAlias = Iterable[int]
_Strings: TypeAlias = Iterable[str]

def give_external(name: str, address: int | None) -> None: ...
def link_external(library: str | bytes) -> None: ...


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
    @property
    def defaults(self) -> dict[str, Any]:
        """The numbers for inputs that calls may leave out, by name."""
    @property
    def is_tree(self) -> bool: ...
    def derived_tree(self, forward: bool, name: str, *, wrt: list[str], of: list[str], value: bool, allow_steps: bool,
                     checkpoints: int | None, directions: str | None) -> tuple[str, str]: ...
    def set_defaults(self, given: dict[str, Any]) -> None: ...
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

@disjoint_base
class Devices:
    def __new__(cls, ids: _Sequence[str]) -> Self: ...
    def __len__(self) -> int: ...
    def info(self, number: int) -> dict[str, Any]: ...
    def launch(self, kernel: Any, *args: Any, **options: Any) -> Launch:
        """Starts a kernel of Lathe on all of these devices, which its loops over devices share, and returns."""
    def all_reduce(self, parts: _Sequence[Part], combine: str = "sum") -> Launch:
        """The n-th part becomes, on the n-th device, the combination of all parts: "sum", "product", "max", "min"."""
    def reduce_scatter(self, arrays: _Sequence[Part], parts: _Sequence[Part], combine: str = "sum") -> Launch:
        """The n-th part becomes, on the n-th device, the combination of the n-th pieces of all arrays."""
    def broadcast(self, parts: _Sequence[Part], root: int = 0) -> Launch:
        """The n-th part becomes, on the n-th device, what the part of the device `root` is."""
    def all_gather(self, parts: _Sequence[Part], arrays: _Sequence[Part]) -> Launch:
        """The n-th array becomes, on the n-th device, all parts, one after the other."""
    def bound(self, device: int, bytes: int) -> None:
        """Buffers take at most so many bytes of a device from now on; what does not fit leaves it, and comes back when it is used."""
    def finish(self) -> None:
        """Waits until all that was launched has ended. What failed is raised where its results are used."""
    def counters(self) -> dict[str, int]:
        """What was moved, started and compiled so far."""
    def take_notices(self) -> list[str]:
        """What the user should know: that a device is full, once for each."""
    def keep_profile(self, keep: bool) -> None:
        """Takes times from now on, for :meth:`profile`, or does not."""
    def profile(self) -> Profile:
        """Waits for all that was launched; what ran since the profile was begun or taken the last time."""

@final
class Profile:
    def text(self) -> str:
        """A table: what took how long, by name."""
    def json(self) -> str:
        """All of it as JSON."""
    def svg(self) -> str:
        """A picture: a row for each queue, time from left to right."""
    def chrome(self) -> str:
        """The trace that ``chrome://tracing`` and Perfetto show."""
    def spans(self) -> list[tuple[int | None, int, str, int | None, float, float]]:
        """What devices did: number of the device, its queue, a name, bytes of a copy, begin and end in seconds."""
    def _repr_svg_(self) -> str: ...

@disjoint_base
class Device:
    def __new__(cls, devices: Devices, number: int) -> Self: ...
    @property
    def number(self) -> int:
        """Its number among the devices that it was opened with."""
    @property
    def devices(self) -> Devices:
        """The devices that it was opened with."""
    def launch(self, kernel: DeviceKernel | Kernel, *args: Any, **options: Any) -> Launch:
        """Starts a kernel once its arguments are there, and returns."""
    def compile(self, kernel: DeviceKernel) -> None:
        """Compiles a kernel in CUDA C or OpenCL C now, which its first launch would do otherwise."""
    def prefetch(self, part: Part) -> None:
        """Copies what is not there of a part to the device, without waiting."""
    def has(self, part: Part) -> bool:
        """Whether the newest elements of a part lie here, or will once what is under way has ended."""
    def call_(self, name: str, args: tuple[Any, ...], function: Callable[..., Any]) -> Launch: ...

@final
class Launch:
    @property
    def compiled(self) -> str | None:
        """Of a kernel of Lathe: ``new`` if this process compiled it, else ``cached``."""
    def wait(self) -> None:
        """Waits for it; what failed is raised, with the name of what failed first."""

@final
class Sequence:
    """Launches on one device that are started as one, which CUDA runs as a graph."""

    def __new__(cls, device: Device, name: str = "sequence") -> Self: ...
    def add(self, kernel: Any, *args: Any, **options: Any) -> None:
        """One more launch, as `Device.launch` takes it, after those that are there; nothing is started."""
    def __len__(self) -> int: ...
    def launch(self) -> Launch:
        """Starts all of them, as one launch."""

@disjoint_base
class DeviceKernel:
    def __new__(cls, source: str, language: str | None, name: str | None = None, flags: _Strings | None = None) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The parameters: name, and the type of a scalar, ``*`` for a buffer, ``__local`` for memory of a block."""

@disjoint_base
class Part:
    """Elements of a buffer that lie behind each other, with a shape."""

    def __new__(
        cls, devices: Devices, kind: str, dtype: np.dtype[Any], shape: _Ints, data: Any | None = None
    ) -> Self: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's description of the elements."""
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int:
        """The number of elements."""
    @property
    def nbytes(self) -> int: ...
    @property
    def devices(self) -> Devices:
        """The devices that it is for."""
    def __len__(self) -> int: ...
    def __getitem__(self, key: slice | EllipsisType, /) -> Part: ...
    def __setitem__(self, key: slice | EllipsisType, value: Any, /) -> None: ...
    def reshape(self, *shape: Any) -> Part:
        """The same elements in another shape, of as many."""
    def set(self, data: Any) -> None:
        """Writes elements from the host, once everything that uses them has ended: an array of this shape, or one value."""
    def numpy(self, out: np.ndarray | None = None) -> np.ndarray:
        """A copy of the elements as an array of numpy (or in one), once everything that writes them has ended."""
    def __array__(self, dtype: Any | None = None, copy: bool | None = None) -> np.ndarray: ...

@final
class Tagged:
    """A part with what a kernel does with it."""

@final
class Grid:
    """How many threads run."""

def dim3(blocks: int | _Ints, threads: int | _Ints, shared: int = 0) -> Grid:
    """Blocks, and threads in each, as CUDA says it; with so many bytes of shared memory."""

def nd_range(global_: int | _Ints, local: int | _Ints, shared: int = 0) -> Grid:
    """All threads, and those of a group, as OpenCL says it; groups must divide the whole."""

def read(part: Part) -> Tagged:
    """The kernel reads it."""

def write(part: Part) -> Tagged:
    """The kernel writes all of it: what it does not write is undefined afterwards, and what was there is not copied."""

def read_write(part: Part) -> Tagged:
    """The kernel reads it, and writes some of it."""

def to_cuda(source: str) -> str:
    """A source in OpenCL C as CUDA C, as far as it has a counterpart."""

def to_opencl(source: str) -> str:
    """A source in CUDA C as OpenCL C, as far as it has a counterpart."""

@final
class Memory:
    """The memory of a part on a device, as long as the call takes that it is given to."""

    @property
    def pointer(self) -> int | None:
        """An address (CUDA) or a ``cl_mem`` (OpenCL); ``None`` where there is no element."""
    @property
    def offset(self) -> int:
        """Where the part begins in a ``cl_mem``, in bytes."""
    @property
    def queue(self) -> int:
        """The stream, or the command queue."""
    @property
    def kind(self) -> str: ...
    @property
    def number(self) -> int:
        """The number of the device among those of its kind."""
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]:
        """numpy's description of the elements."""
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any: ...

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
def strided(array: np.ndarray, shape: _Sequence[int], strides: _Sequence[int]) -> np.ndarray: ...
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
    worker: _Sequence[str],
    listener: Callable[[dict[str, Any]], None] | None,
    device: str | None,
) -> dict[str, Any]: ...
def tune_function(
    function: Callable[[dict[str, Any]], Any],
    parameters: str,
    conditions: _Sequence[tuple[str, list[str], Callable[..., Any]]],
    starts: _Sequence[dict[str, Any]],
    order: str | None,
    rules: Mapping[str, Any],
    key: tuple[str, str] | None,
    listener: Callable[[dict[str, Any]], None] | None,
) -> dict[str, Any]: ...
def tune_command(
    file: str,
    arguments: _Sequence[str],
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
    parameters: str, conditions: _Sequence[tuple[str, list[str], Callable[..., Any]]]
) -> tuple[str, str]: ...
def ffi_content(kernel: Kernel, how: dict[str, Any], threads: int | None = None) -> tuple[str, str]: ...
def ffi_capsule() -> object: ...
def ffi_cuda_capsule() -> object: ...
