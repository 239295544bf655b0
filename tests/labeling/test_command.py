"""`wattstep label`: files in pieces, killed and continued, what a person decides."""

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
from tests.labeling.made import blobs
from tests.refusals import id_in, refused

from wattstep.cli import label as command
from wattstep.cli.label import decide
from wattstep.errors import RecordingError
from wattstep.labeling import AutoLabeler, job, reading
from wattstep.labeling.cost import LabelingCost
from wattstep.labeling.job import Asked, LabelFolder, label_files
from wattstep.labeling.power import STATED
from wattstep.labeling.result import robust
from wattstep.schema.figure import Figure, Status, missing
from wattstep.train import labeling_pace

NAMES = ("a", "b", "c", "d")


def table(x: np.ndarray, y: np.ndarray | None = None) -> pa.Table:
    columns: dict[str, Any] = {name: x[:, n] for n, name in enumerate(NAMES)}
    return pa.table(columns if y is None else columns | {"kind": [f"k{label}" for label in y]})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    csv.write_csv(table(*blobs(45, (0, 1, 2), seed=1)), folder / "labeled.csv")
    x, _ = blobs(240, (0, 1, 2, 3), seed=2)
    csv.write_csv(table(x), folder / "data.csv")
    np.save(folder / "data.npy", x)
    pq.write_table(table(x), folder / "data.parquet")
    return folder


def asked(files: Path, data: str = "data.npy", **others: Any) -> Asked:
    given: dict[str, Any] = {"column": "kind", "features": NAMES, "batch": 60} | others
    return Asked(data=(str(files / data),), labeled=str(files / "labeled.csv"), **given)


def labeled(folder: Path) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, sorted((folder / "labels").glob("*.parquet"))))


def run(folder: Path, settings: Asked) -> pa.Table:
    opened = LabelFolder(folder)
    opened.open(settings)
    try:
        label_files(opened, settings, lambda done: None)
    finally:
        opened.close()
    return labeled(folder)


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


def test_all_three_formats_give_the_same_labels(files: Path, tmp_path: Path) -> None:
    parquet = run(tmp_path / "parquet", asked(files, "data.parquet"))
    from_csv = run(tmp_path / "csv", asked(files, "data.csv"))
    assert parquet["label"].equals(from_csv["label"])
    np.testing.assert_allclose(parquet["p_value"], from_csv["p_value"], rtol=1e-6)


def test_what_was_interrupted_goes_on_exactly_where_it_was(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = asked(files, "data.parquet")
    whole = run(tmp_path / "whole", settings)
    keep, written = LabelFolder.keep, []

    def die(folder: LabelFolder, progress: job.Progress) -> None:
        if len(written) == 2:  # labels and state of the third piece are there, that they are is not
            raise KeyboardInterrupt
        written.append(progress)
        keep(folder, progress)

    monkeypatch.setattr(LabelFolder, "keep", die)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "parts", settings)
    monkeypatch.setattr(LabelFolder, "keep", keep)
    assert run(tmp_path / "parts", settings).equals(whole)


@pytest.mark.parametrize("killed", ["before the state", "before the progress"])
def test_a_name_given_right_after_a_kill(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    pq.write_table(table(blobs(400, (0, 1, 2, 3), seed=2)[0]), tmp_path / "data.parquet")
    settings = Asked(
        data=(str(tmp_path / "data.parquet"),), labeled=str(files / "labeled.csv"), column="kind",
        features=NAMES, batch=100,
    )  # fmt: skip
    owner, name = (AutoLabeler, "save") if killed == "before the state" else (LabelFolder, "keep")
    real, calls = getattr(owner, name), []

    def die(*given: Any) -> None:
        calls.append(given)
        if len(calls) == 4:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(owner, name, die)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", settings)
    monkeypatch.setattr(owner, name, real)
    folder = LabelFolder(tmp_path / "out")
    folder.open(settings)
    decide(folder, ["unknown-1=bicycle"], [], [])
    folder.close()
    rows = run(tmp_path / "out", settings)
    assert len(rows) == 400
    truth = blobs(400, (0, 1, 2, 3), seed=2)[1]
    last = [row for row in rows.to_pylist()[300:] if truth[row["row"]] == 3]
    assert np.mean([row["label"] == "bicycle" for row in last]) > 0.8


def test_labels_that_are_gone_from_a_folder_are_missed(files: Path, tmp_path: Path) -> None:
    settings = asked(files, "data.parquet", batch=120)
    run(tmp_path / "out", settings)
    (tmp_path / "out" / "labels" / "000001.parquet").unlink()
    with refused("lost-labels", "000001.parquet"):
        run(tmp_path / "out", settings)


def test_what_a_killed_command_left_half_written_goes_and_nothing_else(
    files: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    (out / "labels").mkdir(parents=True)
    (out / "label.json").write_text("{}")
    half = [
        out / ".progress.json.0123456789ab", out / "labels" / ".000000.parquet.0123456789ab",
        out / "state.npz.new",
    ]  # fmt: skip
    others = [out / ".mine.0123456789ab", out / "labels" / "notes.txt"]
    for path in (*half, *others):
        path.touch()
    folder = LabelFolder(out)
    folder.open(asked(files))
    folder.close()
    assert not any(path.exists() for path in half)
    assert all(path.exists() for path in others)


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


def test_labels_in_csv_are_no_formulas_and_numbers_stay_numbers(
    files: Path, tmp_path: Path
) -> None:
    x, y = blobs(40, (0, 1), seed=1)
    np.save(tmp_path / "data.npy", blobs(60, (0, 1), seed=2)[0])
    for first, second in (("=1+2", "@a"), ("-1", "+2.5e3")):
        rows = {name: x[:, n] for n, name in enumerate("0123")}
        kinds = pa.table({**rows, "kind": [(first, second)[label] for label in y]})
        pq.write_table(kinds, tmp_path / "labeled.parquet")
        settings = Asked(
            data=(str(tmp_path / "data.npy"),), labeled=str(tmp_path / "labeled.parquet"),
            column="kind", format="csv",
        )  # fmt: skip
        folder = LabelFolder(tmp_path / first)
        folder.open(settings)
        label_files(folder, settings, lambda done: None)
        folder.close()
        text = (tmp_path / first / "labels" / "000000.csv").read_text()
        apostrophe = "'" if first == "=1+2" else ""
        assert f'"{apostrophe}{first}"' in text
        assert f'"{apostrophe}{second}"' in text


def test_the_plane_of_the_page_is_not_that_of_a_few_outlying_values() -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[:4, 2] = 1e6
    low, high = np.quantile(robust(x), [0.25, 0.75], axis=0)
    # The middle half of normal values spans 1.35 standard deviations; by theirs, the third would span 1e-5.
    np.testing.assert_allclose(high - low, 1.35, rtol=1e-6)
    assert np.abs(robust(x)).max() < 5


def test_other_data_of_the_same_name_are_refused(files: Path, tmp_path: Path) -> None:
    x, _ = blobs(120, (0, 1, 2), seed=5)
    pq.write_table(table(x), tmp_path / "data.parquet")
    settings = asked(files, str(tmp_path / "data.parquet"))
    run(tmp_path / "out", settings)
    pq.write_table(table(x + 1), tmp_path / "data.parquet")
    with refused("other-data", "data.parquet"):
        run(tmp_path / "out", settings)


def test_other_settings_in_the_same_folder_are_refused(files: Path, tmp_path: Path) -> None:
    run(tmp_path / "out", asked(files, "data.parquet"))
    with refused("other-settings", "batch"):
        run(tmp_path / "out", asked(files, "data.parquet", batch=50))


def test_a_folder_of_something_else_is_refused(files: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with refused("not-a-label-folder", tmp_path):
        run(tmp_path, asked(files))


def test_pieces_are_read_one_after_the_other_and_can_begin_within(files: Path) -> None:
    for name in ("data.csv", "data.parquet"):
        opened = reading.open_table(files / name)
        pieces = list(reading.pieces([opened], ("c", "a"), 100, skip=130))
        assert [(piece.first, len(piece.x)) for piece in pieces] == [(130, 70), (200, 40)]
        x, _ = blobs(240, (0, 1, 2, 3), seed=2)
        np.testing.assert_allclose(np.concatenate([piece.x for piece in pieces]), x[130:, [2, 0]])


def test_a_cell_that_is_empty_is_no_number(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("a,b\n1,2\n,3\n4, \n", encoding="utf-8")
    (piece,) = reading.pieces([reading.open_table(tmp_path / "data.csv")], ("a", "b"), 10)
    np.testing.assert_array_equal(piece.x, [[1, 2], [np.nan, 3], [4, np.nan]])


@pytest.mark.parametrize(
    ("name", "content", "id"),
    [
        ("data.csv", b"a,b,c,d\n1,2,3,x\n", "not-numbers"),
        ("data.csv", b"a,b,c\n1,2,3\n", "other-columns"),
        ("data.csv", b"", "damaged-data"),
        ("data.parquet", b"PAR1", "damaged-data"),
        ("data.npy", b"\x93NUMPY", "damaged-data"),
        ("data.txt", b"1", "unknown-data-format"),
    ],
)
def test_data_that_do_not_fit_are_refused(
    files: Path, tmp_path: Path, name: str, content: bytes, id: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with refused(id, name):
        run(tmp_path / "out", asked(files, str(tmp_path / name)))


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


def test_complex_numbers_are_refused(files: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "data.npy", np.zeros((4, 4), dtype=complex))
    with refused("not-numbers", "data.npy", "complex128"):
        reading.open_table(tmp_path / "data.npy")
    np.save(tmp_path / "y.npy", np.zeros(4, dtype=complex))
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    with refused("mixed-labels", "complex128"):
        reading.read_labeled(tmp_path / "x.npy", None, tmp_path / "y.npy", None)


def test_labels_apart_from_their_samples_must_be_as_many(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((4, 2)))
    np.save(tmp_path / "y.npy", np.zeros(3))
    with refused("label-count", 3, 4):
        reading.read_labeled(tmp_path / "x.npy", None, tmp_path / "y.npy", None)


def test_rows_without_a_label_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,kind\n1,x\n2,\n3,y\n", encoding="utf-8")
    x, y, names = reading.read_labeled(tmp_path / "l.csv", "kind", None, None)
    assert (x.tolist(), list(y), names) == ([[1.0], [3.0]], ["x", "y"], ("a",))


def test_a_labeled_sample_without_a_number_is_refused(tmp_path: Path) -> None:
    (tmp_path / "l.csv").write_text("a,kind\n1,x\n,y\n", encoding="utf-8")
    with refused("labeled-nan", 1):
        reading.read_labeled(tmp_path / "l.csv", "kind", None, None)


def test_one_command_at_a_time_has_the_folder(files: Path, tmp_path: Path) -> None:
    first = LabelFolder(tmp_path / "out")
    first.open(asked(files))
    try:
        with refused("being-written"):
            LabelFolder(tmp_path / "out").open(asked(files))
    finally:
        first.close()


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ([1, None, 2], [1, 2]),
        ([True, None, False], [True, False]),
        ([1.0, float("nan"), 2.0], [1, 2]),
    ],
)
def test_labels_of_a_table_may_be_numbers(
    tmp_path: Path, kinds: list[Any], told: list[Any]
) -> None:
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "kind": kinds}), tmp_path / "l.parquet")
    x, y, _ = reading.read_labeled(tmp_path / "l.parquet", "kind", None, None)
    assert x[:, 0].tolist() == [1.0, 3.0]
    assert y.tolist() == told
    assert y.dtype.kind in "ib"  # as scikit-learn takes classes


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a,a,kind\n1,2,x\n")
    with refused("column-twice", "d.csv", "a"):
        reading.open_table(tmp_path / "d.csv")


# --- what it costs ------------------------------------------------------------------------------


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
