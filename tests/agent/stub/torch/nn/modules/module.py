from torch.tensor import Handle

BEFORE, AFTER = {}, {}


def register_module_forward_pre_hook(hook):
    handle = Handle(BEFORE)
    BEFORE[id(handle)] = hook
    return handle


def register_module_forward_hook(hook):
    handle = Handle(AFTER)
    AFTER[id(handle)] = hook
    return handle


class Module:
    training = True

    def __init__(self):
        self.parts = {}
        self.own = []
        self.before, self.after = {}, {}

    def register_forward_pre_hook(self, hook):
        handle = Handle(self.before)
        self.before[id(handle)] = hook
        return handle

    def register_forward_hook(self, hook):
        handle = Handle(self.after)
        self.after[id(handle)] = hook
        return handle

    def __call__(self, given):
        for hook in [*BEFORE.values(), *self.before.values()]:
            hook(self, (given,))
        output = self.forward(given)
        for hook in [*AFTER.values(), *self.after.values()]:
            hook(self, (given,), output)
        return output

    def eval(self):
        self.training = False
        return self

    def children(self):
        return iter(self.parts.values())

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, part in self.parts.items():
            yield from part.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self):
        return (module for _, module in self.named_modules())

    def parameters(self):
        return (parameter for module in self.modules() for parameter in module.own)
