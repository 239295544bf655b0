"""A governed training on an emulated board, from its settings to what is told of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.refusals import refused
from tests.wording import assert_says

from wattstep.api import compare
from wattstep.device.throttling import by_channel
from wattstep.record.hosts.emulation.truth import read_truth
from wattstep.run import Run, load
from wattstep.run.step_flags import _uncapped
from wattstep.schema.channel import Channel
from wattstep.schema.condition_documents import GovernorFacts
from wattstep.schema.figure import Figure, Status
from wattstep.schema.run_info import RunInfo
from wattstep.schema.settings import parse_share
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings

BOARD = "emulate:jetson-tx2,processor=gpu,slow=0.2"


def trained(path: Path, **settings: object) -> Run:
    threads = torch.get_num_threads()
    values = {"workload": "lenet", "steps": 30, "threads": 1, "trace": "none", "out": str(path)}
    recorder = train(TrainingSettings(**{**values, **settings}), lambda progress: None)  # type: ignore[arg-type]
    torch.set_num_threads(threads)
    return load(recorder.path)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    path = tmp_path_factory.mktemp("governed") / "run"
    return trained(path, target=BOARD, governor="energy", slowdown="30%")


def governor(run: Run) -> GovernorFacts:
    facts = run.info.conditions.get("governor")
    assert facts is not None
    return facts


def test_the_steps_in_which_it_looked_do_not_count(run: Run) -> None:
    (look,) = governor(run)["looks"]
    steps = run.series.steps
    assert steps.looking is not None
    first, last = look["first_step"], look["last_step"]
    assert last is not None
    assert first == 3  # behind the warm-up
    assert steps.index[steps.looking].tolist() == list(range(first, last + 1))
    assert not (steps.clean & steps.looking).any()
    assert steps.clean.sum() == 30
    counts = run.report().steps
    assert (counts.exploring, counts.clean, counts.warmup) == (last + 1 - first, 30, 3)


def test_the_board_had_the_clocks_that_the_governor_says(run: Run) -> None:
    facts = governor(run)
    columns, rows = read_truth(run.path)
    clock = [column.name for column in columns].index("gpu.clock")
    (look,) = facts["looks"]
    (highest,) = look["highest_hz"]
    assert facts["part"] == "gpu"
    times = [int(at) for at, _ in facts["caps"]]
    assert len(times) > 8  # caps of the survey, twice
    # Between two changes, a row's 100 ms and a tick behind the first, the clock never was above the cap.
    ends = [*times[1:], rows[-1][0]]
    for (begin, share), end in zip(facts["caps"], ends, strict=True):
        inside = [row[clock] for row in rows if begin + 150_000_000 < row[0] < end]
        assert all(value <= share * highest * 1.001 for value in inside)
    assert look["cap_hz"][0] <= highest


def test_what_it_decided_is_told_with_its_numbers(run: Run) -> None:
    (look,) = governor(run)["looks"]
    text = run.summary()
    if look["reason"]:
        assert "no clock was" in text
    else:
        assert "GPU clock capped at" in text
        saving = Figure.from_dict(look["saving"])
        assert saving.status is Status.MODELLED
        assert saving.low is not None
        assert saving.low > 0
    document = json.loads(json.dumps(run.document()))
    assert document["conditions"]["recorded"]["governor"]["looks"][0]["blocks"]
    assert_says(document["options"]["governor"], "energy", "30 %")


def test_caps_that_it_set_are_no_throttling(run: Run) -> None:
    causes = {stretch.cause for stretch in run.conditions.stretches if stretch.kind == "throttled"}
    assert "cap" not in causes


def test_run_json_keeps_it_as_it_was(run: Run) -> None:
    document = run.info.to_dict()
    assert RunInfo.from_dict(json.loads(json.dumps(document))).conditions == run.info.conditions
    document["conditions"]["governor"]["looks"][0]["first_step"] = "three"
    with refused("damaged-field", "first_step"):
        RunInfo.from_dict(document)


def test_a_governed_run_is_of_another_configuration(run: Run, tmp_path: Path) -> None:
    other = trained(tmp_path / "other", target=BOARD)
    with refused("other-configuration", "--across clocks"):
        compare(run.path, other.path)
    assert compare(run.path, other.path, across=["clocks"])


def test_nothing_is_governed_where_nothing_tells_the_power(tmp_path: Path) -> None:
    with refused("governor-needs-power", "--power-model"):
        trained(tmp_path / "run", target="emulate:raspberry-pi-4", governor="energy")


# --- without a training -------------------------------------------------------------------------


def test_a_cap_of_the_governor_is_taken_off_the_clock_before_throttling_is_looked_for() -> None:
    cap = Channel(
        name="cpu0.frequency_cap", unit="Hz", kind="gauge", domain="cpu", role="frequency_cap",
        source="", scale=1e3, core=0,
    )  # fmt: skip
    t_ns = np.arange(10, dtype=np.int64) * 1_000_000_000
    value = np.array([2.0, 2, 2, 1.4, 1.4, 1.4, 1.0, 1.4, 2, 2]) * 1e9  # 1.0: heat, below the cap
    facts: GovernorFacts = {"part": "cpu", "caps": [[2.5e9, 0.7], [7.5e9, 1.0]]}
    assert len(by_channel(cap, t_ns, value)) == 1
    (stretch,) = by_channel(cap, *_uncapped(cap, t_ns, value, facts))
    assert (stretch.start_ns, stretch.end_ns) == (5_000_000_000, 7_000_000_000)
    other = replace(cap, domain="gpu")
    assert _uncapped(other, t_ns, value, facts)[1].tolist() == value.tolist()


@pytest.mark.parametrize(
    ("settings", "id", "named"),
    [
        ({"governor": "speed"}, "unknown-governor", "energy, none"),
        ({"slowdown": "10%"}, "needs-governor", "--governor energy"),
        ({"governor": "energy", "slowdown": "0.1"}, "malformed-share", "10%"),
        ({"governor": "energy", "slowdown": "0%"}, "out-of-range", "0%"),
        ({"governor": "energy", "target": "ssh://board"}, "governor-elsewhere", "--governor"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, str], id: str, named: str) -> None:
    with refused(id, named):
        TrainingSettings(workload="lenet", **settings)  # type: ignore[arg-type]


def test_a_share_is_in_percent() -> None:
    assert parse_share("10%") == parse_share(" 10 % ") == pytest.approx(0.1)
    assert parse_share("2.5%") == 0.025


def test_a_machine_without_clocks_to_set_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("typer")
    if list(Path("/sys/devices/system/cpu/cpufreq").glob("policy*")):
        pytest.skip("this machine has clocks")
    monkeypatch.chdir(tmp_path)
    settings = TrainingSettings(workload="lenet", governor="energy", out=str(tmp_path / "run"))
    with refused("no-clock-control", "--target emulate:jetson-tx2,slow=0.7"):
        train(settings, lambda progress: None)
    assert not (tmp_path / "run").exists()
