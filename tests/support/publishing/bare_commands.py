"""Running commands in another process, by a Python that finds certain folders and no installed package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import List, NamedTuple, Sequence

DRIVER = """
import contextlib, io, json, sys, traceback
from armnet.__main__ import main
told = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as leaving:
            status = leaving.code
        except BaseException:
            status = traceback.format_exc()
    told.append([words, status, out.getvalue(), err.getvalue()])
json.dump(told, sys.stdout)
"""


class Told(NamedTuple):
    """What a command said. status: its exit status, or the traceback of what escaped."""

    words: List[str]
    status: object
    out: str
    err: str


def bare_python(python: object, path: Sequence[object], folder: Path) -> Path:
    """An environment in ``folder`` whose packages are those of the folders of ``path``; returns its Python."""
    subprocess.run([str(python), "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python3.*/site-packages")
    (packages / "path.pth").write_text("".join(f"{entry}\n" for entry in path))
    return folder / "bin/python"


def told_by(python: Path, folder: Path, commands: Sequence[Sequence[object]]) -> List[Told]:
    """Runs commands one after the other in one process, in ``folder``."""
    environment = {"ARMNET_CACHE": str(folder / "cache"), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python), "-c", DRIVER],
        input=json.dumps([list(map(str, words)) for words in commands]),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [Told(*one) for one in json.loads(done.stdout)]
