"""``python -m device_tests.suite.memory_needs PAIR``: the bytes that a network needs on this machine, with one thread.

Prints JSON: ``weights``, the bytes of the files with the nets, and ``arena``, the bytes that the plan of an inference
needs besides. Open dimensions are 1. The bytes are planned, not measured, so they repeat exactly.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Dict


def needs(path: str) -> Dict[str, int]:
    """The bytes of the pair or the bundle at ``path``."""
    from runtime_arm import load

    files = [Path(path)] if Path(path).is_file() else sorted(Path(path).glob("*.pb"))
    with load(path, threads=1) as predictor:
        return {"weights": sum(file.stat().st_size for file in files), "arena": predictor.plan().arena_nbytes}


if __name__ == "__main__":
    print(json.dumps(needs(sys.argv[1])))
