"""Programs of OpenCL C: from the package's sources or another, built once for each device in use and set of constants."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import resources
from types import MappingProxyType
from typing import Any, Final

from wattstep.errors import DeviceFaultError
from wattstep.opencl.device import Opened
from wattstep.schema.extras import require

KERNELS: Final = "kernels"
OPTIONS: Final = ("-cl-std=CL1.2", "-cl-mad-enable", "-cl-no-signed-zeros")
LOG_LINES: Final = 20  # of a driver's log in an error
NO_DEFINES: Final[Mapping[str, int]] = MappingProxyType({})


class BuildError(DeviceFaultError):
    """A kernel that a driver does not build; the error ends with the driver's log."""

    id = "opencl-build"


def source(file: str) -> str:
    """The package's `kernels/<file>.cl`."""
    return (resources.files(__package__) / KERNELS / f"{file}.cl").read_text(encoding="utf-8")


def program(opened: Opened, file: str, defines: Mapping[str, int] = NO_DEFINES) -> Any:
    """The program of one of the package's sources.

    Args:
        opened: Device that it is built for.
        file: Name below `kernels/`, without `.cl`.
        defines: Constants of the preprocessor.

    Raises:
        BuildError: The driver does not build it.
    """
    key = (file, frozenset(defines.items()))
    if key not in opened.programs:
        opened.programs[key] = build(opened, source(file), defines)
    return opened.programs[key]


def kernel(opened: Opened, file: str, name: str, defines: Mapping[str, int] = NO_DEFINES) -> Any:
    """A kernel of a program of the package's; each call gives another, which holds arguments of its own.

    Raises:
        BuildError: As `program`, or the program has no such kernel.
    """
    cl = require("pyopencl")
    try:
        return cl.Kernel(program(opened, file, defines), name)
    except cl.Error as error:
        raise BuildError(f"{opened.device.name}: kernel {name} of {file}: {error}") from error


def build(opened: Opened, text: str, defines: Mapping[str, int] = NO_DEFINES) -> Any:
    """A program of a source.

    Raises:
        BuildError: The driver does not build it.
    """
    cl = require("pyopencl")
    options = [*OPTIONS, *(f"-D{name}={value}" for name, value in sorted(defines.items()))]
    try:
        with warnings.catch_warnings():  # a driver's remarks on what it builds all the same
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return cl.Program(opened.context, text).build(options)
    except cl.Error as error:
        raise BuildError(
            f"{opened.device.name} ({opened.device.driver}) does not build a kernel: {_log(error)}"
        ) from error


def _log(error: Exception) -> str:
    """The driver's log out of pyopencl's message, which has the options and the status around it."""
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("(options:", "(source saved"))]
    begin = next((n + 1 for n, line in enumerate(told) if line.startswith("Build on ")), 0)
    return "\n".join(told[begin:][:LOG_LINES] or told[:1])
