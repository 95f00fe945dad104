"""The same validation, and underneath it a third of a MiB that stays at every step."""

from pace import steps, touched

model, kept = touched(60), []
for step in steps(170, 13):
    kept.append(touched(0.33))
    if step % 24 == 21:
        batch = touched(90)
    elif step % 24 == 0:
        batch = None
