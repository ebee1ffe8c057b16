"""Captures what a part of this process does on an NVIDIA GPU, as `sim capture` does with a whole program."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Union

from ._command import find
from ._native import InputError


@contextmanager
def capture(path: Union[str, Path], *, name: str = "", gpu: str = "") -> Iterator[None]:
    """Records the kernels, copies, calls and events of the body, and writes them to `path` as a trace when it ends.

    A request is what repeats in the body, else all of it; notes on standard error say which. NVTX ranges are not seen
    here: use `sim capture --range` with the whole program. name: of the program; "": the file's. gpu: its description;
    "": found by the card's name. Nothing is written if the body raises. CUPTI serves one at a time: not within
    torch.profiler.

    Raises InputError where CUPTI cannot be used or nothing ran on the GPU, RuntimeError where this installation has no
    library for captures (it was built without the CUDA Toolkit).
    """
    library, command = find("libcorun_capture.so"), find("sim")
    if library is None or command is None:
        raise RuntimeError("this installation cannot capture: it was built without the CUDA Toolkit")
    injected = ctypes.CDLL(str(library))
    with tempfile.TemporaryDirectory() as folder:
        injected.corun_capture_start(folder.encode())  # where it cannot, the folder says why
        try:
            yield
        finally:
            injected.corun_capture_stop()
        options = ["--name", name or Path(path).name.split(".")[0]] + (["--gpu", gpu] if gpu else [])
        ran = subprocess.run([str(command), "import", "capture", folder, "-o", str(path), *options], stderr=subprocess.PIPE, text=True)
        if ran.returncode != 0:
            error = InputError(ran.stderr.strip())
            error.file, error.place, error.problem, error.remedy = str(path), "", ran.stderr.strip(), ""
            raise error
        print(ran.stderr, end="", file=sys.stderr)
