"""Validation takes memory for a moment every twenty-four steps and gives it back."""

from pace import steps, touched

model = touched(60)
for step in steps(150, 13):
    if step % 24 == 21:
        batch = touched(90)
    elif step % 24 == 0:
        batch = None
