"""Figures under names, as the metrics of a run or the quantities of an operation; some are lists or mappings of figures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias, TypeGuard

from wattstep.schema.figure import Figure, FigureDocument

Entry: TypeAlias = Figure | tuple[Figure, ...] | Mapping[str, Figure]

_IS_FIGURE = {"value", "unit", "status"}
_COLUMNS = ("value", "unit", "low", "high", "status")


class UnknownFigureError(KeyError):
    """No figure has the name; the one that is spelt most like it is looked for only where this is shown."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(name)
        self._known = known

    def __str__(self) -> str:
        name = str(self.args[0])
        close = get_close_matches(name, self._known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        return f"there is no figure {name!r} here{hint}"


def _spelt(name: str, entry: Entry, first: dict[str, str]) -> str:
    """An entry in words; `first` has each reason with the name under which it came first."""
    if isinstance(entry, Figure):
        if entry.missing and first.setdefault(str(entry.reason), name) != name:
            return f"missing: as for {first[str(entry.reason)]}"
        return str(entry)
    if isinstance(entry, Mapping):
        parts = [f"{key} {_spelt(name, figure, first)}" for key, figure in entry.items()]
        return "; ".join(parts) or "none"
    return "; ".join(_spelt(name, figure, first) for figure in entry)


class Figures(Mapping[str, Any]):
    """Figures by name, in order.

    An entry is one Figure, a tuple of them (one a core, from 0) or a mapping (one a category).

    Args:
        entries: By name.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        self._entries: dict[str, Entry] = {
            name: tuple(entry) if isinstance(entry, list) else entry
            for name, entry in (entries or {}).items()
        }

    def __getitem__(self, name: str) -> Any:
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownFigureError(name, self._entries) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        """A line a figure, as a prompt or a notebook shows them."""
        first: dict[str, str] = {}
        lines = [f"  {name}: {_spelt(name, entry, first)}" for name, entry in self._entries.items()]
        return "\n".join([f"{type(self).__name__}:", *lines])

    def figure(self, name: str) -> Figure | None:
        """An entry that is one figure; None where there is none of that name."""
        entry = self._entries.get(name)
        return entry if isinstance(entry, Figure) else None

    def value(self, name: str) -> float | None:
        """The number of such an entry; None where it is missing or not there."""
        figure = self.figure(name)
        return None if figure is None else figure.value

    def listed(self, name: str) -> tuple[Figure, ...]:
        """An entry that is a list; empty where there is none of that name."""
        entry = self._entries.get(name)
        return entry if isinstance(entry, tuple) else ()

    def parts(self, name: str) -> Mapping[str, Figure]:
        """An entry that is a mapping; empty where there is none of that name."""
        entry = self._entries.get(name)
        return entry if isinstance(entry, Mapping) else {}

    def updated(self, **entries: Entry) -> Figures:
        """Copy with other entries, new ones last."""
        return Figures({**self._entries, **entries})

    def each(self) -> Iterator[tuple[str, str | None, Figure]]:
        """Every figure with the name of its entry, and its number or name within that (None: alone)."""
        for name, entry in self._entries.items():
            if isinstance(entry, Figure):
                yield name, None, entry
            else:
                parts = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
                for key, figure in parts:
                    yield name, str(key), figure

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Any:
        """From JSON; what is no figure, list or mapping of figures is passed over."""
        entries = {name: _entry(thing) for name, thing in document.items()}
        return cls({name: entry for name, entry in entries.items() if entry is not None})


class Metrics(Figures):
    """The metrics of a run by name: `metrics["step_time"]`, `metrics.figure("step_time")`."""

    __slots__ = ()

    def rows(self) -> list[dict[str, Any]]:
        """Row for each figure: metric, key (which of several, or None), value, unit, low, high, status."""
        return [
            {
                "metric": name,
                "key": key,
                **{column: getattr(figure, column) for column in _COLUMNS},
                "status": figure.status.value,
            }
            for name, key, figure in self.each()
        ]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame (pandas must be installed)."""
        import pandas  # type: ignore[import-untyped,import-not-found,unused-ignore]

        return pandas.DataFrame(self.rows(), columns=["metric", "key", *_COLUMNS])

    def __call__(self) -> dict[str, Any]:
        """The entries, as `run.metrics()` gave them up to 0.1."""
        return dict(self)


def is_figure(thing: object) -> TypeGuard[FigureDocument]:
    """True if a part of a JSON document is a figure."""
    return isinstance(thing, Mapping) and thing.keys() >= _IS_FIGURE


def _entry(thing: object) -> Entry | None:
    if isinstance(thing, Figure):
        return thing
    if isinstance(thing, (list, tuple)):
        return tuple(figure for each in thing if isinstance(figure := _entry(each), Figure))
    if not isinstance(thing, Mapping):
        return None
    if is_figure(thing):
        return Figure.from_dict(thing)
    parts = {str(key): _entry(each) for key, each in thing.items()}
    return {key: each for key, each in parts.items() if isinstance(each, Figure)}
