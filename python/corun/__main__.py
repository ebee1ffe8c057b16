"""The command `sim` of this package: `sim ...`, `corun ...` or `python -m corun ...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the command; its pages are made by this Python."""
    command = Path(__file__).parent / "bin" / "sim"
    if not command.exists():  # a build folder: build/python/corun beside build/bin
        command = Path(__file__).absolute().parent.parent.parent / "bin" / "sim"
    if not command.exists():
        sys.exit("corun: this installation has no command, only the module\n  remedy: pip install the wheel")
    os.environ.setdefault("CORUN_PYTHON", sys.executable)
    os.execv(command, ["sim", *sys.argv[1:]])


if __name__ == "__main__":
    main()
