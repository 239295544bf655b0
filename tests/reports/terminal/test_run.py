"""Runs on a terminal of 80 columns without colour."""

from __future__ import annotations

import io
import re
from typing import Any

from rich.console import Console
from tests.reports import synthetic
from tests.wording import assert_says

from wattstep.report.terminal.run import print_run, print_runs


def printed(*documents: dict[str, Any], width: int = 80) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, no_color=True)
    reports = [synthetic.report(document) for document in documents]
    if len(reports) == 1:
        print_run(reports[0], console)
    else:
        print_runs(reports, console)
    return stream.getvalue()


def line_with(text: str, start: str) -> str:
    """The line, with single spaces between its columns."""
    return next(" ".join(line.split()) for line in text.splitlines() if line.startswith(start))


def test_the_head_says_what_ran_where_and_with_which_data() -> None:
    text = printed(synthetic.document())
    for words in ("LeNet · batch 4", "torch 2.13.0", "1 thread", "AMD EPYC 9B14", "25.0 GB"):
        assert words in text
    assert "a stand-in for MNIST" in text
    assert_says(text, "virtual machine (KVM)", "hypervisor: 0.34 %")
    assert_says(text, "! The sampler", "lost at 12.3 s")
    assert_says(text, "! This run", "from its journals")


def test_metrics_show_value_interval_and_status() -> None:
    text = printed(synthetic.document())
    assert line_with(text, "Step time (mean)").endswith("(mean) 3.41 ms 3.30 to 3.52 measured")
    # The interval of the samples is narrower than what the sensor may be off.
    shown = line_with(text, "Energy per step")
    assert shown.endswith("≈ 14.2 mJ 12.1 to 16.9; sensor ± 20 % modelled")
    assert "42.1 widgets" in line_with(text, "Something new")


def test_cores_share_a_line() -> None:
    line = line_with(printed(synthetic.document()), "Utilization by core")
    assert line.endswith("core 2 cores 98.1 %, 4.15 % measured")


def test_missing_shows_its_reason_and_never_zero() -> None:
    text = printed(synthetic.document(), width=120)
    told = " ".join(text.split())
    assert re.search(rf"- missing: (\S+ )*Mean power.*?: {re.escape(synthetic.NO_RAPL)}", told)
    assert "Mean power" not in {line.split("  ")[0] for line in text.splitlines()}
    assert f"- RAPL energy: {synthetic.NO_RAPL}" in text
    assert f"2 of 12 rows: {synthetic.NO_RAPL}" in text


def test_nothing_is_wider_than_the_terminal() -> None:
    text = printed(synthetic.document(), synthetic.document())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_hostile_names_are_text() -> None:
    text = printed(synthetic.document(), width=200)
    assert synthetic.HOSTILE in text
    assert "[red]evil[/red]" in text
    assert "\x1b" not in text


def test_operations_are_those_that_cost_most_time() -> None:
    operations = [
        synthetic.operation(f"op{i}", "fc", "forward", 1e-6 * (i + 1), None) for i in range(30)
    ]
    text = printed(synthetic.document(operations=operations), width=120)
    named = [line.split()[0] for line in text.splitlines() if line.startswith("op")]
    assert named == ["operation", *(f"op{i}" for i in range(29, 17, -1))]


def test_a_column_of_several_statuses_says_each() -> None:
    operations = synthetic.document()["operations"][:2]
    operations[1]["energy"] = synthetic.figure(1.9e-3, "J", "attributed")
    table = printed(synthetic.document(operations=operations)).split("Operations that cost")[1]
    rows = table.split("Rests")[0].splitlines()
    assert any(line.endswith("≈ 4.70 mJ") for line in rows)
    assert any(line.endswith("modelled") for line in rows)
    assert any(line.endswith(" 1.90 mJ") for line in rows)


def test_several_runs_end_in_a_comparison() -> None:
    text = printed(synthetic.document(), synthetic.document(title="ResNet"))
    comparison = text.split("Comparison")[1]
    assert "LeNet · batch 4" in comparison
    assert "ResNet · batch 4" in comparison
    assert comparison.split("Intervals overlap")[0].count("3.41 ms") == 2


def test_a_document_with_little_in_it_is_printed() -> None:
    assert "lenet" in printed({"run": "runs/a", "workload": "lenet", "metrics": {}})
