"""Contents of folders named on a command line: runs, sweeps with the state of the device they had set, daily trainings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wattstep.cli.saying import say
from wattstep.errors import DamagedRunError
from wattstep.store.files import no_run

if TYPE_CHECKING:
    from wattstep.schema.outcome import Outcome

SWEEP = "sweep.json"  # what the folder of a sweep is known by
DAILY = "daily.json"  # and that of a daily training


@dataclass(frozen=True, kw_only=True)
class FolderContents:
    """Contents of some folders.

    Attributes:
        runs: Each run once, with the state of the device that a sweep had set, or "".
        daily: Daily trainings.
        outcomes: Of each sweep.
    """

    runs: dict[Path, str]
    daily: list[Path]
    outcomes: dict[Path, list[Outcome]]


def find(paths: Sequence[Path]) -> FolderContents:
    """Everything in these folders.

    Raises:
        DamagedRunError: One of them is not there, or holds nothing.
    """
    runs: dict[Path, str] = {}
    daily: list[Path] = []
    outcomes: dict[Path, list[Outcome]] = {}
    for path in dict.fromkeys(paths):
        if (path / DAILY).exists():
            daily.append(path)
        elif (path / SWEEP).exists():
            outcomes[path] = read_sweep(path)
            runs |= trained(path, outcomes[path])
        else:
            runs |= dict.fromkeys(expand([path]), "")
    by_place = {run.resolve(): (run, state) for run, state in runs.items()}  # each once
    return FolderContents(runs=dict(by_place.values()), daily=daily, outcomes=outcomes)


def read_sweep(path: Path) -> list[Outcome]:
    """Outcomes of the configurations of a sweep.

    Raises:
        DamagedRunError: It cannot be read.
    """
    from wattstep.sweep import folder

    folder.read_sweep(path)
    outcomes = folder.read_outcomes(path, lambda text: say(f"wattstep: {text}"))
    return list(outcomes.values())


def trained(path: Path, outcomes: Sequence[Outcome]) -> dict[Path, str]:
    """The runs of a sweep that are there, each with the state of the device that was set."""
    return {
        path / outcome.run: outcome.configuration.state
        for outcome in outcomes
        if outcome.status == "trained"
        and outcome.run is not None
        and (path / outcome.run / "run.json").exists()
    }


def asked(paths: Sequence[Path] | None, action: str) -> list[Path]:
    """As `expand`; of none the newest run in `runs`.

    Args:
        paths: As given.
        action: Command that asks, for the words.

    Raises:
        DamagedRunError: There is no run.
    """
    if paths:
        return expand(paths)
    files = list(Path("runs").glob("*/run.json"))
    if not files:
        raise DamagedRunError(f"no run lies in runs: wattstep {action} RUN", id="no-run-yet")
    newest = max(files, key=lambda file: file.stat().st_mtime_ns).parent
    return [newest]


def expand(paths: Sequence[Path]) -> list[Path]:
    """Runs as they are; folders as the runs in them, the oldest first.

    Raises:
        DamagedRunError: There is no run.
    """
    expanded = []
    for path in paths:
        if not path.is_dir():
            raise no_run(path)
        if not (path / "run.json").exists():
            inside = sorted(p.parent for p in path.glob("*/run.json"))
            if not inside:
                deeper = next(path.glob("*/*/run.json"), None)
                where = "" if deeper is None else f"; {deeper.parent.parent} does: give {path}/*"
                raise DamagedRunError(f"{path} is not a run, and holds none{where}")
            expanded.extend(inside)
        else:
            expanded.append(path)
    return expanded
