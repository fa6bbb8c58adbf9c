"""A network behind ``POST /predict`` of a Flask program."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Tuple

from flask import Flask, jsonify, request

import armnet

MOST_BYTES = 20_000_000


def create_app(path: str) -> Flask:
    """The program. path: a pair, a bundle or a model's own file."""
    app, model, one_at_a_time = Flask(__name__), armnet.open(path), Lock()
    app.config["MAX_CONTENT_LENGTH"] = MOST_BYTES

    @app.post("/predict")
    def predict() -> Any:
        picture = request.get_data()
        with one_at_a_time:
            return jsonify(model.predict(picture).to_dict())

    @app.errorhandler(armnet.ArmnetError)
    def refused(error: armnet.ArmnetError) -> Tuple[Any, int]:
        return jsonify({"error": str(error)}), 400

    return app


if "MODEL" in os.environ:
    app = create_app(os.environ["MODEL"])
