"""Networks of torchvision and timm with random weights, and their way through PyTorch's exporters."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import torch

from scripts.zoo.packages import timm, torchvision
from scripts.zoo.pictures import SMALLER

VISION, TIMM = "torchvision", "timm"
SPREAD = 0.1  # of the noise that is added to weights and statistics that are all equal
SCORES = 30.0  # the factor for weights that make scores
FRAMES = 16  # of a video
DETECTOR = (3, 320, 320)
FLOW = (3, 128, 128)


def smallest() -> List[Tuple[str, str, float, int]]:
    """The smallest network of every module: family, name, millions of parameters, number of networks in the module."""
    found = [_of_torchvision(module, names) for module, names in _by_module().items()]
    for module in timm.list_modules():
        sizes = {name: size for name in timm.list_models(module=module) for size in _timm_size(name)}
        if sizes:
            name = min(sizes, key=lambda one: sizes[one])
            found.append((f"{TIMM}/{module}", name, sizes[name], len(sizes)))
    return found


def _by_module() -> Dict[str, List[str]]:
    modules: Dict[str, List[str]] = {}
    for name in torchvision.models.list_models():
        modules.setdefault(torchvision.models.get_model_builder(name).__module__, []).append(name)
    return modules


def _of_torchvision(module: str, names: List[str]) -> Tuple[str, str, float, int]:
    sizes = {name: _weights(name).meta["num_params"] / 1e6 for name in names}
    name = min(sizes, key=lambda one: sizes[one])
    return f"{VISION}/{module[len('torchvision.models.') :]}", name, sizes[name], len(names)


def _weights(name: str) -> Any:
    return next(iter(torchvision.models.get_model_weights(name)))


def _timm_size(name: str) -> List[float]:
    """Its millions of parameters, in a list; an empty one if the network is only for tests or cannot be made."""
    if name.startswith("test_"):
        return []
    try:
        with torch.device("meta"):
            network = timm.create_model(name)
    except Exception:  # some networks look at their weights
        return []
    return [sum(parameter.numel() for parameter in network.parameters()) / 1e6]


# One network


def export(family: str, name: str, exporter: str, path: Path) -> None:
    """Write the network as an ONNX file; weights may be in others beside it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    network, inputs = _made(family, name)
    _vary(network.eval())
    with torch.no_grad():
        torch.onnx.export(network, inputs, str(path), dynamo=exporter == "dynamo", verbose=False)


def reason(error: BaseException) -> str:
    """The first line of the original exception."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return lines[0]


def _made(family: str, name: str) -> Tuple[Any, Tuple[Any, ...]]:
    """The network and an example of its inputs."""
    package, module = family.split("/", 1)
    if package == TIMM:
        network = timm.create_model(name, pretrained=False)
        channels, *own = network.default_cfg["input_size"]
        return network, (torch.randn(1, channels, *([SMALLER[name][0]] * 2 if name in SMALLER else own)),)
    kind = module.split(".")[0]
    if kind == "detection":
        scaled = {"min_size": SMALLER[name][0]} if name in SMALLER else {}
        network = torchvision.models.get_model(name, weights=None, weights_backbone=None, **scaled)
        _spread_scores(network)
        return network, ([torch.rand(*DETECTOR)],)
    if kind == "optical_flow":
        return torchvision.models.get_model(name, weights=None), (torch.rand(1, *FLOW), torch.rand(1, *FLOW))
    crop = _weights(name).transforms.keywords.get("crop_size", 224)
    size = (crop, crop) if isinstance(crop, int) else tuple(crop)
    shape = (1, 3, FRAMES, *size) if kind == "video" else (1, 3, *size)
    more = {"weights_backbone": None} if kind == "segmentation" else {}
    if kind == "quantization":
        more = {"quantize": True}
    make: Callable[..., Any] = torchvision.models.get_model
    return make(name, weights=None, **more), (torch.randn(*shape),)


def _spread_scores(network: Any) -> None:
    """Larger weights for scores. Untrained scores are nearly equal, so chance would decide which boxes are kept."""
    for name, values in network.named_parameters():
        if name.endswith("weight") and any(part in name for part in ("class", "cls", "box_predictor")):
            values.data.mul_(SCORES)


def _vary(network: Any) -> None:
    """Add noise to parameters and statistics that are all equal: otherwise it would not show whether they are used."""
    for name, values in [*network.named_parameters(), *network.named_buffers()]:
        if not values.is_floating_point() or values.numel() < 2 or not bool((values == values.flatten()[0]).all()):
            continue
        noise = torch.rand_like(values) if name.endswith("running_var") else torch.randn_like(values)
        values.data.add_(SPREAD * noise)
