"""One JSON document, which any reader of JSON takes."""

from __future__ import annotations

import io
import json
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pytest

from wattstep.report.json_document import dump
from wattstep.schema.figure import Figure, Status


def written(thing: object) -> str:
    stream = io.StringIO()
    dump(thing, stream)
    return stream.getvalue()


def strict(text: str) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_not_a_number_becomes_null() -> None:
    text = written({"a": float("nan"), "b": [float("inf"), np.float64("nan"), 1.5]})
    assert strict(text) == {"a": None, "b": [None, None, 1.5]}


def test_records_paths_and_numpy_numbers_are_written() -> None:
    figure = Figure(value=3.41, unit="J", status=Status.MEASURED)
    text = written(
        {
            "energy": figure,
            "run": PurePosixPath("runs/a"),
            "n": np.int64(3),
            "all": np.array([1.0, np.nan]),
            "status": Status.MODELLED,
        }
    )
    document = strict(text)
    assert document["energy"] == figure.to_dict()
    assert Figure.from_dict(document["energy"]) == figure
    del document["energy"]
    assert document == {"run": "runs/a", "n": 3, "all": [1.0, None], "status": "modelled"}


def test_the_text_survives_any_locale() -> None:
    text = written({"unit": "°C", "name": "half of a pair: \ud800"})
    assert text.isascii()
    assert strict(text) == {"unit": "°C", "name": "half of a pair: \ud800"}


def test_a_document_that_cannot_be_written_leaves_nothing_behind() -> None:
    stream = io.StringIO()
    with pytest.raises(TypeError):
        dump({"good": 1, "bad": object()}, stream)
    assert stream.getvalue() == ""
