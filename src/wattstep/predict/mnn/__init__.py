"""Predictions of trainings with MNN on a phone's CPU."""
