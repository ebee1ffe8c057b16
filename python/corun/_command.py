"""Where the command and the library of captures are: in the wheel, or in a build folder beside the module."""

from __future__ import annotations

from pathlib import Path
from typing import Optional


def find(name: str) -> Optional[Path]:
    here = Path(__file__).absolute().parent
    for folder in (here / "bin", here.parent.parent / "bin"):  # the second: build/python/corun beside build/bin
        if (folder / name).exists():
            return folder / name
    return None
