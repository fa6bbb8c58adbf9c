"""The execution providers that a program asks for."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence

from armnet.standins.onnxruntime.machine import CPU


def check_providers(
    providers: Optional[Sequence[Any]], options: Optional[Sequence[Dict[Any, Any]]], asked: Sequence[Any] = ()
) -> None:
    """Warn of providers that are not there, and of what is no list of providers: the processor's takes their place, as
    in onnxruntime. asked: those that the session's options name."""
    try:
        wrong = [
            f"Specified provider '{name}' is not in available provider names.Available providers: '{CPU}'"
            for name in _names(providers, options, asked)
            if name != CPU
        ]
    except ValueError as error:
        wrong = [f"{error}; falling back to {CPU}"]
    for text in wrong:
        warnings.warn(text, stacklevel=3)


def _names(
    providers: Optional[Sequence[Any]], options: Optional[Sequence[Dict[Any, Any]]], asked: Sequence[Any]
) -> List[str]:
    if providers is not None and not isinstance(providers, (list, tuple)):
        raise ValueError(f"providers must be a list of names, got {providers!r}")
    if options is not None and len(options) != len(providers or ()):
        raise ValueError("providers and provider_options must have the same length")
    names: List[str] = []
    for provider in [*(providers or ()), *asked]:
        name = provider[0] if isinstance(provider, tuple) and len(provider) == 2 else provider
        if not isinstance(name, str):
            raise ValueError(f"a provider is a name, or a name and its options, got {provider!r}")
        names.append(name)
    return names
