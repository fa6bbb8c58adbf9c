"""The JSON Schema files of docs/formats/schemas as tables: one row per key, with its type and meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

FOLDER = Path(__file__).resolve().parents[2] / "docs/formats/schemas"
EVERYWHERE = ("schema", "command")  # keys of every output, which a command's own table leaves out
_WORDS = {"integer": "number", "number": "number", "string": "text", "boolean": "true or false", "array": "list"}


def schema_of(name: str) -> Dict[str, Any]:
    """The schema of a file ``NAME.schema.json``."""
    content: Dict[str, Any] = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return content


def file_of(command: str) -> Optional[str]:
    """The name of the schema of ``armnet COMMAND --json``, such as ``device-run``; None if there is none."""
    name = command.replace(" ", "-")
    return name if (FOLDER / f"{name}.schema.json").is_file() else None


def list_of_commands() -> str:
    """Links to the schemas of all commands."""
    names = sorted(path.name for path in FOLDER.glob("*.json"))
    outputs = [name for name in names if "command" in schema_of(name.partition(".")[0]).get("properties", {})]
    return "\n".join(f"- [{name}](schemas/{name})" for name in outputs)


def table(name: str, without: Tuple[str, ...] = ()) -> str:
    """The keys of a schema as a table in Markdown, with those of objects inside it: ``operators[].type``."""
    schema = schema_of(name)
    rows = [row for one in schema.get("oneOf", [schema]) for row in _rows(one, "", schema, without)]
    return "\n".join(["| key | type | meaning |", "|---|---|---|", *rows])


def _rows(
    schema: Mapping[str, Any], before: str, whole: Mapping[str, Any], without: Tuple[str, ...] = ()
) -> Iterator[str]:
    required = schema.get("required", [])
    for key, value in schema.get("properties", {}).items():
        if not before and key in without:
            continue
        path = f"{before}{key}"
        meaning = value.get("description", "what the network finds")  # the one that refers to another file
        if "const" in value:
            meaning = f"`{json.dumps(value['const'])}`: {meaning}"
        often = "" if key in required else "; not always there"
        yield f"| `{path}` | {_type(value)} | {meaning}{often} |"
        yield from _inside(value, path, whole)


def _inside(value: Mapping[str, Any], path: str, whole: Mapping[str, Any]) -> Iterator[str]:
    """The rows of objects in a value: in itself, in its list, or behind its names."""
    value = _referred(value, whole)
    if "properties" in value:
        yield from _rows(value, f"{path}.", whole)
    items, named = value.get("items"), value.get("additionalProperties")
    if isinstance(items, dict):
        yield from _inside(items, f"{path}[]", whole)
    if isinstance(named, dict):
        yield from _inside(named, f"{path}.*", whole)


def _referred(value: Mapping[str, Any], whole: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = value.get("$ref", "")
    if reference.startswith("#/$defs/"):
        found: Mapping[str, Any] = whole["$defs"][reference.rpartition("/")[2]]
        return found
    return value


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value and not value["$ref"].startswith("#"):
        return "[a result](../formats/json.md#results)"
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "const" in value:
        return _WORDS["string" if isinstance(value["const"], str) else "number"]
    given = value.get("type", "")
    kinds: List[str] = [given] if isinstance(given, str) else list(given)
    words = [_object(value) if kind == "object" else _WORDS.get(kind, kind) for kind in kinds if kind]
    return " or ".join(dict.fromkeys(words)) or "anything"


def _object(value: Mapping[str, Any]) -> str:
    return "object by name" if isinstance(value.get("additionalProperties"), dict) else "object"
