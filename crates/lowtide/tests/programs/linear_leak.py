"""Keeps one numpy array more at every step."""

import numpy
from pace import MIB, steps

kept = []
for step in steps(150, 13):
    kept.append(numpy.ones(MIB, dtype=numpy.uint8))
