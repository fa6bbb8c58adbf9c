"""``python -m runtime_arm PAIR ...``: does for a pair what a bundle does for itself."""

from __future__ import annotations

import sys

from runtime_arm.app.main import MODULE, main

if __name__ == "__main__":
    path = "" if len(sys.argv) < 2 or sys.argv[1].startswith("-") else sys.argv[1]
    sys.exit(main(path, sys.argv[2:] if path else sys.argv[1:], MODULE))
