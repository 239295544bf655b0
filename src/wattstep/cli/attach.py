"""`wattstep attach`: record a training that runs already, from outside."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from wattstep.cli.options import Full, Json, Live, Name, Out, Quiet, run_folder
from wattstep.cli.saying import say
from wattstep.cli.settings_options import with_settings


@with_settings(
    "seconds", "interval", "keep", "power_model", "target", "out", "name", "live", "full", "json",
    "quiet",
)  # fmt: skip
def attach(
    pid: Annotated[
        int, typer.Argument(min=1, metavar="PID", help="The process that trains: ps, or top.")
    ],
    seconds: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(min=0.1, help="How long; else until it ends, or Ctrl-C.", metavar="N"),
    ] = None,
    out: Out = Path("runs"),
    name: Name = None,
    live: Live = False,
    full: Full = False,
    json: Json = False,
    quiet: Quiet = False,
    **given: Any,
) -> None:
    """Record a training that runs already: cores and GPU, memory, power; no steps, no operations.

    Ctrl-C ends the recording; the training goes on.
    """
    from wattstep.cli.progress import watched_script
    from wattstep.cli.showing import show_runs
    from wattstep.record.attached import AttachedRecorder, program_of
    from wattstep.schema.settings import check_above_0
    from wattstep.store.files import new_name

    if seconds is not None:
        check_above_0(f"--seconds {seconds:g}", seconds)
    folder = Path(run_folder(out, name, new_name(program_of(pid))))
    with AttachedRecorder(pid, folder, **given) as recorder:
        if not quiet:
            say(
                f"wattstep: recording {recorder.info.title}, process {pid}; Ctrl-C ends the recording only"
            )
        with watched_script(folder, live=live, quiet=quiet), _interruptible():
            ended = recorder.watch(seconds)
            recorder.note(
                "the training ended while it was recorded"
                if ended
                else "the training went on after the recording"
            )
    show_runs([folder], json, full)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, or a signal to end, ends what is done here, and no more."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with contextlib.suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)
