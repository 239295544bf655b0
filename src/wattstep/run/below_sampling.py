"""What a run gives to the regression below the sampling interval: samples, clean steps, and what ran when in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from wattstep.analysis.power import EnergySource
from wattstep.analysis.regression.outcome import Group, Regression
from wattstep.analysis.regression.problem import Kinds, Layout, Sampled
from wattstep.analysis.steps import FloatArray, IntArray
from wattstep.errors import InvalidValueError
from wattstep.records.figure import Status, weakest
from wattstep.run.layouts import Labelled, layouts

if TYPE_CHECKING:
    from wattstep.run.operations import RunBreakdown
    from wattstep.run.run import Run

MOST_SAMPLES = 10_000  # in clean steps: more are thinned to stretches
STRETCH = 250  # samples in a row that are kept together
AROUND_NS = 1_000_000_000  # of steps beside a stretch: what a sensor may average over or be late by
LEVELS = ("operation", "kind in layer", "kind", "layer", "phase", "step")
TWO_SIDED = 1.96  # half widths of 95 % over standard errors
UNMARKED = "{:,} of {:,} clean steps carry no marks of phases, and are left out"
TURNS = "steps of several kinds take turns: what runs when is not the same in each"
OTHER_CLOCK = "the samples have another clock than the trace ({})"


class Kind(NamedTuple):
    """What is to be told apart: an operation of a layer in a phase, or the rest of a phase."""

    name: str
    kind: str
    layer: str
    phase: str
    processor: str = "cpu"

    @property
    def words(self) -> str:
        """For a sentence."""
        return " ".join([self.name, *([f"of {self.layer}"] if self.layer else [])])


@dataclass(frozen=True, kw_only=True, eq=False)
class Process:
    """One run, ready for the regression.

    Attributes:
        sampled: Samples, clean steps and layouts; kinds are positions in `kinds`.
        kinds: What ran.
        code: The number that the breakdown gives to each of them, shape (k,).
        seconds: What each takes of a mean clean step in s, shape (k,).
        notes: What was left out.
    """

    sampled: Sampled
    kinds: tuple[Kind, ...]
    code: IntArray
    seconds: FloatArray
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Regressed:
    """The regression of one run or several, and what it was of.

    Attributes:
        regression: What it says; kinds are positions in `kinds`.
        kinds: What ran, in all runs together.
        levels: Of the regression.
        processes: What each run gave.
        seconds: What each kind takes of a mean clean step in s, mean of the runs, shape (k,).
    """

    regression: Regression
    kinds: tuple[Kind, ...]
    levels: Kinds
    processes: tuple[Process, ...]
    seconds: FloatArray

    def label(self, group: Group) -> str:
        """What the members of a group have in common, for a sentence."""
        first: Kind = self.kinds[group.members[0]]
        if len(group.members) == 1:
            return first.words
        level = self.levels.level_names[group.level]
        shared = {
            "kind in layer": " in ".join(part for part in (first.kind, first.layer) if part),
            "kind": first.kind,
            "layer": first.layer or "no layer",
            "phase": f"the {first.phase} phase",
        }
        return shared.get(level, "the step")


def process_of(breakdown: RunBreakdown, source: EnergySource) -> Process | str:
    """What a run gives to the regression, or why it gives nothing.

    Args:
        breakdown: Of the run.
        source: Of its energy, or of anything else that accumulates.
    """
    if breakdown.reason is not None:
        return breakdown.reason
    if source.clock is not None:
        return OTHER_CLOCK.format(source.clock.words)
    if breakdown.takes_turns:
        return TURNS
    labelled, named = breakdown.labelled
    found = layouts(labelled)
    used = np.unique(np.concatenate([layout.kind for layout in found]))
    number = np.full(len(named), -1, np.int64)
    number[used] = np.arange(len(used))
    edges_ns, bare = breakdown.clean_phases
    notes = (UNMARKED.format(bare, len(edges_ns) + bare),) if bare else ()
    t_ns, value = _samples(source)
    each = float(np.median(np.diff(t_ns))) * 1e-9 if len(t_ns) > 1 else 0.0
    repeats = max(1, int(source.slow_s / each)) if each > 0 else 1
    t_ns, value, edges_ns, thinned = _thinned(t_ns, value, edges_ns, repeats)
    found = [replace(layout, kind=number[layout.kind]) for layout in found]
    edges_s = labelled.laid.edges_s
    sampled = Sampled(
        t_ns=t_ns,
        value=value,
        counter=source.gauge is None,
        start_ns=edges_ns[:, 0],
        end_ns=edges_ns[:, -1],
        edges_ns=edges_ns,
        edges=edges_s / edges_s[-1],
        layouts=found,
        moving_s=_moving(labelled, number, len(used)),
    )
    return Process(
        sampled=sampled,
        kinds=tuple(named[code] for code in used),
        code=used,
        seconds=_seconds(found, len(used)) * float(edges_s[-1]),
        notes=(*notes, *thinned),
    )


def _moving(labelled: Labelled, number: IntArray, count: int) -> FloatArray:
    """What kinds take more or less of where the tracer's cost is off by its error, in s.

    Time that is not taken off as cost is left to the rest of its phase, and phases keep their
    length: operations lose what the rest gains. No more is moved than was taken off. A rest is off
    by all of it: how much of the cost lies beside operations, and not in them, is not known.

    Args:
        labelled: The traced rows.
        number: Position of each code, -1 for none.
        count: How many kinds there are.
    """
    laid, phases = labelled.laid, len(labelled.rest)
    windows = len(laid.rest_s)
    events = np.bincount(laid.phase, minlength=phases) / windows
    error = laid.correction.error_s / TWO_SIDED
    moved = events * np.minimum(error, laid.correction.cost_s)
    mine = labelled.operation & labelled.outermost
    at = number[labelled.kind[mine]]
    seconds = np.zeros((phases, count))
    np.add.at(seconds, (laid.phase[mine], at), laid.time_s[mine] / windows)
    share = np.divide(
        seconds, seconds.sum(axis=1, keepdims=True), out=np.zeros_like(seconds), where=seconds > 0
    )
    moving = -moved[:, None] * share
    beside = np.zeros_like(moving)
    for phase, rest in enumerate(number[labelled.rest]):
        if rest >= 0:
            moving[phase, rest] += moved[phase]
            beside[phase, rest] = events[phase] * laid.correction.cost_s[phase]
    return np.concatenate([moving, beside])


def _seconds(found: Sequence[Layout], count: int) -> FloatArray:
    """Mean share of the step that each kind takes."""
    shares = np.zeros(count)
    for layout in found:
        lasting = layout.weight * np.diff(layout.edges)[layout.segment]
        shares += np.bincount(layout.kind, lasting, minlength=count)
    return shares / len(found)


def _samples(source: EnergySource) -> tuple[IntArray, FloatArray]:
    """Times and values; between two samples with a gap in between stands one without a value."""
    curve = source.curve
    t_ns, value = (curve.t_ns, curve.total) if source.gauge is None else source.gauge
    if len(t_ns) < 2:
        return t_ns, value
    covered = np.interp(t_ns - t_ns[0], curve.t_ns - t_ns[0], curve.covered_ns.astype(np.float64))
    after = np.flatnonzero((np.diff(covered) <= 0) & (np.diff(t_ns) > 1)) + 1
    between = t_ns[after - 1] + (t_ns[after] - t_ns[after - 1]) // 2
    return np.insert(t_ns, after, between), np.insert(value, after, np.nan)


def _thinned(
    t_ns: IntArray, value: FloatArray, edges_ns: IntArray, repeats: int = 1
) -> tuple[IntArray, FloatArray, IntArray, tuple[str, ...]]:
    """Of a long run, stretches of samples spread evenly over it, and the steps around them.

    Args:
        t_ns: Times of the samples.
        value: The samples.
        edges_ns: Of the phases of clean steps.
        repeats: How many samples in a row have one value: a sensor that is slower than it is read
            has no more to tell than its updates.
    """
    at = np.searchsorted(edges_ns[:, 0], t_ns, side="right") - 1
    inside = np.flatnonzero((at >= 0) & (t_ns < edges_ns[np.maximum(at, 0), -1]))
    if len(inside) <= MOST_SAMPLES * repeats:
        return t_ns, value, edges_ns, ()
    count, stretch = MOST_SAMPLES // STRETCH, STRETCH * repeats
    first = inside[np.linspace(0, len(inside) - stretch, count).astype(np.int64)]
    last = np.minimum(first + stretch, len(t_ns) - 1)
    change = np.zeros(len(t_ns) + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last, -1)
    kept = np.cumsum(change)[:-1] > 0
    steps = np.zeros(len(edges_ns), bool)
    for begin, end in zip(t_ns[first] - AROUND_NS, t_ns[last] + AROUND_NS, strict=True):
        steps |= (edges_ns[:, -1] > begin) & (edges_ns[:, 0] < end)
    holes = kept & ~np.append(kept[1:], True)  # the last before what was left out
    value = np.where(np.append(False, holes[:-1]), np.nan, value)
    kept |= np.append(False, holes[:-1])
    words = (
        f"{int(np.isfinite(value[kept]).sum()):,} of {len(inside):,} samples took part, in {count} "
        "stretches spread evenly over the run"
    )
    return t_ns[kept], value[kept], edges_ns[steps], (words,)


# --- several runs -------------------------------------------------------------------------------


def regressed(
    processes: Sequence[Process], source: EnergySource, like: Regression | None = None
) -> Regressed:
    """The regression of processes of one configuration.

    Args:
        processes: What each gives.
        source: Of the energy of any of them.
        like: What the same sensor was found to be by other samples of it: the total of its rails.
    """
    names = list(dict.fromkeys(kind for process in processes for kind in process.kinds))
    position = {kind: number for number, kind in enumerate(names)}
    sampled, seconds = [], np.zeros(len(names))
    for process in processes:
        number = np.array([position[kind] for kind in process.kinds], dtype=np.int64)
        found = [replace(layout, kind=number[layout.kind]) for layout in process.sampled.layouts]
        moving = process.sampled.moving_s
        if moving is not None:
            moving = np.stack([np.bincount(number, row, minlength=len(names)) for row in moving])
        sampled.append(replace(process.sampled, layouts=found, moving_s=moving))
        seconds[number] += process.seconds / len(processes)
    levels = kinds_of(names)
    # scipy takes two thirds of a second to load, which most readers of runs need not wait for.
    from threadpoolctl import threadpool_limits

    from wattstep.analysis.regression.regress import regress

    # Matrices are small: several threads would wait for each other most of the time.
    with threadpool_limits(1):
        found_by = regress(
            sampled,
            levels,
            source=source.source,
            status=weakest([Status.ATTRIBUTED, source.status]),
            prompt=source.prompt,
            window=None if source.gauge is None else source.window_s,
            like=like,
        )
    return Regressed(
        regression=found_by,
        kinds=tuple(names),
        levels=levels,
        processes=tuple(processes),
        seconds=seconds,
    )


def kinds_of(names: Sequence[Kind]) -> Kinds:
    """What is merged first where it cannot be told apart."""
    keys = (
        lambda kind: kind,
        lambda kind: (kind.kind, kind.layer),
        lambda kind: kind.kind,
        lambda kind: kind.layer,
        lambda kind: kind.phase,
        lambda kind: None,
    )
    return Kinds(
        names=[f"{kind.words} in {kind.phase}" if kind.phase else kind.words for kind in names],
        levels=[_numbered([key(kind) for kind in names]) for key in keys],
        level_names=LEVELS,
    )


def _numbered(keys: Sequence[object]) -> IntArray:
    number = {key: position for position, key in enumerate(dict.fromkeys(keys))}
    return np.array([number[key] for key in keys], dtype=np.int64)


def pooled(runs: Sequence[Run]) -> Regressed | str:
    """The regression of several runs of one configuration together, or why there is none.

    Args:
        runs: One process each.

    Raises:
        InvalidValueError: They are not of one configuration, or none is given.
    """
    if not runs:
        raise InvalidValueError("there is no run")
    for other in runs[1:]:
        if unlike := differences(runs[0], other):
            raise InvalidValueError(
                f"{other.path} cannot be taken together with {runs[0].path}: {'; '.join(unlike)}"
            )
    processes: list[Process] = []
    for run in runs:
        source = run.series.energy
        found = source if isinstance(source, str) else process_of(run.breakdown, source)
        if isinstance(found, str):
            return f"{run.path}: {found}" if len(runs) > 1 else found
        processes.append(found)
    source = runs[0].series.energy
    assert not isinstance(source, str)
    return regressed(processes, source)


def differences(one: Run, other: Run) -> list[str]:
    """In what two runs are not of one configuration, in words; empty where they are."""
    facts = [_facts(run) for run in (one, other)]
    return [
        f"{name} is {_said(facts[1][name])}, not {_said(facts[0][name])}"
        for name in facts[0]
        if facts[0][name] != facts[1][name]
    ]


def _facts(run: Run) -> dict[str, object]:
    info, device = run.info, run.info.device
    return {
        "the device": (device.get("model"), device.get("cpu"), device.get("cores")),
        "its target": info.target.partition(":")[0] if info.target else "",
        "its power mode": device.get("power_mode"),
        "its governor": tuple(sorted((device.get("governors") or {}).items())),
        "the engine": info.engine,
        "the number of threads": info.threads,
        "the processor": info.processor,
        "the precision": info.precision,
        "the workload": info.workload,
        "the batch size": info.batch_size,
        "accumulation": info.options.get("accumulate"),
        "the schema": info.schema_version,
        "the source of energy": _source(run),
    }


def _source(run: Run) -> str:
    energy = run.series.energy
    return "none" if isinstance(energy, str) else energy.source


def _said(fact: object) -> str:
    if isinstance(fact, tuple):
        return ", ".join("not known" if part is None else str(part) for part in fact) or "not known"
    return "not known" if fact is None or fact == "" else str(fact)
