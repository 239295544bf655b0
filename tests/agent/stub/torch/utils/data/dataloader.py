class _BaseDataLoaderIter:
    def __init__(self, batches):
        self.batches = iter(batches)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self.batches)


class DataLoader:
    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return _BaseDataLoaderIter(self.batches)
