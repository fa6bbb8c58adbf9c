"""Names of blobs that have one memory in Caffe: a layer in place on one of them changes what all of them hold."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set


def shares_memory(layer: Any) -> bool:
    """Whether the tops of a layer have the memory of its bottom."""
    alone = len(layer.bottom) == len(layer.top) == 1
    return layer.type in ("Split", "Reshape", "Flatten") or (alone and layer.type in ("Concat", "Slice"))


class Memories:
    """Learns of the layers of a net in their order."""

    def __init__(self) -> None:
        self._first: Dict[str, str] = {}  # of the names that have a memory, by name

    def first(self, name: str) -> str:
        """The name that had the memory of this one first."""
        return self._first.get(name, name)

    def write(self, layer: Any, top: str) -> List[str]:
        """Note that a layer writes a top; the other names of the same memory, if it overwrites their values."""
        if top in layer.bottom:
            memory = self.first(top)
            return [name for name, first in self._first.items() if first == memory and name != top]
        self._first[top] = self.first(layer.bottom[0]) if shares_memory(layer) else top
        self._first.setdefault(self._first[top], self._first[top])
        return []


def overwritten_at_last(layers: Sequence[Any]) -> Set[str]:
    """The names that no layer reads after a layer in place on another name of their memory has changed their values."""
    memories = Memories()
    names: Set[str] = set()
    for layer in layers:
        names -= {*layer.bottom}
        for top in layer.top:
            names.update(memories.write(layer, top))
    return names
