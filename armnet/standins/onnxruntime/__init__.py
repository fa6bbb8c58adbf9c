"""A stand-in for onnxruntime: its Python interface, with armnet's runtime behind it, on the processor.

    import armnet.standins.onnxruntime as onnxruntime

    session = onnxruntime.InferenceSession("model.onnx")
    (y,) = session.run(None, {"x": x})

Models are translated and optimised when a session is made. What armnet cannot honour is refused, or noted once in the
log. docs/standins.md lists what holds and what does not. Names are imported when they are first used.
"""

from __future__ import annotations

from armnet.standins.packages import PACKAGES
from runtime_arm.imports import lazy_names

_HOMES = {
    "binding": "IOBinding",
    "core": "OrtEpAssignedNode OrtEpAssignedSubgraph SessionIOBinding",
    "devices": "OrtDevice OrtDeviceVendorId",
    "machine": "disable_telemetry_events enable_telemetry_events get_all_providers get_available_providers "
    "get_build_info get_device get_version_string has_collective_ops preload_dlls print_debug_info "
    "set_default_logger_callback set_default_logger_severity "
    "set_default_logger_verbosity set_global_thread_pool_sizes set_seed",
    "memory": "OrtArenaCfg OrtDeviceMemoryType OrtMemoryInfo OrtMemoryInfoDeviceType create_and_register_allocator "
    "create_and_register_allocator_v2",
    "nodes": "ModelMetadata NodeArg",
    "options": "ExecutionMode ExecutionOrder GraphOptimizationLevel OrtAllocatorType OrtMemType RunOptions "
    "SessionOptions",
    "session": "InferenceSession",
    "sparse": "OrtSparseFormat SparseTensor",
    "values": "OrtValue",
}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "capi": f"{__name__}.capi",
        **{name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names.split()},
    },
)

__version__ = PACKAGES["onnxruntime"].version
__author__ = "armnet"
