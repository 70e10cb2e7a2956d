"""Devices in programs: buffers that move by themselves, and launches that return at once.

A program names devices and says which parts of which buffers a kernel reads and writes. Memory, copies, streams, events and
their order follow; for kernels of Lathe the compiler knows reads and writes, so nothing is said at all.

    from lathe.device import Buffer, Devices, Kernel, dim3, read, write

    devices = Devices.of_kind("cuda")
    scale = Kernel.cuda('''__global__ void scale(float *y, const float *x, float a) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = a * x[i];
    }''')
    x, y = Buffer(devices, np.arange(1024, dtype=np.float32)), Buffer.empty(devices, 1024, np.float32)
    devices[0].launch(scale, dim3(4, 256), write(y), read(x), 2)
    y.numpy()                                    # waits, and copies y back
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence as _Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _lathe
from ._lathe import Grid, Launch, Memory, Part, Profile, Sequence, Tagged, dim3, nd_range, read, read_write, to_cuda, to_opencl, write
from .types import ScalarType

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "Buffer", "Device", "DeviceInfo", "Devices", "Grid", "Kernel", "Launch", "MappedBuffer", "Memory", "Part", "PinnedBuffer",
    "Profile", "Sequence", "Tagged", "dim3", "nd_range", "read", "read_write", "to_cuda", "to_opencl", "write",
]


@dataclass(frozen=True)
class DeviceInfo:
    """What a driver says of a device, as :func:`lathe.devices` lists it."""

    #: ``cuda:0``, ``opencl:1``.
    id: str
    #: ``cuda`` or ``opencl``.
    kind: str
    name: str
    #: The target of code: ``sm_90a``; for OpenCL the version that the device supports.
    arch: str
    memory_bytes: int
    #: Multiprocessors, compute units.
    multiprocessors: int
    #: What one block can have.
    shared_bytes: int
    #: What not every device has.
    features: tuple[str, ...]

    @staticmethod
    def _of(told: dict[str, Any]) -> DeviceInfo:
        return DeviceInfo(**{**told, "features": tuple(told["features"])})


def _infos(kind: str | None = None) -> list[DeviceInfo]:
    return [DeviceInfo._of(d) for d in _lathe.devices(kind)]


class Devices(_lathe.Devices):
    """Devices that share buffers, with numbers from 0: by their ids (``Devices(["cuda:0", "cuda:1"])``, one of which may be
    there several times), or by :meth:`of_kind`, :meth:`named`, :meth:`choose` and :meth:`all`.

    ``devices[n]`` is one of them, and a loop visits each. All that it does may be called from any threads.

    ``launch(kernel, *arguments, strategy=None, params=None, specialize=None)`` starts a kernel of Lathe as ``devices[n].launch``
    does, on all of them: loops that the strategy binds to devices (``bind(i, device)``) are shared by them, and each gets the
    parts of arrays that its iterations use.
    """

    @classmethod
    def of_kind(cls, kind: str) -> Self:
        """All devices of a kind: ``cuda``, ``opencl``."""
        found = _infos(kind)
        # Says why there is none.
        return cls([d.id for d in found] or [f"{kind}:0"])

    @classmethod
    def all(cls) -> Self:
        """All devices of this machine."""
        return cls._of(_infos(), "this machine has no device")

    @classmethod
    def named(cls, name: str) -> Self:
        """One device by its number (``cuda:1``; ``cuda`` is the first), or all whose name contains a text (``H100``)."""
        kind, _, number = name.partition(":")
        if kind in ("cuda", "opencl"):
            return cls([f"{kind}:{number or 0}"])
        return cls._of([d for d in _infos() if name in d.name], f"no device has `{name}` in its name")

    @classmethod
    def choose(cls, wanted: Callable[[DeviceInfo], bool]) -> Self:
        """All devices with a property: ``Devices.choose(lambda d: "f64" in d.features)``."""
        return cls._of([d for d in _infos() if wanted(d)], "no device of this machine is as wanted")

    @classmethod
    def _of(cls, found: list[DeviceInfo], none: str) -> Self:
        if not found:
            there = ", ".join(f"{d.id} ({d.name})" for d in _infos()) or "none"
            raise _lathe.fail("E0841", none, [f"it has {there}"], None)
        return cls([d.id for d in found])

    def __getitem__(self, number: int) -> Device:
        return Device(self, number if number >= 0 else max(number + len(self), -1) % (1 << 64))

    def __iter__(self) -> Iterator[Device]:
        return (Device(self, n) for n in range(len(self)))

    def __repr__(self) -> str:
        return f"<devices {', '.join(d.info.id for d in self)}>"


class Device(_lathe.Device):
    """One of several :class:`Devices`: ``devices[n]``.

    ``launch(kernel, grid, *arguments)`` starts a kernel in CUDA C or OpenCL C (:class:`Kernel`) once its arguments are there,
    and returns; arguments are ``read(part)``, ``write(part)``, ``read_write(part)`` and numbers. ``launch(kernel, *arguments,
    strategy=None, params=None, specialize=None)`` starts one of Lathe (:func:`lathe.kernel`) with its inputs, then its
    results, which are buffers, and numbers. What fails on the device is raised where the host waits for its results.
    """

    @property
    def info(self) -> DeviceInfo:
        """What the driver says of it."""
        return DeviceInfo._of(self.devices.info(self.number))

    def __repr__(self) -> str:
        return f"<device {self.info.id}: {self.info.name}>"

    def call(self, name: str, function: Callable[..., Any], *arguments: Tagged) -> Launch:
        """Calls a function that gives work to a library: ``function(*memory)``, with a :class:`Memory` for each buffer.

        The memory is on the device, is current there, and can be used until the function returns: by ``torch.from_dlpack``,
        ``torch.as_tensor``, ``cupy.asarray`` (nothing is copied), or by its ``pointer``. All work must go to the stream
        ``memory.queue``, which PyTorch and CuPy, where the program uses them, have as their current one meanwhile. The function
        must neither keep the memory nor use these devices, and is not called if something that it needs has failed.
        """
        def started(*memory: Memory) -> None:
            with ExitStack() as stack:
                if memory and memory[0].kind == "cuda":
                    _on_stream(stack, memory[0])
                function(*memory)

        return self.call_(name, arguments, started)

    def measure(self, kernel: Any, *arguments: Any, runs: int = 7, **options: Any) -> dict[str, Any]:
        """Launches a kernel some times, waits, and reports what the command's ``run`` and ``bench`` report of devices:
        ``device`` (``kind``, ``index``, ``name``, ``arch``), ``kernel_s`` (seconds of one run by the clock of the device, the
        median of ``runs`` runs after the first), ``launches`` of one run, ``transfers`` of the first run (``to_device_bytes``,
        ``from_device_bytes``, ``count``), and ``compiled``: ``new`` or ``cached``.
        """
        if isinstance(runs, bool) or not isinstance(runs, int) or runs < 1:
            raise _lathe.fail("E0917", f"`runs` is a whole number, at least 1, not {runs!r}", [], None)
        devices, info = self.devices, self.info
        before = devices.counters()
        first = self.launch(kernel, *arguments, **options)
        first.wait()
        after = devices.counters()
        compiled = first.compiled or ("new" if after["compiled"] > before["compiled"] else "cached")
        devices.keep_profile(True)
        try:
            times = []
            for _ in range(runs):
                self.launch(kernel, *arguments, **options).wait()
                spans = devices.profile().spans()
                times.append(sum(end - start for device, _, _, size, start, end in spans
                                 if device == self.number and size is None))
        finally:
            devices.keep_profile(False)
        kind, _, index = info.id.partition(":")
        return {
            "kernel": kernel.name,
            "device": {"kind": kind, "index": int(index), "name": info.name, "arch": info.arch},
            "kernel_s": statistics.median(times),
            "launches": after["launches"] - before["launches"],
            "transfers": {
                "to_device_bytes": after["to_device_bytes"] - before["to_device_bytes"],
                "from_device_bytes": after["from_device_bytes"] - before["from_device_bytes"],
                "count": after["copies"] - before["copies"],
            },
            "compiled": compiled,
        }


def _on_stream(stack: ExitStack, memory: Memory) -> None:
    """Makes the stream of a call the current one of the packages that the program uses."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and torch.cuda.is_available():
        stack.enter_context(torch.cuda.device(memory.number))
        stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(memory.queue, device=f"cuda:{memory.number}")))
    if cupy is not None:
        stack.enter_context(cupy.cuda.Device(memory.number))
        stack.enter_context(cupy.cuda.ExternalStream(memory.queue))


class Kernel(_lathe.DeviceKernel):
    """A kernel in CUDA C or OpenCL C, made by :meth:`cuda`, :meth:`opencl` or :meth:`file`.

    It is compiled for a device when that device needs it first, and kept in the user's cache. A simple kernel in one language
    runs on devices of the other; what has no counterpart is refused by its name. A source with one kernel needs no ``name``;
    ``flags`` are for the compiler (``"-DN=4"``).
    """

    @classmethod
    def cuda(cls, source: str, name: str | None = None, *, flags: Iterable[str] = ()) -> Self:
        """A kernel of a source in CUDA C."""
        return cls(source, "cuda", name, [*flags])

    @classmethod
    def opencl(cls, source: str, name: str | None = None, *, flags: Iterable[str] = ()) -> Self:
        """A kernel of a source in OpenCL C."""
        return cls(source, "opencl", name, [*flags])

    @classmethod
    def file(cls, path: str | os.PathLike[str], name: str | None = None, *, flags: Iterable[str] = ()) -> Self:
        """A kernel of a file: in OpenCL C if its name ends in ``.cl``, else in CUDA C."""
        return cls(os.fspath(path), None, name, [*flags])


class Buffer(Part):
    """An array of some devices: on the host, and in the memory of each device that uses it.

    ``Buffer(devices, array)`` copies an array of numpy, :meth:`empty` makes one with uninitialized elements, which may not be
    read. It knows byte by byte where its newest content is: what is current is not copied, what a kernel only writes is not
    copied to it, and what nobody reads is not copied back. ``buffer[a:b]`` is the part of these rows; ``part[...] = array``,
    ``part.set(array)`` and ``part.numpy()`` are accesses of the host, which wait for what they need.
    """

    _kind = "plain"

    def __new__(cls, devices: Devices, data: Any, dtype: Any = None) -> Self:
        array = np.asarray(data, None if dtype is None else _dtype(dtype))
        return super().__new__(cls, devices, cls._kind, array.dtype, array.shape, array)

    @classmethod
    def empty(cls, devices: Devices, shape: int | _Sequence[int], dtype: Any) -> Self:
        """A buffer of uninitialized elements: to read one before it was written is an error."""
        shape = (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)
        return super().__new__(cls, devices, cls._kind, _dtype(dtype), shape)


class PinnedBuffer(Buffer):
    """A :class:`Buffer` in page-locked memory of CUDA: copied faster and while kernels run, slow to allocate."""

    _kind = "pinned"


class MappedBuffer(Buffer):
    """A :class:`Buffer` in memory that devices use themselves: managed memory of CUDA, or the memory of a device of OpenCL that
    has no other. Nothing of it is copied."""

    _kind = "mapped"


_NUMPY = {"f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128", "index": "int64", "bool": "bool",
          **{f"{s}{n}": f"{'u' if s == 'u' else ''}int{n}" for s in "iu" for n in (8, 16, 32, 64)}}


def _dtype(given: Any) -> np.dtype[Any]:
    """numpy's description of a type: numpy's own, or one of Lathe's."""
    if isinstance(given, ScalarType):
        if given.name == "bf16":
            import ml_dtypes

            made: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
            return made
        given = _NUMPY[given.name]
    try:
        found: np.dtype[Any] = np.dtype(given)
    except TypeError as e:
        raise _lathe.fail("E0809", f"{given!r} is not a type of elements: {e}", [], "numpy.float32, lathe.f32") from e
    return found


def _values(data: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Elements that the host writes: an array of this type and shape, or one value. Nothing is converted but numbers of
    Python (called by the compiled part)."""
    if isinstance(data, (bool, int, float, complex)):
        from ._interop import _fits

        if not _fits(np.asarray(data), dtype):
            raise _lathe.fail("E0809", f"{data!r} is not a value of {dtype}", [], None)
        return np.full(shape, data, dtype)
    array = np.asarray(data)
    if array.dtype != dtype:
        raise _lathe.fail("E0809", f"the buffer holds {dtype}, the data {array.dtype}", [], f"data.astype(numpy.{dtype})")
    if array.shape != shape and array.ndim:
        raise _lathe.fail("E0811", f"the part has the shape {shape}, the data {array.shape}", [], "part.reshape(…)")
    return np.ascontiguousarray(np.broadcast_to(array, shape)).reshape(shape)


def _into(out: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Refuses an array that elements of a buffer are not copied to (called by the compiled part)."""
    if not isinstance(out, np.ndarray) or out.dtype != dtype:
        said = out.dtype if isinstance(out, np.ndarray) else f"a `{type(out).__name__}`"
        raise _lathe.fail("E0809", f"`out` is an array of {dtype}, the argument {said}", [], f"numpy.empty({shape}, numpy.{dtype})")
    if out.shape != shape:
        raise _lathe.fail("E0811", f"`out` has the shape {out.shape}, the part {shape}", [], None)
    if not out.flags.c_contiguous or not out.flags.aligned:
        raise _lathe.fail("E0813", "`out` is not in row-major order without gaps", [], "numpy.empty(…)")
    if not out.flags.writeable:
        raise _lathe.fail("E0822", "`out` is read-only", [], "numpy.empty(…)")
