"""``python -m runtime_arm PAIR ...``: what a bundle does, for a pair's folder."""

from __future__ import annotations

import sys

from runtime_arm.app.main import main

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(
            "usage: python -m runtime_arm PAIR [FILE ...] [--self-test | --bench [RUNS] | --info] [--help]",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(main(sys.argv[1], sys.argv[2:], "runtime_arm"))
