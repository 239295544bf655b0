"""LeNet by the day, for real: the same start, every day counted, and on after kill -9."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.refusals import id_in, refused
from tests.reports.pages.tree import tree, unpacked

from wattstep.errors import RunExistsError
from wattstep.report.html.daily import render_daily
from wattstep.run import load
from wattstep.schema.daily_report import DailyReport
from wattstep.train.daily.child import train_daily
from wattstep.train.daily.days import train_days
from wattstep.train.daily.folder import DailyFolder
from wattstep.train.daily.pretraining import prepare, pretrain
from wattstep.train.daily.result import daily_report
from wattstep.train.daily.settings import DailySettings

SETTINGS = DailySettings(
    workload="lenet", images_per_day=32, days=3, threads=1, judged=100, power_model="vcpu"
)
KILLED = """
import os, signal, sys
from pathlib import Path
from wattstep.train.daily.days import train_days
from wattstep.train.daily.folder import DailyFolder
from wattstep.schema.daily_report import DailyReport
def tell(news):
    if news["day"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
folder = DailyFolder(Path(sys.argv[1]))
train_days(folder.settings(), folder, 16, tell)
"""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> DailyFolder:
    """Pre-trained here, both batch sizes in children of their own."""
    made = DailyFolder(tmp_path_factory.mktemp("daily") / "lenet")
    made.open(SETTINGS)
    pretrain(SETTINGS, made, lambda news: None)
    train_daily(made, [8, 16], lambda news: None)
    return made


@pytest.fixture(scope="module")
def report(folder: DailyFolder) -> DailyReport:
    return daily_report(folder)


def test_all_batch_sizes_begin_with_the_same_weights(report: DailyReport) -> None:
    a, b = report.batches
    assert a.weights_sha256 == b.weights_sha256
    assert a.days[0].accuracy == b.days[0].accuracy
    assert a.days[0].accuracy.value == pytest.approx(report.pretrained["accuracy"])
    assert a.days[0].accuracy.value >= 0.6


def test_every_day_trains_on_its_images_once(report: DailyReport) -> None:
    for batch, steps in zip(report.batches, (4, 2), strict=True):
        assert batch.complete
        assert [day.day for day in batch.days] == [0, 1, 2, 3]
        assert [day.steps for day in batch.days[1:]] == [steps] * 3
        assert [day.samples for day in batch.days[1:]] == [32] * 3


def test_the_run_of_a_batch_size_holds_the_steps_of_all_its_days(report: DailyReport) -> None:
    for batch, steps in zip(report.batches, (12, 6), strict=True):
        (path,) = batch.runs
        run = load(path)
        assert len(run.series.steps.index) == steps
        assert run.series.steps.samples.sum() == 96
        assert len(run.series.steps.rest_ns["evaluation"]) == 3


def test_energy_says_that_a_model_gave_it(report: DailyReport) -> None:
    for batch in report.batches:
        assert {day.energy.status.value for day in batch.days[1:]} == {"modelled"}
        total = sum(day.energy.value for day in batch.days[1:])
        assert batch.total_energy.value == pytest.approx(total)


def test_a_killed_training_goes_on_and_ends_where_an_undisturbed_one_does(
    folder: DailyFolder, tmp_path: Path
) -> None:
    other = DailyFolder(tmp_path / "killed")
    other.open(SETTINGS)
    for name in ("pretrained.pt", "pretrained.json"):
        shutil.copy(folder.path / name, other.path / name)
    done = subprocess.run([sys.executable, "-c", KILLED, str(other.path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert [row["day"] for row in other.days(16)] == [0, 1, 2]
    train_days(SETTINGS, other, 16, lambda news: None)
    rows, whole = other.days(16), folder.days(16)
    assert [row["day"] for row in rows] == [0, 1, 2, 3]
    assert [row["run"] for row in rows[1:]] == ["run-1", "run-1", "run-2"]
    for key in ("held_out", "remembered", "loss"):
        assert [row.get(key) for row in rows] == [row.get(key) for row in whole]
    (batch,) = daily_report(other).batches
    assert batch.complete
    assert all(day.energy.value is not None for day in batch.days[1:])


def test_a_finished_training_is_not_begun_again(folder: DailyFolder) -> None:
    before = json.dumps(folder.days(8))
    train_daily(folder, [8], lambda news: pytest.fail("something was trained"))
    assert json.dumps(folder.days(8)) == before


def test_two_commands_at_once_are_refused(folder: DailyFolder, tmp_path: Path) -> None:
    with refused("being-written", "wattstep daily"):
        DailyFolder(folder.path).open(SETTINGS)
    # What a command leaves that was killed before it had written anything else.
    (tmp_path / "daily.lock").touch()
    one, two = DailyFolder(tmp_path), DailyFolder(tmp_path)
    one.open(SETTINGS)
    one.close()
    two.open(SETTINGS)
    two.close()


def test_a_child_that_outlives_the_command_keeps_the_folder(tmp_path: Path) -> None:
    folder = DailyFolder(tmp_path / "new")
    folder.open(SETTINGS)
    assert folder.lock is not None
    with subprocess.Popen(["sleep", "60"], pass_fds=[folder.lock]) as child:
        folder.close()
        with pytest.raises(RunExistsError):
            DailyFolder(tmp_path / "new").open(SETTINGS)
        child.kill()


def test_other_data_than_the_servers_are_refused_by_name(
    folder: DailyFolder, tmp_path: Path
) -> None:
    other = DailyFolder(tmp_path / "other")
    other.open(SETTINGS)
    shutil.copy(folder.weights, other.weights)
    server = folder.server()
    assert server is not None
    other.keep_server({**server, "data": {**server["data"], "name": "MNIST", "sha256": "0" * 64}})
    with refused("other-data", "MNIST", "000000000000"):
        train_days(SETTINGS, other, 16, lambda news: None)
    other.close()


def test_another_training_is_not_mixed_in(folder: DailyFolder) -> None:
    other = DailySettings(**{**vars(SETTINGS), "seed": 1})
    with refused("other-settings", "seed"):
        folder.open(other)


def test_settings_count_from_the_servers_weights_on(tmp_path: Path) -> None:
    folder = DailyFolder(tmp_path / "new")
    folder.open(DailySettings(workload="lenet", days=1000))
    folder.open(SETTINGS)
    assert folder.settings() == SETTINGS
    (tmp_path / "note.txt").write_text("mine")
    with refused("not-a-daily-folder"):
        DailyFolder(tmp_path).open(SETTINGS)


def test_a_workload_without_classes_is_refused() -> None:
    settings = DailySettings(workload="autoencoder")
    with refused("no-classes", "autoencoder", "wattstep suite"):
        prepare(settings, 4, "fp32")


def test_a_refused_training_leaves_nothing_and_one_that_was_begun_as_it_was(tmp_path: Path) -> None:
    begun = DailyFolder(tmp_path / "begun")
    begun.open(DailySettings(workload="gpt"))
    begun.close()
    before, there = sorted(tmp_path.rglob("*")), begun.settings()
    for more in ((), ("--out", "begun")):
        command = [sys.executable, "-m", "wattstep", "daily", "gpt", *more, "--json"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, id_in(done.stdout)) == (2, "no-classes")
        assert sorted(tmp_path.rglob("*")) == before
    assert begun.settings() == there


def test_the_report_is_one_page_with_the_papers_numbers(report: DailyReport) -> None:
    page = render_daily(report)
    assert "60.65 % to 61.32 % in 17 days" in page
    assert "the real data" in page
    assert "http://" not in page.split("<script>")[0]
    charts = next(e for e in tree(page).all() if e.attributes.get("id") == "charts")
    for size in (8, 16):
        assert f"batch {size}" in str(unpacked(charts.text))


def test_days_train_on_what_was_labeled_here(tmp_path: Path) -> None:
    settings = DailySettings(
        **{**vars(SETTINGS), "labels": "auto", "labeled": 60, "days": 2, "judged": 50}
    )
    folder = DailyFolder(tmp_path / "auto")
    folder.open(settings)
    train_daily(folder, [16], lambda news: None)
    before = folder.labels()
    train_daily(folder, [16], lambda news: pytest.fail("something was trained"))
    folder.close()
    assert before is not None
    assert folder.labels() == before
    told = daily_report(folder)
    assert told.labels is not None
    assert told.labels.labeled + told.labels.unknown + told.labels.withheld == 64
    # Ten classes: whoever guesses is right once in ten times.
    assert told.labels.right.value > 0.4
    assert told.labels.energy.status == "modelled"
    assert told.labels.energy.value > 0
    assert len(told.labels.examples) > 2
    (batch,) = told.batches
    for day, row in zip(batch.days[1:], before, strict=True):
        labeled = sum(label >= 0 for label in row["classes"])
        assert day.steps == -(-labeled // 16)
    assert "Labels right" in render_daily(told)
