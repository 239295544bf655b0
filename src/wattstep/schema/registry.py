"""Named parts that are loaded when they are asked for: ours from a table, other packages' from entry points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any


class Registry(Mapping[str, str]):
    """Names to the places of what they stand for, "module:attribute"; nothing of it is imported.

    A package that is installed adds to it by one line of its `pyproject.toml`, e.g.
    `[project.entry-points."wattstep.sensors"]`, `flow = "water.flow:FlowMeter"`. A name of ours
    stays ours.

    Args:
        group: Of entry points, e.g. "wattstep.sensors".
        own: What comes with wattstep, in the order in which it is gone through.
    """

    def __init__(self, group: str, own: Mapping[str, str]) -> None:
        self.group = group
        self._own = dict(own)

    @cached_property
    def _all(self) -> dict[str, str]:
        from importlib.metadata import entry_points  # as slow as a small command

        added = {point.name: point.value for point in entry_points(group=self.group)}
        return {**self._own, **{name: added[name] for name in sorted(added.keys() - self._own)}}

    def __getitem__(self, name: str) -> str:
        return self._own[name] if name in self._own else self._all[name]

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in self._all

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    @property
    def own(self) -> tuple[str, ...]:
        """The names that come with wattstep, which are known without a look at other packages."""
        return tuple(self._own)

    def load(self, name: str) -> Any:
        """Object that a name stands for, its module imported only now.

        Raises:
            KeyError: There is no such name.
            ImportError: Its module cannot be imported.
        """
        module, _, attribute = self[name].partition(":")
        return getattr(import_module(module), attribute)
