"""What training does to a periodic job of the user's, and what that job does to the training."""

from wattstep.foreground.contest import SECONDS, measure_foreground

__all__ = ["SECONDS", "measure_foreground"]
