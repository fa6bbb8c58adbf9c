"""A blob that several layers read is split, as Caffe does it: each reader has a blob of its own, with a gradient."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, Sequence, Tuple

from exporter.caffe.net import title
from exporter.caffe.prototxt import message_class
from runtime_arm.errors import ExportError
from training.caffe.layers import is_loss

Top = Tuple[int, int]  # the layer's number, and the top's


def with_splits(layers: Sequence[Any]) -> List[Any]:
    """The layers with Split layers after blobs that more than one layer reads; names are Caffe's.

    Source: Caffe's insert_splits.cpp. The layers are changed.
    """
    sources, counts = _readers(layers)
    used: Counter[Top] = Counter()
    result: List[Any] = []
    for number, proto in enumerate(layers):
        for place, source in enumerate(sources[number]):
            if counts.get(source, 0) > 1:
                proto.bottom[place] = _name(layers, source, proto.bottom[place], used[source])
                used[source] += 1
        result.append(proto)
        for place, name in enumerate(proto.top):
            top = number, place
            if counts.get(top, 0) > 1:
                result.append(_split(layers, top, name, counts[top]))
                weights = _weights(proto)
                if weights[place]:
                    used[top] += 1
                    result[-1].loss_weight.extend([weights[place], *[0.0] * (counts[top] - 1)])
                    proto.loss_weight[:] = [0.0 if at == place else weight for at, weight in enumerate(weights)]
    return result


def _readers(layers: Sequence[Any]) -> Tuple[List[List[Top]], Dict[Top, int]]:
    """Where the bottoms of each layer come from, and how often each top is read; a loss counts once."""
    last: Dict[str, Top] = {}
    sources: List[List[Top]] = []
    counts: Counter[Top] = Counter()
    for number, proto in enumerate(layers):
        sources.append([last.get(name, (-1, -1)) for name in proto.bottom])
        counts.update(source for source in sources[-1] if source[0] >= 0)
        for place, name in enumerate(proto.top):
            last[name] = number, place
            if _weights(proto)[place]:
                counts[number, place] += 1
    return sources, counts


def _weights(proto: Any) -> List[float]:
    """The loss weight of each top, 1 for a loss that states none. ExportError unless there is one for each top."""
    unstated = [1.0] if is_loss(proto.type) and proto.top else [0.0] * len(proto.top)
    weights = list(proto.loss_weight) or unstated
    if len(weights) != len(proto.top):
        raise ExportError(f"{title(proto)}: has {len(proto.top)} tops and {len(weights)} loss weights")
    return weights


def _name(layers: Sequence[Any], top: Top, blob: str, part: int) -> str:
    return f"{blob}_{layers[top[0]].name}_{top[1]}_split_{part}"


def _split(layers: Sequence[Any], top: Top, blob: str, count: int) -> Any:
    proto = message_class("LayerParameter")()
    proto.type, proto.name = "Split", f"{blob}_{layers[top[0]].name}_{top[1]}_split"
    proto.bottom.append(blob)
    proto.top.extend(_name(layers, top, blob, part) for part in range(count))
    return proto
