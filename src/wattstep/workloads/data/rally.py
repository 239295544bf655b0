"""A game of bats and ball that stands in for Pong where no emulator is installed; no code or picture is Atari's."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from wattstep.schema.workload import DataFacts
from wattstep.workloads.data.atari import ACTIONS, FRAMES_PER_MOVE, NAME, Move
from wattstep.workloads.data.samples import Bytes

TITLE = "a game of bats and ball, drawn by wattstep"
SIDE, BAT, BALL = 84, 12, 2  # pixels
POINTS = 21  # of a won game
GREY, WHITE = 87, 236
STEPS = {2: -2, 3: 2, 4: -2, 5: 2}  # pixels a frame by action; the others stand still


class Rally:
    """Game with the actions, states and rewards of `data.atari.Game`."""

    def __init__(self, *, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.actions = ACTIONS

    def begin(self) -> Bytes:
        """The first state (4, 84, 84) of a new game."""
        self._bats = [SIDE // 2, SIDE // 2]  # middles: the other's, ours
        self._points = [0, 0]
        self._serve()
        first: Bytes = np.repeat(self._draw()[None], FRAMES_PER_MOVE, axis=0)
        self._frames = first
        copied: Bytes = first.copy()
        return copied

    def play(self, action: int) -> Move:
        """Takes an action for four frames; once a game is over, `begin` comes next."""
        before = self._points.copy()
        for _ in range(FRAMES_PER_MOVE):
            self._go_on(STEPS.get(action, 0))
        self._frames = np.concatenate([self._frames[1:], self._draw()[None]])
        scored = [now - then for now, then in zip(self._points, before, strict=True)]
        over = max(self._points) >= POINTS
        return Move(
            state=self._frames.copy(), reward=float(np.sign(scored[1] - scored[0])),
            ended=over, over=over,
        )  # fmt: skip

    def _serve(self) -> None:
        self._ball = np.array([SIDE / 2, self._random.uniform(10, SIDE - 10)])
        self._speed = np.array([self._random.choice([-1.5, 1.5]), self._random.uniform(-1, 1)])

    def _go_on(self, step: int) -> None:
        """Plays one frame: the other bat follows the ball, slower than it may fly."""
        follow = int(np.clip(round(self._ball[1] - self._bats[0]), -1, 1))
        for bat, move in enumerate((follow, step)):
            self._bats[bat] = int(np.clip(self._bats[bat] + move, BAT // 2, SIDE - BAT // 2))
        self._ball += self._speed
        if not 0 <= self._ball[1] <= SIDE:
            self._speed[1] = -self._speed[1]
        if 4 <= self._ball[0] <= SIDE - 4:
            return
        bat = int(self._ball[0] > SIDE / 2)
        off = self._ball[1] - self._bats[bat]
        if abs(off) <= BAT / 2:  # hit: the further from the middle, the steeper it flies
            self._speed = np.array([1.5 * (1 - 2 * bat), off / 4])
        else:
            self._points[1 - bat] += 1
            self._serve()

    def _draw(self) -> Bytes:
        frame = np.full((SIDE, SIDE), GREY, np.uint8)
        for bat, left in enumerate((2, SIDE - 4)):
            middle = self._bats[bat]
            frame[middle - BAT // 2 : middle + BAT // 2, left : left + 2] = WHITE
        column, row = self._ball.astype(int)
        frame[max(row, 0) : row + BALL, max(column, 0) : column + BALL] = WHITE
        return frame


def describe_rally(*, samples: int) -> DataFacts:
    """The facts about the game: the hash is that of its code.

    Args:
        samples: Transitions that the replay memory holds; the game itself has no end of them.
    """
    return DataFacts(
        name=TITLE,
        stand_in=True,
        stands_for=NAME,
        sha256=hashlib.sha256(Path(__file__).read_bytes()).hexdigest(),
        samples=samples,
    )
