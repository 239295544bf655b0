"""What a worker of a cluster does: measures one configuration, and hands over its run."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import RecordingError
from wattstep.fleet.cooling import cool_down
from wattstep.fleet.limits import MemoryLimit, beyond_machine, find_limit
from wattstep.fleet.measuring import Listener, measure
from wattstep.fleet.outcome import Configuration, Outcome
from wattstep.fleet.place import one_at_a_time
from wattstep.fleet.workers import host_of
from wattstep.parts import load_part
from wattstep.training import TrainingSettings

TOPIC: Final = "wattstep"  # of the events by which a worker says that it begins


def measure_there(task: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Measures one configuration in a worker of the cluster.

    Args:
        task: `key`, `configuration`, `settings`, `memory_limit`, `cooldown`, and `baselines`: °C
            by host, None where nothing can be read; a host that is not there measures its first.

    Returns:
        The outcome as a mapping, and the folder of its run as a zip file.
    """
    worker = load_part("distributed").get_worker()
    configuration = Configuration(**task["configuration"])
    host = host_of(worker.address)
    rule = task["cooldown"] if host in task["baselines"] else "none"
    with one_at_a_time():  # another worker on this machine would disturb
        worker.log_event(TOPIC, {"key": task["key"], "worker": worker.address})
        limit = None if task["memory_limit"] is None else find_limit(task["memory_limit"])
        cooled = cool_down(rule, task["baselines"].get(host))
        outcome, packed, said = _measure_and_pack(configuration, task["settings"], limit)
    too_much = None if limit is None else beyond_machine(limit)
    notes = (*outcome.evidence.notes, *filter(None, (cooled.note, too_much)), *said)
    outcome = replace(
        outcome,
        evidence=replace(outcome.evidence, notes=notes),
        worker=worker.address,
        cooled=cooled.seconds,
        temperature=cooled.temperature,
        transferred=len(packed),
    )
    return outcome.to_dict(), packed


def _measure_and_pack(
    configuration: Configuration, settings: Mapping[str, Any], limit: MemoryLimit | None
) -> tuple[Outcome, bytes, list[str]]:
    """The outcome, its run as a zip file, and what was warned of."""
    warnings: list[str] = []
    listener = Listener(on_progress=lambda progress: None, on_warning=warnings.append)
    with tempfile.TemporaryDirectory(prefix="wattstep-") as folder:
        out = str(Path(folder, configuration.name))
        there = TrainingSettings(**{**settings, "out": out})
        outcome = measure(configuration, there, limit, listener)
        return outcome, pack(Path(folder)), warnings


def pack(folder: Path) -> bytes:
    """A folder as a zip file; runs of a sweep are small where few steps are traced."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def unpack(packed: bytes, run: Path) -> None:
    """Unpacks beside `run`, which is one of the entries; nothing lands outside of the folder."""
    with closing(zipfile.ZipFile(io.BytesIO(packed))) as archive:
        for entry in archive.namelist():
            if Path(entry).parts[:1] not in ((run.name,), (f"{run.name}.txt",)):
                raise RecordingError(f"a worker sent {entry!r}, which is no part of {run.name}")
        archive.extractall(run.parent)  # which takes ".." and "/" out of names
