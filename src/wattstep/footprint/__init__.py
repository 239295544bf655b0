"""How much memory a training needs, what for, and in which stage of its life."""

from wattstep.footprint.life import FootprintSettings, measure
from wattstep.footprint.step import track_step

__all__ = ["FootprintSettings", "measure", "track_step"]
