"""Task of a cluster's worker: measures one configuration, and hands over its run."""

from __future__ import annotations

import io
import tempfile
import zipfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from wattstep.errors import RecordingError
from wattstep.schema.extras import require
from wattstep.schema.outcome import Outcome
from wattstep.sweep.hosts import LocalHost, Task
from wattstep.sweep.outcomes import host_of
from wattstep.train.child.measuring import Listener

TOPIC: Final = "wattstep"  # of the events by which a worker says that it begins


def measure_on_worker(task: Task, key: str) -> tuple[Outcome, bytes]:
    """Measures one configuration in a worker of the cluster.

    Args:
        task: The measurement; where its run goes is decided here.
        key: By which the worker says that it begins.

    Returns:
        The outcome, and the folder of its run as a zip file.
    """
    worker = require("distributed").get_worker()
    worker.log_event(TOPIC, {"key": key, "worker": worker.address})
    host = LocalHost(worker.address, worker=host_of(worker.address))
    warnings: list[str] = []
    listener = Listener(on_progress=lambda progress: None, on_warning=warnings.append)
    # Of a worker that was killed, the next one that has its files there clears this away.
    place = worker.local_directory
    with tempfile.TemporaryDirectory(prefix="wattstep-", dir=place) as folder:
        out = str(Path(folder, task.configuration.name))
        here = replace(task, settings=replace(task.settings, out=out))
        outcome = host.measure(here, listener)
        packed = pack(Path(folder))
    evidence = replace(outcome.evidence, notes=(*outcome.evidence.notes, *warnings))
    measured = replace(outcome, evidence=evidence, worker=worker.address, transferred=len(packed))
    return measured, packed


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
                raise RecordingError(
                    f"a worker sent {entry!r}, which is no part of {run.name}", id="not-asked-for"
                )
        archive.extractall(run.parent)  # which takes ".." and "/" out of names
