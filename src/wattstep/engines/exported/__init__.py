"""Engines that train what torch has exported: the folder of such a training, and what all of them share."""
