"""Holds what armnet writes against the JSON Schema files of docs/formats/schemas."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from scripts.pages.schemas import FOLDER, schema_of

AVAILABLE = find_spec("jsonschema") is not None


def assert_output_fits(content: Any) -> None:
    """What a command printed for ``--json`` has the keys that its schema requires, and none that it does not know."""
    command = content["command"]
    name = command.replace(" ", "-")
    path = FOLDER / f"{name}.schema.json"
    assert path.is_file(), f"armnet {command} --json has no schema: write {path}"
    assert_fits(content, name)


def assert_fits(content: Any, name: str) -> None:
    """The content fits the schema ``NAME.schema.json``, and each of its keys is described there."""
    problems = [
        f"{'/'.join(map(str, one.absolute_path))}: {one.message}" for one in _validator(name).iter_errors(content)
    ]
    assert not problems, f"docs/formats/schemas/{name}.schema.json: " + "; ".join(problems[:5])


@cache
def _validator(name: str) -> Any:
    import jsonschema
    from referencing import Registry, Resource

    known = [
        (path.name, Resource.from_contents(_strict(schema_of(path.name.partition(".")[0]))))
        for path in FOLDER.glob("*.json")
    ]
    return jsonschema.Draft202012Validator(_strict(schema_of(name)), registry=Registry().with_resources(known))


def _strict(schema: Any) -> Any:
    """The schema, by which keys that it does not describe are errors: readers ignore them, a test does not."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema:
        strict.setdefault("additionalProperties", False)
    return strict
