"""How much of a step its operations add up to, beside the rests that make up what they do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.run.made import Worked, import_made, make_run

from wattstep.record.tracing.windows import NOT_TRACED
from wattstep.run import load


def test_operations_add_up_to_their_share_and_the_rests_to_the_other(tmp_path: Path) -> None:
    """Of 20 ms: 8 with 3 inside of them, and 11, 2 of which lie at once on another thread."""
    steps = [(0.0, 20.0), (30.0, 50.0), (60.0, 80.0)]
    operations = [
        each
        for step, (begin, _) in enumerate(steps)
        for each in (
            Worked(name="outer", step=step, start=begin + 0.5, end=begin + 8.5),
            Worked(name="inner", step=step, start=begin + 2, end=begin + 5, inside=0),
            Worked(name="one", step=step, start=begin + 9, end=begin + 20),
            Worked(name="other", step=step, start=begin + 10, end=begin + 12, thread=2),
        )
    ]
    made = import_made(tmp_path / "r", {"from": ["trace.json"]}, steps=steps, operations=operations)
    run = load(made)
    share = run.metrics()["operations_share"]
    assert share.value == pytest.approx(19 / 20)
    assert (share.unit, share.status.value) == ("ratio", "attributed")
    rests = [row["share"]["value"] for row in run.document()["rests"].values()]
    assert sum(rests) == pytest.approx(1 / 20)


def test_the_cost_of_tracing_is_no_rest(tmp_path: Path) -> None:
    """Half a millisecond before each operation of traced steps, of which others have none."""
    share = load(make_run(tmp_path / "r", []).path).metrics()["operations_share"]
    assert share.value == pytest.approx(1.0)
    assert share.low is not None


def test_without_operations_it_says_why(tmp_path: Path) -> None:
    share = load(make_run(tmp_path / "r", [], trace="none").path).metrics()["operations_share"]
    assert "--trace none" in (share.reason or "")


def test_where_nothing_can_be_traced_the_reason_is_that_of_the_recorder(tmp_path: Path) -> None:
    path = make_run(tmp_path / "r", [], trace="none").path
    document = json.loads((path / "run.json").read_text())
    document |= {"trace": "auto", "notes": ["something else", NOT_TRACED.format("mlx")]}
    (path / "run.json").write_text(json.dumps(document))
    share = load(path).metrics()["operations_share"]
    assert share.reason is not None
    assert share.reason.startswith("mlx ")
