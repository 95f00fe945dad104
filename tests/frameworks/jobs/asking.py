"""The recorder's part of a request to stop, and what becomes of the program."""

import os


def ask_to_stop(at=0):
    # The recorder's part: a request into the page, by plain file I/O, its number last.
    folder = os.environ["LOWTIDE_MARKS"]
    (name,) = [n for n in os.listdir(folder) if n.startswith(f"{os.getpid()}.")]
    with open(os.path.join(folder, name), "r+b") as page:
        for offset, value in ((288, at), (256, 1), (264, 9)):
            page.seek(offset)
            page.write(value.to_bytes(8, "little"))
            page.flush()


def ends_the_program(call, *args):
    """Whether a training that was stopped ends the program, instead of going on as if it had been finished."""
    try:
        call(*args)
    except SystemExit as end:
        assert end.code == 0
        return True
    return False
