"""The C functions of libtessera_python.so, and DLPack's structures in capsules. Nothing of Python's own C interface
is compiled in, so one binary serves every version of Python."""
from __future__ import annotations

import ctypes
import os
from typing import Any, NoReturn

from . import _errors

_c = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "libtessera_python.so"))


class Lent(ctypes.Structure):
    """A structure of DLPack that is handed over, and its form."""

    _fields_ = [("managed", ctypes.c_void_p), ("versioned", ctypes.c_int32)]


def _function(name: str, result: Any, *arguments: Any) -> Any:
    f = getattr(_c, name)
    f.restype = result
    f.argtypes = arguments
    return f


_error_kind = _function("tessera_py_error_kind", ctypes.c_char_p)
_error_text = _function("tessera_py_error_text", ctypes.c_char_p)
_function_count = _function("tessera_py_function_count", ctypes.c_int)
_function_name = _function("tessera_py_function_name", ctypes.c_char_p, ctypes.c_int)
_MOST_RESULTS: int = _function("tessera_py_most_results", ctypes.c_int)()
_call = _function("tessera_py_call", ctypes.c_int, ctypes.c_int, ctypes.POINTER(Lent), ctypes.c_int,
                  ctypes.POINTER(ctypes.c_double), ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
array_free = _function("tessera_py_array_free", None, ctypes.c_void_p)
_describe = _function("tessera_py_array_describe", ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64),
                      ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_char_p))
_lend = _function("tessera_py_array_lend", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int,
                  ctypes.c_void_p)

# An own handle of Python's library: others may set other argument types on ctypes.pythonapi.
_python = ctypes.PyDLL(None)
_capsule_is = _python.PyCapsule_IsValid
_capsule_is.restype, _capsule_is.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_capsule_pointer = _python.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_capsule_rename = _python.PyCapsule_SetName
_capsule_rename.restype, _capsule_rename.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)
_capsule_new = _python.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_end = ctypes.cast(_c.tessera_py_capsule_end, ctypes.c_void_p)

# A capsule keeps the address of its name: these bytes live as long as the process.
_NAMES = (b"dltensor", b"dltensor_versioned")
_USED = (b"used_dltensor", b"used_dltensor_versioned")

#: The functions of the library, with their numbers.
FUNCTIONS = {_function_name(i).decode(): i for i in range(_function_count())}


def throw() -> NoReturn:
    """Raises the error that the last call on this thread left."""
    raise _errors.of_kind(_error_kind().decode(), _error_text().decode())


def form_of(capsule: Any) -> int:
    """0 for a capsule of the form before DLPack 1.0, 1 for the versioned one, -1 for anything else."""
    for form, name in enumerate(_NAMES):
        if _capsule_is(capsule, name):
            return form
    return -1


def call(function: int, capsules: list[Any], numbers: tuple[float, ...], stream: int | None) -> list[int]:
    """Calls a function. The capsules' tensors are taken over; the handles of the arrays that it made are returned."""
    lent = (Lent * len(capsules))()
    for i, capsule in enumerate(capsules):
        form = form_of(capsule)
        lent[i].managed, lent[i].versioned = _capsule_pointer(capsule, _NAMES[form]), form
    results = (ctypes.c_void_p * _MOST_RESULTS)()
    values = (ctypes.c_double * len(numbers))(*numbers)
    for i, capsule in enumerate(capsules):
        _capsule_rename(capsule, _USED[lent[i].versioned])
    if _call(function, lent, len(capsules), values, len(numbers), stream, results) != 0:
        throw()
    return [handle for handle in results if handle]


def describe(handle: int) -> tuple[tuple[int, ...], tuple[int, int], str]:
    """The extents, DLPack's device and the element type of an array."""
    shape = (ctypes.c_int64 * 8)()
    device = (ctypes.c_int32 * 2)()
    element = ctypes.c_char_p()
    rank = _describe(handle, shape, device, ctypes.byref(element))
    return tuple(shape[:rank]), (device[0], device[1]), (element.value or b"").decode()


def lend(handle: int, versioned: bool, ordered: bool, stream: int | None) -> Any:
    """A capsule that lends an array. With `ordered`, work that follows on the stream comes after its elements."""
    managed = _lend(handle, int(versioned), int(ordered), stream)
    if not managed:
        throw()
    return _capsule_new(managed, _NAMES[versioned], _capsule_end)
