"""Two runs are alike, warned of or refused by one rule, whoever asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from docs.configuration_table import table
from tests.comparison.made import INFO
from tests.wording import assert_says

from wattstep.insight.compare.configuration import FACETS, refusal
from wattstep.insight.compare.configuration import configuration_of as of_side
from wattstep.insight.observe.concluding import notes_on_runs
from wattstep.insight.observe.evidence import Observed
from wattstep.insight.observe.groups import groups_of
from wattstep.schema.configuration import (
    FIELDS,
    MACHINE,
    Rule,
    configuration_of,
    unlike_machines,
    warnings,
)
from wattstep.schema.figures import Figures
from wattstep.schema.run_documents import MeasuringMachine, with_processor
from wattstep.schema.run_info import RunInfo
from wattstep.schema.workload import DataFacts
from wattstep.train.child.local_machine import this_machine, unlike, versions

DATA = DataFacts(name="MNIST", stand_in=False, stands_for=None, sha256="0", samples=9)
DEVICE = {**INFO.device, "memory": 3_900_000_000}
BASE = replace(
    INFO,
    device=DEVICE,
    data=DATA,
    engine="torch 2.13",
    environment={"python": "3.11", "numpy": "2.1"},
)
PLANNED = {"tasks": 9, "workers": 2, "threads": {"1": 9}, "pinned": True, "policy": "co-run"}
CHANGES: dict[str, dict[str, Any]] = {
    "workload": {"workload": "other"},
    "parameters": {"model": {"parameters": 5}},
    "device": {"device": {**DEVICE, "model": "another"}},
    "emulated on": {"device": {**DEVICE, "emulated_on": {"model": "laptop"}}},
    "gpu": {"device": {**DEVICE, "gpu": {"name": "Orin"}}},
    "memory": {"device": {**DEVICE, "memory": 8_000_000_000}},
    "clocks": {"device": {**DEVICE, "power_mode": "15W"}},
    "governor": {"options": {"governor": "energy, at most 10 % slower"}},
    "target": {"target": "emulate:jetson-tx2"},
    "engine": {"engine": "mnn 2.13"},
    "processor": {"processor": "cuda"},
    "threads": {"threads": 7},
    "batch": {"batch_size": 64},
    "precision": {"precision": "bf16"},
    "channels last": {"options": {"channels_last": True}},
    "compiled": {"options": {"compiled": True}},
    "policy": {"options": {"policy": "default"}},
    "values on OpenCL": {"options": {"opencl_mode": "copying"}},
    "checkpointing": {"options": {"checkpointing": True}},
    "layers that train": {"options": {"train_last": 2}},
    "lora": {"options": {"lora": 4}},
    "optimizer": {"options": {"optimizer": "adam"}},
    "offload": {"options": {"offload": True}},
    "optimizer kernel": {"options": {"optimizer_kernel": "fused"}},
    "threads between operations": {"options": {"interop_threads": 1}},
    "cores": {"options": {"cores": "0-1"}},
    "allocator": {"options": {"allocator": "keep"}},
    "accumulate": {"options": {"accumulate": 2}},
    "classes": {"options": {"classes": 100}},
    "image size": {"options": {"image_size": 64}},
    "frames per step": {"options": {"frames_per_step": 8}},
    "data": {"data": replace(DATA, stand_in=True)},
    "recording": {"imported": {"trace": {"file": "x"}}},
    "power model": {"power_model": {"name": "vcpu", "core": 3.0}},
    "idle power subtracted": {"options": {"subtract_idle": "before"}},
    "plan of operations": {"schedule": {"updates": [PLANNED]}},
    "version": {"engine": "torch 2.14"},
    "python": {"environment": {"python": "3.12", "numpy": "2.1"}},
    "numpy": {"environment": {"python": "3.11", "numpy": "2.2"}},
    "kernel": {"device": {**DEVICE, "kernel": "6.9"}},
    "system": {"device": {**DEVICE, "system": "Debian 13"}},
    "usable memory": {"device": {**DEVICE, "memory": 4_000_000_000}},
    "sampling": {"interval_s": 0.5},
    "tracing": {"trace": "every:9"},
    "left out": {"options": {"exclude": ["disturbed"]}},
    "arguments": {"options": {"arguments": "--width 32"}},
}


def observed(info: RunInfo, name: str) -> Observed:
    return Observed(path=name, info=info, metrics=Figures())


def test_every_field_is_tried() -> None:
    assert list(CHANGES) == list(FIELDS)


@pytest.mark.parametrize("name", list(FIELDS))
def test_all_who_ask_whether_runs_are_alike_follow_the_rule_of_the_field(name: str) -> None:
    field, other = FIELDS[name], replace(BASE, **CHANGES[name])
    a, b = configuration_of(BASE), configuration_of(other)
    goes_along = ["usable memory"] if name == "memory" else []
    assert [key for key in FIELDS if a[key] != b[key]] == [name, *goes_along]

    refused = field.rule is Rule.REFUSE
    reason = refusal(of_side(BASE), of_side(other), frozenset(), ("A", "B"))
    assert (reason is not None) is refused
    if refused:
        assert f"--across {field.facet}" in str(reason)
        assert field.facet in FACETS

    runs = [observed(BASE, "a"), observed(other, "b")]
    apart = field.rule in (Rule.REFUSE, Rule.ENERGY) and name != "batch"
    assert (len(groups_of(runs)) == 2) is apart

    warned = warnings([a, b])
    assert bool(warned) is (field.rule is Rule.WARN)
    assert [note for note in notes_on_runs(runs) if note.startswith("different")] == warned


def test_an_opencl_device_that_is_the_machines_cpu_is_its_cpu() -> None:
    """A GPU is not: its name and the processor set a run apart."""
    facts = {"name": "pthread", "shares_memory": True}
    by_kind = {
        kind: replace(
            BASE, processor="opencl", device={**with_processor(DEVICE, {**facts, "kind": kind})}
        )
        for kind in ("cpu", "gpu")
    }
    plain = configuration_of(replace(BASE, processor="cpu"))
    assert configuration_of(by_kind["cpu"]) == plain
    assert set(configuration_of(by_kind["gpu"]).differences(plain, *Rule)) == {"gpu", "processor"}


@pytest.mark.parametrize("key", [*MACHINE, "clocks", "gpus", "memory"])
def test_a_sweep_and_a_comparison_find_the_same_machines_unlike(key: str) -> None:
    this, that = {"gpus": (["Orin"], ["T4"]), "memory": (4 << 30, 6 << 30)}.get(key, ("a", "b"))
    here: MeasuringMachine = {**this_machine(), key: this}  # type: ignore[misc]
    there: MeasuringMachine = {**here, key: that}  # type: ignore[misc]
    sides = [of_side(replace(BASE, device=each)) for each in (here, there)]
    (differing,) = sides[0].differences(sides[1], Rule.REFUSE)
    (note,) = unlike_machines(here, there)
    assert note.startswith(f"{FIELDS[differing].words} was ")
    assert unlike_machines(here, here) == []


def test_memory_that_a_kernel_keeps_makes_no_other_machine() -> None:
    """MemTotal of an Orin Nano of 8 GB under JetPack 5 and 6, and of the one of 4 GB."""
    before, after, other = ({"memory": size << 20} for size in (6481, 7620, 3420))
    assert unlike_machines(before, after) == []
    (line,) = unlike_machines(before, other)
    assert_says(line, "memory", "was 8 GiB", "now 4 GiB")
    runs = [configuration_of(replace(BASE, device=each)) for each in (before, after)]
    (line,) = warnings(runs)
    assert_says(line, "memory", "6.33 GiB and 7.44 GiB")


def test_what_one_machine_does_not_tell_makes_no_other_machine() -> None:
    assert unlike_machines({"model": "board"}, {"model": "board", "gpus": ["T4"]}) == []


def test_a_sweep_warns_of_the_machine_as_the_table_says() -> None:
    of_machine = {name for name, field in FIELDS.items() if field.of_machine}
    warned = {name for name in of_machine if FIELDS[name].rule is Rule.WARN}
    assert warned <= versions().keys()
    assert FIELDS["version"].rule is Rule.WARN
    assert unlike({**versions(), "torch": "0"}, {**versions(), "torch": "1"}) == [
        "torch was 0, now 1"
    ]


def test_the_documents_have_the_table() -> None:
    page = Path(__file__).parents[2] / "docs" / "comparing.md"
    assert table() in page.read_text(encoding="utf-8")
