"""Nets written in Python: ``n.conv1 = L.Convolution(n.data, kernel_size=5, num_output=20)``, and their prototxt."""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any, Callable, Dict, List, Tuple, Union

from armnet.standins.caffe.proto import caffe_pb2


class Top:
    """What a layer gives."""

    def __init__(self, layer: Layer, number: int):
        self.layer, self.number = layer, number

    def to_proto(self) -> Any:
        """The net up to here."""
        return to_proto(self)


class Layer:
    """A layer with its bottoms and parameters."""

    def __init__(self, type_name: str, bottoms: Tuple[Any, ...], params: Dict[str, Any]):
        wrong = [one for one in bottoms if not isinstance(one, Top)]
        if wrong:
            raise TypeError(f"{type_name} takes tops of other layers, got {type(wrong[0]).__name__}")
        self.type, self.bottoms = type_name, bottoms
        self.in_place = bool(params.pop("in_place", False))
        self.tops = [Top(self, number) for number in range(params.pop("ntop", 1))]
        self.name = str(params.pop("name", ""))
        self.params = params

    @property
    def layer(self) -> Layer:
        """The layer itself: one without tops stands in a NetSpec where tops do."""
        return self

    def to_proto(self) -> Any:
        """The net up to this layer, which has no top."""
        return _Written({}).net([self])


Named = Union[Top, Layer]  # what a NetSpec gives a name


class _Written:
    """The layers of a net as messages. names: those of what has one; other tops are numbered by type."""

    def __init__(self, names: Dict[Named, str]):
        self._names = dict(names)
        self._counts: Counter[str] = Counter()
        self._layers: Dict[Layer, Any] = OrderedDict()

    def net(self, layers: List[Layer]) -> Any:
        for layer in layers:
            self._write(layer)
        net = caffe_pb2.NetParameter()
        net.layer.extend(self._layers.values())
        return net

    def _write(self, layer: Layer) -> None:
        """Add a layer, after those that it needs."""
        if layer in self._layers:
            return
        for bottom in layer.bottoms:
            self._write(bottom.layer)
        proto = caffe_pb2.LayerParameter()
        proto.type = layer.type
        proto.bottom.extend(self._layers[bottom.layer].top[bottom.number] for bottom in layer.bottoms)
        names = [self._names.get(top) or self._numbered(layer.type) for top in layer.tops]
        proto.top.extend(proto.bottom if layer.in_place else names)
        proto.name = layer.name or (names[0] if names else self._names.get(layer) or self._numbered(layer.type))
        own = _field_of(layer.type)
        for name, value in layer.params.items():
            fits = own and not name.endswith("param") and name in getattr(proto, own).DESCRIPTOR.fields_by_name
            _assign(getattr(proto, own) if fits else proto, name, value)
        self._layers[layer] = proto

    def _numbered(self, type_name: str) -> str:
        self._counts[type_name] += 1
        return f"{type_name}{self._counts[type_name]}"


def _field_of(type_name: str) -> str:
    """The field of LayerParameter that holds the parameters of a type of layers; "" if it has none."""
    for field in caffe_pb2.LayerParameter.DESCRIPTOR.fields:
        if field.message_type is not None and field.message_type.name == f"{type_name}Parameter":
            return str(field.name)
    return ""


def _assign(proto: Any, name: str, value: Any) -> None:
    """Set a field: a message is a dict, a repeated field a list or its one value."""
    if name not in proto.DESCRIPTOR.fields_by_name:
        raise AttributeError(f"{proto.DESCRIPTOR.name} has no field {name!r}")
    target = getattr(proto, name)
    if hasattr(target, "extend"):
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, dict):
                _fill(target.add(), one)
            else:
                target.append(one)
    elif isinstance(value, dict):
        target.SetInParent()
        _fill(target, value)
    else:
        setattr(proto, name, value)


def _fill(message: Any, fields: Dict[str, Any]) -> None:
    for name, value in fields.items():
        _assign(message, name, value)


def to_proto(*tops: Named) -> Any:
    """The NetParameter of everything that these tops need."""
    return _Written({}).net([top.layer for top in tops])


class NetSpec:
    """Tops, and layers without any, by the names that they are given: ``n.conv1 = ...`` or ``n["conv1"] = ...``."""

    tops: Dict[str, Named]

    def __init__(self) -> None:
        object.__setattr__(self, "tops", OrderedDict())

    def __setattr__(self, name: str, value: Named) -> None:
        self.tops[name] = value

    def __getattr__(self, name: str) -> Named:
        if name not in self.tops:
            raise AttributeError(f"the net has no top {name!r} yet")
        return self.tops[name]

    __setitem__ = __setattr__
    __getitem__ = __getattr__

    def __delitem__(self, name: str) -> None:
        del self.tops[name]

    def keys(self) -> List[str]:
        """The names."""
        return list(self.tops)

    def to_proto(self) -> Any:
        """The NetParameter of all of them; its text is the prototxt."""
        names = {top: name for name, top in self.tops.items()}
        return _Written(names).net([top.layer for top in self.tops.values()])


class _Layers:
    """``L.Type(bottom, ..., parameter=value, ntop=1, in_place=False)``: a top, several, or a layer without any."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def make(*bottoms: Any, **parameters: Any) -> Any:
            layer = Layer(name, bottoms, parameters)
            return layer if not layer.tops else layer.tops[0] if len(layer.tops) == 1 else tuple(layer.tops)

        return make


class _Parameters:
    """``P.Pooling.MAX``: the messages of layers' parameters, with their numbers."""

    def __getattr__(self, name: str) -> Any:
        return getattr(caffe_pb2, f"{name}Parameter")


layers, params = _Layers(), _Parameters()
