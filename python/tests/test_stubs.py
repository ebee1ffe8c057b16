"""The stub says what the extension module has: the same names, the same attributes and arguments."""

from __future__ import annotations

import ast
import re
from enum import Enum
from pathlib import Path
from typing import Dict, Set

import corun
from corun import _native

STUB = ast.parse((Path(corun.__file__).parent / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def attributes(node: ast.ClassDef) -> Set[str]:
    names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
    names |= {
        n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    names |= {
        n.targets[0].id for n in node.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    return {name for name in names if not name.startswith("__")}


def test_the_package_is_typed() -> None:
    assert (Path(corun.__file__).parent / "py.typed").exists()


def test_stub_and_module_have_the_same_names() -> None:
    functions = {node.name for node in STUB.body if isinstance(node, ast.FunctionDef)}
    assert functions | set(CLASSES) == {name for name in dir(_native) if not name.startswith("__")}


def test_the_package_has_all_of_the_module() -> None:
    module = {name for name in dir(_native) if not name.startswith("__")}
    assert module | {"Policy", "Decision", "capture", "compare", "Comparison", "figures", "write_report", "RayExecutor", "Sweep", "sweep", "Table", "table", "read_gavel", "__version__"} == set(corun.__all__)


def test_stub_and_module_have_the_same_attributes() -> None:
    for name, node in CLASSES.items():
        what = getattr(_native, name)
        members = what.__members__ if issubclass(what, Enum) else vars(what)
        has = {a for a in members if not a.startswith("__")}
        assert attributes(node) == has, name


def test_all_that_can_be_called_or_read_is_explained() -> None:
    without = []
    for name, node in {"": STUB, **CLASSES}.items():
        for what in node.body:
            if not isinstance(what, (ast.ClassDef, ast.FunctionDef)) or what.name.startswith("__"):
                continue
            setter = any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in what.decorator_list)
            if not setter and ast.get_docstring(what) is None:
                without.append(f"{name}.{what.name}")
    assert without == []


def test_stub_and_module_have_the_same_arguments() -> None:
    calls: Dict[str, ast.FunctionDef] = {n.name: n for n in STUB.body if isinstance(n, ast.FunctionDef)}
    for name, node in CLASSES.items():
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and not function.decorator_list:
                calls[f"{name}.{function.name}"] = function
    compared = 0
    for name, function in calls.items():
        target = _native
        for part in name.split("."):
            target = getattr(target, part)
        signature = re.search(r"\((.*)\)", (target.__doc__ or "").splitlines()[0] if target.__doc__ else "")
        if signature is None or name.endswith(("__hash__", "__int__")):
            continue
        has = re.findall(r"(?:^|, )(\w+):", signature.group(1))
        says = [a.arg for a in function.args.args + function.args.kwonlyargs]
        if "Overloaded" in target.__doc__:
            continue
        assert has == says, name
        compared += 1
    assert compared > 15
