"""A network behind ``POST /predict`` of a FastAPI program."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Dict

from fastapi import Body, FastAPI, HTTPException
from pydantic import BaseModel

import armnet


class Answer(BaseModel):
    """kind: of the result, such as classes or boxes. result: what ``to_dict`` of armnet's result returns."""

    kind: str
    result: Dict[str, Any]


def create_app(path: str) -> FastAPI:
    """The program. path: a pair, a bundle or a model's own file."""
    app, model, one_at_a_time = FastAPI(title="What is in a picture"), armnet.open(path), Lock()

    @app.post("/predict")
    def predict(picture: bytes = Body(media_type="application/octet-stream")) -> Answer:
        try:
            with one_at_a_time:
                found = model.predict(picture)
        except armnet.ArmnetError as error:
            raise HTTPException(400, str(error)) from None
        return Answer(kind=found.kind, result=found.to_dict())

    return app


if "MODEL" in os.environ:
    app = create_app(os.environ["MODEL"])
