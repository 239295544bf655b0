"""The period of the training steps, found from the samples of a channel alone."""
