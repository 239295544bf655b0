"""Opens the runs that a command is given: those that cannot be are said, and the others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from wattstep.cli.saying import say
from wattstep.errors import DamagedRunError, WattstepError
from wattstep.schema.failures import Failures, contained

Opened = TypeVar("Opened")


def open_runs(
    paths: Iterable[Path], open_one: Callable[[Path], Opened], failures: Failures
) -> tuple[list[Opened], list[dict[str, str]]]:
    """Results of opening each run, without those that are damaged or fail.

    Args:
        paths: Of the runs.
        open_one: Function that opens a run.
        failures: Takes note of runs that fail.

    Returns:
        Results of opening, and of the others the run and its problem, JSON-ready.

    Raises:
        DamagedRunError: None of them can be opened.
    """
    opened: list[Opened] = []
    refusal: DamagedRunError | None = None
    damaged: list[dict[str, str]] = []
    for path in paths:
        try:
            opened.append(open_one(path))
        except DamagedRunError as error:
            refusal = error
            damaged.append({"run": str(path), "problem": str(error)})
        except WattstepError:  # what was asked for cannot be done, with no run
            raise
        except Exception as error:
            reason = contained(error)
            failures.add(str(path), reason)
            damaged.append({"run": str(path), "problem": f"{path} failed: {reason}"})
    if damaged and not opened:
        if len(damaged) == 1 and refusal is not None:
            raise refusal
        raise DamagedRunError("; ".join(each["problem"] for each in damaged))
    for each in damaged:
        say(f"wattstep: left out: {each['problem']}")
    return opened, damaged
