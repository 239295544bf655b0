"""Options that are already what their command takes: of these nobody converts anything, and no library for it is loaded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

PLAIN: Final = (str, bool, int, float)


class _Plain:
    """Stands for typer's conversion of a parameter until a value needs one.

    typer from 0.29 on asks pydantic for it, also to make a text of a text: 50 ms of processor time for each command.
    """

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """As typer's own."""
        described = param.type_descriptor
        many = param.multiple or param.nargs == -1
        if value is None:
            return () if many else None
        plain = described.annotation in PLAIN and type(value) is described.annotation
        if plain and not (many or described.is_ranged or described.parameter_info.parser):
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def convert_late(parameters: Iterable[Any]) -> None:
    """Has typer look for a conversion only where a value needs one.

    Args:
        parameters: Of commands; those of an older typer, which converts by itself, stay as they are.
    """
    for each in parameters:
        if getattr(each, "_runtime_param", each) is None and hasattr(each, "type_descriptor"):
            each._runtime_param = _Plain()
