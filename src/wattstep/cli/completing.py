"""What a shell completes: workloads, devices, boards, and runs of the folder that is typed."""

from __future__ import annotations

from pathlib import Path


def workloads(incomplete: str) -> list[str]:
    """Names of workloads that begin so."""
    from wattstep import workloads as known

    return _beginning(known.names(), incomplete)


def devices(incomplete: str) -> list[str]:
    """Names of devices that predictions know and that begin so."""
    from wattstep import devices as known

    return _beginning(known.names(), incomplete)


def boards(incomplete: str) -> list[str]:
    """Names of boards that are known by a table and begin so."""
    from wattstep import boards as known

    return _beginning(known.names(), incomplete)


def runs(incomplete: str) -> list[str]:
    """Runs in the folder that is typed, or in `runs`; and folders there, which may hold some."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    inside = [path for path in (folder, Path("runs")) if path.is_dir()]
    found: dict[str, None] = {}
    for path in inside:
        for each in sorted(one for one in path.iterdir() if one.is_dir()):
            found[f"{each}" if (each / "run.json").exists() else f"{each}/"] = None
    return _beginning(list(found), incomplete)


def _beginning(names: list[str] | tuple[str, ...], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
