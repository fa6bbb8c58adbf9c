"""Runs the application by uvicorn, on a socket that is bound first, so that a port in use is reported in one line."""

from __future__ import annotations

import contextlib
import ipaddress
import secrets
import socket
from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional

import numpy as np

from runtime_arm.errors import ArmnetError, UsageError

if TYPE_CHECKING:
    from armnet.serving.certificate import Certificate
    from runtime_arm.app.model import Model

LOCAL = "127.0.0.1"
_CONNECTIONS = 512  # at once; more are turned away
_CLOSING = 3  # seconds in which requests end after Ctrl-C
_TOKEN_BYTES = 12


class Address(NamedTuple):
    """A bound socket, and the URL under which browsers reach it."""

    socket: socket.socket
    url: str


def bound(host: str, port: int, secure: bool) -> Address:
    """A socket that listens there; port 0 means any that is free. UsageError if it is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen on {host} port {port}: {reason}; --port 0 takes any that is free") from None
    shown = lan_address() or LOCAL if is_everywhere(host) else host
    name = f"[{shown}]" if ":" in shown else shown
    return Address(listening, f"{'https' if secure else 'http'}://{name}:{listening.getsockname()[1]}/")


def is_everywhere(host: str) -> bool:
    """Whether a host stands for all addresses of the machine."""
    return host in ("", "0.0.0.0", "::")


def is_local(host: str) -> bool:
    """Whether only this machine reaches a host."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def lan_address() -> Optional[str]:
    """The address of this machine that others in its network use; None without a network."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address kept for documents: nothing is sent
        return str(probe.getsockname()[0])
    return None


def names_of(host: str) -> List[str]:
    """The names and addresses that the server accepts: for a local server only its own, so that no foreign web page
    reaches it under another name.
    """
    if is_local(host):
        return [host, "localhost", LOCAL, "[::1]"]
    return ["*"]


def warm_up(model: Model) -> None:
    """One inference, so that the first client does not have to wait for plans and workers."""
    example: Any
    if "sound" in model.entry:
        example = np.zeros(int(model.entry["sound"]["rate"]), np.float32)
    elif model.input is not None:
        example = np.zeros((64, 64, 3), np.uint8)
    else:
        example = {info.name: info.example() for info in model.pair.inputs}
    with contextlib.suppress(ArmnetError):  # whatever is wrong with it, clients are told
        model.answers(example)


def new_token() -> str:
    """A word that nobody can guess."""
    return secrets.token_urlsafe(_TOKEN_BYTES)


def serve(
    application: Any,
    address: Address,
    certificate: Optional[Certificate] = None,
    started: Callable[[Any], None] = lambda server: None,
) -> None:
    """Answers until Ctrl-C, SIGTERM, or ``server.should_exit`` of what ``started`` is given."""
    import uvicorn

    files = {} if certificate is None else {"ssl_certfile": certificate.certificate, "ssl_keyfile": certificate.key}
    config = uvicorn.Config(
        application,
        log_level="error",
        access_log=False,
        lifespan="off",
        http="h11",
        ws="none",
        timeout_graceful_shutdown=_CLOSING,
        limit_concurrency=_CONNECTIONS,
        server_header=False,
        **files,  # type: ignore[arg-type]
    )
    server = uvicorn.Server(config)
    started(server)
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[address.socket])
