"""Modules that run on a board, with which the one-file agent begins; Python 3.6 and later."""
