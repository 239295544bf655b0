"""Refusals are told apart by an identifier that outlives their sentences."""

from __future__ import annotations

import pickle

import pytest

from wattstep import errors
from wattstep.errors import InvalidValueError, WattstepError

KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, WattstepError)
]


def test_every_kind_of_error_has_an_identifier_of_its_own() -> None:
    ids = [kind.id for kind in KINDS]
    assert len(set(ids)) == len(ids) >= 7
    assert all(id == id.lower() and " " not in id for id in ids)


@pytest.mark.parametrize("kind", KINDS)
def test_an_identifier_changes_nothing_of_the_line(kind: type[WattstepError]) -> None:
    assert str(kind("it is so")) == str(kind("it is so", id="so")) == "it is so"
    assert kind("it is so").id == kind.id
    assert kind("it is so", id="so").id == "so"


def test_an_identifier_survives_the_way_to_another_process() -> None:
    found = pickle.loads(pickle.dumps(InvalidValueError("two runs", id="other-configuration")))
    assert (str(found), found.id) == ("two runs", "other-configuration")
