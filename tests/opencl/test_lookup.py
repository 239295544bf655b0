"""Nearest rows and leaves on a device, and labels that are the CPU's, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.labeling.made import blobs

from wattstep.labeling import AutoLabeler
from wattstep.labeling.lookup import Index, look_up
from wattstep.labeling.opencl_lookup import OpenclProcessor
from wattstep.labeling.placement import CpuProcessor, Placement
from wattstep.opencl.device import Opened, find_devices
from wattstep.opencl.lookup import KEPT, LookupTables, limits_of, order_of

FLOATS = st.floats(width=32, allow_nan=False)


@given(arrays(np.float32, 5, elements=FLOATS), st.floats(-3e38, 3e38))
def test_comparisons_of_integers_are_those_of_floats(x: np.ndarray, limit: float) -> None:
    at_most = order_of(x) <= limits_of(np.array([limit]))
    assert (at_most == (x.astype(np.float64) <= limit)).all()


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 130, 3), (70, 40, 17)])
def test_nearest_rows(opened: Opened, shape: tuple[int, int, int]) -> None:
    samples, nodes, d = shape
    random = np.random.default_rng(1)
    x, rows = (random.normal(size=(n, d)).astype(np.float32) for n in (samples, nodes))
    tables = LookupTables(opened, rows, ((nodes, 8), (1, 2)), None)
    before = opened.allocated
    (found, ranked), (first, _) = tables.look_up(x, order_of(x))[0]
    exact = (rows**2).sum(axis=1) - 2.0 * x.astype(np.float64) @ rows.T
    kept = min(8, nodes)
    assert np.allclose(ranked[:, :kept], np.sort(exact, axis=1)[:, :kept], atol=1e-5)
    assert np.isinf(ranked[:, kept:]).all()
    assert (found[:, :kept] == np.argsort(exact, axis=1)[:, :kept]).all()
    assert (first[:, 0] == 0).all()
    tables.release()
    assert opened.allocated < before


def test_memory_with_pieces_of_many_sizes(opened: Opened) -> None:
    random = np.random.default_rng(1)
    rows = random.normal(size=(900, 4)).astype(np.float32)
    x = random.normal(size=(140, 4)).astype(np.float32)
    tables = LookupTables(opened, rows, ((900, 3),), None)
    held = []
    for count in range(140, 140 - 3 * KEPT, -1):  # so large that a CPU packs panels; ever fewer
        found = tables.look_up(x[:count], order_of(x[:count]))[0][0][0]
        held.append(opened.allocated)
    assert max(held) == held[KEPT - 1]
    again = tables.look_up(x, order_of(x))[0][0][0]  # whose product was given back
    assert (again[: len(found)] == found).all()
    exact = ((x[:, None].astype(np.float64) - rows[None]) ** 2).sum(axis=2)
    assert (again == np.argsort(exact, axis=1)[:, :3]).all()
    tables.release()


@pytest.mark.parametrize("few_values", [False, True])
def test_what_a_device_finds_is_what_the_cpu_finds(opened: Opened, few_values: bool) -> None:
    labeler, x = learned(few_values)
    engine = labeler.engine_
    index, standard = engine._index(), engine._standard(x)
    space = engine._space(standard).astype(np.float32)
    device = OpenclProcessor("opencl", opened)
    device.hold(index)
    found, expected = device.look_up(space, standard), look_up(index, space, standard)
    assert len(index.forests) == len(found.leaves) > 0
    for one, other in zip(
        (*found.near, *found.labeled, *found.leaves),
        (*expected.near, *expected.labeled, *expected.leaves),
        strict=True,
    ):
        assert np.array_equal(one, other)


def test_nodes_of_which_a_device_keeps_too_few(opened: Opened) -> None:
    """All distances are equal: the first nodes are the nearest, which rounding cannot tell."""
    index = Index(nodes=np.ones((50, 3), np.float32), labeled=20, near=10, forests=())
    device = OpenclProcessor("opencl", opened)
    device.hold(index)
    found = device.look_up(np.zeros((5, 3), np.float32), np.zeros((5, 3)))
    assert (found.near.nodes == np.arange(10)).all()
    assert (found.labeled.nodes == 0).all()
    assert (found.near.squares == 3).all()


def test_labels_are_those_of_the_cpu_alone(opened: Opened) -> None:
    plain, x = learned(False)
    placed, _ = learned(False)
    # Every OpenCL device that there is, PoCL's two of one CPU among them where POCL_DEVICES has them.
    devices = [OpenclProcessor(f"opencl:{each.number}", Opened(each)) for each in find_devices()]
    placed.engine_.look = Placement([CpuProcessor(), *devices])
    for first in range(0, len(x), 300):
        one, other = (each.partial_label(x[first : first + 300]) for each in (plain, placed))
        for name in ("status", "probability", "p_value", "cluster", "votes", "class_probabilities"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
    placement = placed.placement_
    assert placement is not None
    assert sum(each.samples for each in placement.tallies) >= len(x)


def learned(few_values: bool) -> tuple[AutoLabeler, np.ndarray]:
    """A labeler with a student, and 900 samples of which some are of a class that it does not know."""
    x, y = blobs(60, (0, 1, 2), seed=1)
    more, _ = blobs(1100, (0, 1, 2, 3), seed=2)
    if few_values:
        x, more = x.round(), more.round()
    labeler = AutoLabeler(memory=200).fit(x, y)
    labeler.partial_label(more[:200])
    return labeler, more[200:]
