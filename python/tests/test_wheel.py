"""The check of a wheel: what it reads in what auditwheel says, and what it refuses."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "packaging/check_wheel.py"
spec = importlib.util.spec_from_file_location("check_wheel", FILE)
assert spec is not None and spec.loader is not None
check_wheel: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(check_wheel)


def said(tag: str) -> str:
    """As auditwheel 6.8 breaks its lines."""
    return f'\ncorun-0.1.0-cp311-cp311-{tag}.whl is consistent with\nthe following platform tag: "{tag}".\n\nThe wheel references\n'


@pytest.mark.parametrize(
    "tag, status",
    [("manylinux_2_35_x86_64", 0), ("manylinux_2_36_x86_64", 0), ("manylinux_2_37_x86_64", 1), ("linux_x86_64", 1)],
)
def test_a_wheel_is_refused_for_a_newer_glibc_or_a_library_that_is_not_everywhere(
    tag: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_wheel.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess(a, 0, said(tag), ""))
    assert check_wheel.main(["36", "a.whl"]) == status


def test_what_auditwheel_never_said_is_no_pass() -> None:
    with pytest.raises(ValueError, match="no platform tag"):
        check_wheel.glibc_of("nothing")
