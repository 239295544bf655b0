"""A script of the user's, unchanged: its steps, its traces, and layers timed where kernels cannot be."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.agent.boards import agent_in, python, run_in
from tests.wording import assert_says, saying

import wattstep
from wattstep.remote.agent.joining import join

STUBBED = """
import sys
import torch
from torch import nn
from torch.tensor import Tensor
from torch.utils.data.dataloader import DataLoader

model = nn.Sequential(nn.Linear(), nn.ReLU(), nn.Sequential(nn.Linear(), nn.ReLU()))
optimizer = torch.optim.Twice(model.parameters())
steps = 0
for epoch in range(int(sys.argv[1])):
    for batch in DataLoader([Tensor(8) for _ in range(20)]):
        model(batch).backward()
        assert optimizer.step() == "stepped"
        steps += 1
    with torch.no_grad():
        model(Tensor(8))
print(__name__, steps, sys.argv)
sys.exit(5)
"""
REAL = """
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
data = torch.utils.data.TensorDataset(torch.randn(120, 3, 8, 8), torch.randint(0, 10, (120,)))
for inputs, targets in torch.utils.data.DataLoader(data, batch_size=4):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), targets)
    loss.backward()
    optimizer.step()
"""
Rows = dict[str, list[Any]]


def profiled(
    folder: Path,
    version: str,
    *options: str,
    code: int = 5,
    script: str = STUBBED,
    **environment: str,
) -> Path:
    """Runs a script under the agent; the folder that it recorded into."""
    agent_in(folder)
    (folder / "script.py").write_text(script)
    interpreter = sys.executable if version == "ours" else python(version)
    done = run_in(
        folder, interpreter, "wattstep_agent.py", "run", "--out", "out", *options, "script.py", "3",
        stub=version != "ours", **environment,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    if version != "ours":
        assert done.stdout == "__main__ 60 ['script.py', '3']\n"
    return folder / "out"


def joined(folder: Path) -> tuple[Rows, Rows, list[str]]:
    """Steps, operations and notes of the run that comes of a recording."""
    run = join(folder, folder.parent / "run")
    steps = pq.read_table(run / "steps.parquet").to_pydict()
    operations = pq.read_table(run / "operations.parquet").to_pydict()
    return steps, operations, json.loads((run / "run.json").read_text())["notes"]


def windows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "windows.jsonl").read_text().splitlines()]


def events(folder: Path, window: dict[str, Any]) -> list[dict[str, Any]]:
    """Of a window's trace, by plain json."""
    document = json.loads((folder / "traces" / window["file"]).read_text())
    listed = document["traceEvents"] if isinstance(document, dict) else document
    return [event for event in listed if event.get("ph") == "X"]


# --- steps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["3.6", "3.8"])
def test_a_script_runs_unchanged_and_its_steps_are_those_of_its_optimizer(
    tmp_path: Path, version: str
) -> None:
    steps, _, notes = joined(profiled(tmp_path, version, "--every", "4"))
    assert steps["index"] == list(range(60))
    assert set(steps["samples"]) == {8.0}
    # The first window after three steps of warm-up and three more, then one after every four or so.
    windows_at = [n for n, traced in enumerate(steps["traced"]) if traced]
    assert windows_at[0] == 6
    gaps = np.diff(windows_at[:6])
    assert all(1 + 4 // 2 <= gap <= 1 + 4 * 3 // 2 for gap in gaps), gaps
    assert saying(notes, "exit code 5")
    spans = pq.read_table(tmp_path / "run" / "spans.parquet").to_pylist()
    rests = [span["name"] for span in spans if span["kind"] == "rest"]
    assert rests == ["canary", "startup", "evaluation", "evaluation", "evaluation", "canary"]
    canary = json.loads((tmp_path / "run" / "run.json").read_text())["canary"]
    assert canary["kind"] == f"python {version}"
    assert canary["before"]["right"]
    assert canary["after"]["right"]
    assert len(canary["after"]["compute_s"]) >= 5
    # Of the steps whose phases are marked: how many that are goes with how long steps take.
    names = Counter(tuple(names) for names in steps["mark_name"] if names)
    marked = ("loop", "data", "forward", "backward", "optimizer", "Sequential")  # what was updated
    assert names.most_common(1)[0][0] == marked


def test_with_tracing_off_nothing_is_traced(tmp_path: Path) -> None:
    folder = profiled(tmp_path, "3.6", "--trace", "none")
    steps, operations, _ = joined(folder)
    assert not any(steps["traced"])
    assert not operations["name"]
    assert list((folder / "traces").iterdir()) == []


# --- traces -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kineto(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with traces of Kineto."""
    return profiled(tmp_path_factory.mktemp("kineto"), "3.6", "--every", "9")


@pytest.mark.parametrize("old", [False, True], ids=["kineto", "before-kineto"])
def test_operations_are_those_of_the_exported_traces(
    tmp_path: Path, kineto: Path, old: bool
) -> None:
    folder = tmp_path / "out"
    if old:
        profiled(tmp_path, "3.6", "--every", "9", STUB_OLD="1")
    else:
        shutil.copytree(kineto, folder)
    steps, operations, notes = joined(folder)
    assert [window["method"] for window in windows(folder)] == (
        ["autograd" if old else "kineto"] * len(windows(folder))
    )
    assert len(windows(folder)) >= 5
    for window in windows(folder):
        wanted = [event for event in events(folder, window) if event["name"].startswith("aten::")]
        mine = [n for n, step in enumerate(operations["step"]) if step == window["step"]]
        work = [n for n in mine if operations["name"][n].startswith("aten::")]
        assert len(work) == len(wanted) == 8  # four layers, forward and backward
        total = sum(operations["end_ns"][n] - operations["start_ns"][n] for n in work)
        # Times of the file are rounded to ns, twice an event.
        assert total == pytest.approx(sum(event["dur"] for event in wanted) * 1e3, abs=20)
        # In the clock of the marks they lie within their step, give or take the mapping's error.
        at = steps["index"].index(window["step"])
        slack = 1e3 * max(float(note.partition("±")[2].split()[0]) for note in notes if "±" in note)
        assert min(operations["start_ns"][n] for n in work) >= steps["start_ns"][at] - slack
        assert max(operations["end_ns"][n] for n in work) <= steps["end_ns"][at] + slack
        layers = [operations["layer"][n] for n in work if operations["phase"][n] == "forward"]
        assert layers == ["0", "1", "2.0", "2.1"]
        assert {operations["phase"][n] for n in work} == {"forward", "backward"}
    assert set(operations["processor"]) == {"cpu"}


def test_kernels_are_operations_of_the_gpu(tmp_path: Path) -> None:
    folder = profiled(tmp_path, "3.6", "--every", "9", STUB_GPU="1")
    _, operations, notes = joined(folder)
    kernels = [n for n, processor in enumerate(operations["processor"]) if processor == "gpu0"]
    assert len(kernels) == 8 * len(windows(folder))
    assert {operations["end_ns"][n] - operations["start_ns"][n] for n in kernels} == {100_000}
    assert not [note for note in notes if "CUPTI" in note]
    launched = [operations["layer"][n] for n in kernels if operations["phase"][n] == "forward"]
    assert launched[:4] == ["0", "1", "2.0", "2.1"]


def test_without_the_privilege_for_kernels_layers_are_timed_by_events_and_it_is_said(
    tmp_path: Path,
) -> None:
    folder = profiled(tmp_path, "3.6", "--every", "9", STUB_GPU="1", STUB_REFUSED="1")
    _, operations, notes = joined(folder)
    first, *others = windows(folder)
    assert first["method"] == "kineto"
    assert_says(first["dropped"], "GPU")
    assert {window["method"] for window in others} == {"layers"}
    assert any("CUPTI" in note and "timed by events" in note for note in notes)
    assert any("operations are layers" in note for note in notes)
    assert saying(notes, f"step {first['step']}", "no operations")
    assert set(operations["processor"]) == {"gpu0"}
    assert sorted(set(operations["step"])) == [window["step"] for window in others]
    for window in others:
        rows = json.loads((folder / "traces" / window["file"]).read_text())["rows"]
        # Four leaves and the one top-level module that holds two of them, forward and backward.
        calls = Counter((path, phase) for path, _, _, phase, _, _ in rows)
        assert calls == {
            (path, phase): 1
            for path in ("0", "1", "2", "2.0", "2.1")
            for phase in ("forward", "backward")
        }
        mine = [n for n, step in enumerate(operations["step"]) if step == window["step"]]
        leaves = [n for n in mine if operations["kind"][n] != "scope"]
        assert sum(operations["self_ns"][n] for n in leaves) == sum(
            end - begin for _, _, leaf, _, begin, end in rows if leaf
        )
        # Each leaf works for 1 ms; a stamp in ms as a float is right to a fraction of a µs.
        for n in leaves:
            assert operations["end_ns"][n] - operations["start_ns"][n] >= 999_000
    assert set(operations["name"]) == {"Linear", "ReLU", "module code"}
    kinds = dict(zip(operations["name"], operations["kind"], strict=True))
    assert kinds["Linear"] == "matrix product"


def test_layers_can_be_asked_for_and_are_timed_on_the_cpu_where_there_is_no_gpu(
    tmp_path: Path,
) -> None:
    folder = profiled(tmp_path, "3.8", "--trace", "layers", "--every", "9")
    _, operations, notes = joined(folder)
    assert {window["method"] for window in windows(folder)} == {"layers"}
    assert set(operations["processor"]) == {"cpu"}
    assert not any("CUPTI" in note for note in notes)
    assert wattstep.load(tmp_path / "run").operations().to_arrow().num_rows > 0


def test_copies_and_pickles_within_windows(tmp_path: Path) -> None:
    copying = (
        REAL.replace("import torch\n", "import copy, pickle, torch\n", 1)
        + """
    copies = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    assert b"wattstep" not in pickle.dumps(model)
    for each in copies:
        nn.functional.cross_entropy(each(inputs), targets).backward()
"""
    )
    folder = profiled(tmp_path, "ours", "--trace", "layers", "--every", "5", code=0, script=copying)
    tables = [json.loads(path.read_text()) for path in folder.rglob("*.layers.json")]
    calls = [sorted((int(row[0]), row[3]) for row in table["rows"]) for table in tables]
    expected = [(layer, phase) for layer in range(4) for phase in ("backward", "forward")]
    assert calls
    assert calls == [expected] * len(calls)


# --- what is damaged ---------------------------------------------------------------------------------


def test_a_window_that_was_cut_or_lost_is_left_out_with_a_note(
    tmp_path: Path, kineto: Path
) -> None:
    folder = tmp_path / "out"
    shutil.copytree(kineto, folder)
    listed = windows(folder)
    (folder / "traces" / listed[0]["file"]).write_text("no trace")
    (folder / "traces" / listed[1]["file"]).unlink()
    other = (folder / "traces" / listed[3]["file"]).read_text()
    (folder / "traces" / listed[2]["file"]).write_text(other)  # of another step
    text = (folder / "windows.jsonl").read_text()
    (folder / "windows.jsonl").write_text(text[:-10])  # as a kill cuts it
    _, operations, notes = joined(folder)
    assert sorted(set(operations["step"])) == [window["step"] for window in listed[3:-1]]
    for window in listed[:3]:
        assert saying(notes, f"step {window['step']}", "left out")


# --- a real torch ------------------------------------------------------------------------------------


def test_a_real_torch_s_operations_add_up_to_those_of_its_own_trace(tmp_path: Path) -> None:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed here")
    folder = profiled(tmp_path, "ours", "--every", "5", code=0, script=REAL)
    steps, _, _ = joined(folder)
    assert steps["index"] == list(range(30))
    assert set(steps["samples"]) == {4.0}
    listed = windows(folder)
    at = [window["step"] for window in listed]
    assert at[0] == 6
    assert all(1 + 5 // 2 <= gap <= 1 + 5 * 3 // 2 + 1 for gap in np.diff(at))
    table = pq.read_table(tmp_path / "run" / "operations.parquet")
    for window in listed:
        mine = table.filter(pc.equal(table["step"], window["step"]))
        rows = mine.filter(pc.not_equal(mine["kind"].cast("string"), "scope"))
        found = Counter(rows["name"].cast("string").to_pylist())
        (step,) = [e for e in events(folder, window) if e["name"].startswith("ProfilerStep")]
        wanted = [
            event
            for event in events(folder, window)
            if event["cat"] == "cpu_op" and step["ts"] <= event["ts"] < step["ts"] + step["dur"]
        ]
        assert sum(found.values()) == len(wanted) > 30
        assert found["aten::conv2d"] == found["aten::linear"] == 1
        length = np.asarray(rows["end_ns"]) - np.asarray(rows["start_ns"])
        total = sum(event["dur"] for event in wanted) * 1e3
        assert int(length.sum()) == pytest.approx(total, rel=1e-4, abs=2 * len(wanted))
    run = wattstep.load(tmp_path / "run")
    by_layer = {(row["name"], row["layer"], row["phase"]) for row in run.operations()}
    assert ("aten::conv2d", "0", "forward") in by_layer
    assert ("aten::linear", "3", "forward") in by_layer
    assert ("ConvolutionBackward0", "0", "backward") in by_layer
    # Less warm-up, traced steps, and those after them.
    after = sum(step + 1 < 30 for step in at)
    assert run.metrics()["step_time"].n == 30 - 3 - len(at) - after
