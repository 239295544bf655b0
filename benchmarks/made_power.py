"""Trainings whose power is known, made event by event, and the samples that a sensor would take of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wattstep.attribution.regression.problem import Kinds, Layout, Sampled

Array = np.ndarray
PHASES = 3
LEVELS = ("kind and layer", "kind", "layer", "phase", "step")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What a training and its sensor are like.

    Attributes:
        kinds: How many kinds of operations.
        step_s: Mean length of a step.
        steps: How many clean steps, in each process.
        processes: How many processes.
        calls: Most instances of a kind in a step.
        phase_spread: Standard deviation of a phase's length from step to step, relative.
        jitter: Of each instance's length, about its kind's, relative; traced steps have it too.
        fixed_error: Of each kind's length in all traced steps, relative: what tracing gets wrong.
        windows: Traced steps, one layout each.
        period_s: Of the samples.
        dither: Of the ticks, relative to the period.
        delay_s: From the end of the sensor's average to the tick that shows it.
        average_s: What the sensor averages over; 0: it is instant.
        exponential: Whether that is a time constant, with which it forgets.
        counter: Whether it counts energy.
        update_s: How often the sensor has a new value; 0: with each read.
        noise: Standard deviation of a value, relative to the mean power (of a counter: of the
            energy of one period at mean power).
        memory: Correlation of the noise of neighbouring values.
        quantum: Smallest step of the value, relative to mean power or a period's energy.
        drift: Slow change of all power, relative.
        process_spread: Of a process' power, relative.
        idle_share: Share of the kinds that take no power at all.
        gap_share: Between steps, relative to a step's length, in every tenth.
        own_spread: Of a kind's power about its type's (logarithm).
        type_spread: Of the types' powers (logarithm).
    """

    kinds: int = 50
    step_s: float = 0.090
    steps: int = 200
    processes: int = 1
    calls: int = 2
    phase_spread: float = 0.01
    jitter: float = 0.0
    fixed_error: float = 0.0
    windows: int = 10
    period_s: float = 0.010
    dither: float = 0.05
    delay_s: float = 0.0
    average_s: float = 0.010
    exponential: bool = False
    counter: bool = False
    update_s: float = 0.0
    noise: float = 0.02
    memory: float = 0.0
    quantum: float = 0.0
    drift: float = 0.0
    process_spread: float = 0.0
    idle_share: float = 0.05
    gap_share: float = 0.1
    own_spread: float = 0.4
    type_spread: float = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """A problem and its answer.

    Attributes:
        processes: What the regression is given.
        kinds: Likewise.
        energy: Of each kind in a mean clean step in J.
        power: Of each kind in W.
        seconds: Of each kind in a mean clean step.
        scenario: What it was made of.
    """

    processes: list[Sampled]
    kinds: Kinds
    energy: Array
    power: Array
    seconds: Array
    scenario: Scenario


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Instances in the order in which they run: kind, phase and mean length."""

    kind: Array
    phase: Array
    seconds: Array


def make(scenario: Scenario, seed: int) -> Made:
    """A training, its traced steps, and its samples."""
    rng = np.random.default_rng(seed)
    types = max(3, scenario.kinds // 8)
    kind_type = rng.integers(0, types, scenario.kinds)
    layer = np.sort(rng.integers(0, max(2, scenario.kinds // 6), scenario.kinds))
    phase = rng.integers(0, PHASES, scenario.kinds)
    power = _power(scenario, kind_type, rng)
    program = _program(scenario, phase, rng)
    wrong = np.maximum(1 + scenario.fixed_error * rng.standard_normal(scenario.kinds), 0.1)
    made = [_process(scenario, program, power, wrong, rng) for _ in range(scenario.processes)]
    seconds = np.mean([seconds for _, _, seconds in made], axis=0)
    energy = np.mean([energy for _, energy, _ in made], axis=0)
    return Made(
        processes=[sampled for sampled, _, _ in made],
        kinds=_kinds(kind_type, layer, phase), energy=energy, seconds=seconds,
        power=np.divide(energy, seconds, out=power.copy(), where=seconds > 0), scenario=scenario,
    )  # fmt: skip


def _power(scenario: Scenario, kind_type: Array, rng: np.random.Generator) -> Array:
    """Power is that of the type, and each kind lies about it; some take none."""
    of_type = np.exp(scenario.type_spread * rng.standard_normal(kind_type.max() + 1))
    own = np.exp(scenario.own_spread * rng.standard_normal(len(kind_type)))
    power = 4.0 * of_type[kind_type] * own
    power[rng.random(len(power)) < scenario.idle_share] = 0.0
    return power


def _program(scenario: Scenario, phase: Array, rng: np.random.Generator) -> Program:
    calls = rng.integers(1, scenario.calls + 1, scenario.kinds)
    kind = np.repeat(np.arange(scenario.kinds), calls)
    kind = kind[rng.permutation(len(kind))]
    kind = kind[np.argsort(phase[kind], kind="stable")]
    length = np.exp(0.8 * rng.standard_normal(scenario.kinds))[kind]
    seconds = length / length.sum() * scenario.step_s
    return Program(kind=kind, phase=phase[kind], seconds=seconds)


def _kinds(kind_type: Array, layer: Array, phase: Array) -> Kinds:
    count = len(kind_type)
    both = np.unique(np.stack([kind_type, layer]), axis=1, return_inverse=True)[1].ravel()
    levels = [np.arange(count), both, kind_type, layer, phase, np.zeros(count, int)]
    return Kinds(
        names=[f"operation {k}" for k in range(count)],
        levels=[np.asarray(level, np.int64) for level in levels],
        level_names=["operation", *LEVELS],
    )


def _process(
    scenario: Scenario, program: Program, power: Array, wrong: Array, rng: np.random.Generator
) -> tuple[Sampled, Array, Array]:
    """One process: what the regression sees of it, and true energy and time of kinds in a step."""
    n, m = scenario.steps, len(program.kind)
    lengths = _lengths(scenario, program, n, rng)
    scale = 1 + scenario.process_spread * rng.standard_normal()
    slow = 1 + scenario.drift * _slowly(n, rng)
    begin = np.empty(n)
    gaps = np.where(rng.random(n) < 0.1, scenario.gap_share * scenario.step_s, 2e-5)
    begin[0] = 0.3
    begin[1:] = 0.3 + np.cumsum(lengths.sum(axis=1) + gaps)[:-1]
    edge = np.empty((n, m + 1))
    edge[:, 0] = begin
    edge[:, 1:] = begin[:, None] + np.cumsum(lengths, axis=1)
    edge_ns = np.rint(edge * 1e9).astype(np.int64)
    watts = np.empty((n, m + 1))
    watts[:, :m] = power[program.kind] * slow[:, None]
    watts[:, m] = 1.0
    t_ns, value = _sampled(scenario, edge_ns.ravel(), scale * watts.ravel(), rng)
    spent = np.diff(edge_ns, axis=1) * 1e-9
    seconds = np.bincount(program.kind, spent.mean(axis=0), scenario.kinds)
    energy = np.bincount(program.kind, (spent * watts[:, :m]).mean(axis=0), scenario.kinds)
    phase_edges = edge_ns[:, np.searchsorted(program.phase, np.arange(PHASES + 1))]
    share = np.diff(phase_edges, axis=1).mean(axis=0)
    edges = np.concatenate([[0.0], np.cumsum(share)]) / share.sum()
    edges[-1] = 1.0
    origin = np.int64(10**15)
    sampled = Sampled(
        t_ns=t_ns + origin, value=value, counter=scenario.counter,
        start_ns=edge_ns[:, 0] + origin, end_ns=edge_ns[:, -1] + origin,
        edges_ns=phase_edges + origin, edges=edges,
        layouts=_layouts(scenario, program, edges, wrong, rng),
    )  # fmt: skip
    return sampled, energy, seconds


def _lengths(scenario: Scenario, program: Program, count: int, rng: np.random.Generator) -> Array:
    """Of each instance in each step, shape (count, m)."""
    phases = 1 + scenario.phase_spread * rng.standard_normal((count, PHASES))
    each = 1 + scenario.jitter * rng.standard_normal((count, len(program.kind)))
    lengths = program.seconds * phases[:, program.phase] * np.maximum(each, 0.05)
    # Nothing is shorter than a microsecond: times are whole nanoseconds.
    result: Array = np.maximum(np.rint(lengths * 1e9), 1e3) * 1e-9
    return result


def _slowly(count: int, rng: np.random.Generator) -> Array:
    """An AR(1) process over the steps with standard deviation 1."""
    values = np.empty(count)
    values[0] = rng.standard_normal()
    for i in range(1, count):
        values[i] = 0.95 * values[i - 1] + np.sqrt(1 - 0.95**2) * rng.standard_normal()
    return values


def _layouts(
    scenario: Scenario, program: Program, edges: Array, wrong: Array, rng: np.random.Generator
) -> list[Layout]:
    """What traced steps say: their own lengths, wrong by kind, stretched to the mean phases."""
    layouts = []
    for lengths in _lengths(scenario, program, scenario.windows, rng):
        lengths = lengths * wrong[program.kind]
        of_phase = np.bincount(program.phase, lengths, PHASES)
        ratio = np.divide(np.diff(edges), of_phase, out=np.zeros(PHASES), where=of_phase > 0)
        cut = np.concatenate([[0.0], np.cumsum(lengths * ratio[program.phase])])
        cut[-1] = 1.0
        layout = Layout(
            edges=cut,
            segment=np.arange(len(lengths)),
            kind=program.kind.astype(np.int64),
            weight=np.ones(len(lengths)),
        )  # fmt: skip
        layouts.append(layout)
    return layouts


def _sampled(
    scenario: Scenario, edge_ns: Array, watts: Array, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Ticks and what the sensor shows at them."""
    period = scenario.period_s
    first, last = edge_ns[0] * 1e-9 - 0.1, edge_ns[-1] * 1e-9 + 0.1
    nominal = np.arange(first, last, period)
    ticks = nominal + period * scenario.dither * rng.uniform(-1, 1, len(nominal))
    t_ns = np.rint(ticks * 1e9).astype(np.int64)
    if scenario.update_s:
        updates = np.arange(first - 1 - scenario.update_s * rng.random(), last, scenario.update_s)
        fresh = _shown(scenario, updates, scenario.update_s, edge_ns, watts, rng)
        return t_ns, fresh[np.searchsorted(updates, t_ns * 1e-9, side="right") - 1]
    return t_ns, _shown(scenario, t_ns * 1e-9, period, edge_ns, watts, rng)


def _shown(
    scenario: Scenario, at: Array, spacing: float, edge_ns: Array, watts: Array,
    rng: np.random.Generator,
) -> Array:  # fmt: skip
    """What the sensor shows at moments in s."""
    spent = np.diff(edge_ns) * 1e-9
    energy = np.concatenate([[0.0], np.cumsum(spent * watts[:-1])])
    mean = energy[-1] / spent.sum()
    noise = _noise(len(at), scenario.memory, rng)
    at = at - scenario.delay_s
    known = edge_ns * 1e-9

    def counted(moments: Array) -> Array:
        # Before the first step and after the last one, one watt.
        outside = np.minimum(moments - known[0], 0) + np.maximum(moments - known[-1], 0)
        total: Array = np.interp(moments, known, energy) + outside
        return total

    if scenario.counter:
        unit = mean * spacing
        value = counted(at) - counted(at[:1]) + scenario.noise * unit * noise
    elif scenario.exponential:
        unit = mean
        value = _forgetting(at, scenario.average_s, known, watts) + scenario.noise * unit * noise
    elif scenario.average_s:
        unit = mean
        window = scenario.average_s
        value = (counted(at) - counted(at - window)) / window + scenario.noise * unit * noise
    else:
        unit = mean
        inside = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(watts) - 1)
        now = np.where((at < known[0]) | (at >= known[-1]), 1.0, watts[inside])
        value = now + scenario.noise * unit * noise
    if scenario.quantum:
        value = np.rint(value / (scenario.quantum * unit)) * scenario.quantum * unit
    return value


def _forgetting(at: Array, seconds: float, known: Array, watts: Array) -> Array:
    """What goes to the true power with a time constant, from one watt before the first step."""
    kept = np.exp(-np.diff(known) / seconds)
    level = np.ones(len(known))
    for n in range(len(kept)):
        level[n + 1] = watts[n] + (level[n] - watts[n]) * kept[n]
    now = np.clip(np.searchsorted(known, at, side="right") - 1, 0, len(known) - 1)
    tends = np.where(at < known[-1], watts[now], 1.0)
    since = np.maximum(at - known[now], 0.0)
    shown: Array = tends + (level[now] - tends) * np.exp(-since / seconds)
    return shown


def _noise(count: int, memory: float, rng: np.random.Generator) -> Array:
    white = rng.standard_normal(count)
    if memory:
        for i in range(1, count):
            white[i] = memory * white[i - 1] + np.sqrt(1 - memory**2) * white[i]
    return white
