"""What the list of workloads promises before any of them is built."""

import subprocess
import sys

import pytest

from wattstep.errors import InvalidValueError
from wattstep.workloads import find, names


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


def test_every_workload_is_found_under_the_name_in_its_facts():
    assert names() == ("char-cnn", "densenet40", "dqn", "lenet", "resnet50", "squeezenet")
    assert tuple(find(name).facts.name for name in names()) == names()


def test_an_unknown_name_is_answered_with_the_closest_and_all_known():
    with pytest.raises(InvalidValueError) as caught:
        find("DenseNet")
    message = str(caught.value)
    assert "'DenseNet'" in message
    assert "did you mean densenet40?" in message
    assert all(name in message for name in names())
    assert "\n" not in message


def test_a_name_close_to_none_gets_no_guess():
    with pytest.raises(InvalidValueError, match="no workload is called 'xyz' \\(there are"):
        find("xyz")


@pytest.mark.parametrize(
    ("library", "workload", "extra"),
    [
        ("torch", "lenet", "torch"),
        ("sklearn", "lenet", "suite"),
        ("PIL", "squeezenet", "suite"),
        ("gymnasium", "dqn", "suite"),
        ("ale_py", "dqn", "suite"),
    ],
)
def test_a_missing_library_is_named_with_the_extra_that_installs_it(library, workload, extra):
    program = f"""
import sys
sys.modules[{library!r}] = None  # how Python itself marks a module that cannot be imported
from wattstep.errors import MissingPartError
from wattstep.workloads import find
try:
    find({workload!r}).prepare(batch_size=2, seed=0, data_dir=None)
except MissingPartError as error:
    print(error)
"""
    expected = f'{library} is not installed: pip install "wattstep[{extra}]"'
    assert run_python(program) == expected
