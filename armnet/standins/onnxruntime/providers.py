"""The execution providers that a program asks for."""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Optional, Sequence, Tuple

from armnet.standins.onnxruntime.machine import CPU, get_all_providers, get_available_providers


def check_and_normalize_provider_args(
    providers: Optional[Sequence[Any]],
    provider_options: Optional[Sequence[Dict[Any, Any]]],
    available_provider_names: Sequence[str],
) -> Tuple[List[str], List[Dict[str, str]]]:
    """The names of the providers and their options as text, each name once; warns of those that are not available.

    providers: names, or names with their options; options may also stand beside them. ValueError for anything else.
    """
    if providers is None:
        return [], []
    if not isinstance(providers, (list, tuple)):
        raise ValueError(f"providers must be a list of names, got {providers!r}")
    pairs = [_pair(provider) for provider in providers]
    if provider_options is not None:
        if not isinstance(provider_options, (list, tuple)) or len(provider_options) != len(pairs):
            raise ValueError("provider_options must be a list as long as providers")
        if not all(isinstance(one, str) for one in providers) or not all(map(_is_dict, provider_options)):
            raise ValueError("beside provider_options, which are dictionaries, providers are names alone")
        pairs = list(zip(providers, provider_options))
    found: Dict[str, Dict[str, str]] = {}
    for name, options in pairs:
        if name not in available_provider_names:
            known = ", ".join(available_provider_names)
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names.Available providers: '{known}'",
                stacklevel=4,
            )
        if name in found:
            warnings.warn(f"Duplicate provider '{name}' encountered, ignoring.", stacklevel=4)
        else:
            found[name] = {str(key): str(value) for key, value in options.items()}
    return list(found), list(found.values())


def _pair(provider: Any) -> Tuple[str, Dict[Any, Any]]:
    if isinstance(provider, str):
        return provider, {}
    if isinstance(provider, tuple) and len(provider) == 2 and isinstance(provider[0], str) and _is_dict(provider[1]):
        return provider
    raise ValueError(f"a provider is a name, or a name and its options, got {provider!r}")


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def check_providers(
    providers: Optional[Sequence[Any]], options: Optional[Sequence[Dict[Any, Any]]], asked: Sequence[Any] = ()
) -> None:
    """Warn of providers that are not there, and of what is no list of providers: the processor's takes their place, as
    in onnxruntime. asked: those that the session's options name."""
    try:
        for wanted, given in ((providers, options), (asked, None)):
            check_and_normalize_provider_args(wanted, given, get_available_providers())
    except ValueError as error:
        warnings.warn(f"{error}; falling back to {CPU}", stacklevel=3)


def check_other_providers(providers: Optional[Sequence[Any]], options: Optional[Sequence[Dict[Any, Any]]]) -> None:
    """The same for a session that exists, which refuses: RuntimeError for a provider that onnxruntime does not know."""
    names, _ = check_and_normalize_provider_args(providers, options, get_available_providers())
    for name in names:
        if name not in get_all_providers():
            raise RuntimeError(f"Unknown Provider Type: {name}")
