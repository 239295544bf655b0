"""What was given as sides: processes of one configuration each; what cannot be compared is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.comparison.made import INFO, edit, recorded
from tests.refusals import refused

from wattstep.errors import DamagedRunError
from wattstep.insight.compare.configuration import (
    FACETS,
    check_across,
    configuration_of,
    facets_of,
    label,
    refusal,
)
from wattstep.insight.compare.sides import gathered, sides_of, why_not
from wattstep.schema.run_info import RunInfo
from wattstep.schema.workload import DataFacts
from wattstep.store.files import write_info

NONE: frozenset[str] = frozenset()
DATA = DataFacts(name="MNIST", stand_in=False, stands_for=None, sha256="0", samples=9)
STAND_IN = replace(DATA, name="digits", stand_in=True)


def described(path: Path, **info: object) -> Path:
    """A folder with a description and nothing else: enough to know its configuration."""
    path.mkdir(parents=True)
    write_info(path, replace(INFO, **info))  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("facet", "change", "words"),
    [
        ("workload", {"workload": "other"}, "workload (made and other)"),
        ("workload", {"model": {"parameters": 5}}, "made of 5 parameters"),
        ("device", {"device": {"model": "pi", "cores": 4}}, "device (board, 4 cores and pi"),
        ("device", {"device": {"model": "board", "cores": 2}}, "board, 2 cores"),
        ("clocks", {"device": {**INFO.device, "power_mode": "MAXN"}}, "power mode MAXN"),
        ("clocks", {"device": {**INFO.device, "governors": {"policy0": "powersave"}}}, "governor powersave"),
        ("target", {"target": "emulate:jetson-tx2"}, "emulate:jetson-tx2"),
        ("engine", {"engine": "mnn 3.0"}, "engine (torch and mnn"),
        ("processor", {"processor": "opencl"}, "processor (cpu and opencl"),
        ("threads", {"threads": 4}, "threads (1 and 4)"),
        ("batch", {"batch_size": 16}, "batch size (4 and 16)"),
        ("precision", {"precision": "bf16"}, "the precision (fp32 and bf16)"),
        ("options", {"options": {"accumulate": 2}}, "accumulate 2"),
        ("data", {"data": STAND_IN}, "digits (stand-in)"),
        ("recording", {"imported": {"trace": {"file": "x"}}}, "(by wattstep and imported"),
    ],
)  # fmt: skip
def test_a_difference_that_is_not_meant_is_refused_by_name(
    facet: str, change: dict[str, object], words: str
) -> None:
    base = replace(INFO, data=DATA)
    a, b = configuration_of(base), configuration_of(replace(base, **change))  # type: ignore[arg-type]
    reason = refusal(a, b, NONE, ("A", "B"))
    assert reason is not None
    assert words in reason
    assert f"--across {facet}" in reason
    assert refusal(a, b, frozenset([facet]), ("A", "B")) is None


def test_every_facet_has_a_difference_that_shows_it() -> None:
    assert set(facets_of(configuration_of(INFO))) == set(FACETS)


def test_another_version_or_seed_is_the_same_configuration() -> None:
    other = replace(INFO, engine="torch 2.14", seed=5, created="2026-12-01T00:00:00+0000")
    assert configuration_of(other) == configuration_of(INFO)


def test_only_known_facets_can_differ_on_purpose() -> None:
    assert check_across(["batch", "engine"]) == {"batch", "engine"}
    with refused("unknown-facet", "--across bach", "workload"):
        check_across(["bach"])


def test_a_label_says_what_sets_a_configuration_apart() -> None:
    infos = [
        replace(INFO, batch_size=batch, threads=threads) for batch, threads in ((4, 1), (16, 1))
    ]
    a, b = map(configuration_of, infos)
    assert label(b, [a]) == "batch 16"
    assert label(a, [a]) == ""


def test_two_paths_are_two_sides_and_a_folder_of_runs_is_its_processes(tmp_path: Path) -> None:
    described(tmp_path / "a" / "1")
    described(tmp_path / "a" / "2")
    described(tmp_path / "b")
    sides = sides_of([tmp_path / "a", tmp_path / "b"])
    assert [(side.letter, [path.name for path in side.paths]) for side in sides] == [
        ("A", ["1", "2"]), ("B", ["b"]),
    ]  # fmt: skip
    assert [side.name for side in sides] == ["A (a)", "B (b)"]


def test_sides_of_the_same_settings_are_told_apart_by_their_names(tmp_path: Path) -> None:
    paths = [
        described(tmp_path / name, batch_size=batch)
        for name, batch in (("first", 4), ("second", 4), ("third", 16))
    ]
    assert [side.name for side in sides_of(paths)] == [
        "A (batch 4, first)", "B (batch 4, second)", "C (batch 16)",
    ]  # fmt: skip


def test_runs_of_the_same_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    paths = [described(tmp_path / place / "run") for place in ("mon", "tue")]
    assert [side.title for side in sides_of(paths)] == ["mon/run", "tue/run"]


def test_a_folder_alone_is_split_by_configuration(tmp_path: Path) -> None:
    for name, batch in (("1", 4), ("2", 4), ("3", 16), ("4", 64)):
        described(tmp_path / name, batch_size=batch)
    sides = sides_of([tmp_path])
    assert [(side.title, len(side.paths)) for side in sides] == [
        ("batch 4", 2), ("batch 16", 1), ("batch 64", 1),
    ]  # fmt: skip
    # Somebody chose these settings to differ; no --across is needed.
    assert why_not(sides[0], sides[1], NONE) is None


def test_other_devices_in_one_folder_are_refused_all_the_same(tmp_path: Path) -> None:
    described(tmp_path / "1")
    described(tmp_path / "2", device={"model": "pi", "cores": 4}, batch_size=16)
    a, b = sides_of([tmp_path])
    reason = why_not(a, b, NONE)
    assert reason is not None
    assert "the device" in reason
    assert "batch" not in reason.partition("--across")[0]


def test_a_side_of_two_configurations_is_refused(tmp_path: Path) -> None:
    described(tmp_path / "a" / "1")
    described(tmp_path / "a" / "2", batch_size=16)
    described(tmp_path / "b")
    with refused("mixed-side", "side A", "batch size (4 and 16)"):
        sides_of([tmp_path / "a", tmp_path / "b"])


def test_a_folder_of_one_configuration_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    described(tmp_path / "1")
    described(tmp_path / "2")
    with refused("one-configuration"):
        sides_of([tmp_path])


def test_a_run_is_no_evidence_beside_itself(tmp_path: Path) -> None:
    run = described(tmp_path / "a")
    described(tmp_path / "b")
    with refused("repeated-run"):
        gathered([[run], [tmp_path / "b", tmp_path / "b" / ".." / "a"]])


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_what_is_no_run_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    run = described(tmp_path / "a")
    with pytest.raises(DamagedRunError, match=name):
        sides_of([run, tmp_path / name])


def test_a_run_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    a, b = described(tmp_path / "a"), described(tmp_path / "b")
    edit(b, schema_version=2)
    with refused("other-schema", "schema 2"):
        sides_of([a, b])


def test_more_sides_than_letters_are_refused(tmp_path: Path) -> None:
    for batch in range(1, 28):
        described(tmp_path / f"{batch:02d}", batch_size=batch)
    with refused("too-many-sides", "26"):
        sides_of([tmp_path])


def test_the_description_of_a_recorded_run_has_all_that_is_needed(tmp_path: Path) -> None:
    a, b = recorded(tmp_path / "a"), recorded(tmp_path / "b", threads=2)
    assert sides_of([a, b])[1].title == "threads 2"
    assert isinstance(INFO, RunInfo)
