"""Energy below the sampling interval: what samples over many steps say of operations shorter than a sample."""
