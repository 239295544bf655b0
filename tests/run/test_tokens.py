"""Language workloads have their speed and energy by token; others have no such metric."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.wording import assert_says

from wattstep import load, workloads
from wattstep.run.tokens import energy_per_token, tokens_per_second
from wattstep.schema.figure import Figure, Status, missing
from wattstep.schema.figures import Figures
from wattstep.train.loop import train
from wattstep.train.settings import TrainingSettings

LANGUAGE = {"bert": 384, "char-cnn": 128, "gpt": 256, "lora": 128, "seq2seq": 100}


def parts(tokens: int | None, **metrics: Figure) -> Any:
    model = {} if tokens is None else {"tokens_per_sample": tokens}
    return SimpleNamespace(info=SimpleNamespace(model=model), metrics=Figures(metrics))


def figure(value: float, unit: str, **more: Any) -> Figure:
    return Figure(value=value, unit=unit, status=Status.MEASURED, method="mean", **more)


def test_every_language_workload_says_how_many_tokens_a_sample_has() -> None:
    facts = [workloads.find(name).facts for name in workloads.names()]
    found = {each.name: each.tokens_per_sample for each in facts if each.tokens_per_sample}
    assert found == LANGUAGE
    assert {each.name for each in facts if each.domain == "language"} == set(LANGUAGE)


def test_a_token_takes_its_share_of_a_sample_with_interval_and_status() -> None:
    """128 tokens in 2.56 J (2.43 to 2.69): 20 mJ each (19 to 21)."""
    sample = figure(2.56, "J", low=2.432, high=2.688)
    found = energy_per_token(parts(128, energy_per_sample=sample))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.02, 0.019, 0.021))
    assert (found.unit, found.status) == ("J", Status.MEASURED)
    assert_says(found.method, "mean", "128 tokens")


def test_tokens_in_a_second_are_samples_in_a_second_times_their_tokens() -> None:
    found = tokens_per_second(parts(256, throughput=figure(3.0, "samples/s")))
    assert found is not None
    assert (found.value, found.unit) == (768.0, "tokens/s")


def test_what_is_not_known_of_a_sample_is_not_known_of_a_token() -> None:
    found = energy_per_token(parts(128, energy_per_sample=missing("J", "no sensor")))
    assert found is not None
    assert (found.missing, found.reason) == (True, "no sensor")


def test_a_run_without_tokens_has_no_such_metric() -> None:
    assert energy_per_token(parts(None, energy_per_sample=figure(1.0, "J"))) is None


def test_a_run_of_a_language_workload_tells_both(tmp_path: Path) -> None:
    settings = TrainingSettings(
        workload="char-cnn", batch_size=2, threads=1, steps=5, warmup=1, trace="none",
        power_model="vcpu", out=str(tmp_path / "run"), canary=False,
    )  # fmt: skip
    train(settings, lambda progress: None, lambda text: None)
    metrics = load(tmp_path / "run").metrics
    assert metrics.value("energy_per_token") == pytest.approx(
        metrics["energy_per_sample"].value / 128
    )
    assert metrics["energy_per_token"].status is Status.MODELLED
    assert metrics.value("tokens_per_second") == pytest.approx(metrics["throughput"].value * 128)
    assert "energy_per_token" in load(tmp_path / "run").headline_report(operations=False).metrics
