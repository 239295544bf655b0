"""A step at its ceilings: its work at measured rates, launches and copies at what one takes, worked out by hand."""

from __future__ import annotations

import pytest
from tests.wording import assert_says

from wattstep.insight.compare.step_ceilings import Work, device_step, host_step
from wattstep.schema.device_ceilings import CeilingRow, CeilingTable, DeviceCeilings
from wattstep.schema.figure import Figure, Missing, Status


def figure(value: float, unit: str) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED, source="events")


def table(name: str, *rows: CeilingRow) -> CeilingTable:
    return CeilingTable(name=name, title=name, columns=(), rows=rows)


def row(label: str, amount: float, unit: str, **columns: float) -> CeilingRow:
    figures = {name.replace("_", ", "): figure(value, unit) for name, value in columns.items()}
    return CeilingRow(label=label, amount=amount, figures=figures)


CEILINGS = DeviceCeilings(
    created="2026-11-26", device={"name": "Mali-G76"}, host={}, seconds=1.0,
    tables=[
        table(
            "products",
            row("10", 1e4, "FLOP/s", tuned=1e8, NumPy=4e8),
            row("100", 1e6, "FLOP/s", tuned=1e10, NumPy=4e8),
        ),
        table("bandwidth", row("triad (caches)", 1e6, "B/s", device=1e9, NumPy=2e9)),
        table("copies", row("1 kB", 1e3, "B/s", **{"to_copied": 1e7, "from_copied": 5e6})),
        table(
            "launch",
            row("launched and waited for", 0, "s", time=1e-3),
            row("each of 100 in a row", 0, "s", time=1e-5),
        ),
    ],
)  # fmt: skip
LARGE = Work(kind="matrix product", calls=2, flops=2e6, bytes=0)  # 1e6 each: 1e10 FLOP/s, 0.2 ms
BETWEEN = Work(kind="matrix product", calls=1, flops=1e5, bytes=0)  # 1e9 FLOP/s, half way: 0.1 ms
SMALL = Work(kind="matrix product", calls=1, flops=1e3, bytes=0)  # as of the smallest: 0.01 ms
ACTIVATION = Work(kind="activation", calls=3, flops=1e6, bytes=3e5)  # 0.3 ms
COPY = Work(kind="to, copied", calls=4, flops=0, bytes=4e3)  # 0.1 ms each
TINY = Work(kind="from, copied", calls=1, flops=0, bytes=4)  # no less than 1 kB took: 0.2 ms


def test_a_resident_step_is_its_kernels_and_their_launches_in_a_row() -> None:
    step = device_step([LARGE, BETWEEN, SMALL, ACTIVATION], "resident", CEILINGS)
    assert step.value == pytest.approx((0.2 + 0.1 + 0.01 + 0.3) * 1e-3 + 7 * 1e-5)
    assert step.status is Status.PREDICTED
    assert_says(step.source, "Mali-G76", "2026-11-26")


def test_copies_take_what_they_take_and_each_kernel_is_waited_for() -> None:
    step = device_step([LARGE, COPY, TINY], "copying", CEILINGS)
    assert step.value == pytest.approx((0.2 + 0.4 + 0.2) * 1e-3 + 2 * 1e-3)


def test_the_cpu_does_the_same_work_without_launches_and_copies() -> None:
    step = host_step([LARGE, ACTIVATION, COPY], CEILINGS)
    assert step.value == pytest.approx(2e6 / 4e8 + 3e5 / 2e9)


def test_what_no_ceiling_is_known_of_is_missing_and_never_free() -> None:
    assert_says(
        device_step(Missing("no kernels were traced"), "fused", CEILINGS).reason, "no kernels"
    )
    cut = DeviceCeilings(
        created="", device={}, host={}, seconds=1.0, tables=[t for t in CEILINGS.tables if t.name != "products"]
    )  # fmt: skip
    assert device_step([LARGE], "fused", cut).missing
    assert host_step([LARGE], cut).missing
    uncounted = Work(kind="activation", calls=1, flops=None, bytes=None)
    assert device_step([LARGE, uncounted], "fused", CEILINGS).missing
    launches = DeviceCeilings(
        created="", device={}, host={}, seconds=1.0, tables=CEILINGS.tables[:3]
    )
    assert device_step([LARGE], "fused", launches).missing
