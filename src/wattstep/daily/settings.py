"""What a daily training is asked to be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from wattstep.errors import InvalidValueError
from wattstep.records.goal import Goal
from wattstep.records.settings import parse_power_model
from wattstep.records.workload import PRECISIONS, RATE_RULES, Preparation

SERVER_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class DailySettings:
    """See the options of `wattstep daily`; what is the same for all batch sizes.

    Attributes:
        images_per_day: New samples of each day.
        epochs_per_day: How often a day trains on each of them.
        pretrain: Accuracy on held-out samples that the server trains to, as in `Goal.parse`.
        pretrain_seconds: The most that it may take.
        judged: Samples, at most, on which each accuracy is taken.
        rate_rule: How the learning rate follows the batch; see `Preparation`.
    """

    workload: str
    images_per_day: int = 64
    days: int = 17
    epochs_per_day: int = 1
    pretrain: str = "accuracy=0.6"
    pretrain_seconds: float = 3600.0
    judged: int = 2000
    threads: int | None = None
    precision: str = "fp32"
    rate_rule: str = "linear"
    seed: int = 0
    data_dir: str | None = None
    power_model: str | None = None

    def __post_init__(self) -> None:
        for name in ("images_per_day", "days", "epochs_per_day", "judged", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidValueError(
                    f"--{name.replace('_', '-')} {value}: it must be at least 1"
                )
        for name, known in (("precision", PRECISIONS), ("rate_rule", RATE_RULES)):
            if getattr(self, name) not in known:
                raise InvalidValueError(
                    f"--{name.replace('_', '-')} {getattr(self, name)}: "
                    f"there are {', '.join(known)}"
                )
        if Goal.parse(self.pretrain).measure != "accuracy":
            raise InvalidValueError(f"--pretrain {self.pretrain}: write accuracy=0.6")
        if self.pretrain_seconds <= 0:
            raise InvalidValueError("--pretrain-seconds must be above 0")
        if self.data_dir is not None and not Path(self.data_dir).is_dir():
            raise InvalidValueError(f"--data {self.data_dir}: there is no such folder")
        parse_power_model(self.power_model)

    def preparation(self, batch_size: int) -> Preparation:
        """What the workload is built from."""
        return Preparation(
            batch_size=batch_size,
            seed=self.seed,
            data_dir=None if self.data_dir is None else Path(self.data_dir),
            rate_rule=self.rate_rule,
        )

    def steps_per_day(self, batch_size: int) -> int:
        """So many that each sample is seen `epochs_per_day` times; the last batch is filled up
        with samples of the same day.
        """
        return -(-self.images_per_day * self.epochs_per_day // batch_size)
