"""An Atari game to learn from: Pong, whose cartridge comes with ale-py."""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wattstep.schema.extras import require
from wattstep.schema.workload import DataFacts
from wattstep.workloads.data.samples import Bytes

NAME = "ALE/Pong"
ROM = "pong"
# Nothing, fire, right, left, and fire while moving: what Pong's cartridge tells apart.
ACTIONS = 6
# The game goes on by four frames a move: Mnih et al. 2015, "frame-skipping".
FRAMES_PER_MOVE = 4


@dataclass(frozen=True, kw_only=True)
class Move:
    """Result of one action.

    Attributes:
        state: The last four frames after it, oldest first, (4, 84, 84).
        reward: Points, clipped to -1, 0 or 1.
        ended: The game is won or lost: nothing follows.
        over: The game is ended or was cut off.
    """

    state: Bytes
    reward: float
    ended: bool
    over: bool


class Game:
    """Game of Pong, prepared as in Mnih et al. 2015: every fourth frame, grey, 84×84, in fours.

    Raises:
        MissingPartError: ale-py or gymnasium is not installed.
    """

    def __init__(self, *, seed: int) -> None:
        require("gymnasium")
        vector = require("ale_py.vector_env")
        # The vector environment scales frames itself; the single one needs OpenCV for it.
        self._environment = vector.AtariVectorEnv(
            ROM, num_envs=1, num_threads=1, frameskip=FRAMES_PER_MOVE
        )
        self._seed: int | None = seed % 2**31
        self.actions = int(self._environment.single_action_space.n)

    def begin(self) -> Bytes:
        """The first state (4, 84, 84) of a new game."""
        if self._seed is None:
            # It starts anew by itself, with the step after the last one of a game.
            return self._act(0).state
        states, _ = self._environment.reset(seed=self._seed)
        self._seed = None
        return np.array(states[0])

    def play(self, action: int) -> Move:
        """Takes an action for four frames; once a game is over, `begin` comes next."""
        return self._act(action)

    def _act(self, action: int) -> Move:
        states, rewards, ended, cut_off, _ = self._environment.step(np.array([action]))
        return Move(
            state=np.array(states[0]),
            reward=float(rewards[0]),
            ended=bool(ended[0]),
            over=bool(ended[0] or cut_off[0]),
        )


def describe_game(*, samples: int) -> DataFacts:
    """The facts about the game: the hash is that of its cartridge.

    Args:
        samples: Transitions that the replay memory holds; the game itself has no end of them.
    """
    rom = Path(require("ale_py.roms").get_rom_path(ROM))
    return DataFacts(
        name=NAME,
        stand_in=False,
        stands_for=None,
        sha256=hashlib.sha256(rom.read_bytes()).hexdigest(),
        samples=samples,
    )


def find_cartridge(root: Path) -> Path | None:
    """Pong, which lies in ale-py and not in a folder of data; loads nothing."""
    package = importlib.util.find_spec("ale_py")
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parent / "roms" / f"{ROM}.bin"
    return path if path.is_file() else None


def read_cartridge(root: Path) -> DataFacts:
    """The facts about the game, wherever data lie.

    Raises:
        MissingPartError: ale-py is not installed.
    """
    return describe_game(samples=0)
