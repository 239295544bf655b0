"""The life of a training, once for real in a child process, and what happens where memory runs out."""

from __future__ import annotations

import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.engines.torch import checkpoint as torch_checkpoint
from wattstep.errors import InvalidValueError
from wattstep.train.child.child import Ending
from wattstep.train.child.footprints import News, conclude, measure_in_child
from wattstep.train.child.limits import Cage, MemoryLimit
from wattstep.train.memory import FootprintSettings, measure
from wattstep.train.memory.document import breakdown, describe_life
from wattstep.train.memory.life import STAGES, Life, Stage, joined

PARAMETERS = 61_706  # LeNet-5


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> FootprintSettings:
    folder = tmp_path_factory.mktemp("footprint")
    return FootprintSettings(workload="lenet", batch_size=4, threads=1, folder=str(folder))


@pytest.fixture(scope="module")
def life(settings: FootprintSettings) -> Life:
    """LeNet with batch 4, in a process of its own."""
    heard: list[str] = []
    found = measure_in_child(settings, heard.append)
    assert heard == [
        "framework", "preparation", "model", "data", "optimizer", "data", "first step",
        "steady step", "following a step", "evaluation", "saving", "reloading",
    ]  # fmt: skip
    return found


def test_every_stage_has_a_peak_of_its_own(life: Life) -> None:
    told = tuple(name for name in STAGES if name != "preparation")
    assert tuple(stage.name for stage in life.stages) == told
    for stage in life.stages:
        assert stage.failed is None
        assert stage.before is not None
        assert stage.peak is not None
        assert stage.after is not None
        # The kernel counts by processor: a high-water mark may lag by some pages.
        assert stage.peak >= max(stage.before, stage.after) - 10**6
    peaks = {stage.name: stage.peak or 0 for stage in life.stages}
    assert peaks["framework"] < peaks["data"] < peaks["first step"] + 10**6
    # The digits come with scikit-learn, which is loaded with them; LeNet takes 250 kB.
    assert peaks["data"] - peaks["model"] > 10**7


def test_a_stage_that_goes_on_after_another_has_the_higher_peak_and_its_place() -> None:
    data = Stage(name="data", before=10, peak=90, after=80, device_peak=5)
    optimizer = Stage(name="optimizer", before=80, peak=85, after=85)
    more = Stage(name="data", before=85, peak=88, after=86)
    assert joined((data, optimizer), more) == (
        Stage(name="data", before=10, peak=90, after=86, device_peak=5),
        optimizer,
    )
    higher = replace(more, peak=99, failed="memory ran out")
    found = joined((data, optimizer), higher)[0]
    assert (found.peak, found.failed) == (99, "memory ran out")


def test_the_categories_add_up_to_the_peak_of_the_steps(life: Life) -> None:
    parts = breakdown(life)
    assert sum(part.value or 0 for part in parts.values()) == life.peak
    assert parts["parameters"].value == 4 * PARAMETERS
    assert parts["optimizer_state"].value == 4 * PARAMETERS  # the momentum
    assert abs(parts["unexplained"].value or math.inf) < 0.02 * (life.peak or 0)


def test_input_and_feature_maps_are_lenets(life: Life) -> None:
    assert life.step is not None
    # Images of 28×28 in four bytes, targets in eight.
    assert life.step.highest["input"] == 4 * (28 * 28 * 4 + 8)
    # Kept: both tanh'd maps and their averages, two tanh'd layers, the probabilities; the loss
    # and the weight of the mean.
    values = 6 * 28 * 28 + 6 * 14 * 14 + 16 * 10 * 10 + 16 * 5 * 5 + 120 + 84 + 10
    kept = life.step.highest["feature_maps"] - 4 * 4 * values
    assert 0 <= kept < 2000


def test_the_checkpoint_holds_model_and_momentum_and_is_gone_afterwards(
    life: Life, settings: FootprintSettings
) -> None:
    assert life.checkpoint is not None
    assert 8 * PARAMETERS < life.checkpoint < 8 * PARAMETERS + 20_000
    assert settings.folder is not None
    assert not list(Path(settings.folder).iterdir())


def test_the_document_is_plain_and_has_the_names_of_a_run(
    life: Life, settings: FootprintSettings
) -> None:
    document = json.loads(json.dumps(describe_life(settings, life).to_dict()))
    assert document["outcome"] == "measured"
    assert (document["workload"], document["title"]) == ("lenet", "LeNet-5")
    whole = document["peak_memory"]["value"]
    assert sum(part["value"] for part in document["memory_breakdown"].values()) == whole
    names = ("feature_maps", "workspace", "kernel_scratch")
    parts = [document["memory_breakdown"][name]["value"] for name in names]
    assert document["intermediate_data"]["value"] == sum(parts)
    names = [stage["stage"] for stage in document["stages"]]
    assert names == [stage.name for stage in life.stages]
    assert document["host_peak_memory"] == document["peak_memory"]
    assert document["gpu"] is None
    assert document["peak_at"]["phase"] in ("forward", "backward", "optimizer")


def test_an_allocator_that_cannot_give_memory_back_is_named(
    life: Life, settings: FootprintSettings
) -> None:
    assert life.step is not None
    assert describe_life(settings, life).notes == ()
    other = replace(life, step=replace(life.step, trimmed=False))
    (note,) = describe_life(settings, other).notes
    assert "malloc_trim" in note


def test_a_life_survives_the_way_through_a_pipe(life: Life) -> None:
    assert Life.from_dict(json.loads(json.dumps(life.to_dict()))) == life


def test_memory_that_runs_out_is_a_result_that_names_the_stage(
    settings: FootprintSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(training: Any, path: Path, scaling: Any) -> int:
        raise MemoryError

    monkeypatch.setattr(torch_checkpoint, "save", save)
    threads = torch.get_num_threads()
    found = measure(FootprintSettings(workload="lenet", batch_size=2, evaluation=False), _ignore)
    torch.set_num_threads(threads)
    assert [stage.name for stage in found.stages][-1] == "saving"
    document = describe_life(settings, found).to_dict()
    assert document["outcome"] == "out of memory"
    assert_says(document["reason"], "memory ran out", "stage: saving")
    assert document["checkpoint"]["status"] == "missing"
    assert document["peak_memory"]["status"] == "measured"  # the steps had gone well


FREE = Cage(limit=None, folder=None)
BOUNDED = Cage(limit=MemoryLimit(size=2**26, means="data segments"), folder=None)


def concluded(code: int, output: str = "", cage: Cage = BOUNDED, **more: Any) -> Life:
    told = News()
    told.take({"stage": "first step"})
    return conclude(told, Ending(code=code, **more), cage, output, began_s=0.0)


def test_a_child_that_the_kernel_killed_for_memory_is_a_result(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("oom 1\noom_kill 1\n")
    limit = MemoryLimit(size=2**26, means="memory cgroup v2")
    found = concluded(-signal.SIGKILL, cage=Cage(limit=limit, folder=tmp_path))
    assert found.stages[-1].name == "first step"
    assert "the kernel killed" in (found.stages[-1].failed or "")
    footprint = describe_life(FootprintSettings(workload="lenet", batch_size=1), found, "1 MiB")
    assert footprint.peak_memory.missing
    assert footprint.memory_breakdown == {}
    assert footprint.stages[0].peak.reason == found.stages[-1].failed


def test_a_child_that_somebody_else_killed_is_an_error() -> None:
    with refused("measuring-ended", "'first step'", "signal 9"):
        concluded(-signal.SIGKILL)


@pytest.mark.parametrize("code", [1, 2, -signal.SIGTERM, -signal.SIGSEGV])
def test_a_crash_under_a_limit_is_no_lack_of_memory(code: int) -> None:
    with refused("measuring-ended", "'first step'"):
        concluded(code, "Traceback\nKeyError: 'alloc'\n")


def test_a_child_that_says_that_an_allocation_failed_is_a_result() -> None:
    words = "terminate called after throwing an instance of 'std::bad_alloc'"
    found = concluded(-signal.SIGABRT, words)
    assert "std::bad_alloc" in (found.stages[-1].failed or "")
    hung = concluded(-signal.SIGKILL, hung=True, full=True)  # OpenBLAS asks again for ever
    assert_says(hung.stages[-1].failed, "it hung", "data segments")


def test_a_child_that_says_nothing_for_too_long_is_ended(
    settings: FootprintSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wattstep.train.child.child.SILENT_S", 0.1)  # loading torch takes longer
    with refused("measuring-ended", "hung"):
        measure_in_child(settings, _ignore)


def test_what_a_child_says_is_wrong_is_passed_on() -> None:
    settings = FootprintSettings(workload="lenet", batch_size=1, image_size=64)
    with refused("no-image-size", "--image-size", "lenet"):
        measure_in_child(settings, _ignore)


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_size": 0}, {"accumulate": 0}, {"threads": 0}, {"precision": "fp8"},
        {"processor": "tpu"},
        {"data_dir": "missing"}, {"folder": "missing"},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_used_are_refused(
    wrong: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidValueError):
        FootprintSettings(**{"workload": "lenet", "batch_size": 1, **wrong})


def _ignore(news: Any) -> None:
    pass
