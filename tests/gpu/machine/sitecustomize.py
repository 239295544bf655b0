"""Loaded by each Python that has this folder on its path: its GPU is played."""

from tests.gpu.machine import install

install()
