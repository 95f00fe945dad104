"""lowtide's agent inside a Python process: finds out by itself which step, epoch, evaluation or save the job is in.

It is loaded by `sitecustomize` before the user's code, waits for frameworks to be imported, and hooks them. Its law:
never raise into the user's program, never change its results, and cost microseconds. Imports here are relative, because
the recorder carries this folder under the name `lowtide_agent`.
"""
