"""MetadataDisplayer: what a .tflite file says about its inputs and outputs, and the files packed with it."""

from __future__ import annotations

import json
import os
from typing import List

from armnet.standins.notes import Standin
from exporter.tflite.described import described, packed_files
from exporter.tflite.metadata import NAME
from exporter.tflite.reader import TfliteFile, open_tflite
from runtime_arm.errors import ArmnetError
from runtime_arm.files import AnyPath


class MetadataDisplayer(Standin):
    """``MetadataDisplayer.with_model_file("model.tflite").get_metadata_json()``."""

    _package = "tflite_support"

    def __init__(self, file: TfliteFile):
        self._file = file
        self._packed = packed_files(file)

    @classmethod
    def with_model_file(cls, model_file: AnyPath) -> MetadataDisplayer:
        """The metadata of a file. OSError if there is no such file, ValueError if it has no metadata."""
        if not os.path.isfile(model_file):
            raise OSError(f"File, '{os.fspath(model_file)}', does not exist.")
        return cls._checked(model_file)

    @classmethod
    def with_model_buffer(cls, model_buffer: bytes) -> MetadataDisplayer:
        """The same of a model's content."""
        if not model_buffer:
            raise ValueError("model_buffer cannot be empty.")
        return cls._checked(bytes(model_buffer))

    @classmethod
    def _checked(cls, model: AnyPath | bytes) -> MetadataDisplayer:
        try:
            file = open_tflite(model)
        except ArmnetError as error:
            raise ValueError(str(error)) from error
        if NAME not in file.metadata:
            raise ValueError("The model does not have metadata.")
        return cls(file)

    def get_metadata_buffer(self) -> bytes:
        """The metadata as it stands in the file, a FlatBuffer."""
        return bytes(self._file.metadata[NAME])

    def get_metadata_json(self) -> str:
        """The metadata as JSON. ValueError if it is damaged."""
        try:
            return json.dumps(described(self._file), indent=2)
        except ArmnetError as error:
            raise ValueError(str(error)) from error

    def get_packed_associated_file_list(self) -> List[str]:
        """The names of the packed files."""
        return list(self._packed)

    def get_associated_file_buffer(self, filename: str) -> bytes:
        """The content of a packed file. ValueError if there is none of this name."""
        if filename not in self._packed:
            raise ValueError(f"The file, {filename}, does not exist in the model; there are {list(self._packed)}")
        return self._packed[filename]
