"""transformers.Trainer with dropout, on data that is shuffled, leaking at every step; on any number of ranks."""

import json
import os

import torch
from hf import Config, Tiny
from leaking import STEPS, held, leak, note
from transformers import Trainer, TrainerCallback, TrainingArguments


class Leaking(Tiny):
    def __init__(self, config):
        super().__init__(config)
        self.drop = torch.nn.Dropout(0.3)

    def forward(self, x=None, labels=None):
        return super().forward(self.drop(x), labels)


class Diary(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        leak()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs and state.is_world_process_zero:
            note(state.global_step, logs["loss"])


def main():
    torch.manual_seed(7)
    rows = [{"x": torch.randn(8), "labels": torch.randn(())} for _ in range(52)]
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=2, max_steps=STEPS, logging_steps=1, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True, lr_scheduler_type="cosine",
    )  # fmt: skip
    trainer = Trainer(Leaking(Config()), arguments, train_dataset=rows, callbacks=[Diary()])
    trainer.train()
    # Not for a model that is half trained.
    if trainer.is_world_process_zero():
        losses = [(e["step"], e["loss"]) for e in trainer.state.log_history if "loss" in e]
        launcher = held(os.getppid()) if "RANK" in os.environ else 0
        print(json.dumps({"pid": os.getpid(), "losses": losses, "held": held(), "launcher": launcher}))


main()
