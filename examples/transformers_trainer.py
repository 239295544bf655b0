"""Hugging Face's Trainer, one line: python examples/transformers_trainer.py [FOLDER]."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import wattstep

folder = sys.argv[1] if len(sys.argv) > 1 else "runs"
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=128, n_positions=32))
rows = [torch.randint(128, (16,)) for _ in range(64)]
callback = wattstep.WattstepCallback(folder, power_model="vcpu")
arguments = TrainingArguments(
    f"{folder}/checkpoints",
    per_device_train_batch_size=4,
    num_train_epochs=1,
    use_cpu=True,
    report_to="none",
    save_strategy="no",
    dataloader_pin_memory=False,
)
dataset = [{"input_ids": row, "labels": row} for row in rows]
Trainer(model=model, args=arguments, train_dataset=dataset, callbacks=[callback]).train()
print(wattstep.load(callback.runs[-1]).summary())
