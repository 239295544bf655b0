"""A training that was exported runs on the phone, by MNN itself, and becomes a run like any other."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.engines.exporting import export
from tests.fleet.phone.made import PATIENCE_S, Made, needs_adb
from tests.fleet.phone.runners import SOURCE, build_program, build_runner, missing
from tests.refusals import refused
from tests.waiting import until
from tests.wording import saying

from wattstep.engines.exported.folder import ExportedFolder, write_facts
from wattstep.engines.mnn.engine import ENGINE
from wattstep.errors import RecordingError
from wattstep.remote.phone.host import PhoneHost
from wattstep.remote.phone.job import FOLDER, Phone
from wattstep.remote.phone.runner import PROGRAM
from wattstep.run import load
from wattstep.schema.workload import OptimizerSettings
from wattstep.train.settings import TrainingSettings

pytest.importorskip("torch")
pytest.importorskip("onnx")
if (REASON := missing() or ENGINE.missing()) is not None:
    pytest.skip(REASON, allow_module_level=True)
pytestmark = needs_adb


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_runner(tmp_path_factory.mktemp("built") / "runner")


@pytest.fixture(scope="module")
def lenet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(ENGINE, tmp_path_factory.mktemp("lenet"), "lenet", 4)


@pytest.fixture(scope="module")
def adam(tmp_path_factory: pytest.TempPathFactory) -> Path:
    optimizer = OptimizerSettings.parse("adam,lr=0.001")
    return export(ENGINE, tmp_path_factory.mktemp("adam"), "lenet", 2, optimizer=optimizer)


def host(phone: Made, runner: Path | None, **settings: float) -> PhoneHost:
    phone.write("getprop-ro.product.cpu.abilist", "x86_64,x86\n")
    return PhoneHost(
        phone.endpoint.serial, phone.said.append, root=str(phone.root), ask_every_s=0.2,
        runner=None if runner is None else str(runner), **settings,
    )  # fmt: skip


def asked(phone: Made, place: Path, out: Path, **of: object) -> TrainingSettings:
    training = ExportedFolder(place).training
    settings = {"threads": 1, "steps": 30, **of}
    return TrainingSettings(
        workload=training.workload, batch_size=training.batch_size, engine=training.engine,
        exported=str(place), target=phone.target, out=str(out), **settings,
    )  # fmt: skip


def nothing(*_: object) -> None:
    """Nobody watches."""


def losses_here(place: Path, steps: int) -> list[float]:
    """Of the same MNN, called from Python in this process."""
    trainer = ENGINE.open(ExportedFolder(place), 1)
    return in_float32(trainer.step() for _ in range(steps))


def in_float32(losses: Iterable[float]) -> list[float]:
    """Losses as MNN has them: the phone's are written with the nine digits that tell any of these."""
    return [float(np.float32(loss)) for loss in losses]


@pytest.mark.parametrize("phone", [shutil.which("mksh") or "/bin/sh"], indirect=True)
def test_a_training_on_the_phone_has_the_steps_losses_and_operations_that_it_has_here(
    phone, tmp_path, runner, lenet
):
    told = []
    settings = asked(phone, lenet, tmp_path / "run")
    path = host(phone, runner).train(settings, told.append, nothing, None)
    assert path == tmp_path / "run"
    until(phone.is_clean, PATIENCE_S)
    run = load(path)
    info = run.info
    assert (info.state, info.target, info.device["model"]) == ("closed", "adb:phone", "Pixel 6")
    assert (info.workload, info.batch_size, info.threads) == ("lenet", 4, 1)
    assert info.engine == ENGINE.version()
    assert info.data.name == ExportedFolder(lenet).training.data.name
    assert {each.stage for each in told} >= {"preparing"}
    assert told[-1].steps == run.tables.table("steps").num_rows

    steps = run.tables.table("steps").to_pylist()
    assert [each["index"] for each in steps] == list(range(len(steps)))
    assert in_float32(each["loss"] for each in steps) == losses_here(lenet, len(steps))
    traced = [each for each in steps if each["traced"]]
    # As gaps are drawn; fewer where a busy machine left no time for them.
    assert len(traced) >= 10 or saying(info.notes, "traced steps", "not 10")
    clean = [
        each for each, before in zip(steps[3:], steps[2:], strict=False)
        if not (each["traced"] or before["traced"])
    ]  # fmt: skip
    assert len(clean) >= 30
    assert {tuple(each["mark_name"]) for each in steps} == {("data", "training")}
    for one, other in pairwise(steps):
        assert one["start_ns"] <= one["end_ns"] <= other["start_ns"]
        # It computes on one core, all of the time that it has one.
        assert (
            0
            < one["cpu_end_ns"] - one["cpu_start_ns"]
            <= 1.1 * (one["end_ns"] - one["start_ns"]) + 1e6
        )

    rows = run.tables.table("operations").to_pylist()
    by_step = {
        each["index"]: [row for row in rows if row["step"] == each["index"]] for each in traced
    }
    names = [[row["name"] for row in each] for each in by_step.values()]
    assert names == [names[0]] * len(traced)
    for step in traced:
        last = step["start_ns"]
        for row in by_step[step["index"]]:
            assert last <= row["start_ns"] <= row["end_ns"]
            last = row["end_ns"]
        assert last <= step["end_ns"]
    kinds = [row["kind"] for row in by_step[traced[0]["index"]]]
    # As MNN's tracer here tells them of this network: see tests/engines/test_mnn_training.py.
    assert kinds.count("convolution") == 2
    assert kinds.count("convolution weight gradient") == 2
    assert kinds.count("convolution input gradient") == 1
    assert kinds.count("matrix product") == 3 * 3
    assert {row["phase"] for row in rows} == {"forward", "backward", "optimizer"}
    first = next(row for row in rows if row["kind"] == "convolution")
    assert first["layer"] == "features.0"
    assert first["flops"] == 2 * 4 * 6 * 28 * 28 * 25  # batch, channels, places, kernel

    spans = run.tables.table("spans").to_pylist()
    assert sum(span["kind"] == "window" for span in spans) == len(traced)
    assert saying((span["name"] for span in spans), "before", "first step")
    metrics = run.metrics()
    assert metrics["step_time"].value > 0
    assert 4 << 20 < metrics["peak_memory"].value < 200 << 20
    for text in (path / "run.json").read_text(), *phone.said:
        assert phone.endpoint.serial not in text
        assert str(runner) not in text


def test_adam_s_corrections_are_those_of_an_engine_here(phone, tmp_path, runner, adam):
    settings = asked(phone, adam, tmp_path / "run", steps=12, trace="none")
    run = load(host(phone, runner).train(settings, nothing, nothing, None))
    losses = run.tables.table("steps").to_pydict()["loss"]
    assert len(losses) == 15  # with the warm-up
    assert in_float32(losses) == losses_here(adam, 15)
    assert run.tables.table("operations").num_rows == 0


def test_a_training_that_goes_another_way_ends_and_leaves_no_run(phone, tmp_path, runner, lenet):
    other = shutil.copytree(lenet, tmp_path / "other")
    training = ExportedFolder(lenet).training
    right = training.losses[4]
    losses = [*training.losses[:4], right + 2 * training.allowed[4] + 0.1, *training.losses[5:]]
    write_facts(other, replace(training, losses=losses))
    settings = asked(phone, other, tmp_path / "run", steps=100_000)
    with refused("trains-wrongly", "step 5"):
        host(phone, runner).train(settings, nothing, nothing, None)
    assert not (tmp_path / "run").exists()
    until(phone.is_clean, PATIENCE_S)


def test_a_loss_that_is_lost_later_ends_the_training_and_what_was_before_is_measured(
    phone, tmp_path, runner, lenet
):
    """From step 20 on its losses are none; two in a row end it, and of what still ran no step counts."""
    folder = shutil.copytree(runner, tmp_path / "runner", symlinks=True)
    (folder / PROGRAM).unlink()
    read = "double loss = loss_host_->host<float>()[0];"
    text = SOURCE.read_text()
    assert read in text
    (folder / "lost.cpp").write_text(text.replace(read, f"{read} if (index_ >= 20) loss = NAN;"))
    build_program(folder, folder / "lost.cpp")
    settings = asked(phone, lenet, tmp_path / "run", steps=10_000_000)
    run = load(host(phone, folder).train(settings, nothing, nothing, None))
    until(phone.is_clean, PATIENCE_S)
    losses = run.tables.table("steps").to_pydict()["loss"]
    assert [loss is None for loss in losses] == [False] * 20 + [True] * 2
    assert saying(run.info.notes, "from step 20 on", "diverged")


def test_a_file_that_does_not_fit_is_said_with_its_size(phone, tmp_path):
    (phone.files / "dev").symlink_to("/dev")
    (tmp_path / "batches.raw").write_bytes(bytes(1_500_000))
    with refused("phone-full", "batches.raw (1.5 MB)", "free some"):
        Phone(phone.endpoint.serial, "adb").push(tmp_path / "batches.raw", f"{FOLDER}/dev/full")


def steps_there(phone: Made) -> int:
    """Steps that the runner has written down."""
    journals = list(phone.files.glob("*/journal"))
    return (
        sum(line[:2] in (b"S\t", b"T\t") for line in journals[0].read_bytes().splitlines())
        if journals
        else 0
    )


def stop_there(phone: Made, number: int) -> None:
    """Sends the runner a signal."""
    for sign in phone.files.glob("*/pid"):
        os.kill(int(sign.read_text()), number)


@pytest.mark.parametrize(
    ("number", "what"), [(signal.SIGKILL, "memory runs out"), (signal.SIGSEGV, "logcat")]
)
def test_a_runner_that_is_killed_is_a_failure_with_its_signal_and_the_run_is_kept(
    phone, tmp_path, runner, lenet, number, what
):
    settings = asked(phone, lenet, tmp_path / "run", steps=10_000_000, trace="none")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(host(phone, runner).train, settings, nothing, nothing, None)
        try:
            until(lambda: steps_there(phone) > 10, PATIENCE_S)
        finally:
            stop_there(phone, number)
        with refused("runner-failed", f"signal {number} ({number.name})", what):
            future.result(PATIENCE_S)
    assert load(tmp_path / "run").tables.table("steps").num_rows > 10
    until(phone.is_clean, PATIENCE_S)


def test_ctrl_c_ends_the_training_there_and_keeps_what_was_recorded(phone, tmp_path, runner, lenet):
    settings = asked(phone, lenet, tmp_path / "run", steps=10_000_000, trace="none")

    def press() -> None:
        until(lambda: steps_there(phone) > 10, PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    with pytest.raises(KeyboardInterrupt):
        host(phone, runner).train(settings, nothing, nothing, None)
    pressing.join()
    run = load(tmp_path / "run")
    assert saying(run.info.notes, "stopped")
    assert run.tables.table("steps").num_rows > 10
    until(phone.is_clean, PATIENCE_S)


def test_no_step_is_missing_after_the_cable_was_pulled(phone, tmp_path, runner, lenet):
    settings = asked(phone, lenet, tmp_path / "run", steps=10_000_000, trace="none")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(host(phone, runner).train, settings, nothing, nothing, None)
        try:
            until(lambda: steps_there(phone) > 10, PATIENCE_S)
            phone.endpoint.unplug()
            until(lambda: any("waiting" in line for line in phone.said), PATIENCE_S)
            phone.endpoint.plug()
            until(lambda: any("is back" in line for line in phone.said), PATIENCE_S)
        finally:
            stop_there(phone, signal.SIGTERM)  # after which it ends by itself, its journal whole
        with pytest.raises(RecordingError) as caught:
            future.result(PATIENCE_S)
    assert caught.value.id == "runner-failed"
    run = load(tmp_path / "run")
    steps = run.tables.table("steps").to_pydict()
    assert steps["index"] == list(range(len(steps["index"])))
    assert any("out of reach" in note for note in run.info.notes)


def test_a_cable_that_is_pulled_before_anything_trains_is_said_with_what_is_left_there(
    phone, tmp_path, runner, lenet
):
    """While files are sent, or a little later: nobody can tell when."""
    place = host(phone, runner, patience_s=1.0, lease_s=60.0)
    settings = asked(phone, lenet, tmp_path / "run", steps=10_000_000, trace="none")
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(place.train, settings, nothing, nothing, None)
        until(lambda: list(phone.files.glob("*/libMNN.so")), PATIENCE_S)
        phone.endpoint.unplug()
        with refused("phone-unreachable", "reconnect it", "60 s after"):
            future.result(PATIENCE_S)


def test_what_does_not_start_there_is_said_before_anything_trains(phone, tmp_path, runner, lenet):
    broken = shutil.copytree(runner, tmp_path / "runner", symlinks=True)
    (broken / "libpython.so").write_bytes(b"no library")
    settings = asked(phone, lenet, tmp_path / "run")
    with refused("not-a-program", "libpython.so"):
        host(phone, broken).train(settings, nothing, nothing, None)
    (broken / "libpython.so").unlink()  # which only the loader misses: a phone may have it
    with refused("runner-does-not-start", "libpython.so"):
        host(phone, broken).train(settings, nothing, nothing, None)
    phone.write("getprop-ro.product.cpu.abilist", "arm64-v8a,armeabi-v7a\n")
    place = host(phone, runner)
    phone.write("getprop-ro.product.cpu.abilist", "arm64-v8a,armeabi-v7a\n")
    with refused("other-abi", "for x86_64", "runs arm64-v8a, armeabi-v7a"):
        place.train(settings, nothing, nothing, None)
    assert not (tmp_path / "run").exists()
    until(phone.is_clean, PATIENCE_S)
