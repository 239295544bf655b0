"""Measured ceilings of machines, kept in the user's cache folder and found again by what they depend on."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from wattstep.errors import DamagedRunError, RecordingError
from wattstep.schema.ceilings import PROCESSOR, Ceilings, identity
from wattstep.schema.device_ceilings import DeviceCeilings
from wattstep.schema.figure import Missing
from wattstep.schema.run_documents import MachineFacts
from wattstep.store.cache import cache_folder
from wattstep.store.folder import read_plain, replacing

FOLDER = "ceilings"


def keep(ceilings: Ceilings) -> Path:
    """Writes them where `find` looks; those of the same machine, version and threads give way.

    Raises:
        RecordingError: The folder cannot be written.
    """
    path = cache_folder() / FOLDER / f"{_key(ceilings)}.json"
    write(ceilings, path)
    return path


def write(ceilings: Ceilings | DeviceCeilings, path: Path) -> None:
    """Writes them into a file, whole or not at all.

    Raises:
        RecordingError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(json.dumps(ceilings.to_dict(), indent=1).encode() + b"\n")
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be written: {error.strerror or error}", id="unwritable-ceilings"
        ) from error


def read(path: Path) -> Ceilings:
    """The ceilings in a file.

    Raises:
        DamagedRunError: It cannot be read, or holds something else.
    """
    try:
        document = json.loads(read_plain(path))
    except OSError as error:
        raise DamagedRunError(
            f"{path} cannot be read: {error.strerror or error}", id="unreadable-ceilings"
        ) from error
    except ValueError as error:
        raise DamagedRunError(
            f"{path} holds no measured ceilings: {error}", id="damaged-ceilings"
        ) from error
    try:
        return Ceilings.from_dict(document)
    except DamagedRunError as error:
        raise DamagedRunError(f"{path}: {error}") from error


def find(device: MachineFacts, engine: str, threads: int | None) -> Ceilings | Missing:
    """The ceilings of a machine with a framework and a number of threads, or why there are none.

    Args:
        device: Facts of the machine.
        engine: Framework with its version, as `RunInfo.engine` has it.
        threads: Threads of an operation.
    """
    if threads is None:
        return Missing("the run does not say how many threads its operations used")
    name, _, version = engine.partition(" ")
    if not version:
        return Missing(f"the run does not say which version of {name or 'a framework'} it used")
    files = [read(path) for path in sorted((cache_folder() / FOLDER).glob("*.json"))]
    wanted = identity(device)
    for one in files:
        if one.device == wanted and one.engine == engine and one.threads == threads:
            return one
    return Missing(_unlike(files, wanted, engine, threads))


def _unlike(measured: list[Ceilings], device: MachineFacts, engine: str, threads: int) -> str:
    """Reason why none of them fits: those that come closest, and in what they differ."""
    if not measured:
        return "no ceilings were measured yet"
    same = [one for one in measured if one.device == device]
    if not same:
        return (
            f"ceilings were measured on another machine ({differences(measured[0].device, device)})"
        )
    of_version = [one for one in same if one.engine == engine]
    if not of_version:
        name, _, version = engine.partition(" ")
        other = next((one.engine for one in same if one.engine.startswith(f"{name} ")), None)
        used = engine if other is None else version
        return f"ceilings were measured with {other or same[0].engine}, the run used {used}"
    counts = ", ".join(str(count) for count in sorted(one.threads for one in of_version))
    return (
        f"ceilings were measured with other numbers of threads ({counts}), the run used {threads}"
    )


def differences(measured: MachineFacts, ran: MachineFacts) -> str:
    """In what two machines differ, in words."""
    return ", ".join(
        f"{key}: {measured.get(key)}, the run's: {ran.get(key)}"
        for key in PROCESSOR
        if measured.get(key) != ran.get(key)
    )


def _key(ceilings: Ceilings) -> str:
    # Names of files are those of before, when torch alone had ceilings.
    engine = ceilings.engine.removeprefix("torch ")
    parts = [*(str(ceilings.device.get(key)) for key in PROCESSOR), engine]
    text = "\0".join([*parts, str(ceilings.threads)])
    return hashlib.sha256(text.encode()).hexdigest()[:24]
