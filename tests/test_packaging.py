"""What the repository promises about itself: its metadata, its lock, its verbs, its sizes."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import vllm_observe

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MODULES = sorted((ROOT / "vllm_observe").rglob("*.py"))


def locked() -> list[Requirement]:
    """What requirements/dev.txt pins; a package may stand there once for old and once for new Pythons."""
    text = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([a-z0-9][^\\\n]*)", text, re.MULTILINE)
    return [Requirement(pin) for pin in pins]


def declared() -> list[Requirement]:
    groups = PROJECT["dependency-groups"]
    named = [entry for group in groups.values() for entry in group if isinstance(entry, str)]
    return [Requirement(text) for text in (*PROJECT["project"]["dependencies"], *named)]


@pytest.mark.parametrize("wanted", declared(), ids=lambda wanted: wanted.name)
def test_the_lock_pins_a_version_that_the_project_accepts(wanted):
    versions = [
        next(iter(pin.specifier)).version
        for pin in locked()
        if canonicalize_name(pin.name) == canonicalize_name(wanted.name)
    ]
    assert versions
    assert all(wanted.specifier.contains(version) for version in versions)


def test_the_lock_names_no_place_of_the_machine_that_wrote_it():
    for lock in (ROOT / "requirements").glob("*.txt"):
        text = lock.read_text(encoding="utf-8")
        assert not re.search(r"file:|://|@ |--(find-links|(extra-)?index-url)", text), lock.name


def test_runtime_dependencies_have_lower_bounds_alone():
    for text in PROJECT["project"]["dependencies"]:
        assert [bound.operator for bound in Requirement(text).specifier] == [">="], text


def test_the_installed_version_is_the_packages_own():
    assert importlib.metadata.version("vllm-observe") == vllm_observe.__version__


def test_every_ignored_rule_of_the_linter_says_why():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ignored = re.findall(r'^ *"[A-Z]+[0-9]*",.*$', text, re.MULTILINE)
    assert len(ignored) >= len(PROJECT["tool"]["ruff"]["lint"]["ignore"])
    assert [line for line in ignored if "# " not in line] == []


def test_every_part_of_the_package_has_its_layer():
    (layers,) = (
        contract["layers"]
        for contract in PROJECT["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    )
    named = {part for layer in layers for part in re.split(r"\s*[|:]\s*", layer)}
    parts = {
        f"vllm_observe.{path.stem}"
        for path in (ROOT / "vllm_observe").iterdir()
        if (path.suffix == ".py" and not path.stem.startswith("__")) or (path / "__init__.py").exists()
    }
    assert parts - named == set()


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(ROOT)))
def test_a_module_has_at_most_450_lines(module):
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 450


def modules_loaded_by(statement: str) -> set[str]:
    program = f"{statement}; import sys; print(*sys.modules)"
    listed = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return {name.partition(".")[0] for name in listed.stdout.split()}


def test_importing_the_package_loads_nothing_but_the_package():
    bare = modules_loaded_by("pass")
    assert modules_loaded_by("import vllm_observe") - bare == {"vllm_observe"}


def test_the_command_line_loads_what_is_heavy_only_inside_a_command():
    heavy = {"grafanalib", "pydantic", "pydantic_settings", "requests", "starlette", "uvicorn", "yaml"}
    assert modules_loaded_by("import vllm_observe.cli") & heavy == set()


def test_the_scripts_that_make_an_environment_need_none():
    for script in ("real_vllm.py", "tiny_model.py"):
        tree = ast.parse((ROOT / "scripts" / script).read_text(encoding="utf-8"))
        imported = {
            name.partition(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            )
        }
        assert imported - sys.stdlib_module_names == {"tiny_model"} - {Path(script).stem}, script


def verbs() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))


def test_make_help_lists_every_verb():
    shown = subprocess.run(["make", "help"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert set(re.findall(r"^ *make ([a-z-]+)", shown, re.MULTILINE)) == verbs()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", ".ci/run"])
def test_every_make_command_on_a_page_exists(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"(?:`|^ *)make ([a-z-]+)", text, re.MULTILINE)) <= verbs()


def test_ci_runs_the_readmes_test_command_and_the_real_vllm():
    steps = re.search(r"steps=\(([a-z -]+)\)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert steps[1].split() == ["lint", "test", "test-vllm"]


def test_the_wheel_holds_the_package_its_types_and_its_command(tmp_path):
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert "vllm-observe = vllm_observe.cli:main" in archive.read(entry_points).decode()
    assert {str(module.relative_to(ROOT)) for module in MODULES} <= names
    assert "vllm_observe/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"vllm_observe"}
