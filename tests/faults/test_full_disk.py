"""A disk that fills up while it is recorded upon: a real one of two megabytes."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.refusals import refused
from tests.small_disks import disk_of
from tests.waiting import until
from tests.wording import assert_says, saying

import wattstep
from wattstep.record.sampling.collector import Collector
from wattstep.record.sampling.plan import make_plan
from wattstep.schema.channel import Channel, Present, SensorRead
from wattstep.store.files import read_info

SCRIPT = """
import sys, time, wattstep
end = time.monotonic() + 60
with wattstep.Recorder(sys.argv[1], interval="1ms", trace="none") as recorder:
    while recorder.problem is None or recorder._sampling._sampler.lost() is None:
        with recorder.step(samples=1):
            for name in ("data", "forward", "backward", "optimizer"):
                recorder.phase(name)
        assert time.monotonic() < end
    for kind in range(3):  # whatever else a training calls goes on as well
        recorder.rest("evaluation")
        recorder.memory("parameters", 1)
        recorder.samples(4)
        recorder.steps.split(f"rest {kind}", 1, 2)
        with recorder.step():
            recorder.phase(f"phase {kind}")
print("trained")
print(recorder.problem)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disk_of(tmp_path / "small", "2m") as folder:
        yield folder


def recorded(run: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, str(run)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_on_a_full_disk_the_training_goes_on_and_the_journals_stay(
    small_disk: Path, tmp_path: Path
) -> None:
    run = small_disk / "run"
    done = recorded(run)
    assert done.returncode == 0, done.stderr
    said, problem = done.stdout.splitlines()
    assert said == "trained"
    assert_says(problem, "disk is full", os.strerror(errno.ENOSPC))
    assert "journals are kept" in problem
    lines = done.stderr.splitlines()
    assert saying(lines, "RecordingWarning", "disk is full")
    assert saying(lines, "RecordingWarning", "sampler was lost", os.strerror(errno.ENOSPC))
    assert saying(lines, "RecordingWarning", "tables", os.strerror(errno.ENOSPC))
    assert "Traceback" not in done.stderr
    before = {p: p.stat().st_size for p in (run / "journal").iterdir()}

    # Still full: that is what opening it says, and nothing is lost by it.
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass
    with refused("unwritable-tables", os.strerror(errno.ENOSPC)):
        wattstep.load(run)
    assert {p: p.stat().st_size for p in before} == before

    # With room it is a run like any other.
    roomy = tmp_path / "roomy"
    shutil.copytree(run, roomy)
    opened = wattstep.load(roomy)
    assert opened.info.state == "recovered"
    steps = opened.tables.steps()
    assert len(steps.index) > 1000
    assert list(steps.index) == list(range(len(steps.index)))
    assert opened.metrics()["step_time"].value > 0
    assert len(opened.tables.samples()["process.cpu_time"][0]) > 100


def test_a_disk_that_is_full_from_the_start_is_one_clear_line(small_disk: Path) -> None:
    with (small_disk / "filler").open("wb") as file:
        try:
            while True:
                os.write(file.fileno(), b"x" * 4096)
        except OSError:
            pass
    script = (
        "import sys, wattstep\n"
        "try: wattstep.Recorder(sys.argv[1], trace='none').start()\n"
        "except wattstep.WattstepError as error: print(error)"
    )
    run = small_disk / "run"
    done = subprocess.run(
        [sys.executable, "-c", script, str(run)], capture_output=True, text=True, check=False
    )
    assert done.stdout == f"cannot record into {run}: {os.strerror(errno.ENOSPC)}\n"
    assert done.stderr == ""
    assert not run.exists()


def test_a_script_on_a_full_disk_keeps_its_exit_code_and_one_line_says_what_to_do(
    small_disk: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "import sys, torch\n"
        "net = torch.nn.Linear(8, 2)\n"
        "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for step in range(3000):\n"
        "    net(torch.randn(4, 8)).sum().backward()\n"
        "    optimizer.step()\n"
        "    if step == 100:\n"
        "        with open(sys.argv[1], 'wb', buffering=0) as file:\n"
        "            try:\n"
        "                while file.write(bytes(4096)): pass\n"
        "            except OSError: pass\n"
        "print('trained')\n"
        "sys.exit(int(sys.argv[2]))\n"
    )
    for code, quiet in ((0, []), (5, []), (0, ["-q"])):
        run, filler = small_disk / f"run{code}", small_disk / "filler"
        words = ["--interval", "1ms", "--trace", "none", "--out", str(run), *quiet, "train.py"]
        done = subprocess.run(
            [sys.executable, "-m", "wattstep", "profile", *words, str(filler), str(code)],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.stdout == "trained\n"
        assert done.returncode == code, done.stderr
        (line,) = [line for line in done.stderr.splitlines() if "No space left" in line]
        # Whichever comes first says it where nothing is told afterwards.
        ended = "" if quiet else f"train.py ended with exit code {code}; "
        assert line.startswith(f"wattstep: {ended}")
        assert quiet or "make room" in line
        assert "Warning" not in done.stderr
        shutil.rmtree(run)
        filler.unlink()


def test_on_a_full_disk_the_collector_ends_with_whole_rows_and_says_why(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "sampling"))
    name = Channel(name="w", unit="W", kind="gauge", domain="unknown", role="test", source="test")
    read = SensorRead(
        path="w", parser="feed", channels=(name,), push_source="sources_of_tests:Wide"
    )
    collector = Collector(make_plan({"wide": Present(reads=(read,))}, 0.01), small_disk)
    collector.start()
    until(lambda: collector.lost() is not None)
    news = collector.stop()
    assert [one.sensor for one in news] == ["wide"]
    assert_says(news[0].text, "collector:", os.strerror(errno.ENOSPC), "no samples")
    size = (small_disk / "samples-01.bin").stat().st_size
    assert size > 500_000
    assert size % 24 == 0


def test_notes_reach_the_run_when_room_was_made(small_disk: Path) -> None:
    run = small_disk / "run"
    assert recorded(run).returncode == 0
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    assert wattstep.load(run).info.state == "recovered"
    assert read_info(run).state == "recovered"
    assert not (run / "journal").exists()
