"""The whole way: `lowtide run` around unmodified jobs, and what the recording says. Needs the binary (cargo build)."""

import json
import os
import sqlite3
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def record(run):
    """Runs a job under the recorder and gives what it said and its marks."""
    places = [os.environ.get("LOWTIDE_BINARY"), ROOT / "target/debug/lowtide", ROOT / "target/release/lowtide"]
    binary = next((p for p in places if p and Path(p).exists()), None)
    assert binary, "build it first: cargo build -p lowtide"

    def go(*args):
        # Not the agent of this checkout by hand: the one the binary carries and lays out.
        result = run(*args, agent=False, before=[str(binary), "run", "--out", "job.tide", "--"])
        with sqlite3.connect(result.work / "job.tide") as file:
            columns = "kind, phase, number, rank, extra, process_id"
            rows = file.execute(f"SELECT {columns} FROM mark ORDER BY id").fetchall()
        return result, rows

    return go


def count(rows, kind, phase="start"):
    return sum(1 for row in rows if row[:2] == (kind, phase))


def facts(rows):
    found = {}
    for kind, _, _, _, extra, _ in rows:
        found.update(json.loads(extra) if kind == "info" and extra else {})
    return found


def said(result):
    lines = [line for line in result.stdout.splitlines() if line.startswith('{"pid"')]
    assert lines, result.stderr
    # Two ranks may say theirs on one line.
    return json.JSONDecoder().raw_decode(lines[0])[0]


def test_a_plain_loop_with_workers(record):
    result, rows = record("plain.py", 2, "fork", 2)
    job = said(result)
    assert max(row[2] for row in rows if row[0] == "step") == job["steps"]
    assert count(rows, "epoch") == count(rows, "epoch", "end") == job["epochs"]
    assert count(rows, "eval") == count(rows, "eval", "end") == job["evals"]
    assert count(rows, "save") == count(rows, "save", "end") == job["saves"]
    assert facts(rows)["examples"] == 50
    workers = {row[5] for row in rows if row[4] and "loader_worker" in row[4]}
    assert len(workers) == 6


def test_a_trainer(record):
    result, rows = record("hf.py")
    job = said(result)
    assert max(row[2] for row in rows if row[0] == "step") == job["steps"]
    assert (count(rows, "epoch"), count(rows, "eval")) == (job["epochs"], job["evals"])
    assert count(rows, "save") == job["saves"] + 1
    known = facts(rows)
    assert (known["examples"], known["batch"], known["accum"]) == (50, 4, 2)


def test_two_ranks(record):
    result, rows = record("-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29612", "acc.py")
    steps = {rank: max(r[2] for r in rows if r[0] == "step" and r[3] == rank) for rank in (0, 1)}
    job = said(result)
    assert steps == {0: job["steps"], 1: job["steps"]}
    assert facts(rows)["world_size"] == 2


def test_any_python_has_the_agent(record):
    code = "import json, os, sys; print(json.dumps({'pid': 1, 'agent': 'lowtide_agent' in sys.modules}))"
    result, _ = record("-c", code)
    assert said(result)["agent"] is True
