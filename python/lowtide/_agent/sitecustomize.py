"""Loads lowtide's agent, then the `sitecustomize` the user has somewhere behind us on the path.

The recorder puts the folder of this file first on PYTHONPATH. The folder leaves `sys.path` again at once, so that the
program sees the path it would have had; child processes inherit the variable and load the agent by themselves.
"""


def _start(here):
    import sys

    try:
        # Relative to the folder whatever the path looks like: no other `lowtide_agent` is ever taken.
        if here not in sys.path:
            sys.path.insert(0, here)
        import lowtide_agent.start

        lowtide_agent.start.start()
    except Exception:
        pass
    # In place, for those who hold the list.
    sys.path[:] = [entry for entry in sys.path if entry != here]


def _chain(ours):
    import sys

    externals = sys.modules["_frozen_importlib_external"]
    internals = sys.modules["_frozen_importlib"]
    spec = externals.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.origin == ours:
        return
    # From here on as `import sitecustomize` would do it without us, errors included: they are the user's.
    module = internals.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop("sitecustomize", None)
        raise


_start(__file__.rpartition("/")[0])
_chain(__file__)
