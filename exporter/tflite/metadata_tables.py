"""The tables of a TFLite file's metadata, a FlatBuffer with a schema of its own ("M001").

Source: TFLite Support, metadata_schema.fbs.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple, Union

from exporter.tflite.schema import declare


class One(NamedTuple):
    """A table."""

    kind: str


class Many(NamedTuple):
    """A list of tables."""

    kind: str


class Named(NamedTuple):
    """A number that stands for a name."""

    names: Tuple[str, ...]


class OneOf(NamedTuple):
    """A table of one of several kinds; the field before it says which."""

    kinds: Tuple[str, ...]


TEXT, TEXTS, FLOATS, INTS, NUMBER = "text", "texts", "floats", "ints", "number"
Kind = Union[str, One, Many, Named, OneOf]

_FILE_TYPES = Named(
    (
        "UNKNOWN",
        "DESCRIPTIONS",
        "TENSOR_AXIS_LABELS",
        "TENSOR_VALUE_LABELS",
        "TENSOR_AXIS_SCORE_CALIBRATION",
        "VOCABULARY",
        "SCANN_INDEX_FILE",
    )
)
_CONTENTS = OneOf(("NONE", "FeatureProperties", "ImageProperties", "BoundingBoxProperties", "AudioProperties"))
_OPTIONS = OneOf(
    (
        "NONE",
        "NormalizationOptions",
        "ScoreCalibrationOptions",
        "ScoreThresholdingOptions",
        "BertTokenizerOptions",
        "SentencePieceTokenizerOptions",
        "RegexTokenizerOptions",
    )
)
_FILES, _UNITS, _GROUPS = Many("AssociatedFile"), Many("ProcessUnit"), Many("TensorGroup")

# The fields of each table, in the order of their slots.
TABLES: Dict[str, Dict[str, Kind]] = {
    "ModelMetadata": {
        "name": TEXT,
        "description": TEXT,
        "version": TEXT,
        "subgraph_metadata": Many("SubGraphMetadata"),
        "author": TEXT,
        "license": TEXT,
        "associated_files": _FILES,
        "min_parser_version": TEXT,
    },
    "SubGraphMetadata": {
        "name": TEXT,
        "description": TEXT,
        "input_tensor_metadata": Many("TensorMetadata"),
        "output_tensor_metadata": Many("TensorMetadata"),
        "associated_files": _FILES,
        "input_process_units": _UNITS,
        "output_process_units": _UNITS,
        "input_tensor_groups": _GROUPS,
        "output_tensor_groups": _GROUPS,
    },
    "TensorMetadata": {
        "name": TEXT,
        "description": TEXT,
        "dimension_names": TEXTS,
        "content": One("Content"),
        "process_units": _UNITS,
        "stats": One("Stats"),
        "associated_files": _FILES,
    },
    "AssociatedFile": {"name": TEXT, "description": TEXT, "type": _FILE_TYPES, "locale": TEXT, "version": TEXT},
    "TensorGroup": {"name": TEXT, "tensor_names": TEXTS},
    "Content": {"content_properties_type": NUMBER, "content_properties": _CONTENTS, "range": One("ValueRange")},
    "ValueRange": {"min": NUMBER, "max": NUMBER},
    "Stats": {"max": FLOATS, "min": FLOATS},
    "ProcessUnit": {"options_type": NUMBER, "options": _OPTIONS},
    "FeatureProperties": {},
    "ImageProperties": {"color_space": Named(("UNKNOWN", "RGB", "GRAYSCALE")), "default_size": One("ImageSize")},
    "ImageSize": {"width": NUMBER, "height": NUMBER},
    "BoundingBoxProperties": {
        "index": INTS,
        "type": Named(("UNKNOWN", "BOUNDARIES", "UPPER_LEFT", "CENTER")),
        "coordinate_type": Named(("RATIO", "PIXEL")),
    },
    "AudioProperties": {"sample_rate": NUMBER, "channels": NUMBER},
    "NormalizationOptions": {"mean": FLOATS, "std": FLOATS},
    "ScoreCalibrationOptions": {"score_transformation": Named(("IDENTITY", "LOG", "INVERSE_LOGISTIC"))},
    "ScoreThresholdingOptions": {"global_score_threshold": NUMBER},
    "BertTokenizerOptions": {"vocab_file": _FILES},
    "SentencePieceTokenizerOptions": {"sentencePiece_model": _FILES, "vocab_file": _FILES},
    "RegexTokenizerOptions": {"delim_regex_pattern": TEXT, "vocab_file": _FILES},
}
_WIDE = {  # the dtypes of numbers that are no single byte
    "min": "<i4",
    "max": "<i4",
    "width": "<u4",
    "height": "<u4",
    "sample_rate": "<u4",
    "global_score_threshold": "<f4",
}


def declare_all() -> None:
    """Declare the tables to the reader of FlatBuffers."""
    for kind, fields in TABLES.items():
        slots: Dict[str, Any] = {
            name: (slot, _WIDE.get(name, "<u1")) if isinstance(field, Named) or field == NUMBER else slot
            for slot, (name, field) in enumerate(fields.items())
        }
        declare(kind, **slots)
