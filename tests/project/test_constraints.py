"""constraints.txt and the Dockerfile agree with pyproject.toml and with the README."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import tomllib
from importlib import metadata
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from paths import ROOT
from source_files import package_sources

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that writes constraints.txt."""
    spec = importlib.util.spec_from_file_location("constraints", ROOT / ".ci/constraints.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed() -> dict[str, str]:
    """Version by name, as the file has them."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return dict(pairs)


def violations(requirements: list[Requirement], versions: dict[str, str]) -> list[str]:
    """Requirements that the listed versions do not satisfy."""
    return [
        f"{requirement}: {versions.get(canonicalize_name(requirement.name), 'not listed')}"
        for requirement in requirements
        if not (
            (version := versions.get(canonicalize_name(requirement.name)))
            and requirement.specifier.contains(version)
        )
    ]


# --- constraints --------------------------------------------------------------------------


def test_every_requirement_has_its_version(script: ModuleType) -> None:
    requirements = script.declared()
    assert len(requirements) > len(PROJECT["dependencies"])
    assert violations(requirements, listed()) == [], "run make constraints"


def as_listed() -> list[str]:
    """Names of the libraries that are installed here with the version in the list."""
    return [name for name, number in listed().items() if installed(name) == number]


def installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def test_what_libraries_need_has_its_version(script: ModuleType) -> None:
    """The requirements of the libraries that are installed here in their listed versions are met."""
    needed = {canonicalize_name(n.name) for name in as_listed() for n in script.needed(Requirement(name))}
    assert sorted(needed - set(listed())) == [], "run make constraints"


def test_nothing_is_listed_that_nobody_needs(script: ModuleType) -> None:
    """Markers are ignored, because another Python may need other libraries."""
    if len(as_listed()) < len(listed()):
        pytest.skip("other versions are installed here, which may need other libraries")
    texts = [text for name in listed() for text in metadata.requires(name) or []]
    wanted = {canonicalize_name(need.name) for need in [*script.declared(), *map(Requirement, texts)]}
    assert sorted(set(listed()) - wanted) == [], "run make constraints"


def test_the_oldest_versions_are_those_that_are_allowed(script: ModuleType) -> None:
    """Each lower bound of pyproject.toml has one line, and so does each library of tx8; they satisfy its
    requirement."""
    text = (ROOT / "oldest.txt").read_text(encoding="utf-8")
    assert text == script.OLDEST_HEAD + script.listing(script.oldest()), "run .ci/constraints.py --oldest"
    requirements = [Requirement(text) for text in PROJECT["dependencies"]]
    assert violations(requirements, script.oldest()) == []
    assert all(str(each.specifier) for each in requirements), "every library has a range"


def test_the_file_is_sorted_and_names_are_canonical() -> None:
    names = list(listed())
    assert names == sorted(names)
    assert names == [canonicalize_name(name) for name in names]


def test_make_installs_with_constraints_on_request() -> None:
    """The same holds in a test run that make has begun with constraints, which are in its environment."""
    own = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "CONSTRAINTS"))
    }
    for given, expected in (["CONSTRAINTS=constraints.txt"], 1), ([], 0):
        command = ["make", "--dry-run", "--always-make", "demo", *given]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env=own)
        assert run.stdout.count("install -c constraints.txt -e .") == expected


def test_violations_are_seen() -> None:
    wanted = [Requirement("numpy>=2.1"), Requirement("Lark>=1.2"), Requirement("absent")]
    found = violations(wanted, {"numpy": "2.0.2", "lark": "1.3.0"})
    assert found == ["numpy>=2.1: 2.0.2", "absent: not listed"]


@pytest.mark.parametrize("name", ["torch", "jax", "tf2onnx", "triton", "z3-solver"])
def test_what_only_some_readers_need_is_left_out(name: str, script: ModuleType) -> None:
    assert name not in listed()
    assert name not in {requirement.name for requirement in script.declared()}


def test_markers_and_extras_are_followed(script: ModuleType) -> None:
    assert script.applies(Requirement("a"), [])
    assert not script.applies(Requirement("a; sys_platform == 'win32'"), [])
    assert not script.applies(Requirement("a; extra == 'pdf'"), [])
    assert script.applies(Requirement("a; extra == 'pdf'"), ["pdf"])


def test_a_library_that_is_not_installed_is_named(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "declared", lambda: [Requirement("no-such-library>=1")])
    assert script.main(["--print"]) == 1
    assert capsys.readouterr().err.startswith("constraints.py: no-such-library is not installed: pip install")


def test_what_is_printed_is_a_file_of_constraints(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "reached", lambda: {"a": "1", "b": "2.0"})
    assert script.main(["--print"]) == 0
    assert capsys.readouterr().out == script.HEAD + "a==1\nb==2.0\n"


# --- Python versions and the container ----------------------------------------------------


def minor_versions() -> list[str]:
    """The versions of Python in the classifiers."""
    found = [
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", text) for text in PROJECT["classifiers"]
    ]
    return [match[1] for match in found if match]


def test_the_versions_of_python_are_the_same_everywhere() -> None:
    versions = minor_versions()
    assert versions == [f"3.{minor}" for minor in range(11, 11 + len(versions))], "one after another"
    assert SpecifierSet(PROJECT["requires-python"]) == SpecifierSet(f">={versions[0]}")
    assert f"Python {', '.join(versions[:-1])} or {versions[-1]}" in README
    assert re.findall(r"^FROM python:(3\.\d+)-slim$", DOCKERFILE, re.MULTILINE) == [versions[-1]]


def test_the_container_installs_as_the_readme_says() -> None:
    (command,) = re.findall(r"^ +(pip install -c \S+ \.)$", README, re.MULTILINE)
    assert command.replace("install", "install --no-cache-dir") in DOCKERFILE
    for line in re.findall(r"^#     (docker .*)$", DOCKERFILE, re.MULTILINE):
        assert line in README


def test_the_container_runs_commands_that_exist() -> None:
    (shown,) = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert shown == '["python", "-m", "tx8"]'
    for tool in re.findall(r"\btx8(?:as|dis|emu|cc|opt)\b", DOCKERFILE):
        assert tool in PROJECT["scripts"]


def test_the_container_leaves_out_what_is_built() -> None:
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "build", "dist"} <= set(left_out)
    assert not {"docs", "examples", "constraints.txt", "setup.py"} & set(left_out)


def test_no_advice_names_a_package_that_is_not_there() -> None:
    """tx8 is in no package index, so the libraries of an extra are named themselves."""
    texts = dict(package_sources())
    texts |= {str(path): path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
    assert [path for path, text in texts.items() if re.search(r"pip install ['\"]?tx8", text)] == []
