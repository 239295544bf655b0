"""Recording a training: START HERE with `recorder.py`; sensors, sampler, tracing windows, sensor hosts."""
