"""One account of the memory that CPU and GPU of a board share: nothing twice, and what was left."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from tests.gpu.played import Cuda, Gpu
from tests.gpu.test_recorder import MB, MS, PlayedEngine, RealHost

from wattstep.record.recorder import Recorder
from wattstep.recorded.device_memory import shared_account
from wattstep.run.run import Run
from wattstep.schema.figure import Figure, Status

GIB = 2**30


def of(size: float) -> Figure:
    return Figure(value=size, unit="B", status=Status.MEASURED)


def test_each_byte_of_the_board_stands_in_one_category() -> None:
    """8 GiB, of which 1 are left; the GPU has 3.5, the process 2 beside them, others the remaining 1.5."""
    found = shared_account(
        {"parameters": of(1 * GIB), "activations": of(2.5 * GIB)},
        total=8 * GIB, left=1 * GIB, resident=2 * GIB,
    )  # fmt: skip
    assert {name: figure.value / GIB for name, figure in found.items()} == {
        "gpu_parameters": 1, "gpu_activations": 2.5, "training_on_host": 2,
        "other_programs_and_system": 1.5, "left": 1,
    }  # fmt: skip


def test_what_is_resident_and_the_gpu_s_counts_once() -> None:
    """7 GiB are in use: with 4 of the GPU no more than 3 can be the process's, whatever it is told to have."""
    found = shared_account({"all": of(4 * GIB)}, total=8 * GIB, left=1 * GIB, resident=5 * GIB)
    assert found["training_on_host"].value == 3 * GIB
    assert found["other_programs_and_system"].value == 0
    assert sum(figure.value for figure in found.values()) == 8 * GIB


def test_what_the_allocator_gave_back_before_is_not_in_use_then() -> None:
    """2 GiB are in use; the GPU had 3 at its most, 1.5 of them free in the allocator's cache."""
    found = shared_account(
        {"parameters": of(1.5 * GIB), "allocator_free": of(1.5 * GIB)},
        total=8 * GIB, left=6 * GIB, resident=1 * GIB,
    )  # fmt: skip
    assert {name: figure.value / GIB for name, figure in found.items()} == {
        "gpu_parameters": 1.5, "gpu_allocator_free": 0.5, "training_on_host": 0,
        "other_programs_and_system": 0, "left": 6,
    }  # fmt: skip
    assert "gone back" in str(found["gpu_allocator_free"].method)


def test_a_peak_of_another_moment_is_no_part_of_the_account() -> None:
    found = shared_account(
        {"parameters": of(3 * GIB)}, total=8 * GIB, left=6 * GIB, resident=1 * GIB
    )
    assert found["gpu_parameters"].missing
    assert "at another moment" in str(found["gpu_parameters"].reason)
    known = {name: each.value / GIB for name, each in found.items() if not each.missing}
    assert known == {"training_on_host": 1, "other_programs_and_system": 1, "left": 6}


@pytest.fixture(scope="module")
def tegra(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Gpu]:
    """A training on an emulated Orin Nano, whose GPU says that the memory is the host's."""
    gpu = Gpu(RealHost(0), integrated=True, total=8 * GIB)
    gpu.allocate(20 * MB)
    path = tmp_path_factory.mktemp("tegra") / "run"
    target = "emulate:jetson-orin-nano"
    with Recorder(path, trace="none", target=target, engine=PlayedEngine(Cuda(gpu))) as recorder:
        until = time.monotonic() + 2.5  # the memory is read twice a second
        while time.monotonic() < until:
            with recorder.step(samples=4):
                gpu.allocate(30 * MB)
                gpu.launch("kernel", 6 * MS)
                gpu.allocate(-30 * MB)
                gpu.wait_until(gpu.current.done_ns)
    return Run(path), gpu


def test_a_run_on_a_board_of_one_memory_has_one_account(tegra: tuple[Run, Gpu]) -> None:
    run, gpu = tegra
    account, left = run.metrics["shared_memory"], run.metrics["system_memory_left"]
    total = np.nanmax(run.series.raw("system.total_memory")[1])
    assert sum(figure.value for figure in account.values()) == pytest.approx(total, rel=1e-12)
    assert min(figure.value for figure in account.values()) >= 0
    on_gpu = sum(figure.value for name, figure in account.items() if name.startswith("gpu_"))
    assert on_gpu == gpu.most_reserved == run.metrics["device_peak_memory"].value
    available = run.series.raw("system.available_memory")[1]
    assert left.value == account["left"].value == np.nanmin(available)
    # What is emulated is no measurement.
    assert left.status is account["left"].status is Status.MODELLED


def test_it_is_shown(tegra: tuple[Run, Gpu]) -> None:
    document = tegra[0].document()
    assert document["failures"] == []
    assert document["metrics"]["system_memory_left"]["value"] > 0
    assert document["metrics"]["shared_memory"]["left"]["unit"] == "B"


def test_where_the_gpu_has_memory_of_its_own_there_is_no_such_account(tmp_path: Path) -> None:
    gpu = Gpu(RealHost(0))
    with Recorder(tmp_path / "run", trace="none", engine=PlayedEngine(Cuda(gpu))) as recorder:
        for _ in range(8):
            with recorder.step(samples=4):
                gpu.launch("kernel", 2 * MS)
                gpu.wait_until(gpu.current.done_ns)
    metrics = Run(tmp_path / "run").metrics
    assert "device_peak_memory" in metrics
    assert "shared_memory" not in metrics
