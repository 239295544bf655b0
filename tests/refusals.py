"""Refusals as tests ask for them: by the id, and by the values that the line has to name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from wattstep.errors import WattstepError


@contextmanager
def refused(id: str, *naming: object) -> Iterator[pytest.ExceptionInfo[WattstepError]]:
    """Expects that what stands within is refused.

    Args:
        id: Of the refusal: docs/errors.md lists them, each with its class of errors.
        naming: Values that the line has to name: what is wrong, which file, the command that mends it.
    """
    with pytest.raises(WattstepError) as caught:
        yield caught
    error, line = caught.value, str(caught.value)
    if error.id != id:
        raise AssertionError(f"{error.id!r} in place of {id!r}: {line}") from error
    unnamed = [value for value in map(str, naming) if value not in line]
    if unnamed:
        raise AssertionError(f"{unnamed} not in: {line}") from error


def id_in(document: str) -> str:
    """The id that a command printed with `--json`, beside its line on standard error."""
    refusal = json.loads(document)
    assert {"error", "id", "kind"} <= set(refusal)
    return str(refusal["id"])
