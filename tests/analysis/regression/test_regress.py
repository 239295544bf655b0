"""Energy below the sampling interval: true where the samples tell it, merged or wide where they do not."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.made_power import Made, Scenario, make
from tests.refusals import refused

from wattstep.attribution.regression.outcome import Regression
from wattstep.attribution.regression.problem import Kinds, Layout
from wattstep.attribution.regression.regress import regress
from wattstep.schema.figure import Figure, Status

SMALL = Scenario(kinds=10, steps=80, idle_share=0.0)


def told(made: Made, **known: float) -> Regression:
    return regress(made.processes, made.kinds, **known)


def values(found: Regression) -> np.ndarray:
    return np.array([figure.value or 0.0 for figure in found.kinds])


def half_width(figure: Figure) -> float:
    assert figure.low is not None
    assert figure.high is not None
    return (figure.high - figure.low) / 2


def covered(found: Regression, made: Made) -> float:
    """Share of groups whose interval holds the true energy."""
    inside = [
        group.energy.low <= made.energy[group.members].sum() * (1 + 1e-9)
        and made.energy[group.members].sum() * (1 - 1e-9) <= group.energy.high
        for group in found.groups
        if group.energy.low is not None and group.energy.high is not None
    ]
    return float(np.mean(inside))


@pytest.mark.parametrize(
    "sensor",
    [
        {"average_s": 0.010, "delay_s": 0.005},
        {"average_s": 0.0, "delay_s": 0.005},
        {"counter": True, "delay_s": 0.005},
        {"average_s": 0.050, "period_s": 0.050, "steps": 200},
    ],
    ids=["average", "instant", "counter", "slow"],
)
def test_without_noise_the_truth_comes_back(sensor: dict[str, float]) -> None:
    scenario = replace(SMALL, noise=0.0, **sensor)  # type: ignore[arg-type]
    made = make(scenario, 3)
    found = told(made)
    assert values(found) == pytest.approx(made.energy, rel=1e-3)
    assert found.delay.value == pytest.approx(scenario.delay_s, abs=2e-5)
    if not scenario.counter:
        assert found.window.value == pytest.approx(scenario.average_s, abs=2e-5)


@pytest.mark.parametrize(
    ("seed", "sensor"),
    [
        (201, {"period_s": 0.100, "average_s": 0.100, "steps": 600, "delay_s": 0.050}),
        (205, {"period_s": 0.100, "average_s": 0.100, "steps": 600, "delay_s": 0.050}),
        (201, {"period_s": 0.050, "average_s": 0.020, "steps": 400}),
    ],
)
def test_a_slow_sensor_is_found_though_one_pause_in_ten_is_long(
    seed: int, sensor: dict[str, float]
) -> None:
    """One pause in ten is a tenth of a step; the others are hardly any."""
    scenario = replace(Scenario(), **sensor)  # type: ignore[arg-type]
    found = told(make(scenario, seed))
    assert found.reason is None
    assert found.delay.value == pytest.approx(scenario.delay_s, abs=5e-4)
    assert found.window.value == pytest.approx(scenario.average_s, abs=5e-4)


@pytest.mark.parametrize("seed", [503, 505, 509])
def test_a_window_between_a_moment_and_a_sample_s_spacing_is_found(seed: int) -> None:
    """Windows that are a few ms longer or shorter, with another delay, explain the samples in part."""
    scenario = Scenario(period_s=0.050, average_s=0.020, steps=400)
    found = told(made := make(scenario, seed))
    assert found.reason is None
    assert found.delay.value == pytest.approx(0.0, abs=5e-4)
    assert found.window.value == pytest.approx(0.020, abs=5e-4)
    assert covered(found, made) >= 0.9


def test_exact_samples_that_exclude_another_shape_of_the_window_tell_nearly_all_kinds() -> None:
    made = make(Scenario(noise=0.0, delay_s=0.005), 200)
    found = told(made)
    alone = [group for group in found.groups if len(group.members) == 1 and group.resolved]
    assert len(alone) >= 48
    assert covered(found, made) == 1


@pytest.mark.parametrize("seed", [1, 3], ids=["refused", "told"])
def test_an_exponential_sensor_is_refused_or_its_intervals_hold(seed: int) -> None:
    scenario = Scenario(kinds=20, steps=150, average_s=0.001, exponential=True)
    made = make(scenario, seed)
    found = told(made)
    if found.reason is not None:
        told_ms = re.search(r"time constant about ([\d.]+) ms", found.reason)
        assert told_ms is not None
        assert float(told_ms[1]) == pytest.approx(1.0, rel=0.02)
    else:
        assert covered(found, made) == 1
        assert any(group.resolved for group in found.groups)


def test_every_kind_is_in_one_group_and_energies_add_up() -> None:
    made = make(replace(SMALL, kinds=30, noise=0.2), 1)
    found = told(made)
    members = np.sort(np.concatenate([group.members for group in found.groups]))
    assert (members == np.arange(30)).all()
    total = sum(group.energy.value or 0.0 for group in found.groups)
    assert total == pytest.approx(found.step_energy.value)
    assert total == pytest.approx(made.energy.sum(), rel=0.03)


def test_noise_merges_and_what_is_merged_is_right() -> None:
    clear, noisy = (make(replace(SMALL, kinds=30, noise=noise), 1) for noise in (0.005, 0.3))
    few, many = told(noisy), told(clear)
    assert len(few.groups) < len(many.groups)
    assert any(len(group.members) > 1 and group.level > 0 for group in few.groups)
    assert covered(few, noisy) >= 0.9
    for group in few.groups:
        if group.resolved:
            assert half_width(group.energy) <= 0.2 * (group.energy.value or 0.0) * 1.0001


def test_ticks_locked_to_the_step_are_said_and_nothing_is_wrong() -> None:
    locked = replace(
        SMALL, kinds=40, dither=0.0, phase_spread=0.0, gap_share=0.000222222, average_s=0.0
    )
    made = make(locked, 2)
    found = told(made)
    assert "locked in phase" in found.locked
    assert "9 places" in found.locked
    assert covered(found, made) >= 0.9
    assert not told(make(SMALL, 2)).locked


def test_operation_times_that_are_off_widen_intervals() -> None:
    made = make(SMALL, 5)
    exact, off = told(made, time_error=0.0), told(made, time_error=0.2)
    widths = [
        np.median([(figure.high or 0.0) - (figure.low or 0.0) for figure in found.kinds])
        for found in (exact, off)
    ]
    assert widths[1] > 2 * widths[0]


def test_wrong_times_of_operations_are_noticed_and_held_by_the_intervals() -> None:
    made = make(replace(SMALL, kinds=20, fixed_error=0.2, steps=150), 4)
    found = told(made)
    assert found.time_error > 0.05
    inside = [
        (figure.low or 0.0) <= truth <= (figure.high or 0.0)
        for figure, truth in zip(found.kinds, made.energy, strict=True)
    ]
    assert np.mean(inside) >= 0.9


def test_a_kind_without_power_has_an_interval_from_zero() -> None:
    scenario = replace(SMALL, noise=0.05, idle_share=0.4)
    made = make(scenario, 6)
    idle = np.flatnonzero(made.energy == 0)
    assert len(idle) >= 2
    found = told(made)
    for k in idle:
        assert found.kinds[k].low is not None
        assert found.kinds[k].low >= 0
        assert found.kinds[k].low <= 1e-3 * made.energy.sum()


def test_more_processes_that_differ_widen_the_step_s_interval() -> None:
    scenario = replace(SMALL, processes=4, steps=40)
    alike, unlike = (make(replace(scenario, process_spread=s), 7) for s in (0.0, 0.1))
    widths = []
    for made in (alike, unlike):
        figure = told(made).step_energy
        widths.append(((figure.high or 0.0) - (figure.low or 0.0)) / (figure.value or 1.0))
    assert widths[1] > 3 * widths[0]


def test_figures_carry_source_status_and_method() -> None:
    made = make(SMALL, 1)
    found = regress(made.processes, made.kinds, source="INA3221", status=Status.MODELLED)
    figure = found.groups[0].energy
    assert (figure.source, figure.status, figure.unit) == ("INA3221", Status.MODELLED, "J")
    assert figure.method is not None
    assert "regression" in figure.method
    assert found.groups[0].power.unit == "W"


def test_any_kinds_together_have_a_figure() -> None:
    made = make(replace(SMALL, kinds=30, noise=0.1), 1)
    found = told(made)
    half = np.arange(15)
    power, energy = found.combined(half)
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= made.energy[half].sum() <= energy.high
    assert power.value == pytest.approx((energy.value or 0.0) / made.seconds[half].sum(), rel=1e-3)


def changed(made: Made, **fields: object) -> Regression:
    process = replace(made.processes[0], **fields)  # type: ignore[arg-type]
    return regress([process], made.kinds)


def test_gaps_are_left_out() -> None:
    made = make(replace(SMALL, noise=0.0), 3)
    value = made.processes[0].value.copy()
    value[::7] = np.nan
    assert values(changed(made, value=value)) == pytest.approx(made.energy, rel=1e-3)


def test_a_counter_s_gap_is_no_difference() -> None:
    made = make(replace(SMALL, noise=0.0, counter=True), 3)
    value = made.processes[0].value.copy()
    value[100:130] = np.nan
    value[130:] += 1000.0  # joules while nobody looked
    assert values(changed(made, value=value)) == pytest.approx(made.energy, rel=1e-3)


def test_a_counter_that_was_reset_is_a_gap() -> None:
    made = make(replace(SMALL, noise=0.0, counter=True), 3)
    value = made.processes[0].value - 0.9 * made.processes[0].value[-1] * (
        np.arange(len(made.processes[0].value)) > 200
    )
    assert values(changed(made, value=value)) == pytest.approx(made.energy, rel=1e-3)


def test_repeated_values_count_once() -> None:
    scenario = replace(SMALL, noise=0.0, period_s=0.002, update_s=0.0101, average_s=0.0101)
    made = make(scenario, 3)
    found = told(made)
    assert values(found) == pytest.approx(made.energy, rel=0.05)
    assert found.observations < 0.25 * len(made.processes[0].value)


BAD = {
    "all samples failed": lambda p: replace(p, value=np.full(len(p.value), np.nan)),
    "no samples": lambda p: replace(p, t_ns=p.t_ns[:0], value=p.value[:0]),
    "one sample": lambda p: replace(p, t_ns=p.t_ns[:1], value=p.value[:1]),
    "samples before the steps": lambda p: replace(p, t_ns=p.t_ns - 10**12),
    "one step": lambda p: replace(
        p, start_ns=p.start_ns[:1], end_ns=p.end_ns[:1], edges_ns=p.edges_ns[:1]
    ),
    "no step": lambda p: replace(
        p, start_ns=p.start_ns[:0], end_ns=p.end_ns[:0], edges_ns=p.edges_ns[:0]
    ),
    "no traced step": lambda p: replace(p, layouts=[]),
    "constant": lambda p: replace(p, value=np.full(len(p.value), 3.0)),
}


@pytest.mark.parametrize("what", BAD)
def test_what_tells_nothing_has_a_reason(what: str) -> None:
    made = make(SMALL, 1)
    found = regress([BAD[what](made.processes[0])], made.kinds)
    assert found.reason
    assert not found.groups
    assert found.step_energy.missing
    assert found.combined(np.arange(3))[1].missing


def test_nothing_at_all_has_a_reason() -> None:
    made = make(SMALL, 1)
    nobody = Kinds(names=[], levels=[np.zeros(0, np.int64)], level_names=["operation"])
    assert regress([], made.kinds).reason
    assert regress(made.processes, nobody).reason


def test_few_steps_have_wide_intervals() -> None:
    made = make(replace(SMALL, steps=4), 1)
    found = told(made)
    assert found.reason or covered(found, made) >= 0.5
    for group in found.groups:
        assert group.energy.low is not None


def test_kinds_that_take_no_time_are_said_to() -> None:
    made = make(replace(SMALL, noise=0.0), 3)
    process = made.processes[0]
    count = len(made.kinds.names)
    layouts = [with_zero_length(layout, count) for layout in process.layouts]
    levels = [np.append(level, [level.max() + 1, level.max() + 2]) for level in made.kinds.levels]
    levels[-1] = np.zeros(count + 2, np.int64)
    kinds = Kinds(
        names=[*made.kinds.names, "no length", "never"], levels=levels,
        level_names=made.kinds.level_names,
    )  # fmt: skip
    found = regress([replace(process, layouts=layouts)], kinds)
    for k in (count, count + 1):
        assert found.kinds[k].missing
        assert "no time" in (found.kinds[k].reason or "")
    assert values(found)[:count] == pytest.approx(made.energy, rel=1e-3)
    assert sorted(np.concatenate([g.members for g in found.groups])) == list(range(count + 2))


def with_zero_length(layout: Layout, kind: int) -> Layout:
    """The same with an operation of no length in its middle."""
    at = len(layout.segment) // 2
    edges = np.insert(layout.edges, at, layout.edges[at])
    later = layout.segment >= at
    return Layout(
        edges=edges, segment=np.append(layout.segment + later, at),
        kind=np.append(layout.kind, kind), weight=np.append(layout.weight, 1.0),
    )  # fmt: skip


def test_operations_at_once_share_by_weight() -> None:
    """Two kinds that always run together cannot be distinguished; their sum can."""
    made = make(replace(SMALL, noise=0.01), 3)
    process, one = made.processes[0], 6  # which alone is told to 2 %
    count = len(made.kinds.names)
    layouts = [
        Layout(
            edges=layout.edges, segment=np.repeat(layout.segment, 1 + (layout.kind == one)),
            kind=np.concatenate([[one, count] if k == one else [k] for k in layout.kind]),
            weight=np.concatenate([[0.5, 0.5] if k == one else [1.0] for k in layout.kind]),
        )
        for layout in process.layouts
    ]  # fmt: skip
    kinds = Kinds(
        names=[*made.kinds.names, "beside it"],
        levels=[np.arange(count + 1), *(np.append(lv, lv[one]) for lv in made.kinds.levels[1:])],
        level_names=made.kinds.level_names,
    )
    found = regress([replace(process, layouts=layouts)], kinds, time_error=0.0)
    energy = found.combined(np.array([one, count]))[1]
    assert energy.low is not None
    assert energy.high is not None
    assert energy.low <= made.energy[one] <= energy.high
    alone = found.kinds[one]
    wide = ((alone.high or 0.0) - (alone.low or 0.0)) / (alone.value or 1.0)
    assert wide > 3 * (energy.high - energy.low) / (energy.value or 1.0)


def test_counters_and_gauges_are_not_joined() -> None:
    gauge, counter = make(SMALL, 1), make(replace(SMALL, counter=True), 1)
    with refused("mixed-kinds"):
        regress([*gauge.processes, *counter.processes], gauge.kinds)


def test_levels_that_do_not_fit_are_refused() -> None:
    made = make(SMALL, 1)
    kinds = replace(made.kinds, levels=[level[:-1] for level in made.kinds.levels])
    with refused("missing-level"):
        regress(made.processes, kinds)


def test_the_same_input_gives_the_same_answer() -> None:
    made = make(SMALL, 1)
    first, again = told(made), told(made)
    assert (values(first) == values(again)).all()
    assert [g.energy for g in first.groups] == [g.energy for g in again.groups]


def test_input_is_not_changed() -> None:
    made = make(SMALL, 1)
    before = made.processes[0].value.copy(), made.processes[0].t_ns.copy()
    told(made)
    assert (made.processes[0].value == before[0]).all()
    assert (made.processes[0].t_ns == before[1]).all()


def test_intervals_hold_over_many_trials() -> None:
    """95 % of kinds, less what chance allows for a dozen trials whose kinds err together."""
    shares = []
    for seed in range(12):
        made = make(replace(SMALL, kinds=30, steps=120, fixed_error=0.05 * (seed % 2)), seed)
        found = told(made)
        shares.append(
            np.mean(
                [
                    (figure.low or 0.0) <= truth <= (figure.high or 0.0)
                    for figure, truth in zip(found.kinds, made.energy, strict=True)
                ]
            )
        )
    assert np.mean(shares) >= 0.95 - 2 * max(np.std(shares), 0.04) / np.sqrt(len(shares))
