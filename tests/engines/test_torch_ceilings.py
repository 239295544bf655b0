"""Ceilings that are measured: the best is the best, the threads are put back, nothing is made up."""

from __future__ import annotations

import pytest
from tests.wording import saying

torch = pytest.importorskip("torch")

from wattstep.engines.torch.ceilings import measure  # noqa: E402
from wattstep.errors import InvalidValueError  # noqa: E402
from wattstep.schema.ceilings import Asked, Ceilings  # noqa: E402

MB = 1024**2


def asked(**settings: object) -> Asked:
    known: dict[str, object] = {
        "device": {"cpu": "this one", "cores": 4, "memory": 1}, "threads": 1,
        "precisions": ["fp32"], "caches": {"L2": MB}, "free": 400 * MB, "seconds": 0.05,
    }  # fmt: skip
    return Asked(**{**known, **settings})  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def found() -> Ceilings:
    return measure(asked())


def test_the_best_repetition_counts_and_reaches_down_to_the_median(found: Ceilings) -> None:
    figures = dict(found.compute)
    for level in found.levels:
        figures |= {f"{level.name}.copy": level.copy, f"{level.name}.triad": level.triad}
    assert set(figures) == set(found.medians)
    for name, figure in figures.items():
        assert figure.value is not None
        assert figure.low is not None
        assert 0 < figure.low <= figure.value == figure.high
        assert figure.low == found.medians[name].value
        assert (figure.n or 0) >= 3
        assert "best of" in (figure.method or "")


def test_memory_is_measured_beyond_the_largest_cache(found: Ceilings) -> None:
    assert [level.name for level in found.levels] == ["L2", "memory"]
    assert found.levels[0].size <= MB
    assert found.memory.size >= 3 * 4 * MB * 0.99


def test_only_what_makes_the_machine_the_same_is_kept(found: Ceilings) -> None:
    assert found.device == {"model": None, "cpu": "this one", "architecture": None, "cores": 4}
    assert found.engine == f"torch {torch.__version__}"
    assert found == Ceilings.from_dict(found.to_dict())


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    measure(asked(threads=before + 1, caches={}, free=3 * MB, precisions=[]))
    assert torch.get_num_threads() == before


def test_little_free_memory_is_told() -> None:
    found = measure(asked(precisions=[], free=12 * MB))
    assert saying(found.notes, "is not free")


def test_caches_that_the_system_hides_are_told() -> None:
    found = measure(asked(precisions=[], caches={}, free=12 * MB))
    assert saying(found.notes, "sizes of caches")


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"precisions": ["fp8"]}])
def test_what_cannot_be_measured_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError):
        measure(asked(**wrong))
