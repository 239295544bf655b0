"""Loggers that get the figures of a run: one file each, and a line here."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from wattstep.errors import InvalidValueError
from wattstep.integrations.naming import named
from wattstep.run import Run, load
from wattstep.schema.extras import require

# Name to module; each has `open_named(place)` and `open_object(thing)`.
BACKENDS = {
    "mlflow": "wattstep.integrations.loggers.mlflow",
    "wandb": "wattstep.integrations.loggers.wandb",
    "tensorboard": "wattstep.integrations.loggers.tensorboard",
    "lightning": "wattstep.integrations.loggers.lightning",
}


class Destination(Protocol):
    """A logger's run that takes figures."""

    def numbers(self, values: Mapping[str, float], step: int) -> None:
        """Values by name, as they are after so many steps."""

    def words(self, words: Mapping[str, str]) -> None:
        """Texts by name, for the run as a whole."""

    def file(self, path: Path) -> None:
        """A file that belongs to the run; ignored by what keeps none."""


def log_run(
    run: Run | str | Path, to: Any, *, step: int | None = None, report: bool = False
) -> None:
    """Logs the figures of a recorded run.

    Args:
        run: The run, or its folder.
        to: "mlflow" (the active run), "wandb" (the active run), "tensorboard:FOLDER", a logger of
            Lightning, a SummaryWriter, a run of either library; or several of these in a list.
        step: At which they stand in the logger; the run's last step where it is None.
        report: True if the HTML report is attached, where the logger keeps files.

    Raises:
        InvalidValueError: Nothing of that kind is known, or no run of it is active.
        MissingPartError: Its library is not installed.
        DamagedRunError: The run cannot be read.
    """
    destinations = [open_destination(each) for each in (to if isinstance(to, list) else [to])]
    run = run if isinstance(run, Run) else load(run)
    if step is None:
        index = run.series.steps.index
        step = int(index[-1]) + 1 if len(index) else 0
    write_figures(run, destinations, step=step, report=report)


def write_figures(
    run: Run, destinations: Sequence[Destination], *, step: int, report: bool
) -> None:
    """Writes the figures of a run to destinations that are open already."""
    figures = named(run.metrics)
    figures.words["wattstep/run"] = run.path.name
    for each in destinations:
        each.numbers(figures.numbers, step)
        each.words(figures.words)
    if report:
        _attach_report(run, destinations)


def open_destination(to: Any) -> Destination:
    """Destination of figures that the user names, or that a logger's own object stands for.

    Raises:
        InvalidValueError: Nothing of that kind is known, or no run of it is active.
        MissingPartError: Its library is not installed.
    """
    if isinstance(to, str):
        name, _, place = to.partition(":")
        if name in BACKENDS:
            named_one: Destination = require(BACKENDS[name]).open_named(place)
            return named_one
    else:
        for module in BACKENDS.values():
            destination: Destination | None = importlib.import_module(module).open_object(to)
            if destination is not None:
                return destination
    known = "mlflow, wandb, tensorboard:FOLDER, or a logger of one of these"
    raise InvalidValueError(f"{to!r} takes no figures: give {known}")


def comes_from(thing: object, *libraries: str) -> bool:
    """True if an object's class, or a class above it, is one of these libraries'."""
    return any(
        kind.__module__ == library or kind.__module__.startswith(f"{library}.")
        for kind in type(thing).__mro__
        for library in libraries
    )


def _attach_report(run: Run, destinations: Sequence[Destination]) -> None:
    # Reports lie above this package: they are called by name, as `import wattstep` does it.
    report = importlib.import_module("wattstep.report.html.report")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{run.path.name}.html"
        report.write_report([report.read_run(run.path)], path)
        for each in destinations:
            each.file(path)
