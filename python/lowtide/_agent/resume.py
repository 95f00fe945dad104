"""Starts a framework from the checkpoint that the recorder names, where the program does not say one itself.

Only after a restart by `lowtide run --guard --resume`: the recorder then sets LOWTIDE_RESUME. A checkpoint that does not
lie where this trainer keeps its own is another one's, and is left alone. What was handed on is told as `resumed`.
"""

import os

from . import page as _page

VARIABLE = "LOWTIDE_RESUME"

_used = False


def trainer(self, args, kwargs):
    """Arguments for Trainer.train: `resume_from_checkpoint` is the first."""
    path = _path(os.path.isdir)
    if path is None or not _inside(path, self.args.output_dir):
        return args, kwargs
    given = args[0] if args else kwargs.get("resume_from_checkpoint")
    # A path elsewhere is the user's own wish; one in this folder, or "the newest", is what the recorder looked for.
    if isinstance(given, (str, os.PathLike)) and not _inside(os.path.abspath(given), self.args.output_dir):
        return args, kwargs
    _use(path)
    if args:
        return (path, *args[1:]), kwargs
    return args, dict(kwargs, resume_from_checkpoint=path)


#: Where `ckpt_path` stands among the arguments of Trainer.fit, behind the trainer itself.
_CKPT_PATH = 4


def lightning(self, args, kwargs):
    """Arguments for Trainer.fit."""
    path = _path(os.path.isfile)
    given = args[_CKPT_PATH] if len(args) > _CKPT_PATH else kwargs.get("ckpt_path")
    folder = getattr(self.checkpoint_callback, "dirpath", None) or self.default_root_dir
    if path is None or given not in (None, "last") or not (_inside(path, folder) or _inside(path, self.default_root_dir)):
        return args, kwargs
    _use(path)
    if len(args) > _CKPT_PATH:
        return (*args[:_CKPT_PATH], path, *args[_CKPT_PATH + 1 :]), kwargs
    return args, dict(kwargs, ckpt_path=path)


def _path(is_right):
    path = os.environ.get(VARIABLE)
    return path if path and not _used and is_right(path) else None


def _inside(path, folder):
    folder = os.path.realpath(folder)
    return os.path.commonpath([os.path.realpath(path), folder]) == folder


def _use(path):
    global _used
    _used = True
    page = _page.current()
    if page is not None:
        page.info(resumed=os.path.basename(path))
