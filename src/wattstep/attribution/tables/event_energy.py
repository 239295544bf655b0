"""Energy of phases and layers whose times are known by events in a device's queue: what was drawn meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from wattstep.attribution.regression.problem import Layout, Sampled
from wattstep.attribution.step_energy import spent
from wattstep.attribution.tables.layouts import MOST_LAYOUTS, Kind
from wattstep.attribution.tables.regression_input import (
    Process,
    mean_shares,
    regression_result,
    samples_of,
    thinned,
)
from wattstep.attribution.tables.regression_rows import RegressionRows
from wattstep.recorded.marks import Marks
from wattstep.recorded.phases import Phases
from wattstep.recorded.power import EnergySource
from wattstep.recorded.steps import Steps
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Figure, Missing, Status, missing
from wattstep.schema.journal import Mark

FORWARD: Final = "forward"
EVENTS: Final = "by events, no kernels seen"
DRAWN: Final = "drawn while the device was in it, the host's work meanwhile with it"
BY_MODEL: Final = f"{EVENTS}: a power model has the power of the host, not of the device's phases"
NO_PHASES: Final = f"{EVENTS}: no clean step carries marks of phases"
LEFT: Final = f"{EVENTS}: what samples do not tell of single rows, in one sum"
UNMARKED: Final = "{:,} of {:,} clean steps carry no marks of these phases, and are left out"
# Of a phase or layer: the device may wait in it, so that its power is not the same all along. Were it
# taken to be, a wrong delay of the sensor could explain the samples better than the right one.
PIECES: Final = 3
Part = tuple[str, str]  # phase, and layer or ""
Piece = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True, eq=False)
class EventEnergy:
    """Energy of parts of a mean clean step, or why it is not told.

    Attributes:
        parts: Phase and layer of each kind, of which each has `PIECES`.
        rows: By regression of samples on when the device was in each; else the reason.
        step: Of a mean clean step in J; missing where it is not told.
    """

    parts: tuple[Part, ...]
    rows: RegressionRows | Missing
    step: Figure

    def of(self, chosen: Sequence[Part], *, alone: bool) -> Figure:
        """Energy in J of some parts together.

        Args:
            chosen: Which.
            alone: Whether a group that holds others, too, must not be divided by time.
        """
        if isinstance(self.rows, Missing):
            return missing("J", self.rows)
        members = np.array([n for n, part in enumerate(self.parts) if part in chosen], np.int64)
        energy, _ = self.rows.apart(members) if alone else self.rows.figures(members)
        if energy.missing:
            return energy
        return Figure(**{**vars(energy), "method": f"{DRAWN}; {energy.method}"})

    def left(self, energies: Sequence[Figure]) -> Figure | None:
        """Energy of the step beyond that of some rows; None where they make it, or it is not known."""
        if self.step.value is None:
            return None
        rest = self.step.value - sum(figure.value or 0.0 for figure in energies)
        if rest <= 1e-9 * self.step.value:
            return None
        return Figure(
            value=rest, unit="J", status=Status.ATTRIBUTED, source=self.step.source, method=LEFT
        )


def event_energy(
    marks: Marks, steps: Steps, clean: IntArray, source: EnergySource | Missing, device: str
) -> EventEnergy:
    """Energy of the phases of clean steps, and of layers in the forward ones.

    Args:
        marks: Of the run.
        steps: All of its steps, on the timeline of the device.
        clean: Positions of the clean ones.
        source: Of the energy, or why there is none.
        device: Its name.
    """
    step = _step_energy(source, steps)
    if isinstance(source, Missing) or step.value is None:
        return EventEnergy(parts=(), rows=Missing(step.reason or ""), step=step)
    if not source.sensed:
        return EventEnergy(parts=(), rows=Missing(BY_MODEL), step=step)
    process = _process(marks, steps, clean, source, device)
    if isinstance(process, Missing):
        return EventEnergy(parts=(), rows=process, step=step)
    kinds = np.arange(len(process.kinds))
    result = regression_result([process], source)
    rows = RegressionRows(result, source, step.value, kinds, steps.source, "; ".join(process.notes))
    return EventEnergy(
        parts=tuple((kind.phase, kind.layer) for kind in process.kinds),
        rows=rows if rows.reason is None else Missing(f"not resolvable: {rows.reason}"),
        step=step,
    )


def _step_energy(source: EnergySource | Missing, steps: Steps) -> Figure:
    if isinstance(source, Missing):
        return missing("J", source)
    energies = spent(source, steps)
    return missing("J", energies) if isinstance(energies, Missing) else energies.per_step


def _process(
    marks: Marks, steps: Steps, clean: IntArray, source: EnergySource, device: str
) -> Process | Missing:
    phases, rows = marks.phases(steps, clean, None)
    if not len(rows):
        return Missing(NO_PHASES)
    parts: dict[Piece, int] = {}
    lasting = phases.durations_s.mean(axis=0)
    edges = np.concatenate([[0.0], np.cumsum(lasting)]) / lasting.sum()
    made = _layouts(marks, phases, rows, edges, parts)
    t_ns, value = samples_of(source)
    t_ns, value, edges_ns, words = thinned(t_ns, value, phases.edges_ns)
    sampled = Sampled(
        t_ns=t_ns,
        value=value,
        counter=source.gauge is None,
        start_ns=edges_ns[:, 0],
        end_ns=edges_ns[:, -1],
        edges_ns=edges_ns,
        edges=edges,
        layouts=made,
    )
    bare = len(clean) - len(rows)
    return Process(
        sampled=sampled,
        kinds=tuple(
            Kind(f"{phase} {piece}", "phase", layer, phase, device) for phase, layer, piece in parts
        ),
        code=np.arange(len(parts)),
        seconds=mean_shares(made, len(parts)) * float(lasting.sum()),
        notes=(*((UNMARKED.format(bare, len(clean)),) if bare else ()), *words),
    )


def _layouts(
    marks: Marks, phases: Phases, rows: IntArray, edges: FloatArray, parts: dict[Piece, int]
) -> list[Layout]:
    """Mean step by each of some steps: those with marks of layers, if there are such.

    Args:
        marks: Of the run.
        phases: Of the steps.
        rows: Their positions.
        edges: Of the phases in the mean step, from 0 to 1.
        parts: Takes the number of each piece of a phase and layer.
    """
    marked = np.flatnonzero(np.isin(rows, marks.step[marks.kind == Mark.LAYER_START]))
    chosen = marked if len(marked) else np.arange(len(rows))
    chosen = chosen[np.linspace(0, len(chosen) - 1, min(len(chosen), MOST_LAYOUTS)).astype(int)]
    return [_layout(marks, phases, n, int(rows[n]), edges, parts) for n in chosen.tolist()]


def _layout(
    marks: Marks, phases: Phases, n: int, row: int, edges: FloatArray, parts: dict[Piece, int]
) -> Layout:
    cuts = [0.0]
    kinds: list[int] = []

    def until(end: float, part: Part) -> None:
        if end > cuts[-1]:
            cuts.extend(np.linspace(cuts[-1], end, PIECES + 1)[1:].tolist())
            kinds.extend(parts.setdefault((*part, piece), len(parts)) for piece in range(PIECES))

    for position, phase in enumerate(phases.names):
        first, last = edges[position], edges[position + 1]
        begin_ns, end_ns = phases.edges_ns[n, position : position + 2].tolist()
        if phase == FORWARD and end_ns > begin_ns:
            for layer, *span in marks.layer_spans(row, begin_ns, end_ns):
                share = [(t_ns - begin_ns) / (end_ns - begin_ns) for t_ns in span]
                enter, leave = (first + (last - first) * part for part in share)
                until(enter, (phase, ""))
                until(leave, (phase, layer))
        until(last, (phase, ""))
    count = len(kinds)
    return Layout(
        edges=np.array(cuts), segment=np.arange(count), kind=np.array(kinds), weight=np.ones(count)
    )
