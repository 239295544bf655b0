"""`wattstep label`: what it labels, writes and refuses, and what that costs."""

from __future__ import annotations

import base64
import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv
from tests.command_line import wattstep
from tests.labeling.filed import NAMES, asked, labeled, run, table
from tests.labeling.made import blobs
from tests.refusals import id_in, refused

from wattstep.cli import label as command
from wattstep.errors import RecordingError
from wattstep.labeling import AutoLabeler
from wattstep.labeling.cost import LabelingCost
from wattstep.labeling.power import STATED
from wattstep.labeling.result import robust
from wattstep.schema.figure import Figure, Status, missing
from wattstep.train import labeling_pace


def test_the_command_labels_a_file_and_says_how_many_of_what(files: Path, tmp_path: Path) -> None:
    done = wattstep(
        "label", files / "data.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        "--batch", 60, "--ask", 3, "--image", "2x2", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["labeling"]
    rows = labeled(tmp_path / "out").to_pylist()
    assert told["samples"] == len(rows) == 240
    by_label = {f"k{n}": sum(row["label"] == f"k{n}" for row in rows) for n in range(3)}
    assert told["labeled"] == {name: n for name, n in by_label.items() if n}
    assert len(told["ask"]) == 3
    assert told["accuracy"]["status"] == "modelled"
    truth = blobs(240, (0, 1, 2, 3), seed=2)[1]
    named = [(row["label"], f"k{y}") for row, y in zip(rows, truth, strict=True) if row["label"]]
    assert np.mean([a == b for a, b in named]) > 0.9
    assert all(row["voters"] for row in rows if row["status"] == "labeled")
    assert [row["row"] for row in rows] == list(range(240))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    # Pictures are PNG of two by two pixels each, apart by one.
    strips = re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", page)
    assert strips
    png = base64.b64decode(strips[0])
    assert png.startswith(b"\x89PNG")
    assert int.from_bytes(png[20:24], "big") == 2
    begin = png.index(b"IDAT") + 4
    assert len(zlib.decompress(png[begin:])) == 2 * (1 + int.from_bytes(png[16:20], "big"))


def test_processors_and_their_shares(files: Path, tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", asked(files, "data.parquet", batch=100))
    done = wattstep(
        "label", files / "data.parquet", "--labeled", files / "labeled.csv", "--column", "kind",
        "--features", ",".join(NAMES), "--batch", 100, "--on", "cpu", "--out", tmp_path / "out",
        "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert labeled(tmp_path / "out").equals(plain)
    placement = json.loads(done.stdout)["labeling"]["placement"]
    (cpu,) = placement["processors"]
    # Pieces of 100, 100 and 40, of which the last is too small to share.
    assert (cpu["name"], cpu["samples"], cpu["share"]) == ("cpu", 240, 1.0)
    assert (placement["pieces"], placement["largest"]) == (2, 100)
    assert cpu["sample"]["status"] == "measured"
    assert placement["predicted"]["status"] == "predicted"
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "cpu (NumPy" in page


def test_energy_of_clusters_within_a_bound(files: Path, tmp_path: Path) -> None:
    plain = run(tmp_path / "plain", asked(files, "data.parquet", batch=100))
    core = f"cpu:{min(os.sched_getaffinity(0))}"
    done = wattstep(
        "label", files / "data.parquet", "--labeled", files / "labeled.csv", "--column", "kind",
        "--features", ",".join(NAMES), "--batch", 100, "--on", core, "--power", f"{core}=2.5",
        "--latency", 1e6, "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert labeled(tmp_path / "out").equals(plain)
    placement = json.loads(done.stdout)["labeling"]["placement"]
    (power,) = (each["power"] for each in placement["processors"])
    assert (power["value"], power["source"]) == (2.5, STATED)
    energy = placement["energy"]
    assert (energy["status"], energy["unit"]) == ("predicted", "J")
    assert energy["value"] == pytest.approx(2.5 * placement["predicted"]["value"])
    assert placement["latency"] == {"seconds": 1e3, "held": 2, "kept": 2}
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "2.50 W" in page


@pytest.mark.parametrize(
    ("options", "id"),
    [
        (("--latency", 5), "needs-processors"),
        (("--power", "cpu=1"), "needs-processors"),
        (("--device", "this"), "needs-processors"),
        (("--on", "cpu", "--latency", 5), "needs-power"),
        (("--on", "cpu", "--power", "cpu"), "malformed-power"),
        (("--on", "cpu", "--latency", 0, "--power", "cpu=1"), "out-of-range"),
        (("--on", "cpu", "--latency", "inf", "--power", "cpu=1"), "out-of-range"),
        (("--frame-budget", 0), "out-of-range"),
        (("--frame-budget", "inf"), "out-of-range"),
        (("--on", "cpu", "--device", "no-such-device"), "unknown-device"),
    ],
)
def test_bounds_and_powers_that_are_refused(
    files: Path, tmp_path: Path, options: tuple[str | float, ...], id: str
) -> None:
    done = wattstep(
        "label", files / "data.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        *options, "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert id_in(done.stdout) == id


@pytest.mark.system  # a real job, for a second
def test_frames_beside_the_labeling(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labeling_pace, "NICE", 0)  # of this process, for good
    plain = run(tmp_path / "plain", asked(files, "data.parquet"))
    done = wattstep(
        "label", files / "data.parquet", "--labeled", files / "labeled.csv", "--column", "kind",
        "--features", ",".join(NAMES), "--batch", 60, "--frame-budget", 1e6, "--out",
        tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert labeled(tmp_path / "out").equals(plain)
    told = json.loads(done.stdout)["labeling"]["foreground"]
    assert (told["budget_ms"], told["rows"]) == (1e6, 512)
    assert told["alone"]["status"] == "measured" or told["missed_alone"]["value"] == 1
    assert "foreground job" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_no_such_processor(files: Path, tmp_path: Path) -> None:
    done = wattstep(
        "label", files / "data.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        "--on", "cpu,gpu", "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert id_in(done.stdout) == "unknown-processor"


def test_a_new_class_that_was_named_is_called_so_on_the_screen(files: Path, tmp_path: Path) -> None:
    pq.write_table(table(blobs(300, (0, 1, 2, 3), seed=2)[0]), tmp_path / "data.parquet")
    command = (
        "label", tmp_path / "data.parquet", "--labeled", files / "labeled.csv", "--column", "kind",
        "--batch", 100, "--out", tmp_path / "out",
    )  # fmt: skip
    first = json.loads(wattstep(*command, "--json").stdout)["labeling"]
    assert "unknown-1" in first["unknown"]
    assert abs(first["known"]["value"] - 0.75) < 0.1  # of all samples: three clouds of four
    named = wattstep(*command, "--name", "unknown-1=bicycle")
    assert "bicycle (unknown-1" in named.stdout
    assert json.loads(wattstep(*command, "--json").stdout)["labeling"]["decided"] == {
        "unknown-1": "bicycle"
    }


def test_the_plane_of_the_page_is_not_that_of_a_few_outlying_values() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[:4, 2] = 1e6
    low, high = np.quantile(robust(x), [0.25, 0.75], axis=0)
    # The middle half of normal values spans 1.35 standard deviations; by theirs, the third would span 1e-5.
    np.testing.assert_allclose(high - low, 1.35, rtol=1e-6)
    assert np.abs(robust(x)).max() < 5


def test_a_file_that_is_not_there_is_one_line(files: Path, tmp_path: Path) -> None:
    done = wattstep(
        "label", tmp_path / "none.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        "--out", tmp_path / "out", "--json",
    )  # fmt: skip
    assert done.returncode == 2
    assert id_in(done.stdout) == "unreadable-file"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    ("data", "labeled", "id"),
    [
        ("random.bin", "empty.json", "unknown-data-format"),
        ("data.csv", "empty.json", "unknown-data-format"),
        ("text.csv", "labeled.csv", "not-numbers"),
    ],
)
def test_a_refused_labeling_leaves_nothing(
    files: Path, tmp_path: Path, data: str, labeled: str, id: str, there: bool
) -> None:
    for name in ("data.csv", "labeled.csv"):
        (tmp_path / name).write_bytes((files / name).read_bytes())
    (tmp_path / "random.bin").write_bytes(bytes(range(256)))
    (tmp_path / "empty.json").touch()
    (tmp_path / "text.csv").write_text("a,b,c,d\n1,2,3,x\n", encoding="utf-8")
    if there:
        (tmp_path / "labels").mkdir()
    before = sorted(tmp_path.rglob("*"))
    done = wattstep("label", data, "--labeled", labeled, "--column", "kind", "--json", cwd=tmp_path)
    assert (done.returncode, id_in(done.stdout)) == (2, id)
    assert sorted(tmp_path.rglob("*")) == before


def measured(files: Path, folder: Path, *more: object) -> Any:
    """The command with `--measure`."""
    return wattstep(
        "label", files / "data.csv", "--labeled", files / "labeled.csv", "--column", "kind",
        "--out", folder / "out", "--measure", folder / "run", *more,
    )  # fmt: skip


def test_refusal_of_a_run_before_labeling(files: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    done = measured(files, tmp_path)
    assert done.returncode != 0
    assert "exists already" in done.stderr
    assert not (tmp_path / "out").exists()
    assert measured(files, tmp_path / "other", "--power-model", "guess").returncode != 0
    assert not (tmp_path / "other" / "out").exists()


def test_cost_on_page_and_screen(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Figure(value=0.0123, unit="s", n=10, status=Status.MEASURED, source="clock")
    cost = LabelingCost(run="run", time=time, energy=missing("J", "no sensor"))
    monkeypatch.setattr(command, "_cost", lambda *_: cost)
    done = measured(files, tmp_path)
    assert done.returncode == 0, done.stderr
    told = " ".join(done.stdout.split())
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for text in (told, page):
        assert "12.3 ms" in text
        assert "no sensor" in text
        assert "328.65 mJ" in text
    assert told.index("labeled as") < told.index("12.3 ms")
    document = json.loads(measured(files, tmp_path, "--json").stdout)
    assert document["cost"]["time"]["value"] == 0.0123


def test_labels_without_their_cost(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> LabelingCost:
        raise RecordingError("no sampler started", id="no-sampler")

    monkeypatch.setattr(command, "_cost", fail)
    done = measured(files, tmp_path)
    assert done.returncode != 0
    assert "240 samples of 1 file" in done.stdout
    assert "no sampler started" in done.stderr
    assert (tmp_path / "out" / "report.html").exists()
    done = measured(files, tmp_path, "--json")
    assert done.returncode != 0
    document = json.loads(done.stdout)
    assert document["labeling"]["samples"] == 240
    assert document["id"] == "no-sampler"


def test_reserved_names_of_classes(tmp_path: Path) -> None:
    x, _ = blobs(45, (0, 1, 2), seed=1)
    for name in ("unknown", "unknown-3"):
        kinds = pa.array([name if n % 2 else "known" for n in range(len(x))])
        csv.write_csv(table(x).append_column("kind", kinds), tmp_path / "labeled.csv")
        csv.write_csv(table(x), tmp_path / "data.csv")
        done = wattstep(
            "label", tmp_path / "data.csv", "--labeled", tmp_path / "labeled.csv", "--column", "kind",
            "--out", tmp_path / "out", "--json",
        )  # fmt: skip
        assert json.loads(done.stdout)["id"] == "reserved-name"
        assert f"is called {name}," in done.stderr
    labeler = AutoLabeler(candidates=8).fit(*blobs(30, (0, 1), seed=1))
    with refused("reserved-name"):
        AutoLabeler().fit(x, np.array(["a", "unknown"] * len(x))[: len(x)])
    assert labeler.partial_fit(*blobs(30, (0, 1), seed=3)) is labeler
