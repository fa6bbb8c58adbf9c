"""The first process of an emulated computer: mounts what programs expect, runs one program, switches the machine off.

It runs on that computer with only the standard library. /task.json says what to run. All output goes to the console;
its last line gives the exit status.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path

POWER_OFF = 0x4321FEDC  # reboot(2)
MOUNTS = {"/proc": "proc", "/sys": "sysfs", "/dev": "devtmpfs", "/dev/shm": "tmpfs", "/tmp": "tmpfs"}


def die_first_for_lack_of_memory() -> None:
    Path("/proc/self/oom_score_adj").write_text("1000")


def main() -> None:
    """Never returns: Linux panics when its first process ends."""
    libc = ctypes.CDLL(None)
    for folder, kind in MOUNTS.items():
        os.makedirs(folder, exist_ok=True)
        libc.mount(kind.encode(), folder.encode(), kind.encode(), 0, None)
    task = json.loads(Path("/task.json").read_text())
    done = subprocess.run(
        ["/usr/bin/python3", *task["arguments"]],
        env=task["environment"],
        cwd=task["directory"],
        check=False,
        preexec_fn=die_first_for_lack_of_memory,
    )
    print(f"\n{task['end_mark']} {done.returncode}", flush=True)
    libc.reboot(POWER_OFF)


if __name__ == "__main__":
    if os.getpid() != 1:  # anywhere else these mounts would hide what lies below them
        raise SystemExit("this is the first process of an emulated computer; it cannot run anywhere else")
    main()
