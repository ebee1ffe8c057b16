"""The command `sim` of this package: `sim ...`, `corun ...` or `python -m corun ...`."""

from __future__ import annotations

import os
import sys

from corun._command import find


def main() -> None:
    """Becomes the command; its pages are made by this Python."""
    command = find("sim")
    if command is None:
        sys.exit("corun: this installation has no command, only the module\n  remedy: pip install the wheel")
    os.environ.setdefault("CORUN_PYTHON", sys.executable)
    os.execv(command, ["sim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
