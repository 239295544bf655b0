"""Configuration of a run, field by field, and the rule for runs that differ in one.

One table decides for comparisons, observations and sweeps alike
(docs/comparing.md, "Which runs are alike").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from wattstep.schema.run_documents import DeviceFacts, MachineFacts
from wattstep.schema.run_report import RunFacts

NOT_TOLD: Final = "not known"
ITS_OWN: Final = "its own"  # of what most runs have nothing to say of
# Of a machine: two are the same where all of these are.
MACHINE: Final = ("model", "board", "cpu", "architecture", "cores")

# Of two machines they differ as a matter of course.
OF_SYSTEM: Final = ("kernel", "system", "usable memory")


class Rule(str, Enum):
    """Consequence of a difference."""

    REFUSE = "refuse"  # another configuration: never taken together, compared only if that is meant
    ENERGY = "energy"  # another configuration where energy and power are concerned
    WARN = "warn"  # the same configuration; said beside whatever is made of both


@dataclass(frozen=True, kw_only=True)
class Field:
    """Field in which runs may differ.

    Attributes:
        words: What it is, for sentences.
        rule: What a difference means.
        read: Its value of a run in words; `NOT_TOLD` where the run does not say.
        of_machine: Its value of a machine alone, where it is one's; None: it is not.
        facet: Name under which a comparison may be told that the difference is meant; "" for none.
        chosen: Whether it is a setting of the training: in one folder of runs it differs because
            somebody chose so.
        of_model: Whether it belongs to the model: models are compared on one device across these.
    """

    words: str
    rule: Rule
    read: Callable[[RunFacts], str]
    of_machine: Callable[[DeviceFacts], str] | None = None
    facet: str = ""
    chosen: bool = False
    of_model: bool = False


def _as_text(value: object) -> str:
    return NOT_TOLD if value is None or value == "" else str(value)


def _option(name: str) -> Callable[[RunFacts], str]:
    def read(info: RunFacts) -> str:
        value = info.options.get(name)
        return ITS_OWN if value is None else str(value)

    return read


def machine(device: MachineFacts) -> str:
    """A machine in words: model, board, processor, cores."""
    facts: Mapping[str, object] = device
    known = {key: facts[key] for key in MACHINE if facts.get(key) is not None}
    parts = [f"{value} cores" if key == "cores" else str(value) for key, value in known.items()]
    return ", ".join(parts) or NOT_TOLD


def _parameters(info: RunFacts) -> str:
    count = info.model.get("parameters")
    return ITS_OWN if count is None else f"{count:,} parameters"


def _data(info: RunFacts) -> str:
    if info.data is None:
        return NOT_TOLD
    return f"{info.data.name}{' (stand-in)' if info.data.stand_in else ''}"


def clocks(device: DeviceFacts) -> str:
    """The clock mode of a device in words: power mode, governors."""
    if "clocks" in device:
        return device["clocks"]
    mode = device.get("power_mode")
    kinds = sorted({str(kind) for kind in (device.get("governors") or {}).values()})
    parts = [f"power mode {mode}"] * (mode is not None)
    parts += [f"governor {'/'.join(kinds)}"] * bool(kinds)
    return ", ".join(parts) or NOT_TOLD


def _emulated_on(device: DeviceFacts) -> str:
    own = device.get("emulated_on") or {}
    return machine(own) if own else ITS_OWN


def _gpu(device: DeviceFacts) -> str:
    """The GPU that trained, else those that are there; of trainings on the CPU none is told."""
    name = (device.get("gpu") or {}).get("name") or ", ".join(device.get("gpus") or ())
    return name or ITS_OWN


def _memory(device: DeviceFacts) -> str:
    """Memory as it is built in: the next of 1, 1.5, 2, 3, 4, 6, 8, ... GiB.

    A system keeps a part for itself and the GPU, another release of it another part.
    """
    size = device.get("memory")
    if not size:
        return ITS_OWN
    gib = size / 2**30
    power: float = 2.0 ** math.ceil(math.log2(gib))
    return f"{power * 3 / 4 if gib <= power * 3 / 4 else power:g} GiB of memory"


def _usable_memory(device: DeviceFacts) -> str:
    size = device.get("memory")
    return f"{size / 2**30:.3g} GiB" if size else NOT_TOLD


def _power_model(info: RunFacts) -> str:
    if info.power_model is None:
        return "sensors"
    parts = [f"{key} {value}" for key, value in info.power_model.items() if key != "name"]
    return " ".join([str(info.power_model.get("name")), *(["with"] if parts else []), *parts])


def _engine(info: RunFacts) -> str:
    """Name of the engine; an import may not know it."""
    return info.engine if info.engine == NOT_TOLD else _as_text(info.engine.partition(" ")[0])


def _version(info: RunFacts) -> str:
    return info.engine if info.engine == NOT_TOLD else _as_text(info.engine.partition(" ")[2])


def _of_environment(name: str) -> Callable[[RunFacts], str]:
    return lambda info: _as_text(info.environment.get(name))


def _of_device(name: str) -> Callable[[DeviceFacts], str]:
    return lambda device: _as_text(device.get(name))


def _processor(info: RunFacts) -> str:
    """What trained: an OpenCL device that is the machine's CPU is its CPU."""
    return "cpu" if "opencl" in info.device else _as_text(info.processor)


def _compiled(info: RunFacts) -> str:
    return "compiled" if info.options.get("compiled") else ITS_OWN


def _plan_of_operations(info: RunFacts) -> str:
    """Who made the plans of a step's updates, for how many workers; `ITS_OWN` where the framework ran them."""
    plans = [
        f"{each['policy'] or 'given'}, {each['workers']} worker{'' if each['workers'] == 1 else 's'}"
        for each in info.schedule.get("updates", ())
    ]
    return "; ".join(dict.fromkeys(plans)) or ITS_OWN


def _sampling(info: RunFacts) -> str:
    return f"{info.interval_s * 1e3:g} ms" if info.interval_s else NOT_TOLD


def _left_out(info: RunFacts) -> str:
    return ", ".join(info.options.get("exclude") or ["nothing"])


def _field(words: str, rule: Rule, read: Callable[[RunFacts], str], **more: Any) -> Field:
    return Field(words=words, rule=rule, read=read, **more)


def _machine_field(
    words: str, rule: Rule, tell: Callable[[DeviceFacts], str], facet: str = ""
) -> Field:
    return _field(words, rule, lambda info: tell(info.device), of_machine=tell, facet=facet)


_REFUSE, _ENERGY, _WARN = Rule.REFUSE, Rule.ENERGY, Rule.WARN
FIELDS: Final[Mapping[str, Field]] = MappingProxyType(
    {
        "workload": _field("the workload", _REFUSE, lambda info: info.workload, facet="workload", chosen=True, of_model=True),
        "parameters": _field("the number of parameters", _REFUSE, _parameters, facet="workload", chosen=True, of_model=True),
        "device": _machine_field("the device", _REFUSE, machine, facet="device"),
        "emulated on": _machine_field("the machine that it is emulated on", _REFUSE, _emulated_on, facet="device"),
        "gpu": _machine_field("the GPU", _REFUSE, _gpu, facet="device"),
        "memory": _machine_field("the memory built in", _REFUSE, _memory, facet="device"),
        "clocks": _machine_field("the clock mode", _REFUSE, clocks, facet="clocks"),
        "governor": _field("what governs the clocks", _REFUSE, _option("governor"), facet="clocks"),
        "target": _field("where the sensors are", _REFUSE, lambda info: _as_text(info.target), facet="target"),
        "engine": _field("the engine", _REFUSE, _engine, facet="engine"),
        "processor": _field("the processor", _REFUSE, _processor, facet="processor", chosen=True),
        "threads": _field("the number of threads", _REFUSE, lambda info: _as_text(info.threads), facet="threads", chosen=True),
        "batch": _field("the batch size", _REFUSE, lambda info: _as_text(info.batch_size), facet="batch", chosen=True),
        "precision": _field("the precision", _REFUSE, lambda info: _as_text(info.precision), facet="precision", chosen=True),
        "channels last": _field("whether channels lie last", _REFUSE, _option("channels_last"), facet="options", chosen=True),
        "compiled": _field("whether the model is compiled", _REFUSE, _compiled, facet="engine", chosen=True),
        "policy": _field("the policy that plans operations", _REFUSE, _option("policy"), facet="options", chosen=True),
        "values on OpenCL": _field("how values move between host and device", _REFUSE, _option("opencl_mode"), facet="engine", chosen=True),
        "checkpointing": _field("whether activations are computed again", _REFUSE, _option("checkpointing"), facet="options", chosen=True),
        "layers that train": _field("the layers that train", _REFUSE, _option("train_last"), facet="options", chosen=True),
        "lora": _field("the rank of LoRA", _REFUSE, _option("lora"), facet="options", chosen=True),
        "optimizer": _field("the optimizer", _REFUSE, _option("optimizer"), facet="options", chosen=True),
        "offload": _field("whether activations leave memory", _REFUSE, _option("offload"), facet="options", chosen=True),
        "optimizer kernel": _field("how the optimizer goes through parameters", _REFUSE, _option("optimizer_kernel"), facet="options", chosen=True),
        "threads between operations": _field("the number of threads between operations", _REFUSE, _option("interop_threads"), facet="threads", chosen=True),
        "cores": _field("the cores that it may run on", _REFUSE, _option("cores"), facet="threads", chosen=True),
        "allocator": _field("the allocator", _REFUSE, _option("allocator"), facet="options", chosen=True),
        "accumulate": _field("accumulation", _REFUSE, _option("accumulate"), facet="options", chosen=True),
        "classes": _field("the classes", _REFUSE, _option("classes"), facet="options", chosen=True, of_model=True),
        "image size": _field("the image size", _REFUSE, _option("image_size"), facet="options", chosen=True, of_model=True),
        "frames per step": _field("the frames of a step", _REFUSE, _option("frames_per_step"), facet="options", chosen=True),
        "data": _field("the data", _REFUSE, _data, facet="data", of_model=True),
        "recording": _field("how it was recorded", _REFUSE, lambda info: "imported" if info.imported else "by wattstep", facet="recording"),
        "power model": _field("where energy comes from", _ENERGY, _power_model),
        "idle power subtracted": _field("the idle power subtracted", _ENERGY, lambda info: _as_text(info.options.get("subtract_idle") or ITS_OWN)),
        # What came of one policy: it follows from times that are measured anew in each run.
        "plan of operations": _field("the plan of operations", _WARN, _plan_of_operations),
        "version": _field("the version of the engine", _WARN, _version),
        "python": _field("the version of python", _WARN, _of_environment("python")),
        "numpy": _field("the version of numpy", _WARN, _of_environment("numpy")),
        "kernel": _machine_field("the kernel", _WARN, _of_device("kernel")),
        "system": _machine_field("the system", _WARN, _of_device("system")),
        "usable memory": _machine_field("the memory that the system leaves", _WARN, _usable_memory),
        "sampling": _field("the sampling interval", _WARN, _sampling),
        "tracing": _field("how often steps are traced", _WARN, lambda info: _as_text(info.trace)),
        "left out": _field("the steps left out", _WARN, _left_out),
        # Not refused: a seed is an argument, too, and repetitions differ by it.
        "arguments": _field("the arguments of the script", _WARN, _option("arguments")),
    }
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """The fields of a run, each in words; hashable.

    Attributes:
        values: Name of the field and its value, in the order of `FIELDS`.
        state: Of the device, as a sweep had set it; "": as it was.
    """

    values: tuple[tuple[str, str], ...]
    state: str = ""

    def __getitem__(self, name: str) -> str:
        return dict(self.values)[name]

    @property
    def named_values(self) -> tuple[tuple[str, str], ...]:
        """Names and values, with the state of the device where one was set."""
        return (*self.values, ("state", self.state)) if self.state else self.values

    def limited(self, *rules: Rule) -> Configuration:
        """With the fields of these rules only."""
        own = tuple((name, value) for name, value in self.values if FIELDS[name].rule in rules)
        return Configuration(values=own, state=self.state)

    def differences(self, other: Configuration, *rules: Rule) -> dict[str, tuple[str, str]]:
        """By field of these rules: what it is here and there, where that is not the same."""
        mine, theirs = (
            dict(self.limited(*rules).named_values),
            dict(other.limited(*rules).named_values),
        )
        return {
            name: (mine.get(name, ""), theirs.get(name, ""))
            for name in dict.fromkeys([*mine, *theirs])
            if mine.get(name) != theirs.get(name)
        }


def configuration_of(info: RunFacts, state: str = "") -> Configuration:
    """Configuration of a run.

    Args:
        info: Its description.
        state: Of the device, as a sweep had set it; "": as it was.
    """
    values = tuple((name, field.read(info)) for name, field in FIELDS.items())
    return Configuration(values=values, state=state)


def values_of_machine(device: DeviceFacts, rule: Rule) -> dict[str, str]:
    """Fields of this rule that a machine alone has, in words; what it does not tell is left out."""
    fields = {name: field.of_machine for name, field in FIELDS.items() if field.rule is rule}
    values = {name: tell(device) for name, tell in fields.items() if tell is not None}
    return {name: value for name, value in values.items() if value not in (NOT_TOLD, ITS_OWN)}


def unlike_machines(before: DeviceFacts, now: DeviceFacts, but: Collection[str] = ()) -> list[str]:
    """In what two machines are not the same, in words; what one of them does not tell does not count.

    Args:
        before: One.
        now: The other.
        but: Fields that may differ, as the clocks, which the states of a sweep set.
    """
    mine, theirs = (values_of_machine(each, Rule.REFUSE) for each in (before, now))
    return [
        f"{FIELDS[name].words} was {value}, now {theirs[name]}"
        for name, value in mine.items()
        if name not in but and theirs.get(name, value) != value
    ]


def warnings(configurations: Sequence[Configuration]) -> list[str]:
    """In what runs differ that may be taken together all the same, a line each."""
    notes = []
    machines = [name for name, field in FIELDS.items() if field.facet == "device"]
    one_machine = len({tuple(each[name] for name in machines) for each in configurations}) == 1
    for name, field in FIELDS.items():
        values = sorted({configuration[name] for configuration in configurations})
        if field.rule is not Rule.WARN or len(values) < 2:
            continue
        if name not in OF_SYSTEM or one_machine:
            notes.append(f"different {field.words.removeprefix('the ')}: {' and '.join(values)}")
    return notes
