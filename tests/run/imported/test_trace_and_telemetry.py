"""A trace and a log beside it: what steps and operations took, as far as the clocks are known to fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.run.imported.made import (
    JOULES,
    STEP,
    STEP_J,
    TRACE,
    both,
    imported,
    power,
    rows,
    step,
    whole,
)
from tests.run.made import Worked, import_made, watts
from tests.wording import assert_says

from wattstep.run import Run, load


def test_traced_steps_are_what_there_is_and_say_so(tmp_path: Path) -> None:
    run = both(tmp_path, batch=8)
    metrics = run.metrics()
    assert metrics["step_time"].value == pytest.approx(0.1)
    assert metrics["throughput"].value == pytest.approx(80)
    assert metrics["energy_per_step"].value == pytest.approx(STEP_J, rel=0.02)
    assert metrics["energy_per_sample"].value == pytest.approx(STEP_J / 8, rel=0.02)
    assert metrics["mean_power"].value == pytest.approx(10 * STEP_J, rel=0.02)
    for name in ("step_time", "throughput", "energy_per_step", "mean_power"):
        assert_says(metrics[name].method, "traced steps", "profiler's own cost")
        assert metrics[name].status.value == "measured"
    assert metrics["step_time"].source == "Kineto trace, train.json"
    document = run.document()
    assert document["figures_of"] == "traced steps"
    assert document["operations_of"] == "step"
    assert document["steps"] == {
        "recorded": 12, "warmup": 0, "clean": 0, "traced": 12, "settling": 0,
    }  # fmt: skip


def test_nothing_is_claimed_of_what_the_profiler_cost(tmp_path: Path) -> None:
    metrics = both(tmp_path).metrics()
    for name in ("recording_overhead", "trace_inflation", "correction_residual"):
        assert metrics[name].missing
        assert_says(metrics[name].reason, "without others", "not known")
    assert both(tmp_path / "b").document()["recording"] == {}


def test_wall_time_is_shared_among_processors_and_busy_time_counts_in_full(tmp_path: Path) -> None:
    found = rows(both(tmp_path))
    assert {name: row["time"].value for name, row in found.items()} == pytest.approx(
        {"aten::conv2d": 0.025, "sgemm": 0.020, "aten::mm": 0.015}
    )
    assert {name: row["busy_time"].value for name, row in found.items()} == pytest.approx(
        {"aten::conv2d": 0.030, "sgemm": 0.030, "aten::mm": 0.020}
    )
    assert {name: row["processor"] for name, row in found.items()} == {
        "aten::conv2d": "cpu", "sgemm": "gpu0", "aten::mm": "cpu",
    }  # fmt: skip
    assert found["sgemm"]["calls"].value == 1
    assert "profiler's own cost" in found["sgemm"]["time"].method


def test_operations_and_rests_make_the_mean_step(tmp_path: Path) -> None:
    document = both(tmp_path).document()
    assert document["rests"]["framework"]["time"]["value"] == pytest.approx(0.040)
    assert whole(document, "time") == pytest.approx(0.1)
    energy = document["metrics"]["energy_per_step"]["value"]
    assert whole(document, "energy") == pytest.approx(energy)


def test_energy_is_by_regression_and_names_the_alignment(tmp_path: Path) -> None:
    run = both(tmp_path)
    for name, row in rows(run).items():
        energy = row["energy"]
        assert energy.value == pytest.approx(JOULES[name], rel=0.01)
        assert energy.low <= JOULES[name] <= energy.high
        assert energy.method.startswith("regression of samples")
        assert "± 2 ms by load" in energy.source
    assert "± 2 ms by load" in run.metrics()["energy_per_step"].source


def test_what_is_shorter_than_the_alignment_is_uncertain_is_told_by_many_steps(
    tmp_path: Path,
) -> None:
    run = both(tmp_path, found=imported(0.022))
    for name, row in rows(run).items():  # mm lasts 15 ms
        assert row["energy"].low <= JOULES[name] <= row["energy"].high
    document = run.document()
    assert whole(document, "energy") == pytest.approx(
        document["metrics"]["energy_per_step"]["value"]
    )


# Watts while each of these runs alone, in ms of a step of 100 ms; 2 W in between.
POWERS = {"a": (5, 35, 20.0), "b": (35, 55, 8.0), "c": (60, 95, 12.0)}


def late(path: Path, by_ms: float, uncertainty_s: float | None, count: int = 15) -> Run:
    """A log whose clock is late by so many ms, of steps with a pause of 10 ms after each."""
    begins = [n * 110.0 for n in range(count)]
    operations = [
        Worked(
            name=name, step=n, start=begin + low, end=begin + high, layer=f"layer.{name}",
            phase="forward" if name < "c" else "backward",
        )
        for n, begin in enumerate(begins)
        for name, (low, high, _) in POWERS.items()
    ]  # fmt: skip

    def true(t: float) -> float:
        within = t % 110.0
        return next((w for low, high, w in POWERS.values() if low <= within < high), 2.0)

    values = [
        (n * 0.5 + by_ms, true(n * 0.5) + (n * 7919 % 41 - 20) * 0.001)
        for n in range(-400, count * 220 + 400)
    ]
    return load(
        import_made(
            path / f"late{by_ms}",
            imported(uncertainty_s),
            steps=[(begin, begin + 100.0) for begin in begins],
            operations=operations,
            samples=[(watts(), "power.csv", values)],
        )
    )


@pytest.mark.parametrize(
    ("by_ms", "uncertainty_s", "told"),
    [(4.4, 0.005, 3), (-4.4, 0.005, 3), (-3.0, 0.005, 3), (24.0, 0.025, 3)],
)
def test_a_clock_within_its_uncertainty_leaves_the_truth_in_every_interval(
    tmp_path: Path, by_ms: float, uncertainty_s: float, told: int
) -> None:
    """What the operations, layers and phases take by hand: watts times seconds."""
    run = late(tmp_path, by_ms, uncertainty_s)
    truth = {name: (high - low) * 1e-3 * w for name, (low, high, w) in POWERS.items()}
    phases = {"forward": truth["a"] + truth["b"], "backward": truth["c"]}
    figures = [(row["energy"], truth[row["name"]]) for row in run.operations()]
    figures += [(row.energy, truth[row.layer[-1]]) for row in run.breakdown.layers()]
    figures += [(row.energy, phases[row.phase]) for row in run.breakdown.phases()]
    step = sum(truth.values()) + 0.015 * 2.0
    metrics = run.metrics()
    figures.append((metrics["energy_per_step"], step))
    pauses = 14 * 0.010
    power = (15 * step + pauses * 2.0) / (15 * 0.1 + pauses)  # they lie between the steps
    figures.append((metrics["mean_power"], power))
    shown = [(figure, true) for figure, true in figures if not figure.missing]
    assert all(figure.low <= true <= figure.high for figure, true in shown)
    assert all("not resolvable" in f.reason for f, _ in figures if f.missing)
    assert sum(not r["energy"].missing for r in run.operations()) == told
    document = run.document()
    assert whole(document, "energy") == pytest.approx(metrics["energy_per_step"].value)


def one_long_step(path: Path, uncertainty_s: float) -> Run:
    """20 s, an operation of 50 ms at 20 W in each 200 ms, 2 W between, sampled at 1 kHz."""
    operations = [
        Worked(name="mm", step=0, start=n * 200.0 + 60, end=n * 200.0 + 110) for n in range(100)
    ]
    values = [
        (float(t), (20.0 if 60 <= t % 200 < 110 else 2.0) + (t * 7919 % 41 - 20) * 0.001)
        for t in range(20_001)
    ]
    entry = {"file": "power.csv", "method": "exactly", "uncertainty_s": uncertainty_s}
    return load(
        import_made(
            path / "r",
            imported(alignment=[entry], trace={**TRACE, "steps": "whole"}),
            steps=[(0, 20_000)],
            operations=operations,
            samples=[(watts(), "power.csv", values)],
        )
    )


@pytest.mark.parametrize("uncertainty_s", [0.0, 1e-6])
def test_a_long_trace_as_one_step_has_no_other_to_learn_from(
    tmp_path: Path, uncertainty_s: float
) -> None:
    run = one_long_step(tmp_path, uncertainty_s)
    energy = rows(run)["mm"]["energy"]
    assert "one step was" in energy.reason
    document = run.document()
    recorded = document["metrics"]["recorded_energy"]["value"]
    assert whole(document, "energy") == pytest.approx(recorded, rel=1e-6)


def test_the_energy_of_a_log_needs_no_clock_but_its_own(tmp_path: Path) -> None:
    for steps in ("marked", "whole"):
        run = both(tmp_path / steps, count=6, found=imported(0.15, trace={**TRACE, "steps": steps}))
        metrics = run.metrics()
        assert metrics["recorded_energy"].value == pytest.approx(6 * STEP_J, rel=0.02)
        assert metrics["recorded_energy"].method.startswith("over the whole")
        assert "aligned" not in metrics["recorded_energy"].source
        assert "--align load" in metrics["mean_power"].reason
        assert "record more steps" not in metrics["mean_power"].reason


def test_under_an_uncertainty_longer_than_a_step_what_is_told_holds(tmp_path: Path) -> None:
    """Steps are alike: a log that is a step late tells the same."""
    run = both(tmp_path, found=imported(0.15))
    for name, row in rows(run).items():
        assert row["energy"].low <= JOULES[name] <= row["energy"].high
    assert run.metrics()["energy_per_step"].value == pytest.approx(STEP_J, rel=0.02)
    few = both(tmp_path / "few", count=6, found=imported(0.15))
    assert few.metrics()["energy_per_step"].missing
    assert "± 150 ms by load" in few.metrics()["energy_per_step"].reason


def test_an_alignment_of_unknown_quality_gives_operations_no_energy(tmp_path: Path) -> None:
    run = both(tmp_path, found=imported(None))
    found = rows(run)
    assert all("is not known" in row["energy"].reason for row in found.values())
    assert run.metrics()["energy_per_step"].value == pytest.approx(STEP_J, rel=0.02)
    assert "how exactly" in run.metrics()["energy_per_step"].source
    unsaid = both(tmp_path / "unsaid", found=imported(alignment=[]))
    assert all(row["energy"].missing for row in rows(unsaid).values())


def test_what_the_trace_sampled_itself_needs_no_alignment(tmp_path: Path) -> None:
    begins = [n * STEP for n in range(20)]
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE},
        steps=[(begin, begin + STEP) for begin in begins],
        operations=[row for n, begin in enumerate(begins) for row in step(n, begin)],
        samples=[(watts(), "train.json", power(2000))],
    )
    found = {name: row["energy"] for name, row in rows(load(path)).items()}
    for name, joules in JOULES.items():
        assert found[name].value == pytest.approx(joules, rel=0.01)
        assert found[name].low <= joules <= found[name].high
        assert "aligned" not in found[name].method


def test_a_file_that_nothing_is_said_of_is_as_loose_as_the_loosest(tmp_path: Path) -> None:
    two = [
        {"file": "power.csv", "method": "by load", "uncertainty_s": 0.001},
        {"file": "other.csv", "method": "by wall clock", "uncertainty_s": 0.5},
    ]
    tight = both(tmp_path / "tight", found=imported(alignment=two))
    assert "± 1 ms by load" in rows(tight)["aten::mm"]["energy"].source
    stranger = [{**two[0], "file": "first.csv"}, two[1]]
    loose = both(tmp_path / "loose", found=imported(alignment=stranger))
    assert "± 500 ms by wall clock" in rows(loose)["aten::mm"]["energy"].reason


def test_rails_are_shared_out_with_the_alignment_of_their_own_files(tmp_path: Path) -> None:
    begins = [n * STEP for n in range(12)]
    entries = [
        {"file": "a.csv", "method": "by load", "uncertainty_s": 0.001},
        {"file": "b.csv", "method": "by marks", "uncertainty_s": 0.016},
    ]
    path = import_made(
        tmp_path / "r",
        {"trace": TRACE, "telemetry": [{"file": "a.csv"}, {"file": "b.csv"}], "alignment": entries},
        steps=[(begin, begin + STEP) for begin in begins],
        operations=[row for n, begin in enumerate(begins) for row in step(n, begin)],
        samples=[
            (watts("gpu", "power_part"), "a.csv", power(1200)),
            (watts("cpu", "power_part"), "b.csv", power(1200)),
        ],
    )
    mm = rows(load(path))["aten::mm"]
    for rail, words in (("gpu", "± 1 ms by load"), ("cpu", "± 16 ms by marks")):
        assert mm["energy_by_rail"][rail].value == pytest.approx(JOULES["aten::mm"], rel=0.06)
        assert words in mm["energy_by_rail"][rail].source
    assert "no total" in mm["energy"].reason


def test_a_trace_without_marked_steps_is_of_the_whole_recording(tmp_path: Path) -> None:
    path = import_made(
        tmp_path / "r",
        imported(trace={**TRACE, "steps": "whole"}),
        steps=[(0, 100)],
        operations=step(0, 0),
        samples=[(watts(), "power.csv", power(100))],
    )
    run = load(path)
    metrics, document = run.metrics(), run.document()
    assert metrics["recorded_time"].value == pytest.approx(0.1)
    assert metrics["recorded_energy"].value == pytest.approx(STEP_J, rel=0.02)
    for name in ("step_time", "throughput", "energy_per_step", "energy_per_sample"):
        assert "--step-name" in metrics[name].reason
    assert document["operations_of"] == "recording"
    assert document["steps"] == {"recorded": 0}
    assert rows(run)["sgemm"]["time"].value == pytest.approx(0.020)
    assert "the whole trace" in rows(run)["sgemm"]["time"].method
    assert whole(document, "energy") == pytest.approx(metrics["recorded_energy"].value)


def test_memory_that_a_trace_does_not_tell_is_missing_and_else_summed(tmp_path: Path) -> None:
    silent = rows(both(tmp_path))
    assert all("does not tell" in row["memory"].reason for row in silent.values())
    told = [replace(row, allocated=64 if row.name == "aten::mm" else 0) for row in step(0, 0)]
    path = import_made(tmp_path / "told", {"trace": TRACE}, steps=[(0, 100)], operations=told)
    assert rows(load(path))["aten::mm"]["memory"].value == 64
    assert rows(load(path))["sgemm"]["memory"].value == 0
