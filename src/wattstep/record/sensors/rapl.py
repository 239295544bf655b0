"""Energy counters of x86 processors (RAPL): packages, what is inside them, memory, the platform."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wattstep.record.sensors import present_or_absent, read_integer, read_text
from wattstep.schema.channel import Absent, Channel, Domain, Present, Sensor, SensorRead

FOLDER = "sys/class/powercap"
DOMAINS: Final[Mapping[str, Domain]] = {
    "package": "soc",
    "core": "cpu",
    "uncore": "gpu",
    "dram": "memory",
    "psys": "system",
}


@dataclass(frozen=True, kw_only=True)
class Zone:
    """Zone with a counter of energy.

    Attributes:
        name: "package-0", or with the zone that contains it "package-0.core".
        kind: Part that it measures, a key of `DOMAINS`, or its own name.
        path: The file of the counter, in microjoules.
        value: Value now, or the reason why there is none.
        wrap: Value at which the counter starts again from 0.
    """

    name: str
    kind: str
    path: Path
    value: int | Absent
    wrap: int | None


class Rapl(Sensor):
    """Energy by zone. A package contains its core and uncore, psys contains the packages.

    So the role "energy_total" is given only to zones that may be added: psys alone where there
    is one, else packages and memory, and none of these if one of them cannot be read. All other
    zones are "energy_part". On AMD the core zone may speak of a single core.
    """

    name = "rapl"
    description = "energy of the processor's packages, cores, graphics and memory"

    def probe(self, root: Path, pid: int) -> Present | Absent:
        """Finds the zones, each once, and whether this user may read them."""
        zones = [parse_zone(folder) for folder in find_folders(root)]
        unique = keep_one_each(zones)
        totals = choose_totals(unique)
        return present_or_absent(
            (zone_read(root, zone, totals) for zone in unique),
            otherwise=f"no /{FOLDER}/intel-rapl*: processors other than x86 have none, virtual "
            "machines and containers usually hide it",
        )


def find_folders(root: Path) -> list[Path]:
    """The zones' folders, each device once, those of the processor before their MMIO twins."""
    folder = root / FOLDER
    paths = [*folder.glob("intel-rapl*:*"), *folder.glob("intel-rapl*:*/intel-rapl*:*")]
    paths.sort(key=lambda path: ("mmio" in path.name, len(path.parts), path.name))
    by_device: dict[Path, Path] = {}
    for path in paths:
        by_device.setdefault(path.resolve(), path)
    return list(by_device.values())


def parse_zone(folder: Path) -> Zone:
    """Zone by its folder."""
    own = zone_name(folder)
    container = folder.name.rpartition(":")[0]
    if ":" in container:
        flat = folder.parent.name != container
        outer = zone_name(folder.parent / container if flat else folder.parent)
        name = f"{outer}.{own}"
    else:
        name = own
    kind = re.split(r"[-\d]", own)[0]
    value = read_integer(folder / "energy_uj")
    if kind == "psys" and value == 0:
        value = Absent(reason=f"{folder / 'energy_uj'} stands at 0: this board does not wire it")
    wrap = read_integer(folder / "max_energy_range_uj")
    return Zone(
        name=name,
        kind=kind,
        path=folder / "energy_uj",
        value=value,
        wrap=None if isinstance(wrap, Absent) else wrap,
    )


def zone_name(folder: Path) -> str:
    """Name of the zone by itself; its folder's name where it says nothing."""
    text = read_text(folder / "name")
    return folder.name.replace(":", "_") if isinstance(text, Absent) else text


def keep_one_each(zones: Sequence[Zone]) -> list[Zone]:
    """The zones without twins: the first of a name that can be read, else the first."""
    by_name: dict[str, Zone] = {}
    for zone in zones:
        if zone.name not in by_name or isinstance(by_name[zone.name].value, Absent):
            by_name[zone.name] = zone
    return list(by_name.values())


def choose_totals(zones: Sequence[Zone]) -> frozenset[str]:
    """The kinds of zones that add up to the most of the machine that is measured."""
    if any(zone.kind == "psys" and isinstance(zone.value, int) for zone in zones):
        return frozenset({"psys"})
    wanted = frozenset({"package", "dram"})
    gaps = any(zone.kind in wanted and isinstance(zone.value, Absent) for zone in zones)
    return frozenset() if gaps else wanted


def zone_read(root: Path, zone: Zone, totals: frozenset[str]) -> SensorRead | Absent:
    """Read of a zone as a counter of joules, or what to do to be let in."""
    if isinstance(zone.value, Absent):
        return explain(zone.value, zone.path)
    channel = Channel(
        name=f"rapl.{zone.name}.energy",
        unit="J",
        kind="counter",
        domain=DOMAINS.get(zone.kind, "system"),
        role="energy_total" if zone.kind in totals else "energy_part",
        source=f"/{zone.path.relative_to(root)}",
        scale=1e-6,
        wrap=zone.wrap,
    )
    # The processor updates about every millisecond: less than 10 ms of it is noise.
    return SensorRead(
        path=str(zone.path), parser="number", channels=(channel,), least_period_s=0.01
    )


def explain(problem: Absent, path: Path) -> Absent:
    """Reason why the counter cannot be had; a missing right with its remedy."""
    if "permission denied" not in problem.reason:
        return problem
    return Absent(
        reason="the energy counters are for root only (since 2020, CVE-2020-8694): "
        f"sudo chmod o+r {path.parent.parent}/intel-rapl*:*/energy_uj, until the next start"
    )
