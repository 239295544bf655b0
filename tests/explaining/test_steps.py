"""The section on steps, of runs whose period, course and changes are known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.run.made import BEGIN, MS, Sampled, make_run
from tests.wording import assert_says, saying

from wattstep.insight.explain import explain
from wattstep.insight.explain.section import Section
from wattstep.report.json_document import dump
from wattstep.run import load
from wattstep.schema.channel import Channel

METER = Channel(
    name="meter", unit="W", kind="gauge", domain="system", role="power_total", source="made",
    scale=1e-3,
)  # fmt: skip
CORE = Channel(
    name="cpu0.utilization", unit="ratio", kind="gauge", domain="cpu", role="core_utilization",
    source="made", scale=1e-3,
)  # fmt: skip


def section(path) -> Section:
    (found,) = explain(load(path), ["steps"])
    return found


def stepping(t_ns: int) -> int:
    """Power of steps of 20 ms, the first 8 of them at work; a little noise by the time itself."""
    return (12_000 if (t_ns - BEGIN) % (20 * MS) < 8 * MS else 4_000) + hash(t_ns) % 97


@pytest.fixture
def equal_steps(tmp_path):
    rng = np.random.default_rng(0)
    late = rng.integers(0, MS, 400)
    sampled = [Sampled(channel=METER, raw=stepping)]
    make_run(
        tmp_path / "run", sampled, steps=300, trace="none", slow=lambda index: int(late[index]) * 0
    )
    return tmp_path / "run"


def test_the_course_of_power_repeats(equal_steps):
    found = section(equal_steps)
    (row,) = found.tables[0].rows
    assert row["repeatability"].value > 0.98
    assert any("repeats most" in sentence for sentence in found.sentences)


def test_the_period_of_the_marks_stands_beside_that_of_the_samples(equal_steps):
    found = section(equal_steps)
    assert found.figures["step_period_by_marks"].value == pytest.approx(0.020)
    # The samples of this meter come by an even beat: aliases cannot be ruled out, which is said.
    (untold,) = [row for row in found.tables[1].rows if row["what"] == "period"]
    assert "aliases" in untold["why"]


def test_the_period_is_named_as_a_median_beside_the_mean_that_run_and_show_give(tmp_path):
    # Steps of 20 ms, one of ten 200 ms longer: 40 ms in the mean.
    make_run(tmp_path / "run", [], steps=303, trace="none",
             slow=lambda index: 200 * MS if index % 10 == 5 else 0)  # fmt: skip
    assert load(tmp_path / "run").metrics["step_time"].value == pytest.approx(0.040, rel=0.01)
    first = section(tmp_path / "run").sentences[0]
    assert_says(first, "40 ms (mean)", "20 ms (median)", "far longer")


def test_the_first_steps_foretell_the_rest(equal_steps):
    table = section(equal_steps).tables[-1]
    assert table.name == "forecasts"
    assert {row["what"] for row in table.rows} == {"time", "energy"}
    assert all(row["held"] == "yes" for row in table.rows)


def test_a_longer_warm_up_than_the_runs_is_said_and_changes_nothing(tmp_path):
    make_run(
        tmp_path / "run", [], steps=200, trace="none",
        slow=lambda index: (15 * MS if index < 20 else 0) + index * 7919 % 97 * 1000,
    )  # fmt: skip
    run = load(tmp_path / "run")
    before = int(run.series.steps.clean.sum())
    found = section(tmp_path / "run")
    assert found.figures["warmup_by_changes"].value == pytest.approx(20, abs=1)
    assert saying(found.sentences, "3 steps as warm-up")
    assert int(load(tmp_path / "run").series.steps.clean.sum()) == before


def test_a_run_slowed_later_shows_where(tmp_path):
    make_run(
        tmp_path / "run", [], steps=200, trace="none",
        slow=lambda index: (6 * MS if index >= 120 else 0) + index * 7919 % 97 * 1000,
    )  # fmt: skip
    found = section(tmp_path / "run")
    (row,) = list(next(t for t in found.tables if t.name == "changes").rows)
    assert row["step"] == pytest.approx(120, abs=2)
    assert row["change"].startswith("+2")


@pytest.mark.parametrize("steps", [1, 4])
def test_a_few_steps_say_so(tmp_path, steps):
    make_run(tmp_path / "run", [Sampled(channel=METER, raw=stepping)], steps=steps, trace="none")
    found = section(tmp_path / "run")
    assert any("too few" in sentence for sentence in found.sentences)
    assert found.figures["step_period_by_samples"].missing


def test_constant_and_failing_channels_have_a_reason(tmp_path):
    sampled = [
        Sampled(channel=METER, raw=lambda t_ns: 5000),
        Sampled(channel=CORE, raw=lambda t_ns: -(2**63)),
    ]
    make_run(tmp_path / "run", sampled, steps=60, trace="none")
    found = section(tmp_path / "run")
    reasons = {row["of"]: row["why"] for row in found.tables[1].rows}
    assert any("constant" in reason for reason in reasons.values())
    for row in found.tables[0].rows:
        assert row["repeatability"].missing


def test_the_goal_is_foretold_from_evaluations_where_there_are_enough(tmp_path):
    evaluations = [
        (step, "accuracy", 0.9 - 0.8 * float(np.exp(-step / 60))) for step in range(0, 181, 5)
    ]
    make_run(
        tmp_path / "run", [], steps=200, trace="none", options={"until": "accuracy=0.85"},
        evaluations=evaluations,
    )  # fmt: skip
    rows = [row for row in section(tmp_path / "run").tables[-1].rows if "accuracy" in row["what"]]
    # 0.8 exp(-s / 60) falls to 0.05 at step 166; the evaluation at 170 finds it.
    assert {row["came"] for row in rows} == {"170"}
    for row in rows:
        assert row["predicted"].value == pytest.approx(170, rel=0.15)


def test_it_fits_into_json(equal_steps, tmp_path):
    with (tmp_path / "out.json").open("w") as file:
        dump({"section": section(equal_steps).document()}, file)
    document = json.loads((tmp_path / "out.json").read_text())["section"]
    assert document["name"] == "steps"
    assert set(document["tables"]) >= {"channels", "untold", "forecasts"}


def test_a_warm_up_of_one_step_is_said_as_one(tmp_path):
    make_run(
        tmp_path / "run", [], steps=200, trace="none",
        slow=lambda index: (50 * MS if index < 1 else 0) + index * 7919 % 97 * 1000,
    )  # fmt: skip
    said = " ".join(section(tmp_path / "run").sentences)
    assert_says(said, "warm-up", "after 1 step;")
