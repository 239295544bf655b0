"""What the user brings for a phone: MNN's library and the runner, built for its ABI, checked before anything runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.engines.mnn.engine import ENGINE
from wattstep.errors import InvalidValueError
from wattstep.remote.phone.elf import ABIS, ElfFile, read_elf
from wattstep.schema.sanitize import plain

PROGRAM: Final = "wattstep-mnn-runner"
FORMAT: Final = f"{PROGRAM} 1"  # what the program says of itself; its journal is of that version
# Libraries that no phone has: MNN's own, and C++'s where it is not put into them (c++_static).
_BROUGHT: Final = re.compile(r"libMNN.*\.so|libc\+\+_shared\.so")
_FUNCTION: Final = re.compile(r"_ZNK?3MNN")  # begins the compiler's names of what is MNN's
_ANSWER: Final = re.compile(rf"{FORMAT} (\d+\.\d+[\w.]*)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Runner:
    """Program and libraries that go to the phone.

    Attributes:
        program: The runner.
        libraries: That it loads, of those in its folder.
    """

    program: ElfFile
    libraries: tuple[ElfFile, ...]

    @property
    def files(self) -> tuple[Path, ...]:
        """All of them."""
        return (self.program.path, *(each.path for each in self.libraries))


def how_to_build(abi: str = "arm64-v8a") -> str:
    """Advice in a few words."""
    return (
        f"build MNN ({ENGINE.series}) and runner.cpp of the exported folder with Android's NDK for {abi}: "
        "two commands, at the head of that file"
    )


def find_runner(place: str | None) -> Runner:
    """The runner in a folder, with all that it loads from there; the phone is not asked.

    Args:
        place: The folder, as the target's option names it; None: none was.

    Raises:
        InvalidValueError: Something is missing, or is another thing; with what is to be built.
    """
    if place is None:
        raise InvalidValueError(
            f"--target adb: a phone has no engine: {how_to_build()}; then name the folder that holds "
            f"{PROGRAM} and libMNN.so: --target adb://SERIAL,runner=DIR",
            id="no-runner",
        )
    folder = Path(place)
    if not folder.is_dir():
        raise InvalidValueError(
            f"runner={place} is no folder: name the one that holds {PROGRAM} and libMNN.so",
            id="no-runner",
        )
    if not (folder / PROGRAM).is_file():
        raise InvalidValueError(
            f"runner={place} has no {PROGRAM}: {how_to_build()}", id="no-runner"
        )
    program = read_elf(folder / PROGRAM)
    if program.interpreter is None or FORMAT.encode() not in program.path.read_bytes():
        raise InvalidValueError(
            f"{program.path} is no {FORMAT}: build it anew from the runner.cpp that this wattstep's engines "
            "export writes",
            id="other-runner",
        )
    libraries = _libraries(folder, program)
    for each in libraries:
        if each.abi != program.abi:
            raise InvalidValueError(
                f"{each.path} is for {each.abi}, {PROGRAM} beside it for {program.abi}: "
                f"{how_to_build(program.abi)}",
                id="other-abi",
            )
    _check_functions(program, libraries)
    return Runner(program=program, libraries=libraries)


def _libraries(folder: Path, program: ElfFile) -> tuple[ElfFile, ...]:
    """What a program loads from its folder, and what that loads.

    Raises:
        InvalidValueError: One that no phone has is not there.
    """
    libraries: dict[str, ElfFile] = {}
    pending = [(program, name) for name in program.needed]
    while pending:
        of, name = pending.pop(0)
        if name in libraries:
            continue
        if (folder / name).is_file():
            libraries[name] = read_elf(folder / name)
            pending += [(libraries[name], other) for other in libraries[name].needed]
        elif _BROUGHT.fullmatch(name):
            raise InvalidValueError(
                f"{of.path} needs {name}, which no phone has: put the one that was built with it into {folder}",
                id="missing-library",
            )
    return tuple(libraries.values())


def _check_functions(program: ElfFile, libraries: Sequence[ElfFile]) -> None:
    """Refuses a library that lacks what the runner calls.

    Raises:
        InvalidValueError: With the functions, as the compiler names them.
    """
    given = frozenset().union(*(each.given for each in libraries), program.given)
    lacking = sorted(name for name in program.wanted - given if _FUNCTION.match(name))
    if lacking and all(each.given for each in libraries):
        names = ", ".join(each.path.name for each in libraries) or "no library beside it"
        raise InvalidValueError(
            f"{names} lack {len(lacking)} functions of MNN that {PROGRAM} calls ({', '.join(lacking[:3])}): "
            f"build both from one MNN, {ENGINE.series}, with libMNN.so whole (-DMNN_SEP_BUILD=OFF)",
            id="missing-functions",
        )


def check_abi(runner: Runner, abis: Sequence[str]) -> None:
    """Refuses a runner for other processors than the phone's.

    Args:
        runner: As found.
        abis: Of the phone, the best first; none: it does not tell.

    Raises:
        InvalidValueError: With what is to be built.
    """
    known = [abi for abi in abis if abi in ABIS.values()]
    if known and runner.program.abi not in known:
        raise InvalidValueError(
            f"{runner.program.path} is for {runner.program.abi}, the phone runs {', '.join(known)}: "
            f"{how_to_build(known[0])}",
            id="other-abi",
        )


def version_of(answer: str) -> str:
    """MNN's version, from what the runner says when it is tried on the phone.

    Raises:
        InvalidValueError: It does not run there, or its MNN is too old.
    """
    match = _ANSWER.search(answer)
    if match is None:
        lines = answer.strip().splitlines() or ["it says nothing"]
        raise InvalidValueError(
            f"{PROGRAM} does not start on the phone: {plain(lines[-1])}", id="runner-does-not-start"
        )
    version = match[1]
    if not ENGINE.fits(version):
        raise InvalidValueError(
            f"{PROGRAM} has MNN {version}, which may train otherwise: {how_to_build()}",
            id="engine-too-old",
        )
    return version
