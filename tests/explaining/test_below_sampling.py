"""What `explain --section below_sampling` says of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.command_line import wattstep
from tests.run.made import make_run
from tests.run.test_below_sampling import TRUTH, counted
from tests.wording import assert_says

from wattstep.attribution.regression.outcome import Regression
from wattstep.insight.explain import explain
from wattstep.insight.explain.below_sampling import _of_sensor
from wattstep.insight.explain.section import Section
from wattstep.recorded.power import EnergySource
from wattstep.run import Run, load
from wattstep.schema.figure import Figure, Status, missing


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return counted(tmp_path_factory.mktemp("explained"), steps=300)


def section(run: Run) -> Section:
    (found,) = explain(run, ["below_sampling"])
    return found


def test_it_says_how_much_of_the_step_has_a_power_of_its_own(run: Run) -> None:
    said = " ".join(section(run).sentences)
    assert "power of their" in said
    assert "From the samples, " in said
    assert "sensor is late" in said
    assert "locked in phase" in said
    assert ".." not in said
    assert "Of 0 %" not in said


def test_power_by_operation_stands_beside_plain_overlap(run: Run) -> None:
    tables = {table.name: table for table in section(run).tables}
    rows = {row["name"]: row for row in tables["operations"].rows}
    assert rows["backward-op"]["power"].value == pytest.approx(8, rel=0.02)
    assert {name: rows[name]["energy"].value for name in TRUTH} == pytest.approx(TRUTH, rel=0.02)
    overlap = sum(rows[name]["overlap"].value for name in TRUTH)
    assert overlap == pytest.approx(sum(TRUTH.values()), rel=0.03)
    # A counter read every 13 ms does not see that data loading takes 2 W of it.
    assert rows["data-op"]["overlap"].value > 2 * TRUTH["data-op"]


def test_groups_hold_every_operation_and_rest_once(run: Run) -> None:
    tables = {table.name: table for table in section(run).tables}
    held = [name for row in tables["groups"].rows for name in row["holds"]]
    assert len(held) == len(set(held))
    assert {name.split(" ")[0] for name in held} >= set(TRUTH)


def test_a_run_without_energy_says_why(tmp_path: Path) -> None:
    found = section(load(make_run(tmp_path / "r", []).path))
    assert "no power sensor" in (found.reason or "")
    assert found.tables == ()


def test_a_run_without_traced_steps_says_why(tmp_path: Path) -> None:
    found = section(counted(tmp_path, steps=30, trace="none"))
    assert_says(found.reason, "--trace none")


def test_a_run_of_too_few_steps_says_why(tmp_path: Path) -> None:
    assert section(counted(tmp_path, steps=7)).reason


def test_the_command_line_gives_it_as_json_and_on_a_terminal(run: Run) -> None:
    asked = ("explain", run.path, "-s", "below_sampling", "--quiet")
    shown = wattstep(*asked)
    assert "below the sampling" in shown.stdout
    written = wattstep(*asked, "--json")
    assert shown.returncode == written.returncode == 0
    (document,) = json.loads(written.stdout)["runs"]
    (found,) = document["sections"]
    assert found["name"] == "below_sampling"
    assert found["figures"]["sensor_delay"]["unit"] == "s"


def test_a_delay_that_may_be_none_is_not_said_to_be_one_and_keeps_its_unit() -> None:
    said = " ".join(_of_delay(0.0032, -0.0103, 0.015))
    assert_says(said, "cannot be determined", "3.2 ms (-10.3 ms to 15 ms)")
    assert_says(" ".join(_of_delay(0.094, 0.092, 0.096)), "late by 94 ms (92 ms to 96 ms)")


def _of_delay(value: float, low: float, high: float) -> list[str]:
    delay = Figure(value=value, low=low, high=high, unit="s", status=Status.ATTRIBUTED)
    regression = SimpleNamespace(delay=delay, window=missing("s", "a counter has none"))
    return [_of_sensor(cast(Regression, regression))]


def test_plain_overlap_of_modelled_power_is_modelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modelled = counted(tmp_path, steps=60)
    source = modelled.series.energy
    assert isinstance(source, EnergySource)
    changed = replace(source, status=Status.MODELLED)
    monkeypatch.setattr(type(modelled.series), "energy", property(lambda _: changed))
    (table,) = (table for table in section(modelled).tables if table.name == "operations")
    assert table.rows
    assert {row["overlap"].status for row in table.rows} == {Status.MODELLED}


def test_a_group_has_the_energy_that_the_tables_of_the_run_say(run: Run) -> None:
    (groups,) = [table for table in section(run).tables if table.name == "groups"]
    rows = {row["name"]: row["energy"] for row in run.operations()}
    alone = [
        row for row in groups.rows if row["members"] == 1 and row["holds"][0].split()[0] in rows
    ]
    assert alone
    for row in alone:
        assert row["energy"].value == pytest.approx(rows[row["holds"][0].split()[0]].value)
