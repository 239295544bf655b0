"""Deep Q-learning on Pong: a small network that plays while it learns.

A sample is a move out of the replay memory and a step is a gradient step; the game goes on by
four moves before each, however many batches the gradients are gathered from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from wattstep.schema.workload import DataFacts, ParameterUpdate, Phase, Preparation, Specification
from wattstep.workloads.data.atari import ACTIONS, FRAMES_PER_MOVE, Game, describe_game
from wattstep.workloads.data.rally import Rally, describe_rally
from wattstep.workloads.torch.replay import STACK, ReplayMemory, Transitions
from wattstep.workloads.torch.workload import make_optimizer

SIDE = 84
# The paper keeps a million frames, 7 GB; a small device has room for 70 MB.
REPLAY_FRAMES = 10_000
RANDOM_MOVES = 500
MOVES_PER_STEP = 4
FRAMES_PER_STEP = MOVES_PER_STEP * FRAMES_PER_MOVE
DISCOUNT = 0.99
# The paper falls from 1 to 0.1 over a million frames; a measured step should cost the same
# from the first to the last, so it is 0.1 from the start.
EXPLORATION = 0.1
# 10,000 in the paper, which a run of minutes does not reach.
STEPS_PER_TARGET = 1_000


class QNetwork(nn.Module):
    """The value of each action in a state.

    Source: Mnih et al. 2015, methods, "Model architecture".
    """

    def __init__(self, *, actions: int = ACTIONS) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(STACK, 32, 8, stride=4),
            nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(inplace=True),
        )
        self.head = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64 * 7 * 7, 512),
            nn.ReLU(inplace=True),
            nn.Linear(512, actions),
        )

    def forward(self, states: Tensor) -> Tensor:
        """Values (B, actions) of states (B, 4, 84, 84) in bytes."""
        # Bytes become what the weights are: the engine may have made them bfloat16.
        pixels = states.to(next(self.parameters()).dtype) / 255
        values: Tensor = self.head(self.features(pixels))
        return values


class DeepQ(nn.Module):
    """The network that learns, and the older copy of it that says what it should have said."""

    def __init__(self, online: QNetwork) -> None:
        super().__init__()
        self.online = online
        self.target = deepcopy(online).requires_grad_(False)
        self.refresh_target()

    def forward(self, states: Tensor) -> Tensor:
        """Values (B, actions) of states (B, 4, 84, 84) in bytes."""
        values: Tensor = self.online(states)
        return values

    def refresh_target(self) -> None:
        """Makes the copy anew."""
        self.target.load_state_dict(self.online.state_dict())


class Player:
    """Plays the game and remembers every move.

    Args:
        game: The game; it is begun here.
        memory: Where the moves go.
        generator: What random actions are drawn from.
    """

    def __init__(
        self, *, game: Game | Rally, memory: ReplayMemory, generator: torch.Generator
    ) -> None:
        self._game = game
        self._memory = memory
        self._generator = generator
        self._begin()

    def play(self, model: nn.Module, *, exploration: float) -> None:
        """Chooses a move: at random in a share `exploration` of cases, else the best that is known."""
        if float(torch.rand((), generator=self._generator)) < exploration:
            action = int(torch.randint(self._game.actions, (), generator=self._generator))
        else:
            action = self._best(model)
        move = self._game.play(action)
        self._state = torch.from_numpy(move.state)
        self._memory.add(action=action, reward=move.reward, ended=move.ended, frame=self._state[-1])
        if move.over:
            self._begin()

    def _begin(self) -> None:
        self._state = torch.from_numpy(self._game.begin())
        self._memory.begin(self._state)

    @torch.no_grad()
    def _best(self, model: nn.Module) -> int:
        device = next(model.parameters()).device
        return int(model(self._state[None].to(device)).argmax())


class DqnTraining:
    """Q-learning from moves of the past; its one update is itself.

    Attributes:
        frames_per_step: Frames of the game that go by in each step.
    """

    frames_per_step: int = FRAMES_PER_STEP

    def __init__(
        self,
        *,
        model: DeepQ,
        player: Player,
        memory: ReplayMemory,
        preparation: Preparation,
        optimizer: Optimizer,
        data: DataFacts,
    ) -> None:
        self.data = data
        self.model = model
        self.optimizer = optimizer
        self._player = player
        self._memory = memory
        self._batch_size = preparation.batch_size
        self._batches_per_step = preparation.accumulate
        self._batches = 0

    @property
    def updates(self) -> Sequence[ParameterUpdate]:
        """Itself alone."""
        return (self,)

    def next_batch(self, phase: Phase) -> Transitions:
        """Draws moves from memory; at a step's first batch four are played before, as "game"."""
        step, batch = divmod(self._batches, self._batches_per_step)
        self._batches += 1
        if batch == 0:
            self._begin_step(step, phase)
        return self._memory.draw(self._batch_size)

    def _begin_step(self, step: int, phase: Phase) -> None:
        with phase("game"):
            for _ in range(MOVES_PER_STEP):
                self._player.play(self.model, exploration=EXPLORATION)
        if step % STEPS_PER_TARGET == 0:
            self.model.refresh_target()

    def loss(self, batch: Transitions) -> Tensor:
        """Huber loss of the values of the actions taken: its gradient is the error, cut at 1."""
        values = self.model(batch.states).float()
        with torch.no_grad():
            following = self.model.target(batch.next_states).float().amax(dim=1)
            wanted = batch.rewards + DISCOUNT * (1 - batch.ended) * following
        chosen = values.gather(1, batch.actions[:, None]).squeeze(1)
        return functional.smooth_l1_loss(chosen, wanted)

    def evaluate(self) -> Mapping[str, float]:
        """Nothing: what play is worth shows in whole games, of which a measured run sees few."""
        return {}


def play_and_learn(
    online: QNetwork, specification: Specification, preparation: Preparation
) -> DqnTraining:
    """The training of a network for Pong, without data on disk: the game comes with ale-py.

    ale-py is under the GNU GPL 2.0 and installed only by who asks for it; without it a game of our
    own stands in, and the run says so.

    Raises:
        MissingPartError: ale-py is installed without gymnasium.
    """
    model = DeepQ(online)
    generator = torch.Generator().manual_seed(preparation.seed)
    memory = ReplayMemory(frames=REPLAY_FRAMES, side=SIDE, generator=generator)
    game: Game | Rally
    if find_spec("ale_py") is None:
        game, data = Rally(seed=preparation.seed), describe_rally(samples=REPLAY_FRAMES)
    else:
        game, data = Game(seed=preparation.seed), describe_game(samples=REPLAY_FRAMES)
    player = Player(game=game, memory=memory, generator=generator)
    for _ in range(RANDOM_MOVES):
        player.play(model, exploration=1.0)
    return DqnTraining(
        model=model,
        player=player,
        memory=memory,
        preparation=preparation,
        optimizer=make_optimizer(specification.optimizer, model.online, preparation),
        data=data,
    )
