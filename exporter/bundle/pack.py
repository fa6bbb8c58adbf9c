"""Writes bundles, applications in a single file. ``runtime_arm.pair.bundle`` explains what is inside, and why."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Mapping, Optional

import numpy as np

from exporter.bundle.random_inputs import random_inputs
from exporter.bundle.runtime_files import TEACHING, runtime_files
from exporter.bundle.signing import SigningKey
from runtime_arm.app.command_line import BLAS_PATIENCE, LIVELY
from runtime_arm.app.evidence import with_result
from runtime_arm.app.outputs import plain
from runtime_arm.app.packing import chunks, folder_parts, sample_bytes, with_manifest, write_archive
from runtime_arm.app.teaching.cutting import cut_of_entry, with_head
from runtime_arm.app.teaching.head import STEP
from runtime_arm.errors import PairError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.files import AnyPath, map_file, write_file
from runtime_arm.netdef import Array, NetDef
from runtime_arm.pair.archive import PAIR_FOLDER, SAMPLE
from runtime_arm.pair.argument import require_pair
from runtime_arm.pair.pair import Pair
from runtime_arm.pair.signatures.signature import message_of, signed

TOLERANCE = 1e-4  # of an output's largest magnitude: how much BLAS kernels of different machines may differ

_MAIN = f"""\
import gc
import os
import sys

if sys.version_info < (3, 9):
    sys.stderr.write("this program needs Python 3.9 or newer, this is %s\\n" % sys.version.split()[0])
    sys.exit(2)
gc.set_threshold({LIVELY})
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "{BLAS_PATIENCE}")
try:
    try:
        import numpy
    except ImportError as error:
        reason = [line for line in str(error).splitlines() if line.startswith("Original error was: ")]
        if getattr(error, "name", None) == "numpy":
            reason = ["apt-get install python3-numpy, pkg install python-numpy"]
        sys.stderr.write("this program needs NumPy: %s\\n" % (reason or str(error).splitlines() or ["?"])[0])
        sys.exit(2)
    path = os.path.dirname(os.path.abspath(__file__))
    code = None
    try:
        start = {{"__name__": "bytecode_cache"}}
        source = __loader__.get_data(os.path.join(path, "runtime_arm", "machine", "bytecode_cache.py"))
        exec(compile(source, "bytecode_cache.py", "exec"), start)
        code = start["BytecodeCache"](path, __loader__.get_data)
        sys.meta_path.insert(0, code)
    except Exception:
        pass  # a bundle that is damaged: what follows says so
    from runtime_arm.app.main import main
except KeyboardInterrupt:
    sys.exit(130)

try:
    sys.exit(main(path, sys.argv[1:], os.path.basename(path)))
finally:
    if code is not None and code.new:
        from runtime_arm.machine.cache import CachePart

        code.keep(CachePart("code").put)
"""


def pack(
    pair: Pair,
    target: AnyPath,
    sample: Optional[Mapping[str, Array]] = None,
    seed: int = 0,
    key: Optional[SigningKey] = None,
    teachable: bool = False,
    compress: bool = False,
) -> None:
    """Write the pair as a bundle that runs with ``python3 target``. Equal pairs and samples give equal bytes.

    sample: inputs by name for the self-test, by default random ones; their outputs are computed on this machine. The
    finished bundle runs its self-test in a separate process before it is written to ``target``; PairError if it fails.
    key: signs the bundle (see ``runtime_arm.pair.signatures``). If the pair does not say what its outputs mean, this is
    recognised now: the bundle has only the decoder that it needs. teachable: the bundle can learn new classes by
    itself; the pair's entry "teachable" says where its features are. compress: the file is smaller and starts a little
    later; weights are inflated into memory.

    Examples:
        >>> import armnet
        >>> armnet.pack(armnet.export("demo/digits.onnx"), "digits.pyz")
        >>> armnet.load("digits.pyz").outputs[0].name
        'probabilities'
    """
    require_pair(pair, "pack")
    pair = with_result(pair)
    with tempfile.TemporaryDirectory() as folder:
        pair.save(Path(folder) / PAIR_FOLDER)
        (Path(folder) / SAMPLE).write_bytes(_sample(pair, sample, seed))
        parts = {**_runtime_parts(pair, teachable), **folder_parts(Path(folder))}
        whole = Path(folder) / "whole.pyz"
        write_archive(whole, with_manifest(parts, TOLERANCE), compress)
        _require_that_it_works(whole, target)
        content = map_file(whole)
        write_file(target, chunks(content) if key is None else signed(content, key.sign(message_of(content))))


def _require_that_it_works(bundle: Path, target: AnyPath) -> None:
    command = [sys.executable, "-IB", str(bundle), "--self-test"]
    done = subprocess.run(command, cwd=bundle.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise PairError(f"{target}: the bundle fails its self-test on this machine and is not written: {last[0]}")


def _sample(pair: Pair, given: Optional[Mapping[str, Array]], seed: int) -> bytes:
    """An .npz of inputs and the outputs that they give on this machine."""
    inputs = dict(given) if given is not None else random_inputs(pair, seed)
    with Predictor(pair, threads=1) as predictor:
        outputs = predictor.run(inputs)
    return sample_bytes(inputs, {name: plain(value) for name, value in outputs.items()})


def _runtime_parts(pair: Pair, teachable: bool) -> Dict[str, memoryview]:
    decoder = (pair.meta.get("result") or {}).get("decoder", "tensors")
    nets, decoders = [pair.init_net, pair.predict_net], [decoder]
    if teachable:
        features = cut_of_entry(pair)
        head = with_head(features, np.zeros((2, features.size), np.float32), np.zeros(2, np.float32), ("", ""), {})
        nets += [head.init_net, head.predict_net, NetDef.from_text(STEP)]
        decoders.append("keywords")
    files = runtime_files(nets, decoders, [TEACHING] if teachable else [])
    parts = {name: memoryview(path.read_bytes()) for name, path in files.items()}
    return {"__main__.py": memoryview(_MAIN.encode()), **parts}
