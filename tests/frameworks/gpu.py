"""Run by hand on a machine with a GPU and torch: the agent's figures beside torch's own. Prints one JSON object.

python tests/frameworks/gpu.py
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import marks

JOB = """
import json, os, sys, time, torch
held = [torch.empty(1 << 20, device="cuda") for _ in range(5)]
host = [torch.zeros(1000) for _ in range(7)]
model = torch.nn.Linear(64, 64, device="cuda")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
scaler = torch.amp.GradScaler("cuda")
if "lowtide_agent" in sys.modules:
    meters = sys.modules["lowtide_agent.meters"]
    meters._tensor_next = 0  # now, not when it would be due
steps, begun = 0, time.monotonic()
while time.monotonic() - begun < 2.5 or steps % 10:
    scaler.scale(model(torch.ones(8, 64, device="cuda")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    steps += 1
time.sleep(1.1)
scaler.scale(model(torch.ones(8, 64, device="cuda")).sum()).backward()
optimizer.step()
steps += 1
said = {"pid": os.getpid(), "steps": steps, "allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved()}
if "lowtide_agent" in sys.modules:
    begun = time.perf_counter()
    found = meters.Census(torch)
    said["count"] = (found.count, found.host, found.device)
    said["count_ms"] = 1e3 * (time.perf_counter() - begun)
print(json.dumps(said))
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        site, pages = Path(folder, "site"), Path(folder, "marks")
        agent = Path(__file__).resolve().parents[2] / "python/lowtide/_agent"
        shutil.copytree(agent, site / "lowtide_agent")
        (site / "lowtide_agent/sitecustomize.py").rename(site / "sitecustomize.py")
        pages.mkdir(mode=0o700)
        env = {**os.environ, "PYTHONPATH": str(site), "LOWTIDE_MARKS": str(pages)}
        done = subprocess.run([sys.executable, "-c", JOB], env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        said = json.loads(done.stdout)
        page = marks.read(pages)[said["pid"]]
    told = {"steps": page.steps, "allocated": page.gpu_allocated, "reserved": page.gpu_reserved}
    told |= {
        "tensors": [page.tensors, page.tensors_cpu, page.tensors_device],
        "hook_us": page.hook_ns / page.steps / 1e3,
    }
    print(json.dumps({"torch": said, "page": told, "facts": page.facts, "stderr": done.stderr}))


main()
