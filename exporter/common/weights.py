"""The constants that a net reads."""

from __future__ import annotations

from typing import Dict, Optional

from optimize.rewriting.weights import Weights
from runtime_arm.execution.workspace import run_init_net
from runtime_arm.netdef import NetDef
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import TensorSpec


def specs_of_weights(pair: Pair, net: NetDef) -> Dict[str, Optional[TensorSpec]]:
    """The blobs that init_net fills and the net reads, with their content; the pair's inputs are none of them."""
    inputs = {info.name for info in pair.inputs}
    filled = {name for op in pair.init_net.op for name in op.output}
    names = [name for name in net.captures() if name in filled and name not in inputs]
    weights = Weights(pair.init_net)
    computed = run_init_net(pair.init_net) if any(name not in weights for name in names) else {}
    return {name: weights.spec(name) if name in weights else TensorSpec.known(computed[name]) for name in names}
