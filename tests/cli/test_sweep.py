"""`wattstep sweep` and `wattstep fits` as a script uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.refusals import id_in
from tests.wording import assert_says


def wattstep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "wattstep", *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sweep")


@pytest.fixture(scope="module")
def swept(folder: Path) -> subprocess.CompletedProcess[str]:
    """LeNet at a batch that fits into 700 MiB, and at two that do not."""
    done = wattstep(
        "fits", "lenet", "--batch", "1,60000,70000", "--threads", "1",
        "--memory-limit", "700MiB", "--out", "kept", "--json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done


def test_fits_answers_with_one_document_whatever_became_of_the_trainings(
    swept: subprocess.CompletedProcess[str],
) -> None:
    document = json.loads(swept.stdout)
    assert list(document) == ["sweep", "outcomes", "report"]
    assert [one["status"] for one in document["outcomes"]] == [
        "trained", "out of memory", "skipped",
    ]  # fmt: skip
    trained, died, skipped = document["outcomes"]
    assert trained["figures"]["peak_memory"]["value"] > 50e6
    assert trained["figures"]["step_time"]["status"] == "measured"
    assert "700 MiB by a" in trained["limit"]
    evidence = died["evidence"]
    assert evidence["signal"] == 9 or "memory" in evidence["said"]
    assert_says(skipped["reason"], "batch 60000", "memory")


def test_progress_goes_to_standard_error_a_line_an_outcome(
    swept: subprocess.CompletedProcess[str],
) -> None:
    # Of a training that takes long, as on a busy machine, there are lines of its own between.
    lines = [line for line in swept.stderr.splitlines() if not line.startswith("lenet-")]
    assert [line.split(" ")[0] for line in lines] == ["1/3", "2/3", "3/3"]
    assert "left" in lines[0]


def test_the_folder_holds_runs_outcomes_and_a_report(
    swept: subprocess.CompletedProcess[str], folder: Path
) -> None:
    kept = folder / "kept"
    assert (kept / "lenet-b1-t1-fp32-r1/run.json").is_file()
    assert len((kept / "sweep.jsonl").read_text().splitlines()) == 3
    page = (kept / "report.html").read_text()
    assert "Does it train?" in page
    assert "up to batch 1" in page


def test_the_same_command_again_has_nothing_left_to_do(
    swept: subprocess.CompletedProcess[str], folder: Path
) -> None:
    again = wattstep(
        "fits", "lenet", "--batch", "1,60000,70000", "--threads", "1",
        "--memory-limit", "700MiB", "--out", "kept", cwd=folder,
    )  # fmt: skip
    assert again.returncode == 0
    assert again.stderr == ""
    assert "successful training?" in again.stdout
    assert "up to batch 1" in again.stdout


def test_another_limit_in_the_same_folder_is_refused_in_one_line(
    swept: subprocess.CompletedProcess[str], folder: Path
) -> None:
    other = wattstep("fits", "lenet", "--memory-limit", "1GiB", "--out", "kept", cwd=folder)
    assert other.returncode == 2
    assert_says(other.stderr, "wattstep: kept", "other settings")
    assert "--memory-limit was 734003200, now 1073741824" in other.stderr
    assert len(other.stderr.splitlines()) == 1


def test_the_folder_of_data_is_kept_so_that_every_process_finds_it(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    done = wattstep(
        "fits", "lenet", "--batch", "1", "--data", "here", "--out", "kept", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "here") in (tmp_path / "kept/sweep.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "id", "named"),
    [
        (["--workloads", "lenett"], "unknown-workload", "mean lenet?"),
        (["--workloads", "lenet", "--batch", "1,x"], "malformed-list", "--batch '1,x'"),
        (["--workloads", "lenet", "--threads", "1,x"], "malformed-list", "--threads '1,x'"),
        (
            ["--workloads", "lenet", "--precision", "fp32,x"],
            "unknown-precision",
            "--precision x: there are fp32",
        ),
        (
            ["--workloads", "lenet", "--memory-limit", "much"],
            "malformed-size",
            "--memory-limit 'much'",
        ),
        (["--workloads", "lenet", "--cooldown", "soon"], "malformed-cooldown", "--cooldown soon"),
        (
            ["--workloads", "lenet", "--device", "tx2"],
            "device-without-devices",
            "--scheduler or --targets",
        ),
    ],
)
def test_mistakes_are_refused_in_one_line_before_anything_runs(
    tmp_path: Path, arguments: list[str], id: str, named: str
) -> None:
    done = wattstep("sweep", "--json", *arguments, cwd=tmp_path)
    assert (done.returncode, id_in(done.stdout)) == (2, id)
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "sweep").exists()
