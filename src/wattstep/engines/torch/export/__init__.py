"""Exports a training from torch for engines that train it elsewhere; see `engines.exported`."""
