"""Decodes for a worker, and keeps half a MiB each time."""

from pace import steps, touched

kept = []
for step in steps(150, 12.5):
    kept.append(touched(0.5))
