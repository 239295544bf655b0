"""Runners for MNN that run on this machine, built as for a phone: against the library in MNN's wheel."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from wattstep.remote.phone.runner import PROGRAM

SOURCE = Path(__file__).parents[3] / "src/wattstep/engines/mnn/runner.cpp"
DECLARATIONS = Path(__file__).parents[2] / "engines/phone_mnn"
# As the wheel's library was built: strings as before C++11, which a phone's libc++ knows nothing of.
OLD_STRINGS = "-D_GLIBCXX_USE_CXX11_ABI=0"


def missing() -> str | None:
    """Why there is no runner here; None where one can be built."""
    for tool in ("g++", "nm"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if importlib.util.find_spec("_mnncengine") is None:
        return "MNN is not installed"
    return None


def build_runner(folder: Path) -> Path:
    """A folder with the runner, MNN's library, and what that needs of Python by name alone."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    spec = importlib.util.find_spec("_mnncengine")
    wheel = Path(str(spec and spec.origin))
    folder.mkdir(parents=True)
    (folder / "libMNN.so").symlink_to(wheel)
    for library in wheel.parent.glob("mnn.libs/*"):
        (folder / library.name).symlink_to(library)
    undefined = ["nm", "-D", "--undefined-only", "--format=just-symbols", str(wheel)]
    names = subprocess.run(undefined, capture_output=True, check=True, text=True).stdout.split()
    python = "".join(f"char {name}[4096];\n" for name in names if name.startswith(("Py", "_Py")))
    (folder / "python.c").write_text(python)
    compile_("gcc", "-shared", "-fPIC", "python.c", "-o", "libpython.so", at=folder)
    build_program(folder, SOURCE)
    return folder


def build_program(folder: Path, source: Path) -> None:
    """Compiles a runner beside its libraries."""
    compile_(
        "g++", "-std=c++17", "-O1", OLD_STRINGS, f"-I{DECLARATIONS}", str(source), "-o", PROGRAM,
        "-Wl,--no-as-needed,--allow-shlib-undefined", "libMNN.so", "libpython.so", at=folder,
    )  # fmt: skip


def compile_(*command: str, at: Path) -> None:
    done = subprocess.run(command, cwd=at, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
