"""transformers.Trainer on a tiny model; a callback of its own counts what the Trainer reports."""

import json
import os
import sys

import torch
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
        if ask and state.global_step == 4:
            ask_to_stop()


def ask_to_stop():
    # The recorder's part: a request into the page, by plain file I/O.
    folder = os.environ["LOWTIDE_MARKS"]
    (name,) = [n for n in os.listdir(folder) if n.startswith(f"{os.getpid()}.")]
    with open(os.path.join(folder, name), "r+b") as page:
        page.seek(256)
        page.write((1).to_bytes(8, "little") + (9).to_bytes(8, "little"))


def main():
    torch.manual_seed(7)
    rows = [{"x": torch.randn(8), "labels": torch.tensor(1.0)} for _ in range(50)]
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=2, eval_strategy="epoch",
        save_strategy="steps", save_steps=5, report_to=[], use_cpu=True, disable_tqdm=True, logging_strategy="no",
        dataloader_num_workers=1, dataloader_persistent_workers=True,
    )  # fmt: skip
    count = Count()
    trainer = Trainer(Tiny(Config()), arguments, train_dataset=rows, eval_dataset=rows[:12], callbacks=[count])
    trainer.train()
    trainer.save_model("final")
    again = Tiny.from_pretrained("final")
    said = count.said
    said["stopped"] = trainer.state.global_step
    said["checkpoints"] = sorted(n for n in os.listdir("out") if n.startswith("checkpoint"))
    said["bytes"] = {n: size("out/" + n) for n in said["checkpoints"]}
    said["callbacks"] = [type(c).__name__ for c in trainer.callback_handler.callbacks]
    said["weights"] = [float(v).hex() for v in again.line.weight.flatten()]
    print(json.dumps(said))


def size(folder):
    return sum(os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder))


ask = len(sys.argv) > 1
if __name__ == "__main__":
    main()
