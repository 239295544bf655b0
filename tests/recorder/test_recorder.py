"""A recorder in this process: what it writes, what it refuses, what it leaves."""

from __future__ import annotations

import errno
import gc
import getpass
import itertools
import json
import math
import os
import platform
import subprocess
import sys
import weakref
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from tests.refusals import refused
from tests.wording import assert_says

import wattstep
from wattstep.errors import RunExistsError
from wattstep.record.recorder import Recorder
from wattstep.record.tracing.windows import NOT_LOADED
from wattstep.store.files import read_info
from wattstep.store.lock import is_recording

NOBODY = 65534


def table(run: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / f"{name}.parquet").to_pylist()
    return rows


def ran(script: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_a_script_sees_what_it_uses_and_one_door_to_the_rest() -> None:
    of_a_step = {"step", "samples", "phase", "update"}
    beside_steps = {"span", "exclude", "rest", "apart"}  # the last two are older names
    stated = {"about", "evaluation", "info", "memory", "note"}
    of_host = {"machine_root"}  # where a governor finds what it sets
    public = {name for name in dir(Recorder) if not name.startswith("_")}
    assert public == {"start", "close", "steps"} | of_a_step | beside_steps | stated | of_host


# --- what it writes ----------------------------------------------------------------------------


def test_a_recorded_loop_becomes_a_run(tmp_path: Path) -> None:
    path = tmp_path / "run"
    about = {"workload": "lenet", "batch_size": 4, "seed": 7}
    with Recorder(path, trace="none", warmup=2, about=about) as recorder:
        for index in range(5):
            with recorder.step(samples=4) as step:
                recorder.phase("forward")
                recorder.phase("backward")
                step.loss = 1.0 / (1 + index)
        recorder.memory("parameters", 1000)
        recorder.rest("evaluation")
        with recorder.step():
            pass
        recorder.note("one")
        recorder.note("two")
        recorder.note("one")
        recorder.about(threads=3)
    info = read_info(path)
    assert (info.workload, info.title, info.batch_size, info.seed) == ("lenet", "lenet", 4, 7)
    assert (info.state, info.warmup, info.threads) == ("closed", 2, 3)
    assert info.notes == ("one", "two")
    assert info.lost == {}
    steps = table(path, "steps")
    assert [row["index"] for row in steps] == list(range(6))
    assert [row["samples"] for row in steps] == [4.0] * 5 + [None]
    assert [row["loss"] for row in steps] == [1.0, 1 / 2, 1 / 3, 1 / 4, 1 / 5, None]
    assert [row["warmup"] for row in steps] == [True] * 2 + [False] * 4
    assert steps[0]["mark_name"] == ["forward", "backward"]
    for before, after in itertools.pairwise(steps):
        assert before["start_ns"] <= before["end_ns"] <= after["start_ns"]
    (rest,) = table(path, "spans")
    assert (rest["kind"], rest["name"]) == ("rest", "evaluation")
    assert steps[4]["end_ns"] <= rest["start_ns"] <= rest["end_ns"] <= steps[5]["start_ns"]
    memory = {row["category"]: row["bytes"] for row in table(path, "memory")}
    assert memory["parameters"] == 1000
    assert memory["peak_resident"] > 10**6
    assert {row["channel"] for row in table(path, "samples")} >= {"sampler.cpu_time"}


def test_a_closed_run_has_no_journal_left(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none"):
        pass
    assert {path.suffix for path in (tmp_path / "run").iterdir()} == {".json", ".parquet"}


def test_a_run_without_a_path_is_named_by_workload_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Recorder(trace="none", about={"workload": "lenet"}) as recorder:
        pass
    assert recorder.path.parent == Path("runs")
    assert recorder.path.name.startswith("lenet-2")
    assert read_info(tmp_path / recorder.path).state == "closed"


def test_a_recording_that_cannot_begin_leaves_no_folder_and_none_that_was_made_for_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine").mkdir()
    for above in ("mine", "new", "new/and/newer"):
        with refused("unreadable-recording", "nothing.csv"):
            Recorder(tmp_path / above / "run", target="replay:nothing.csv").start()
    assert list(tmp_path.rglob("*")) == [tmp_path / "mine"]  # which was there before


def test_the_training_may_change_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Recorder("run", trace="none") as recorder:
        with recorder.step():
            pass
        os.chdir("elsewhere")
    assert len(table(tmp_path / "run", "steps")) == 1


def test_a_run_names_neither_host_nor_user_nor_path_nor_process(tmp_path: Path) -> None:
    path = tmp_path / "secret-folder" / "run"
    with Recorder(path, trace="none") as recorder, recorder.step():
        pass
    text = (path / "run.json").read_text()
    assert "secret-folder" not in text
    assert str(Path.home()) not in text
    assert f"/proc/{os.getpid()}" not in text
    words = {word for line in json.loads(text)["reads"] for word in line["path"].split("/")}
    assert platform.node() not in words
    assert getpass.getuser() not in words


def test_a_body_that_raises_keeps_the_run_and_its_whole_steps(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def train() -> None:
        with Recorder(path, trace="none") as recorder:
            for index in range(4):
                with recorder.step():
                    if index == 3:
                        raise ZeroDivisionError("the loss")

    with pytest.raises(ZeroDivisionError, match="the loss"):
        train()
    assert len(table(path, "steps")) == 3
    (note,) = read_info(path).notes
    assert_says(note, "training ended", "ZeroDivisionError")


def test_a_step_that_was_given_up_and_tried_again_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Recorder(path, trace="none") as recorder:
        for index in range(3):
            if index == 1:
                with pytest.raises(MemoryError), recorder.step():
                    raise MemoryError
            with recorder.step():
                recorder.phase("forward")
    rows = table(path, "steps")
    assert [row["index"] for row in rows] == [0, 1, 2]
    assert [row["mark_name"] for row in rows] == [["forward"]] * 3


def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", trace="none").start()
    recorder.close()
    before = (tmp_path / "run" / "run.json").stat().st_mtime_ns
    recorder.close()
    assert (tmp_path / "run" / "run.json").stat().st_mtime_ns == before


def test_a_training_ends_well_where_no_further_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(tmp_path / "run", trace="none").start()
    for _ in range(3):
        with recorder.step():
            recorder.phase("forward")

    def none_left(*_: Any, **__: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    with monkeypatch.context() as crowded:
        crowded.setattr(subprocess, "run", none_left)
        with pytest.warns(wattstep.RecordingWarning) as told:
            recorder.close()
    assert_says(str(told[0].message), "tables", "process", "journals")
    assert len(wattstep.load(tmp_path / "run").tables.steps().index) == 3


def test_a_recorder_that_is_closed_records_nothing(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        pass
    with recorder.step(samples=4):
        recorder.phase("forward")
        recorder.samples(4)
        recorder.memory("parameters", 1)
        recorder.rest("evaluation")
    assert recorder.steps.index == 0


def test_a_script_that_forgets_to_close_is_closed_at_its_end(tmp_path: Path) -> None:
    script = (
        "import sys, wattstep\n"
        "recorder = wattstep.Recorder(sys.argv[1], trace='none').start()\n"
        "for _ in range(3):\n    with recorder.step(): pass\n"
    )
    done = ran(script, tmp_path / "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read_info(tmp_path / "run").state == "closed"
    assert len(table(tmp_path / "run", "steps")) == 3


def test_a_recorder_that_is_closed_is_not_kept_in_memory(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "run", trace="none").start()
    recorder.close()
    remembered = weakref.ref(recorder)
    del recorder
    gc.collect()
    assert remembered() is None


# --- what it refuses ---------------------------------------------------------------------------


def test_a_second_recorder_in_one_process_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "one", trace="none") as first:
        with refused("second-recorder", "one"):
            Recorder(tmp_path / "two", trace="none").start()
        assert not (tmp_path / "two").exists()
        with first.step():
            pass
    assert len(table(tmp_path / "one", "steps")) == 1
    with Recorder(tmp_path / "two", trace="none"):
        pass


def test_a_folder_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "thesis.tex").write_text("years of work")
    with refused("run-exists"):
        Recorder(path, trace="none").start()
    assert [p.name for p in path.iterdir()] == ["thesis.tex"]
    with Recorder(tmp_path / "other", trace="none"):
        pass  # the refused one holds nothing


def test_recording_twice_into_one_folder_is_refused(tmp_path: Path) -> None:
    with Recorder(tmp_path / "run", trace="none"):
        pass
    before = {p: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(RunExistsError):
        Recorder(tmp_path / "run", trace="none").start()
    assert {p: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "run", tmp_path / "file" / "deep" / "run"):
        with refused("cannot-record"):
            Recorder(path, trace="none").start()


def test_a_folder_that_may_not_be_written_is_refused_with_one_line(tmp_path: Path) -> None:
    script = (
        "import os, sys, wattstep\n"
        "recorder = wattstep.Recorder(sys.argv[1], trace='none')\n"
        f"if os.getuid() == 0: os.setuid({NOBODY})\n"
        "try:\n    recorder.start()\n"
        "except wattstep.WattstepError as error: print(error)\n"
    )
    done = ran(script, "/usr/wattstep-run")
    assert_says(done.stdout, "/usr/wattstep-run", os.strerror(errno.EACCES))


@pytest.mark.parametrize(
    ("settings", "id", "named"),
    [
        ({"interval": "0.5ms"}, "interval-too-fine", "1ms"),
        ({"interval": "soon"}, "malformed-duration", "'soon'"),
        ({"trace": "sometimes"}, "malformed-trace-mode", "auto, none, every:N"),
        ({"warmup": -1}, "out-of-range", "--warmup -1"),
        ({"power_model": "nuclear"}, "unknown-power-model", "linear:IDLE,BUSY"),
    ],
)
def test_a_setting_that_cannot_be_used_leaves_no_folder(
    tmp_path: Path, settings: dict[str, Any], id: str, named: str
) -> None:
    with refused(id, named):
        Recorder(tmp_path / "run", **settings).start()
    assert list(tmp_path.iterdir()) == []
    with Recorder(tmp_path / "run", trace="none"):
        pass


@pytest.mark.parametrize(
    "samples",
    [-1, -0.5, True, "32", b"32", [1, 2], object(), math.inf, 10**400, np.float64(-1), np.ones(2)],
)
def test_samples_that_are_no_number_of_samples(tmp_path: Path, samples: Any) -> None:
    """They are refused before the step begins, and the recording goes on."""
    with Recorder(tmp_path / "run", trace="none") as recorder:
        with refused("invalid-samples", "samples="), recorder.step(samples=samples):
            pytest.fail("it began")
        with recorder.step(samples=4):
            with refused("invalid-samples", "samples="):
                recorder.samples(samples)
            recorder.samples(2)
    assert [row["samples"] for row in table(tmp_path / "run", "steps")] == [6.0]


@pytest.mark.parametrize(
    ("samples", "recorded"),
    [(None, None), (math.nan, None), (float("nan"), None), (0, 0.0), (2.5, 2.5), (70_000, 70_000.0)]
    + [(kind(3), 3.0) for kind in (float, np.int64, np.float32, np.array, Fraction)],
)  # fmt: skip
def test_samples_of_any_kind_of_number(
    tmp_path: Path, samples: Any, recorded: float | None
) -> None:
    with Recorder(tmp_path / "run", trace="none") as recorder:
        for _ in range(3):
            with recorder.step(samples=samples):
                pass
    assert [row["samples"] for row in table(tmp_path / "run", "steps")] == [recorded] * 3


def test_a_recorder_whose_sampler_cannot_start_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()  # what tests before left
    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(tmp_path / "no-python"))
        with refused("sampler-start"):
            Recorder(tmp_path / "run", trace="none").start()
    assert list(tmp_path.iterdir()) == []
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    with Recorder(tmp_path / "run", trace="none"):
        pass


# --- while it records --------------------------------------------------------------------------


def test_a_run_can_be_read_while_it_records(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with Recorder(path, trace="none") as recorder:
        for _ in range(3):
            with recorder.step():
                pass
        recorder.steps.begin_step()
        run = wattstep.load(path)
        assert run.info.state == "recording"
        assert list(run.tables.steps().index) == [0, 1, 2]
        assert is_recording(path)
        assert sorted(p.name for p in path.iterdir()) == ["journal", "run.json"]
        assert read_info(path).state == "recording"
        recorder.steps.finish()
    assert wattstep.load(path).info.state == "closed"
    assert len(table(path, "steps")) == 4


def test_a_forked_child_does_not_record(tmp_path: Path) -> None:
    script = """
import os, sys, warnings, wattstep
from pathlib import Path
with wattstep.Recorder(sys.argv[1], trace="none") as recorder:
    with recorder.step(): pass
    child = os.fork()
    if child == 0:
        for _ in range(50):
            with recorder.step(samples=9):
                recorder.phase("child")
        recorder.rest("child")
        recorder.steps.split("child", 1, 2)
        recorder.steps.abandon_window()
        recorder.close()
        with wattstep.Recorder(sys.argv[2], trace="none") as own:  # the child's own is another matter
            with own.step(): pass
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert Path(sys.argv[1], "journal").is_dir()
    with recorder.step(): pass
"""
    done = ran(script, tmp_path / "run", tmp_path / "own")
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(tmp_path / "run", "steps")
    assert [(row["index"], row["samples"], row["mark_name"]) for row in rows] == [
        (0, None, []),
        (1, None, []),
    ]
    assert len(table(tmp_path / "own", "steps")) == 1


# --- without torch -----------------------------------------------------------------------------

WITHOUT_TORCH = """
import sys, wattstep
with wattstep.Recorder(sys.argv[1], interval="2ms") as recorder:
    for _ in range(12):
        with recorder.step(samples=1): pass
assert "torch" not in sys.modules and "pyarrow" not in sys.modules and "numpy" not in sys.modules
"""


def test_without_torch_there_are_no_operations_and_the_run_says_why(tmp_path: Path) -> None:
    done = ran(WITHOUT_TORCH, tmp_path / "run")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(table(tmp_path / "run", "steps")) == 12
    assert table(tmp_path / "run", "operations") == []
    assert read_info(tmp_path / "run").notes == (NOT_LOADED,)
    assert read_info(tmp_path / "run").engine == "python"


def test_importing_wattstep_loads_the_standard_library_only() -> None:
    script = (
        "import sys; before = set(sys.modules); import wattstep\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - set(sys.stdlib_module_names) - {'wattstep'}))"
    )
    assert ran(script).stdout == "[]\n"


def test_a_recorder_loads_neither_numpy_nor_pyarrow() -> None:
    script = (
        "import sys; before = set(sys.modules); import wattstep; wattstep.Recorder\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - set(sys.stdlib_module_names) - {'wattstep'}))"
    )
    assert ran(script).stdout == "[]\n"


def test_the_public_names_are_there_and_others_are_not() -> None:
    assert set(dir(wattstep)) >= {"Recorder", "RecordingWarning", "WattstepError", "load"}
    with pytest.raises(AttributeError, match="recorder_of_heads"):
        _ = wattstep.recorder_of_heads
