import torch.utils.data.dataloader  # noqa: F401
