"""Governs the clocks of a training: looks what caps do to its steps, holds the one that saves, and looks again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from wattstep.errors import InvalidValueError, RecordingError
from wattstep.record.hosts import parse_target
from wattstep.record.recorder import Recorder
from wattstep.schema.condition_documents import BlockFacts, GovernorFacts, GovernorLook
from wattstep.schema.figure import Status
from wattstep.train.environment import add_environment
from wattstep.train.environment.keeper import Keeper
from wattstep.train.governor.clocks import Clock, Part, find_clocks, offered_shares
from wattstep.train.governor.policy import Block, Decision, Plan, plan
from wattstep.train.governor.power import PowerLog
from wattstep.train.settings import GOVERNORS

BLOCK_S: Final = 0.4  # of a block of steps, at least
LEAST_STEPS: Final = 3
SETTLE_S: Final = 0.1  # after a change of clocks, before a block
SETTLE_STEPS: Final = 1
WINDOWS: Final = 4  # averaging windows of a power sensor that a block holds
PATIENCE_S: Final = 5.0  # for samples of a block that is over; the sampler flushes once a second
POLL_S: Final = 0.2
WATCH_S: Final = 10.0  # of a window in which what is held is watched
WATCH_STEPS: Final = 10
DRIFT: Final = 0.1  # of step time or power from what it was: two windows of it are another phase
AGAIN: Final = 10.0  # times as long as the last look took, it does not look again
NOT_THE_CLOCK: Final = (
    "the power model knows no clocks: by it, slower steps cost more, whatever the device takes"
)

ENERGY, NONE = GOVERNORS


class Caps(Protocol):
    """Caps clocks, and puts them back at its end: `environment.keeper.Keeper`."""

    def cap(self, values: Mapping[Path, int]) -> None:
        """The highest that is allowed, by file, in the file's own unit."""
        ...

    def says(self, path: Path) -> int:
        """What such a file says."""
        ...


class Energies(Protocol):
    """Energy of stretches: `power.PowerLog`."""

    status: Status
    source: str
    window_s: float

    def look(self) -> int:
        """Takes in what is new; the time in ns until which there are values."""
        ...

    def energies(self, spans: Sequence[tuple[int, int]]) -> list[float]:
        """Energy in J of stretches from begin to end in ns; NaN: not known."""
        ...


class Governor:
    """Told of every step, it caps the clocks.

    Args:
        recorder: Is recording the training.
        clocks: That may be capped.
        allowed: Slowdown that is allowed, e.g. 0.1.
        caps: Sets them.
        power: Tells the energy of blocks of steps.
        times: Status of times of steps: modelled where an emulated board paused the training.
        clock: That of the run, in ns.

    Attributes:
        looking: True while it looks: steps do not count.
    """

    def __init__(
        self, recorder: Recorder, clocks: Sequence[Clock], allowed: float, caps: Caps,
        power: Energies, times: Status = Status.MEASURED,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:  # fmt: skip
        self._recorder, self._clocks, self._allowed = recorder, clocks, allowed
        self._caps, self._power, self._times = caps, power, times
        self._now = clock
        self._offered = offered_shares(clocks)
        self._set_to: dict[Path, int] = {clock.path: clock.cap for clock in clocks}
        self._looks: list[GovernorLook] = []
        self._share = 1.0
        self._caps_ns: list[tuple[int, float]] = []
        self._polls = self._steps = self._settled = 0
        self._given_up = self.looking = False
        self._look()

    # --- a step -------------------------------------------------------------------------------

    def step(self, begin_ns: int, end_ns: int, *, counts: bool) -> None:
        """After each step.

        Args:
            begin_ns: When it began, on the clock of the run.
            end_ns: When it ended.
            counts: Whether it was a step like the others: neither traced nor the one after that.
        """
        if self._given_up:
            return
        try:
            if not self.looking:
                self._watch(begin_ns, end_ns, counts=counts)
            elif self._decision is not None:
                self._hold(begin_ns, self._decision)
            elif self._waiting_since:
                self._await_energies(end_ns)
            else:
                self._measure(begin_ns, end_ns, counts=counts)
        except RecordingError as error:  # a clock was not taken: the training goes on
            self._give_up(str(error))

    def _measure(self, begin_ns: int, end_ns: int, *, counts: bool) -> None:
        """A step of a block, or of the time that it takes to settle before it."""
        if self._settled < SETTLE_STEPS or begin_ns - self._changed_ns < self._settle_ns:
            self._settled += 1
            return
        if not counts:  # what it took is no part of the block, nor what lies beside it
            self._apart = True
            return
        stretches = self._stretches
        if self._apart or not stretches or begin_ns - stretches[-1][1] > end_ns - begin_ns:
            stretches.append((begin_ns, end_ns))
        else:
            stretches[-1] = stretches[-1][0], end_ns
        self._apart, self._steps = False, self._steps + 1
        length_ns = sum(end - begin for begin, end in stretches)
        if self._steps >= LEAST_STEPS and length_ns >= self._block_ns:
            block = Block(share=self._share, steps=self._steps, seconds=length_ns * 1e-9)
            self._blocks.append(block)
            self._spans.append(stretches)
            self._ask(None)

    # --- a look -------------------------------------------------------------------------------

    def _look(self) -> None:
        """Begins to look what caps do."""
        self.looking = True
        window_ns = round(self._power.window_s * 1e9)
        self._settle_ns = max(round(SETTLE_S * 1e9), window_ns)
        self._block_ns = max(round(BLOCK_S * 1e9), WINDOWS * window_ns)
        self._blocks: list[Block] = []
        self._spans: list[list[tuple[int, int]]] = []  # stretches of each block
        self._decision: Decision | None = None
        self._waiting_since = 0
        # The first block settles, too: the samples of what came before it are no training's.
        self._look_began_ns = self._changed_ns = self._now()
        self._recorder.steps.pause_tracing()
        self._looks.append({"first_step": self._recorder.steps.index, "last_step": None})
        self._write()
        self._plan: Plan = plan(self._allowed, self._offered, (self._times, self._power.status))
        self._ask(None, first=True)

    def _ask(self, blocks: Sequence[Block] | None, *, first: bool = False) -> None:
        """Goes on to what the plan wants next."""
        self._steps = self._settled = 0
        self._stretches: list[tuple[int, int]] = []
        self._apart = False
        try:
            wanted = next(self._plan) if first else self._plan.send(blocks)
        except StopIteration as ended:
            self._decision = ended.value
            self._set(ended.value.share)
            return
        if wanted is None:  # the energies: until their samples are there, nothing is capped
            self._set(1.0)
            self._waiting_since = self._now()
        else:
            self._set(wanted)

    def _await_energies(self, now_ns: int) -> None:
        """Until the samples of the last block are written."""
        if now_ns - self._waiting_since < POLL_S * 1e9 * (1 + self._polls):
            return
        self._polls += 1
        there = self._power.look()
        late = now_ns - self._waiting_since > PATIENCE_S * 1e9
        if there < self._spans[-1][-1][1] and not late:
            return
        self._waiting_since = self._polls = 0
        joules = iter(self._power.energies([span for spans in self._spans for span in spans]))
        self._ask(
            [
                replace(block, joules=sum(islice(joules, len(spans))))
                for block, spans in zip(self._blocks, self._spans, strict=True)
            ]
        )

    def _hold(self, begin_ns: int, decision: Decision) -> None:
        """A step under the cap that is held from here on: once it has settled, steps count again."""
        if begin_ns - self._changed_ns < self._settle_ns:
            return
        self.looking = False
        look = self._looks[-1]
        look["last_step"] = self._recorder.steps.index - 1
        look.update(facts_of(decision, self._clocks, self._set_to))
        self._write()
        self._recorder.steps.resume_tracing()
        now = self._now()
        self._look_again_ns = now + round(AGAIN * (now - self._look_began_ns))
        self._usual: tuple[float, float] | None = None
        self._drifted = 0
        self._open_window()

    def _set(self, share: float) -> None:
        """Caps every clock at a share of what the device's own governor was allowed."""
        values = {
            clock.path: clock.cap if share == 1 else clock.at(share) for clock in self._clocks
        }
        self._share = share
        if values != self._set_to:
            self._caps.cap(values)
            self._set_to = values
            self._caps_ns.append((self._now(), share))
            self._changed_ns = self._caps_ns[-1][0]

    # --- while a cap is held ------------------------------------------------------------------

    def _open_window(self) -> None:
        self._window_ns = 0
        self._window_steps, self._window_s = 0, 0.0

    def _watch(self, begin_ns: int, end_ns: int, *, counts: bool) -> None:
        """Looks again where time of a step or power is another than it was."""
        if not self._window_ns:
            if begin_ns - self._changed_ns < self._settle_ns:
                return
            self._window_ns = begin_ns
        if counts:
            self._window_steps += 1
            self._window_s += (end_ns - begin_ns) * 1e-9
        if end_ns - self._window_ns < WATCH_S * 1e9 or self._window_steps < WATCH_STEPS:
            return
        if self._others_wrote():
            return
        self._power.look()
        # The last samples may not be written yet.
        until = max(end_ns - 1_500_000_000, self._window_ns + 1)
        (joules,) = self._power.energies([(self._window_ns, until)])
        now = self._window_s / self._window_steps, joules / ((until - self._window_ns) * 1e-9)
        self._open_window()
        if self._usual is None:
            self._usual = now
            return
        self._drifted = self._drifted + 1 if has_drifted(self._usual, now) else 0
        if self._drifted >= 2 and end_ns >= self._look_again_ns:
            self._set(1.0)
            self._look()

    def _others_wrote(self) -> bool:
        """Gives up where somebody else has set a clock meanwhile; heat may keep it below our cap."""
        for path, value in self._set_to.items():
            if (says := self._caps.says(path)) > value:
                self._give_up(
                    f"something else set {path.parent.name}/{path.name} to {says}, above its cap "
                    f"of {value}"
                )
                return True
        return False

    def _give_up(self, reason: str) -> None:
        """Nothing is governed from here on; what was set is put back when the training ends."""
        self._given_up = True
        index, look = self._recorder.steps.index, self._looks[-1]
        look["given_up"] = index
        if self.looking:
            self.looking = False
            look["last_step"], look["reason"] = index - 1, reason
            self._recorder.steps.resume_tracing()
        self._recorder.note(f"the governor gave up at step {index}: {reason}")
        self._write()

    @contextmanager
    def released(self) -> Iterator[None]:
        """Without a cap meanwhile, for what is no training."""
        share = self._share
        if share == 1 or self._given_up:
            yield
            return
        self._try_to_set(1.0)
        time.sleep(self._settle_ns * 1e-9)
        yield
        self._try_to_set(share)

    def _try_to_set(self, share: float) -> None:
        try:
            self._set(share)
        except RecordingError as error:  # a clock was not taken
            self._give_up(str(error))

    @property
    def state(self) -> str:
        """What it does, in a few words."""
        if self.looking:
            return f"governor: {len(self._blocks)} blocks of steps measured"
        return "" if self._share == 1 else f"clocks capped at {100 * self._share:.0f} %"

    def _write(self) -> None:
        facts: GovernorFacts = {
            "goal": ENERGY,
            "slowdown": self._allowed,
            "part": self._clocks[0].part,
            "energy": self._power.status.value,
            "source": self._power.source,
            "looks": self._looks,
            "caps": [[t_ns, round(share, 6)] for t_ns, share in self._caps_ns],
        }
        add_environment(self._recorder, governor=facts)

    def close(self) -> None:
        """Writes the caps that were set since the last decision, and that a look was not over."""
        if self.looking:
            self._looks[-1]["last_step"] = self._recorder.steps.index - 1
            self._looks[-1]["reason"] = "the training ended before the governor had decided"
        self._write()


def has_drifted(usual: tuple[float, float], now: tuple[float, float]) -> bool:
    """True if time of a step or power differs by more than a tenth; what is not known does not."""
    return any(
        math.isfinite(before) and math.isfinite(after) and abs(math.log(after / before)) > DRIFT
        for before, after in zip(usual, now, strict=True)
        if before > 0 and after > 0
    )


def facts_of(
    decision: Decision, clocks: Sequence[Clock], set_to: Mapping[Path, int]
) -> GovernorLook:
    """A decision, JSON-ready."""
    blocks: list[BlockFacts] = [
        {
            "share": round(block.share, 6),
            "steps": block.steps,
            "seconds": round(block.seconds, 9),
            "joules": round(block.joules, 9) if math.isfinite(block.joules) else None,
        }
        for block in decision.blocks
    ]
    facts: GovernorLook = {
        "share": decision.share,
        "reason": decision.reason,
        "tested": decision.tested,
        "base_steps": decision.base_steps,
        "highest_hz": [clock.cap * clock.unit_hz for clock in clocks],
        "cap_hz": [set_to[clock.path] * clock.unit_hz for clock in clocks],
        "blocks": blocks,
    }
    if decision.slowdown is not None and decision.saving is not None:
        facts["slower"] = decision.slowdown.to_dict()
        facts["saving"] = decision.saving.to_dict()
    if decision.law is not None:
        facts["step_s"] = list(decision.law.time)
        facts["power_w"] = list(decision.law.power)
    return facts


def governed_part(processor: str, target: str | None) -> Part:
    """The clocks that a training's load is on: the GPU's, or those of the cores."""
    emulated = parse_target(target).options.get("processor")
    return "gpu" if emulated == "gpu" or (emulated is None and processor != "cpu") else "cpu"


def check_governor(processor: str, target: str | None) -> None:
    """Refuses early what cannot be governed: the local machine's clocks are looked at.

    Raises:
        InvalidValueError: The target has no clocks here, or those of this machine cannot be set.
    """
    parsed = parse_target(target)
    if parsed.scheme not in ("local", "emulate"):
        raise InvalidValueError(
            f"--governor: the clocks of --target {parsed.scheme}:... are not those of the machine "
            "that trains here: without --target, or with emulate:BOARD,slow=0.7",
            id="governor-elsewhere",
        )
    if parsed.scheme == "local":
        find_clocks(Path("/"), governed_part(processor, target))


@contextmanager
def governing(
    recorder: Recorder, governor: str, allowed: float, *, processor: str, target: str | None
) -> Iterator[Callable[[], Governor] | None]:
    """What begins to govern; None where nothing is governed. Clocks are put back in any case.

    Args:
        recorder: Is recording.
        governor: Of `settings.GOVERNORS`.
        allowed: Slowdown that is allowed.
        processor: That trains.
        target: Where the sensors are.

    Raises:
        InvalidValueError: No clock can be set, or nothing tells the power.
    """
    root = recorder.machine_root
    if governor == NONE:
        yield None
        return
    if root is None:
        raise RecordingError("--governor: the machine of these sensors has no files here")
    # What an emulated board's tree holds is gone with it; of this machine the next run puts back
    # what even the guardian could not.
    folder = recorder.path.absolute().parent if root == Path("/") else root
    governors: list[Governor] = []
    with Keeper(folder, root=root, warn=recorder.note, detached=True) as keeper:
        clocks = find_clocks(root, governed_part(processor, target))
        power = PowerLog(recorder)
        if power.by_model:
            recorder.note(f"--governor energy with --power-model: {NOT_THE_CLOCK}")
        slowed = bool(recorder.info.device.get("slowed"))

        def begin() -> Governor:
            times = Status.MODELLED if slowed else Status.MEASURED
            governors.append(Governor(recorder, clocks, allowed, keeper, power, times))
            return governors[-1]

        try:
            yield begin
        finally:
            for each in governors:
                each.close()
