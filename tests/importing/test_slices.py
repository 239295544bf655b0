"""Slices of a Perfetto trace become steps, layers and operations; nothing says which they are but how they nest."""

from __future__ import annotations

from pathlib import Path

import pytest

from wattstep.importing.importer import ImportSettings, import_run
from wattstep.run import Run, load

STEPS = 4


def packet(kind: str, t_ns: int, name: str = "") -> str:
    named = f' name: "{name}"' if name else ""
    return (
        f"packet {{ trusted_packet_sequence_id: 1 timestamp: {t_ns} "
        f"track_event {{ type: TYPE_SLICE_{kind} track_uuid: 7{named} }} }}"
    )


def written(folder: Path, work: bool = True) -> Path:
    """Steps of 100 ms: in "net" of 80 ms lie "conv" of 50 ms and "pool" of 20 ms."""
    lines = ["packet { track_descriptor { uuid: 7 thread { pid: 5 tid: 6 } } }"]
    for number in range(STEPS):
        at = 1_000_000_000 + number * 100_000_000
        slices = [(0, 99, f"step {number}")]
        slices += [(10, 90, "net"), (10, 60, "conv"), (65, 85, "pool")] if work else []
        edges = [("BEGIN", begin, name) for begin, _, name in slices]
        edges += [("END", end, "") for _, end, _ in reversed(slices)]
        edges.sort(key=lambda edge: edge[1])
        lines += [packet(kind, at + ms * 1_000_000, name) for kind, ms, name in edges]
    path = folder / "trace.textproto"
    path.write_text("\n".join(lines) + "\n")
    return path


def imported(folder: Path, work: bool = True) -> Run:
    settings = ImportSettings(trace=written(folder, work), step_name=r"^step \d+")
    return load(import_run(settings, folder / "run"))


def test_slices_that_enclose_none_are_operations_with_the_layer_around_them(
    tmp_path: Path,
) -> None:
    run = imported(tmp_path)
    rows = {row["name"]: row for row in run.operations()}
    assert rows["conv"]["time"].value == pytest.approx(0.050)
    assert rows["pool"]["time"].value == pytest.approx(0.020)
    assert rows["conv"]["layer"] == rows["pool"]["layer"] == "net"


@pytest.mark.parametrize("work", [True, False])
def test_no_step_is_dropped_and_no_note_says_so(tmp_path: Path, work: bool) -> None:
    run = imported(tmp_path, work)
    assert run.series.steps.index.tolist() == list(range(STEPS))
    assert run.metrics()["step_time"].value == pytest.approx(0.099)
    assert not any("holds no work" in note for note in run.info.notes)
