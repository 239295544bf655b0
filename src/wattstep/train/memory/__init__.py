"""Memory that a training needs, by category and by stage of its life."""

from wattstep.train.memory.life import FootprintSettings, measure
from wattstep.train.memory.step import track_step

__all__ = ["FootprintSettings", "measure", "track_step"]
