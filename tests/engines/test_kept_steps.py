"""A captured step is kept until something changes that decides on it, and is the same when it comes back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.predicting.steps import family, step

from wattstep import workloads
from wattstep.engines.torch.kept_steps import MOST_KEPT, kept_family
from wattstep.schema.step_graph import Recurrent, StepFamily, StepGraph
from wattstep.schema.workload import Implementation, Preparation, Specification

LENET = workloads.find("lenet")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "wattstep"


@pytest.fixture
def ask() -> Callable[..., tuple[StepFamily, int]]:
    """Asks for a step; gives it, and how often one was captured so far."""
    captured: list[StepFamily] = []

    def ask(
        workload: Specification = LENET, precision: str = "fp32", each: Any = None, **given: Any
    ) -> tuple[StepFamily, int]:
        def capture() -> StepFamily:
            captured.append(replace(family(), capture=each))
            return captured[-1]

        preparation = Preparation(**{"batch_size": 16, **given})
        return kept_family(workload, preparation, precision, capture), len(captured)

    return ask


def test_it_is_captured_once_and_comes_back_as_it_was(ask: Any) -> None:
    (first, _), (again, captured) = ask(), ask()
    assert captured == 1
    assert again.to_dict() == first.to_dict() == family().to_dict()
    assert again.at(7).to_dict() == family().at(7).to_dict()
    assert again.small.sizes.dtype == first.small.sizes.dtype
    assert again.small.made.dtype == first.small.made.dtype


def test_a_step_of_all_kinds_of_facts_comes_back_from_json() -> None:
    lstm = Recurrent(gates=4, inputs=3, hidden=5, layers=1, directions=2)
    graph = replace(
        step(3), recurrent={"lstm": lstm}, libraries=("PIL",), notes=("a note",), accumulate=2
    )
    again = StepGraph.from_dict(json.loads(json.dumps(graph.to_dict())))
    assert again.to_dict() == graph.to_dict()
    assert again.recurrent == graph.recurrent
    assert again.convolutions == graph.convolutions
    assert (again.libraries, again.notes, again.names) == (("PIL",), ("a note",), graph.names)


@pytest.mark.parametrize(
    "other",
    [
        {"precision": "bf16"},
        {"accumulate": 2},
        {"batch_size": 65},  # the third capture is there
        {"classes": 100},
        {"checkpointing": True},
        {"workload": workloads.find("resnet8")},
        {"workload": replace(LENET, loss="mean squared error")},
    ],
)
def test_whatever_decides_on_it_is_asked_for_anew(ask: Any, other: dict[str, Any]) -> None:
    ask()
    assert ask(**other)[1] == 2
    assert ask(**other)[1] == ask()[1] == 2  # both are kept


def test_batches_up_to_that_of_the_third_capture_share_it(ask: Any) -> None:
    assert [ask(batch_size=size)[1] for size in (1, 16, 64)] == [1, 1, 1]


def test_what_depends_on_more_than_wattstep_s_code_is_not_kept(ask: Any, tmp_path: Path) -> None:
    other = replace(LENET, engines={"torch": Implementation(model="elsewhere.networks:make")})
    for asked in ({"data_dir": tmp_path}, {"workload": other}, {"each": lambda size: step(size)}):
        before = ask(**asked)[1]
        assert ask(**asked)[1] == before + 1


@pytest.mark.parametrize("damage", ["{}", '{"small": 3, "large": {}}', '{"small": {}}', "[1]", "7"])
def test_a_damaged_one_is_captured_anew(ask: Any, folder: Path, damage: str) -> None:
    ask()
    (path,) = folder.glob("steps/*.json")
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "value": json.loads(damage)}))
    again, captured = ask()
    assert captured == 2
    assert again.to_dict() == family().to_dict()


def test_the_oldest_give_way(ask: Any, folder: Path) -> None:
    for size in range(MOST_KEPT + 3):
        ask(batch_size=65 + size)
    assert len(list(folder.glob("steps/*.json"))) == MOST_KEPT
