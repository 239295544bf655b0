"""The processors that a plan places tasks on: clusters of equal cores, and accelerators that count as one core each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wattstep.devices.table import Device, Processor, Value
from wattstep.errors import InvalidValueError

CPU: Final = "cpu"
ACCELERATOR: Final = "accelerator"
# What a device's file does not say; each is in `Machine.assumptions` where it was used.
SATURATED_BY: Final = 0.5  # part of a cluster's cores that saturates its bandwidth
LAUNCH_S: Final = 5e-6
# A board's GPU with the maker's libraries; a phone's with OpenCL, of which the best kernels of Das et al. 2022 reach
# 7e10 FLOP/s where the GPU has some 9e11.
GPU_EFFICIENCY: Final = 0.35
OPENCL_EFFICIENCY: Final = 0.08
CORE_W: Final = 1.0
ACCELERATOR_W: Final = 5.0
MOST_CORES: Final = 1024


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Cores of one kind, or an accelerator.

    Attributes:
        name: E.g. "cpu-a57".
        kind: `CPU` or `ACCELERATOR`.
        cores: Number of them; 1 of an accelerator, which runs one task at a time.
        core_flops: Rate in FLOP/s of one core at best.
        core_bandwidth: Rate in B/s at which one core reads and writes memory at best.
        bandwidth: Rate in B/s of all its cores together.
        launch_s: Time in s that starting one operation takes.
        core_w: Power in W that each busy core adds.
        efficiency: Part of `core_flops` that convolutions and products reach; None: as assumed of CPUs.
        link: Rate in B/s of copies from and to the cores' memory; None: it is the same memory.
        copy_s: Time in s that starting such a copy takes.
    """

    name: str
    kind: str = CPU
    cores: int
    core_flops: float
    core_bandwidth: float
    bandwidth: float
    launch_s: float = LAUNCH_S
    core_w: float = CORE_W
    efficiency: float | None = None
    link: float | None = None
    copy_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processors that share a memory, but for accelerators with a link.

    Attributes:
        name: Of the device.
        title: For readers.
        clusters: CPU clusters first. Cores are numbered through all clusters in this order.
        bandwidth: Rate in B/s of the memory, for all clusters together.
        idle_w: Power in W while nothing runs.
        keeps_teams: Threads among which an operation is divided stay with the worker that began it, and keep their
            cores busy for some time after it, as OpenMP's do: workers that run side by side must keep their cores.
        most_memory: Times as much memory of what a step makes as in the framework's own order that a plan may
            hold at one time; None: any.
        assumptions: Values that nobody gave, in words.

    Raises:
        InvalidValueError: It has no cores, or a value that cannot be.
    """

    name: str
    title: str
    clusters: tuple[Cluster, ...]
    bandwidth: float
    idle_w: float = 0.0
    keeps_teams: bool = False
    most_memory: float | None = None
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not any(one.kind == CPU for one in self.clusters):
            raise InvalidValueError(f"{self.name}: it has no CPU cores to schedule on")
        for one in self.clusters:
            rates = (one.core_flops, one.core_bandwidth, one.bandwidth, self.bandwidth)
            if one.cores < 1 or min(rates) <= 0:
                raise InvalidValueError(f"{self.name}: {one.name} has no cores or no rate")

    @cached_property
    def count(self) -> int:
        """Cores of all clusters, accelerators as one each."""
        return sum(one.cores for one in self.clusters)

    def cores(self, cluster: int) -> range:
        """Numbers of a cluster's cores."""
        first = sum(one.cores for one in self.clusters[:cluster])
        return range(first, first + self.clusters[cluster].cores)

    @cached_property
    def cluster_of(self) -> tuple[int, ...]:
        """The cluster of each core, shape (count,)."""
        return tuple(n for n, one in enumerate(self.clusters) for _ in range(one.cores))

    def watts(self, cores: Sequence[int]) -> float:
        """Power in W that these cores add while they are busy."""
        return sum(self.clusters[self.cluster_of[core]].core_w for core in cores)

    def cpus(self) -> tuple[int, ...]:
        """The clusters that are of a CPU."""
        return tuple(n for n, one in enumerate(self.clusters) if one.kind == CPU)

    def memory_of(self, cluster: int) -> int:
        """Which memory a cluster computes in: -1 for the one that all share, else the cluster's own."""
        return -1 if self.clusters[cluster].link is None else cluster


def of_device(device: Device, *, precision: str = "fp32") -> Machine:
    """The machine that a device's file describes.

    Args:
        device: Of `devices/`.
        precision: Whose rates count.

    Raises:
        InvalidValueError: The file lacks a rate that times are worked out with.
    """
    assumptions: list[str] = []
    ordered = sorted(device.processors.items(), key=lambda item: item[1].kind != "cpu")
    cpus = sum(one.cores for _, one in ordered if one.kind == "cpu")
    clusters = tuple(
        _cluster(device, name, one, precision, cpus, assumptions) for name, one in ordered
    )
    pins = device.memory.bandwidth
    idle = device.power.idle
    if pins is None:
        assumptions.append("the memory gives all clusters together what the fastest takes alone")
    if idle is None:
        assumptions.append("the idle device's power is not known: energy is that of busy cores")
    return Machine(
        name=device.name,
        title=device.title,
        clusters=clusters,
        bandwidth=max(one.bandwidth for one in clusters) if pins is None else pins.value,
        idle_w=0.0 if idle is None else idle.value,
        assumptions=tuple(assumptions),
    )  # fmt: skip


def _cluster(
    device: Device,
    name: str,
    processor: Processor,
    precision: str,
    cpus: int,
    assumptions: list[str],
) -> Cluster:
    is_cpu = processor.kind == "cpu"
    cores = processor.cores if is_cpu else 1
    peak = _needed(device, f"processors.{name}.peak.{precision}", processor.peak.get(precision))
    bandwidth = _needed(
        device, f"processors.{name}.bandwidth", processor.bandwidth or device.memory.bandwidth
    )
    alone = bandwidth / max(1.0, cores * SATURATED_BY)
    if is_cpu and cores > 1:
        assumptions.append(
            f"{name}: {SATURATED_BY:.0%} of its cores saturate its bandwidth, so one reaches {alone:.3g} B/s"
        )
    if processor.launch is None:
        assumptions.append(f"{name}: an operation starts in {LAUNCH_S:g} s")
    part = device.power.parts.get("cpu" if is_cpu else "gpu")
    watts = None if part is None or part.dynamic is None else part.dynamic.value
    if watts is None:
        watts = CORE_W * cpus if is_cpu else ACCELERATOR_W
        assumptions.append(f"{name}: full load adds {watts:g} W")
    efficiency, link, copy_s = None, None, 0.0
    launch_s = LAUNCH_S if processor.launch is None else processor.launch.value
    if processor.link is not None:
        link = processor.link.value
    if not is_cpu:
        is_phone = device.board is None
        efficiency = OPENCL_EFFICIENCY if is_phone else GPU_EFFICIENCY
        assumptions.append(f"{name}: convolutions and products reach {efficiency:.0%} of its peak")
        if is_phone and link is None:
            link, copy_s = bandwidth / 2, launch_s
            assumptions.append(
                f"{name}: its buffers are copied at {link:.3g} B/s, half the memory's rate, each begun in {copy_s:g} s"
            )
    return Cluster(
        name=name,
        kind=CPU if is_cpu else ACCELERATOR,
        cores=cores,
        core_flops=peak / cores,
        core_bandwidth=alone,
        bandwidth=bandwidth,
        launch_s=launch_s,
        core_w=watts / cpus if is_cpu else watts,
        efficiency=efficiency,
        link=link,
        copy_s=copy_s,
    )


def _needed(device: Device, key: str, value: Value | None) -> float:
    if value is None:
        raise InvalidValueError(
            f"{device.name}: {key} is not known, without which no times can be worked out",
            id="device-lacks",
        )
    return value.value


def manycore(cores: int = 68) -> Machine:
    """The processor that Liu et al. used, of 68 cores, as its data sheet has it; or with fewer of its cores.

    An Intel Xeon Phi 7250: 1.4 GHz, two units of 16 fused multiply-adds, 16 GB of memory on the package that
    STREAM reads and writes at some 4.5e11 B/s, a core alone at some 1.2e10 B/s.
    """
    return Machine(
        name=f"manycore-{cores}",
        title=f"{cores} equal slow cores with wide vectors",
        clusters=(
            Cluster(
                name="cpu",
                cores=cores,
                core_flops=1.4e9 * 2 * 16 * 2,
                core_bandwidth=1.2e10,
                bandwidth=4.5e11,
                launch_s=1e-5,
                core_w=215.0 / 68 * 0.7,
            ),
        ),
        bandwidth=4.5e11,
        idle_w=215.0 * 0.3,
        assumptions=(
            "rates of a Xeon Phi 7250 by its data sheet; 30 % of its 215 W are there when nothing runs",
        ),
    )


def equal_cores(cores: int) -> Machine:
    """A machine of equal cores that share a bandwidth which half of them saturate.

    Args:
        cores: Number of them.
    """
    flops = bandwidth = 1e10
    return Machine(
        name=f"equal-{cores}",
        title=f"{cores} equal cores",
        clusters=(
            Cluster(
                name="cpu",
                cores=cores,
                core_flops=flops,
                core_bandwidth=bandwidth / max(1.0, cores * SATURATED_BY),
                bandwidth=bandwidth,
            ),
        ),
        bandwidth=bandwidth,
        assumptions=(
            f"{flops:.3g} FLOP/s a core, {bandwidth:.3g} B/s in all, {CORE_W:g} W a busy core: a machine that is made up",
        ),
    )


def made(name: str) -> Machine | None:
    """The machine that is named by its number of cores, "manycore-N" or "equal-N"; None: it is no such name.

    Raises:
        InvalidValueError: It has more cores than a machine has.
    """
    word, _, number = name.partition("-")
    if word not in ("manycore", "equal") or not (number.isdecimal() or name == "manycore"):
        return None
    count = int(number or 68)
    if not 1 <= count <= MOST_CORES:
        raise InvalidValueError(f"--on {name}: 1 to {MOST_CORES} cores", id="unknown-device")
    return manycore(count) if word == "manycore" else equal_cores(count)
