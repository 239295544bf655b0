"""What the workloads on language and speech promise besides: sizes, causality and attention."""

import contextlib
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import transformers
from torch import nn

from wattstep.engines.torch.trainer import TorchTrainer
from wattstep.schema.workload import Preparation
from wattstep.workloads.data.speech_commands import WORDS
from wattstep.workloads.torch import find
from wattstep.workloads.torch.bert import Bert
from wattstep.workloads.torch.char_cnn import CharCnn
from wattstep.workloads.torch.gpt import Gpt
from wattstep.workloads.torch.lora import Adapter
from wattstep.workloads.torch.seq2seq import Attention, Seq2Seq
from wattstep.workloads.torch.whisper import WhisperTraining, log_mel, write_words

# Name, parameters, those that train, and who says so.
PARAMETERS = [
    # Embedding 128·64, convolution 128·(64·5 + 1), LSTM 4·256·(128 + 256 + 2) and
    # 4·256·(256 + 256 + 2), scores 128·257
    ("char-cnn", 8_192 + 41_088 + 395_264 + 526_336 + 32_896, None),
    # A block: norms 2·384, attention 4·384², network 8·384²; characters 128·384, places 256·384,
    # last norm 384. With Shakespeare's 65 characters and without places it would be 10,646,784:
    # the 10.65 M that nanoGPT's README states.
    ("gpt", 6 * (768 + 12 * 384**2) + 49_152 + 98_304 + 384, None),
    # Embeddings (17,191 + 7,709)·512, two LSTMs of two layers of 4·512·(512 + 512 + 2), attention
    # 512² + 1024·512, scores 512·7,709
    ("seq2seq", 24_900 * 512 + 4 * 2_101_248 + 3 * 512**2 + 512 * 7_709, None),
    # Embeddings (30,522 + 512 + 2)·768 and norm 2·768; a layer: attention 4·(768² + 768), network
    # 2·768·3072 + 3072 + 768, norms 4·768; the answer 2·769.
    # Devlin et al., section 3, have 110 M with the pooler of 768² + 768 that is not used here.
    ("bert", 31_036 * 768 + 1_536 + 12 * 7_087_872 + 1_538, None),
    # GPT-2 small has 124,439,808, and each of 12 layers rank 8 · (768 + 2304) beside: the peft
    # library documents 294,912 of 124,734,720.
    ("lora", 124_734_720, 294_912),
    # Convolutions 384·(80·3 + 1) + 384·(384·3 + 1), places 1500·384 (fixed waves), four layers
    # of 1,774,080, norm 768; tokens 51,865·384, places 448·384, four layers of 2,365,824, norm.
    # Of a layer: attention 4·384² + 3·384 (keys have no bias), once or twice; network
    # 8·384² + 5·384; norms 768 each. Radford et al., table 1, have 39 M.
    ("whisper-tiny", 37_760_640, 37_760_640 - 576_000),
]


def unmarked(_):
    return contextlib.nullcontext()


def count(model):
    parameters = list(model.parameters())
    return (
        sum(each.numel() for each in parameters),
        sum(each.numel() for each in parameters if each.requires_grad),
    )


@pytest.mark.parametrize(("name", "parameters", "trainable"), PARAMETERS)
def test_the_number_of_parameters_is_that_of_the_literature(name, parameters, trainable):
    with torch.device("meta"):
        model = find(name).build(classes=None, image_size=None)
    assert count(model) == (parameters, trainable or parameters)


def test_the_sums_above_are_those_of_the_literature():
    written_out = {name: parameters for name, parameters, _ in PARAMETERS}
    assert written_out["bert"] == 108_893_186
    assert written_out["seq2seq"] == 25_887_232
    # nanoGPT: 65 characters instead of 128, places left out.
    assert written_out["gpt"] - (128 - 65) * 384 - 256 * 384 == 10_646_784
    convolutions = 384 * 241 + 384 * 1153
    attention, network = 4 * 384**2 + 3 * 384, 8 * 384**2 + 5 * 384
    encoder = convolutions + 576_000 + 4 * (attention + network + 2 * 768) + 768
    decoder = (51_865 + 448) * 384 + 4 * (2 * attention + network + 3 * 768) + 768
    assert written_out["whisper-tiny"] == encoder + decoder


# Causality: char-cnn and gpt


@pytest.mark.parametrize("build", [CharCnn, Gpt])
def test_no_score_sees_the_character_that_it_predicts(build):
    torch.manual_seed(0)
    model = build().eval()
    text = torch.randint(128, (1, 20))
    changed = text.clone()
    changed[0, 12] = (changed[0, 12] + 1) % 128
    with torch.no_grad():
        differs = (model(text) - model(changed)).abs().amax(dim=1)[0] > 1e-6
    # Scores at 11 predict the character at 12.
    assert not differs[:12].any()
    assert differs[12:].all()


@pytest.mark.parametrize(("name", "steps", "left"), [("char-cnn", 60, 0.6), ("gpt", 60, 0.4)])
def test_a_small_batch_of_text_is_learnt_by_heart(name, steps, left):
    training = find(name).prepare(Preparation(batch_size=1, rate_rule="fixed"))
    inputs, targets = (part[:, :32] for part in training.next_batch(unmarked))
    losses = []
    for _ in range(steps):
        training.optimizer.zero_grad()
        loss = training.loss((inputs, targets))
        loss.backward()
        training.optimizer.step()
        losses.append(loss.item())
    assert all(map(math.isfinite, losses))
    assert losses[-1] < left * losses[0]


@pytest.mark.parametrize("name", ["char-cnn", "gpt", "seq2seq"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "amp"])
def test_two_batches_make_a_step_in_each_precision(name, precision):
    preparation = Preparation(batch_size=1, accumulate=2)
    engine = TorchTrainer(find(name), preparation, precision=precision)
    weights = next(engine.training.model.parameters())
    before = weights.detach().clone()
    # Not far from a guess at first: as many nats as the logarithm of the choices.
    assert engine.step() == pytest.approx(math.log(7_709 if name == "seq2seq" else 128), rel=0.1)
    assert not torch.equal(weights, before)
    assert torch.isfinite(weights).all()


def test_the_small_gpt_computes_what_gpt2_does():
    torch.manual_seed(0)
    ours = Gpt().eval()
    config = transformers.GPT2Config(
        vocab_size=128, n_positions=256, n_embd=384, n_layer=6, n_head=6, activation_function="gelu"
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    copy_gpt(ours, theirs.transformer)
    text = torch.randint(128, (2, 40))
    with torch.no_grad():
        expected = theirs(text).logits.transpose(1, 2)
        assert torch.allclose(ours(text), expected, atol=1e-5)


def copy_gpt(ours, theirs):
    """Weights of ours into the library's, whose matrices are transposed and whose biases are 0."""
    with torch.no_grad():
        theirs.wte.weight.copy_(ours.characters.weight)
        theirs.wpe.weight.copy_(ours.places.weight)
        for mine, other in zip(ours.blocks, theirs.h, strict=True):
            other.attn.c_attn.weight.copy_(mine.attention.project.weight.T)
            other.attn.c_proj.weight.copy_(mine.attention.merge.weight.T)
            other.mlp.c_fc.weight.copy_(mine.network[0].weight.T)
            other.mlp.c_proj.weight.copy_(mine.network[2].weight.T)


def test_weights_of_the_small_gpt_are_drawn_as_its_source_says():
    torch.manual_seed(0)
    block = Gpt().blocks[3]
    # 0.02, and by the root of the twelve parts that are added up less in the last of each.
    assert block.attention.project.weight.std().item() == pytest.approx(0.02, rel=0.02)
    for added in (block.attention.merge, block.network[2]):
        assert added.weight.std().item() == pytest.approx(0.02 / math.sqrt(12), rel=0.02)


# Attention: seq2seq


def pairs(source, target, *, length):
    """One pair with the source filled up to `length`."""
    said = [1, *target]
    filled = [source + [2] * (length - len(source)), said + [2] * (length - len(said))]
    return torch.tensor([filled])


def test_padding_behind_a_sentence_changes_nothing():
    torch.manual_seed(0)
    model = Seq2Seq().eval()
    with torch.no_grad():
        short = model(pairs([5, 6, 7], [8, 9], length=4))
        long = model(pairs([5, 6, 7], [8, 9], length=9))
    assert torch.allclose(short[..., :3], long[..., :3], atol=1e-6)


def test_no_score_of_a_translation_sees_the_word_that_it_predicts():
    torch.manual_seed(0)
    model = Seq2Seq().eval()
    with torch.no_grad():
        first = model(pairs([5, 6, 7], [8, 9, 10, 11], length=8))
        other = model(pairs([5, 6, 7], [8, 9, 99, 11], length=8))
        elsewhere = model(pairs([5, 6, 77], [8, 9, 10, 11], length=8))
    differs = (first - other).abs().amax(dim=1)[0] > 1e-7
    assert differs.tolist() == [False] * 3 + [True] * 5
    # The sentence is seen by all of them.
    assert ((first - elsewhere).abs().amax(dim=1)[0] > 1e-7).all()


def test_attention_weighs_the_memory_and_leaves_padding_out():
    attention = Attention(units=2)
    with torch.no_grad():
        attention.score.weight.copy_(torch.eye(2))
        # Twice the context, and nothing of the state.
        attention.combine.weight.copy_(torch.tensor([[2.0, 0, 0, 0], [0, 2, 0, 0]]))
    states = torch.tensor([[[math.log(3.0), 0.0]]])
    memory = torch.tensor([[[1.0, 0.0], [0.0, 0.5], [9.0, 9.0]]])
    padding = torch.tensor([[False, False, True]])
    # Scores log 3, 0 and none: weights 3/4, 1/4 and 0, so the context is (0.75, 0.125).
    expected = [math.tanh(1.5), math.tanh(0.25)]
    assert attention(states, memory, padding)[0, 0].tolist() == pytest.approx(expected)


def test_padding_of_a_translation_is_not_in_the_loss():
    training = find("seq2seq").prepare(Preparation(batch_size=1))
    training.model.eval()
    inputs = pairs([5, 6, 7], [8, 9], length=4)
    wanted = torch.tensor([[8, 9, 2, -100]])
    with torch.no_grad():
        logs = training.model(inputs).log_softmax(dim=1)
        expected = -(logs[0, 8, 0] + logs[0, 9, 1] + logs[0, 2, 2]).item() / 3
        assert training.loss((inputs, wanted)).item() == pytest.approx(expected, rel=1e-5)


# BERT


class Recorder(nn.Module):
    """Stands where BERT does, and keeps what it is given."""

    def forward(self, words, *, attention_mask, token_type_ids):
        self.given = attention_mask, token_type_ids
        places = torch.arange(words.shape[1]).float().expand(words.shape)
        return SimpleNamespace(start_logits=places, end_logits=-places)


def test_bert_is_told_what_is_padding_and_which_part_is_the_text():
    with torch.device("meta"):
        model = Bert()
    model.answering = Recorder()
    #      [CLS], question, [SEP], text, [SEP], padding
    scores = model(torch.tensor([[101, 2040, 2001, 102, 5000, 5001, 5002, 102, 0, 0]]))
    seen, parts = model.answering.given
    assert seen.long().tolist() == [[[[1] * 8 + [0] * 2] * 10]]  # by each word
    assert parts.tolist() == [[0] * 4 + [1] * 4 + [0] * 2]
    assert scores.shape == (1, 10, 2)
    # Starts, then ends: the recorder finds the one last, the other first.
    assert scores.argmax(dim=1).tolist() == [[9, 0]]


# LoRA


@pytest.fixture(scope="module")
def tuning():
    return find("lora").prepare(Preparation(batch_size=1, rate_rule="fixed"))


def adapters(model):
    return [each for each in model.modules() if isinstance(each, Adapter)]


def test_an_adapter_begins_as_what_it_adapts_and_adds_a_product_of_rank_eight():
    base = nn.Linear(16, 24)
    adapter = Adapter(base, inputs=16, outputs=24).eval()
    states = torch.randn(3, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(adapter(states), base(states))
    nn.init.normal_(adapter.up.weight)
    product = adapter.up.weight @ adapter.down.weight
    assert torch.linalg.matrix_rank(product) == 8
    # Hu et al.: W + (32 / 8) · B·A
    expected = states @ (base.weight + 4 * product).T + base.bias
    assert torch.allclose(adapter(states), expected, atol=1e-5)


def test_text_is_read_in_the_tokens_of_gpt2(tuning):
    inputs, targets = tuning.next_batch(unmarked)
    assert inputs.shape == targets.shape == (1, 128)
    assert torch.equal(inputs[0, 1:], targets[0, :-1])
    assert int(inputs.max()) < 256
    assert "GPT-2's tokens of bytes" in tuning.data.name
    # Source text is mostly small letters (64 to 89 in GPT-2's table) and spaces (220).
    letters = ((inputs >= 64) & (inputs < 90)) | (inputs == 220)
    assert letters.float().mean() > 0.4


def test_adapters_learn_and_the_base_stays_as_it_was(tuning):
    model = tuning.model
    assert len(adapters(model)) == 12
    before = {key: each.clone() for key, each in model.state_dict().items()}
    for _ in range(2):  # the first step moves one matrix of each pair, which then moves the other
        inputs, targets = (part[:, :8] for part in tuning.next_batch(unmarked))
        loss = tuning.loss((inputs, targets))
        assert math.isfinite(loss.item())
        loss.backward()
        tuning.optimizer.step()
        tuning.optimizer.zero_grad()
    moved = {key for key, each in model.state_dict().items() if not torch.equal(each, before[key])}
    assert moved == {
        f"gpt.transformer.h.{n}.attn.c_attn.{part}.weight"
        for n in range(12)
        for part in ("down", "up")
    }


# Whisper


def test_features_are_those_that_whisper_is_published_with():
    sound = np.random.default_rng(0).integers(-20_000, 20_000, (2, 16_000)).astype(np.int16)
    sound[1, 4_000:] = 0
    theirs = transformers.WhisperFeatureExtractor()
    expected = theirs(list(sound / 32_768), sampling_rate=16_000, return_tensors="np")
    found = log_mel()(torch.from_numpy(sound))
    assert found.shape == (2, 80, 3_000)
    assert np.allclose(found.numpy(), expected["input_features"], atol=1e-4)


def test_a_word_is_written_in_bytes_between_the_marks_of_whisper():
    written = dict(zip(WORDS, write_words().tolist(), strict=True))
    # English, transcribe, no times; space, g, o in GPT-2's table; the end.
    assert written["go"] == [50_259, 50_359, 50_363, 220, 70, 78, 50_257] + [-100] * 5
    assert written["silence"] == [50_259, 50_359, 50_363, 50_257] + [-100] * 8
    assert len(written["unknown"]) == 12


class Listener(nn.Module):
    """Stands where Whisper does: keeps what it is given, and says that all is the end."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, features, written):
        self.given = features, written
        scores = torch.zeros(len(written), 51_865, written.shape[1])
        scores[:, 50_257] = 20
        return scores + self.weight


@pytest.fixture
def listening():
    samples = SimpleNamespace(
        inputs=np.zeros((2, 16_000), np.int16),
        targets=np.array([9, 9], np.uint8),
        held_out_inputs=np.zeros((1, 16_000), np.int16),
        held_out_targets=np.array([9], np.uint8),
        facts=None,
    )
    model = Listener()
    return WhisperTraining(
        samples=samples,
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        preparation=Preparation(batch_size=2),
    )


def test_whisper_is_given_the_tokens_before_those_that_it_writes(listening):
    features, wanted = listening.next_batch(unmarked)
    assert features.shape == (2, 80, 3_000)
    listening.loss((features, wanted))
    _, before = listening.model.given
    begin = [50_258, 50_259, 50_359, 50_363, 220, 70, 78]
    assert before.tolist() == [begin + [50_257] * 5] * 2


def test_whisper_is_judged_by_the_tokens_and_not_by_the_padding(listening):
    # WORDS[9] is "go": seven tokens, of which the last is the end.
    figures = listening.evaluate()
    # Six times it is wrong by 20 nats, once right; the other 51,864 choices add next to nothing.
    assert figures["loss"] == pytest.approx(6 / 7 * 20, abs=1e-3)
    assert figures["accuracy"] == pytest.approx(1 / 7)


def test_whisper_writes_a_score_for_every_token():
    torch.manual_seed(0)
    model = find("whisper-tiny").build(classes=None, image_size=None).eval()
    with torch.no_grad():
        first = model(torch.zeros(1, 80, 3_000), torch.tensor([[50_258, 50_259, 70]]))
        other = model(torch.zeros(1, 80, 3_000), torch.tensor([[50_258, 50_259, 71]]))
    assert first.shape == (1, 51_865, 3)
    differs = (first - other).abs().amax(dim=1)[0] > 1e-6
    assert differs.tolist() == [False, False, True]
