"""A command on the phone becomes a run: its steps, its figures, what it printed."""

from __future__ import annotations

import json
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.fleet.phone.made import PATIENCE_S, WATT, journal, needs_adb, printed
from tests.waiting import until
from tests.wording import assert_says, saying

from wattstep.run import Run, load
from wattstep.schema.figure import Status

TRAINER = """\
import os, sys, time
print("model: 12 layers", flush=True)
memory = bytearray(48 << 20)
for page in range(0, len(memory), 4096):
    memory[page] = 1
for step in range(1, 7):
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    print("step %d loss=%.3f images=%d at=%.6f" % (step, 2 / step, 8, time.monotonic()), flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print("used=%.6f" % time.process_time())
print("  a\\\\b \\x1b[1mbold\\x1b[0m \\u00e9\\x01\\x02")
print("careful", file=sys.stderr)
sys.stdout.write("no end")
sys.exit(5)
"""
MARKER = r"output:step \d+ loss=(?P<loss>\S+) images=(?P<samples>\d+)"


def used(run: Path, ticks: int, kibibytes: int) -> bool:
    """Whether so much processor time and memory of the command stand in a run's journals."""
    made = [row for name, row in journal(run) if name == "process.cpu_time" and row[1] == 0]
    return any(row[2] >= ticks and row[-1] >= kibibytes for row in made)


def stated_ns(run: Run) -> float:
    """How far the run says that times of the command's lines may be off."""
    note = next(note for note in run.info.notes if note.startswith("steps end at lines"))
    return float(re.search(r"±([0-9.]+) ms", note)[1]) * 1e6 + 0.05e6  # as it is rounded


@needs_adb
@pytest.mark.parametrize("phone", [shutil.which("mksh") or "/bin/sh"], indirect=True)
def test_a_training_on_the_phone_becomes_a_run_with_its_steps_and_nothing_is_left(
    phone, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("wattstep.remote.phone.following.COST_SAID_S", 0.0)
    end, shown = tmp_path / "end", printed(monkeypatch)
    settings = phone.settings(sys.executable, "-c", TRAINER, str(end), step_marker=MARKER, warmup=1)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(phone.host().profile, settings, str(tmp_path / "run"))
        try:
            # Until what it has used by its own account was sampled on the phone: 0.6 s in
            # hundredths, 48 MiB in KiB.
            until(lambda: used(tmp_path / "run", 60, 48 << 10), PATIENCE_S)
        finally:
            end.touch()
        code, path = future.result(PATIENCE_S)
    assert (code, path) == (5, tmp_path / "run")
    lines = shown.getvalue().split("\n")
    assert lines[0] == "model: 12 layers"
    assert lines[-2:] == ["  a\\b \x1b[1mbold\x1b[0m é", "no end"]
    assert capsys.readouterr().err == "careful\n"
    until(phone.is_clean, PATIENCE_S)

    run = load(path)
    info = run.info
    assert info.options["command"] == {"exit_code": 5, "steps": 6}
    assert (info.state, info.target, info.device["model"]) == ("closed", "adb:phone", "Pixel 6")
    steps = run.tables.table("steps").to_pydict()
    assert steps["loss"] == [2.0, 1.0, 0.667, 0.5, 0.4, 0.333]
    assert steps["samples"] == [8.0] * 6
    assert steps["start_ns"][1:] == steps["end_ns"][:-1]
    # A line is stamped after it was printed, by a clock that is known within what the note says.
    printed_ns = [float(at) * 1e9 for at in re.findall(r"at=(\S+)", shown.getvalue())]
    for end_ns, at_ns in zip(steps["end_ns"], printed_ns, strict=True):
        assert end_ns >= at_ns - stated_ns(run)
    assert steps["end_ns"][-1] <= info.clocks[1][0]
    spans = run.tables.table("spans").to_pydict()
    assert set(spans["name"]) == {"before the command", "after the last step"}

    metrics = run.metrics()
    clean_s = [(e - s) * 1e-9 for s, e in zip(steps["start_ns"], steps["end_ns"], strict=True)][1:]
    assert metrics["step_time"].value == pytest.approx(sum(clean_s) / 5)
    assert metrics["throughput"].value == pytest.approx(40 / sum(clean_s))
    assert 48 << 20 <= metrics["peak_memory"].value < 400 << 20
    # The command burned 6 × 0.1 s; what it took in all it has said itself, but for its very end:
    # no adb of ours is in it, nor the shells that waited for its start or stamped its lines.
    _, cpu_s = run.series.raw("process.cpu_time")
    assert 0.6 <= max(cpu_s) <= float(re.search(r"used=(\S+)", shown.getvalue())[1]) + 0.3
    notes = " ".join(info.notes)
    assert_says(notes, "11 lines")  # model, 6 steps, used, two, and "careful"
    # Its last read: after 0.6 s of it, and before its end.
    assert float(re.search(r"read for the last time ([0-9.]+) s before its end", notes)[1]) >= 0
    _, watts = run.series.raw("phone.battery.power")
    assert watts == pytest.approx(WATT, rel=1e-6)
    # In ticks of 10 ms, of which a loop of 0.6 s may have used none.
    assert min(run.series.raw("phone.loop.cpu_time")[1]) >= 0


@needs_adb
def test_the_serial_number_and_the_commands_arguments_are_in_no_file_of_the_run(
    phone, tmp_path, capsys
):
    command = ("sh", "-c", "echo secret-word; exec no-such-program 2>&-")
    settings = phone.settings(*command, script_output="stderr")
    code, path = phone.host().profile(settings, str(tmp_path / "run"))
    assert code == 127
    assert saying(phone.said, "the path", "phone")
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "secret-word\n")  # standard output is for JSON
    run = load(path)
    assert run.info.options["command"]["exit_code"] == 127
    document = json.dumps(run.document())
    texts = [document, *phone.said, *(p.read_text("latin-1") for p in path.iterdir())]
    for text in texts:
        assert phone.endpoint.serial not in text
        assert "secret-word" not in text
        assert str(phone.root) not in text.replace(str(path), "")


@needs_adb
def test_without_a_marker_the_whole_command_is_one_step_be_it_that_it_was_killed(phone, tmp_path):
    command = ("sh", "-c", "sleep 0.5; kill -s KILL $$")
    code, path = phone.host().profile(phone.settings(*command), str(tmp_path / "run"))
    assert code == 137
    assert "signal 9" in " ".join(phone.said)
    until(phone.is_clean, PATIENCE_S)
    run = load(path)
    assert run.info.options["command"]["exit_code"] == 137
    assert run.tables.table("steps").num_rows == 1
    metrics = run.metrics()
    # It slept for 0.5 s; both its ends are known within what the run says.
    assert metrics["step_time"].value >= 0.5 - 2e-9 * stated_ns(run)
    joule = metrics["energy_per_step"]
    if not joule.missing:  # where the machine stood still for long, samples have gaps
        assert joule.status is Status.MEASURED
        assert joule.value == pytest.approx(WATT * metrics["step_time"].value, rel=1e-6)
    assert saying(run.info.notes, "whole command", "one step")
