"""Ceilings are measured on, whatever a driver does to the process that measures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.refusals import refused
from tests.wording import assert_says, saying

from wattstep.opencl.ceilings import MOST_LOST, measure
from wattstep.opencl.child import TASKS, outcome_document
from wattstep.opencl.config import Config
from wattstep.opencl.timing import gain, in_turns, rate
from wattstep.opencl.tuner import UNTUNED
from wattstep.schema.device_ceilings import CeilingRow
from wattstep.schema.figure import Missing, counted, missing

FACTS = {"name": "Mali-G76", "target": ""}
BEGIN = {"device": FACTS, "host": {"numpy": "2"}}
ROW = CeilingRow(label="64", figures={"naive": counted(3.0, "FLOP/s", "a test")}, detail="so")
Hear = Callable[[Any], None]


class Processes:
    """Processes that say what they are told to, and end as they are told to."""

    def __init__(self, *scripts: tuple[list[dict[str, Any]], str]) -> None:
        self.scripts = list(scripts)
        self.requests: list[Any] = []

    def __call__(
        self, entry: str, arguments: list[str], hear: Hear, silent_s: float, limit_s: float
    ) -> str:
        self.requests.append(json.loads(arguments[0]))
        news, how = self.scripts.pop(0)
        for line in news:
            hear(json.loads(json.dumps(line)))
        return how


def task(name: str) -> dict[str, str]:
    return {"task": name}


def test_rows_and_notes_of_one_process_become_tables() -> None:
    news = [
        BEGIN,
        task(TASKS[0]),
        {"table": "products", "row": ROW.to_dict()},
        {"note": "so it is"},
    ]
    told: list[str] = []
    run = Processes(([*news, {"stage": "copies"}, {"stage": "copies"}], ""))
    found = measure(None, 13.0, host={"cpu": "this"}, tell=told.append, run=run)
    (request,) = run.requests
    assert request["tasks"] == TASKS
    assert request["outcomes"] == []
    assert next(table.rows for table in found.tables if table.name == "products") == [ROW]
    assert found.notes == ["so it is"]
    assert (found.device, found.host) == (FACTS, {"cpu": "this", "numpy": "2"})
    assert told == ["copies"]


def test_a_candidate_that_ends_the_process_is_not_tried_again_and_the_rest_is() -> None:
    good, bad = UNTUNED[0], UNTUNED[1]
    died = [
        BEGIN, task(TASKS[0]), task(TASKS[1]), {"candidate": good.to_dict()},
        {"outcome": outcome_document(good, 0.5)}, {"candidate": bad.to_dict()},
    ]  # fmt: skip
    run = Processes((died, "killed by signal 6"), ([BEGIN, task(TASKS[1])], ""))
    found = measure(None, 1.0, run=run)
    again = run.requests[1]
    assert again["tasks"] == TASKS[1:]
    first, second = again["outcomes"]
    assert first == outcome_document(good, 0.5)
    assert Config.from_dict(second["config"]) == bad
    assert_says(second["reason"], "signal 6")
    assert saying(found.notes, str(bad), "signal 6")


def test_a_measurement_that_hangs_is_left_out_with_its_reason() -> None:
    run = Processes(([BEGIN, task("copies")], "it said nothing for 120 s"), ([BEGIN], ""))
    found = measure(None, 1.0, run=run)
    assert run.requests[1]["tasks"] == TASKS[1:]
    assert saying(found.notes, TASKS[0], "120 s")


def test_a_refusal_within_a_task_ends_that_task_alone() -> None:
    error = {"error": "no room", "id": "opencl-memory", "kind": "DeviceFaultError"}
    run = Processes(([BEGIN, task(TASKS[0]), error], ""), ([BEGIN], ""))
    assert saying(measure(None, 1.0, run=run).notes, "no room", TASKS[0])


def test_a_device_that_is_not_there_is_refused_as_the_process_said() -> None:
    error = {"error": "'7' is none", "id": "unknown-opencl-device", "kind": "InvalidValueError"}
    with refused("unknown-opencl-device", "'7'"):
        measure("7", 1.0, run=Processes(([error], "")))


def test_a_driver_that_ends_every_process_is_refused() -> None:
    with refused("opencl-process", "signal 11"):
        measure(None, 1.0, run=Processes(([], "killed by signal 11")))
    died = ([BEGIN, task("copies")], "killed by signal 11")
    with refused("opencl-process", "Mali-G76", "signal 11"):
        measure(None, 1.0, run=Processes(*[died] * (MOST_LOST + 1)))


def test_what_is_not_done_in_time_is_left_out_and_named() -> None:
    """The process is given what is left, and ended then: what it had said counts."""
    limits: list[float] = []

    def run(entry: str, arguments: list[str], hear: Hear, silent_s: float, limit_s: float) -> str:
        limits.append(limit_s)
        row = {"table": "launch", "row": ROW.to_dict()}
        for line in (BEGIN, task(TASKS[0]), row, task(TASKS[1])):
            hear(json.loads(json.dumps(line)))
        time.sleep(limit_s)
        return "it was not done, and was ended"

    found = measure(None, 0.05, run=run)
    assert limits[0] <= 0.05
    assert found.rows("launch") == [ROW]
    assert saying(found.notes, 0.05, len(TASKS) - 1, TASKS[1], TASKS[-1])


def test_ctrl_c_keeps_what_was_measured() -> None:
    def run(entry: str, arguments: list[str], hear: Hear, silent_s: float, limit_s: float) -> str:
        hear(BEGIN)
        if rows:
            hear(rows.pop())
        raise KeyboardInterrupt

    rows: list[dict[str, Any]] = [{"table": "launch", "row": ROW.to_dict()}]
    found = measure(None, 100.0, run=run)
    assert (found.measured, found.rows("launch")) == (1, [ROW])
    with pytest.raises(KeyboardInterrupt):
        measure(None, 100.0, run=run)


def test_a_device_that_is_not_open_in_time_is_refused() -> None:
    def run(entry: str, arguments: list[str], hear: Hear, silent_s: float, limit_s: float) -> str:
        time.sleep(limit_s)
        return "it was not done, and was ended"

    with refused("opencl-process", 0.05):
        measure(None, 0.05, run=run)


def test_what_pocl_was_told_is_said() -> None:
    run = Processes(([{"device": {**FACTS, "target": "haswell"}, "host": {}}], ""))
    assert_says(measure(None, 1.0, run=run).notes[0], "haswell")


def test_rows_survive_json() -> None:
    row = CeilingRow(
        label="a", figures={"b": missing("B/s", "no such way"), "c": counted(1.0, "s", "d")},
        detail="e", brief=False,
    )  # fmt: skip
    assert CeilingRow.from_dict(json.loads(json.dumps(row.to_dict()))) == row


def test_works_take_turns_and_slow_ones_stop_early() -> None:
    order: list[str] = []

    def work(name: str, seconds: float) -> Callable[[int], float]:
        def run(calls: int) -> float:
            order.append(name)
            return seconds * calls

        return run

    seconds = in_turns({"fast": work("fast", 0.006), "slow": work("slow", 2.0)}, rounds=5)
    assert [round(each, 6) for each in seconds["fast"]] == [0.006] * 5
    assert seconds["slow"] == [2.0] * 2
    assert order[:3] == ["fast", "fast", "slow"]  # first calls, of which slow ones are not repeated
    assert order[3:7] == ["fast", "slow", "fast", "slow"]


def test_turns_end_with_the_round_in_which_the_time_is_up() -> None:
    rounds = iter([False, True])
    seconds = in_turns({"one": lambda calls: 1.0 * calls}, enough=lambda: next(rounds))
    assert seconds["one"] == [1.0, 1.0]


def test_the_best_repetition_counts_and_the_interval_reaches_to_the_median() -> None:
    figure = rate(10.0, [2.0, 4.0, 5.0], "B/s", "a clock")
    assert (figure.value, figure.low, figure.high, figure.n) == (5.0, 2.5, 5.0, 3)


def test_a_gain_is_of_rounds_that_both_were_in() -> None:
    figure = gain([8.0, 12.0], [2.0, 2.0, 100.0])
    assert (figure.value, figure.low, figure.high, figure.n) == (5.0, 4.0, 6.0, 2)


@pytest.mark.parametrize("outcome", [0.25, Missing("does not build")])
def test_an_outcome_survives_the_pipe(outcome: float | Missing) -> None:
    from wattstep.opencl.child import outcome_of

    config = UNTUNED[2]
    document = json.loads(json.dumps(outcome_document(config, outcome)))
    read = outcome_of(document)
    assert read == (config, outcome)
    assert type(read[1]) is type(outcome)
