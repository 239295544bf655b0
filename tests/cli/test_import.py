"""`wattstep import`: a run from what others wrote, or one line that says what to do instead."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Command
from tests.wording import assert_says

FIXTURES = Path(__file__).parents[1] / "fixtures"
AMD = FIXTURES / "traces" / "kineto_amd_mi250_minitoy_train_rocm62.json.gz"
XAVIER = FIXTURES / "jetson" / "xavieragx_16gb__all.tegrastats"


def steps(begins: list[float], length: float) -> list[dict[str, Any]]:
    """Steps of a trace in µs of 1970, each with one operation that fills it."""
    events = []
    for number, begin in enumerate(begins):
        plain = {"ph": "X", "pid": 1, "tid": 1, "ts": begin, "dur": length}
        events.append({**plain, "cat": "user_annotation", "name": f"ProfilerStep#{number}"})
        events.append({**plain, "cat": "cpu_op", "name": "aten::mm"})
    return events


def test_a_trace_and_a_log_become_one_run(piped: Command, tmp_path: Path) -> None:
    begin_s = 1_700_000_000
    trace = tmp_path / "t.json"
    events = steps([(begin_s + n) * 1e6 for n in range(2, 8)], 1e6)
    trace.write_text(json.dumps({"traceEvents": events}))
    log = tmp_path / "power.csv"
    rows = [f"{begin_s + n / 10:.1f},{10 if 20 <= n < 80 else 4}" for n in range(101)]
    log.write_text("timestamp,power_w\n" + "\n".join(rows) + "\n")
    code, out, err = piped(
        "import", "--trace", str(trace), "--telemetry", str(log), "--align", "wall",
        "--batch", "8", "--name", "joined", "--json",
    )  # fmt: skip
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    assert run["run"] == str(Path("runs/joined"))
    metrics = run["metrics"]
    assert metrics["step_time"]["value"] == pytest.approx(1.0)
    assert metrics["throughput"]["value"] == pytest.approx(8.0)
    # Six steps of a second at 10 W; the first begins halfway up from 4 W, for a tenth of a second.
    assert metrics["mean_power"]["value"] == pytest.approx(10.0, rel=0.02)
    assert metrics["mean_power"]["status"] == "measured"
    assert "power.csv" in metrics["mean_power"]["source"]
    (operation,) = [row for row in run["operations"] if row["name"] == "aten::mm"]
    assert operation["time"]["value"] == pytest.approx(1.0)
    code, out, err = piped("report", "runs/joined", "-o", "report.html")
    assert code == 0, err
    assert "power.csv" in Path("report.html").read_text(encoding="utf-8")
    code, out, _ = piped("runs", "list")
    assert "joined" in out
    assert "None" not in out


def test_what_is_imported_is_told_in_the_terminal(piped: Command) -> None:
    code, out, err = piped("import", "--trace", str(AMD), "--name", "amd", "-q")
    assert code == 0, err
    assert_says(out, "All steps", "traced")
    assert "nan" not in out.lower().split()


def _html(folder: Path) -> list[str]:
    page = folder / "trace.json"
    page.write_text("<!DOCTYPE html><html><body>sign in</body></html>")
    return ["--trace", str(page)]


def _other_way_round(folder: Path) -> list[str]:
    return ["--trace", str(XAVIER)]


def _trace_as_telemetry(folder: Path) -> list[str]:
    path = folder / "t.json"
    path.write_bytes(gzip.decompress(AMD.read_bytes()))
    return ["--telemetry", str(path)]


def _empty(folder: Path) -> list[str]:
    (folder / "empty.json").touch()
    return ["--trace", str(folder / "empty.json")]


def _no_events(folder: Path) -> list[str]:
    path = folder / "nothing.json"
    path.write_text('{"traceEvents": []}')
    return ["--trace", str(path)]


def _unitless(folder: Path) -> Path:
    """A minute of a square wave between 3 and 9 W at 20 Hz, in mW under a heading without a unit."""
    path = folder / "meter.csv"
    rows = (f"{n * 0.05:.2f},{9000 if n % 8 < 4 else 3000}\n" for n in range(1200))
    path.write_text("time_s,power\n" + "".join(rows))
    return path


def _ranks(folder: Path) -> list[str]:
    """Two processes that train in one trace."""
    events = steps([0, 1000, 2000], 900)
    events += [{**one, "pid": 2, "ts": one["ts"] + 3} for one in events]
    path = folder / "ranks.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return ["--trace", str(path)]


def _far_apart(folder: Path) -> list[str]:
    """Clocks that share nothing, and a power that never moves."""
    log = folder / "flat.csv"
    log.write_text("t,power_w\n" + "".join(f"{n},5\n" for n in range(20)))
    return ["--trace", str(AMD), "--telemetry", str(log)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (lambda folder: [], "--trace FILE, --telemetry FILE or both"),
        (lambda folder: ["--trace", "nowhere.json"], "no such file"),
        (_html, "a page of HTML"),
        (_other_way_round, "give it with --telemetry"),
        (_trace_as_telemetry, "--trace"),
        (_empty, "it is empty"),
        (_no_events, "holds no operations"),
        (_ranks, "2 processes (1, 2)"),
        (lambda folder: [*_ranks(folder), "--process", "5"], "there are 1, 2"),
        (lambda folder: ["--telemetry", str(XAVIER), "--process", "2"], "give --trace"),
        (_far_apart, "offset:SECONDS"),
        (lambda folder: ["--trace", str(AMD), "--align", "guess"], "--align"),
        (lambda folder: ["--trace", str(AMD), "--step-name", "("], "--step-name"),
        (lambda folder: ["--trace", str(AMD), "--step-name", "none like it"], "--step-name"),
        (lambda folder: ["--trace", str(AMD), "--batch", "0"], "at least 1"),
        (lambda folder: ["--telemetry", str(XAVIER), "--warmup", "2"], "no steps were"),
        (lambda folder: ["--telemetry", str(XAVIER), "--board", "toaster"], "toaster"),
        (lambda folder: ["--telemetry", str(_unitless(folder))], "heading power says"),
        (lambda folder: ["--agent", str(folder), "--trace", str(AMD)], "--agent"),
        (lambda folder: ["--agent", str(folder)], "agent"),
    ],
)
def test_what_cannot_be_imported_is_one_line_and_leaves_nothing(
    piped: Command, tmp_path: Path, arguments: Any, words: str
) -> None:
    code, out, err = piped("import", *arguments(tmp_path))
    assert code == 2
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("importing:")]
    assert len(lines) == 1
    assert words in lines[0]
    runs = tmp_path / "runs"
    assert not runs.exists() or not list(runs.iterdir())


def test_one_of_two_processes_is_imported_by_its_number(piped: Command, tmp_path: Path) -> None:
    arguments = [*_ranks(tmp_path), "--process", "2", "--name", "rank", "--json"]
    code, out, err = piped("import", *arguments)
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    trace = run["imported"]["trace"]
    assert (trace["events"], trace["rows"]) == (12, 3)
    assert {reason: one["events"] for reason, one in trace["left_out"].items()} == {
        "of another process than the one that was chosen": 6
    }


def test_half_a_trace_gives_what_is_whole_in_it_and_says_so(piped: Command, tmp_path: Path) -> None:
    whole = gzip.decompress(AMD.read_bytes())
    half = tmp_path / "half.json"
    half.write_bytes(whole[: len(whole) * 2 // 3])
    code, out, err = piped("import", "--trace", str(half), "--name", "half", "--json")
    assert code == 0, err
    (run,) = json.loads(out)["runs"]
    assert any("cut" in note or "left out" in note for note in run["status_notes"])
    assert run["operations"]
