"""What is published and what pip installs."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email import message_from_bytes
from email.message import Message

import pytest

from runtime_arm.imports import INSTALL, OURS
from runtime_arm.version import VERSION
from tests.support.paths import ROOT, tracked
from tests.support.publishing.distributions import REPOSITORY, Distributions
from tests.support.publishing.pythons import PYTHONS

FILES = f"{REPOSITORY}/blob/main/"


@pytest.fixture(scope="module")
def wheel(distributions: Distributions) -> zipfile.ZipFile:
    return zipfile.ZipFile(distributions.wheel)


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    """What an index shows of the wheel; its payload is the long description."""
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return message_from_bytes(wheel.read(name))


def test_an_index_accepts_both_and_renders_their_description(distributions: Distributions) -> None:
    pytest.importorskip("twine", reason="it checks what is published: pip install '.[publish]'")
    words = [sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_description_is_the_readme_with_links_that_lead_somewhere(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload(decode=True).decode()  # type: ignore[union-attr]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    files = [link[len(FILES) :] for link in links if link.startswith(FILES)]
    assert len(files) >= 5
    assert all(link.startswith("https://") for link in links)
    assert [name for name in files if not (ROOT / name.partition("#")[0]).exists()] == []
    assert text.replace(FILES, "").strip() == readme.strip()


def test_its_addresses(metadata: Message) -> None:
    addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert addresses == {
        "Homepage": REPOSITORY,
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{FILES}CHANGELOG.md",
    }


def test_the_version_comes_from_one_place(distributions: Distributions, metadata: Message) -> None:
    assert metadata["Version"] == VERSION
    assert distributions.wheel.name == f"armnet-{VERSION}-py3-none-any.whl"
    assert distributions.source.name == f"armnet-{VERSION}.tar.gz"
    assert VERSION not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_a_device_needs_numpy_and_nothing_else(metadata: Message) -> None:
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert needed == ["numpy>=1.19"]


def test_each_python_that_is_promised_is_a_classifier(metadata: Message) -> None:
    told = [line.rpartition(" ")[2] for line in metadata.get_all("Classifier") if " :: Python :: 3." in line]
    assert told == list(PYTHONS)
    assert metadata["Requires-Python"] == f">={PYTHONS[0]}"


def test_every_extra_that_messages_name_exists(metadata: Message) -> None:
    named = {match[1] for what in INSTALL.values() for match in [re.fullmatch(r"'armnet\[(.+)\]'", what)] if match}
    assert len(named) > 5
    assert named <= set(metadata.get_all("Provides-Extra"))


def test_the_wheel_has_these_top_level_names_and_no_others(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name}
    assert tops == set(OURS)


def test_the_wheel_holds_every_module_and_the_schema_and_no_other_module(wheel: zipfile.ZipFile) -> None:
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    wanted = {
        str(path)
        for path in tracked(*OURS)
        if path.suffix in (".py", ".proto", ".desc", ".typed", ".c", ".cl", ".html", ".css", ".js", ".sh", ".sources")
    }
    assert wanted <= packed, f"not in the wheel: {sorted(wanted - packed)}"
    modules = {name for name in packed if name.endswith(".py")}
    assert modules <= wanted, f"in the wheel alone: {sorted(modules - wanted)}"


def test_the_wheel_is_pure_python(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL")]
    assert "Root-Is-Purelib: true" in wheel.read(name).decode()


def test_the_command_starts_without_numpy() -> None:
    program = "import sys, armnet.__main__; print(sorted({'numpy', 'onnx', 'google'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pytest_finds_the_plugin(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "[pytest11]\narmnet = armnet.pytest_plugin.plugin\n" in wheel.read(name).decode()


def test_the_pytest_plugin_imports_nothing_until_it_is_used() -> None:
    program = """import sys, pytest; before = set(sys.modules)
import armnet.pytest_plugin.plugin
print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}), 'numpy' in sys.modules)"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['armnet', 'runtime_arm'] False"
