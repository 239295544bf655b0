"""What every workload promises while it trains."""

import contextlib
import math

import pytest
import torch

from wattstep.errors import InvalidValueError
from wattstep.workloads import find, names
from wattstep.workloads.char_cnn import CharCnn
from wattstep.workloads.densenet40 import DenseNet40
from wattstep.workloads.dqn import DeepQ
from wattstep.workloads.lenet import LeNet
from wattstep.workloads.resnet50 import ResNet50
from wattstep.workloads.squeezenet import SqueezeNet
from wattstep.workloads.supervised import Order

# Name, model, its trainable parameters, and who says so.
PARAMETERS = [
    # (16·27) + conv 3×3 of 12 filters and norm for each of 3 × 12 layers on 16 + 12n channels,
    # n counted on through the blocks: Σ(16 + 12n)·(12·9 + 2) = 110 · (36·16 + 12·630) = 894,960;
    # transitions 160² + 2·160 and 304² + 2·304; last norm 2·448; classifier 448·10 + 10.
    # Huang et al., arXiv 1608.06993, table 2, has 1.0 M.
    ("densenet40", DenseNet40, 432 + 894_960 + 25_920 + 93_024 + 896 + 4_490),
    # torchvision, ResNet50_Weights.IMAGENET1K_V1, num_params
    ("resnet50 of ImageNet", lambda: ResNet50(classes=1000), 25_557_032),
    # The same, less 990 of its 1000 classes of 2048 weights and a bias.
    ("resnet50", ResNet50, 25_557_032 - 990 * 2049),
    # torchvision, SqueezeNet1_0_Weights.IMAGENET1K_V1, num_params
    ("squeezenet of ImageNet", lambda: SqueezeNet(classes=1000), 1_248_424),
    ("squeezenet", SqueezeNet, 1_248_424 - 990 * 513),
    # LeCun et al. 1998, with full connections in the second convolution:
    # 6·26 + 16·151 + 120·401 + 84·121 + 10·85
    ("lenet", LeNet, 61_706),
    # Mnih et al. 2015, "Model architecture", 6 actions:
    # 32·(4·64 + 1) + 64·(32·16 + 1) + 64·(64·9 + 1) + 512·(3136 + 1) + 6·513
    ("dqn", lambda: DeepQ(actions=6), 8_224 + 32_832 + 36_928 + 1_606_144 + 3_078),
    # Embedding 128·64, convolution 128·(64·5 + 1), LSTM 4·256·(128 + 256 + 2) and
    # 4·256·(256 + 256 + 2), scores 128·257
    ("char-cnn", CharCnn, 8_192 + 41_088 + 395_264 + 526_336 + 32_896),
]

# Name, batch size, steps, and the share of the first loss that is left at most. DQN learns
# slowly by design; the others know a handful of samples by heart.
OVERFITTING = [
    ("char-cnn", 4, 60, 0.6),
    ("densenet40", 4, 12, 0.3),
    ("dqn", 32, 60, 0.8),
    ("lenet", 8, 60, 0.3),
    ("resnet50", 4, 12, 0.3),
    ("squeezenet", 16, 150, 0.6),
]


def unmarked(_):
    return contextlib.nullcontext()


def prepare(name, *, batch_size, seed=0):
    return find(name).prepare(batch_size=batch_size, seed=seed, data_dir=None)


def train_on(training, batch):
    """One gradient step; the loss before it."""
    training.optimizer.zero_grad()
    loss = training.loss(batch)
    loss.backward()
    training.optimizer.step()
    return loss.item()


def train(training, *, steps):
    return [train_on(training, training.next_batch(unmarked)) for _ in range(steps)]


@pytest.mark.parametrize(
    ("model", "count"), [row[1:] for row in PARAMETERS], ids=[row[0] for row in PARAMETERS]
)
def test_the_number_of_parameters_is_that_of_the_literature(model, count):
    trainable = (each for each in model().parameters() if each.requires_grad)
    assert sum(each.numel() for each in trainable) == count


def test_every_workload_is_tested_for_learning():
    assert tuple(row[0] for row in OVERFITTING) == names()


@pytest.mark.parametrize(("name", "batch_size", "steps", "left"), OVERFITTING)
def test_a_small_batch_is_learnt_by_heart(name, batch_size, steps, left):
    training = prepare(name, batch_size=batch_size)
    batch = training.next_batch(unmarked)
    losses = [train_on(training, batch) for _ in range(steps)]
    assert all(math.isfinite(loss) for loss in losses)
    assert losses[-1] < left * losses[0]


@pytest.mark.parametrize("name", names())
def test_a_few_steps_move_every_trainable_parameter_by_its_gradient(name):
    training = prepare(name, batch_size=4)
    trainable = {k: p for k, p in training.model.named_parameters() if p.requires_grad}
    before = {key: each.detach().clone() for key, each in trainable.items()}
    reached = set()
    for _ in range(3):
        train(training, steps=1)
        # Weight decay alone moves parameters, too: a gradient must have come.
        reached |= {key for key, each in trainable.items() if each.grad.abs().sum() > 0}
    assert reached == set(trainable)
    assert [key for key, each in trainable.items() if torch.equal(each, before[key])] == []


@pytest.mark.parametrize("name", names())
def test_a_seed_repeats_the_losses_and_another_does_not(name):
    first, again = (train(prepare(name, batch_size=2, seed=7), steps=2) for _ in range(2))
    other = train(prepare(name, batch_size=2, seed=8), steps=2)
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", [name for name in names() if name != "dqn"])
def test_a_batch_has_the_shape_in_the_facts(name):
    inputs, targets = prepare(name, batch_size=3).next_batch(unmarked)
    assert tuple(inputs.shape) == (3, *find(name).facts.input_shape)
    assert len(targets) == 3
    assert targets.dtype == torch.int64


@pytest.mark.parametrize("name", names())
def test_a_batch_of_nothing_is_refused(name):
    with pytest.raises(InvalidValueError, match=f"{name} needs a batch of at least"):
        prepare(name, batch_size=0)


@pytest.mark.parametrize("name", [name for name in names() if name != "resnet50"])
def test_a_batch_of_one_trains(name):
    assert math.isfinite(train(prepare(name, batch_size=1), steps=1)[0])


def test_resnet50_says_why_it_needs_a_batch_of_two():
    with pytest.raises(InvalidValueError, match=r"at least 2 .*batch normalisation"):
        prepare("resnet50", batch_size=1)


def test_large_images_go_through_the_networks_for_small_ones():
    for model in (ResNet50(classes=7), SqueezeNet(classes=7)):
        assert model(torch.zeros(2, 3, 224, 224)).shape == (2, 7)


def test_no_score_of_the_char_cnn_sees_the_character_that_it_predicts():
    model = CharCnn().eval()
    text = torch.randint(128, (1, 20), generator=torch.Generator().manual_seed(0))
    changed = text.clone()
    changed[0, 12] = (changed[0, 12] + 1) % 128
    differs = (model(text) - model(changed)).abs().amax(dim=1)[0] > 0
    # Scores at 11 predict the character at 12.
    assert not differs[:12].any()
    assert differs[12:].all()


def test_an_epoch_sees_every_sample_once_and_the_next_in_another_order():
    order = Order(samples=50, seed=3)
    drawn = torch.cat([order.draw(20) for _ in range(5)]).tolist()
    assert sorted(drawn[:50]) == list(range(50))
    assert sorted(drawn[50:]) == list(range(50))
    assert drawn[:50] != drawn[50:]


def test_a_batch_may_be_larger_than_the_data():
    drawn = Order(samples=3, seed=0).draw(8)
    assert torch.bincount(drawn).tolist() in ([3, 3, 2], [3, 2, 3], [2, 3, 3])
