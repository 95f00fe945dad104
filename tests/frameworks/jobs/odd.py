"""Loops that are not the usual one; each prints what it did. Argument: which."""

import itertools
import json
import os
import sys
import threading
import warnings

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


def tiny():
    model = torch.nn.Linear(2, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def train(model, optimizer, x):
    model(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def gan():
    first, second = tiny(), tiny()
    for _ in range(10):
        for model, optimizer in (first, second):
            train(model, optimizer, torch.ones(1, 2))
    third = tiny()
    for _ in range(5):
        train(*third, torch.ones(1, 2))
    return {"steps": 15}


def scaler():
    model, optimizer = tiny()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for index in range(10):
        loss = model(torch.ones(1, 2)).sum() * (float("inf") if index in (3, 6) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    return {"steps": 8}


def compiled():
    model, optimizer = tiny()
    step = torch.compile(optimizer.step, backend="eager")
    for _ in range(5):
        model(torch.ones(1, 2)).sum().backward()
        step()
    counters = torch._dynamo.utils.counters
    return {"breaks": sum(counters["graph_break"].values()), "graphs": counters["stats"]["unique_graphs"]}


def breaks():
    """Left by `break`, with persistent workers, an evaluation in the middle of a pass, limited too."""
    model, optimizer = tiny()
    rows = TensorDataset(torch.randn(40, 2))
    loader = DataLoader(rows, batch_size=4, num_workers=1, persistent_workers=True)
    test = DataLoader(rows, batch_size=4, num_workers=1, persistent_workers=True)
    teacher = torch.nn.Linear(2, 1).eval()
    for _ in range(2):
        for index, (x,) in enumerate(loader):
            teacher(x)
            train(model, optimizer, x)
            if index == 3:
                model.eval()
                for _ in itertools.islice(test, 3):
                    pass
                model.train()
            if index == 6:
                break
    return {"steps": 14, "epochs": 2, "evals": 2, "micro": 14}


class Stream(IterableDataset):
    def __len__(self):
        return 3  # a lie: asking for it would make torch warn

    def __iter__(self):
        return iter(torch.randn(12, 2))


def stream():
    model, optimizer = tiny()
    for _ in range(2):
        for x in DataLoader(Stream(), batch_size=5):
            train(model, optimizer, x)
    return {"steps": 6, "epochs": 2, "examples": 24}


def side_by_side():
    model, optimizer = tiny()
    rows = TensorDataset(torch.randn(12, 2))
    for _ in range(2):
        for (x,), _ in zip(DataLoader(rows, batch_size=4), DataLoader(rows, batch_size=2)):
            train(model, optimizer, x)
    return {"steps": 6, "epochs": 2, "micro": 6}


def threads():
    """Marks from many threads at once: none is torn, none is lost."""
    page = sys.modules["lowtide_agent.page"].current()

    def write(number):
        for index in range(20):
            page.mark("custom", "point", float(index), {"name": f"t{number}"})

    many = [threading.Thread(target=write, args=(n,)) for n in range(10)]
    for thread in many:
        thread.start()
    for thread in many:
        thread.join()
    return {"custom": 200}


def forked():
    """A child forked in the middle of a pass goes on with it: on its own page."""
    model, optimizer = tiny()
    rows = TensorDataset(torch.randn(40, 2))
    child = None
    for index, (x,) in enumerate(DataLoader(rows, batch_size=4)):
        train(model, optimizer, x)
        if index == 4:
            child = os.fork()
            if child:
                break
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    return {"steps": 5, "micro": 5, "child": child, "child_steps": 5}


def quiet_failure():
    """Hooks that fail inside are heard of in the page, never in the program."""
    model, optimizer = tiny()
    sys.modules["lowtide_agent.progress"].Progress.finished_step = None
    for _ in range(30):
        train(model, optimizer, torch.ones(1, 2))
    return {"off": 4}


warnings.simplefilter("error")
said = globals()[sys.argv[1]]()
print(json.dumps({"pid": os.getpid(), **said}))
