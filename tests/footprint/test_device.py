"""What a GPU's memory is for, with numbers by hand: no machine here has one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tests.refusals import refused

from wattstep import engines
from wattstep.recorded.device_memory import DevicePeak, peak_of
from wattstep.report import memory_tables
from wattstep.schema.footprint import Footprint
from wattstep.schema.step_memory import AllocatorCache
from wattstep.train.memory import FootprintSettings
from wattstep.train.memory.document import breakdown, describe_life
from wattstep.train.memory.life import Life, Stage
from wattstep.train.memory.step import StepFootprint

MB = 10**6
SETTINGS = FootprintSettings(workload="lenet", batch_size=4, processor="cuda")

STEP = StepFootprint(
    tensors={"parameters": 100 * MB, "gradients": 60 * MB, "feature_maps": 200 * MB},
    highest={"parameters": 100 * MB, "gradients": 100 * MB, "feature_maps": 250 * MB},
    demand=401 * MB,
    kernel_scratch=30 * MB,
    untouched={},
    library_pages=0,
    at_rest=8 * MB,
    phase="backward",
    operation="aten.convolution_backward.default",
    layer="features.0",
    operations=90,
    trimmed=True,
    cache=AllocatorCache(free=49 * MB, fragments=9 * MB, largest=40 * MB, unusable=5 * MB),
)
# Handed out: 360 of tensors, 30 of scratch space, 8 kept, and 2 of rounding. From the driver: 450.
ALLOCATOR = "torch's allocator of the GPU's memory"
PEAK = DevicePeak(
    name="Orin",
    allocated=400 * MB,
    reserved=450 * MB,
    outside=300 * MB,
    reason=None,
    allocator=ALLOCATOR,
)
LIFE = Life(
    about={"workload": "lenet", "title": "LeNet-5", "engine": "torch 2"},
    stages=(
        Stage(name="steady step", before=1, peak=900 * MB, after=1, device_peak=450 * MB),
        Stage(name="saving", before=1, peak=950 * MB, after=1, device_peak=420 * MB),
    ),
    step=STEP,
    peak=900 * MB,
    device=PEAK,
    framework_at_rest=1,
    prepared_at_rest=2,
)


def test_a_gpus_memory_is_divided_exactly() -> None:
    parts = {name: part.value for name, part in breakdown(LIFE).items()}
    assert parts == {
        "parameters": 100 * MB, "gradients": 60 * MB, "feature_maps": 200 * MB,
        "kernel_scratch": 30 * MB, "kept_by_kernels": 8 * MB, "outside_allocator": 300 * MB,
        "allocator_free": 50 * MB, "unexplained": 2 * MB,
    }  # fmt: skip
    assert sum(size or 0 for size in parts.values()) == 750 * MB == PEAK.whole


def test_what_the_driver_does_not_say_is_left_out_of_the_peak_and_named() -> None:
    reason = "the driver does not name this process"
    life = replace(LIFE, device=replace(PEAK, outside=None, reason=reason))
    parts = breakdown(life)
    assert parts["outside_allocator"].reason == reason
    assert sum(part.value or 0 for part in parts.values()) == 450 * MB
    peak = describe_life(SETTINGS, life).to_dict()["peak_memory"]
    assert peak["value"] == 450 * MB
    assert "is not known" in peak["method"]


def test_the_peak_of_the_process_stands_beside_that_of_the_gpu() -> None:
    document = json.loads(json.dumps(describe_life(SETTINGS, LIFE).to_dict()))
    assert (document["processor"], document["gpu"]) == ("cuda", "Orin")
    assert document["peak_memory"]["value"] == 750 * MB
    assert document["host_peak_memory"]["value"] == 900 * MB
    assert document["intermediate_data"]["value"] == 230 * MB
    assert [s["device_peak"]["value"] for s in document["stages"]] == [450 * MB, 420 * MB]
    assert {s["device_peak"]["source"] for s in document["stages"]} == {ALLOCATOR}


def test_a_gpus_tables_have_the_process_and_the_stages_on_the_gpu() -> None:
    documents = [describe_life(SETTINGS, LIFE)]
    totals = {row.label: row.cells[0] for row in memory_tables.total_rows(documents)}
    assert {name: cell and cell.value for name, cell in totals.items()} == {
        "Peak": "750 MB", "Peak of the process": "900 MB", "Intermediate data": "230 MB",
    }  # fmt: skip
    rows = {row.key: row.cells[0] for row in memory_tables.device_rows(documents)}
    assert {name: cell and cell.value for name, cell in rows.items()} == {
        "steady step": "450 MB", "saving": "420 MB",
    }  # fmt: skip
    assert "Orin" in memory_tables.heading(documents)
    rows = {row.label: row.cells[0] for row in memory_tables.cache_rows(documents)}
    assert {name: cell and cell.value for name, cell in rows.items()} == {
        "Kept free": "49.0 MB", "Fragments": "9.00 MB", "Largest free block": "40.0 MB",
        "Too small": "5.00 MB",
    }  # fmt: skip


def test_a_document_of_an_earlier_version_has_no_free_memory_of_the_allocator() -> None:
    document = json.loads(json.dumps(describe_life(SETTINGS, LIFE).to_dict()))
    assert Footprint.from_dict(document).allocator_cache["unusable"].value == 5 * MB
    del document["allocator_cache"]
    assert Footprint.from_dict(document).allocator_cache == {}


def test_a_life_on_a_gpu_survives_the_way_through_a_pipe() -> None:
    assert Life.from_dict(json.loads(json.dumps(LIFE.to_dict()))) == LIFE


def test_a_gpu_that_ran_out_before_the_steps_has_no_peak() -> None:
    stage = Stage(name="first step", failed="memory ran out: CUDA out of memory")
    document = describe_life(SETTINGS, Life(about={}, stages=(stage,))).to_dict()
    assert document["outcome"] == "out of memory"
    assert document["peak_memory"]["status"] == "missing"
    assert document["memory_breakdown"] == {}


class Memory:
    """A GPU whose driver counts 720 MB when the allocator has 420 MB of them."""

    peak_allocated, peak_reserved, reserved = 400 * MB, 450 * MB, 420 * MB

    def name(self) -> str:
        return "Orin"

    def used_by_process(self) -> tuple[int | None, str | None]:
        return 720 * MB, None


def test_what_lies_outside_the_allocator_is_the_drivers_figure_less_the_allocators() -> None:
    memory: Any = Memory()
    assert peak_of(memory, ALLOCATOR) == PEAK


def test_no_gpu_is_said_in_one_line_and_the_cpu_has_none() -> None:
    import torch

    assert engines.find("torch").device_memory("cpu") is None
    if not torch.cuda.is_available():
        with refused("no-gpu", "--processor cuda", "torch"):
            engines.find("torch").device_memory("cuda")
