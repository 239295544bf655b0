"""Result of a sweep: every configuration with its outcome, as terminal, pages and JSON show it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from typing import Any

from wattstep.errors import DamagedRunError
from wattstep.schema.outcome import Outcome
from wattstep.schema.run_documents import MeasuringMachine


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Values along which the configurations of a sweep differ.

    Attributes:
        threads: None: the framework's choice.
        devices: Labels of devices in a cluster; None: this machine.
        states: Of the device; "": as it is. Sweeps of before November 2026 knew none.
        engines: Frameworks; "": that of the settings.
        repeats: Numbers of the repetitions.
    """

    workloads: tuple[str, ...] = ()
    batches: tuple[int, ...] = ()
    threads: tuple[int | None, ...] = (None,)
    precisions: tuple[str, ...] = ("fp32",)
    devices: tuple[str | None, ...] = (None,)
    states: tuple[str, ...] = ("",)
    engines: tuple[str, ...] = ("",)
    repeats: tuple[int, ...] = (1,)

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Axes:
        """The inverse of `asdict`; unknown axes are passed over."""
        names = {item.name for item in fields(cls)}
        return cls(**{name: tuple(values) for name, values in document.items() if name in names})


@dataclass(frozen=True, kw_only=True)
class PaperRows:
    """Statements of the paper on workloads, on its own board.

    Attributes:
        trains: Whether it trained, in words, by workload.
    """

    source: str = ""
    trains: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SweepReport:
    """Result of a sweep.

    Attributes:
        path: Folder of the sweep.
        settings: Settings of a training that all configurations share, JSON-ready, by name.
        machine: Model, cpu, cores and memory of where it ran, or where that is told.
        device_limits: Memory limit of each device that has a name, in bytes, or None.
        workloads_of: Workloads that went to each device that has a name.
        sessions: Duration of each turn of the command in s.
        schema: Version of the format on disk.
    """

    path: str
    axes: Axes
    outcomes: tuple[Outcome, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    machine: MeasuringMachine = field(default_factory=MeasuringMachine)
    device_limits: Mapping[str, int | None] = field(default_factory=dict)
    workloads_of: Mapping[str, list[str]] = field(default_factory=dict)
    sessions: tuple[float, ...] = ()
    paper: PaperRows = field(default_factory=PaperRows)
    schema: int = 1

    @property
    def duration(self) -> float:
        """Duration of all turns together in s."""
        return sum(self.sessions)

    @property
    def families(self) -> Iterator[tuple[str, int | None, str, str | None, str, str]]:
        """Planned configurations without their batch size, as `Configuration.family` has them.

        A fleet sends some workloads to some of its devices only.
        """
        axes = self.axes
        for family in product(
            axes.workloads, axes.threads, axes.precisions, axes.devices, axes.states, axes.engines
        ):
            if family[0] in self.workloads_of.get(family[3] or "", axes.workloads):
                yield family

    @property
    def planned(self) -> int:
        """Number of its configurations, those that have not run included."""
        return sum(1 for _ in self.families) * len(self.axes.batches) * len(self.axes.repeats)

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: `sweep` and `outcomes`."""
        document = {key: value for key, value in asdict(self).items() if key != "outcomes"}
        return {
            "sweep": {**document, "duration": self.duration},
            "outcomes": [outcome.to_dict() for outcome in self.outcomes],
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> SweepReport:
        """The inverse of `to_dict`; fields of a newer wattstep are passed over.

        Raises:
            DamagedRunError: A field is missing or garbled.
        """
        try:
            names = {item.name for item in fields(cls)}
            values = {key: value for key, value in document["sweep"].items() if key in names}
            paper = values.get("paper") or {}
            values |= {
                "path": str(values.get("path", "")),
                "axes": Axes.from_dict(values["axes"]),
                "sessions": tuple(values.get("sessions", ())),
                "paper": PaperRows(
                    source=paper.get("source", ""), trains=dict(paper.get("trains", {}))
                ),
            }
            return cls(
                **values, outcomes=tuple(Outcome.from_dict(one) for one in document["outcomes"])
            )
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise DamagedRunError(f"a sweep lacks or garbles a field: {error}") from error
