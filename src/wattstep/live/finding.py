"""Finds the run that is to be watched."""

from __future__ import annotations

from pathlib import Path

from wattstep.errors import DamagedRunError
from wattstep.schema.journal import JOURNAL, RUN
from wattstep.store.files import no_run
from wattstep.store.lock import is_recording


def find_run(path: Path) -> Path:
    """The run at a path, or in a folder of runs the newest that is being recorded.

    Raises:
        DamagedRunError: There is none.
    """
    if (path / RUN).is_file():
        return path
    if not path.is_dir():
        raise no_run(path)
    runs = [run.parent for run in path.glob(f"*/{RUN}")]
    recording = [run for run in runs if is_recording(run)]
    if not recording:
        raise DamagedRunError(
            f"no run is being recorded in {path}: name the folder of one", id="nothing-recording"
        )
    return max(recording, key=lambda run: (run / JOURNAL).stat().st_ctime_ns)
