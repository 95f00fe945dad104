"""Processes of known make for `cost.py`: builds one of them, says that it is ready, and waits."""

import sys

KEPT = []


def torch_model():
    """torch with transformers: a model, its gradients and Adam's state."""
    import torch
    import transformers

    config = transformers.GPT2Config(n_embd=768, n_layer=6, n_head=12, vocab_size=16384, n_positions=512)
    model = transformers.GPT2LMHeadModel(config)
    adam = torch.optim.AdamW(model.parameters())
    tokens = torch.randint(0, 16384, (1, 64))
    model(input_ids=tokens, labels=tokens).loss.backward()
    adam.step()
    KEPT.extend([model, adam])


def torch_imported():
    """torch, and nothing done with it."""
    import torch

    KEPT.append(torch)


def mixed():
    """Dicts, texts, sets and blobs."""
    for number in range(170_000):
        KEPT.append(
            {
                "id": number,
                "text": "example %d of the data set" % number,
                "tokens": [number * 7 + k for k in range(6)],
                "tags": {"a%d" % number, "b%d" % number},
                "blob": bytes(700 + number % 600),
            }
        )


class Row:
    """An object with two attributes."""

    def __init__(self, number):
        self.key = number * 0.5
        self.pair = (number * 0.25, number + 1000)


def tiny():
    """Nothing but tiny objects."""
    KEPT.extend(Row(number) for number in range(1_700_000))


def deep():
    """Tiny objects that hold each other: dicts of lists of tuples."""
    for number in range(300_000):
        KEPT.append({"rows": [(number + k * 0.5, (number, str(number + k))) for k in range(3)], "next": {number: [number]}})


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print("ready", flush=True)
    sys.stdin.readline()
