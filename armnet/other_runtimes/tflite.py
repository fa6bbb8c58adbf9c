"""LiteRT or tflite-runtime as another runtime to compare with."""

from __future__ import annotations

from typing import Any, Callable, List, Mapping

from armnet.other_runtimes.original import Original
from armnet.other_runtimes.runtime import OtherRuntime, in_order
from runtime_arm.errors import ExportError, first_line
from runtime_arm.netdef import Array


def ready(original: Original, feeds: Mapping[str, Array], threads: int) -> OtherRuntime:
    """LiteRT, or the tflite-runtime that Raspberry Pis carry, with their default kernels."""
    from exporter.tflite.original_run import tflite_runtime

    module, name = tflite_runtime()
    where, model = original.tflite()

    def interpreter(**options: Any) -> Callable[[], List[Array]]:
        made = module.Interpreter(model_content=model, num_threads=threads, **options)
        made.allocate_tensors()
        for tensor, value in zip(made.get_input_details(), feeds.values()):
            made.set_tensor(tensor["index"], in_order(value, tuple(tensor["shape"])))
        outputs = [tensor["index"] for tensor in made.get_output_details()]

        def infer() -> List[Array]:
            made.invoke()
            return [made.get_tensor(index) for index in outputs]

        return infer

    try:
        infer = interpreter()
        infer()
    except (ValueError, RuntimeError) as error:
        raise ExportError(f"{name} refuses {where}: {first_line(error)}") from error
    return OtherRuntime(
        name, where, infer, lambda: interpreter(experimental_op_resolver_type=module.OpResolverType.BUILTIN_REF)()
    )
