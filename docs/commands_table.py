"""Writes the part of docs/commands.md that lists every command with its arguments and options.

    python docs/commands_table.py docs/commands.md

What stands between the two marks is made from the commands themselves; the rest is kept.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import typer

from wattstep.cli import COMMANDS

BEGIN, END = "<!-- commands: begin -->\n", "<!-- commands: end -->\n"


def listed() -> str:
    """Every command, the first sentence of its help, and what it takes, as Markdown."""
    return "\n" + "\n\n".join(_command(name, place) for name, place in COMMANDS.items()) + "\n\n"


def _command(name: str, place: str) -> str:
    module, _, function = place.partition(":")
    app = typer.Typer(add_completion=False)
    app.command(name)(getattr(importlib.import_module(module), function))
    command = typer.main.get_command(app)
    rows = []
    for each in command.params:
        if each.name == "help" or getattr(each, "hidden", False):
            continue
        option = each.param_type_name == "option"
        words = [f"`{word}`" for word in (*each.opts, *each.secondary_opts)]
        shown = ", ".join(words) if option else f"`{each.metavar or (each.name or '').upper()}`"
        value = f" `{each.metavar}`" if option and each.metavar and not each.is_flag else ""
        help_text = " ".join((getattr(each, "help", None) or "").split()).replace("|", "\\|")
        what = f"{shown}{value}".replace("|", "\\|")
        rows.append(f"| {what} | {help_text} |".replace("|  |", "| |"))
    head = ["| | |", "|---|---|"] if rows else []
    lines = [f"### `wattstep {name}`", "", " ".join((command.help or "").split()), "", *head, *rows]
    return "\n".join(lines).rstrip()


def document(text: str) -> str:
    """The document with the list as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + listed() + END + after


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(document(path.read_text(encoding="utf-8")), encoding="utf-8")
