"""Whole comparisons of run folders, good and bad: the answer in words, warnings, refusals, and no wrong answers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.comparison.made import INFO, edit, process, recorded
from tests.refusals import refused
from tests.run.made import MS, Sampled, make_run, power
from tests.wording import assert_says, saying

from wattstep.insight.compare.comparing import Comparison, compare, warnings_of
from wattstep.insight.compare.configuration import configuration_of
from wattstep.insight.compare.sides import Side, gathered


def compared(*groups: list[Path], across: frozenset[str] = frozenset()) -> Comparison:
    a, b = gathered(groups)
    return compare(a, b, across)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs of A and three of B, whose steps take 20 and 24 ms at 5 and 5 W."""
    folder = tmp_path_factory.mktemp("runs")
    for n in range(3):
        recorded(
            folder / f"a{n}",
            1.0 + 0.001 * n,
            jitter=MS // 10,
            created=f"2026-11-20T12:0{2 * n}:00+0000",
        )
        recorded(
            folder / f"b{n}",
            1.2 + 0.001 * n,
            jitter=MS // 10,
            created=f"2026-11-20T12:0{2 * n + 1}:00+0000",
        )
    return folder


@pytest.fixture(scope="module")
def several(runs: Path) -> Comparison:
    return compared([runs / f"a{n}" for n in range(3)], [runs / f"b{n}" for n in range(3)])


def test_a_difference_between_several_processes_is_told_in_words(several: Comparison) -> None:
    time = several.metrics["step_time"]
    # 20.05 and 24.05 ms, the means of the odd and even steps.
    assert time.ratio.value == pytest.approx(24.05 / 20.05, rel=0.002)
    assert time.verdict == "higher"
    assert_says(several.sentences[0], "Time:", "B takes 20 % more")
    assert_says(several.sentences[1], "Energy:", "B takes 20 % more")
    assert several.metrics["mean_power"].verdict == "not shown"
    assert several.warnings == ()


def test_operations_of_several_processes_are_compared_with_their_energy(tmp_path: Path) -> None:
    sides = [
        [recorded(tmp_path / f"{side}{n}", slower + 0.001 * n, by_phase=True) for n in range(3)]
        for side, slower in (("a", 1.0), ("b", 1.2))
    ]
    several = compared(*sides)
    by_name = {row.key["name"]: row for row in several.operations.rows}
    assert set(by_name) == {"data-op", "forward-op", "backward-op"}
    forward = by_name["forward-op"].quantities
    assert forward["time"].ratio.value == pytest.approx(1.2, rel=0.01)
    assert forward["time"].verdict == "higher"
    assert forward["energy"].ratio.value == pytest.approx(1.2, rel=0.02)


def test_the_document_is_json_and_figures_stay_figures(several: Comparison) -> None:
    from io import StringIO

    from wattstep.report.json_document import dump

    stream = StringIO()
    dump(several.document(), stream, indented=False)
    document = json.loads(stream.getvalue())
    ratio = document["metrics"]["step_time"]["ratio"]
    assert ratio["unit"] == "ratio"
    assert ratio["status"] == "measured"
    assert document["metrics"]["step_time"]["plan"]["processes"] == 3
    assert document["operations"]["rows"][0]["time"]["q"] is not None
    assert "\n" not in stream.getvalue().rstrip("\n")


def test_one_process_of_each_says_first_what_it_cannot_tell(runs: Path) -> None:
    found = compared([runs / "a0"], [runs / "b0"])
    assert found.sentences[0].startswith("One process")
    assert_says(found.sentences[1], "B takes", "more time", "not shown")
    assert found.metrics["step_time"].verdict == "differs here"
    assert found.metrics["step_time"].of_these == "higher"


def test_no_difference_is_told_with_what_more_processes_would_show(
    runs: Path, tmp_path: Path
) -> None:
    a = [runs / "a0", recorded(tmp_path / "x", 1.03)]
    b = [recorded(tmp_path / "y", 1.01), recorded(tmp_path / "z", 1.04)]
    sentence = compared(a, b).sentences[0]
    assert_says(sentence, "Time:", "no difference", "two processes")
    assert_says(sentence, "2 %")


def test_sides_that_were_run_one_after_the_other_are_warned_of(runs: Path, tmp_path: Path) -> None:
    later = [recorded(tmp_path / str(n), created=f"2026-11-21T12:0{n}:00+0000") for n in range(2)]
    found = compared([runs / "a0", runs / "a1"], later)
    assert saying(found.warnings, "all runs of A", "before all of B")


def test_versions_temperatures_and_ways_of_recording_that_differ_are_told(
    runs: Path, tmp_path: Path
) -> None:
    other = recorded(
        tmp_path / "other", engine="torch 2.14", environment={"python": "3.12"}, interval_s=0.1
    )
    warnings = " | ".join(compared([runs / "a0"], [other]).warnings)
    assert_says(warnings, "version of python: ")
    assert_says(warnings, "sampling interval", "1 ms and 100 ms")
    assert_says(warnings, "the engine: 2.14")


def test_different_configurations_are_refused_and_compared_where_it_is_meant(
    runs: Path, tmp_path: Path
) -> None:
    other = recorded(tmp_path / "threads", threads=4)
    with refused("other-configuration", "A and B", "number of threads"):
        compared([runs / "a0"], [other])
    found = compared([runs / "a0"], [other], across=frozenset(["threads"]))
    assert found.meant == {"threads": ("1", "4")}


def test_runs_of_two_devices_know_nothing_of_drift(runs: Path, tmp_path: Path) -> None:
    other = recorded(tmp_path / "pi", device={"model": "pi", "cores": 2})
    found = compared([runs / "a0"], [other], across=frozenset(["device"]))
    assert found.drift.reason is not None
    assert found.drift.reason.startswith("different devices")


# --- bad input ------------------------------------------------------------------------------------


def test_a_run_without_operations_is_compared_without_them(runs: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "plain", [Sampled(channel=power(), raw=lambda t_ns: 5000)], trace="none")
    found = compared([runs / "a0"], [tmp_path / "plain"])
    assert_says(found.operations.reason, "none in B", "--trace none")
    assert_says(found.sentences[-1], "Operations:", found.operations.reason)
    assert not found.metrics["step_time"].ratio.missing


def test_a_run_without_samples_is_compared_by_time(runs: Path, tmp_path: Path) -> None:
    found = compared([runs / "a0"], [recorded(tmp_path / "dark", watts=None)])
    assert not found.metrics["step_time"].ratio.missing
    energy = found.metrics["energy_per_step"]
    assert energy.verdict == "not compared"
    assert energy.ratio.reason is not None
    assert energy.ratio.reason.startswith("missing in B")
    assert found.operations.rows[0].quantities["energy"].verdict == "not compared"


def test_runs_of_one_step_have_no_interval(runs: Path, tmp_path: Path) -> None:
    sides = []
    for name in ("one", "another"):
        make_run(tmp_path / name, [], steps=4, trace="none")  # three are warm-up
        sides.append([tmp_path / name])
    found = compared(*sides)
    assert found.metrics["step_time"].ratio.low is None
    assert "no interval" in found.sentences[1]
    assert found.metrics["energy_per_step"].ratio.missing


def test_of_many_sides_the_coolest_and_the_warmest_are_said_not_to_be_equally_warm() -> None:
    sides = [
        Side(letter=letter, title="", runs=(), configuration=configuration_of(INFO))
        for letter in "ABCD"
    ]
    members = [[process(temperature=t)] for t in (60.0, 41.0, 55.0, None)]
    warnings = warnings_of(sides, members)
    assert saying(warnings, "60 °C in A, 41 °C in B")
    assert not any("warm" in words for words in warnings_of(sides[2:], members[2:]))


def test_a_run_whose_steps_are_all_warm_up_is_not_compared(runs: Path, tmp_path: Path) -> None:
    make_run(tmp_path / "short", [], steps=2, trace="none")
    found = compared([runs / "a0"], [tmp_path / "short"])
    assert found.metrics["step_time"].verdict == "not compared"
    assert_says(found.sentences[1], "Time:", "not compared", "in B", "no clean step")


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_gaps_in_a_channel_never_become_a_number(runs: Path, tmp_path: Path, share: float) -> None:
    path = recorded(tmp_path / "gaps")
    table = pq.read_table(path / "samples.parquet")
    gap = pa.array([n % 10 < 10 * share for n in range(len(table))])
    values = pc.if_else(gap, None, table["value"].combine_chunks())
    column = table.schema.get_field_index("value")
    pq.write_table(table.set_column(column, "value", values), path / "samples.parquet")
    energy = compared([runs / "a0"], [path]).metrics["energy_per_step"]
    if share == 1.0:
        assert energy.verdict == "not compared"
    else:
        assert energy.ratio.value == pytest.approx(20 / 20.05, rel=0.01)
        assert math.isfinite(energy.ratio.value or math.nan)


def test_a_channel_that_stands_still_is_no_smaller_than_its_steps(tmp_path: Path) -> None:
    sides = [[recorded(tmp_path / name, watts=watts)] for name, watts in (("a", 5.0), ("b", 5.0))]
    power_found = compared(*sides).metrics["mean_power"]
    assert power_found.ratio.value == pytest.approx(1)
    assert power_found.ratio.systematic is not None  # half a step of 1 mW on each side
    assert power_found.of_these == "not shown"


def test_a_channel_of_zeros_gives_no_ratio(tmp_path: Path, runs: Path) -> None:
    energy = compared([runs / "a0"], [recorded(tmp_path / "zero", watts=0.0)]).metrics[
        "energy_per_step"
    ]
    assert energy.ratio.missing
    assert energy.verdict == "not compared"


def test_operations_of_no_length_are_no_ratio(runs: Path, tmp_path: Path) -> None:
    path = recorded(tmp_path / "zero")
    table = pq.read_table(path / "operations.parquet")
    table = table.set_column(table.schema.get_field_index("end_ns"), "end_ns", table["start_ns"])
    zeros = pa.array([0] * len(table), pa.int64())
    table = table.set_column(table.schema.get_field_index("self_ns"), "self_ns", zeros)
    pq.write_table(table, path / "operations.parquet")
    for row in compared([runs / "a0"], [path]).operations.rows:
        assert row.quantities["time"].ratio.missing
        assert row.quantities["time"].verdict == "not compared"


def test_a_run_that_was_lost_or_recovered_is_marked(runs: Path, tmp_path: Path) -> None:
    path = recorded(tmp_path / "lost", state="recovered", lost={"sampler": 1})
    warnings = compared([runs / "a0"], [path]).warnings
    assert saying(warnings, "B, lost", "its journals")
    assert saying(warnings, "B, lost", "its sampler")


def test_disturbed_steps_are_told(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from wattstep.device.throttling import Stretch
    from wattstep.run import run as run_module

    path = recorded(tmp_path / "noisy")
    find = run_module.find_step_flags

    def disturbed(series: object, *others: object) -> object:
        found = find(series, *others)  # type: ignore[arg-type]
        if series._tables.path.name != "noisy":  # type: ignore[attr-defined]
            return found
        noise = Stretch(
            start_ns=0, end_ns=10**15, kind="disturbed", cause="other processes", evidence="made",
            uncertain_s=0.0,
        )  # fmt: skip
        return replace(found, disturbed=found.disturbed | True, stretches=[noise])

    monkeypatch.setattr(run_module, "find_step_flags", disturbed)
    (warning,) = compared([runs / "a0"], [path]).warnings
    assert_says(warning, "disturbed", "B 100 %")


def test_a_canary_that_changed_is_told_and_widens(runs: Path, tmp_path: Path) -> None:
    def look(seconds: float) -> dict[str, object]:
        return {"at_ns": 1, "compute_s": [seconds] * 3, "memory_s": [1.0] * 3, "right": True}

    a, b = recorded(tmp_path / "a", jitter=MS // 10), recorded(tmp_path / "b", 1.1, jitter=MS // 10)
    for path, seconds in ((a, 1.0), (b, 1.2)):
        edit(path, canary={"version": 1, "before": look(seconds), "after": look(seconds)})
    found = compared([a], [b])
    assert found.metrics["step_time"].of_these == "not shown"
    assert saying(found.sentences, "machine itself changed", "from A to B")


def test_what_mars_many_runs_of_a_side_is_one_line() -> None:
    from tests.comparison.made import canary, process

    from wattstep.insight.compare.comparing import warnings_of
    from wattstep.insight.compare.sides import Side

    members = [
        process(marred={"disturbed": share}, canary=canary((1.0, after)))
        for share, after in ((0.5, 1.0), (0.04, 1.5), (0.9, 0.8))
    ]
    paths = tuple(Path(str(n)) for n in range(3))
    side = Side(letter="A", title="", runs=paths, configuration=members[0].configuration)
    disturbed, drifted = warnings_of([side], [members])
    assert_says(disturbed, "disturbed", "A up to 90 %", "2 of 3 runs")
    assert_says(drifted, "canary", "A computing +50 %", "2 of 3 runs")


def test_runs_that_do_not_tell_their_device_are_not_taken_for_alike(tmp_path: Path) -> None:
    a, b = (recorded(tmp_path / name, device={}) for name in "ab")
    warnings = compare(*gathered([[a], [b]])).warnings
    assert saying(warnings, "no run", "device")
    known = [recorded(tmp_path / name) for name in "cd"]
    assert not any(
        "no run tells" in line for line in compare(*gathered([[path] for path in known])).warnings
    )


def test_sides_without_a_common_operation_say_so_in_place_of_none_of_none(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b")
    table = pq.read_table(b / "operations.parquet")
    at = table.schema.get_field_index("name")
    renamed = pc.binary_join_element_wise(pc.cast(table["name"], pa.string()), "other", "-")
    pq.write_table(table.set_column(at, "name", renamed), b / "operations.parquet")
    found = compared([a], [b])
    assert found.operations.rows == ()
    assert_says(found.sentences[-1], "Operations:", "none")
