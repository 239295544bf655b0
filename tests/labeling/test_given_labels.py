"""Labels of one sort, and what is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.labeling.made import blobs
from tests.refusals import refused

from wattstep.labeling import AutoLabeler

X, Y = blobs(12, (0, 1, 2), seed=1)
CLASSES = {
    "texts": np.array(["a", "b", "c"])[Y], "objects": np.array(["a", "b", "c"], dtype=object)[Y],
    "numbers": Y, "small numbers": Y.astype(np.uint8), "floats": Y.astype(float), "truth values": Y > 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted() -> dict[str, AutoLabeler]:
    return {
        name: AutoLabeler(candidates=4, max_heuristics=2).fit(X, y) for name, y in CLASSES.items()
    }


@pytest.mark.parametrize("labels", [[0.5, 1.5], np.array([0.5, 1.0]), [1.0, 2**70]])
def test_numbers_that_are_not_whole_are_no_labels(labels: Any) -> None:
    with refused("label-type", "whole numbers"):
        AutoLabeler().fit(X[:2], labels)


@pytest.mark.parametrize("labels", [[None, None], [b"a", b"b"], [(1,), (2,)]])
def test_neither_are_other_things(labels: Any) -> None:
    with refused("label-type", "texts"):
        AutoLabeler().fit(X[:2], np.array([*labels, None], dtype=object)[:2])


@pytest.mark.parametrize("labels", [["a", ""], ["a", "  "]])
def test_a_blank_label_names_no_class(labels: Any) -> None:
    with refused("blank-label"):
        AutoLabeler().fit(X[:2], labels)


@pytest.mark.parametrize(
    ("classes", "label"),
    [
        ("texts", 1), ("texts", True), ("objects", 0), ("numbers", True), ("numbers", "1"),
        ("small numbers", False), ("floats", True), ("floats", "a"), ("truth values", 0),
        ("truth values", 1.0), ("truth values", "a"),
    ],
)  # fmt: skip
def test_a_label_of_another_sort_is_refused_and_adds_no_class(
    fitted: dict[str, AutoLabeler], classes: str, label: Any
) -> None:
    labeler = fitted[classes]
    before = labeler.classes_.tolist()
    with refused("mixed-labels", label, before[0]):
        labeler.partial_fit(X[:1], [label])
    assert labeler.classes_.tolist() == before


@pytest.mark.parametrize("wrong", [1.5, np.float64(0.5)])
def test_neither_is_a_number_that_is_not_whole(fitted: dict[str, AutoLabeler], wrong: Any) -> None:
    for classes in ("numbers", "floats"):
        with refused("label-type"):
            fitted[classes].partial_fit(X[:1], [wrong])


def test_whole_numbers_are_the_same_however_they_are_written() -> None:
    labeler = AutoLabeler(candidates=4, max_heuristics=2).fit(X, Y)
    labeler.partial_fit(X[:2], np.array([2.0, 7.0])).partial_fit(X[:1], np.array([7], dtype=object))
    assert labeler.classes_.tolist() == [0, 1, 2, 7]
    assert labeler.classes_.dtype.kind == "i"


def test_a_new_class_is_named_by_the_same_rules() -> None:
    labeler = AutoLabeler(candidates=4, max_heuristics=2).fit(*blobs(45, (0, 1, 2), seed=1))
    for number in range(6):
        labeler.partial_label(blobs(100, (0, 1, 2, 3), seed=10 + number)[0])
    assert labeler.clusters_ == ("unknown-1",)
    for label in (True, "3", np.bool_(False)):
        with refused("mixed-labels"):
            labeler.name("unknown-1", label)
    for label in (2.5, float("nan"), None):
        with refused("label-type"):
            labeler.name("unknown-1", label)
    for label in ("", " "):
        with refused("blank-label"):
            labeler.name("unknown-1", label)
    assert labeler.name("unknown-1", 3.0).classes_.tolist() == [0, 1, 2, 3]
