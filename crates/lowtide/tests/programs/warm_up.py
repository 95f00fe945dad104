"""Grows ever slower over its first third (buffers, pools, caches), then not at all."""

import math

from pace import steps, touched

COUNT = 150
pools, held = [], 0.0
for step in steps(COUNT, 13):
    wanted = 120 * (1 - math.exp(-12 * step / COUNT)) if step < COUNT // 3 else 120
    if wanted > held:
        pools.append(touched(wanted - held))
        held = wanted
