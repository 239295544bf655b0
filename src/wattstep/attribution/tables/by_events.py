"""Layers and phases of a training on a device by events in its queue, where no kernels were seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from wattstep.attribution.tables.event_energy import EventEnergy, Part, event_energy
from wattstep.attribution.tables.phase_spans import NO_LENGTH, PhaseSpans
from wattstep.attribution.tables.row_labels import NO_LAYER
from wattstep.recorded.marks import Marks
from wattstep.recorded.power import EnergySource
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.figures import Figures
from wattstep.schema.journal import Mark
from wattstep.schema.report_rows import CostRow
from wattstep.stats.statistics import mean_figure

FORWARD: Final = "forward"
NOTE: Final = (
    "layers and phases are by events in the queue of {}: no kernels were seen, and what the host did "
    "meanwhile is not told apart (why stands among the notes); energy is what was drawn while the device "
    "was in each"
)
NO_LAYERS: Final = "no step carries marks of layers: they are of phases alone"
METHOD: Final = (
    "by events, no kernels seen: from the device's coming to its begin to that to its end"
)
REST_METHOD: Final = "by events, no kernels seen: the phase less its marked layers"
NOT_SEEN: Final = "by events, no kernels seen: what ran in it is not known"
_MISSING: Final[Mapping[str, str]] = {
    "cpu_utilization": "ratio",
    "memory": "B",
    "flops": "FLOP",
    "bytes": "B",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class EventTables:
    """Tables of a mean clean step in which layers and phases stand in the place of operations.

    Attributes:
        device: On whose queue.
        source: Of the times.
        step_s: Mean clean step in s.
        phases: Time of each phase.
        layers: Time of each marked layer's forward.
        calls: How often each is called in a step, by layer.
        energies: Of the machine ("") and of rails, by name.
    """

    device: str
    source: str
    step_s: float
    phases: Mapping[str, Figure]
    layers: Mapping[str, Figure]
    calls: Mapping[str, Figure]
    energies: Mapping[str, EventEnergy]

    def operations(self) -> list[CostRow]:
        """Layers of the forward pass, what is left of it, and the other phases; they make the step."""
        rows = []
        for phase, time in self.phases.items():
            if phase != FORWARD or not self.layers:
                rows.append(self._operation(phase, NO_LAYER, time))
                continue
            rows += [self._operation(phase, layer, its) for layer, its in self.layers.items()]
            rows.append(self._operation(phase, NO_LAYER, self._left_of_forward(time)))
        return _longest_first(rows)

    def layer_rows(self) -> list[CostRow]:
        """Forward passes of layers, and all else of the step as that of no single layer."""
        rows = [
            self._row({"layer": name}, time, [(FORWARD, name)], name)
            for name, time in self.layers.items()
        ]
        left = self.step_s - sum(time.value or 0.0 for time in self.layers.values())
        words = "by events, no kernels seen: the step less the forward passes of marked layers"
        rest = replace(self._whole, value=max(left, 0.0), low=None, high=None, method=words)
        others = [(phase, "") for phase in self.phases]
        return _longest_first([*rows, self._row({"layer": NO_LAYER}, rest, others)] if rows else [])

    def phase_rows(self) -> list[CostRow]:
        """Phases."""
        rows = [
            self._row({"phase": name}, time, [(name, layer) for layer in ("", *self.layers)])
            for name, time in self.phases.items()
        ]
        spans = [replace(row, figures=row.figures.updated(span=row.figure("time"))) for row in rows]
        return _longest_first(spans)

    def not_resolved(self, rows: Sequence[CostRow]) -> Figures:
        """Energy of the step, and by rail, that rows leave out; empty where they make it."""
        left = {
            name: figure
            for name, energy in self.energies.items()
            if (figure := energy.left([_energy_of(row, name) for row in rows])) is not None
        }
        rails = {name: figure for name, figure in left.items() if name}
        return Figures(
            {
                **({"energy": left[""]} if "" in left else {}),
                **({"energy_by_rail": rails} if rails else {}),
            }
        )

    def notes(self) -> list[str]:
        """What the reader must know."""
        return [NOTE.format(self.device), *([] if self.layers else [NO_LAYERS])]

    @property
    def _whole(self) -> Figure:
        return next(iter(self.phases.values()))

    def _left_of_forward(self, forward: Figure) -> Figure:
        left = (forward.value or 0.0) - sum(time.value or 0.0 for time in self.layers.values())
        return replace(
            forward, value=max(left, 0.0), low=None, high=None, confidence=None, method=REST_METHOD
        )

    def _operation(self, phase: str, layer: str, time: Figure) -> CostRow:
        labels = {"name": phase, "layer": layer, "phase": phase}
        if layer == NO_LAYER:
            row = self._row(labels, time, [(phase, "")])
        else:
            row = self._row(labels, time, [(phase, layer)], layer)
        return replace(row, labels={**row.labels, "kind": "layer or phase"})

    def _row(
        self, labels: Mapping[str, str], time: Figure, parts: Sequence[Part],
        layer: str | None = None,
    ) -> CostRow:  # fmt: skip
        once = Figure(value=1.0, unit="count", status=Status.COUNTED, source=self.source)
        share = time.share_of(self.step_s) if self.step_s > 0 else NO_LENGTH
        energies = {
            name: energy.of(parts, alone=len(parts) == 1) for name, energy in self.energies.items()
        }
        rails = {name: figure for name, figure in energies.items() if name}
        figures = {
            "calls": once if layer is None else self.calls[layer],
            "time": time,
            "busy_time": time,
            "share": share,
            "energy": energies[""],
            **({"energy_by_rail": rails} if rails else {}),
            **{name: missing(unit, NOT_SEEN) for name, unit in _MISSING.items()},
        }
        return CostRow(labels={**labels, "processor": self.device}, figures=Figures(figures))


def _energy_of(row: CostRow, rail: str) -> Figure:
    return row.figures.parts("energy_by_rail")[rail] if rail else row.figure("energy")


def event_tables(
    marks: Marks,
    steps: Steps,
    clean: IntArray,
    spans: PhaseSpans | None,
    step_s: float,
    sources: Mapping[str, EnergySource | Missing],
) -> EventTables | None:
    """Tables by events; None where the steps lie on no device, or carry no marks of phases.

    Args:
        marks: Of the run.
        steps: All of its steps.
        clean: Positions of the clean ones.
        spans: Lengths of their phases.
        step_s: Mean clean step in s.
        sources: Of the energy of the machine (""), and of rails, by name, or why there is none.
    """
    if not steps.device or spans is None:
        return None
    names = dict.fromkeys(name for _, name in spans.seconds)
    phases = {}
    for name in names:
        figure = spans.of_phase(name)
        assert figure is not None
        phases[name] = replace(figure, source=steps.source, method=f"{METHOD}; {figure.method}")
    seconds, calls = _layers(marks, clean)
    scale = _scale(marks, steps, clean, phases.get(FORWARD))
    return EventTables(
        device=steps.device,
        source=steps.source,
        step_s=step_s,
        phases=phases,
        layers={name: _figure(each * scale, steps.source) for name, each in seconds.items()},
        calls={
            name: mean_figure(each, "count", "marks of the training", Status.COUNTED)
            for name, each in calls.items()
        },
        energies={
            name: event_energy(marks, steps, clean, source, steps.device)
            for name, source in sources.items()
        },
    )


def _layers(marks: Marks, clean: IntArray) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Time in s and calls of each layer in each clean step that carries marks of layers."""
    begins, ends = marks.layer_pairs[np.isin(marks.step[marks.layer_pairs[:, 0]], clean)].T
    name, lasting_s = marks.name[begins], (marks.t_ns[ends] - marks.t_ns[begins]) * 1e-9
    marked, ordinal = np.unique(marks.step[begins], return_inverse=True)
    seconds: dict[str, FloatArray] = {}
    calls: dict[str, FloatArray] = {}
    for layer in dict.fromkeys(name.tolist()):
        mine = name == layer
        sums = np.bincount(ordinal[mine], lasting_s[mine], minlength=len(marked))
        seconds[layer] = sums.astype(np.float64, copy=False)
        calls[layer] = np.bincount(ordinal[mine], minlength=len(marked)).astype(np.float64)
    return seconds, calls


def _scale(marks: Marks, steps: Steps, clean: IntArray, forward: Figure | None) -> float:
    """From the forward pass of steps that carry marks of layers to that of all clean ones."""
    marked = np.intersect1d(clean, marks.step[marks.kind == Mark.LAYER_START])
    if not len(marked) or forward is None or not forward.value:
        return 1.0
    phases, _ = marks.phases(steps, marked, None)
    columns = [at for at, name in enumerate(phases.names) if name == FORWARD]
    own = float(phases.durations_s[:, columns].sum(axis=1).mean()) if columns else 0.0
    return forward.value / own if own > 0 else 1.0


def _figure(seconds: FloatArray, source: str) -> Figure:
    figure = mean_figure(seconds, "s", source, Status.MEASURED)
    return replace(figure, method=f"{METHOD}; {figure.method}")


def _longest_first(rows: list[CostRow]) -> list[CostRow]:
    return sorted(rows, key=lambda row: -(row.figure("time").value or 0.0))
