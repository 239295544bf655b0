"""Traced steps compensated to clean ones: known costs are found, and nothing is lost, whatever the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wattstep.attribution.overhead_compensation import compensate, fit_correction, match_layers
from wattstep.attribution.sharing import Sharing
from wattstep.attribution.traced_rows import CompensatedRows, TracedRows
from wattstep.recorded.curves import Curve
from wattstep.recorded.phases import Phases, common_phases

NAMES = ("data", "forward", "backward")
US = 1_000


def layers_of(names: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns of layers of rows whose layers have these names."""
    distinct = sorted(set(names))
    numbers = [distinct.index(name) for name in names]
    return {"layer": np.array(numbers, np.int32), "layers": np.array(distinct, dtype=object)}


def named(rows: TracedRows) -> np.ndarray:
    """The layer of each row."""
    return rows.layers[rows.layer]


@dataclass
class Recording:
    """Traced steps made by hand: operations one after another, with a fixed cost an event."""

    cost_ns: int
    rows: list[tuple[int, int, int, int, int, str]] = field(default_factory=list)
    edges: list[list[int]] = field(default_factory=list)

    def window(self, phases: list[list[tuple[str, int, int]]]) -> None:
        """Adds a step: in each phase operations (layer, true length in ns, operations inside).

        The length of an operation is its own and that of those inside; the tracer's cost falls
        outside of each operation, into whatever encloses it.
        """
        window = len(self.edges)
        now = 1_000_000_000 * (window + 1)
        edges = [now]
        for operations in phases:
            for layer, length, inside in operations:
                now += self.cost_ns
                top, begin = len(self.rows), now
                self.rows.append((window, begin, 0, 0, -1, layer))
                for _ in range(inside):
                    now += self.cost_ns
                    part = length // (inside + 1)
                    self.rows.append((window, now, now + part, part, top, layer))
                    now += part
                now += length - inside * (length // (inside + 1))
                own = now - begin - inside * (length // (inside + 1))
                self.rows[top] = (window, begin, now, own, -1, layer)
            edges.append(now)
        self.edges.append(edges)

    def tables(self) -> tuple[TracedRows, Phases]:
        window, start, end, own, parent, layer = zip(*self.rows, strict=True)
        count = len(self.rows)
        rows = TracedRows(
            window=np.array(window, np.int64),
            start_ns=np.array(start, np.int64),
            end_ns=np.array(end, np.int64),
            self_ns=np.array(own, np.int64),
            thread=np.ones(count, np.int64),
            parent=np.array(parent, np.int64),
            scope=np.zeros(count, bool),
            **layers_of(layer),
        )
        return rows, Phases(names=NAMES, edges_ns=np.array(self.edges, np.int64))


# One clean step: 100 µs of data, 400 µs forward, 500 µs backward; operations fill it.
CLEAN = [
    [("", 100 * US, 0)],
    [("a", 100 * US, 3), ("b", 300 * US, 0)],
    [("b", 350 * US, 6), ("a", 150 * US, 1)],
]
SHARE = np.array([0.1, 0.4, 0.5])
STEP_S = 1e-3


def laid_by_hand(cost_ns: int, windows: int = 10) -> tuple[TracedRows, CompensatedRows]:
    recording = Recording(cost_ns)
    for _ in range(windows):
        recording.window(CLEAN)
    rows, phases = recording.tables()
    return rows, compensate(rows, phases, np.tile(STEP_S * SHARE, (windows, 1)), SHARE, STEP_S)


def test_the_cost_of_an_event_is_found() -> None:
    _, compensated = laid_by_hand(cost_ns=1_500)
    assert compensated.correction.cost_s == pytest.approx(1.5e-6)
    assert compensated.correction.residual == pytest.approx(0, abs=1e-9)
    # 15 events of 1.5 µs in a step of 1 ms
    assert compensated.correction.inflation == pytest.approx(1 + 15 * 1.5e-3)


@pytest.mark.parametrize("cost_ns", [0, 800, 5_000])
def test_operations_get_the_time_that_they_take_in_a_clean_step(cost_ns: int) -> None:
    rows, compensated = laid_by_hand(cost_ns)
    for layer, phase, seconds in (
        ("", 0, 100e-6), ("a", 1, 100e-6), ("b", 1, 300e-6), ("b", 2, 350e-6), ("a", 2, 150e-6),
    ):  # fmt: skip
        mine = (named(rows) == layer) & (compensated.phase == phase)
        assert compensated.time_s[mine].sum() / 10 == pytest.approx(seconds, rel=1e-6)
    assert compensated.unattributed_s == pytest.approx(0, abs=1e-9)


def flat(true_us: Sequence[float], within_us: float, outside_us: float) -> CompensatedRows:
    """Ten windows of one phase, whose tracer stamps an end after a part of its own work."""
    now, window, start, end, edges = 0.0, [], [], [], []
    for number in range(10):
        edges.append([round(now * US)])
        for length in true_us:
            now += outside_us
            window.append(number)
            start.append(round(now * US))
            now += length + within_us
            end.append(round(now * US))
        edges[-1].append(round(now * US))
    begins, ends = np.array(start, np.int64), np.array(end, np.int64)
    rows = TracedRows(
        window=np.array(window, np.int64), start_ns=begins, end_ns=ends, self_ns=ends - begins,
        thread=np.ones(len(window), np.int64), parent=np.full(len(window), -1, np.int64),
        scope=np.zeros(len(window), bool), **layers_of([""] * len(window)),
    )  # fmt: skip
    phases = Phases(names=("training",), edges_ns=np.array(edges, np.int64))
    step_s = sum(true_us) * 1e-6
    return compensate(rows, phases, np.full((10, 1), step_s), np.ones(1), step_s)


@pytest.mark.parametrize(("within_us", "outside_us"), [(1.0, 0.5), (2.0, 0.0), (0.0, 1.5)])
def test_cost_for_which_gaps_have_no_room_is_taken_off_the_operations(
    within_us: float, outside_us: float
) -> None:
    true_us = [2.5, 10.0, 70.0, 4.0]
    compensated = flat(true_us, within_us, outside_us)
    correction = compensated.correction
    whole = within_us + outside_us
    assert correction.cost_s == pytest.approx(whole * 1e-6)
    assert correction.within == pytest.approx(within_us / whole, abs=1e-9)
    assert compensated.time_s == pytest.approx(np.tile(true_us, 10) * 1e-6)
    assert compensated.unattributed_s == pytest.approx(0, abs=1e-9)
    assert correction.added_up == pytest.approx(1)  # they add up before anything is scaled


def test_operations_take_the_same_time_on_a_clock_that_counts_from_1970() -> None:
    """As those of imported traces do: a double of so many seconds keeps no more than 240 ns."""
    recording = Recording(1_500)
    for _ in range(10):
        recording.window(CLEAN)
    rows, phases = recording.tables()
    since = 1_795_402_570_371_394_395
    later = replace(rows, start_ns=rows.start_ns + since, end_ns=rows.end_ns + since)
    moved = Phases(names=phases.names, edges_ns=phases.edges_ns + since)
    beside = np.tile(STEP_S * SHARE, (10, 1))
    compensated = compensate(later, moved, beside, SHARE, STEP_S)
    assert compensated.time_s == pytest.approx(
        compensate(rows, phases, beside, SHARE, STEP_S).time_s, abs=1e-12
    )


def test_the_residual_is_what_odd_windows_say_wrongly_of_even_ones() -> None:
    """Windows with index 1, 3, ... cost 10 µs more than those the cost is fitted on."""
    durations = np.full((10, 1), 1e-3)
    durations[1::2] += 10e-6
    correction = fit_correction(durations, np.full((10, 1), 10.0), np.full((10, 1), 0.9e-3))
    assert correction.residual == pytest.approx(10e-6 / 0.9e-3)


def test_the_cost_of_an_event_has_an_error_that_its_windows_show() -> None:
    """Extra times of 10 events: 8, 10, 12 and 10 µs; a median is 1.2533 times as unsure as a mean."""
    durations = np.array([[908e-6], [910e-6], [912e-6], [910e-6]])
    found = fit_correction(durations, np.full((4, 1), 10.0), np.full((4, 1), 900e-6))
    assert found.cost_s == pytest.approx(1e-6)
    deviation = 1e-7 * np.sqrt(8 / 3)
    assert found.error_s == pytest.approx(3.1824 * 1.2533 * deviation / 2, rel=1e-3)


def test_fewer_than_four_windows_have_no_residual() -> None:
    _, compensated = laid_by_hand(1_000, windows=3)
    assert np.isnan(compensated.correction.residual)
    assert compensated.correction.windows == 3


def test_a_traced_step_that_is_shorter_than_a_clean_one_has_no_negative_cost() -> None:
    correction = fit_correction(np.full((4, 1), 1e-3), np.full((4, 1), 10.0), np.full((4, 1), 2e-3))
    assert (correction.cost_s == 0).all()


OPERATION = st.tuples(st.sampled_from(["a", "b", ""]), st.integers(1, 400_000), st.integers(0, 4))
STEP = st.lists(st.lists(OPERATION, max_size=5), min_size=3, max_size=3)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[TracedRows, Phases]:
    recording = Recording(draw(st.integers(0, 3_000)))
    for _ in range(draw(st.integers(1, 5))):
        recording.window(draw(STEP))
    if not recording.rows:
        recording.window([[("a", 1_000, 0)], [], []])
    return recording.tables()


SHARES = st.tuples(*[st.floats(0.01, 1)] * 3).map(lambda s: np.array(s) / sum(s))
LENGTHS = st.floats(1e-4, 1.0)


def whole(compensated: CompensatedRows, rows: np.ndarray, rests: np.ndarray) -> float:
    """Rows and rests of all windows, per window."""
    return float((rows.sum() + rests.sum()) / len(compensated.unattributed_s))


@given(recordings(), SHARES, LENGTHS)
def test_operations_and_rests_make_the_clean_step(
    tables: tuple[TracedRows, Phases], share: np.ndarray, step_s: float
) -> None:
    rows, phases = tables
    compensated = compensate(
        rows, phases, np.tile(step_s * share, (len(phases.edges_ns), 1)), share, step_s
    )
    assert whole(compensated, compensated.time_s, compensated.unattributed_s) == pytest.approx(
        step_s, rel=1e-9
    )
    assert (compensated.time_s >= 0).all()
    assert (compensated.unattributed_s >= 0).all()
    for phase in range(3):  # and each phase keeps its own length
        mine = (
            compensated.time_s[compensated.phase == phase].sum()
            + compensated.unattributed_s[:, phase].sum()
        )
        assert mine / len(compensated.unattributed_s) == pytest.approx(
            share[phase] * step_s, rel=1e-9
        )


@given(recordings(), SHARES, LENGTHS, st.lists(st.floats(0, 10), min_size=2, max_size=30))
def test_what_is_shared_out_is_the_whole_curve(
    tables: tuple[TracedRows, Phases], share: np.ndarray, step_s: float, gains: list[float]
) -> None:
    rows, phases = tables
    compensated = compensate(
        rows, phases, np.tile(step_s * share, (len(phases.edges_ns), 1)), share, step_s
    )
    t_ns = np.linspace(0, round(step_s * 1e9), len(gains) + 1).astype(np.int64)
    curve = Curve(
        t_ns=t_ns, total=np.concatenate([[0], np.cumsum(gains)]), unit="J", covered_ns=t_ns
    )
    taken, rests = Sharing(rows, compensated).folded(curve)
    assert whole(compensated, taken, rests) == pytest.approx(sum(gains), rel=1e-9, abs=1e-12)
    assert (taken >= 0).all()
    assert (rests >= 0).all()


@given(recordings(), SHARES, st.floats(0.0, 0.6), st.floats(0.0, 0.5))
def test_matching_layers_keeps_the_phase_and_gives_each_layer_its_share(
    tables: tuple[TracedRows, Phases], share: np.ndarray, a: float, b: float
) -> None:
    rows, phases = tables
    compensated = compensate(
        rows, phases, np.tile(STEP_S * share, (len(phases.edges_ns), 1)), share, STEP_S
    )
    matched = match_layers(rows, compensated, NAMES.index("forward"), {"a": a, "b": b})
    for phase in range(3):
        before = (
            compensated.time_s[compensated.phase == phase].sum()
            + compensated.unattributed_s[:, phase].sum()
        )
        after = (
            matched.time_s[compensated.phase == phase].sum()
            + matched.unattributed_s[:, phase].sum()
        )
        assert after == pytest.approx(before, rel=1e-9)
    forward = compensated.phase == 1
    if matched is not compensated:
        for layer, wanted in (("a", a), ("b", b)):
            mine = forward & (named(rows) == layer)
            if compensated.time_s[mine].sum() > 0:
                found = matched.time_s[mine].sum() / len(compensated.unattributed_s)
                assert found == pytest.approx(wanted * share[1] * STEP_S, rel=1e-9)


def test_matching_layers_takes_those_below_with_them() -> None:
    recording = Recording(0)
    recording.window(
        [[], [("top.x", 100 * US, 0), ("topmost", 100 * US, 0), ("top", 200 * US, 0)], []]
    )
    rows, phases = recording.tables()
    compensated = compensate(
        rows, phases, np.array([[0.0, 0.4e-3, 0.0]]), np.array([0.0, 1.0, 0.0]), 0.4e-3
    )
    matched = match_layers(rows, compensated, NAMES.index("forward"), {"top": 0.5})
    assert matched.time_s == pytest.approx([0.2e-3 / 3, 0.2e-3, 0.4e-3 / 3])


def test_an_operation_at_twice_the_power_gets_twice_the_energy_of_its_time() -> None:
    """1 W but 2 W while backward's first operation runs: 350 µs of 1 ms."""
    rows, compensated = laid_by_hand(1_000)
    t_ns = np.array([0, 500_000, 850_000, 1_000_000], np.int64)
    power = [1.0, 2.0, 1.0]
    total = np.concatenate([[0], np.cumsum(np.diff(t_ns) * 1e-9 * power)])
    taken, _ = Sharing(rows, compensated).folded(
        Curve(t_ns=t_ns, total=total, unit="J", covered_ns=t_ns)
    )
    for layer, phase, joule in (
        ("", 0, 100e-6), ("a", 1, 100e-6), ("b", 1, 300e-6), ("b", 2, 700e-6), ("a", 2, 150e-6),
    ):  # fmt: skip
        mine = (named(rows) == layer) & (compensated.phase == phase)
        assert taken[mine].sum() / 10 == pytest.approx(joule, rel=0.02)


def test_operations_on_two_threads_at_once_share_the_wall_time() -> None:
    rows = TracedRows(
        window=np.zeros(2, np.int64),
        start_ns=np.array([0, 0]),
        end_ns=np.array([1_000_000, 1_000_000]),
        self_ns=np.array([1_000_000, 1_000_000]),
        thread=np.array([1, 2]),
        parent=np.array([-1, -1]),
        scope=np.zeros(2, bool),
        **layers_of(["a", "b"]),
    )
    phases = Phases(names=("step",), edges_ns=np.array([[0, 1_000_000]]))
    compensated = compensate(rows, phases, np.array([[1e-3]]), np.ones(1), 1e-3)
    assert compensated.time_s == pytest.approx([0.5e-3, 0.5e-3])
    assert compensated.busy_s == pytest.approx([1e-3, 1e-3])


def test_the_sequence_of_phases_is_that_of_most_steps() -> None:
    assert common_phases([("a",), ("a", "b"), ("a", "b")]) == ("a", "b")
    assert common_phases([]) == ()


def rows_of(
    given: Sequence[tuple[int, int, int, int, bool]], window: Sequence[int] | None = None
) -> TracedRows:
    """Rows (start and end in µs, thread, parent, scope), their own time worked out here."""
    own = [(end - start) * US for start, end, *_ in given]
    for start, end, _, parent, _ in given:
        if parent >= 0:
            own[parent] -= (end - start) * US
    return TracedRows(
        window=np.array(window or [0] * len(given), np.int32),
        start_ns=np.array([row[0] * US for row in given], np.int64),
        end_ns=np.array([row[1] * US for row in given], np.int64),
        self_ns=np.array(own, np.int64),
        thread=np.array([row[2] for row in given], np.int32),
        parent=np.array([row[3] for row in given], np.int32),
        scope=np.array([row[4] for row in given], bool),
        **layers_of([""] * len(given)),
    )


ONE_STEP = Phases(names=("step",), edges_ns=np.array([[0, 1000 * US]]))
WITH_AND_WITHOUT_CLEAN = pytest.mark.parametrize("beside", [None, np.array([[1e-3]])])
# The main thread waits in "backward" while the engine's thread works from 100 to 400 µs and from
# 600 to 900 µs; from 350 to 450 µs the main thread has an operation of its own.
WAITING = [
    (0, 1000, 1, -1, True),
    (100, 400, 2, -1, False),
    (350, 450, 1, 0, False),
    (600, 900, 2, -1, False),
]


@WITH_AND_WITHOUT_CLEAN
def test_a_scope_gets_only_what_no_operation_of_any_thread_covers(beside: np.ndarray) -> None:
    compensated = compensate(rows_of(WAITING), ONE_STEP, beside, np.ones(1), 1e-3)
    # 50 µs are shared by two operations; 1000 - (450 - 100) - (900 - 600) µs are the scope's.
    assert compensated.time_s == pytest.approx([350e-6, 275e-6, 75e-6, 300e-6])
    assert compensated.busy_s == pytest.approx([900e-6, 300e-6, 100e-6, 300e-6])
    assert compensated.unattributed_s == pytest.approx(0, abs=1e-12)


@WITH_AND_WITHOUT_CLEAN
def test_scopes_on_two_threads_share_what_no_operation_covers(beside: np.ndarray) -> None:
    given = [(0, 800, 1, -1, True), (200, 800, 2, -1, True), (300, 500, 3, -1, False)]
    compensated = compensate(rows_of(given), ONE_STEP, beside, np.ones(1), 1e-3)
    # Alone until 200 µs; from there to 800 µs two share the 400 µs that the operation leaves.
    assert compensated.time_s == pytest.approx([400e-6, 200e-6, 200e-6])
    assert compensated.unattributed_s == pytest.approx(200e-6)


@WITH_AND_WITHOUT_CLEAN
def test_a_scope_inside_an_operation_is_a_part_of_it(beside: np.ndarray) -> None:
    given = [
        (0, 1000, 1, -1, False),
        (0, 1000, 2, -1, False),
        (200, 800, 1, 0, True),
        (300, 700, 1, 2, True),
        (400, 600, 1, 3, False),
    ]
    compensated = compensate(rows_of(given), ONE_STEP, beside, np.ones(1), 1e-3)
    assert compensated.time_s == pytest.approx([200e-6, 500e-6, 100e-6, 100e-6, 100e-6])
    assert compensated.unattributed_s == pytest.approx(0, abs=1e-12)


@WITH_AND_WITHOUT_CLEAN
def test_the_energy_of_operations_is_not_shared_with_a_scope_that_waits(
    beside: np.ndarray,
) -> None:
    """1 W, and 3 W from 600 to 900 µs."""
    rows = rows_of(WAITING)
    compensated = compensate(rows, ONE_STEP, beside, np.ones(1), 1e-3)
    t_ns = np.array([0, 600, 900, 1000], np.int64) * US
    total = np.array([0, 600e-6, 1500e-6, 1600e-6])
    taken, rests = Sharing(rows, compensated).folded(
        Curve(t_ns=t_ns, total=total, unit="J", covered_ns=t_ns)
    )
    assert taken == pytest.approx([350e-6, 275e-6, 75e-6, 900e-6])
    assert rests == pytest.approx(0, abs=1e-12)


@WITH_AND_WITHOUT_CLEAN
def test_energy_and_cpu_time_of_workers_that_overlap_go_by_their_cores_wall_time_does_not(
    beside: np.ndarray,
) -> None:
    """A task of three cores 0 to 600 us, one of one core 400 to 1000 us; 1 W a core: 3, 4 and 1 W."""
    rows = replace(
        rows_of([(0, 600, 1, -1, False), (400, 1000, 2, -1, False)]), cores=np.array([3, 1])
    )
    compensated = compensate(rows, ONE_STEP, beside, np.ones(1), 1e-3)
    assert compensated.time_s == pytest.approx([500e-6, 500e-6])
    t_ns = np.array([0, 400, 600, 1000], np.int64) * US
    total = np.array([0, 1200e-6, 2000e-6, 2400e-6])
    curve = Curve(t_ns=t_ns, total=total, unit="J", covered_ns=t_ns)
    taken, rests = Sharing(rows, compensated).folded(curve)
    assert taken == pytest.approx([3 * 600e-6, 600e-6])
    assert rests == pytest.approx(0, abs=1e-12)


def test_an_operation_that_ends_a_phase_later_keeps_its_length() -> None:
    """Nothing is taken off where there are no clean steps, so nothing is to be made good either."""
    phases = Phases(names=("forward", "backward"), edges_ns=np.array([[0, 500, 1000]]) * US)
    given = [(400, 700, 1, -1, False), (800, 900, 1, -1, False)]
    compensated = compensate(rows_of(given), phases, None, np.array([0.5, 0.5]), 1e-3)
    assert compensated.time_s == pytest.approx([300e-6, 100e-6])
    assert compensated.busy_s == pytest.approx([300e-6, 100e-6])
    assert compensated.unattributed_s == pytest.approx(np.array([[400e-6, 200e-6]]))


MOST_US = 40
ROW = st.tuples(
    st.integers(0, MOST_US - 1), st.integers(1, MOST_US), st.integers(1, 3), st.booleans()
)


@given(st.lists(ROW, min_size=1, max_size=12))
def test_scopes_and_rests_are_the_time_in_which_no_operation_runs(
    drawn: list[tuple[int, int, int, bool]],
) -> None:
    """Microsecond by microsecond, for rows on three threads that nest in each other or not."""
    sized = sorted((start, min(start + length, MOST_US), *of) for start, length, *of in drawn)
    rows = rows_of([(start, end, thread, -1, scope) for start, end, thread, scope in sized])
    step = Phases(names=("step",), edges_ns=np.array([[0, MOST_US * US]]))
    compensated = compensate(rows, step, None, np.ones(1), MOST_US * 1e-6)
    working = [(start, end) for start, end, _, scope in sized if not scope]
    free = sum(not any(start <= at < end for start, end in working) for at in range(MOST_US))
    left = compensated.time_s[rows.scope].sum() + compensated.unattributed_s.sum()
    assert left == pytest.approx(free * 1e-6, abs=1e-12)
    assert compensated.time_s.sum() + compensated.unattributed_s.sum() == pytest.approx(
        MOST_US * 1e-6
    )


def test_kernels_cost_the_host_no_event_and_keep_their_length() -> None:
    """A kernel runs beside every operation: the tracer's cost lies with operations and calls alone."""
    recording = Recording(1_500)
    for _ in range(10):
        recording.window(CLEAN)
    rows, phases = recording.tables()
    top = np.flatnonzero(rows.parent < 0)
    count = len(top)
    kernels = TracedRows(
        window=rows.window[top],
        start_ns=rows.start_ns[top] + 10 * US,
        end_ns=rows.start_ns[top] + 60 * US,
        self_ns=np.full(count, 50 * US),
        thread=np.full(count, 2),
        parent=np.full(count, -1),
        scope=np.zeros(count, bool),
        layer=rows.layer[top],
        layers=rows.layers,
    )
    both = {
        one.name: np.concatenate([getattr(rows, one.name), getattr(kernels, one.name)])
        for one in fields(TracedRows)
        if one.name not in ("layers", "on_gpu", "waits", "cores")
    }
    order = np.argsort(both["window"], kind="stable")
    place = np.argsort(order)
    both["parent"] = np.where(both["parent"] >= 0, place[both["parent"]], -1)
    on_gpu = np.arange(len(order)) >= len(rows.window)
    mixed = TracedRows(
        **{name: column[order] for name, column in both.items()},
        layers=rows.layers,
        on_gpu=on_gpu[order],
    )
    beside = np.tile(STEP_S * SHARE, (10, 1))
    compensated = compensate(mixed, phases, beside, SHARE, STEP_S)
    assert compensated.correction.cost_s == pytest.approx(1.5e-6)
    assert compensated.correction.residual == pytest.approx(0, abs=1e-9)
    assert compensated.busy_s[mixed.on_gpu] == pytest.approx(50e-6)  # as the GPU stamped it
    sums = compensated.time_s.sum() + compensated.unattributed_s.sum()
    assert sums / 10 == pytest.approx(STEP_S)
    # Half of the 50 µs are the kernel's where an operation runs as well; the phase's scale differs
    # from 1 by what the cost takes of an operation's share, at most.
    shares = compensated.time_s[mixed.on_gpu] / 25e-6
    assert shares == pytest.approx(1, abs=0.02)


def test_one_disturbed_window_does_not_leave_a_short_operation_with_nothing() -> None:
    # Nine operations of 4 µs of their own and one of 97 µs, each with one inside; one of 1.5 ms that
    # something else made a millisecond longer: 22 events would have cost 45 µs each.
    given = []
    for number, own in enumerate([4] * 9 + [97]):
        given.append((40 * number, 40 * number + own + 3, 1, -1, False))
        given.append((40 * number, 40 * number + 3, 1, 2 * number, False))
    given.append((480, 1980, 1, -1, False))
    step = Phases(names=("step",), edges_ns=np.array([[0, 2000 * US]]))
    compensated = compensate(rows_of(given), step, np.array([[1e-3]]), np.ones(1), 1e-3)
    assert compensated.correction.cost_s == pytest.approx(4e-6)
    convolution, longest = compensated.busy_s[18], compensated.busy_s[20]
    assert convolution / longest == pytest.approx((97 - 4) / 1500)
    assert compensated.time_s.sum() + compensated.unattributed_s.sum() == pytest.approx(1e-3)
