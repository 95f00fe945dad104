"""`python -m lowtide`: becomes the `lowtide` program."""

from __future__ import annotations

import os
import sys

from lowtide._binary import LowtideError, find


def main() -> int:
    """Never returns where the program is there: this process becomes it, so signals and exit codes are its own."""
    try:
        program = find()
        os.execv(program, [program, *sys.argv[1:]])
    except (LowtideError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
