"""TFLite's schema as armnet states it is that of the package ``tflite``."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import Any, Dict, List

import numpy as np
import pytest

from exporter.tflite.schema import (
    BUILTIN_OPERATORS,
    OPTIONS,
    OPTIONS_2,
    TENSOR_TYPES,
    Field,
    declare,
    fields_of,
)

tflite = pytest.importorskip("tflite", reason="the package tflite, which states the schema, is not installed")


class Recorder:
    """Takes the place of the package's builder and records the field that it is told to write."""

    field: Field

    def __getattr__(self, name: str) -> Any:
        kind = name[len("Prepend") : -len("Slot")].lower()

        def record(slot: int, value: Any, default: Any) -> None:
            dtype = None if kind == "uoffsettrelative" else np.dtype(kind).newbyteorder("<").str
            self.field = Field(slot, dtype, default)

        return record


def recorded(table: str) -> Dict[str, Field]:
    """The fields that the package writes into a table."""
    fields, prefix = {}, f"{table}Add"
    for name, add in vars(import_module(f"tflite.{table}")).items():
        if name.startswith(prefix):
            recorder = Recorder()
            add(recorder, 0)
            stem = name[len(prefix) :]
            snake = "".join(f"_{c.lower()}" if c.isupper() and at else c.lower() for at, c in enumerate(stem))
            fields[snake] = recorder.field
    return fields


def test_every_table_has_the_packages_fields() -> None:
    tables = [module.name for module in pkgutil.iter_modules(tflite.__path__) if module.name != "utils"]
    assert len(tables) > 100
    for table in tables:
        wanted = recorded(table)
        actual = fields_of(table)
        assert {name: actual.get(name) for name in wanted} == wanted, table
        for name, (_, dtype, default) in actual.items():
            assert dtype is None or isinstance(np.zeros((), dtype).item(), type(default)), (table, name)


@pytest.mark.parametrize(
    ("name", "actual"),
    [
        ("BuiltinOperator", BUILTIN_OPERATORS),
        ("BuiltinOptions", OPTIONS),
        ("BuiltinOptions2", OPTIONS_2),
        ("TensorType", TENSOR_TYPES),
    ],
)
def test_the_numbers_of_enumerations_are_the_packages(name: str, actual: List[str]) -> None:
    wanted = {key: value for key, value in vars(getattr(tflite, name)).items() if isinstance(value, int)}
    assert {key: actual.index(key) for key in wanted} == wanted


def test_tables_of_other_schemas_can_be_declared() -> None:
    declare("Declared", offset=3, number=(1, "<i2"))
    assert fields_of("Declared") == {"offset": Field(3, None, 0), "number": Field(1, "<i2", 0)}
    assert fields_of("Undeclared") == {}
