"""A W&B run that is kept offline and whose system metrics come from an address, until they are in its file."""

import json
import os
import sys
import time
from pathlib import Path

import wandb
from offline import stats

address, token = sys.argv[1:]
settings = wandb.Settings(
    x_stats_sampling_interval=0.2,
    x_stats_open_metrics_endpoints={"lowtide": address},
    x_stats_open_metrics_http_headers={"Authorization": "Bearer " + token},
)
for _ in range(20):
    # What was sampled is in the file for sure once the run has ended.
    run = wandb.init(mode="offline", project="scraped", dir=".", settings=settings)
    time.sleep(1)
    run.finish()
    found = [sample for file in Path().rglob("*.wandb") for sample in stats(file)]
    found = [sample for sample in found if any(key.startswith("openmetrics.lowtide.") for key in sample)]
    if found:
        break
print(json.dumps({"pid": os.getpid(), "samples": found}))
