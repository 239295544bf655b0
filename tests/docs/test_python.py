"""docs/python.md: its examples run, and the public functions are what it says."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused

import wattstep
from wattstep.errors import DamagedRunError
from wattstep.insight.compare.comparing import Comparison
from wattstep.insight.compare.matrix import Matrix
from wattstep.run import Run
from wattstep.schema.figure import Figure, Status
from wattstep.schema.figures import Metrics
from wattstep.schema.run_report import RunReport

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
FUNCTIONS = ["train", "compare", "explain", "export", "sweep", "predict", "plan", "tune"]


def test_the_examples_run_as_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for example in EXAMPLES:
        exec(compile(example, "docs/python.md", "exec"), names)
    assert isinstance(names["a"], Run)
    assert names["a"].path == Path("runs/a")
    assert isinstance(names["found"], Comparison)
    assert isinstance(names["matrix"], Matrix)
    assert names["matrix"].metric == "throughput"
    assert [each["status"] for each in names["document"]["outcomes"]] == ["trained", "trained"]
    assert (tmp_path / "tables" / "steps.csv").exists()
    assert names["predicted"].fits()
    assert names["plan"].chosen.configuration.samples_per_update == 16
    assert names["tuned"].plan == Path("tuned/plan.json")
    assert names["tuned"].to_dict()["losses_compared"] >= 0
    spans = wattstep.load("runs/mine").tables.table("spans").to_pylist()
    assert [each["name"] for each in spans if each["kind"] == "rest"] == [
        "evaluation",
        "checkpoint",
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_have_documented_arguments_and_errors(name: str) -> None:
    from wattstep import api

    function = getattr(api, name)
    documented = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters:
        assert f"    {parameter}: " in documented
    assert "Raises:" in documented
    assert ">>> " in documented
    assert f"wattstep.{name}(" in PAGE
    assert inspect.signature(getattr(wattstep, name)) == inspect.signature(function)


def test_a_public_function_stays_callable_beside_the_package_of_its_name() -> None:
    import wattstep.sweep.plan
    import wattstep.train.loop

    assert callable(wattstep.train)
    assert callable(wattstep.sweep)
    assert wattstep.train.settings.TrainingSettings(workload="lenet").batch_size == 4  # type: ignore[attr-defined]


def test_importing_wattstep_loads_none_of_what_its_functions_need() -> None:
    heavy = "{'numpy', 'pyarrow', 'torch', 'wattstep.api', 'wattstep.train'}"
    source = f"import sys, wattstep; assert not {heavy} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", source], check=True)


def test_what_cannot_be_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with refused("unknown-setting", "batchsize"):
        wattstep.train("lenet", batchsize=4)
    with refused("nothing-to-sweep"):
        wattstep.sweep([], [1], out=tmp_path / "swept")
    with refused("nothing-to-compare"):
        wattstep.compare()
    with refused("unknown-section"):
        wattstep.explain(tmp_path, ["tea leaves"])
    with refused("unknown-format", "spreadsheet"):
        wattstep.export(tmp_path, "spreadsheet")
    with pytest.raises(DamagedRunError):
        wattstep.compare(tmp_path / "gone", tmp_path / "lost")
    assert not list(tmp_path.iterdir())


def test_the_report_of_a_run_that_was_never_recorded_is_explained_and_exported(
    tmp_path: Path,
) -> None:
    step = Figure(value=2.0, unit="s", status=Status.PREDICTED)
    report = RunReport(workload="lenet", run="predicted", metrics=Metrics({"step_time": step}))
    (gaps,) = wattstep.explain(report, ["gaps"])
    assert "never recorded" in (gaps.reason or "")
    exported = wattstep.export(report, "csv", tmp_path / "tables")
    assert "predicted" in (exported.path / "metrics.csv").read_text(encoding="utf-8")
