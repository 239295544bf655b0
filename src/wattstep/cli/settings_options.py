"""Options of commands that are fields of settings, with the name, type, default and help that stand there."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from wattstep.schema.settings import option_of
from wattstep.train.settings import TrainingSettings

Command = Callable[..., None]


def with_settings(
    *names: str, of: type = TrainingSettings, **defaults: Any
) -> Callable[[Command], Command]:
    """Gives a command options that are fields of settings; it takes them by name, or as `**given`.

    Args:
        names: All its options in the order of its help: parameters of the command with a default,
            which stay what they are, and fields, with the type, default and help of their
            `schema.settings.setting`. Parameters that are not named come first.
        of: The settings; what they say nothing of, the help of `TrainingSettings` says.
        defaults: Of fields, where the command has another one.
    """

    def dressed(command: Command) -> Command:
        hints = get_type_hints(command, include_extras=True)
        own = {
            name: each.replace(annotation=hints[name])
            for name, each in inspect.signature(command).parameters.items()
            if each.kind is not each.VAR_KEYWORD
        }
        ordered = [each for name, each in own.items() if name not in names]
        declared = [name for name, each in own.items() if each.default is not each.empty]
        ordered += [
            own[name] if name in declared else _option(name, of, defaults) for name in names
        ]
        signature = inspect.Signature([each.replace(kind=each.KEYWORD_ONLY) for each in ordered])

        @wraps(command)
        def filled(**given: Any) -> None:
            bound = signature.bind(**given)
            bound.apply_defaults()
            command(**bound.arguments)

        filled.__annotations__ = {each.name: each.annotation for each in ordered}
        filled.__signature__ = signature  # type: ignore[attr-defined]
        return filled

    return dressed


def _option(name: str, of: type, defaults: dict[str, Any]) -> inspect.Parameter:
    """The option of a field."""
    field = _field(of, name)
    metadata = (
        field.metadata if field.metadata.get("help") else _field(TrainingSettings, name).metadata
    )
    option = typer.Option(
        f"--{option_of(of, name)}", help=metadata["help"], metavar=metadata["metavar"]
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=defaults.get(name, field.default),
        annotation=Annotated[get_type_hints(of)[name], option],
    )


def _field(of: type, name: str) -> Field[Any]:
    (match,) = (each for each in fields(of) if each.name == name)
    return match


def absolute(folder: str | None) -> str | None:
    """A folder as processes elsewhere find it."""
    return None if folder is None else str(Path(folder).absolute())
