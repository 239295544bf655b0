"""Settings under which a training's steps take less time or energy and learn the same, searched on real steps."""
