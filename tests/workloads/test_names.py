"""What the list of workloads promises before any of them is built."""

import subprocess
import sys
from importlib.util import find_spec

import pytest
from tests.refusals import refused

from wattstep.workloads import find, names

NEEDS_ALE = pytest.mark.skipif(
    find_spec("ale_py") is None, reason="ale-py is GPL-2.0: the extra atari installs it"
)


def run_python(program):
    """What a fresh interpreter prints; its own modules are the point of these tests."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_listing_the_workloads_loads_no_framework():
    heavy = "{'torch', 'numpy', 'sklearn', 'gymnasium', 'ale_py', 'PIL'}"
    program = (
        "import sys, wattstep.workloads as w; w.names(); "
        f"print(sorted({heavy}.intersection(sys.modules)))"
    )
    assert run_python(program) == "[]"


def test_specifications_of_all_workloads_load_no_framework():
    heavy = "{'torch', 'numpy', 'sklearn', 'gymnasium', 'ale_py', 'PIL', 'transformers'}"
    program = (
        "import sys, wattstep.workloads as w; [w.find(name) for name in w.names()]; "
        f"print(sorted({heavy}.intersection(sys.modules)))"
    )
    assert run_python(program) == "[]"


@pytest.mark.parametrize("name", names())
def test_a_specification_says_how_it_trains(name):
    specification = find(name)
    assert specification.engines["torch"].model
    assert specification.optimizer.name in {"sgd", "adam", "adamw", "rmsprop"}
    assert specification.optimizer.rate > 0
    assert specification.samples or specification.loss == "Q-learning"
    own = specification.engines["torch"].training
    assert own or specification.loss in {"cross entropy", "mean squared error", "detection"}


def test_every_workload_is_found_under_the_name_in_its_facts():
    assert tuple(find(name).facts.name for name in names()) == names()


def test_the_suite_holds_what_the_papers_and_the_benchmarks_train():
    liu = {
        "densenet40", "resnet50", "squeezenet", "vgg16", "xception", "inceptionv1", "char-cnn",
        "dcgan", "dqn", "alexnet", "vgg19", "bert", "resnet101", "resnet152", "densenet100",
        "seq2seq",
    }  # fmt: skip
    cai = {"lenet", "alexnet-224", "mobilenetv2", "squeezenet-224", "googlenet"}
    tiny = {"ds-cnn", "mobilenetv1-vww", "resnet8", "autoencoder"}
    today = {
        "mobilenetv3-small", "vit-tiny", "gpt", "lora", "mobilenetv2-last-layer",
        "mobilenetv2-bias-only", "ssdlite", "whisper-tiny",
    }  # fmt: skip
    das = {"mlp", "mlp-16", "mlp-16-deep", "mlp-256"}
    assert set(names()) == liu | cai | tiny | today | das


def test_an_unknown_name_is_answered_with_the_closest_and_all_known():
    with refused("unknown-workload", "'SqueezeNet'", "mean squeezenet?", *names()) as caught:
        find("SqueezeNet")
    assert "\n" not in str(caught.value)


def test_a_name_close_to_none_gets_no_guess():
    with refused("unknown-workload", "'xyz'", *names()) as caught:
        find("xyz")
    assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("library", "workload", "extra"),
    [
        ("torch", "lenet", "torch"),
        ("sklearn", "lenet", "suite"),
        ("PIL", "squeezenet", "suite"),
        pytest.param("gymnasium", "dqn", "atari", marks=NEEDS_ALE),
        ("transformers", "bert", "suite"),
    ],
)
def test_a_missing_library_is_named_with_the_extra_that_installs_it(library, workload, extra):
    program = f"""
import sys
sys.modules[{library!r}] = None  # how Python itself marks a module that cannot be imported
from wattstep import engines
from wattstep.errors import MissingPartError
from wattstep.schema.workload import Preparation
from wattstep.workloads import find
try:
    engines.find("torch").prepare(find({workload!r}), Preparation(batch_size=2))
except MissingPartError as error:
    print(error)
"""
    expected = f'{library} is not installed: pip install "wattstep[{extra}]"'
    assert run_python(program) == expected
