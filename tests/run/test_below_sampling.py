"""Energy of what is shorter than samples: by regression over many steps, in groups, or missing with the reason."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.run.made import (
    BEGIN,
    EXTRA,
    FIVE,
    MS,
    ByPhase,
    Made,
    Sampled,
    energy,
    make_run,
    power,
    told,
)
from tests.wording import assert_says

from wattstep.attribution.tables import regression_input as module
from wattstep.attribution.tables.regression_input import Process, process_of, unseen
from wattstep.run import Run, load

TRUTH = {"data-op": 0.004, "forward-op": 0.032, "backward-op": 0.08}  # J a step
WATTS = (2, 4, 8, 1)  # by phase, and between steps
TABLES = ("operations", "layers", "phases", "kinds")


def joules(made: Made) -> Callable[[int], float]:
    """Energy since long ago: 2 W for 2 ms of data, 4 W for 8 ms, 8 W for 10 ms, 1 W between."""
    times, watts = [BEGIN - 10**9], [1.0]
    for start, traced in made.steps:
        extra = EXTRA if traced else 0
        ends = (start, start + 2 * MS + extra, start + 10 * MS + 2 * extra)
        times += [*ends, start + 20 * MS + 3 * extra]
        watts += [*WATTS]
    total = np.concatenate([[0.0], np.cumsum(np.diff(times) * np.array(watts[:-1]) * 1e-9)])

    def until(t_ns: int) -> float:
        at = bisect_right(times, t_ns) - 1
        return float(total[at] + (t_ns - times[at]) * 1e-9 * watts[at])

    return until


def counted(path: Path, steps: int = 600, **more: Any) -> Run:
    """A counter in µJ that is read every 13.1 ms, beside steps of 20 ms."""
    until = joules(make_run(path / "same", [], steps=steps, **more))
    counter = Sampled(
        channel=energy(10**15), raw=lambda t: round(until(t) * 1e6), every_ns=13_100_000
    )
    return load(make_run(path / "r", [counter], steps=steps, **more).path)


def averaged(path: Path, steps: int = 600) -> Run:
    """A gauge that says what the last 30 ms took on average, read every 7.31 ms."""
    until = joules(make_run(path / "same", [], steps=steps))
    window = 30 * MS
    gauge = Sampled(
        channel=replace(power(), window_s=0.03),
        raw=lambda t: round((until(t) - until(t - window)) / 0.03 * 1e3), every_ns=7_310_000,
    )  # fmt: skip
    return load(make_run(path / "r", [gauge], steps=steps).path)


@pytest.fixture(scope="module")
def counter(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return counted(tmp_path_factory.mktemp("counter"))


@pytest.fixture(scope="module")
def gauge(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return averaged(tmp_path_factory.mktemp("gauge"))


def test_operations_shorter_than_the_time_between_samples_get_their_energy_from_many_steps(
    counter: Run,
) -> None:
    rows = {row["name"]: row for row in counter.operations()}
    found = {name: rows[name]["energy"] for name in TRUTH}
    assert {n: f.value for n, f in found.items()} == pytest.approx(TRUTH, rel=0.02)
    for name, figure in found.items():
        assert figure.low <= TRUTH[name] * 1.001
        assert figure.high >= TRUTH[name] * 0.999
        assert figure.status.value == "attributed"
        assert "regression of samples" in figure.method
        assert " samples over 398 steps" in figure.method  # less 3 warm-up, 100 traced, 99 settling
        assert "package.energy" in figure.source


def test_an_operation_has_the_power_that_it_takes_while_it_runs(counter: Run) -> None:
    rows = {row["name"]: row["power"] for row in counter.operations()}
    assert {n: f.value for n, f in rows.items()} == pytest.approx(
        {"data-op": 2, "forward-op": 4, "backward-op": 8}, rel=0.02
    )
    assert {figure.unit for figure in rows.values()} == {"W"}


def test_an_operation_longer_than_samples_is_told_by_the_regression_as_well(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", [Sampled(channel=power(), raw=ByPhase(FIVE))]).path)
    rows = {row["name"]: row for row in run.operations()}
    assert [rows[name]["power"].value for name in TRUTH] == pytest.approx([1, 4, 6.6], rel=0.01)
    for name in TRUTH:
        assert "regression of samples" in rows[name]["energy"].method


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("source", ["counter", "gauge"])
def test_rows_rests_groups_and_what_is_left_make_the_step(
    request: pytest.FixtureRequest, source: str, table: str
) -> None:
    document = request.getfixturevalue(source).document()
    whole = document["metrics"]["energy_per_step"]["value"]
    assert told(document, table) == pytest.approx(whole, rel=1e-9)
    assert whole == pytest.approx(0.116, rel=0.03)


def test_nothing_is_left_over_where_regression_tells_all(counter: Run) -> None:
    document = counter.document()
    assert document["energy_groups"] == []
    assert "energy" not in document["not_resolved"]["operations"]
    assert "not_resolved" not in document["rests"]


def test_behind_a_sensor_that_averages_over_more_than_a_step_intervals_hold_the_truth(
    gauge: Run,
) -> None:
    """Or operations stand in a group, which holds the sum of their energies."""
    rows = {row["name"]: row["energy"] for row in gauge.operations()}
    known = {name: figure for name, figure in rows.items() if not figure.missing}
    for name, figure in known.items():
        assert figure.low * 0.999 <= TRUTH[name] <= figure.high * 1.001  # samples are whole mW
    for group in gauge.document()["energy_groups"]:
        names = [member.split(" ")[0] for member in group["members"]]
        true = sum(TRUTH.get(name, 0.0) for name in names)
        assert group["energy"]["low"] <= true <= group["energy"]["high"]
    for name in set(rows) - set(known):
        assert rows[name].reason.startswith("not resolvable: ")


def test_layers_phases_and_kinds_add_up_what_their_operations_take(counter: Run) -> None:
    document = counter.document()
    layers = {row["layer"]: row["energy"]["value"] for row in document["layers"]}
    assert layers["layer.backward"] == pytest.approx(0.08, rel=0.02)
    (kind,) = document["kinds"]
    assert kind["energy"]["value"] == pytest.approx(0.116, rel=0.02)
    assert kind["energy"]["low"] < kind["energy"]["value"] < kind["energy"]["high"]


def test_what_a_run_costs_is_known_without_any_regression(tmp_path: Path) -> None:
    run = counted(tmp_path, steps=60)
    assert run.metrics()["energy_per_step"].value == pytest.approx(0.116, rel=0.05)
    assert "regression_result" not in vars(run.breakdown.regression_tables)


def test_without_a_sensor_nothing_is_regressed_and_the_reason_stays(tmp_path: Path) -> None:
    run = load(make_run(tmp_path / "r", []).path)
    found = run.breakdown.regression_tables.regression_result
    assert isinstance(found, str)
    assert "no power sensor" in found
    (row, *_) = run.operations()
    assert "no power sensor" in row["energy"].reason
    assert row["power"].missing
    assert run.document()["energy_groups"] == []


def test_without_traced_steps_there_are_no_rows_and_no_regression(tmp_path: Path) -> None:
    run = counted(tmp_path, steps=60, trace="none")
    assert_says(run.breakdown.regression_tables.regression_result, "--trace none")
    assert run.document()["energy_groups"] == []


def test_of_too_few_steps_energy_is_missing_as_it_was(tmp_path: Path) -> None:
    run = counted(tmp_path, steps=7)
    for row in run.operations():
        assert row["energy"].missing
        assert row["energy"].reason
        assert row["power"].missing


@pytest.mark.parametrize("watts", [5000, 0])
def test_a_power_that_never_changes_is_that_of_every_operation_or_none(
    tmp_path: Path, watts: int
) -> None:
    channel = replace(power(), window_s=0.03)
    sampled = Sampled(channel=channel, raw=lambda t: watts, every_ns=7_310_000)
    run = load(make_run(tmp_path / "r", [sampled], steps=300).path)
    document = run.document()
    whole = document["metrics"]["energy_per_step"]["value"]
    for row in run.operations():
        if not row["energy"].missing:
            assert row["power"].value == pytest.approx(watts / 1000, rel=0.01)
    if whole is not None:
        assert told(document, "operations") == pytest.approx(whole, rel=1e-9, abs=1e-12)


def test_failed_reads_are_gaps_and_what_is_left_is_regressed(tmp_path: Path) -> None:
    """Every tenth read failed, and for a second all of them."""
    until = joules(make_run(tmp_path / "same", [], steps=600))
    counter = Sampled(
        channel=energy(10**15), raw=lambda t: round(until(t) * 1e6), every_ns=13_100_000
    )
    path = make_run(tmp_path / "r", [counter], steps=600).path
    run = load(path)
    t_ns, value, errno = run.series.samples["package.energy"]
    value = value.copy()
    value[::10] = np.nan
    value[(t_ns > BEGIN + 3 * 10**9) & (t_ns < BEGIN + 4 * 10**9)] = np.nan
    run.series.samples["package.energy"] = (t_ns, value, errno)
    rows = {row["name"]: row["energy"].value for row in run.operations()}
    assert rows == pytest.approx(TRUTH, rel=0.05)
    found = process_of(run.breakdown, run.series.energy)  # type: ignore[arg-type]
    assert isinstance(found, Process)
    assert np.isnan(found.sampled.value).any()


def test_samples_with_nothing_but_gaps_say_so(tmp_path: Path) -> None:
    run = counted(tmp_path, steps=60)
    t_ns, value, errno = run.series.samples["package.energy"]
    run.series.samples["package.energy"] = (t_ns, np.full(len(value), np.nan), errno)
    for row in run.operations():
        assert row["energy"].missing
        assert "gave no values" in row["energy"].reason


def test_a_long_run_is_thinned_to_stretches_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = counted(tmp_path, steps=600)
    monkeypatch.setattr(module, "MOST_SAMPLES", 400)
    monkeypatch.setattr(module, "STRETCH", 100)
    found = process_of(run.breakdown, run.series.energy)  # type: ignore[arg-type]
    assert isinstance(found, Process)
    (note,) = found.notes
    assert note.startswith("400 of ")
    assert_says(note, "4 stretches")
    known = np.isfinite(found.sampled.value)
    assert known.sum() == 400
    assert (~known).sum() == 4  # after each stretch nothing is known
    rows = {row["name"]: row["energy"].value for row in run.operations()}
    assert rows == pytest.approx(TRUTH, rel=0.05)


# --- steps without marks -------------------------------------------------------------------------


def test_where_some_steps_have_no_marks_phases_are_off_by_what_a_mean_of_the_others_is() -> None:
    """Four of eight steps of 1 s: 0.4 and 0.6 s, or the other way round; by hand, 0.01 * 4/3 / 8."""
    ways = unseen(np.array([[0.4, 0.6], [0.6, 0.4], [0.4, 0.6], [0.6, 0.4]]), 4)
    assert (ways**2).sum(axis=0) == pytest.approx([0.01 * 4 / 3 / 8] * 2)
    assert ways.sum(axis=1) == pytest.approx([0, 0], abs=1e-9)  # the step's length is known
    assert not unseen(np.array([[0.4, 0.6], [0.6, 0.4]]), 0).any()


def test_phases_of_all_steps_lie_as_far_from_those_of_some_as_is_told() -> None:
    rng = np.random.default_rng(1)
    off, told_off = [], []
    for _ in range(300):
        every = rng.uniform(0.5, 1.5, (40, 3))
        every /= every.sum(axis=1, keepdims=True)
        off.append(every.mean(axis=0) - every[:25].mean(axis=0))
        told_off.append((unseen(every[:25], 15) ** 2).sum(axis=0))
    assert np.mean(np.square(off), axis=0) == pytest.approx(np.mean(told_off, axis=0), rel=0.2)
