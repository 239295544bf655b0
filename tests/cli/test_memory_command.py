"""`wattstep memory` as a user calls it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import wattstep as called
from tests.refusals import id_in


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
    ("arguments", "id", "named"),
    [
        (["nosuch"], "unknown-workload", "'nosuch'"),
        (["lenet", "--batch", "four"], "malformed-list", "four"),
        (["lenet", "--batch", "0"], "out-of-range", "--batch 0"),
        (["lenet", "--memory-limit", "much"], "malformed-size", "much"),
        (
            ["lenet", "--processor", "tpu"],
            "unknown-processor",
            "--processor tpu: ",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_exit_code_2(
    arguments: list[str], id: str, named: str
) -> None:
    done = wattstep(*arguments, "--json")
    assert (done.returncode, id_in(done.stdout)) == (2, id)
    assert named in done.stderr
    assert len(done.stderr.splitlines()) == 1
