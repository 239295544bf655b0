"""Processes of one configuration: equal in everything, the batch size included."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattstep.observations.estimates import as_figure, of_processes
from wattstep.observations.evidence import Observed
from wattstep.observations.groups import Group, groups_of
from wattstep.records.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Several processes that did the same.

    Attributes:
        group: What they belong to.
        batch: Their batch size; 0: not known.
        runs: The processes.
    """

    group: Group
    batch: int
    runs: tuple[Observed, ...]

    @property
    def label(self) -> str:
        """Workload and batch size."""
        return f"{self.group.label} at batch {self.batch}" if self.batch else self.group.label

    @property
    def batches(self) -> str:
        """The batch size in words."""
        return str(self.batch) if self.batch else ""

    def figures(self, *names: str, unit: str) -> dict[str, Figure]:
        """Means of metrics over the processes."""
        return {
            name: as_figure(of_processes([run.figure(name, unit) for run in self.runs]), unit)
            for name in names
        }


def configurations_of(runs: Sequence[Observed]) -> list[Configuration]:
    """All of them, in the order of groups and batch sizes."""
    return [
        Configuration(group=group, batch=batch, runs=members)
        for group in groups_of(runs)
        for batch, members in group.batches.items()
    ]
