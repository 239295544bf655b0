"""The optimizer as OpenCL C: what `exported.updates` computes, written out for one value."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from wattstep.engines.exported.updates import Update


@dataclass(frozen=True)
class Term:
    """A value in OpenCL C, which knows arithmetic.

    Attributes:
        text: Its expression.
    """

    text: str

    def __add__(self, other: Any) -> Term:
        return Term(f"({self.text} + {_text(other)})")

    def __sub__(self, other: Any) -> Term:
        return Term(f"({self.text} - {_text(other)})")

    def __mul__(self, other: Any) -> Term:
        return Term(f"({self.text} * {_text(other)})")

    def __rmul__(self, other: Any) -> Term:
        return Term(f"({_text(other)} * {self.text})")

    def __truediv__(self, other: Any) -> Term:
        return Term(f"({self.text} / {_text(other)})")


def _text(value: Any) -> str:
    return value.text if isinstance(value, Term) else f"{float(value)!r}f"


class _States(MutableMapping[str, Term]):
    """The optimizer's numbers of a value: read from memory, and written back where they are set."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._now = {name: Term(f"state_{name}[at]") for name in names}
        self.lines: list[str] = []

    def __getitem__(self, name: str) -> Term:
        return self._now[name]

    def __setitem__(self, name: str, value: Term) -> None:
        self.lines += [f"const float new_{name} = {value.text};", f"state_{name}[at] = new_{name};"]
        self._now[name] = Term(f"new_{name}")

    def __delitem__(self, name: str) -> None:
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def update_source(update: Update, scalars: Sequence[str], *, decays: bool) -> str:
    """OpenCL C of an optimizer.

    Macros `UPDATE_PARAMETERS(of)` and `UPDATE_ARGUMENTS(of)` are a kernel's further parameters, by a
    prefix: the parameter, each state, its decay where any has one, and the scalars where there are
    any. `update(at, gradient, ...)` changes one value.

    Args:
        update: The optimizer.
        scalars: Names of its numbers that change from step to step.
        decays: Whether any parameter has a decay.
    """
    states = _States(update.states)
    decay: Any = Term("decay") if decays else 0.0
    weight = update(
        Term("weight[at]"), Term("gradient"), states, decay,
        {name: Term(f"scalars[{at}]") for at, name in enumerate(scalars)},
        lambda value: Term(f"sqrt({value.text})"),
    )  # fmt: skip
    typed = [("__global float *restrict ", "weight")]
    typed += [("__global float *restrict ", f"state_{name}") for name in update.states]
    typed += [("float ", "decay")] if decays else []
    typed += [("__global const float *restrict ", "scalars")] if scalars else []
    plain = "".join(f", {kind}{name}" for kind, name in typed)
    prefixed = "".join(f", {kind}of##_{name}" for kind, name in typed)
    passed = "".join(f", of##_{name}" for _, name in typed)
    body = "\n  ".join((*states.lines, f"weight[at] = {weight.text};"))
    return (
        f"#define UPDATE_PARAMETERS(of) {prefixed}\n"
        f"#define UPDATE_ARGUMENTS(of) {passed}\n"
        f"inline void update(int at, float gradient{plain}) {{\n  {body}\n}}\n"
    )
