"""The exceptions: the classes of the C++ library, each also one of Python's own that means the same."""
from __future__ import annotations


class Error(Exception):
    """The base of everything that the library raises."""


class ShapeError(Error, ValueError):
    """Extents, ranks, strides or numbers do not fit."""


class ElementError(ShapeError, TypeError):
    """A function does not take these elements."""


class BorrowError(Error, RuntimeError):
    """A tensor is in use, or its memory is shared with one that is written."""


class TraceError(Error, RuntimeError):
    """A kernel does what a recorded kernel may not do."""


class CompileError(Error, RuntimeError):
    """A kernel cannot be compiled, or the assembler is missing."""


class DeviceError(Error, RuntimeError):
    """A device failed, is missing, or has no memory left."""


class IoError(Error, OSError):
    """A file cannot be read or written."""


class MeshError(Error, RuntimeError):
    """A process of a group failed."""


class InternalError(Error, RuntimeError):
    """A mistake in the library itself."""


def of_kind(kind: str, text: str) -> Exception:
    """The exception for an error's name in C++."""
    if kind == "MemoryError":
        return MemoryError(text)
    found: type[Exception] = globals().get(kind, InternalError)
    return found(text)
