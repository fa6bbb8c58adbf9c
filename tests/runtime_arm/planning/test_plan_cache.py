"""Plans that an earlier start has kept: they compute the same bits, and stale ones and those of others do not count."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

import armnet
from optimize import optimize
from runtime_arm import Pair, load
from runtime_arm.machine.bytecode_cache import put_sealed, sealed_entry
from runtime_arm.machine.cache import CachePart
from runtime_arm.netdef import NetDef
from runtime_arm.pair.fills import fill
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.planning import plan_cache
from runtime_arm.planning.plan import Segment

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and permissions are POSIX's")

CHAIN = """net "chain": x, w, b -> y
Conv(x, w, b) -> a  kernel=3  pad=1
Relu(a) -> r
MaxPool(r) -> p  kernel=2  stride=2
Softmax(p) -> y  axis=1"""


class Start:
    """What a start of a program does with a saved pair."""

    def __init__(self, folder: Path, feeds: Dict[str, Any], threads: int = 1):
        drafts: List[object] = []
        draft: Callable[..., Any] = Segment._draft
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Segment, "_draft", lambda self, *args: (drafts.append(self), draft(self, *args))[1])
            with load(folder, threads=threads) as predictor:
                drafts.clear()
                self.results = predictor.run(feeds)
        self.planned = len(drafts)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ARMNET_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return tmp_path / "cache" / "plans"


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    """A small net with an open batch, so that it is planned when it runs."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.standard_normal((8, 3, 3, 3)), "b": rng.standard_normal(8)}
    init = NetDef("init", tuple(fill(name, value.astype(np.float32)) for name, value in weights.items()))
    pair = Pair(init, NetDef.from_text(CHAIN), (TensorInfo("x", ("n", 3, 8, 8), "float32"),))
    pair.save(tmp_path / "chain")
    return tmp_path / "chain"


def feeds_of(batch: int = 1) -> Dict[str, Any]:
    return {"x": np.random.default_rng(1).standard_normal((batch, 3, 8, 8)).astype(np.float32)}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("network", ["squeezenet1_1", "mobilenet_v2"])
def test_a_plan_that_is_found_again_computes_the_same_bits(
    tmp_path: Path, network: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = pytest.importorskip(
        "device_tests.host.networks.known", reason="onnx, which writes the network, is not installed"
    )
    source = tmp_path / "net.onnx"
    source.write_bytes(known.build(network, image_size=64).SerializeToString())
    optimize(armnet.export(source)).save(tmp_path / "pair")
    feeds = {"data": np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype(np.float32)}
    with load(tmp_path / "pair", threads=threads) as predictor:
        new = predictor.run(feeds)
    monkeypatch.setattr(Segment, "_draft", None)
    monkeypatch.setattr("runtime_arm.execution.predictor.run_init_net", _constants)
    with load(tmp_path / "pair", threads=threads) as predictor:
        for _ in range(2):
            found = predictor.run(feeds)
            assert all(np.array_equal(new[name], found[name]) for name in new)


def _constants(net: NetDef) -> Dict[str, Any]:
    return {op.output[0]: op.arg[0].t if op.arg[0].t is not None else op.arg[1].t for op in net.op}


def test_only_the_first_shapes_of_a_start_are_kept(chain: Path, cache: Path) -> None:
    with load(chain, threads=1) as predictor:
        for batch in (1, 2, 3):
            predictor.run(feeds_of(batch))
    assert len(list(cache.iterdir())) == 1
    assert [Start(chain, feeds_of(batch)).planned for batch in (1, 2, 2)] == [0, 1, 0]
    assert len(list(cache.iterdir())) == 2


def test_another_model_is_planned_anew(chain: Path, tmp_path: Path) -> None:
    first = Start(chain, feeds_of())
    pair = Pair.load(chain)
    assert Start(chain, feeds_of()).planned == 0
    assert pair.digest
    assert pair.replace(meta={}).digest == ""
    pair.replace(predict_net=NetDef.from_text(CHAIN.replace("Relu", "Sigmoid"))).save(tmp_path / "other")
    other = Start(tmp_path / "other", feeds_of())
    assert other.planned == 1
    assert not np.array_equal(first.results["y"], other.results["y"])


def test_what_is_damaged_or_stale_or_could_be_anothers_is_planned_anew(
    chain: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = Start(chain, feeds_of()).results["y"]
    (entry,) = cache.iterdir()
    content = entry.read_bytes()

    def is_planned() -> bool:
        start = Start(chain, feeds_of())
        assert np.array_equal(start.results["y"], expected)
        return start.planned == 1

    assert not is_planned()
    for damaged in (b"", content[:-1], content[:40] + b"?" + content[41:], b"\0" * 64):
        entry.write_bytes(damaged)
        assert is_planned()
        assert not is_planned()
    put_sealed("plans", entry.name, b"a seal, and no plan", CachePart("plans").put)
    assert is_planned()
    cache.chmod(0o777)
    assert is_planned()
    cache.chmod(0o700)
    assert not is_planned()
    with monkeypatch.context() as patch:
        patch.setattr(plan_cache, "_stamp", lambda path: (0, 0))
        assert is_planned()
    with monkeypatch.context() as patch:
        patch.setattr(plan_cache.np, "__version__", "another")
        assert is_planned()


def test_weights_are_not_kept_and_nothing_of_operators_of_others(
    chain: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(plan_cache, "_is_own", lambda schema: False)
        Start(chain, feeds_of())
    with monkeypatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        Start(chain, feeds_of())
    assert not cache.exists()
    Start(chain, feeds_of())
    (entry,) = cache.iterdir()
    content = sealed_entry("plans", entry.name)
    assert content is not None
    assert Pair.load(chain).init_net.op[0].arg[-1].t.tobytes() not in content  # type: ignore[union-attr]
