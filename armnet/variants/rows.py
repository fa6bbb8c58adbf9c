"""The rows of the table that compares two variants."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Tuple

from runtime_arm.app.display import count, size

_COSTS: Tuple[Tuple[str, str, Callable[[float], str]], ...] = (
    ("file_nbytes", "files", size),
    ("weights_nbytes", "weights", size),
    ("memory_nbytes", "memory of an inference", size),
    ("operators", "operators", str),
    ("multiply_adds", "multiply-adds", count),
    ("ms", "ms", "{:.2f}".format),
    ("cpu_ms", "CPU ms", "{:.2f}".format),
    ("instructions", "instructions", count),
)


def cost_rows(facts: Mapping[str, Any]) -> List[List[str]]:
    """What, A, B, and their ratio: accuracy, noise, costs."""
    metrics: Dict[str, Dict[str, float]] = facts["metrics"] or {"A": {}, "B": {}}
    rows = [
        [name, f"{value:.2%}", f"{metrics['B'][name]:.2%}", ""]
        for name, value in metrics["A"].items()
        if name in metrics["B"]
    ]
    if facts["agreement"] is not None:
        rows.append(["answers alike", "", f"{facts['agreement']:.2%}", ""])
    if facts["output_snr"] is not None:
        rows.append(["worst output, dB", "", f"{facts['output_snr']:.1f}", ""])
    costs = facts["costs"]
    for key, what, shown in _COSTS:
        a, b = (costs[side].get(key) for side in "AB")
        if None not in (a, b):
            rows.append([what, shown(a).strip(), shown(b).strip(), f"{b / a:.2f}" if a else ""])
    return rows
