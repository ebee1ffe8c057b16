"""The stub says what the extension module has: the same names, the same attributes and arguments, each explained."""

from __future__ import annotations

import ast
import builtins
import importlib
import re
from enum import Enum
from pathlib import Path
from typing import Dict, List, Set

import corun
from corun import _native

STUB = ast.parse((Path(corun.__file__).parent / "_native.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def assigned(node: ast.stmt) -> Set[str]:
    targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets if isinstance(node, ast.Assign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def attributes(node: ast.ClassDef) -> Set[str]:
    names = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}.union(*map(assigned, node.body))
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


def test_all_names_in_the_stub_are_defined_or_imported() -> None:
    known = set(dir(builtins)) | set(CLASSES)
    for node in STUB.body:
        if isinstance(node, ast.Import):
            for name in node.names:
                importlib.import_module(name.name)
                known.add(name.asname or name.name)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.import_module("." * node.level + (node.module or ""), "corun")
            for name in node.names:
                assert hasattr(module, name.name), name.name
                known.add(name.asname or name.name)
        elif isinstance(node, ast.FunctionDef):
            known.add(node.name)
        else:
            known.update(assigned(node))
    for node in STUB.body:  # x.setter names a property of its own class
        within = attributes(node) if isinstance(node, ast.ClassDef) else set()
        used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        assert used - known - within == set(), getattr(node, "name", ast.dump(node))


def without_a_word(name: str, body: List[ast.stmt]) -> List[str]:
    """A property explains its setter; the string right behind a variable or an enumerator is its docstring."""
    found = []
    for what, behind in zip(body, [*body[1:], ast.Pass()]):
        if isinstance(what, (ast.ClassDef, ast.FunctionDef)):
            setter = any(isinstance(d, ast.Attribute) and d.attr == "setter" for d in what.decorator_list)
            if not setter and not ast.get_docstring(what):
                found.append(f"{name}.{what.name}")
        elif assigned(what):
            said = behind.value if isinstance(behind, ast.Expr) else None
            if not (isinstance(said, ast.Constant) and isinstance(said.value, str) and said.value):
                found.extend(f"{name}.{variable}" for variable in assigned(what))
    return found


def test_all_that_can_be_called_or_read_is_explained() -> None:
    assert ast.get_docstring(STUB)
    assert [found for name, node in {"": STUB, **CLASSES}.items() for found in without_a_word(name, node.body)] == []


def test_what_is_not_explained_is_found() -> None:
    stub = ast.parse(
        "class Kind(Enum):\n    said = ...\n    'Said.'\n    bare = ...\n"
        "    number: int\n    def __init__(self) -> None: ...\n    def told(self) -> None:\n        'Told.'\n"
    )
    kind = stub.body[0]
    assert isinstance(kind, ast.ClassDef)
    assert without_a_word("", stub.body) == [".Kind"]
    assert without_a_word("Kind", kind.body) == ["Kind.bare", "Kind.number", "Kind.__init__"]


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
