"""Task of a worker: what is asked of a process that opens runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Task:
    """Work on some runs, a sweep or a daily training.

    Attributes:
        task: A name of `worker.TASKS`.
        paths: Of what it is done on.
        output: File that it writes; "" for none.
        left_out: Place of each run that a report leaves out, and why.
        by: Sides of a comparison: "run" or "configuration".
        across: Facets in which compared runs may differ.
        as_json: True if a comparison is written as JSON.
    """

    task: str
    paths: Sequence[str]
    output: str = ""
    left_out: Sequence[Sequence[str]] = ()
    by: str = "run"
    across: Sequence[str] = ()
    as_json: bool = False

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)
