"""What a governor of the clocks decided, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wattstep.report.values import plain, quantity
from wattstep.schema.condition_documents import GovernorFacts, GovernorLook
from wattstep.schema.figure import Figure
from wattstep.schema.run_report import RunReport

MOST: Final = 3  # decisions
PARTS: Final = {"cpu": "CPU clocks", "gpu": "GPU clock"}


def governor_sentences(report: RunReport) -> list[str]:
    """A sentence for each decision of the governor; none where nothing was governed."""
    recorded = report.conditions.recorded if report.conditions else {}
    governor = recorded.get("governor")
    if not governor:
        return []
    looks = governor.get("looks") or []
    texts = [plain(" ".join(_decision(governor, look))) for look in looks[:MOST]]
    more = len(looks) - MOST
    return texts + [f"Governor: it decided {more} more times."] * (more > 0)


def _decision(governor: GovernorFacts, look: GovernorLook) -> Iterator[str]:
    last = look["last_step"]
    if last is None:
        yield "Governor: it was still looking when the record ended."
        return
    share, reason = look.get("share", 1.0), look.get("reason")
    figures = _figures(look)
    if share is None or share == 1 or reason:
        yield f"Governor: from step {last + 1} on no clock was capped: {reason or 'not known'}."
        if figures:
            yield f"A cap at {100 * (look.get('tested') or 1):.0f} % was tested: {figures}."
    else:
        part = PARTS.get(governor.get("part", ""), "clocks")
        yield f"Governor: from step {last + 1} on {part} capped at {_clocks(look)}: {figures}."
    if (step := look.get("given_up")) is not None:
        yield f"It gave up at step {step}."


def _clocks(look: GovernorLook) -> str:
    pairs = zip(look.get("cap_hz") or (), look.get("highest_hz") or (), strict=False)
    texts = [f"{quantity(cap, 'Hz')} of {quantity(highest, 'Hz')}" for cap, highest in pairs]
    return ", ".join(dict.fromkeys(texts))


def _figures(look: GovernorLook) -> str:
    """Slowdown and saving with their intervals, and what they rest on."""
    if "slower" not in look or "saving" not in look:
        return ""
    slower, saving = (Figure.from_dict(look[key]) for key in ("slower", "saving"))
    if slower.missing or saving.missing:
        return f"{slower.reason or saving.reason}"
    status = saving.status.value
    return (
        f"{_percent(slower, 'slower', 'faster')}, "
        f"{_percent(saving, 'less energy a step', 'more energy a step')}, {status}, against {look.get('base_steps', 0):,} steps without the cap, in turn"
    )


def _percent(figure: Figure, more: str, less: str) -> str:
    """A change in percent with its interval, e.g. "8.1 % slower (7.7 to 8.5)"."""
    value, ends = figure.value or 0.0, (figure.low or 0.0, figure.high or 0.0)
    sign, word = (1, more) if value >= 0 else (-1, less)
    low, high = sorted(sign * end for end in ends)
    return f"{100 * abs(value):.1f} % {word} ({100 * low:.1f} to {100 * high:.1f})"
