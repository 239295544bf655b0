"""The domains that are known without a framework are those that the workloads state."""

from __future__ import annotations

import pytest

from wattstep.insight.observe.domains import DOMAINS, RECURRENT
from wattstep.workloads import find, names


@pytest.mark.parametrize("name", names())
def test_every_workload_has_the_domain_that_it_states(name: str) -> None:
    facts = find(name).facts
    assert DOMAINS[name] == facts.domain
    assert (name in RECURRENT) == ("LSTM" in facts.dominant_layer)


def test_no_other_workload_is_named() -> None:
    assert set(DOMAINS) == set(names())
