"""Markers: calls that may end a step of somebody's own script."""

from __future__ import annotations

from wattstep.errors import InvalidValueError

FORMS = "optimizer, backward, call:MODULE:FUNCTION"


def check_marker(marker: str) -> str:
    """The marker, if it is one of the forms.

    Raises:
        InvalidValueError: It is not.
    """
    form = marker.split(":")
    if marker in ("optimizer", "backward") or (form[0] == "call" and len(form) == 3 and all(form)):
        return marker
    raise InvalidValueError(f"--step-marker {marker!r} is not one of {FORMS}")
