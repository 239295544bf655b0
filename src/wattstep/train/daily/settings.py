"""Settings of a daily training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattstep import engines
from wattstep.errors import InvalidValueError
from wattstep.schema.goal import Goal
from wattstep.schema.settings import check_above_0, parse_power_model, setting
from wattstep.schema.workload import RATE_RULES, Preparation
from wattstep.train.settings import check_engine

SERVER_BATCH = 32
LABELS = ("given", "auto")


@dataclass(frozen=True, kw_only=True)
class DailySettings:
    """See the options of `wattstep daily`; what is the same for all batch sizes.

    Attributes:
        pretrain: Accuracy on held-out samples that the server trains to, as in `Goal.parse`.
        rate_rule: How the learning rate follows the batch; see `Preparation`.

    The others: as the help of their options says.
    """

    workload: str
    images_per_day: int = setting(64, "New samples a day.", "N")
    days: int = setting(17, "Days.", "N")
    epochs_per_day: int = setting(1, "How often a day trains on each of its samples.", "N")
    pretrain: str = setting("accuracy=0.6", "Held-out accuracy of the server's model.", "GOAL")
    pretrain_seconds: float = setting(3600.0, "The most that the server's training may take.", "S")
    labels: str = setting(
        "given",
        "given: the data's own; auto: each day's samples are labeled by what a few labeled ones tell, and only "
        "those that get a label are trained on.",
        "HOW",
    )
    labeled: int = setting(100, "Labeled samples that --labels auto begins with.", "N")
    judged: int = setting(2000, "Samples, at most, on which an accuracy is taken.", "N")
    threads: int | None = None
    engine: str = engines.DEFAULT
    processor: str = "cpu"
    precision: str = "fp32"
    channels_last: bool = False
    compiled: bool = setting(False, option="compile")
    rate_rule: str = "linear"
    seed: int = 0
    data_dir: str | None = setting(None, option="data")
    power_model: str | None = None

    def __post_init__(self) -> None:
        for name in ("images_per_day", "days", "epochs_per_day", "labeled", "judged", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValueError(
                    f"--{name.replace('_', '-')} {value}: it must be at least 1", id="out-of-range"
                )
        if engines.find(self.engine).exports:  # said before minutes are spent on an export
            raise InvalidValueError(
                f"--engine {self.engine}: an export has its batches, and daily training draws those of each "
                f"day and judges the model: --engine {engines.DEFAULT} does",
                id="not-for-engine",
            )
        check_engine(
            self.engine, self.processor, self.precision,
            channels_last=self.channels_last, compiled=self.compiled,
        )  # fmt: skip
        if self.rate_rule not in RATE_RULES:
            known = ", ".join(RATE_RULES)
            raise InvalidValueError(
                f"--rate-rule {self.rate_rule}: there are {known}", id="unknown-rate-rule"
            )
        if self.labels not in LABELS:
            raise InvalidValueError(
                f"--labels {self.labels}: there are {', '.join(LABELS)}", id="unknown-labels"
            )
        if Goal.parse(self.pretrain).measure != "accuracy":
            raise InvalidValueError(
                f"--pretrain {self.pretrain}: write accuracy=0.6", id="malformed-goal"
            )
        check_above_0(f"--pretrain-seconds {self.pretrain_seconds:g}", self.pretrain_seconds)
        if self.data_dir is not None and not Path(self.data_dir).is_dir():
            raise InvalidValueError(
                f"--data {self.data_dir}: there is no such folder", id="no-such-folder"
            )
        parse_power_model(self.power_model)

    def preparation(self, batch_size: int) -> Preparation:
        """Preparation that the workload is built from."""
        return Preparation(
            batch_size=batch_size,
            seed=self.seed,
            data_dir=None if self.data_dir is None else Path(self.data_dir),
            rate_rule=self.rate_rule,
            channels_last=self.channels_last,
            compiled=self.compiled,
        )

    @property
    def set_apart(self) -> int:
        """Samples that the labeler begins with, which neither the server nor a day has."""
        return self.labeled if self.labels == "auto" else 0

    def steps_per_day(self, batch_size: int, samples: int | None = None) -> int:
        """So many that each sample is seen `epochs_per_day` times; the last batch is filled up
        with samples of the same day.

        Args:
            batch_size: Samples of a step.
            samples: Of the day; None: `images_per_day`.
        """
        count = self.images_per_day if samples is None else samples
        return -(-count * self.epochs_per_day // batch_size)
