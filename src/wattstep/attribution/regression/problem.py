"""Input of the regression of sampled energy on operation times: samples, steps, and the layout of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wattstep.schema.arrays import FloatArray, IntArray

MOST_SAMPLES = 10_000  # of a run, in clean steps: more are thinned to stretches


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Layout of a mean clean step by one traced step.

    The step is cut into segments in which the same runs all the time. Each segment has one entry or
    more (several where operations run at once); their weights add up to 1, since rests (the
    framework, data loading) are kinds too.

    Attributes:
        edges: Where segments begin and the last one ends, from 0 to 1 of the step, shape (m + 1,).
        segment: Of each entry, shape (e,).
        kind: What runs, a number from 0 to the number of kinds, shape (e,).
        weight: Share of the segment's wall time, shape (e,).
    """

    edges: FloatArray
    segment: IntArray
    kind: IntArray
    weight: FloatArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampled:
    """Process: its samples, its clean steps, and what ran in its traced ones.

    Attributes:
        t_ns: Times of the samples in ns, strictly increasing, shape (n,).
        value: Power in W of a gauge, or energy in J since some moment of a counter; NaN: a gap.
        counter: Whether it is a counter.
        start_ns: Begin of the clean steps in ns, in order, shape (s,).
        end_ns: Their ends.
        edges_ns: Begin of each phase in each clean step, and end of the last, shape (s, p + 1); the
            first is `start_ns`, the last `end_ns`.
        edges: The same on the mean clean step, from 0 to 1, shape (p + 1,).
        layouts: One for each traced step.
        moving_s: What kinds gain and lose together where the tracer's cost is off by a standard
            error, in s, one row for each way to be off, shape (ways, kinds); None: nothing is.
        beside_s: How far the clock of the samples may lie beside that of the steps, in s.
        centred: Whether the middle of what a value averages over was brought to the steps: how
            late the sensor is has no part in it, then.
    """

    t_ns: IntArray
    value: FloatArray
    counter: bool
    start_ns: IntArray
    end_ns: IntArray
    edges_ns: IntArray
    edges: FloatArray
    layouts: Sequence[Layout]
    moving_s: FloatArray | None = None
    beside_s: float = 0.0
    centred: bool = False


@dataclass(frozen=True, kw_only=True, eq=False)
class Kinds:
    """Kinds to tell apart, and the order in which they are merged where they cannot be.

    Attributes:
        names: Of each finest kind (an operation of a layer in a phase, or a rest), shape (k,).
        levels: For each level, finest first, to which group each kind belongs, shape (k,) each: the
            kinds themselves; kind and layer; kind; layer; phase; the whole step.
        level_names: What the levels are called, in words.
    """

    names: Sequence[str]
    levels: Sequence[IntArray]
    level_names: Sequence[str]
