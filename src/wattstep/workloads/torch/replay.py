"""A replay memory of bounded size: the last frames of a game, and what was done at each."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

# Frames that make a state.
STACK = 4


class Transitions(NamedTuple):
    """A batch of B moves.

    Attributes:
        states: (B, 4, H, W) bytes, oldest frame first.
        actions: (B,) int64.
        rewards: (B,) float.
        next_states: (B, 4, H, W) bytes.
        ended: (B,) float: 1 where nothing followed, else 0.
    """

    states: Tensor
    actions: Tensor
    rewards: Tensor
    next_states: Tensor
    ended: Tensor


class ReplayMemory:
    """A ring of frames; states are put together from it when drawn, as neighbours share frames.

    Args:
        frames: How many it holds.
        side: Height and width of a frame.
        generator: What `draw` draws from.
    """

    def __init__(self, *, frames: int, side: int, generator: torch.Generator) -> None:
        # Filled at once, so that a run does not seem to need ever more memory.
        self._frames = torch.zeros(frames, side, side, dtype=torch.uint8)
        self._actions = torch.zeros(frames, dtype=torch.int64)
        self._rewards = torch.zeros(frames)
        self._ended = torch.zeros(frames)
        # Whether a move was made at the frame and all frames of it are still there.
        self._whole = torch.zeros(frames, dtype=torch.bool)
        self._generator = generator
        self._newest = -1

    def __len__(self) -> int:
        """Moves that can be drawn."""
        return int(self._whole.sum())

    def begin(self, state: Tensor) -> None:
        """Takes the first state (4, H, W) of a game."""
        for frame in state:
            self._push(frame)

    def add(self, *, action: int, reward: float, ended: bool, frame: Tensor) -> None:
        """Takes a move, and the frame (H, W) that it led to."""
        moment = self._newest
        self._push(frame)
        self._actions[moment] = action
        self._rewards[moment] = reward
        self._ended[moment] = float(ended)
        self._whole[moment] = True

    def draw(self, count: int) -> Transitions:
        """Moves drawn at random, with replacement."""
        moments = self._whole.nonzero().squeeze(1)
        chosen = moments[torch.randint(len(moments), (count,), generator=self._generator)]
        around = torch.arange(1 - STACK, 2)
        frames = self._frames[(chosen[:, None] + around) % len(self._frames)]
        return Transitions(
            states=frames[:, :STACK],
            actions=self._actions[chosen],
            rewards=self._rewards[chosen],
            next_states=frames[:, 1:],
            ended=self._ended[chosen],
        )

    def _push(self, frame: Tensor) -> None:
        self._newest = (self._newest + 1) % len(self._frames)
        self._frames[self._newest] = frame
        # The moves at the overwritten frame and the three after it have lost a frame.
        lost = (self._newest + torch.arange(STACK)) % len(self._frames)
        self._whole[lost] = False
