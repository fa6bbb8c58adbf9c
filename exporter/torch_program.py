"""PyTorch modules and exported programs, through PyTorch's own ONNX exporter; torch is imported only when needed."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional, Tuple

from runtime_arm.errors import ExportError, UsageError
from runtime_arm.imports import needed_for

if TYPE_CHECKING:
    from onnx import ModelProto


def is_torch(source: Any) -> bool:
    """Whether the source is a torch.nn.Module or a torch.export.ExportedProgram. Does not import torch."""
    bases = {f"{base.__module__}.{base.__name__}" for base in type(source).__mro__}
    return not bases.isdisjoint(
        {"torch.nn.modules.module.Module", "torch.export.exported_program.ExportedProgram"},
    )


def onnx_of_torch(source: Any, *example: Any) -> ModelProto:
    """The ONNX model of a module in evaluation mode, or of an exported program.

    example: the inputs of a module, as one tensor or as a tuple of tensors; a program has its own. The first dimension
    of every input of a module stays open where the module allows it. UsageError if a module has no example or a program
    is given one; ExportError with PyTorch's reason.
    """
    with needed_for("exporting PyTorch modules"):
        import onnxscript  # noqa: F401 (PyTorch's exporter needs it, but checks only half way)
        import torch
    is_module = isinstance(source, torch.nn.Module)
    if is_module and len(example) != 1:
        raise UsageError("a PyTorch module needs an example of its inputs: export(module, torch.zeros(1, 3, 224, 224))")
    if not is_module and example:
        raise UsageError("an exported program has its own example; give only the program")
    inputs: Tuple[Any, ...] = (example[0] if isinstance(example[0], tuple) else (example[0],)) if is_module else ()
    options = {"dynamic_shapes": _open_batch(torch, inputs)} if is_module else {}
    training = is_module and source.training
    try:
        if is_module:
            source.eval()
        program = torch.onnx.export(source, inputs, dynamo=True, verbose=False, **options)
    except Exception as error:  # errors of the exporter and of the module can be of any type
        raise ExportError(f"PyTorch cannot export {type(source).__name__}: {_cause(error)}") from error
    finally:
        if training:
            source.train()
    model: ModelProto = program.model_proto
    return model


def onnx_of_file(path: Path) -> Optional[ModelProto]:
    """The ONNX model of a .pt2 file; None if PyTorch is not installed. Pickles in it are not opened.

    ExportError, naming the file, if PyTorch cannot read it.
    """
    try:
        import torch
    except ImportError:
        return None
    try:
        with _without_pickles(torch):
            program = torch.export.load(os.fspath(path))
    except Exception as error:  # of any type
        raise ExportError(f"{path}: PyTorch cannot read it: {_cause(error)}") from error
    return onnx_of_torch(program)


@contextmanager
def _without_pickles(torch: Any) -> Iterator[None]:
    """Inside the block, torch.load reads only weights: a pickle runs any code that its author put into it."""
    load = torch.load

    def careful(*args: Any, **options: Any) -> Any:
        return load(*args, **{**options, "weights_only": True})

    torch.load = careful
    try:
        yield
    finally:
        torch.load = load


def _open_batch(torch: Any, inputs: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """PyTorch's ``dynamic_shapes``: the first dimension of each input may be open."""
    auto = torch.export.Dim.AUTO
    return tuple({0: auto} if isinstance(one, torch.Tensor) and one.ndim else None for one in inputs)


def _cause(error: BaseException) -> str:
    """The first line of the innermost error's message."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
