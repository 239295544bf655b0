"""Trains in a fresh child process, so that peaks of memory are the training's and nobody else's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from wattstep.errors import RecordingError, WattstepError
from wattstep.processes import child_command, ends_with_us, outwait
from wattstep.store.files import new_name
from wattstep.training import Progress, TrainingSettings


def train_in_child(
    settings: TrainingSettings,
    on_progress: Callable[[Progress], None],
    on_warning: Callable[[str], None],
) -> Path:
    """Trains and records in a child process.

    Returns:
        The run.

    Raises:
        WattstepError: What the child says is wrong, or that it was killed.
        KeyboardInterrupt: The user stopped it; what was recorded is kept.
    """
    out = settings.out or str(Path("runs") / new_name(settings.workload))
    settings = replace(settings, out=out)
    reading, writing = os.pipe()
    child = subprocess.Popen(
        child_command("wattstep.training:main", str(writing), json.dumps(asdict(settings))),
        stdout=sys.stderr,  # what a workload prints must not land in our JSON
        pass_fds=[writing],
    )
    os.close(writing)
    error: str | None = None
    interrupted = False
    with ends_with_us(child), os.fdopen(reading, encoding="utf-8") as news:
        while True:
            try:
                line = news.readline()
                if not line.endswith("\n"):  # the end, or cut off by the end
                    break
                document = json.loads(line)
                if "progress" in document:
                    on_progress(Progress(**document["progress"]))
                elif "warning" in document:
                    on_warning(document["warning"])
                error = document.get("error") or document.get("problem") or error
            except KeyboardInterrupt:  # the child got it as well, and closes its run
                interrupted = True
        code = outwait(child)
    if interrupted or code == 130:
        raise KeyboardInterrupt
    if error is not None:
        kept = f" (the run up to then: {out})" if Path(out, "run.json").exists() else ""
        raise WattstepError(error + kept)
    if code != 0:
        raise RecordingError(_ended(code, out))
    return Path(out)


def _ended(code: int, out: str) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    kept = (
        f"; what was recorded up to then is kept: wattstep report {out}"
        if Path(out, "run.json").exists()
        else "; nothing had been recorded"
    )
    return f"the training process {how}{kept}"
