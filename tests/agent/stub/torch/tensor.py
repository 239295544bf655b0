import contextlib

GRADIENTS = [True]


class Tensor:
    """Samples and hooks; no numbers."""

    def __init__(self, samples=1, requires_grad=False, made_by=None):
        self.shape = (samples, 4)
        self.requires_grad = requires_grad
        self.made_by = made_by
        self.hooks = {}

    def dim(self):
        return 2

    def register_hook(self, hook):
        handle = Handle(self.hooks)
        self.hooks[id(handle)] = hook
        return handle

    def told(self):
        for hook in list(self.hooks.values()):
            hook(self)

    def backward(self):
        import torch

        torch.autograd.backward(self)


class Handle:
    def __init__(self, hooks):
        self.hooks = hooks

    def remove(self):
        self.hooks.pop(id(self), None)


def is_grad_enabled():
    return GRADIENTS[-1]


@contextlib.contextmanager
def no_grad():
    GRADIENTS.append(False)
    try:
        yield
    finally:
        GRADIENTS.pop()
