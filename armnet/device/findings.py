"""What armnet doctor finds out about a machine, this one or a target, as text."""

from __future__ import annotations

from typing import Any, Dict

MATRIX = 256  # rows and columns of the matrices whose product is timed
_TELLING = {
    "neon",
    "vfpv4",
    "asimd",
    "fphp",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
    "sme",
    "sse4_2",
    "avx",
    "avx2",
    "fma",
    "avx512f",
    "avx512_vnni",
    "amx_tile",
}  # the CPU features that matter for arithmetic


def as_text(facts: Dict[str, Any]) -> str:
    """The facts of ``armnet doctor --json`` in lines; warnings come last."""
    from runtime_arm.app.display import size

    identity, condition, network = facts["identity"], facts["condition"], facts["network"]
    blas = identity["blas"]
    available = condition["available_nbytes"]
    rows = [
        ("machine", ", ".join(filter(None, [identity["model"], identity["machine"], identity["system"]]))),
        ("CPU", identity["cpu"]),
        ("features", " ".join(name for name in identity["features"] if name in _TELLING)),
        ("caches", ", ".join(f"{name} {nbytes // 1024} KiB" for name, nbytes in identity["caches"].items())),
        ("memory", size(identity["memory_nbytes"]) + (f", {size(available)} free" if available else "")),
        (
            "software",
            f"Python {identity['python']}, NumPy {identity['numpy']}, armnet {identity['armnet']}, "
            f"protobuf {identity['protobuf'] or 'none'}",
        ),
        ("BLAS", " ".join(filter(None, [blas["name"], blas["core"], blas["config"]])) if blas else "NONE"),
        ("matmul", f"{facts['gflops']:.1f} GFLOP/s (float32, {MATRIX} x {MATRIX})"),
        ("temperature", ", ".join(f"{zone} {celsius:.0f} C" for zone, celsius in condition["celsius"].items())),
    ]
    rows += [("device", _device_text(device, facts["gflops"])) for device in facts["devices"]]
    if network is not None:
        fits = "fits" if network["fits"] else "DOES NOT FIT"
        rows.append(("network", f"{fits}: needs about {size(network['needs_nbytes'])}, including Python and NumPy"))
        if network["ms"] is not None:
            rows.append(
                ("time", f"{network['ms']:.2f} ms per inference ({network['how']}, cores: {network['threads']})")
            )
    lines = [f"{name:<13}{value}" for name, value in rows if value]
    return "\n".join([*lines, *(f"WARNING      {warning}" for warning in facts["warnings"])])


def _device_text(device: Dict[str, Any], matmul: float) -> str:
    """One device in one line, and whether it may be faster."""
    from runtime_arm.app.display import size

    if device["problem"]:
        return f"{device['spec']} does not work: {device['problem']}"
    limits = f"{device['units']} units, groups of {device['group']}, {size(device['memory_nbytes'])}"
    told = f"{device['spec']} {device['name']}, {device['driver']}; {limits}; {device['gflops']:.1f} GFLOP/s"
    if device["is_cpu"]:
        return f"{told} in a convolution; this is the processor itself and does not pay"
    pays = "may pay" if device["gflops"] > matmul else "hardly pays"
    return f"{told} in a convolution; {pays}: armnet bench PAIR --device {device['spec']} measures a network"
