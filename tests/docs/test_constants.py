"""Every number that decides a result is known by what gives it, and those that nothing gives become fewer."""

from __future__ import annotations

import importlib.util
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("constants", ROOT / "experiments/constants.py")
assert SPEC is not None and SPEC.loader is not None
constants: Any = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(constants)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """What the script reads, to be changed."""
    for folder in constants.FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for name in ("policies", "hw"):
        (tmp_path / name).mkdir()
        shutil.copy(ROOT / name / "DECISIONS.md", tmp_path / name)
    (tmp_path / "traces/gpus").mkdir(parents=True)
    shutil.copy(ROOT / constants.CARD, tmp_path / constants.CARD)
    (tmp_path / "traces/timeline").symlink_to(ROOT / "traces/timeline")
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    return tmp_path


def judged(root: Path = ROOT) -> int:
    return sum(c.kind == "judged" for c in [*constants.of_code(str(root)), *constants.of_card(str(root))])


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_judged_constants_become_fewer() -> None:
    """A known gap, at its size: 15 are wanted.  Of fewer, both bounds and docs/model.md are to say so."""
    assert 138 <= judged() <= 141
    page = (ROOT / "docs/model.md").read_text(encoding="utf-8")
    said = re.search(r"table of statistics gives: (\d+) constants", page)
    assert said and int(said[1]) == judged()


def test_a_constant_of_unknown_kind_is_named_with_its_place_and_what_to_do(copy: Path, capsys: Any) -> None:
    assert constants.main(["--judged", "--root", str(copy)]) == 0
    change(copy / "sim/stages/wdu.h", "namespace corun::sim {\n", "namespace corun::sim {\nconstexpr double kNew = 0.7, kOther{3};\n")
    capsys.readouterr()
    assert constants.main(["--root", str(copy)]) == 2
    said = capsys.readouterr()
    assert re.match(r"sim/stages/wdu\.h:\d+: of kNew = 0\.7 nothing .* NAMED of .*constants\.py\n", said.err) and not said.out


def test_a_constant_that_is_gone_is_named(copy: Path, capsys: Any) -> None:
    change(copy / "sim/model/kernel_model.cpp", "constexpr double kTogether", "const double kTogether")
    assert constants.main(["--root", str(copy)]) == 2
    assert "sim/model/kernel_model.cpp: there is no constexpr kTogether" in capsys.readouterr().err


def test_a_measurement_and_a_decision_are_there(copy: Path, monkeypatch: Any, capsys: Any) -> None:
    table = constants.NAMED
    for old, new, said in (("experiments/h200/clock\n", "experiments/h200/no_clock\n", "measured where?"),
                           ("decision 316", "decision 99316", "no decision 99316")):
        monkeypatch.setattr(constants, "NAMED", table.replace(old, new, 1))
        assert constants.main(["--root", str(copy)]) == 2
        assert said in capsys.readouterr().err


def test_a_number_in_an_expression_is_judged_and_a_comment_is_none(copy: Path) -> None:
    file = copy / "sim/model/kernel_prior.cpp"
    before = judged(copy)
    change(file, "const double busy =", "// 0.35 of it\n  const double busy =")
    assert judged(copy) == before
    change(file, "const double busy =", "const double busy = 0.35 *")
    assert judged(copy) == before + 1
    change(file, "const double busy =", "for (const double x : {0.3, 0.4, 0.5}) use(x);\n  const double busy =")
    assert judged(copy) == before + 2


def test_a_judged_value_of_the_card_counts(copy: Path) -> None:
    before = judged(copy)
    change(copy / constants.CARD, '"source": "measured 2026-11-21 on an NVIDIA H200 (driver 580.159.04, CUDA 13.0): pinned memory, each way"',
           '"source": "judged from what copies take"')
    assert judged(copy) == before + 1


def test_a_table_that_a_script_wrote_is_one_constant_with_its_columns() -> None:
    tables = {c.name: c for c in constants.of_code(constants.ROOT) if c.kind == "generated"}
    assert tables["kIntervals"].value == "6 x 2 x 3 x 4; columns low, high"
    classes = re.fullmatch(r"(\d+) classes; columns instructions, l2, .*, networks", tables["kPriors"].value)
    assert classes and int(classes[1]) <= 20
    assert (ROOT / tables["kPriors"].why).is_file()
