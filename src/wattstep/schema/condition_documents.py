"""Documents inside `run.json` that say under which conditions a run was made, by key; see `run_documents`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from wattstep.schema.figure import FigureDocument


class AmbientFacts(TypedDict, total=False):
    """Ambient temperature: a value in °C, or the channels that sampled it."""

    value: float | None
    unit: str
    source: str
    channels: list[str]


class FanFacts(TypedDict, total=False):
    """A fan, in the user's words or as the channels that sampled it."""

    words: str
    source: str
    channels: list[str]


class SteadinessFacts(TypedDict, total=False):
    """How long was waited for a steady state, and whether it came.

    `steady` is None where nothing could be judged; `waited_s` stands before a run, `after_s`,
    `most_s` and `most_steps` in one that ends when it is steady.
    """

    steady: bool | None
    waited_s: float
    after_s: float
    most_s: float | None
    most_steps: int | None
    criterion: dict[str, float]
    judged: list[str]
    silent: list[str]
    moving: list[str]


class ForecastFacts(TypedDict, total=False):
    """Forecast of a run's end while it ran, figures as JSON, and the time in s that it took in the end."""

    after_steps: int
    time_left: FigureDocument
    energy_left: FigureDocument
    battery_left: FigureDocument
    time_came: float


class CooldownFacts(TypedDict, total=False):
    """How long a device was left to cool before a run, in s, and its temperature then in °C."""

    seconds: float
    temperature: float | None
    note: str


class BlockFacts(TypedDict):
    """Some steps at a share of the clock: how many, how long in s, and what they took in J."""

    share: float
    steps: int
    seconds: float
    joules: float | None


class GovernorLook(TypedDict, total=False):
    """A look of the governor: the steps that it took, which do not count, and what it decided.

    Attributes:
        last_step: None while it looks.
        share: Cap that was held from then on, as a share of the clock that the device's own governor
            may take; 1: none, for the `reason`.
        tested: Cap that `slower` (time of a step over that without a cap, less 1) and `saving` (1 less
            that of energy) are of, figures as JSON; None: none was.
        base_steps: Steps without a cap that it was compared with.
        highest_hz: Of each clock, what its own governor may take.
        cap_hz: Of each clock, what was allowed from then on.
        step_s: a and b of a step's time a + b/share in s, as fitted.
        power_w: c, d and e of its power c + d·share + e·share³ in W.
        given_up: Step from which on somebody else set the clocks.
    """

    first_step: int
    last_step: int | None
    share: float
    reason: str
    tested: float | None
    slower: Mapping[str, Any]
    saving: Mapping[str, Any]
    base_steps: int
    highest_hz: list[float]
    cap_hz: list[float]
    step_s: list[float]
    power_w: list[float]
    blocks: list[BlockFacts]
    given_up: int


class GovernorFacts(TypedDict, total=False):
    """What governed the clocks, see `wattstep.train.governor`.

    Attributes:
        goal: "energy".
        slowdown: That was allowed.
        part: "cpu" or "gpu".
        energy: Status of its energies, by the `source`.
        caps: When each cap was set, in ns on the clock of the run, and its share.
    """

    goal: str
    slowdown: float
    part: str
    energy: str
    source: str
    looks: list[GovernorLook]
    caps: list[list[float]]


class CompilingFacts(TypedDict):
    """Compiling of a model within its training.

    Attributes:
        stretches: Begin in ns, resident bytes then, end in ns, resident bytes then.
        graphs: That were compiled.
        from_cache: Of these, that the compiler had kept on disk.
    """

    stretches: Sequence[Sequence[int]]
    graphs: int
    from_cache: int


class ConditionFacts(TypedDict, total=False):
    """Surroundings of a run; see `wattstep.train.environment`."""

    ambient: AmbientFacts | None
    fan: FanFacts
    stable: SteadinessFacts
    sustain: SteadinessFacts
    cooldown: CooldownFacts
    forecast: ForecastFacts | None
    governor: GovernorFacts | None
    compiling: CompilingFacts | None


class CanaryLook(TypedDict):
    """One pass of a canary: when it began, the time of each pass in s, whether its results were right."""

    at_ns: int
    compute_s: list[float]
    memory_s: list[float]
    right: bool


class CanaryFacts(TypedDict, total=False):
    """The canary of a run; looks that were not made are missing or None."""

    version: int | None
    kind: str
    before: CanaryLook | None
    after: CanaryLook | None
