"""Arrays of other libraries as arguments, and results as arrays of the caller's library."""
from __future__ import annotations

import sys
from typing import Any

from . import _library
from ._errors import ElementError, ShapeError

CPU, CUDA, CUDA_HOST = 1, 2, 3  # DLPack's device types
_LEGACY_STREAM, _NO_ORDER = 1, -1  # DLPack's numbers of CUDA streams
_VERSION = (1, 1)  # of DLPack, the newest form that is understood


class Array:
    """A row-major array in memory of the library. It speaks DLPack: numpy.from_dlpack(a), torch.from_dlpack(a) and
    the like share its memory, which lives as long as anything uses it."""

    __slots__ = ("_handle", "shape", "dtype", "_device", "__weakref__")

    def __init__(self, handle: int) -> None:
        self._handle = handle
        #: The extents.
        self.shape: tuple[int, ...]
        #: The name of the element type: "f32", "bf16", ...
        self.dtype: str
        self.shape, self._device, self.dtype = _library.describe(handle)

    def __del__(self, free: Any = _library.array_free) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            free(handle)

    @property
    def device(self) -> str:
        """The device: "cpu" or "cuda:N"."""
        return "cpu" if self._device[0] == CPU else f"cuda:{self._device[1]}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: int | None = None, max_version: tuple[int, int] | None = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        if dl_device is not None and tuple(dl_device) != self._device:
            raise BufferError("a tessera.Array is lent on the device where it is; copy it afterwards")
        if copy:
            raise BufferError("a tessera.Array is lent without a copy; copy it afterwards")
        if self._device[0] == CPU and stream is not None:
            raise ShapeError("an array on the CPU has no stream: leave stream=None")
        versioned = max_version is not None and tuple(max_version) >= (1, 0)
        # Without a stream the legacy default one is meant.
        return _library.lend(self._handle, versioned, stream != _NO_ORDER,
                             stream or _LEGACY_STREAM)

    def __repr__(self) -> str:
        return f"tessera.Array(shape={self.shape}, dtype={self.dtype}, device={self.device})"


def _module_of(x: Any) -> str:
    return type(x).__module__.partition(".")[0]


def _current_stream(x: Any, device: tuple[int, int]) -> int:
    """The stream on which the array's library works now, as DLPack numbers streams."""
    library = sys.modules.get(_module_of(x))
    if library is not None and library.__name__ == "torch":
        return int(library.cuda.current_stream(device[1]).cuda_stream)
    if library is not None and library.__name__ == "cupy":
        return int(library.cuda.get_current_stream().ptr)
    return _LEGACY_STREAM


def _lend(name: str, position: int, x: Any, stream: int | None) -> Any:
    """The capsule by which an array lends itself, for work on `stream`."""
    try:
        try:
            capsule = x.__dlpack__(stream=stream, max_version=_VERSION)
        except TypeError:  # the protocol before DLPack 1.0
            capsule = x.__dlpack__(stream=stream)
    except BufferError as error:
        raise ElementError(f"{name}: argument {position} cannot be lent by DLPack: {error}") from error
    if _library.form_of(capsule) < 0:
        raise ElementError(f"{name}: argument {position} lends no tensor that can be taken")
    return capsule


def _device_of(name: str, position: int, x: Any) -> tuple[int, int]:
    ask = getattr(x, "__dlpack_device__", None)
    if ask is None or not hasattr(x, "__dlpack__"):
        raise TypeError(f"{name}: argument {position} is a {type(x).__name__}; expected an array that speaks DLPack "
                        "(NumPy, PyTorch, CuPy, JAX, tessera.Array)")
    kind, number = ask()
    return int(kind), int(number)


def _like(x: Any, made: Array) -> Any:
    """The result as an array of x's library, which shares its memory."""
    if isinstance(x, Array):
        return made
    library = sys.modules.get(_module_of(x))
    if library is not None and library.__name__ in ("jax", "jaxlib"):
        library = sys.modules.get("jax.dlpack")
    convert = getattr(library, "from_dlpack", None)
    if convert is None or (_module_of(x) == "numpy" and made.dtype in _NOT_IN_NUMPY):
        return made
    return convert(made)


_NOT_IN_NUMPY = ("bf16", "f8e4m3", "f8e5m2")


def call(name: str, tensors: tuple[Any, ...], numbers: tuple[float, ...] = (), stream: int | None = None) -> Any:
    """Calls the library's function `name`. Its result is an array of the first tensor's library; several are a tuple."""
    function = _library.FUNCTIONS[name]
    devices = [_device_of(name, position, x) for position, x in enumerate(tensors, 1)]
    on_gpu = devices[0][0] == CUDA
    if stream is not None and not on_gpu:
        raise ShapeError(f"{name}: the arrays are on the CPU, which has no streams: leave stream=None")
    if on_gpu:
        # What others call stream 0 is the legacy default stream, which DLPack numbers 1.
        stream = (_current_stream(tensors[0], devices[0]) if stream is None else stream) or _LEGACY_STREAM
    capsules = [_lend(name, position, x, stream if device[0] == CUDA else None)
                for position, (x, device) in enumerate(zip(tensors, devices), 1)]
    made = [Array(handle) for handle in _library.call(function, capsules, numbers, stream)]
    if len(made) == 1:
        return _like(tensors[0], made[0])
    return tuple(_like(tensors[0], one) for one in made)
