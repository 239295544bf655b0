"""Lookups on some of the CPU's cores: by threads that are bound to them, with the labels of the whole CPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from tests.labeling.made import X, blobs
from tests.refusals import refused
from threadpoolctl import threadpool_info, threadpool_limits

from wattstep.labeling import AutoLabeler, Processors, cluster
from wattstep.labeling.lookup import Found, Index, look_up
from wattstep.labeling.processors import placement_on

CORES = sorted(os.sched_getaffinity(0))
TWO = tuple(f"cpu:{core}" for core in CORES[:2])
two_cores = pytest.mark.skipif(len(CORES) < 2, reason="one core")


def blas_threads() -> list[int]:
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


class Seen:
    """Looks up, and keeps which thread may run on which cores, and of how many threads BLAS is."""

    def __init__(self) -> None:
        self.cores: dict[int, set[int]] = {}
        self.blas: set[int] = set()
        self.rows: list[int] = []

    def __call__(self, index: Index, space: Any, standard: Any) -> Found:
        self.cores[threading.get_ident()] = set(os.sched_getaffinity(0))
        self.blas.update(blas_threads())
        self.rows.append(len(space))
        return look_up(index, space, standard)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Seen]:
    before = os.sched_getaffinity(0)
    spy = Seen()
    monkeypatch.setattr(cluster, "look_up", spy)
    yield spy
    assert os.sched_getaffinity(0) == before


@two_cores
def test_labels_of_two_clusters(seen: Seen) -> None:
    settings: dict[str, Any] = {"candidates": 8, "memory": 100}
    plain = AutoLabeler(**settings).fit(*blobs(30, (0, 1, 2), seed=1))
    placed = AutoLabeler(processors=TWO, **settings).fit(*blobs(30, (0, 1, 2), seed=1))
    x, _ = blobs(450, (0, 1, 2, 3), seed=2)
    with threadpool_limits(2, user_api="blas"):
        for first in (0, 150, 300):
            one, other = (each.partial_label(x[first : first + 150]) for each in (plain, placed))
            for name in ("status", "probability", "p_value", "votes", "class_probabilities"):
                assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert set(blas_threads()) == {2}
    assert placed.placement_ is not None
    assert sum(each.samples for each in placed.placement_.tallies) == 450
    assert threading.get_ident() not in seen.cores
    assert sorted(map(tuple, seen.cores.values())) == [(core,) for core in CORES[:2]]
    assert seen.blas == {1}


@two_cores
def test_a_thread_for_each_core_of_a_cluster(seen: Seen, index: Index) -> None:
    placement = placement_on([f"cpu:{CORES[0]}+{CORES[1]}"])
    found = placement(index, X, X)
    assert np.array_equal(found.near.nodes, look_up(index, X, X).near.nodes)
    assert seen.rows[-2:] == [250, 250]
    assert all(cores == set(CORES[:2]) for cores in seen.cores.values())


@pytest.mark.parametrize(
    ("names", "id"),
    [
        (("cpu:9999",), "core-refused"),
        (("cpu:x",), "invalid-value"),
        (("cpu:",), "invalid-value"),
        (("cpu:1-0",), "invalid-value"),
        ((f"cpu:{CORES[0]}", f"cpu:{CORES[0]}"), "unknown-processor"),
        (("cpu", f"cpu:{CORES[0]}"), "unknown-processor"),
    ],
)
def test_clusters_that_are_none(names: tuple[str, ...], id: str) -> None:
    with refused(id, names[-1]):
        placement_on(names)


def test_a_system_that_binds_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, cores: tuple[int, ...]) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    with refused("refused-affinity", TWO[0]):
        placement_on(TWO[:1])


@two_cores
def test_least_energy_on_clusters() -> None:
    """One core that is said to take a tenth of the other's power does it all where there is time."""
    wanted = Processors(names=TWO, watts={TWO[0]: 10.0, TWO[1]: 1.0}, latency_s=1e6)
    labeler = AutoLabeler(candidates=8, memory=100, processors=wanted)
    labeler = clone(labeler).fit(*blobs(30, (0, 1, 2), seed=1))
    labeler.partial_label(blobs(300, (0, 1, 2, 3), seed=2)[0])
    assert labeler.placement_ is not None
    first, second = labeler.placement_.tallies
    assert (first.samples, second.samples) == (0, 300)
    assert labeler.placement_.held == labeler.placement_.kept == 1


def test_a_bound_without_powers() -> None:
    with refused("needs-power", TWO[0]):
        placement_on(Processors(names=TWO[:1], latency_s=1.0))
    with refused("out-of-range", "0"):
        placement_on(Processors(names=TWO[:1], watts={TWO[0]: 1.0}, latency_s=0.0))
