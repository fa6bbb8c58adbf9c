"""What armnet writes, held against its JSON Schema files. The fixture ``armnet`` checks every output of ``--json``."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import List

import pytest

from armnet.commands import COMMANDS
from scripts.pages.command_pages import parser_of, subcommands
from scripts.pages.schemas import FOLDER, file_of, schema_of
from tests.docs.json_schemas import assert_fits
from tests.support.commands import Armnet
from tests.support.paths import DEMO

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema checks what armnet writes")
MODEL, EXAMPLES, PICTURE = DEMO / "digits.onnx", DEMO / "held_back.npz", DEMO / "pictures/digit_7.png"


def commands_with_json() -> List[str]:
    """``run``, ``device list``, ...: every command that takes ``--json``, by its parser."""
    found = []
    for name in COMMANDS:
        parser = parser_of(name)
        for action, sub in subcommands(parser).items() or [("", parser)]:
            if "--json" in sub._option_string_actions:
                found.append(f"{name} {action}".strip())
    return found


@pytest.mark.parametrize("command", commands_with_json())
def test_every_command_that_prints_json_has_a_schema(command: str) -> None:
    name = file_of(command)
    assert name is not None, f"write docs/formats/schemas/{command.replace(' ', '-')}.schema.json"
    assert schema_of(name)["properties"]["command"] == {"const": command, "description": "the command"}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.name)
def test_schemas_are_schemas_and_describe_every_key(path: Path) -> None:
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    todo = [schema]
    while todo:
        one = todo.pop()
        todo += [value for value in one.values() if isinstance(value, dict)]
        todo += [item for value in one.values() if isinstance(value, list) for item in value if isinstance(item, dict)]
        for key, value in one["properties"].items() if isinstance(one.get("properties"), dict) else ():
            assert value.get("description") or "$ref" in value, key


@pytest.mark.parametrize(
    "words",
    [
        ["support", MODEL],
        ["export", "PAIR", "--to", "onnx", "-o", "digits.onnx"],
        ["optimize", "PAIR", "-o", "fast", "--explain", "--engines", "measure", "--threads", "1"],
        ["quantize", "PAIR", "-o", "small"],
        ["inspect", "PAIR"],
        ["run", "PAIR", PICTURE],
        ["describe", "PAIR"],
        ["evaluate", "PAIR", EXAMPLES, "--must", "top1=1"],
        ["train", "PAIR", "--data", EXAMPLES, "--epochs", "1", "-o", "trained"],
        ["diff", "PAIR", MODEL, EXAMPLES, "--runs", "1"],
        ["compare", MODEL, "PAIR", "--picture", PICTURE, "--label", "7"],
        ["profile", "PAIR", "--rounds", "1", "--why"],
        ["bench", "PAIR", "--runs", "1"],
        ["standin", "list"],
        ["keys", "new", "mine"],
        ["setup", "pi", "--list"],
        ["device", "prepare", "--key"],
        ["cache"],
        ["models"],
        ["doctor"],
        ["device", "list"],
        ["device", "run", "local", "PAIR", "--input", PICTURE],
        ["device", "bench", "local", "PAIR", "--runs", "1"],
    ],
    ids=lambda words: "-".join(str(word) for word in words[:2] if "/" not in str(word) and word != "PAIR"),
)
def test_what_a_command_prints_fits_its_schema(
    words: List[object], armnet: Armnet, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("onnx", "onnxruntime", "PIL"):
        pytest.importorskip(package, reason=f"the commands need {package}")
    if words[0] == "keys":
        pytest.importorskip("cryptography", reason="the package cryptography makes keys")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    status, out, err = armnet(*(digits if word == "PAIR" else word for word in words), "--json")
    assert status in (0, 1), err
    assert json.loads(out)["command"].split()[0] == words[0]
    if words[0] == "optimize":
        assert_fits(json.loads((tmp_path / "fast/tuning.json").read_text()), "tuning")


def test_the_files_of_a_pair_and_a_bundle_fit_their_schemas(armnet: Armnet, digits: Path, tmp_path: Path) -> None:
    assert_fits(json.loads((digits / "model.json").read_text()), "model")
    assert armnet("pack", digits, "-o", tmp_path / "digits.pyz", "--json")[0] == 0
    with zipfile.ZipFile(tmp_path / "digits.pyz") as bundle:
        assert_fits(json.loads(bundle.read("MANIFEST.json")), "manifest")


def test_a_key_that_no_schema_knows_is_noticed() -> None:
    with pytest.raises(AssertionError, match=r"pack\.schema\.json: .*'extra' was unexpected"):
        assert_fits(
            {"schema": 1, "command": "pack", "bundle": "a.pyz", "nbytes": 1, "signed_by": None, "extra": 0}, "pack"
        )
    with pytest.raises(AssertionError, match="'signed_by' is a required property"):
        assert_fits({"schema": 1, "command": "pack", "bundle": "a.pyz"}, "pack")
