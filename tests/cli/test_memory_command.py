"""`wattstep memory` as a user calls it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import wattstep as called


def wattstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    return called("memory", *arguments)


def test_one_workload_in_a_process_of_its_own_as_json_and_as_a_page(tmp_path: Path) -> None:
    page = tmp_path / "memory.html"
    done = wattstep(
        "lenet",
        "--batch",
        "2",
        "--threads",
        "1",
        "--no-evaluation",
        "--json",
        "--quiet",
        "-o",
        str(page),
    )
    assert done.returncode == 0, done.stderr
    (document,) = json.loads(done.stdout)["memory"]
    assert document["outcome"] == "measured"
    parts = document["memory_breakdown"].values()
    assert sum(part["value"] for part in parts) == document["peak_memory"]["value"]
    assert "evaluation" not in [stage["stage"] for stage in document["stages"]]
    assert done.stderr == ""
    assert page.stat().st_size > 4 * 10**5  # the plotting library, deflated


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "no workload is called 'nosuch'"),
        (["lenet", "--batch", "four"], "whole numbers with commas"),
        (["lenet", "--batch", "0"], "--batch 0: it must be at least 1"),
        (["lenet", "--memory-limit", "much"], "a size is wanted"),
        (["lenet", "--processor", "tpu"], "--processor tpu: there are cpu, cuda"),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = wattstep(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
