"""One bad value in one `run.json` of a store: that run has its line, and every command serves the others."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.matrix.answers import FORMATS, Caller
from tests.run.made import MS, Sampled, busy, make_run, power

from wattstep.serve.store_view import StoreView
from wattstep.serve.worker import answer

HUGE = 10**399
BAD: dict[str, tuple[str, Any]] = {
    "infinite clock": ("clocks", [[math.inf, 1]]),
    "400 digits": ("seed", HUGE),
    "huge batch": ("batch_size", HUGE),
    "negative batch": ("batch_size", -4),
    "nan interval": ("interval_s", math.nan),
    "title of a list": ("title", [1]),
    "null state": ("state", None),
    "garbled cores": ("device", {"cores": [2]}),
    "infinite memory": ("device", {"memory": math.inf}),
    "calibration": ("calibration", {"calibrations": {"total": {"gain": 1}}}),
    "goal": ("options", {"until": "whatever"}),
    "canary": ("canary", {"version": 1, "before": {"right": True}}),
    "conditions": ("conditions", {"sustain": {"seconds": "x"}, "ambient": {"value": 1e300}}),
    "lost": ("lost", {"sampler": HUGE}),
    "gaps": ("gaps", [[0, math.inf]]),
    "imported": ("imported", {"alignment": [7]}),
    "reads": ("reads", [{"number": 0}]),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 60 steps at 5 W."""
    path = tmp_path_factory.mktemp("whole") / "whole"
    make_run(path, [Sampled(channel=power(), raw=lambda t_ns: 5000),
                    Sampled(channel=busy(0), raw=lambda t_ns: t_ns // (10 * MS))])  # fmt: skip
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Callable[[str, Any], Path]:
    """A folder of a whole run and of one with that value."""

    def make(key: str, value: Any) -> Path:
        folder = tmp_path / "store"
        for name in ("bad", "whole"):
            shutil.copytree(whole, folder / name)
        text = (folder / "bad" / "run.json").read_text(encoding="utf-8")
        changed = json.dumps({**json.loads(text), key: value})
        (folder / "bad" / "run.json").write_text(changed, encoding="utf-8")
        return folder

    return make


@pytest.mark.parametrize("what", BAD)
def test_a_bad_value_costs_its_own_run_and_no_other(
    what: str, store: Callable[[str, Any], Path], call: Caller, tmp_path: Path
) -> None:
    folder, page = store(*BAD[what]), tmp_path / "r.html"
    names = {
        Path(row["run"]).name for row in call("runs", "list", folder, "--json").document["runs"]
    }
    assert names == {"bad", "whole"}
    report = call("report", folder, "-o", page, "-q", "--json").document
    assert "whole" in {Path(run["run"]).name for run in report["runs"]}
    assert {run["run"] for run in report["damaged"]} <= {"bad"}
    explained = call("explain", folder, "-q", "--json", "-s", "steps").document
    assert "whole" in {Path(run["run"]).name for run in explained["runs"]}
    assert len(call("observe", folder, "-q", "--json").document["observations"]) == 12
    for table in ("runs", "metrics"):
        rows = call("query", f"SELECT * FROM {table}", "--runs", folder, "-q", "--json").document
        assert any("whole" in str(row) for row in rows["rows"])
    for to in FORMATS:
        found = call("export", folder, "--to", to, "-o", tmp_path / to, "-q", "--json").document
        assert "whole" in {Path(each["run"]).name for each in found["exports"]}
    entries = {entry.path.name: entry for entry in StoreView(folder).look().values()}
    assert entries["whole"].state == "closed"
    asked = {"paths": [str(folder / "bad")], "output": str(tmp_path / "page"), "left_out": []}
    for task in ("figures", "document", "report"):
        assert "cannot be worked" not in answer({"task": task, **asked}).get("error", "")


@pytest.mark.parametrize("what", BAD)
def test_a_bad_value_is_compared_or_refused_in_one_line(
    what: str, store: Callable[[str, Any], Path], call: Caller
) -> None:
    folder = store(*BAD[what])
    try:
        call("compare", folder / "bad", folder / "whole", "-q", "--json")
    except AssertionError:
        told = call("compare", folder / "bad", folder / "whole", "-q", "--json", code=2)
        assert told.err.startswith("wattstep: ")
        assert told.err.count("\n") == 1
