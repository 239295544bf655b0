"""A calibration finds the values that probes were made with, goes on after it was killed, and says what disturbed it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from math import hypot, log
from pathlib import Path

import numpy as np
import pytest
from tests.predicting.steps import WEIGHTS, evaluated_family, family
from tests.refusals import refused

from wattstep import devices
from wattstep.errors import InvalidValueError, RecordingError
from wattstep.predict import Prediction, predictor_for, threads
from wattstep.predict.cpu.time import CODES, KINDS, STARTING
from wattstep.predict.cpu.values import cpu_values
from wattstep.predict.like import Error, Evidence, Miss, Recorded
from wattstep.predict.power import power_of
from wattstep.schema.ceilings import Ceilings, Level
from wattstep.schema.figure import Figure, Status
from wattstep.store import this_device
from wattstep.train.calibration import calibrate as calibrating
from wattstep.train.calibration.fitting import (
    fit,
    fit_memory,
    fit_time,
    operations_alone,
    parallel_share,
    peak_of,
    seconds_of,
)
from wattstep.train.calibration.power import (
    NO_METER,
    PowerFigures,
    described,
    measure_power,
)
from wattstep.train.calibration.probe import Probe, ProbeSettings
from wattstep.train.calibration.rounds import Round, best_of_rounds
from wattstep.train.calibration.storage import write_and_read

MB = 1_000_000
WATTS = Figure(value=9.0, low=8.5, high=9.5, unit="W", status=Status.MEASURED, source="a rail")
IDLE_WATTS = Figure(value=3.0, low=2.9, high=3.1, unit="W", status=Status.MEASURED, source="a rail")
WORKLOADS = ("lenet", "resnet8", "squeezenet", "char-cnn", "dcgan")
# Of the machine that plays the real one: launch in s, s per FLOP, s per byte in the cache and beyond.
TRUE = {
    "convolution": (5e-6, 2e-11, 3e-11, 1e-10),
    "matrix product": (4e-6, 1e-11, 2e-11, 1e-10),
    "optimizer": (3e-6, 0.0, 2e-11, 1e-10),
}


def probe(workload: str, seed: int, **changes: object) -> Probe:
    """A training of 60 operations on that machine: floor 200 MB, preparation 70 MB, steps 20 MB, PIL 6 MB."""
    random = np.random.default_rng(seed)
    rows = []
    for number in range(60):
        kind = list(TRUE)[number % len(TRUE)]
        flops = 0.0 if kind == "optimizer" else 10 ** random.uniform(4, 9)
        size = 10 ** random.uniform(3, 8)
        features = (1.0, flops, size, 0.0) if size < 3e7 else (1.0, flops, 0.0, size)
        seconds = float(np.dot(features, TRUE[kind]))
        rows.append((CODES[kind], *features, seconds))
    whole = sum(row[-1] for row in rows)
    libraries = ("PIL",) if seed % 2 else ()
    prepared = 200 * MB + 70 * MB + 10 * MB + (6 * MB if libraries else 0)
    made = Probe(
        settings=ProbeSettings(workload=workload, batch_size=4),
        framework=200 * MB,
        prepared=prepared,
        first=prepared + 40 * MB,
        steady=prepared + 20 * MB + 30 * MB,
        tensors=10 * MB,
        growth_steady=30 * MB,
        fresh=0.0,
        libraries=libraries,
        steps=(1.1 * whole, whole, 1.3 * whole),
        starts=dict.fromkeys(STARTING, 20),
        rows=tuple(rows),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def probes() -> list[Probe]:
    return [probe(name, seed) for seed, name in enumerate(WORKLOADS)]


def test_memory_beside_tensors_is_found(probes: list[Probe]) -> None:
    floor, memory = fit_memory(probes)
    values = {name: each.value for name, each in memory.items()}
    assert floor.value == 200 * MB
    assert values == pytest.approx({"preparation": 70 * MB, "steps": 20 * MB, "PIL": 6 * MB})
    assert peak_of(probes[1], floor.value, values) == probes[1].steady


def test_the_time_of_a_training_that_the_fit_never_saw(probes: list[Probe]) -> None:
    kinds, step = fit_time(probes[:4])
    assert seconds_of(probes[4], kinds, step) == pytest.approx(probes[4].seconds, rel=0.05)


def test_what_timing_an_operation_adds_is_none_of_its_time(probes: list[Probe]) -> None:
    clock = 2e-6
    timed = [
        replace(one, rows=tuple((*row[:-1], row[-1] + clock) for row in one.rows)) for one in probes
    ]
    for one, alone in zip(probes, operations_alone(timed), strict=True):
        assert alone == pytest.approx(one.operation_seconds)


def test_operations_that_take_less_than_a_step_are_left_as_they_are(probes: list[Probe]) -> None:
    slow = [replace(one, steps=(2 * one.seconds,)) for one in probes]
    for one, alone in zip(slow, operations_alone(slow), strict=True):
        assert alone == pytest.approx(one.operation_seconds)


@pytest.mark.parametrize(
    ("step", "alone"),
    [
        (7.0, (0.5, 0.5, 6.0)),  # 2 of the clock's, of the short ones half
        (2.0, (0.5, 0.5, 4.0)),  # half of each is the most
    ],
)
def test_the_clock_is_at_most_half_of_an_operation(
    probes: list[Probe], step: float, alone: tuple[float, ...]
) -> None:
    rows = tuple((*probes[0].rows[0][:-1], 1e-6 * each) for each in (1.0, 1.0, 8.0))
    [found] = operations_alone([replace(probes[0], rows=rows, steps=(1e-6 * step,))])
    assert 1e6 * found == pytest.approx(alone)


def test_the_least_step_counts(probes: list[Probe]) -> None:
    assert probes[0].seconds == pytest.approx(sum(row[-1] for row in probes[0].rows))


def test_each_training_is_predicted_by_a_fit_without_it(probes: list[Probe]) -> None:
    fitted = fit(probes)
    assert len(fitted.errors["step_time"]) == len(probes)
    assert max(map(abs, fitted.errors["step_time"])) < 0.05
    assert max(map(abs, fitted.errors["system"])) < 1e-9


def test_one_odd_training_widens_the_interval(probes: list[Probe]) -> None:
    odd = replace(probes[0], steps=tuple(2 * each for each in probes[0].steps))
    assert fit([odd, *probes[1:]]).reach["step_time"] > log(1.5)


def test_a_disturbed_machine_widens_the_interval(probes: list[Probe]) -> None:
    quiet = fit(probes)
    disturbed = fit([replace(probes[0], others=1.5), *probes[1:]])
    assert disturbed.reach["step_time"] > quiet.reach["step_time"]
    assert disturbed.others == 1.5


def test_too_few_trainings_are_no_fit(probes: list[Probe]) -> None:
    with refused("too-few-trainings", 3):
        fit(probes[:3])


def test_a_probe_comes_back_from_its_document(probes: list[Probe]) -> None:
    assert Probe.from_dict(json.loads(json.dumps(probes[1].to_dict()))) == probes[1]


class Killed(BaseException):
    """What no handler of errors stops."""


def shared(one: Probe, settings: ProbeSettings) -> Probe:
    """The same with two threads that halve four fifths of what its operations take beside 1 us."""
    starts = 1e-6 * len(one.rows)
    whole = sum(row[-1] for row in one.rows)
    seconds = one.seconds - 0.8 / 2 * (whole - starts)
    return replace(one, settings=settings, steps=(seconds,))


def calibrate(
    out: Path,
    measured: list[str],
    *,
    resume: bool = False,
    dies_at: int = 99,
    threaded: tuple[str, ...] = (),
) -> object:
    def measure(settings: ProbeSettings) -> Probe:
        if len(measured) == dies_at:
            raise Killed
        if settings.threads > 1:
            return shared(probe(settings.workload, WORKLOADS.index(settings.workload)), settings)
        measured.append(settings.workload)
        return probe(settings.workload, WORKLOADS.index(settings.workload))

    return calibrating.calibrate(
        out,
        resume=resume,
        tell=lambda stage, share: None,
        probes=[ProbeSettings(workload=name, batch_size=4) for name in WORKLOADS],
        measure=measure,
        ceilings=False,
        threaded=[ProbeSettings(workload=name, batch_size=4, threads=2) for name in threaded],
        power=lambda: described({"mean_power": WATTS, "idle_power": {"before": IDLE_WATTS}}),
        storage=lambda folder: {
            "start": [3.0, 2.0, 4.0],
            "read": [400e6, 500e6, 450e6],
            "write": [90e6, 100e6, 110e6],
        },
    )


def test_the_file_of_a_device_is_one_that_predictions_read(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    calibrate(out, [])
    device = devices.find(str(out))
    values = cpu_values(device, "torch", "fp32")
    assert values.floor.value == 200 * MB
    assert values.libraries == pytest.approx({"PIL": 6 * MB})
    assert values.values["memory"]["preparation"] == pytest.approx(70 * MB)
    assert values.engine.startswith("torch-")
    assert values.filled
    assert not list(tmp_path.glob("*.partial"))


def test_power_is_idle_and_its_part_of_what_all_cores_add(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    calibrate(out, [])
    device = devices.find(str(out))
    assert device.power.idle is not None
    assert device.power.idle.value == 3.0
    found = power_of(device.power, {"cpu": 0.25})
    assert found is not None
    assert found[0].value == pytest.approx(3.0 + 0.25 * 6.0)


def test_memory_is_told_for_each_stage_of_a_trainings_life(tmp_path: Path) -> None:
    calibrate(tmp_path / "mine.toml", [])
    predictor = predictor_for(evaluated_family(), devices.find(str(tmp_path / "mine.toml")))
    predicted = predictor.at(4)
    stages = {stage: float(figure) for stage, figure in predicted.memory_by_stage.items()}
    assert stages["framework"] == 200 * MB
    # What preparing adds, and weights; the first step makes the momentum.
    assert stages["preparation"] == pytest.approx(270 * MB + WEIGHTS)
    assert stages["first step"] > stages["preparation"]
    assert stages["steady step"] == predicted.memory.used
    # It is written from where it is, and read beside a model that is there.
    assert stages["preparation"] < stages["saving"] <= stages["steady step"]
    kernels = predictor.fitted.values["memory"]["steps"]
    assert stages["reloading"] == pytest.approx(stages["preparation"] + kernels + 2 * WEIGHTS)
    assert stages["preparation"] < stages["evaluation"]
    assert set(predicted.report(workload="").metrics["memory_by_stage"]) == set(stages)


def test_what_is_no_step_takes_the_time_that_disk_and_start_were_measured_to_take(
    tmp_path: Path,
) -> None:
    calibrate(tmp_path / "mine.toml", [])
    predicted = predictor_for(family(), devices.find(str(tmp_path / "mine.toml"))).at(4)
    assert sum(map(float, predicted.phase_times.values())) == pytest.approx(predicted.time.total)
    times = predicted.time_by_stage
    assert list(times) == ["framework", "saving", "reloading"]
    assert float(times["framework"]) == 3.0
    assert (times["framework"].low, times["framework"].high) == (2.0, 6.0)
    # Weights and momentum, at 100 and 450 MB/s: the medians; a file and its two tensors by estimate.
    assert float(times["saving"]) == pytest.approx(2 * WEIGHTS / 100e6 + 10e-3 + 2 * 0.25e-3)
    assert float(times["reloading"]) == pytest.approx(2 * WEIGHTS / 450e6 + 8e-3 + 2 * 0.8e-3)
    assert times["saving"].low == pytest.approx(
        float(times["saving"])
        - hypot(2 * WEIGHTS * (1 / 100e6 - 1 / 110e6), 10e-3 - 1e-3, 2 * (0.25e-3 - 0.05e-3))
    )
    assert set(predicted.report(workload="").metrics["time_by_stage"]) == set(times)


def test_the_share_that_threads_divide_is_found_from_steps_with_both(tmp_path: Path) -> None:
    one = probe(WORKLOADS[0], 0)
    kinds = {kind: {"launch_s": 1e-6} for kind in KINDS}
    many = shared(one, ProbeSettings(workload=WORKLOADS[0], batch_size=4, threads=2))
    assert parallel_share(one, many, kinds) == pytest.approx(0.8, rel=0.01)
    assert parallel_share(one, replace(one, settings=many.settings), kinds) == 0
    calibrate(tmp_path / "mine.toml", [], threaded=tuple(WORKLOADS[:2]))
    device = devices.find(str(tmp_path / "mine.toml"))
    share = threads.parallel_share(device, cpu_values(device, None, "fp32").engine)
    assert share.basis == "calibration"
    assert share.value == pytest.approx(0.8, abs=0.1)
    assert share.low < share.value < share.high


def test_threads_shorten_what_operations_compute_and_not_their_start(tmp_path: Path) -> None:
    calibrate(tmp_path / "mine.toml", [])
    device = devices.find(str(tmp_path / "mine.toml"))
    two = replace(device, processors={"cpu": replace(device.processors["cpu"], cores=2)})
    one, both = predictor_for(family(), two), predictor_for(family(), two).with_threads(2)
    graph = one.captured.at(4)
    work, alone = one.timed(graph, 0.0)
    _, shared = both.timed(graph, 0.0)
    values = one.fitted.values
    starts = np.array([values[KINDS[code]]["launch_s"] for code in work.kinds])
    expected = starts + (0.15 + 0.85 / 2) * (alone.operations - starts)
    assert shared.operations == pytest.approx(np.where(alone.operations == 0, 0, expected))
    assert shared.between == alone.between
    assert both.at(4).reach["step_time"] > one.at(4).reach["step_time"]
    assert both.at(4).load["cpu"] == 1.0


def test_a_file_is_written_and_read_and_gone(tmp_path: Path) -> None:
    written, read = write_and_read(tmp_path, 3 << 20)
    assert min(written, read) > 0
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_another_network_says_nothing_of_a_calibrated_machine(tmp_path: Path) -> None:
    calibrate(tmp_path / "mine.toml", [])
    predictor = predictor_for(family(), devices.find(str(tmp_path / "mine.toml")))
    plain = predictor.at(4)
    mine = predictor.errors(plain)["system"]

    def learned(error: Error) -> Prediction:
        recorded = Recorded(run="it", workload="it", batch_size=4, ratios={"system": 1.5})
        misses = {"system": [Miss(error=error, off=log(1.5))]}
        predictor.learn(Evidence(misses=misses, trainings=[recorded]))
        return predictor.at(4)

    assert learned(replace(mine, network=("other",))).memory.used == pytest.approx(
        plain.memory.used
    )
    corrected = learned(mine)
    assert corrected.memory.used == pytest.approx(1.5**0.9 * plain.memory.used)
    assert corrected.life["steady step"] == pytest.approx(corrected.memory.used)
    assert corrected.life["framework"] == plain.life["framework"]
    assert corrected.reach["system"] == pytest.approx(plain.reach["system"] * (1 - 0.81) ** 0.5)


def test_this_is_the_machine_that_was_calibrated_last(tmp_path: Path) -> None:
    with refused("not-calibrated", "this", "calibrate-device"):
        this_device.find("this")
    calibrate(tmp_path / "mine.toml", [])
    kept = devices.find(this_device.find("this"))
    assert kept.floors == devices.find(str(tmp_path / "mine.toml")).floors
    assert this_device.find("tx2") == "tx2"


def without_power(tmp_path: Path, power: Callable[[], PowerFigures]) -> calibrating.Calibrated:
    return calibrating.calibrate(
        tmp_path / "mine.toml", resume=False, tell=lambda stage, share: None, ceilings=False,
        measure=lambda settings: probe(settings.workload, WORKLOADS.index(settings.workload)),
        probes=[ProbeSettings(workload=name, batch_size=4) for name in WORKLOADS],
        threaded=(), power=power, storage=None,
    )  # fmt: skip


def test_that_no_sensor_tells_power_is_one_line(tmp_path: Path) -> None:
    calibrated = without_power(tmp_path, lambda: measure_power(tmp_path))
    assert calibrated.notes == (f"power and heat: {NO_METER}",)
    assert devices.find(str(tmp_path / "mine.toml")).power.idle is None


def test_a_calibration_does_without_power_where_its_training_fails(tmp_path: Path) -> None:
    def fails() -> PowerFigures:
        raise RecordingError("resnet8 was killed by SIGKILL")

    [note] = without_power(tmp_path, fails).notes
    assert "SIGKILL" in note
    assert "--resume" in note
    assert (tmp_path / "mine.toml").exists()


def test_a_calibration_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    out, measured = tmp_path / "mine.toml", []
    with pytest.raises(Killed):
        calibrate(out, measured, dies_at=3)
    with pytest.raises(InvalidValueError, match="--resume goes on"):
        calibrate(out, measured)
    left = next(tmp_path.glob("*.partial"))
    left.write_text(left.read_text() + '{"name": "half a li', encoding="utf-8")
    calibrate(out, measured, resume=True)
    assert measured == list(WORKLOADS)
    assert out.exists()


def test_a_training_that_ends_badly_is_tried_again_and_can_be_measured_later(
    tmp_path: Path,
) -> None:
    out = tmp_path / "mine.toml"
    tries: list[str] = []

    def measure(settings: ProbeSettings) -> Probe:
        tries.append(settings.workload)
        if settings.workload == "dcgan" and len(tries) < 8:
            raise RecordingError("dcgan-4 could not be measured: it was killed by SIGKILL")
        return probe(settings.workload, WORKLOADS.index(settings.workload))

    def calibrated(*, resume: bool) -> calibrating.Calibrated:
        return calibrating.calibrate(
            out, resume=resume, tell=lambda stage, share: None, measure=measure, ceilings=False,
            probes=[ProbeSettings(workload=name, batch_size=4) for name in WORKLOADS],
            threaded=(), power=None, storage=None,
        )  # fmt: skip

    [note] = calibrated(resume=False).notes
    assert "SIGKILL" in note
    assert "--resume" in note
    assert tries.count("dcgan") == 2
    tries += ["", ""]
    assert calibrated(resume=True).notes == ()
    assert tries[8:] == ["dcgan"]
    assert not list(tmp_path.glob("*.partial"))


def measured_ceilings(rate: float) -> Ceilings:
    figure = Figure(
        value=rate, low=rate / 2, high=rate, unit="B/s", status=Status.MEASURED, source=""
    )
    level = Level(name="memory", size=1, copy=figure, triad=figure)
    return Ceilings(
        created="",
        device={},
        engine="torch",
        threads=2,
        compute={},
        levels=(level,),
        medians={},
        seconds=1.0,
    )


def test_ceilings_of_a_quiet_round_are_as_they_were_measured() -> None:
    rounds = [
        Round(measured_ceilings(6e9), others=1.9, share=0.1),
        Round(measured_ceilings(70e9), others=0.0, share=1.0),
    ]
    best = best_of_rounds(rounds)
    assert (best.memory.copy.value, best.memory.copy.high) == (70e9, 70e9)
    assert best.notes == ()


def test_ceilings_that_others_disturbed_reach_to_what_all_of_the_cores_would_give() -> None:
    rounds = [
        Round(measured_ceilings(rate), others=1.9, share=share)
        for rate, share in ((4e9, 0.05), (6e9, 0.08), (5e9, 0.06))
    ]
    best = best_of_rounds(rounds)
    assert best.memory.copy.value == 6e9
    assert best.memory.copy.low == 3e9
    assert best.memory.copy.high == pytest.approx(6e9 / 0.08)  # 75 GB/s
    assert len(best.notes) == 1


def test_remains_of_another_machine_are_refused(tmp_path: Path) -> None:
    out = tmp_path / "mine.toml"
    (tmp_path / "mine.toml.partial").write_text('{"header": {"machine": {}}}\n', encoding="utf-8")
    with pytest.raises(InvalidValueError, match="another machine"):
        calibrate(out, [], resume=True)


@pytest.mark.parametrize(
    ("name", "resume", "words"),
    [("mine.txt", False, "ends in .toml"), ("mine.toml", True, "nothing was interrupted")],
)
def test_what_cannot_be_asked_for(tmp_path: Path, name: str, resume: bool, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        calibrate(tmp_path / name, [], resume=resume)
