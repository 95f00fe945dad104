"""Loaded by every Python of a job that `lowtide run` records: brings the agent in, then hands over to the user's own
sitecustomize, if there is one further down the path. Whatever goes wrong here stays here."""


def _agent():
    try:
        import lowtide_agent

        lowtide_agent.start()
    except BaseException:
        pass


def _chain():
    import importlib.machinery
    import os
    import sys

    here = os.path.dirname(os.path.abspath(__file__))
    rest = [folder for folder in sys.path if os.path.abspath(folder or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    import importlib.util

    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_agent()
_chain()
