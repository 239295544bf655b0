"""`wattstep study plans` predicts into a folder, goes on there, and shows what fits and what takes least."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import Command
from tests.refusals import id_in, refused
from tests.wording import assert_says

from wattstep.cli.study_plans import parse_ranges

ASKED = (
    "--nets",
    "lenet",
    "--on",
    "jetson-tx2,jetson-orin-nano",
    "--batch",
    "1,4-6",
    "--accumulate",
    "1,4",
)


def test_a_study_on_the_screen_and_as_json(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("study", "plans", *ASKED, "--precision", "fp32,bf16")
    assert code == 0
    # Two boards in 5 and 4 modes, the second in two precisions, at 4 batches accumulated in 2 ways.
    assert_says(out, f"{(5 + 2 * 4) * 4 * 2} configurations", "jetson-orin-nano", "Pascal GPU")
    code, out, _ = command("study", "plans", *ASKED, "--precision", "fp32,bf16", "--json")
    document = json.loads(out)
    assert document["study"]["configurations"] == (5 + 2 * 4) * 4 * 2
    assert {(row["workload"], row["device"]) for row in document["best"]} == {
        ("lenet", "jetson-tx2"), ("lenet", "jetson-orin-nano"),
    }  # fmt: skip
    for row in document["best"]:
        assert row["largest_batch"] == 6
        assert (
            row["best"]["step_time_low"] < row["best"]["step_time"] < row["best"]["step_time_high"]
        )
    code, _, errors = command("study", "plans", *ASKED, "--precision", "fp32")
    assert (code, "other settings" in errors) == (2, True)
    assert len(list((tmp_path / "study").glob("piece-*.parquet"))) == 2


@pytest.mark.parametrize(
    ("arguments", "id"),
    [
        ((), "missing-argument"),
        (("--nets", "lenet"), "needs-device"),
        (("--nets", "lenet", "--on", "tx2", "--precision", "bf16"), "precision-not-on-device"),
        (("--nets", "lenet", "--on", "tx2", "--batch", "0-3"), "out-of-range"),
    ],
)
def test_refusals_of_a_study(command: Command, arguments: tuple[str, ...], id: str) -> None:
    code, out, _ = command("study", "plans", *arguments, "--json")
    assert (code, id_in(out)) == (2, id)


def test_ranges_of_numbers() -> None:
    assert parse_ranges("1-3,8,2,10-10") == [1, 2, 3, 8, 10]
    for text in ("a", "1-", "1-b"):
        with refused("malformed-list"):
            parse_ranges(text)
