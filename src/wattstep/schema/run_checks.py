"""Checks of the fields of `run.json`, made once when it is read, so that nobody after has to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from typing import Any, Final, get_args

from wattstep.schema.channel import Channel, Domain, Kind, Origin
from wattstep.schema.checks import (
    INT32,
    INT64,
    LEAST_NUMBER,
    UINT64,
    Check,
    at_least,
    facts,
    listed,
    mapping,
    number,
    one_of,
    or_none,
    record,
    shown,
    string,
    whole,
    yes_no,
)
from wattstep.schema.goal import Goal


def scale(value: Any) -> float:
    """Value of a raw integer.

    Raises:
        ValueError: It is no number, or 0, or as good as that.
    """
    if abs(number(value)) < LEAST_NUMBER:
        raise ValueError(f"a scale of {value:g} is useless")
    return float(value)


def _moment(value: Any) -> str:
    """When a run began; "" where nobody knows."""
    if text := string(value):
        try:
            datetime.strptime(text, MOMENT)
        except ValueError:
            raise ValueError(f"{shown(text)} is no time like 2026-11-20T12:00:00+0000") from None
    return text


def _pair(value: Any) -> tuple[int, ...]:
    """Two times in ns: monotonic and wall clock less it, or begin and end."""
    pair = listed(whole(-INT64, INT64))(value)
    if len(pair) != 2:
        raise ValueError("no pair of times")
    return tuple(pair)


def _span(value: Any) -> tuple[int, ...]:
    """Begin and end in ns."""
    span = _pair(value)
    if span[1] < span[0]:
        raise ValueError("it ends before it begins")
    return span


def _goal(value: Any) -> str:
    Goal.parse(string(value))  # InvalidValueError is a ValueError
    return str(value)


MOMENT: Final = "%Y-%m-%dT%H:%M:%S%z"
MOST_STEPS: Final = 10**12  # of a training: one a microsecond for eleven days
MOST_INTERVAL_S: Final = 1e9  # between two samples: 31 years
_STEP: Final = whole(0, MOST_STEPS)
_TEXT: Final = or_none(string)
_COUNT: Final = or_none(whole(1, MOST_STEPS))
_FROM_0: Final = or_none(at_least(0))
CHANNEL: Final[Mapping[str, Check]] = {
    "name": string,
    "unit": string,
    "kind": one_of(*get_args(Kind)),
    "domain": one_of(*get_args(Domain)),
    "role": string,
    "source": string,
    "scale": scale,
    "wrap": or_none(whole(1, UINT64 + 1)),
    "core": or_none(whole(0, INT32)),
    "resolution": _FROM_0,
    "status": one_of(*get_args(Origin)),
    "window_s": _FROM_0,
    "observed_share": _FROM_0,
    "range_to": _FROM_0,
    "limit": or_none(number),
    "note": string,
    "gpu": string,
}
WITH_DEFAULT: Final = frozenset(f.name for f in fields(Channel) if f.default is not MISSING)
_READ: Final[Mapping[str, Check]] = {
    "number": whole(0, INT32),
    "sensor": string,
    "path": string,
    "parser": string,
    "every": whole(1, INT64),
    "channels": listed(record(CHANNEL, WITH_DEFAULT)),
}
_DATA: Final[Mapping[str, Check]] = {
    "name": string,
    "stand_in": yes_no,
    "stands_for": _TEXT,
    "sha256": string,
    "samples": whole(0, INT64),
}
_CLUSTER: Final = facts(
    {"cores": listed(whole(0, INT32)), "max_hz": _FROM_0}, needed=("kind", "cores")
)
_GPU: Final[Mapping[str, Check]] = {
    "name": string,
    "number": whole(0, INT32),
    "uuid": string,
    "pci": string,
}
MACHINE: Final[Mapping[str, Check]] = {
    "cores": or_none(whole(0, INT32)),
    "memory": or_none(whole(0, INT64)),
    "clusters": or_none(listed(_CLUSTER)),
    "governors": or_none(facts()),
    "gpu": or_none(facts({**_GPU, "beside": listed(facts(_GPU))})),
    "gpus": listed(string),
    "clocks": string,
}
_LOOK: Final = facts(
    {
        "at_ns": whole(-INT64, INT64),
        "compute_s": listed(at_least(0)),
        "memory_s": listed(at_least(0)),
        "right": yes_no,
    }
)
_CANARY: Final[Mapping[str, Check]] = {
    "version": or_none(whole(0, INT32)),
    "kind": string,
    "before": or_none(_LOOK),
    "after": or_none(_LOOK),
}
_OPTIONS: Final[Mapping[str, Check]] = {
    "accumulate": _COUNT,
    "channels_last": or_none(yes_no),
    "compiled": or_none(yes_no),
    **dict.fromkeys(("checkpointing", "offload", "exported", "one_thread"), or_none(yes_no)),
    **dict.fromkeys(("train_last", "lora"), _COUNT),
    "optimizer": or_none(string),
    **dict.fromkeys(("policy", "opencl_mode"), or_none(string)),
    "exclude": or_none(listed(string)),
    "frames_per_step": _FROM_0,
    "until": or_none(_goal),
}
_LOOK_OF_GOVERNOR: Final = facts(
    {
        "first_step": whole(0, INT64),
        "last_step": or_none(whole(-1, INT64)),
        "share": or_none(at_least(0)),
        "reason": string,
        "tested": or_none(at_least(0)),
        "slower": facts(),
        "saving": facts(),
        "base_steps": whole(0, INT64),
        "highest_hz": listed(at_least(0)),
        "cap_hz": listed(at_least(0)),
        "step_s": listed(number),
        "power_w": listed(number),
        "blocks": listed(facts()),
        "given_up": whole(0, INT64),
    },
    needed=("first_step", "last_step"),
)


def _cap(value: Any) -> list[float]:
    """A time in ns and a share of a clock."""
    pair = listed(at_least(0))(value)
    if len(pair) != 2 or pair[1] == 0:
        raise ValueError("no time and share")
    return list(pair)


_GOVERNOR: Final = facts(
    {
        "goal": string,
        "slowdown": at_least(0),
        "part": one_of("cpu", "gpu"),
        "energy": string,
        "source": string,
        "looks": listed(_LOOK_OF_GOVERNOR),
        "caps": listed(_cap),
    }
)


def _stretch(value: Any) -> list[int]:
    """Begin and end in ns, each with the bytes resident then."""
    four: list[int] = listed(whole(0, INT64))(value)
    if len(four) != 4 or four[2] < four[0]:
        raise ValueError("no stretch of time")
    return four


_COMPILING: Final = facts(
    {
        "stretches": listed(_stretch),
        **dict.fromkeys(("graphs", "from_cache"), whole(0, INT64)),
    },
    needed=("stretches", "graphs", "from_cache"),
)
_CONDITIONS: Final[Mapping[str, Check]] = {
    "ambient": or_none(facts({"value": or_none(number)})),
    "forecast": or_none(facts()),
    "governor": or_none(_GOVERNOR),
    "compiling": or_none(_COMPILING),
}
_FIGURE: Final = facts(
    {**dict.fromkeys(("value", "low", "high"), at_least(0)), "unit": string, "status": string},
    needed=("value", "low", "high", "unit", "status"),
)
_SCHEDULE: Final[Mapping[str, Check]] = {
    "policy": string,
    "updates": listed(
        record(
            {
                **dict.fromkeys(("tasks", "workers"), whole(0, INT64)),
                "threads": mapping(whole(0, INT64)),
                "pinned": yes_no,
                "policy": string,
            }
        )
    ),
    "teams": listed(
        record(
            {
                **dict.fromkeys(("name", "layer", "phase", "shapes"), string),
                "cores": whole(1, INT32),
            }
        )
    ),
    "cores": whole(1, INT32),
    **dict.fromkeys(("predicted", "default"), _FIGURE),
    **dict.fromkeys(("bound_s", "path_s", "work_s", "beside_s", "handover_s"), at_least(0)),
    "times": one_of("learned", "kept"),
    "learning_steps": whole(0, INT64),
    "changed_by": _FROM_0,
    "interference": listed(
        record(
            {
                **dict.fromkeys(("kind", "beside"), string),
                **dict.fromkeys(("value", "low", "high"), at_least(0)),
            }
        )
    ),
    "relearned": listed(
        record(
            {
                **dict.fromkeys(("step", "learning_steps"), whole(0, INT64)),
                "steps_factor": at_least(0),
                "operations_factor": _FROM_0,
                "again": yes_no,
            }
        )
    ),
    "clusters": listed(record({"cores": string, "tasks": whole(0, INT64), "tasks_s": at_least(0)})),
}
_ASKED: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("steps", "clean_steps", "least_steps"), or_none(_STEP)),
    "seconds": _FROM_0,
}
_PLANNED: Final[Mapping[str, Check]] = {
    "device": string,
    "mode": _TEXT,
    "configuration": string,
    "changed": listed(string),
    "figures": mapping(
        facts(
            {**dict.fromkeys(("value", "low", "high"), number), "unit": string},
            needed=("value", "low", "high", "unit"),
        )
    ),
}
_POWER: Final[Mapping[str, Check]] = {
    "name": string,
    "idle_watts_a_core": at_least(0),
    "busy_watts_a_core": at_least(0),
    "source": string,
}


def _reads(value: Any) -> list[dict[str, Any]]:
    """What was sampled; each read has a journal of its own."""
    reads: list[dict[str, Any]] = listed(record(_READ))(value)
    numbers = [read["number"] for read in reads]
    if len(set(numbers)) < len(numbers):
        raise ValueError("two reads have one number")
    if not all(read["channels"] for read in reads):
        raise ValueError("a read has no channels")
    return reads


def _interval(value: Any) -> float:
    """Time between two samples in s."""
    if not 0 <= number(value) <= MOST_INTERVAL_S:
        raise ValueError(f"{shown(value)} s between samples: at most {MOST_INTERVAL_S:g} are known")
    return float(value)


_FROM_0_WHOLE: Final = whole(0, INT64)
_IMPORTED_FILE: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("file", "format"), string),
    **dict.fromkeys(("values", "events", "rows"), _FROM_0_WHOLE),
    "ignored": mapping(_FROM_0_WHOLE),
    "left_out": mapping(facts({"events": _FROM_0_WHOLE, "total_s": at_least(0)})),
}
_ALIGNMENT: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("file", "method"), string),
    "uncertainty_s": _FROM_0,
}
_IMPORTED: Final[Mapping[str, Check]] = {
    "credit": string,
    "trace": or_none(facts(_IMPORTED_FILE)),
    "telemetry": or_none(listed(facts(_IMPORTED_FILE))),
    "alignment": or_none(listed(facts(_ALIGNMENT))),
    "steps": or_none(facts(dict.fromkeys(("count", "count_low", "count_high"), _STEP))),
}
RUN: Final[Mapping[str, Check]] = {
    "state": string,
    "created": _moment,
    "workload": string,
    "title": string,
    "engine": string,
    "batch_size": _COUNT,
    "threads": _COUNT,
    "precision": _TEXT,
    "processor": _TEXT,
    "seed": or_none(whole(-UINT64, UINT64)),
    "interval_s": _interval,
    "warmup": _STEP,
    "trace": string,
    "keep": facts(
        {
            **dict.fromkeys(("raw_s", "steps_s"), at_least(10)),
            **dict.fromkeys(("thinned_reads", "thinned_steps"), _FROM_0_WHOLE),
        }
    ),
    "first_step": _STEP,
    "data": or_none(record(_DATA)),
    "device": facts(
        {**MACHINE, "emulated_on": or_none(facts(MACHINE)), "slowed": or_none(at_least(0))}
    ),
    "target": string,
    "conditions": facts(_CONDITIONS),
    "canary": facts(_CANARY),
    "imported": facts(_IMPORTED),
    "calibration": or_none(facts()),
    "environment": facts(),
    "model": facts({"parameters": or_none(whole(0, INT64))}),
    "options": facts(_OPTIONS),
    "schedule": facts(_SCHEDULE),
    "planned": facts(_PLANNED),
    "asked": facts(_ASKED),
    "power_model": or_none(facts(_POWER, needed=tuple(_POWER))),
    "scheduling": string,
    "reads": _reads,
    "absent": mapping(string),
    "notes": listed(string),
    "lost": mapping(whole(-INT64, INT64)),
    "gaps": listed(_span),
    "clocks": listed(_pair),
    "device_clock": facts(
        {
            "device": string,
            "uncertainty_ns": _FROM_0,
            "rate": _FROM_0,
            "anchors": or_none(whole(0, INT64)),
            "piece_ns": or_none(_FROM_0),
        }
    ),
}
