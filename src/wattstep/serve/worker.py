"""A process that opens runs and writes pages, so that the server itself never waits for one."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wattstep.errors import WattstepError
from wattstep.report.html.page import write_at_once
from wattstep.schema.failures import reason_of
from wattstep.serve.task import Task

if TYPE_CHECKING:
    from wattstep.insight.compare.sides import Side

SHOWN: Final = ("step_time", "energy_per_step")


def main() -> int:
    """Reads tasks as JSON lines, and answers each with one, until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends us
    os.nice(5)  # whoever trains on this machine comes first
    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()
    return 0


def answer(document: dict[str, Any]) -> dict[str, Any]:
    """`{"done": ...}`, or `{"error": ...}` in words for the reader.

    Args:
        document: A task, as `Task.to_dict` gives it.
    """
    task = Task(**document)
    try:
        return {"done": TASKS[task.task](task)}
    except WattstepError as error:
        return {"error": str(error)}
    except OSError as error:
        return {"error": f"{error.strerror or error}{f': {error.filename}' * bool(error.filename)}"}
    except Exception as error:  # a run that nothing foresaw is that run's problem alone
        reason = reason_of(error)
        print(f"wattstep: {task.task}: {reason}", file=sys.stderr)
        return {"error": f"cannot be worked out ({reason})"}


def _figures(task: Task) -> dict[str, Any]:
    """Figures of a run for the list, with the number of steps."""
    from wattstep.run import load

    run = load(task.paths[0])
    metrics = run.headline_report().metrics
    return {
        "steps": run.series.steps.recorded,
        **{name: metrics[name].to_dict() for name in SHOWN if name in metrics},
    }


def _document(task: Task) -> None:
    from wattstep.run import load

    _write_json(load(task.paths[0]).document(), task)


def _report(task: Task) -> None:
    from wattstep.errors import DamagedRunError
    from wattstep.report.html.report import Reported, Unreadable, read_run, render_report

    read = [read_run(Path(path)) for path in task.paths]
    runs = [run for run in read if isinstance(run, Reported)]
    unreadable = [run for run in read if isinstance(run, Unreadable)]
    unreadable += [Unreadable(path=place, reason=reason) for place, reason in task.left_out]
    if not runs:
        raise DamagedRunError("; ".join(run.reason for run in unreadable))
    _write_page(render_report(runs, unreadable, paper=False), task)


def _sweep(task: Task) -> None:
    from wattstep.report.html.sweep import render_sweep
    from wattstep.sweep.folder import load_sweep

    sweep = load_sweep(Path(task.paths[0]), warn=lambda text: print(text, file=sys.stderr))
    _write_page(render_sweep(sweep), task)


def _daily(task: Task) -> None:
    from wattstep.errors import DamagedRunError
    from wattstep.report.html.daily import render_daily
    from wattstep.train.daily.folder import DailyFolder
    from wattstep.train.daily.result import daily_report

    folder = DailyFolder(Path(task.paths[0]))
    if not (sizes := folder.batches()):
        raise DamagedRunError("no day of this training is done yet")
    _write_page(render_daily(daily_report(folder, sizes)), task)


def _compare(task: Task) -> None:
    """As `wattstep compare` has it: two sides in full, more as a matrix; or why it refuses."""
    from wattstep.errors import InvalidValueError
    from wattstep.insight.compare.comparing import differing
    from wattstep.insight.compare.sides import gathered, sides_among

    paths = [Path(path) for path in task.paths]
    if task.by == "configuration":
        sides = sides_among(paths, "what was chosen")
    else:
        sides = gathered([[path] for path in paths])
    try:
        _write_comparison(sides, task)
    except InvalidValueError as error:
        _write_json({"refused": error.document(), "differing": differing(sides)}, task)


def _write_comparison(sides: list[Side], task: Task) -> None:
    from wattstep.insight.compare.comparing import compare
    from wattstep.insight.compare.configuration import check_across
    from wattstep.insight.compare.matrix import compare_all
    from wattstep.report.html.compare import render_comparison, render_matrix

    across = check_across(task.across)
    if len(sides) == 2:
        comparison = compare(sides[0], sides[1], across)
        if task.as_json:
            _write_json(comparison.document(), task)
        else:
            _write_page(render_comparison(comparison), task)
        return
    matrix = compare_all(sides, None, across)
    if task.as_json:
        _write_json(matrix.document(), task)
    else:
        _write_page(render_matrix(matrix), task)


def _recover(task: Task) -> None:
    """Closes a run that was never closed: its journals become tables.

    Raises:
        RecordingError: It came from elsewhere, and is never written into.
    """
    from wattstep.errors import RecordingError
    from wattstep.run import load
    from wattstep.schema.journal import JOURNAL
    from wattstep.store.folder import Folder

    path = Path(task.paths[0])
    load(path)
    with Folder(path) as folder:
        if JOURNAL in folder.names():
            why = folder.foreign() or "it is being written"
            raise RecordingError(
                f"nothing is written into {path}: {why}; wattstep report reads it as it is"
            )


def _write_page(text: str, task: Task) -> None:
    write_at_once(text, Path(task.output))


def _write_json(document: Any, task: Task) -> None:
    from wattstep.report.json_document import dump

    stream = io.StringIO()
    dump(document, stream)
    write_at_once(stream.getvalue(), Path(task.output))


TASKS: Final[Mapping[str, Callable[[Task], Any]]] = {
    "figures": _figures,
    "document": _document,
    "report": _report,
    "sweep": _sweep,
    "daily": _daily,
    "compare": _compare,
    "recover": _recover,
}
