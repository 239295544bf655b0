"""A run as a line of a list: what its `run.json` says, or why that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wattstep.errors import DamagedRunError
from wattstep.schema.failures import contained
from wattstep.schema.run_info import RunInfo
from wattstep.store.files import read_info
from wattstep.store.lock import is_recording


@dataclass(frozen=True, kw_only=True)
class ListedFacts:
    """What a list shows of a run beside its place and state.

    Attributes:
        workload: As `RunInfo` has it; likewise the others.
        arguments: Of somebody's own script, in one line; "" of other trainings.
        imported: True if it was made of files of other tools.
    """

    workload: str
    batch_size: int | None
    engine: str
    created: str
    imported: bool
    arguments: str


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A line of a list of runs.

    Attributes:
        run: Where it lies.
        state: As `RunInfo.state`, or "damaged"; "not closed" where nobody records what says "recording".
        facts: Of its `run.json`; None where that cannot be read.
        problem: Why it cannot be read, or what it lacks; None: nothing.
        failure: Error that it failed with, where that is the reason; "" else.
    """

    run: str
    state: str
    facts: ListedFacts | None = None
    problem: str | None = None
    failure: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; what is not known of a damaged run is left out."""
        if self.facts is None:
            failure = {"failure": self.failure} if self.failure else {}
            return {"run": self.run, "state": self.state, "problem": self.problem, **failure}
        facts = self.facts
        return {
            "run": self.run, "state": self.state, "workload": facts.workload,
            "batch_size": facts.batch_size, "engine": facts.engine, "created": facts.created,
            "problem": self.problem, "imported": facts.imported, "arguments": facts.arguments,
        }  # fmt: skip


def listed(path: Path) -> tuple[ListedRun, RunInfo | None]:
    """The line of a run, and its description; None where that is damaged."""
    try:
        return _row(path)
    except DamagedRunError as error:
        return ListedRun(run=str(path), state="damaged", problem=str(error)), None
    except Exception as error:
        reason = contained(error)
        problem = f"it failed: {reason}"
        return ListedRun(run=str(path), state="damaged", problem=problem, failure=reason), None


def _row(path: Path) -> tuple[ListedRun, RunInfo]:
    info = read_info(path)
    facts = ListedFacts(
        workload=info.workload, batch_size=info.batch_size, engine=info.engine,
        created=info.created, imported=bool(info.imported),
        arguments=str(info.options.get("arguments") or ""),
    )  # fmt: skip
    abandoned = info.state == "recording" and not is_recording(path)
    state = "not closed" if abandoned else info.state
    return ListedRun(run=str(path), state=state, facts=facts), info
