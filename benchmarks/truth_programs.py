"""Programs whose power and energy are known: what runs when in every step, and what power it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
REST_PHASES = ("data",)  # what no operation covers there has the phase's name
REST = "framework"
WARMUP = 3
RELAXING = np.array([0.0, 0.1, 0.25, 0.45, 0.7, 1.0, 1.4, 2.0, 3.0, 4.5])  # in time constants


@dataclass(frozen=True, kw_only=True)
class Row:
    """An operation as tables tell it from others; a rest has no name.

    Attributes:
        name: Of the operation, "" for what no operation covers.
        kind: Of the operation.
        layer: Where it runs.
        phase: When it runs.
    """

    name: str = ""
    kind: str = ""
    layer: str = ""
    phase: str

    @property
    def rest(self) -> str:
        """What a rest is called in the document."""
        return self.phase if self.phase in REST_PHASES else REST


@dataclass(frozen=True, kw_only=True, eq=False)
class Items:
    """One kind of step: its items in order.

    Attributes:
        row: Which of the program's rows each item belongs to.
        turn: Which of the program's phases, by position.
        seconds: Mean length of each.
        watts: Power of each.
    """

    row: Array
    turn: Array
    seconds: Array
    watts: Array


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Steps to come.

    Attributes:
        rows: What there is.
        phases: Of a step, in order; names may come twice.
        kinds: Of steps, in turn.
        steps: How many, with warm-up and traced ones.
        traced: Which are traced.
        jitter: Standard deviation of the logarithm of each item's length.
        speed: Likewise of a step's lengths altogether.
        memory: Correlation of that from step to step.
        power_noise: Standard deviation of a step's power, relative.
        ramp: How far power rises and falls about its mean within an item, relative.
        drift: How much power rises over the recording by warming, relative.
        warming: Time constant of that, relative to the recording.
        carried_s: Time constant with which power goes from one item's to the next one's; 0: at once.
        between_s: Mean gap between steps.
        base_watts: Power of gaps and of what surrounds the steps.
        event_s: What tracing adds for each event.
        event_inside: Share of that which the event itself shows.
        settling: How much slower the step after a traced one is, relative.
        marks: Steps that carry marks of phases: "all", "layers" (those too), "some", "none".
        stall: How long one traced step is held up, in steps; 0: none is.
    """

    rows: tuple[Row, ...]
    phases: tuple[str, ...]
    kinds: tuple[Items, ...]
    steps: int
    traced: tuple[int, ...]
    jitter: float = 0.01
    speed: float = 0.005
    memory: float = 0.5
    power_noise: float = 0.0
    ramp: float = 0.0
    drift: float = 0.0
    warming: float = 0.3
    carried_s: float = 0.0
    between_s: float = 1e-5
    base_watts: float = 1.0
    event_s: float = 1e-6
    event_inside: float = 0.2
    settling: float = 0.02
    marks: str = "all"
    stall: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """Power over time, linear in pieces.

    Attributes:
        t: Edges of the pieces in s, shape (n + 1,).
        first: Power at the begin of each piece in W.
        last: At its end.
    """

    t: Array
    first: Array
    last: Array
    total: Array = field(init=False)

    def __post_init__(self) -> None:
        spent = (self.first + self.last) / 2 * np.diff(self.t)
        object.__setattr__(self, "total", np.concatenate([[0.0], np.cumsum(spent)]))

    def energy(self, t: Array) -> Array:
        """Since the first edge in J; before and after the curve its outermost power goes on."""
        inside = np.clip(t, self.t[0], self.t[-1])
        at, since, slope = self._located(inside)
        spent = self.total[at] + since * (self.first[at] + slope * since / 2)
        beyond = (t - inside) * np.where(t < inside, self.first[0], self.last[-1])
        result: Array = spent + beyond
        return result

    def power(self, t: Array) -> Array:
        """In W."""
        at, since, slope = self._located(np.clip(t, self.t[0], self.t[-1]))
        result: Array = self.first[at] + slope * since
        return result

    def smoothed(self, t: Array, constant_s: float) -> Array:
        """What an exponential average with this time constant shows."""
        spent = np.diff(self.t)
        slope = (self.last - self.first) / spent
        kept = np.exp(-spent / constant_s)
        behind = self.first - slope * constant_s  # where it tends to, at the begin of a piece
        gained = behind + slope * spent - behind * kept
        shown = np.empty(len(self.t))
        shown[0] = self.first[0]
        for n in range(len(spent)):
            shown[n + 1] = shown[n] * kept[n] + gained[n]
        at, since, slope = self._located(np.clip(t, self.t[0], self.t[-1]))
        behind = self.first[at] - slope * constant_s
        result: Array = behind + slope * since + (shown[at] - behind) * np.exp(-since / constant_s)
        return result

    def _located(self, t: Array) -> tuple[Array, Array, Array]:
        at = np.clip(np.searchsorted(self.t, t, side="right") - 1, 0, len(self.first) - 1)
        slope = (self.last[at] - self.first[at]) / (self.t[at + 1] - self.t[at])
        return at, t - self.t[at], slope


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """What happened in a step: edges of its items in ns, and which kind of step it was."""

    edges_ns: Array
    kind: int
    traced: bool
    stalled_ns: int


@dataclass(frozen=True, kw_only=True, eq=False)
class Happened:
    """A program that ran.

    Attributes:
        program: What ran.
        steps: Its steps.
        windows_ns: Begin and end of each tracing window.
        curve: Power; its zero is the first edge.
        seconds: Of each row in the mean clean step.
        joules: Likewise.
        step_seconds: Of the mean clean step.
        step_joules: Likewise.
        watts: Mean power over clean steps and the gaps between those that follow each other.
        expected_s: Length of a clean step in the long run.
        clean: How many there are.
    """

    program: Program
    steps: Sequence[Step]
    windows_ns: Sequence[tuple[int, int]]
    curve: Curve
    seconds: Array
    joules: Array
    step_seconds: float
    step_joules: float
    watts: float
    expected_s: float
    clean: int


def run_program(program: Program, rng: np.random.Generator) -> Happened:
    """Runs it: lengths and powers of everything, and the truth of its mean clean step."""
    speed = np.exp(program.speed * _autoregressive(program.steps, program.memory, rng))
    noise = 1 + program.power_noise * rng.standard_normal(program.steps)
    traced = frozenset(program.traced)
    stalled = int(rng.choice(program.traced)) if program.stall else -1
    lengths: list[Array] = [np.array([int(rng.uniform(0.3e9, 1e9))])]  # before the first step
    watts: list[Array] = [np.array([program.base_watts])]
    steps: list[Step] = []
    windows: list[tuple[int, int]] = []
    now = int(lengths[0][0])

    def beside(seconds: float, power: float) -> None:
        nonlocal now
        length = max(int(seconds * 1e9), 1000)
        lengths.append(np.array([length]))
        watts.append(np.array([power]))
        now += length

    for index in range(program.steps):
        kind = index % len(program.kinds)
        sequence = program.kinds[kind]
        opened = now
        if index in traced:
            beside(rng.uniform(0.002, 0.02), 1.3 * program.base_watts)
        length = _lengths(program, sequence, speed[index], index in traced, rng)
        if index - 1 in traced:
            length *= 1 + program.settling
        stall = 0
        if index == stalled:
            victim = rng.choice(np.flatnonzero([program.rows[r].name != "" for r in sequence.row]))
            stall = int(program.stall * sequence.seconds.sum() * 1e9)
            length[victim] += stall * 1e-9
        spent = np.maximum(np.rint(length * 1e9).astype(np.int64), 500)
        edges = now + np.concatenate([[0], np.cumsum(spent)])
        steps.append(Step(edges_ns=edges, kind=kind, traced=index in traced, stalled_ns=stall))
        lengths.append(spent)
        watts.append(sequence.watts * noise[index])
        now = int(edges[-1])
        if index in traced:
            beside(rng.uniform(0.005, 0.1), 1.2 * program.base_watts)
            windows.append((opened, now))
        beside(program.between_s * rng.exponential(), program.base_watts)
    beside(rng.uniform(0.3, 1.0), program.base_watts)
    curve = _curve(program, np.concatenate(lengths), np.concatenate(watts))
    return _with_truth(program, steps, windows, curve)


def _lengths(
    program: Program, sequence: Items, speed: float, traced: bool, rng: np.random.Generator
) -> Array:
    own = rng.standard_normal(len(sequence.seconds))
    length = sequence.seconds * speed * np.exp(program.jitter * own - program.jitter**2 / 2)
    if traced:
        named = np.array([program.rows[row].name != "" for row in sequence.row])
        length[named] += program.event_s * program.event_inside
        after = np.flatnonzero(named) + 1  # every operation has a rest behind it
        length[after] += program.event_s * (1 - program.event_inside)
    result: Array = length
    return result


def _curve(program: Program, lengths: Array, watts: Array) -> Curve:
    t = np.concatenate([[0], np.cumsum(lengths)]) * 1e-9
    constant = program.warming * t[-1]
    watts = watts * (1 + program.drift * (1 - np.exp(-t[:-1] / constant)))
    if program.carried_s:
        return _relaxed(t, watts, program.carried_s)
    return Curve(t=t, first=watts * (1 - program.ramp), last=watts * (1 + program.ramp))


def _relaxed(t: Array, watts: Array, constant_s: float) -> Curve:
    """Power that goes over from one item's to the next one's, in linear pieces."""
    edges: list[float] = [float(t[0])]
    first: list[float] = []
    last: list[float] = []
    level = float(watts[0])
    for begin, end, target in zip(t[:-1], t[1:], watts, strict=True):
        knots = begin + RELAXING * constant_s
        knots = np.concatenate([knots[knots < end - 1e-9], [end]])
        shown = target + (level - target) * np.exp(-(knots - begin) / constant_s)
        edges += knots[1:].tolist()
        first += shown[:-1].tolist()
        last += shown[1:].tolist()
        level = float(shown[-1])
    return Curve(t=np.array(edges), first=np.array(first), last=np.array(last))


def _with_truth(
    program: Program, steps: list[Step], windows: list[tuple[int, int]], curve: Curve
) -> Happened:
    """Clean are steps that are no warm-up, not traced, and not the one after a traced one."""
    seconds, joules = np.zeros(len(program.rows)), np.zeros(len(program.rows))
    clean = 0
    stretches: list[tuple[int, int]] = []
    last = -1
    for index, step in enumerate(steps):
        if index < WARMUP or step.traced or steps[index - 1].traced:
            continue
        clean += 1
        begin, end = int(step.edges_ns[0]), int(step.edges_ns[-1])
        if index == last + 1 and stretches:
            begin, _ = stretches.pop()
        stretches.append((begin, end))
        last = index
        row = program.kinds[step.kind].row
        seconds += np.bincount(row, np.diff(step.edges_ns) * 1e-9, len(seconds))
        spent = np.diff(curve.energy(step.edges_ns * 1e-9))
        joules += np.bincount(row, spent, len(joules))
    seconds, joules = seconds / clean, joules / clean
    return Happened(
        program=program, steps=steps, windows_ns=windows, curve=curve, seconds=seconds,
        joules=joules, step_seconds=float(seconds.sum()), step_joules=float(joules.sum()),
        watts=_mean_power(curve, stretches), expected_s=_expected_s(program), clean=clean,
    )  # fmt: skip


def _mean_power(curve: Curve, stretches: Sequence[tuple[int, int]]) -> float:
    """In W over stretches of time, begin and end in ns."""
    spans = np.array(stretches) * 1e-9
    return float(np.diff(curve.energy(spans), axis=1).sum() / np.diff(spans, axis=1).sum())


def _expected_s(program: Program) -> float:
    mean = np.mean([kind.seconds.sum() for kind in program.kinds])
    return float(mean * np.exp(program.speed**2 / 2))


def _autoregressive(count: int, memory: float, rng: np.random.Generator) -> Array:
    """An AR(1) process with standard deviation 1."""
    from scipy.signal import lfilter

    white = rng.standard_normal(count)
    white[1:] *= np.sqrt(1 - memory**2)
    result: Array = lfilter([1.0], [1.0, -memory], white)
    return result


def sequence_of(items: Sequence[tuple[int, int, float, float]]) -> Items:
    """A kind of step of (row, position of the phase, seconds, watts)."""
    row, turn, seconds, watts = (np.array(column) for column in zip(*items, strict=True))
    return Items(row=row, turn=turn, seconds=seconds, watts=watts)
