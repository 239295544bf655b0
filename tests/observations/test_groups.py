"""Only runs that are equal but for the batch size stand side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.observations.made import observed

from wattstep.insight.observe.groups import groups_of, settings_by_letter


def test_runs_that_differ_in_batch_size_and_seed_are_one_group() -> None:
    runs = [observed(batch=4), observed(batch=64), observed(batch=4, number=1, seed=7)]
    (group,) = groups_of(runs)
    assert {batch: len(own) for batch, own in group.batches.items()} == {4: 2, 64: 1}
    assert group.label == "lenet"
    assert settings_by_letter(runs) == {}


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": "mnn 3.0"},
        {"threads": 2},
        {"precision": "bf16"},
        {"processor": "cpu"},
        {"device": {"model": "another", "cores": 4}},
        {"device": {"model": "board", "cores": 4, "power_mode": "MAXQ"}},
        {"device": {"model": "board", "cores": 4, "governors": {"cpu0": "powersave"}}},
        {"target": "emulate:jetson-tx2"},
        {"power_model": {"name": "vcpu"}},
        {"options": {"accumulate": 2}},
        {"options": {"image_size": 64}},
        {"options": {"subtract_idle": "before"}},
    ],
    ids=str,
)
def test_runs_under_other_conditions_are_never_mixed(changes: dict[str, Any]) -> None:
    runs = [observed(batch=4), observed(batch=64, **changes)]
    assert [len(group.runs) for group in groups_of(runs)] == [1, 1]


def test_states_that_a_sweep_had_set_are_conditions_too() -> None:
    runs = [observed(batch=4), replace(observed(batch=64), state="cores=0")]
    for both in (runs, runs[::-1]):
        assert len(groups_of(both)) == 2
        assert "cores=0" in settings_by_letter(both).values()


def test_a_letter_names_the_conditions() -> None:
    runs = [observed(), observed("dqn", threads=2), observed(threads=2)]
    assert [group.label for group in groups_of(runs)] == ["lenet [A]", "dqn [B]", "lenet [B]"]
    assert settings_by_letter(runs) == {"A": "threads 1", "B": "threads 2"}


def test_models_that_differ_in_classes_say_so_themselves() -> None:
    runs = [observed(options={"classes": 10}), observed(options={"classes": 100})]
    assert [group.label for group in groups_of(runs)] == [
        "lenet (classes 10)",
        "lenet (classes 100)",
    ]
