"""The folder of a sweep: its settings, and one line an outcome, each of which outlives a power cut."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from wattstep.errors import DamagedRunError, InvalidValueError
from wattstep.schema.checks import facts
from wattstep.schema.configuration import unlike_machines
from wattstep.schema.journal import JOURNAL
from wattstep.schema.outcome import Outcome
from wattstep.schema.run_checks import MACHINE
from wattstep.schema.run_documents import MeasuringMachine
from wattstep.schema.sweep_report import PaperRows, SweepReport
from wattstep.store.files import write_whole
from wattstep.store.folder import Folder, read_plain, replacing
from wattstep.store.lock import lock_folder
from wattstep.sweep.plan import SweepPlan, differences, joined
from wattstep.train.child.local_machine import unlike
from wattstep.train.child.measuring import recording_errors
from wattstep.workloads.paper_table import PAPER, TABLE

SWEEP: Final = "sweep.json"
OUTCOMES: Final = "sweep.jsonl"
MOST_OUTCOMES: Final = 1 << 30  # bytes
REPORT: Final = "report.html"
LOCK: Final = "sweep.lock"
_SCHEMA: Final = 1  # 1: first format (November 2026)


class SweepFolder:
    """A sweep's folder while it is being written; outcomes of an earlier turn are there.

    Args:
        path: The folder; made where it is not there.
        plan: Plan of the sweep.
        machine: Facts that must not differ between outcomes that stand side by side.
        warn: Told of lines that cannot be read.

    Raises:
        InvalidValueError: It holds a sweep with other settings, or something else.
        RunExistsError: Another sweep is writing into it.
        RecordingError: It cannot be written.
    """

    def __init__(
        self, path: Path, plan: SweepPlan, machine: MeasuringMachine, warn: Callable[[str], None]
    ) -> None:
        self.path = path
        if (path / "run.json").exists():
            raise InvalidValueError(
                f"{path} is a run: --out names the folder of the sweep", id="run-as-folder"
            )
        with ExitStack() as opened:  # what is open is closed again where the rest fails
            opened.enter_context(recording_errors(path))
            path.mkdir(parents=True, exist_ok=True)
            opened.callback(os.close, lock_folder(path, LOCK, "another sweep"))
            self._document = self._opened(plan, machine)
            self.outcomes = read_outcomes(path, warn)
            with Folder(path) as folder, folder.keep(OUTCOMES) as file:
                self._lines = os.dup(file.fileno())
                opened.callback(os.close, self._lines)
            self._end_line()
            self.save(0.0)
            self._open = opened.pop_all()

    def clear(self, name: str) -> str:
        """Makes room for the run of this name; what an interruption left of it is removed.

        Raises:
            InvalidValueError: Something in its place is not of the sweep.
        """
        run = self.path / name
        if run.exists() and not _is_ours(run):
            raise InvalidValueError(
                f"{run} is in the way, and is no run: move it elsewhere", id="in-the-way"
            )
        shutil.rmtree(run, ignore_errors=True)
        return str(run)

    def add(self, outcome: Outcome) -> None:
        """Appends an outcome; it is on the disk when this returns.

        Raises:
            RecordingError: The disk is full, or gone.
        """
        line = json.dumps(outcome.to_dict(), allow_nan=False) + "\n"
        with recording_errors(self.path):
            write_whole(self._lines, line.encode("ascii"))
            os.fsync(self._lines)
        self.outcomes[outcome.configuration.name] = outcome

    def save(self, seconds: float) -> None:
        """Replaces `sweep.json`; `seconds` is how long this turn has taken.

        Raises:
            RecordingError: The disk is full, or gone.
        """
        self._document["sessions"][-1] = round(seconds, 3)
        text = json.dumps(self._document, indent=1)
        with recording_errors(self.path), replacing(self.path / SWEEP) as file:
            file.write(text.encode())

    def close(self) -> None:
        """Lets go of the folder."""
        self._open.close()

    def _opened(self, plan: SweepPlan, machine: MeasuringMachine) -> dict[str, Any]:
        """`sweep.json` for this turn.

        Raises:
            InvalidValueError: It is that of another sweep.
        """
        before = read_sweep(self.path) if (self.path / SWEEP).exists() else None
        axes = plan.axes
        limits, workloads_of = plan.device_limits, plan.workloads_of
        sessions = [0.0]
        if before is not None:
            problems = differences(before["settings"], plan.shared)
            known = before.get("device_limits", {})
            problems += [f"memory limit: {difference}" for difference in unlike(known, limits)]
            problems += unlike({"where": _where(before["machine"])}, {"where": _where(machine)})
            problems += unlike_machines(before["machine"], machine)
            if problems:
                raise InvalidValueError(
                    f"{self.path} holds a sweep with other settings ({'; '.join(problems)}): "
                    "give the same ones, or another --out",
                    id="other-settings",
                )
            workloads_of = joined(_workloads_of(before), workloads_of)
            axes = joined(before["axes"], axes)
            axes["batches"].sort()
            limits = {**known, **limits}
            sessions = [*before["sessions"], 0.0]
        return {
            "schema": _SCHEMA,
            "settings": plan.shared,
            "axes": axes,
            "machine": dict(machine),
            "device_limits": limits,
            "workloads_of": workloads_of,
            "sessions": sessions,
        }

    def _end_line(self) -> None:
        """A line that was cut off must not swallow the next one."""
        size = os.fstat(self._lines).st_size
        if size and os.pread(self._lines, 1, size - 1) != b"\n":
            write_whole(self._lines, b"\n")


def _where(machine: MeasuringMachine) -> str:
    return machine.get("where", "one machine")


def read_sweep(path: Path) -> dict[str, Any]:
    """`sweep.json` of a folder.

    Raises:
        DamagedRunError: It is not there or cannot be read.
    """
    try:
        document = json.loads(read_plain(path / SWEEP))
        if document["schema"] != _SCHEMA:
            raise DamagedRunError(
                f"{path / SWEEP} has schema {document['schema']}, this wattstep reads {_SCHEMA}",
                id="other-schema",
            )
        for key, kind in (
            ("settings", dict),
            ("axes", dict),
            ("machine", dict),
            ("sessions", list),
        ):
            if not isinstance(document[key], kind):
                raise TypeError(key)
        document["machine"] = facts(MACHINE)(document["machine"])
        if not all(isinstance(each, list) for each in _workloads_of(document).values()):
            raise TypeError("workloads_of")
    except FileNotFoundError as error:
        raise DamagedRunError(
            f"{path} is not a sweep: it has no {SWEEP}", id="not-a-sweep"
        ) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedRunError(
            f"{path / SWEEP} cannot be read: {error}", id="unreadable-sweep"
        ) from error
    return dict(document)


def _workloads_of(document: Mapping[str, Any]) -> dict[str, list[str]]:
    """Of each device that has a name; in sweeps of before 22 November 2026 all went to each."""
    axes = document["axes"]
    devices = [device for device in axes.get("devices", ()) if device is not None]
    return {**dict.fromkeys(devices, axes["workloads"]), **document.get("workloads_of", {})}


def read_outcomes(path: Path, warn: Callable[[str], None]) -> dict[str, Outcome]:
    """The outcomes by the name of their configuration, the last of each; none where there are none.

    A line that cannot be read is passed over with a warning: its configuration runs again.

    Raises:
        DamagedRunError: The file cannot be read.
    """
    try:
        lines = read_plain(path / OUTCOMES, MOST_OUTCOMES).splitlines()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DamagedRunError(
            f"{path / OUTCOMES} cannot be read: {error}", id="unreadable-sweep"
        ) from error
    outcomes = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            outcome = Outcome.from_dict(json.loads(line))
        except (ValueError, DamagedRunError) as error:
            warn(f"line {number} of {path / OUTCOMES} is damaged and does not count: {error}")
            continue
        outcomes[outcome.configuration.name] = outcome
    return outcomes


def load_sweep(path: Path, warn: Callable[[str], None]) -> SweepReport:
    """The result of a sweep: everything that JSON, the console and the HTML report show.

    Raises:
        DamagedRunError: It is no sweep or cannot be read.
    """
    sweep = read_sweep(path)
    outcomes = read_outcomes(path, warn)
    report = SweepReport.from_dict({"sweep": {"path": str(path), **sweep}, "outcomes": ()})
    return replace(report, outcomes=tuple(outcomes.values()), paper=_paper(report.axes.workloads))


def _paper(workloads: Sequence[str]) -> PaperRows:
    """The paper's results for these workloads on its board of 8 GB, a Jetson TX2."""
    rows = {name: TABLE[name].trains for name in workloads if name in TABLE}
    return PaperRows(source=PAPER, trains=rows)


def _is_ours(run: Path) -> bool:
    """A run, or the empty folder that is left where one was ended while it began."""
    begun = (run / "run.json").exists() or (run / JOURNAL).exists()
    return begun or (run.is_dir() and not any(run.iterdir()))
