"""What deep Q-learning promises besides: the game, the memory and the older copy."""

import contextlib
import hashlib
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.data.atari import ACTIONS, Game
from wattstep.workloads.data.rally import Rally
from wattstep.workloads.torch import find
from wattstep.workloads.torch.dqn import DeepQ, Player, QNetwork
from wattstep.workloads.torch.replay import ReplayMemory, Transitions

NEEDS_ALE = pytest.mark.skipif(
    find_spec("ale_py") is None, reason="ale-py is GPL-2.0: the extra atari installs it"
)


@pytest.fixture
def without_ale(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)


def frame(number):
    return torch.full((2, 2), number, dtype=torch.uint8)


def memory(*, frames, seed=0):
    return ReplayMemory(frames=frames, side=2, generator=torch.Generator().manual_seed(seed))


def remember(replay, *, first, moves, ended=False):
    """A game whose frames are numbered from `first`; the action at a frame is its number."""
    replay.begin(torch.stack([frame(first + n) for n in range(4)]))
    for move in range(moves):
        last = first + 3 + move
        over = ended and move == moves - 1
        replay.add(action=last, reward=last / 2, ended=over, frame=frame(last + 1))


def prepare(**settings):
    return find("dqn").prepare(Preparation(**settings))


def pixels(frames):
    return frames[:, :, 0, 0].tolist()


def test_a_move_is_drawn_with_the_four_frames_before_and_the_four_after():
    replay = memory(frames=16)
    remember(replay, first=10, moves=1)
    batch = replay.draw(2)
    assert pixels(batch.states) == [[10, 11, 12, 13]] * 2
    assert pixels(batch.next_states) == [[11, 12, 13, 14]] * 2
    assert batch.actions.tolist() == [13, 13]
    assert batch.rewards.tolist() == [6.5, 6.5]
    assert batch.ended.tolist() == [0, 0]


def test_no_move_mixes_two_games():
    replay = memory(frames=64)
    remember(replay, first=0, moves=5, ended=True)
    remember(replay, first=100, moves=5)
    assert len(replay) == 10
    batch = replay.draw(200)
    for before, after, action in zip(
        pixels(batch.states), pixels(batch.next_states), batch.actions.tolist(), strict=True
    ):
        assert before == [action - 3, action - 2, action - 1, action]
        assert after == [action - 2, action - 1, action, action + 1]
    assert set(batch.actions[batch.ended == 1].tolist()) == {7}


@pytest.mark.parametrize("moves", range(1, 40))
def test_a_full_memory_forgets_the_oldest_moves_and_no_part_of_the_others(moves):
    replay = memory(frames=12, seed=moves)
    remember(replay, first=0, moves=moves)
    # A move needs its four frames and the one after it.
    assert len(replay) == min(moves, 12 - 4)
    batch = replay.draw(50)
    expected = [[a - 3, a - 2, a - 1, a] for a in batch.actions.tolist()]
    assert pixels(batch.states) == expected
    assert int(batch.actions.min()) >= 3 + moves - len(replay)


@pytest.mark.parametrize("game_of", [pytest.param(Game, marks=NEEDS_ALE), Rally])
def test_a_seed_repeats_the_game(game_of):
    first, again, other = (play(game_of(seed=seed), moves=30) for seed in (5, 5, 6))
    assert first == again
    assert first != other


def play(game, *, moves):
    frames = [game.begin().tobytes()]
    frames += [game.play(move % game.actions).state.tobytes() for move in range(moves)]
    return frames


@pytest.mark.parametrize("game_of", [pytest.param(Game, marks=NEEDS_ALE), Rally])
def test_a_game_that_is_over_begins_anew(game_of):
    game = game_of(seed=1)
    game.begin()
    move = game.play(0)
    points = move.reward
    while not move.over:
        move = game.play(0)
        points += move.reward
    # Who never moves loses Pong by 21 points; the other one of the game of ours misses now and then.
    made = game._points[1] if game_of is Rally else 0
    assert (points, move.ended) == (made - 21, True)
    assert game.begin().shape == (4, 84, 84)
    assert not game.play(0).over


@NEEDS_ALE
def test_a_player_goes_on_when_a_game_is_over_and_remembers_every_move():
    generator = torch.Generator().manual_seed(0)
    game = Game(seed=0)
    replay = ReplayMemory(frames=2000, side=84, generator=generator)
    model = DeepQ(QNetwork(actions=game.actions))
    player = Player(game=game, memory=replay, generator=generator)
    # Random play loses 21 points in some 900 moves.
    for _ in range(1200):
        player.play(model, exploration=1.0)
    assert len(replay) == 1200
    assert replay.draw(15_000).ended.unique().tolist() == [0, 1]


def test_the_loss_is_that_of_the_bellman_equation():
    model = DeepQ(QNetwork(actions=2))
    for network, values in ((model.online, [1.0, 2.0]), (model.target, [10.0, 4.0])):
        torch.nn.init.zeros_(network.head[-1].weight)
        network.head[-1].bias.data = torch.tensor(values)
    states = torch.zeros(2, 4, 84, 84, dtype=torch.uint8)
    batch = Transitions(
        states=states,
        actions=torch.tensor([0, 1]),
        rewards=torch.tensor([1.0, 1.5]),
        next_states=states,
        ended=torch.tensor([0.0, 1.0]),
    )
    training = prepare(batch_size=1)
    training.model = model
    # Wanted: 1 + 0.99 · 10 = 10.9 for 1, and 1.5 (the end) for 2: errors 9.9 and 0.5,
    # Huber 9.9 - 0.5 and 0.5² / 2, mean.
    assert training.loss(batch).item() == pytest.approx((9.4 + 0.125) / 2, abs=1e-5)


def test_only_the_online_network_learns_until_the_copy_is_refreshed():
    model = DeepQ(QNetwork(actions=2))
    with torch.no_grad():
        model.online.head[-1].bias.add_(1)
    assert not torch.equal(model.online.head[-1].bias, model.target.head[-1].bias)
    assert not any(each.requires_grad for each in model.target.parameters())
    model.refresh_target()
    assert torch.equal(model.online.head[-1].bias, model.target.head[-1].bias)


class Marks:
    """Notes where a phase begins and ends."""

    def __init__(self):
        self.seen = []

    @contextlib.contextmanager
    def __call__(self, name):
        self.seen.append(f"{name} begins")
        yield
        self.seen.append(f"{name} ends")


def test_playing_is_marked_as_the_game_and_drawing_is_not():
    marks = Marks()
    batch = prepare(batch_size=5).next_batch(marks)
    assert marks.seen == ["game begins", "game ends"]
    assert batch.states.shape == batch.next_states.shape == (5, 4, 84, 84)
    assert batch.states.dtype == torch.uint8


def test_a_step_of_several_batches_plays_once_and_no_longer():
    training, marks = prepare(batch_size=2, accumulate=3), Marks()
    moves = len(training._memory)
    for _ in range(6):
        training.next_batch(marks)
    assert marks.seen == ["game begins", "game ends"] * 2
    # Four moves for each of the two steps.
    assert len(training._memory) == moves + 8
    # Every move is held for four frames: Mnih et al. 2015.
    assert training.frames_per_step == 16


@NEEDS_ALE
def test_a_move_goes_on_by_four_frames():
    game = Game(seed=0)
    game.begin()
    # Frames are numbered by the emulator itself.
    *_, before = game._environment.step(np.array([0]))
    *_, after = game._environment.step(np.array([0]))
    assert after["frame_number"][0] - before["frame_number"][0] == 4


@pytest.mark.parametrize("game_of", [pytest.param(Game, marks=NEEDS_ALE), Rally])
def test_the_game_has_the_actions_that_the_network_is_built_for(game_of):
    assert (
        game_of(seed=0).actions
        == ACTIONS
        == find("dqn").build(classes=None, image_size=None).head[-1].out_features
    )


def test_the_parameters_that_train_are_those_of_one_network():
    with torch.device("meta"):
        model = DeepQ(QNetwork(actions=ACTIONS))
    trainable = sum(each.numel() for each in model.parameters() if each.requires_grad)
    # Mnih et al. 2015, "Model architecture", 6 actions:
    # 32·(4·64 + 1) + 64·(32·16 + 1) + 64·(64·9 + 1) + 512·(3136 + 1) + 6·513
    assert trainable == 8_224 + 32_832 + 36_928 + 1_606_144 + 3_078
    assert sum(each.numel() for each in model.parameters()) == 2 * trainable


@pytest.mark.parametrize("precision", ["bf16", "amp"])
def test_it_learns_in_fewer_bits(precision):
    engine = TorchTrainer(find("dqn"), Preparation(batch_size=4, accumulate=2), precision=precision)
    before = engine.training.model.online.head[1].weight.detach().clone()
    assert all(np.isfinite(engine.step()) for _ in range(20))
    after = engine.training.model.online.head[1].weight
    assert torch.isfinite(after).all()
    assert not torch.equal(before, after)


def test_there_is_no_held_out_measure_of_play():
    assert prepare(batch_size=1).evaluate() == {}


@NEEDS_ALE
def test_the_hash_is_that_of_the_cartridge():
    data = prepare(batch_size=1).data
    assert data.name == "ALE/Pong"
    assert not data.stand_in
    from ale_py.roms import get_rom_path

    rom = Path(get_rom_path("pong")).read_bytes()
    assert data.sha256 == hashlib.sha256(rom).hexdigest()


# --- without the emulator ------------------------------------------------------------------------


@pytest.mark.usefixtures("without_ale")
def test_without_the_emulator_a_game_of_our_own_stands_in_and_is_marked():
    training = prepare(batch_size=2)
    assert (training.data.stand_in, training.data.stands_for) == (True, "ALE/Pong")
    assert training.data.sha256 != ""
    assert training.next_batch(Marks()).states.shape == (2, 4, 84, 84)


def test_a_ball_that_is_met_flies_back_and_one_that_is_missed_is_a_point():
    game = Rally(seed=0)
    game.begin()
    for row, reward in ((42, 0.0), (70, -1.0)):
        game._bats, game._ball = [42, 42], np.array([79.0, row])
        game._speed = np.array([1.5, 0.0])
        assert game.play(0).reward == reward
    assert game._points == [1, 0]


def test_no_default_extra_brings_software_under_the_gpl():
    root = Path(__file__).parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"] | {"": project["dependencies"]}
    assert [extra for extra, parts in extras.items() if "ale-py" in str(parts)] == ["atari"]
    assert "atari" not in (root / "Makefile").read_text()
