"""Effect of training on a periodic job of the user's, and of that job on the training."""

from wattstep.train.foreground.contest import SECONDS, measure_foreground

__all__ = ["SECONDS", "measure_foreground"]
