"""What all engines of exported trainings refuse alike, before anything is loaded or written."""

from __future__ import annotations

import os
import signal
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says

from wattstep import workloads
from wattstep.cli.sweep import first_engine
from wattstep.engines import ENGINES, check_predicted, find
from wattstep.engines.exported.engine import ExportedEngine, in_child
from wattstep.errors import InvalidValueError, WattstepError
from wattstep.schema import extras
from wattstep.schema.outcome import Configuration
from wattstep.schema.processes import refusal_news
from wattstep.schema.workload import OptimizerSettings, Preparation
from wattstep.sweep.plan import SweepPlan
from wattstep.train.calibration.engine import calibrate_engine
from wattstep.train.child.child import Ending
from wattstep.train.child.limits import Cage, MemoryLimit
from wattstep.train.child.local_machine import versions
from wattstep.train.child.measuring import Listener
from wattstep.train.child.measuring import measure as measure_configuration
from wattstep.train.child.verdict import judge
from wattstep.train.daily.settings import DailySettings
from wattstep.train.memory import FootprintSettings
from wattstep.train.memory.life import measure
from wattstep.train.settings import TrainingSettings
from wattstep.tune.tuning import Question, tune

EXPORTED = [name for name in ENGINES.own if find(name).exports]


def engine_of(name: str) -> ExportedEngine:
    engine = find(name)
    assert isinstance(engine, ExportedEngine)
    return engine


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize(
    ("optimizer", "options", "words"),
    [
        ("adamw8bit", {}, "adamw8bit"),
        ("sgd", {"dampening": 0.5}, "dampening=0.5"),
        ("adam", {"amsgrad": True}, "amsgrad"),
    ],
)
def test_an_optimizer_that_it_does_not_make_is_refused_by_the_engines_name(
    name: str, optimizer: str, options: dict[str, Any], words: str
) -> None:
    settings = OptimizerSettings(name=optimizer, rate=0.1, options=options)
    preparation = Preparation(batch_size=2, optimizer=settings)
    with refused("optimizer-not-for-engine", words, name):
        find(name).prepare(workloads.find("lenet"), preparation)


@pytest.mark.parametrize("name", EXPORTED)
def test_training_by_the_day_is_refused_before_anything_is_exported(name: str) -> None:
    with refused("not-for-engine", name, "--engine torch"):
        DailySettings(workload="lenet", engine=name)


@pytest.mark.parametrize("name", EXPORTED)
def test_tuning_is_refused_before_anything_is_exported(name: str, tmp_path: Path) -> None:
    question = Question(settings=TrainingSettings(workload="lenet", engine=name))
    with refused("not-tunable", name, "--engine torch"):
        tune(question, tmp_path / "tune")
    assert not (tmp_path / "tune").exists()


def test_what_trains_on_no_cpu_is_neither_calibrated_nor_predicted(tmp_path: Path) -> None:
    with refused("not-predicted", "opencl"):
        calibrate_engine("opencl", tmp_path / "this.toml", tell=lambda stage, share: None)
    for name in (None, "torch-1.6", "mnn", "of somebody else"):
        check_predicted(name)
    with refused("not-predicted", "opencl", "wattstep run"):  # not "calibrate it", which is refused
        check_predicted("opencl")


def test_each_engine_of_a_sweep_trains_on_its_own_processor() -> None:
    """What was asked for by name is not another engine's to change."""
    shared = TrainingSettings(workload="lenet", engine="mnn", trace="none")
    plan = SweepPlan(settings=shared, workloads=("lenet",), batches=(4,), engines=("mnn", "opencl"))
    settings = [plan.settings_of(each, out="") for each in plan.configurations()]
    assert [each.processor for each in settings] == ["cpu", "opencl"]
    assert first_engine("mnn, opencl", "") == "mnn"
    with refused("unknown-processor", "cpu"):
        first_engine("mnn,opencl", "cpu")


@pytest.mark.parametrize("name", EXPORTED)
def test_what_is_not_installed_or_of_another_version_is_refused_with_the_command_that_mends_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(name)

    def absent(package: str) -> str:
        raise PackageNotFoundError(package)

    place = "wattstep.engines.exported.engine.version"
    monkeypatch.setattr(place, absent)
    with refused("missing-framework", f'pip install "wattstep[{engine.extra}]"', "not installed"):
        engine.load()
    if engine.series:
        monkeypatch.setattr(place, lambda package: "0.9")
        with refused("missing-framework", engine.package, "0.9", engine.series):
            engine.load()


@pytest.mark.parametrize("name", EXPORTED)
@pytest.mark.parametrize("error", [ImportError("no such symbol: f"), OSError("too short\nor not")])
def test_what_is_installed_and_cannot_be_loaded_is_refused_in_one_line(
    name: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_of(name)

    def broken() -> None:
        raise error

    monkeypatch.setattr(engine, "missing", lambda: None)
    monkeypatch.setattr(engine, "import_framework", broken)
    with refused("unloadable-part", name, str(error).splitlines()[0]) as caught:
        engine.load()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ImportError('libbroken.so: too short')", "libbroken.so: too short"),
        ("raise OSError('libbroken.so: no such file')", "libbroken.so: no such file"),
        ("import what_it_needs", "what_it_needs"),
    ],
)
def test_a_library_whose_own_import_fails_is_named(
    body: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_library.py").write_text(body + "\n", encoding="utf-8")
    (tmp_path / "user_of_it.py").write_text("import broken_library\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(extras, "EXTRAS", {"broken_library": "broken"})
    for module in ("broken_library", "user_of_it"):
        with refused("unloadable-part", "broken_library is installed", words):
            extras.require(module)
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", ["executorch", "mlx"])
def test_more_threads_than_an_engine_has_are_refused_before_anything_is_exported(name: str) -> None:
    with refused("threads-not-for-engine", "--threads 2", name):
        find(name).prepare(workloads.find("lenet"), Preparation(batch_size=2), threads=2)


def test_engines_of_one_thread_say_so_before_they_are_loaded() -> None:
    usual = {name: find(name).usual_threads(8) for name in ENGINES.own}
    assert usual == {
        "torch": 8, "torch-compile": 8, "mnn": 4, "onnxruntime": 8, "executorch": 1, "mlx": 1,
        "opencl": 8,
    }  # fmt: skip


def crash() -> int:
    """Of a child of an export: dies as a library does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return 0


def test_a_crash_inside_an_engine_is_no_refusal_and_is_named_with_its_signal() -> None:
    with pytest.raises(WattstepError) as caught:
        in_child("mnn, which takes ten steps,", "tests.engines.test_exported_doors:crash")
    assert caught.value.id == "no-end-of-export"
    assert_says(str(caught.value), "mnn", "signal 11 (SIGSEGV)")
    # So a sweep counts its configuration as crashed, and goes on.
    news = refusal_news(caught.value)
    ending = Ending(code=2, error=news["error"], kind=news["kind"], id=news["id"])
    state, reason, _ = judge(ending, Cage(limit=None, folder=None), output="", began_s=0.0)
    assert (state, reason) == ("crashed", str(caught.value))


@pytest.mark.parametrize("name", EXPORTED)
def test_memory_that_cannot_be_followed_is_refused_before_anything_is_exported(name: str) -> None:
    with refused("memory-not-followed", name, f"wattstep run lenet --engine {name}"):
        settings = FootprintSettings(
            workload="lenet", batch_size=2, engine=name, processor=find(name).processors[0]
        )
        measure(settings, lambda news: None)


@pytest.mark.parametrize("name", EXPORTED)
def test_a_sweep_notes_the_version_of_each_engine_whatever_its_package_is_called(name: str) -> None:
    if (reason := engine_of(name).missing()) is not None:
        pytest.skip(reason)
    assert find(name).version() == f"{name} {versions()[name]}"


@pytest.mark.parametrize("status", ["refused", "crashed"])
def test_what_cannot_be_exported_before_its_memory_is_bounded_is_an_outcome(
    status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def export(*_: object) -> None:
        raise (InvalidValueError if status == "refused" else WattstepError)("why")

    monkeypatch.setattr("wattstep.train.child.exporting.export_in_child", export)
    settings = TrainingSettings(workload="lenet", engine="mnn", out=str(tmp_path / "lenet"))
    limit = MemoryLimit(size=2**30, means="data segments", why_not="a test")
    quiet = Listener(on_progress=lambda progress: None, on_warning=lambda text: None)
    one = Configuration(workload="lenet", batch_size=4)
    outcome = measure_configuration(one, settings, limit, quiet)
    assert (outcome.status, outcome.reason) == (status, "why")
    assert not list(tmp_path.iterdir())
