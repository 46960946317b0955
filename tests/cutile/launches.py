"""What a test of a kernel is made of: its parameters, the grid, and what NumPy says the outputs are.

A case is a function of a random generator that gives a Launch. Its parameters are arrays, numbers and constants, in the order of the
kernel's own: an int, a float or a bool is a constant of the compilation, a tuple a tuple of these, a list a list of arrays.
"""
import dataclasses
import inspect
from collections.abc import Callable

import cuda.tile as ct
import numpy as np
from cuda.tile import compilation

from elements import ELEMENTS


@dataclasses.dataclass
class Input:
    """An array that the kernel reads; `expected`, if it writes it too: what is there afterwards.

    With `view` the kernel sees a view of the array that begins with its first element: the transpose, a part of it.
    With `wide` its extents and strides are of 64 bits, with `fixed` its extents are constants of the compilation.
    """
    element: str
    stored: np.ndarray
    expected: np.ndarray | None = None
    view: Callable | None = None
    wide: bool = False
    fixed: bool = False

    @property
    def numbers(self):
        return ELEMENTS[self.element].numbers(seen(self))


@dataclasses.dataclass
class Output:
    """An array that only the kernel writes. `tolerance` replaces that of the element type."""
    element: str
    expected: np.ndarray
    tolerance: float | None = None


@dataclasses.dataclass
class Number:
    """A number that is a parameter of the launch."""
    element: str
    value: float


@dataclasses.dataclass
class Launch:
    parameters: list
    grid: tuple = (1,)


class Random(np.random.Generator):
    """A generator that also makes arrays of the kernels' elements."""

    def __init__(self, seed):
        super().__init__(np.random.PCG64(seed))

    def array(self, element, *shape, scale=2.0):
        return Input(element, ELEMENTS[element].random(self, shape, scale))

    def bits(self, element, n):
        """Any bits."""
        stored = ELEMENTS[element].stored
        return Input(element, np.frombuffer(self.bytes(n * np.dtype(stored).itemsize), stored))

    def transposed(self, element, rows, columns, scale=2.0):
        """A matrix whose columns are contiguous."""
        return dataclasses.replace(self.array(element, columns, rows, scale=scale), view=np.transpose)

    def padded(self, element, rows, columns, scale=2.0):
        """A matrix whose rows are followed by other numbers."""
        whole = self.array(element, rows + self.extent(3), columns + self.extent(9), scale=scale)
        return dataclasses.replace(whole, view=lambda array: array[:rows, :columns])

    def extent(self, most):
        return int(self.integers(1, most, endpoint=True))


def blocks(extent, tile):
    return -(-extent // tile)


CASES = []  # (name, kernel, function)
WRONG = []  # (name, kernel, function of a launch and of whether it is the legal twin, part of the message)
REJECTED = []  # (name, kernel, function of a launch, part of the message)
SEVERAL = []  # (name, kernel, function of a launch and an element type)


def case(kernel, name=None):
    """Declares a case of a kernel."""
    def declare(function):
        CASES.append((name or name_of(kernel), kernel, function))
        return function
    return declare


def wrong(kernel, message):
    """Declares a launch with a mistake: checked mode finds it at the kernel's line that ends with `# here`. The function's
    second parameter says whether the launch is to be the legal twin."""
    def declare(function):
        WRONG.append((name_of(kernel), kernel, function, message))
        return function
    return declare


def rejected(kernel, message):
    """Declares a kernel that the package exports although it is not Tile IR: the verifier names the line with `# here`."""
    def declare(function):
        REJECTED.append((name_of(kernel), kernel, function, message))
        return function
    return declare


def several(kernel):
    """Declares a kernel that is exported for two element types into one file."""
    def declare(function):
        SEVERAL.append((f"{name_of(kernel)}_twice", kernel, function))
        return function
    return declare


def name_of(kernel):
    return kernel._pyfunc.__name__


def marked_line(kernel):
    """File and line of a kernel's comment `# here`."""
    lines, first = inspect.getsourcelines(kernel._pyfunc)
    [offset] = [i for i, line in enumerate(lines) if line.rstrip().endswith("# here")]
    return inspect.getsourcefile(kernel._pyfunc), first + offset


def seen(parameter):
    """An array whose extents and strides are those that the kernel sees."""
    if isinstance(parameter, Input):
        return parameter.view(parameter.stored) if parameter.view else parameter.stored
    return np.empty(np.shape(parameter.expected), ELEMENTS[parameter.element].stored)


def strides(array):
    return [stride // array.itemsize for stride in array.strides]


def constraint(parameter):
    """What the exported kernel is compiled for: nothing but the types, and that the last axis is contiguous where it is."""
    if isinstance(parameter, tuple):
        return compilation.TupleConstraint([constraint(p) for p in parameter])
    if isinstance(parameter, list):
        return compilation.ListConstraint(constraint(parameter[0]), alias_groups=(), elements_may_alias=False)
    if isinstance(parameter, Number):
        return compilation.ScalarConstraint(ELEMENTS[parameter.element].dtype)
    if not isinstance(parameter, (Input, Output)):
        return parameter
    array = seen(parameter)
    constant = [None] * array.ndim
    constant[-1] = 1 if strides(array)[-1] == 1 else None
    return compilation.ArrayConstraint(
        ELEMENTS[parameter.element].dtype, array.ndim, index_dtype=ct.int64 if getattr(parameter, "wide", False) else ct.int32,
        stride_lower_bound_incl=0, alias_groups=(), may_alias_internally=False, stride_constant=constant,
        shape_constant=array.shape if getattr(parameter, "fixed", False) else None)


def export(kernel, launch, path, version):
    """Writes a kernel's bytecode for a launch. The entry's arguments are, for each array, address, extents and strides; for
    each list, address and number of arrays."""
    export_signatures(kernel, [signature(launch, name_of(kernel))], path, version)


def export_all(kernel, launches, path, version):
    """Writes a file with an entry for each launch: `name_0`, `name_1` and so on."""
    export_signatures(kernel, [signature(l, f"{name_of(kernel)}_{i}") for i, l in enumerate(launches)], path, version)


def signature(launch, symbol):
    return compilation.KernelSignature([constraint(p) for p in launch.parameters], compilation.CallingConvention.cutile_python_v2(), symbol)


def export_signatures(kernel, signatures, path, version):
    compilation.export_kernel(kernel, signatures, path, gpu_code="sm_100", output_format="tileir_bytecode", bytecode_version=version)
