"""`wattstep ceilings`, and what `wattstep explain` makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import wattstep
from tests.explaining.made import ceilings, trained
from tests.refusals import id_in
from tests.wording import assert_says

from wattstep.record.sensors.machine import describe
from wattstep.report.json_document import dump
from wattstep.schema.device_ceilings import CeilingRow, CeilingTable, DeviceCeilings
from wattstep.schema.figure import Figure, Status, missing

WORK = {"forward-op": {"kind": "convolution", "flops": 80_000_000, "bytes": 100_000}}


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")


def write(path: Path, *found: object) -> Path:
    with path.open("w") as file:
        dump({"ceilings": [one.to_dict() for one in found]}, file)  # type: ignore[attr-defined]
    return path


def test_ceilings_are_measured_kept_and_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "ceilings.json"
    ended = wattstep("ceilings", "--threads", "1", "--seconds", "0.1", "--out", str(file))
    assert ended.returncode == 0, ended.stderr
    assert "memory, triad" in ended.stdout
    assert_says(ended.stderr, "1 thread", "matrices")
    (one,) = json.loads(file.read_text())["ceilings"]
    assert one["threads"] == 1
    assert one["device"]["cpu"] == describe()["cpu"]
    assert len(list((tmp_path / "cache/wattstep/ceilings").glob("*.json"))) == 1


def test_those_of_another_machine_can_be_added_and_are_then_found(tmp_path: Path) -> None:
    run = str(trained(tmp_path / "run", WORK))
    file = write(tmp_path / "board.json", ceilings())
    assert wattstep("ceilings", "--add", str(file)).returncode == 0
    ended = wattstep("explain", run, "-s", "roofline", "--json", "-q")
    (section,) = json.loads(ended.stdout)["runs"][0]["sections"]
    row = next(r for r in section["tables"]["operations"] if r["name"] == "forward-op")
    assert row["of_ceiling"]["value"] == pytest.approx(0.5, rel=0.01)
    assert row["of_ceiling"]["status"] == "attributed"


def test_ceilings_of_a_run_of_another_machine_are_refused(tmp_path: Path) -> None:
    ended = wattstep("ceilings", "--json", "--for", str(trained(tmp_path / "run", WORK)))
    assert (ended.returncode, id_in(ended.stdout)) == (2, "ran-elsewhere")
    assert "cpu:" in ended.stderr
    assert "--add FILE" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["--threads", "0"], "malformed-list", "--threads '0'"),
        (["--threads", "many"], "malformed-list", "--threads 'many'"),
        (["--seconds", "0"], "out-of-range", "--seconds 0"),
        (["--threads", "1", "--for", "run"], "excluding-options", "--for"),
        (["--add", "nothing.json"], "unreadable-file", "nothing.json"),
        (["--for", "nothing"], "no-such-run", "nothing"),
        (["--processor", "tpu"], "unknown-processor", "tpu"),
        (["--processor", "opencl", "--threads", "1"], "excluding-options", "--threads"),
        (["--processor", "opencl:0", "--for", "run"], "excluding-options", "--for"),
        (["--processor", "opencl", "--seconds", "0"], "out-of-range", "--seconds 0"),
    ],
)
def test_what_the_user_can_mend_is_one_line(arguments: list[str], id: str, named: str) -> None:
    ended = wattstep("ceilings", "--json", *arguments)
    assert (ended.returncode, id_in(ended.stdout)) == (2, id)
    assert named in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ceilings": [1]}'])
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "file.json"
    file.write_text(text)
    ended = wattstep("ceilings", "--add", str(file))
    assert ended.returncode == 2
    assert "no measured ceilings" in ended.stderr


@pytest.mark.parametrize("section", ["roofline", "gaps", "processors", "critical_path", "advice"])
def test_every_section_is_printed_and_written(tmp_path: Path, section: str) -> None:
    run = str(trained(tmp_path / "run", WORK))
    shown = wattstep("explain", run, "-s", section, "-q")
    assert (shown.returncode, shown.stderr) == (0, "")
    document = json.loads(wattstep("explain", run, "-s", section, "--json", "-q").stdout)
    (found,) = document["runs"][0]["sections"]
    assert found["name"] == section
    assert found["title"] in shown.stdout
    assert found["sentences"] or found["reason"]


def test_a_device_s_ceilings_are_one_screen_or_all_of_it_or_a_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[str | None, float, bool]] = []

    def measure(which: str | None, seconds: float, *, retune: bool, **rest: object) -> object:
        asked.append((which, seconds, retune))
        return device_ceilings()

    monkeypatch.setattr("wattstep.opencl.ceilings.measure", measure)
    screen = wattstep("ceilings", "--processor", "opencl:mali")
    assert (screen.returncode, screen.stderr) == (0, "")
    assert_says(screen.stdout, "Mali-G76", "3.00 GFLOP/s", "1024", "NumPy 2.4", "not enough memory")
    assert "2048" not in screen.stdout
    file = tmp_path / "file.json"
    full = wattstep("ceilings", "--processor", "opencl", "--full", "--retune", "--out", str(file))
    assert_says(full.stdout, "2048", "2.50 to 3.00", "blocked 8x8")
    document = json.loads(wattstep("ceilings", "--processor", "opencl", "--json", "-q").stdout)
    assert document["tables"] == json.loads(file.read_text())["tables"]
    assert document["tables"]["products"]["rows"][0]["figures"]["naive"]["value"] == 3e9
    assert asked == [("mali", 240.0, False), (None, 240.0, True), (None, 240.0, False)]


def device_ceilings() -> DeviceCeilings:
    reached = Figure(value=3e9, unit="FLOP/s", low=2.5e9, high=3e9, n=9, status=Status.MEASURED)
    rows = [
        CeilingRow(label="1024", figures={"naive": reached, "NumPy": reached}),
        CeilingRow(
            label="2048", figures={"NumPy": reached}, detail="tuned: blocked 8x8", brief=False
        ),
        CeilingRow(label="4096", figures={"naive": missing("FLOP/s", "not enough memory")}),
    ]
    return DeviceCeilings(
        created="2026-11-26T12:00:00+0000",
        device={
            "name": "Mali-G76", "platform": "ARM", "driver": "2.1", "units": 10, "memory": 10**9,
        },
        host={"numpy": "2.4", "blas": "openblas 0.3", "threads": 4},
        tables=[
            CeilingTable(name="products", title="products", columns=("naive", "NumPy"), rows=rows)
        ],
        seconds=1.0,
    )  # fmt: skip
