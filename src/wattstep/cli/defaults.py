"""Defaults of options from the environment (WATTSTEP_POWER_MODEL) and from `[tool.wattstep]` of pyproject.toml.

What is given on the command line comes first, then the environment, then the file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Protocol

from wattstep.errors import InvalidValueError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PREFIX: Final = "WATTSTEP_"
FILE: Final = "pyproject.toml"
NEVER: Final = ("help", "version", "json", "install-completion", "show-completion")


class Command(Protocol):
    """Command, as click has it; newer versions of typer have their own click."""

    params: Sequence[Any]


def defaults(
    commands: Mapping[str, Command],
    environment: Mapping[str, str],
    folder: Path,
    every: Callable[[], Mapping[str, Command]],
) -> dict[str, dict[str, Any]]:
    """Defaults of each command's parameters, by the names that click knows them by.

    Args:
        commands: Those that may be called.
        environment: Variables by name; an empty one says nothing.
        folder: Where the search for the file begins; it goes upwards to the first one.
        every: Gives all commands there are, which is asked only where those do not have an option.

    Raises:
        InvalidValueError: The file cannot be read, or says something of an option that there is not.
    """
    file, table = _table(folder)
    _check_common(file, table, commands, every)
    return {
        name: {
            **_of_file(file, name, table, options := _options(command)),
            **{
                parameter: value
                for option, parameter in options.items()
                if (value := environment.get(PREFIX + option.upper().replace("-", "_")))
            },
        }
        for name, command in commands.items()
    }


def _options(command: Command) -> dict[str, str]:
    """Parameters by the names of their options, without dashes before them: of several, the first."""
    options = (each for each in command.params if each.param_type_name == "option")
    names = {
        next((spelt[2:] for spelt in each.opts if spelt.startswith("--")), ""): each.name or ""
        for each in options
    }
    return {name: parameter for name, parameter in names.items() if name not in ("", *NEVER)}


def _of_file(
    file: Path | None,
    name: str,
    table: Mapping[str, Any],
    options: Mapping[str, str],
) -> dict[str, Any]:
    """What the file says of a command: all that it has an option for, and its own table."""
    own = table.get(name, {}) if isinstance(table.get(name), Mapping) else {}
    known = {key.replace("_", "-"): value for key, value in own.items()}
    for key in known:
        if key not in options:
            raise _unknown(f"[tool.wattstep.{name}] of {file}", key, list(options))
    given = {**_common(table), **known}
    return {options[key]: value for key, value in given.items() if key in options}


def _common(table: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says of all commands."""
    return {
        key.replace("_", "-"): value
        for key, value in table.items()
        if not isinstance(value, Mapping)
    }


def _check_common(
    file: Path | None,
    table: Mapping[str, Any],
    commands: Mapping[str, Command],
    every: Callable[[], Mapping[str, Command]],
) -> None:
    """Refuses what no command has."""
    from wattstep.cli import COMMANDS

    where = f"[tool.wattstep] of {file}"
    for key, value in table.items():
        if isinstance(value, Mapping) and key not in COMMANDS:
            raise _unknown(where, key, list(COMMANDS))
    known = {option for each in commands.values() for option in _options(each)}
    left = set(_common(table)) - known
    if left:
        known = {option for each in every().values() for option in _options(each)}
        for key in sorted(left - known):
            raise _unknown(where, key, sorted(known))


def _table(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """`[tool.wattstep]` of the first file upwards; empty where there is none."""
    for each in (folder, *folder.parents):
        file = each / FILE
        if not file.is_file():
            continue
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            # Other tools' business, unless it speaks of us.
            text = file.read_bytes() if os.access(file, os.R_OK) else b""
            if b"tool.wattstep" in text:
                raise InvalidValueError(
                    f"{file} cannot be read: {error}", id="unreadable-defaults"
                ) from error
            return None, {}
        tools = document.get("tool", {})
        table = tools.get("wattstep", {}) if isinstance(tools, Mapping) else {}
        if not isinstance(table, Mapping):
            raise InvalidValueError(f"{file}: tool.wattstep is no table", id="malformed-defaults")
        return file, table
    return None, {}


def _unknown(where: str, key: str, known: list[str]) -> InvalidValueError:
    close = get_close_matches(key.replace("_", "-"), known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return InvalidValueError(f"{where}: there is no option {key!r}{hint}", id="unknown-default")
