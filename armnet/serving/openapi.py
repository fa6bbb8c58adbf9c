"""The description of the interface, OpenAPI 3.1."""

from __future__ import annotations

from typing import Any, Dict

from armnet.serving.settings import Settings
from runtime_arm.version import VERSION

_NUMBER, _STRING = {"type": "number"}, {"type": "string"}
_LABEL = {"type": ["string", "null"]}
_POINT = {"type": "array", "items": _NUMBER, "minItems": 2, "maxItems": 2}


def _object(**properties: Any) -> Dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(**properties: Any) -> Dict[str, Any]:
    return {"type": "array", "items": _object(**properties)}


_CLASS = {"label": _LABEL, "index": {"type": "integer"}, "score": _NUMBER}
_BOX = {**_CLASS, "box": {"type": "array", "items": _NUMBER, "minItems": 4, "maxItems": 4}}
RESULTS = {
    "classes": _object(scores=_STRING, classes=_list(**_CLASS)),
    "boxes": _object(boxes=_list(**_BOX, points={"type": "array", "items": _POINT})),
    "mask": _object(size=_POINT, regions=_list(label=_LABEL, index={"type": "integer"}, share=_NUMBER)),
    "keypoints": _object(points=_list(name=_STRING, point=_POINT, score=_NUMBER)),
    "image": _object(size=_POINT),
    "depth": _object(size=_POINT, min=_NUMBER, max=_NUMBER),
    "embedding": _object(vector={"type": "array", "items": _NUMBER}),
    "text": _object(text=_STRING, score=_NUMBER),
    "sound events": _object(seconds=_NUMBER, events=_list(**_CLASS, start=_NUMBER, end=_NUMBER)),
    "tensors": _object(tensors={"type": "object", "additionalProperties": {"type": "object"}}),
}  # what a result holds besides its kind


def openapi(settings: Settings, kind: str) -> Dict[str, Any]:
    """The document. kind: that of the model's results."""
    problem = {"description": "a problem, told in one line", "content": _json({"$ref": "#/components/schemas/Problem"})}
    refused = {"400": problem, "408": problem, "413": problem, "422": problem, "503": problem}
    if settings.token is not None:
        refused["401"] = problem
    predict = {
        "summary": "What the model says about a picture, a sound or arrays",
        "parameters": [
            _parameter("top", {"type": "integer", "minimum": 1}, "how many classes are listed"),
            _parameter("score", _NUMBER, "the least score that counts"),
            _parameter("overlay", {"enum": ["0", "1"]}, "1: also a picture to lay over the one that was sent"),
            _parameter("outputs", {"enum": ["0", "1"]}, "1: also the outputs of the net, as lists"),
        ],
        "requestBody": {"required": True, "content": _bodies()},
        "responses": {"200": {"description": "the answer", "content": _json(_answer(kind))}, **refused},
    }
    get = {"200": {"description": "facts", "content": _json({"type": "object"})}}
    document: Dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"armnet serve {settings.name}", "version": VERSION},
        "paths": {
            "/predict": {"post": predict},
            "/model": {"get": {"summary": "What the model takes and gives", "responses": get}},
            "/health": {"get": {"summary": "How many requests wait and were answered", "responses": get}},
        },
        "components": {
            "schemas": {
                "Problem": {**_object(error=_STRING), "required": ["error"]},
                "Result": {
                    **RESULTS[kind],
                    "properties": {"kind": {"const": kind}, **RESULTS[kind]["properties"]},
                    "required": ["kind"],
                },
            }
        },
    }
    if settings.token is not None:
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def _answer(kind: str) -> Dict[str, Any]:
    result = {"$ref": "#/components/schemas/Result"}
    properties = {
        "result": result,
        "results": {"type": "array", "items": result, "description": "instead of result, of a batch of arrays"},
        "lines": {"type": "array", "items": _STRING, "description": "the same for people"},
        "seconds": {**_NUMBER, "description": "that the model took"},
        "picture": {**_object(width=_NUMBER, height=_NUMBER), "description": "the size that coordinates refer to"},
        "overlay": {"type": ["string", "null"], "description": "a PNG, as a data URI"},
        "outputs": {"type": "object", "additionalProperties": {"type": "array"}},
    }
    return {"type": "object", "properties": properties, "required": ["lines", "seconds"]}


def _bodies() -> Dict[str, Any]:
    binary: Dict[str, Any] = {"schema": {}}
    inputs = {"type": "object", "additionalProperties": {"type": "array"}}
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    return {
        "image/*": binary,
        "audio/*": binary,
        "application/octet-stream": binary,
        "multipart/form-data": {"schema": {**_object(file=file), "required": ["file"]}},
        "application/json": {"schema": {**_object(inputs=inputs), "required": ["inputs"]}},
    }


def _json(schema: Dict[str, Any]) -> Dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _parameter(name: str, schema: Dict[str, Any], what: str) -> Dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": what}
