from torch.autograd import profiler as autograd_profiler


class ProfilerActivity:
    CPU, CUDA = "cpu", "cuda"


class profile:
    def __init__(self, activities, record_shapes=False):
        self.inner = autograd_profiler.profile(ProfilerActivity.CUDA in activities, record_shapes)

    def __enter__(self):
        self.inner.__enter__()
        return self

    def __exit__(self, *error):
        self.inner.__exit__(*error)

    def export_chrome_trace(self, path):
        self.inner.export_chrome_trace(path)
