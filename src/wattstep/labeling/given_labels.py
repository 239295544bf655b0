"""Labels as a person or a program gives them: texts, whole numbers or truth values, all of one sort."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from wattstep.errors import InvalidValueError

RESERVED = re.compile(r"unknown(-\d+)?")  # what samples of no known class are called
TEXT, NUMBER, TRUTH = "str", "number", "bool"
LARGEST = 2.0**63  # whole numbers below can be held


def checked(y: Any, classes: np.ndarray[Any, Any] | None = None) -> Any:
    """Labels, refused where they are none, or of several sorts, of which an array would make one silently.

    Args:
        y: Labels; None and numbers that are complex or not finite are left to scikit-learn's checks.
        classes: Those that there are, of whose sort labels must be.
    """
    if y is None:
        return y
    given = np.asarray(y, dtype=object if isinstance(y, (list, tuple)) else None)
    if given.dtype.kind == "c":
        return y
    labels = given.ravel()
    sorts = _sorts(labels)
    if len(sorts) > 1:
        raise InvalidValueError(f"labels of several types: {', '.join(sorts)}", id="mixed-labels")
    if not sorts:
        return y
    sort = sorts[0]
    if sort == TEXT:
        _check_texts(labels)
    elif sort == NUMBER:
        _check_numbers(labels.astype(np.float64))
    elif sort != TRUTH:
        raise InvalidValueError(
            f"labels of the type {sort}: texts, whole numbers or truth values are needed", id="label-type"
        )  # fmt: skip
    if classes is not None and sort != _sorts(classes)[0]:
        raise InvalidValueError(
            f"label {labels.tolist()[0]!r} is not of the type of the others, such as {classes.tolist()[0]!r}",
            id="mixed-labels",
        )
    return y if sort == TEXT else np.array(given.tolist())


def check_name(cluster: str, label: Any, clusters: Sequence[str]) -> None:
    """Refuses what a new class cannot be called.

    Args:
        cluster: Its name so far.
        label: What it is to be called.
        clusters: Names of all new classes.
    """
    if isinstance(label, str) and RESERVED.fullmatch(label):
        do = "give the class another name"
        if label in clusters:
            do = f"to make them one, merge {cluster} and {label}"
        raise InvalidValueError(
            f"{cluster} cannot be called {label}, which samples of no known class and new classes "
            f"without a name are called: {do}",
            id="reserved-name",
        )
    if isinstance(label, (float, np.floating)) and not np.isfinite(label):
        raise InvalidValueError(
            f"{cluster} cannot be called {label}: name a class", id="label-type"
        )


def _sorts(labels: np.ndarray[Any, Any]) -> list[str]:
    of_kind = {"U": TEXT, "b": TRUTH, "i": NUMBER, "u": NUMBER, "f": NUMBER}
    if labels.dtype.kind in of_kind:
        return [of_kind[labels.dtype.kind]][: labels.size]
    return sorted({_sort(label) for label in labels.tolist()})


def _sort(label: Any) -> str:
    if isinstance(label, (bool, np.bool_)):
        return TRUTH
    if isinstance(label, (int, float, np.integer, np.floating)):
        return NUMBER
    return TEXT if isinstance(label, str) else type(label).__name__


def _check_texts(labels: np.ndarray[Any, Any]) -> None:
    for label in dict.fromkeys(labels.tolist()):
        if RESERVED.fullmatch(label):
            raise InvalidValueError(
                f"a class of the labeled samples is called {label}, as samples of no known class are: "
                "call it otherwise, or leave out the labels of these samples",
                id="reserved-name",
            )
        if not label.strip():
            raise InvalidValueError(
                f"label {label!r} is blank: name a class, or leave out these samples", id="blank-label"
            )  # fmt: skip


def _check_numbers(numbers: np.ndarray[Any, Any]) -> None:
    finite = numbers[np.isfinite(numbers)]
    wrong = finite[(finite != np.round(finite)) | (np.abs(finite) >= LARGEST)]
    if len(wrong):
        # scikit-learn's words for it, by which its checks know a classifier.
        raise InvalidValueError(
            f"label {wrong[0]:g}: texts, whole numbers or truth values are needed (Unknown label type: continuous)",
            id="label-type",
        )
