"""transformers.Trainer on a tiny model; a callback of its own counts what the Trainer reports."""

import json
import os
import sys

import torch
from asking import ask_to_stop, ends_the_program
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainerCallback, TrainingArguments


class Config(PretrainedConfig):
    model_type = "tiny"


class Tiny(PreTrainedModel):
    config_class = Config

    def __init__(self, config):
        super().__init__(config)
        self.line = torch.nn.Linear(8, 1)
        self.post_init()

    def forward(self, x=None, labels=None):
        out = self.line(x).squeeze(-1)
        return {"loss": (out - labels).pow(2).mean(), "logits": out}


class Count(TrainerCallback):
    def __init__(self):
        self.said = {"pid": os.getpid(), "epochs": 0, "evals": 0, "saves": 0, "steps": 0}

    def on_epoch_end(self, args, state, control, **kwargs):
        self.said["epochs"] += 1

    def on_evaluate(self, args, state, control, **kwargs):
        self.said["evals"] += 1

    def on_save(self, args, state, control, **kwargs):
        self.said["saves"] += 1

    def on_step_end(self, args, state, control, **kwargs):
        self.said["steps"] = state.global_step
        # Ranks are asked one after the other.
        if ask and state.global_step == 4 - state.is_world_process_zero:
            ask_to_stop(int(ask[0]))


def main():
    torch.manual_seed(7)
    rows = [{"x": torch.randn(8), "labels": torch.tensor(1.0)} for _ in range(50)]
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, eval_strategy="epoch",
        save_strategy="steps", save_steps=5, report_to=[], use_cpu=True, disable_tqdm=True, logging_steps=1,
        dataloader_num_workers=1, dataloader_persistent_workers=True,
    )  # fmt: skip
    count = Count()
    trainer = Trainer(Tiny(Config()), arguments, train_dataset=rows, eval_dataset=rows[:12], callbacks=[count])
    left = ends_the_program(trainer.train)
    trainer.save_model("final")
    trainer.accelerator.wait_for_everyone()
    again = Tiny.from_pretrained("final")
    said = count.said
    said["stopped"], said["left"] = trainer.state.global_step, left
    said["losses"] = [(e["step"], e["loss"]) for e in trainer.state.log_history if "loss" in e]
    said["checkpoints"] = sorted(n for n in os.listdir("out") if n.startswith("checkpoint"))
    said["bytes"] = {n: size("out/" + n) for n in said["checkpoints"]}
    said["callbacks"] = [type(c).__name__ for c in trainer.callback_handler.callbacks]
    said["weights"] = [float(v).hex() for v in again.line.weight.flatten()]
    folder = os.environ.get("SAID_IN")
    if folder:
        with open(os.path.join(folder, f"said-{arguments.process_index}.json"), "w") as file:
            json.dump(said, file)
    print(json.dumps(said))


def size(folder):
    return sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))


ask = sys.argv[1:]
if __name__ == "__main__":
    main()
