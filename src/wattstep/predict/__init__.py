"""What a training step will cost on a device that is not here: time, memory and power from its graph and the device's file."""

from __future__ import annotations

from wattstep.predict.prediction import Prediction
from wattstep.predict.predictor import Predictor

__all__ = ["Prediction", "Predictor"]
