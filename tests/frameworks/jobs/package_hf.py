"""transformers.Trainer with lowtide's callback, and a tracker that is listed before it; those of others if wished."""

import gc
import json
import os
import sys

import hf
import lowtide
import torch
from asking import ends_the_program
from hf import Config, Count, Tiny
from transformers import Trainer, TrainerCallback, TrainingArguments

wishes = set(sys.argv[1:])
trackers = wishes & {"tensorboard", "mlflow", "wandb"}
hf.ask = ["0"] if "ask" in wishes else []


class Tracker(TrainerCallback):
    def __init__(self):
        self.seen = []

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.seen.append(sorted(logs))


class Garbage(TrainerCallback):
    """A cycle of 8 MiB at every step, which only a collection frees."""

    def on_step_begin(self, args, state, control, **kwargs):
        if "garbage" in wishes and state.global_step < 6:
            cycle = [bytearray(8 << 20)]
            cycle.append(cycle)


def main():
    torch.manual_seed(7)
    if "garbage" in wishes:
        gc.disable()
    rows = [{"x": torch.randn(8), "labels": torch.tensor(1.0)} for _ in range(50)]
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, eval_strategy="epoch",
        save_strategy="steps", save_steps=5, report_to=list(trackers), use_cpu=True, disable_tqdm=True,
        logging_strategy="no",
    )  # fmt: skip
    count, tracker = Count(), Tracker()
    tracked = bool(trackers or "tracker" in wishes)
    ours = lowtide.Callback(
        log_every=5, cleanup_every=1 if "garbage" in wishes else None, report_to_tracker=tracked
    )
    listed = [count, tracker, Garbage(), ours]
    trainer = Trainer(Tiny(Config()), arguments, train_dataset=rows, eval_dataset=rows[:12], callbacks=listed)
    left = ends_the_program(trainer.train)
    said = count.said
    said["left"] = left
    said["stopped"] = trainer.state.global_step
    said["checkpoints"] = sorted(n for n in os.listdir("out") if n.startswith("checkpoint"))
    said["history"] = [entry for entry in trainer.state.log_history if "loss" in entry]
    said["tracker"] = tracker.seen
    said["summary"] = ours.summary
    said["modules"] = sorted(name for name in sys.modules if name.endswith("agent.page"))
    said["weights"] = [float(v).hex() for v in trainer.model.line.weight.flatten()]
    print(json.dumps(said))


main()
