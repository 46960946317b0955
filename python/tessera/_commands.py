"""The commands `tessera` and `mortar`: programs of the package's folder, started in the place of Python."""
from __future__ import annotations

import os
import sys
from typing import NoReturn

import tessera


def _start(name: str) -> NoReturn:
    program = os.path.join(os.path.dirname(os.path.abspath(tessera.__file__)), "bin", name)
    try:
        os.execv(program, [name, *sys.argv[1:]])
    except FileNotFoundError:
        sys.exit(f"{name}: this package was built without the command {name} ({program} is missing)")


def tessera_command() -> NoReturn:
    _start("tessera")


def mortar_command() -> NoReturn:
    _start("mortar")
