"""torch-compile is torch with its compiler: the same training, with what compiling took as figures of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep import engines
from wattstep.engines.exported.conformance import judge
from wattstep.engines.torch.compiling import GATHERED, Compiling
from wattstep.engines.torch.export.source import Source
from wattstep.engines.trained import UNKNOWN
from wattstep.insight.compare.answer import _earned_back
from wattstep.insight.compare.metrics import Compared
from wattstep.run import load
from wattstep.run.compiling import compile_memory, compile_time
from wattstep.schema.configuration import configuration_of
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.workload import Preparation
from wattstep.train.settings import TrainingSettings
from wattstep.workloads import find

TRAINER = "wattstep.engines.torch.trainer"
COMPILER = "ignore:`torch.jit:DeprecationWarning"  # what torch's own compiler says of itself
S, MB = 1_000_000_000, 1_000_000
# The compiler loaded: 2 s, 100 MB that stay. A graph forward: 5 s, 60 MB of which 20 stay; backward: 3 s.
STRETCHES = [
    [0, 200 * MB, 2 * S, 300 * MB],
    [10 * S, 320 * MB, 15 * S, 340 * MB],
    [16 * S, 400 * MB, 19 * S, 405 * MB],
]


def parts(facts: dict[str, Any] | None, compiled: bool = True, **samples: Any) -> Any:
    """A run's parts with its resident memory, and its children's, as (seconds, megabytes)."""
    roles = {
        "resident_memory": samples.get("own", []),
        "children_resident_memory": samples.get("children", []),
    }
    raw = {
        role: (np.array([t * S for t, _ in each], np.int64), np.array([mb * MB for _, mb in each], float))
        for role, each in roles.items()
        if each
    }  # fmt: skip
    series = SimpleNamespace(
        channels={role: SimpleNamespace(name=role, role=role) for role in raw},
        samples=raw,
        course=lambda name, of: (*raw[name], np.ones(len(raw[name][0]))),
        steps=SimpleNamespace(rest_ns={}),
    )
    info = SimpleNamespace(
        conditions={} if facts is None else {"compiling": facts},
        options={"compiled": True} if compiled else {},
    )
    return SimpleNamespace(info=info, series=series)


def test_compile_time_is_the_sum_of_its_stretches() -> None:
    found = compile_time(parts({"stretches": STRETCHES, "graphs": 2, "from_cache": 0}))
    assert found is not None
    assert (found.value, found.unit, found.status) == (10.0, "s", Status.MEASURED)
    assert_says(found.method, "none of 2 graphs")


def test_compile_memory_is_the_highest_growth_with_what_earlier_compilations_left() -> None:
    """Loading left 100 MB, forward 20; while forward compiled 380 were resident of 320 before: 160 MB."""
    facts = {"stretches": STRETCHES, "graphs": 2, "from_cache": 0}
    own = [(9, 320), (12, 380), (14, 350), (15.5, 900), (18, 410)]
    found = compile_memory(parts(facts, own=own))
    assert found is not None
    assert found.value == pytest.approx(160 * MB)
    with_compiler = compile_memory(parts(facts, own=own, children=[(11, 0), (12, 250), (14, 0)]))
    assert with_compiler is not None
    assert with_compiler.value == pytest.approx(410 * MB)


def test_code_from_the_cache_is_stated() -> None:
    found = compile_time(parts({"stretches": STRETCHES, "graphs": 2, "from_cache": 2}))
    assert found is not None
    assert_says(found.method, "2 of 2 graphs", "cache")


def test_a_run_that_compiles_nothing_has_no_such_metric() -> None:
    assert compile_time(parts(None, compiled=False)) is None
    assert compile_memory(parts(None, compiled=False)) is None
    untold = compile_time(parts(None))
    assert untold is not None
    assert untold.missing


def compared(name: str, a: Figure, b: Figure, difference: Figure, verdict: Any) -> Compared:
    ratio = Figure(value=0.5, unit="ratio", status=Status.MEASURED)
    return Compared(name=name, a=a, b=b, ratio=ratio, difference=difference, of_these=verdict)


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        # 10 s over 5 ms a step (4 to 10): 2,000 steps (1,000 to 2,500).
        ("lower", "2,000 steps (1,000 to 2,500)"),
        ("not shown", "no step"),
    ],
)  # fmt: skip
def test_a_comparison_says_after_how_many_steps_compiling_has_paid(verdict: str, said: str) -> None:
    seconds = Figure(value=10.0, unit="s", status=Status.MEASURED)
    step = Figure(value=0.01, unit="s", status=Status.MEASURED)
    shorter = Figure(value=-0.005, low=-0.010, high=-0.004, unit="s", status=Status.MEASURED)
    none = missing("s", "the run has none")
    metrics = {
        "compile_time": compared("compile_time", none, seconds, none, "not compared"),
        "step_time": compared("step_time", step, step, shorter, verdict),
    }
    (sentence,) = _earned_back(metrics)
    assert_says(sentence, "B takes 10.0 s", said)


def test_the_engine_is_torch_and_checkpoints_nothing() -> None:
    engine = engines.find("torch-compile")
    assert engine.module == "torch"
    assert "compiled" in engine.options
    with refused("not-for-engine", "--checkpointing", "torch-compile"):
        TrainingSettings(workload="lenet", engine="torch-compile", checkpointing=True)


class Pooled(torch.nn.Module):
    """A network with max pooling, or without."""

    def __init__(self, *, pools: bool) -> None:
        super().__init__()
        self.pool = torch.nn.MaxPool2d(3, 2, 1) if pools else torch.nn.AvgPool2d(2)


@pytest.mark.filterwarnings(COMPILER)
def test_compiled_max_pooling_never_scatters_its_gradient() -> None:
    """Scattered, it is read before it is there: AlexNet's convolutions got none."""
    from torch._inductor.decomposition import decompositions

    scatter = torch.ops.aten.max_pool2d_with_indices_backward.default
    with patch.dict(decompositions), patch("torch.compiler.config.cache_key_tag", ""):
        assert Compiling(Pooled(pools=False)).remarks == []
        assert scatter in decompositions
        assert Compiling(Pooled(pools=True)).remarks == [GATHERED]
        assert scatter not in decompositions


@pytest.mark.filterwarnings(COMPILER)
@pytest.mark.parametrize(
    ("tried", "named"),
    [({"lenet": f"{UNKNOWN}: it took long"}, True), ({}, True), ({"lenet": ""}, False)],
)
def test_what_was_not_tried_to_its_end_is_said_and_not_refused(
    tried: dict[str, str], named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{TRAINER}.read_trained", lambda: {"torch-compile": tried})
    trainer = engines.find("torch-compile").prepare(find("lenet"), Preparation(batch_size=2))
    assert bool(saying(trainer.remarks(), "lenet")) is named


def test_a_network_that_is_compiled_wrongly_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = {"lenet": "5 of 10 parameters get no gradient"}
    monkeypatch.setattr(f"{TRAINER}.read_trained", lambda: {"torch-compile": wrong})
    with refused("wrong-training", "lenet", wrong["lenet"]):
        engines.find("torch-compile").prepare(find("lenet"), Preparation(batch_size=2))


def run(folder: Path, *options: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "wattstep", "run", "lenet", "--threads", "1", "--steps", "5",
         "--trace", "none", "--quiet", "-o", str(folder), *options],
        check=True, timeout=600,
    )  # fmt: skip


def test_engine_and_option_are_one_configuration_which_tells_what_compiling_took(
    tmp_path: Path,
) -> None:
    run(tmp_path / "engine", "--engine", "torch-compile")
    run(tmp_path / "option", "--compile")
    one, other = (load(next((tmp_path / name).iterdir())) for name in ("engine", "option"))
    assert configuration_of(one.report()) == configuration_of(other.report())
    metrics = one.report().metrics
    assert float(metrics["compile_time"]) > 0.1  # its cache may be warm
    assert metrics["compile_time"].status is Status.MEASURED
    assert float(metrics["compile_memory"]) > 10 * MB


@pytest.mark.filterwarnings(COMPILER)
@pytest.mark.parametrize("batch", [4, pytest.param(16, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", ["lenet", "ds-cnn", "autoencoder"])
def test_ten_steps_are_torchs_in_float64(name: str, batch: int) -> None:
    source = Source(find(name), Preparation(batch_size=batch))
    course = source.course(torch.float32, compiled=True)
    assert judge("torch-compile", source.reference(), course).problems == []
