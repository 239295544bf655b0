"""Input of the regression below the sampling interval: samples, clean steps, and the kinds that ran in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wattstep.attribution.regression.outcome import Group, Regression
from wattstep.attribution.regression.problem import MOST_SAMPLES, Kinds, Layout, Sampled
from wattstep.attribution.tables.exact_layouts import anchored
from wattstep.attribution.tables.layouts import Kind, Labelled, layouts
from wattstep.attribution.tables.traced_steps import TracedSteps
from wattstep.recorded.power import HOLE, EnergySource
from wattstep.recorded.step_stretches import StepStretches
from wattstep.schema.arrays import FloatArray, IntArray
from wattstep.schema.figure import Missing, Status, weakest
from wattstep.stats.student import NORMAL

STRETCH = 250  # samples in a row that are kept together
AROUND_NS = 1_000_000_000  # of steps beside a stretch: what a sensor may average over or be late by
PROMPT = 0.01  # of what a value mixes: a clock that is off by more tells no sensor's delay
LEVELS = ("operation", "kind in layer", "kind", "layer", "phase", "step")
UNMARKED = "{:,} of {:,} clean steps carry no marks of phases, and are left out"
MOST_AHEAD = 0.05  # of a step: a host that is further ahead worked for another step meanwhile
AHEAD = (
    "the host runs ahead of the device ({:.3g} steps on the mean): what both did at which moment of a "
    "step is not known; waiting for the device at each step's end tells it"
)
TURNS = "steps of several kinds take turns: what runs when is not the same in each"


@dataclass(frozen=True, kw_only=True, eq=False)
class Process:
    """Run prepared for the regression.

    Attributes:
        sampled: Samples, clean steps and layouts; kinds are positions in `kinds`.
        kinds: What ran.
        code: The number that the breakdown gives to each of them, shape (k,).
        seconds: What each takes of a mean clean step in s, shape (k,).
        notes: What was left out.
        exact: Whether what ran when is known of each step.
    """

    sampled: Sampled
    kinds: tuple[Kind, ...]
    code: IntArray
    seconds: FloatArray
    notes: tuple[str, ...]
    exact: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class RegressionResult:
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
        """Common label of a group's members, for a sentence."""
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


def process_of(
    steps: TracedSteps, source: EnergySource, quantity: str = "energy"
) -> Process | Missing:
    """Input of the regression from a run, or the reason why there is none.

    Args:
        steps: Of the run.
        source: Of its energy, or of anything else that accumulates.
        quantity: What it is the source of: rows that cannot take of it have no part.
    """
    if steps.reason is not None:
        return Missing(steps.reason)
    all_traced = steps.steps.only_traced
    if steps.takes_turns or (all_traced and steps.step_kinds.count > 1):
        return Missing(TURNS)
    of_device = steps.side(quantity) == "device" and steps.by_device
    if not of_device and steps.ahead > MOST_AHEAD:
        return Missing(AHEAD.format(steps.ahead))
    labelled, named = steps.labelled_of(quantity)
    if exact := all_traced:
        each = anchored(labelled)
        step_layouts, edges_s, edges_ns, bare = each.layouts, each.edges_s, each.edges_ns, 0
        exact = each.exact
    else:
        step_layouts, edges_s = layouts(labelled), labelled.compensated.edges_s
        edges_ns, bare = steps.clean_phases
    used = np.unique(np.concatenate([layout.kind for layout in step_layouts]))
    number = np.full(len(named), -1, np.int64)
    number[used] = np.arange(len(used))
    notes = (UNMARKED.format(bare, len(edges_ns) + bare),) if bare else ()
    t_ns, value = without_thinned(*samples_of(source), steps.steps.thinned)
    step_layouts = [replace(layout, kind=number[layout.kind]) for layout in step_layouts]
    clean = len(edges_ns) + bare
    apart = float(np.median(np.diff(t_ns))) * 1e-9 if len(t_ns) > 1 else 0.0
    repeats = max(1, int(source.slow_s / apart)) if apart > 0 else 1
    t_ns, value, edges_ns, left_out = thinned(t_ns, value, edges_ns, repeats)
    divided = unseen(np.diff(edges_ns, axis=1) * 1e-9, clean - len(edges_ns))
    moving = [
        _moving(labelled, number, len(used)),
        divided @ _in_phases(step_layouts, edges_s, len(used)),
    ]
    sampled = Sampled(
        t_ns=t_ns,
        value=value,
        counter=source.gauge is None,
        start_ns=edges_ns[:, 0],
        end_ns=edges_ns[:, -1],
        edges_ns=edges_ns,
        edges=edges_s / edges_s[-1],
        layouts=step_layouts,
        moving_s=np.concatenate(moving),
        beside_s=0.0 if source.clock is None else source.clock.seconds,
        centred=source.clock is not None and source.clock.centred,
    )
    return Process(
        sampled=sampled,
        kinds=tuple(named[code] for code in used),
        code=used,
        seconds=mean_shares(step_layouts, len(used)) * float(edges_s[-1]),
        notes=(*notes, *left_out),
        exact=exact,
    )


def _moving(labelled: Labelled, number: IntArray, count: int) -> FloatArray:
    """Change of kinds' times with the tracer's cost off by its error, in s.

    Time that is not taken off as cost is left to the rest of its phase, and phases keep their
    length: operations lose what the rest gains. No more is moved than was taken off. A rest is off
    by all of it: how much of the cost lies beside operations, and not in them, is not known.

    Args:
        labelled: The traced rows.
        number: Position of each code, -1 for none.
        count: How many kinds there are.
    """
    compensated, phases = labelled.compensated, len(labelled.rest)
    windows = len(compensated.unattributed_s)
    events = np.bincount(compensated.phase, minlength=phases) / windows
    error = compensated.correction.error_s / NORMAL
    moved = events * np.minimum(error, compensated.correction.cost_s)
    mine = labelled.operation & labelled.outermost
    at = number[labelled.kind[mine]]
    seconds = np.zeros((phases, count))
    np.add.at(seconds, (compensated.phase[mine], at), compensated.time_s[mine] / windows)
    share = np.divide(
        seconds, seconds.sum(axis=1, keepdims=True), out=np.zeros_like(seconds), where=seconds > 0
    )
    moving = -moved[:, None] * share
    beside = np.zeros_like(moving)
    for phase, rest in enumerate(number[labelled.rest]):
        if rest >= 0:
            moving[phase, rest] += moved[phase]
            beside[phase, rest] = events[phase] * compensated.correction.cost_s[phase]
    return np.concatenate([moving, beside])


def unseen(phases_s: FloatArray, others: int) -> FloatArray:
    """Difference between phases of all clean steps and of the steps that take part, in s.

    The mean length of all clean steps is known; how it is divided, only of those that carry marks.

    Args:
        phases_s: Length of each phase in each step that takes part, shape (s, p).
        others: How many clean steps do not.

    Returns:
        What phases gain and lose together, in standard errors, one row for each way, shape (p, p).
    """
    seen, phases = phases_s.shape
    if not others or seen < 2:
        return np.zeros((phases, phases))
    whole = phases_s.sum(axis=1)
    divided = phases_s / whole[:, None] * whole.mean()
    covariance = np.atleast_2d(np.cov(divided, rowvar=False)) * (1 / seen - 1 / (seen + others))
    values, vectors = np.linalg.eigh(covariance)
    ways: FloatArray = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    return ways


def _in_phases(step_layouts: Sequence[Layout], edges_s: FloatArray, count: int) -> FloatArray:
    """Share of each phase that each kind takes, shape (p, k)."""
    edges = edges_s / edges_s[-1]
    taken = np.zeros((len(edges) - 1, count))
    for layout in step_layouts:
        middle = (layout.edges[1:] + layout.edges[:-1]) / 2
        phase = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(taken) - 1)
        lasting = layout.weight * np.diff(layout.edges)[layout.segment]
        np.add.at(taken, (phase[layout.segment], layout.kind), lasting)
    whole = taken.sum(axis=1, keepdims=True)
    share: FloatArray = np.divide(taken, whole, out=np.zeros_like(taken), where=whole > 0)
    return share


def mean_shares(step_layouts: Sequence[Layout], count: int) -> FloatArray:
    """Mean share of the step that each kind takes."""
    shares = np.zeros(count)
    for layout in step_layouts:
        lasting = layout.weight * np.diff(layout.edges)[layout.segment]
        shares += np.bincount(layout.kind, lasting, minlength=count)
    return shares / len(step_layouts)


def samples_of(source: EnergySource) -> tuple[IntArray, FloatArray]:
    """Times and values; between two samples with a gap in between stands one without a value."""
    curve = source.curve
    t_ns, value = (curve.t_ns, curve.total) if source.gauge is None else source.gauge
    if len(t_ns) < 2:
        return t_ns, value
    covered = np.interp(t_ns - t_ns[0], curve.t_ns - t_ns[0], curve.covered_ns.astype(np.float64))
    apart = np.diff(t_ns)
    hole = np.diff(covered) <= 0
    if source.thinned:  # what lies between may be anything
        hole |= apart > HOLE * float(np.median(apart))
    after = np.flatnonzero(hole & (apart > 1)) + 1
    between = t_ns[after - 1] + (t_ns[after] - t_ns[after - 1]) // 2
    return np.insert(t_ns, after, between), np.insert(value, after, np.nan)


def without_thinned(
    t_ns: IntArray, value: FloatArray, stretches: StepStretches | None
) -> tuple[IntArray, FloatArray]:
    """Samples without those in stretches of steps that were not kept as single ones: there stands one without a value.

    Args:
        t_ns: Times of the samples.
        value: The samples.
        stretches: Of the steps; None: all were kept.
    """
    if stretches is None:
        return t_ns, value
    at = np.searchsorted(stretches.begin_ns, t_ns, side="right") - 1
    inside = (at >= 0) & (t_ns <= stretches.end_ns[np.maximum(at, 0)])
    holes = stretches.begin_ns + (stretches.end_ns - stretches.begin_ns) // 2
    holes = holes[(holes > t_ns[0]) & (holes < t_ns[-1])] if len(t_ns) else holes[:0]
    t_ns, value = t_ns[~inside], value[~inside]
    before = np.searchsorted(t_ns, holes)
    return np.insert(t_ns, before, holes), np.insert(value, before, np.nan)


def thinned(
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
    chosen = np.cumsum(change)[:-1] > 0
    steps = np.zeros(len(edges_ns), bool)
    for begin, end in zip(t_ns[first] - AROUND_NS, t_ns[last] + AROUND_NS, strict=True):
        steps |= (edges_ns[:, -1] > begin) & (edges_ns[:, 0] < end)
    holes = chosen & ~np.append(chosen[1:], True)  # the last before what was left out
    value = np.where(np.append(False, holes[:-1]), np.nan, value)
    chosen |= np.append(False, holes[:-1])
    words = (
        f"{int(np.isfinite(value[chosen]).sum()):,} of {len(inside):,} samples took part, in {count} "
        "stretches spread evenly over the run"
    )
    return t_ns[chosen], value[chosen], edges_ns[steps], (words,)


# --- several runs -------------------------------------------------------------------------------


def regression_result(
    processes: Sequence[Process], source: EnergySource, like: Regression | None = None
) -> RegressionResult:
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
        renumbered = [
            replace(layout, kind=number[layout.kind]) for layout in process.sampled.layouts
        ]
        moving = process.sampled.moving_s
        if moving is not None:
            moving = np.stack([np.bincount(number, row, minlength=len(names)) for row in moving])
        sampled.append(replace(process.sampled, layouts=renumbered, moving_s=moving))
        seconds[number] += process.seconds / len(processes)
    levels = kinds_of(names)
    beside_s = max(process.sampled.beside_s for process in processes)
    # scipy takes two thirds of a second to load, which most readers of runs need not wait for.
    from threadpoolctl import threadpool_limits

    from wattstep.attribution.regression.regress import regress

    # Matrices are small: several threads would wait for each other most of the time.
    with threadpool_limits(1):
        found_by = regress(
            sampled,
            levels,
            source=source.source,
            status=weakest([Status.ATTRIBUTED, source.status]),
            time_error=0.0 if all(process.exact for process in processes) else None,
            prompt=source.prompt and beside_s <= PROMPT * source.mixes_s,
            window=None if source.gauge is None else source.window_s,
            like=like,
        )
    return RegressionResult(
        regression=found_by,
        kinds=tuple(names),
        levels=levels,
        processes=tuple(processes),
        seconds=seconds,
    )


def kinds_of(names: Sequence[Kind]) -> Kinds:
    """Order in which kinds are merged that samples do not distinguish."""
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
