"""Serve a model over HTTP: a page with a camera for people, POST /predict for programs.

  armnet serve PAIR                              a page on this machine, http://127.0.0.1:8000/
  armnet serve PAIR --host 0.0.0.0 --https --token
                                                 for phones in the same network: the page may use their camera
  curl --data-binary @photo.jpg http://127.0.0.1:8000/predict
  curl -F file=@photo.jpg -H 'Authorization: Bearer TOKEN' https://HOST:8000/predict

The body of a request is a picture, a sound, an .npy, an .npz, a form with a file, or JSON, {"inputs": {NAME: lists}}.
/openapi.json describes it. A browser gives its camera only to https and to pages of its own machine. Without https, the
page lets a phone take a picture and send it. With --https the server signs its certificate itself, so a browser asks
once whether you trust it.
"""

from __future__ import annotations

import argparse
from typing import Any

from armnet.arguments import (
    add_device,
    add_json,
    add_labels_and_task,
    add_pair,
    add_preprocessing,
    add_score,
    add_shapes,
    add_threads,
    opened,
)
from runtime_arm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="HOST", help="the address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=8000, metavar="N", help="the port; 0 for any free one (default: %(default)s)"
    )
    parser.add_argument(
        "--token", nargs="?", const="", metavar="WORD", help="answer only requests with this token (default: a new one)"
    )
    parser.add_argument("--https", action="store_true", help="encrypt, with a certificate that the server signs itself")
    parser.add_argument("--certificate", metavar="FILE", help="encrypt with this certificate, PEM")
    parser.add_argument("--key", metavar="FILE", help="the key of --certificate, PEM")
    parser.add_argument(
        "--most-bytes",
        type=int,
        default=20 << 20,
        metavar="N",
        help="the largest request, in bytes (default: %(default)s)",
    )
    parser.add_argument(
        "--most-pixels",
        type=int,
        default=50_000_000,
        metavar="N",
        help="the largest picture, in pixels (default: %(default)s)",
    )
    parser.add_argument(
        "--queue",
        type=int,
        default=16,
        metavar="N",
        help="how many requests may wait (default: %(default)s)",
    )
    add_labels_and_task(parser)
    add_score(parser)
    parser.add_argument(
        "--top", type=int, default=5, metavar="K", help="how many classes to list (default: %(default)s)"
    )
    add_shapes(parser, "shapes of inputs where the pair leaves sizes open")
    add_threads(parser)
    add_device(parser)
    add_json(parser)
    add_preprocessing(parser)


def run(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.opening import name_of
    from armnet.serving.run import bound, is_local, names_of, new_token, serve, warm_up
    from armnet.serving.settings import Settings
    from runtime_arm.imports import needed_for

    _check(args)
    with needed_for("armnet serve"):
        import python_multipart  # noqa: F401  # what Starlette reads forms with
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    token = new_token() if args.token == "" else args.token
    certificate = _certificate(args)
    with opened(args) as model:
        from armnet.serving.application import Server

        address = bound(args.host, args.port, certificate is not None)
        settings = Settings(
            name_of(args.pair),
            token,
            args.most_bytes,
            args.most_pixels,
            args.queue,
            hosts=names_of(args.host),
            threshold=args.score,
            top=args.top,
        )
        warm_up(model)
        url = f"{address.url}#token={token}" if token is not None else address.url
        if not is_local(args.host) and token is None:
            note("armnet: anybody who reaches this machine may use the model; --token keeps strangers out")
        facts = {"url": url, "token": token, "kind": model.decoder.kind}
        if certificate is not None:
            facts["fingerprint"] = certificate.fingerprint
            note(f"armnet: the certificate's fingerprint, SHA-256, is {certificate.fingerprint}")
        if args.json:
            print_json("serve", facts)
        else:
            print(f"{url}  serves {settings.name}: {model.decoder.kind}; Ctrl-C ends", flush=True)
        serve(Server(model, settings).application(), address, certificate)
    return 0


def _check(args: argparse.Namespace) -> None:
    """UsageError for options that make no sense."""
    for name, least in (("port", 0), ("most_bytes", 1), ("most_pixels", 1), ("queue", 0), ("top", 1)):
        if getattr(args, name) < least:
            raise UsageError(f"--{name.replace('_', '-')} must be {least} or more, got {getattr(args, name)}")
    if args.port > 65535:
        raise UsageError(f"--port must be at most 65535, got {args.port}")
    if bool(args.certificate) != bool(args.key):
        raise UsageError("--certificate and --key belong together")
    if args.token is not None and not (args.token.isascii() and args.token.isprintable() and " " not in args.token):
        raise UsageError("--token must be one word of ASCII letters, digits and signs")


def _certificate(args: argparse.Namespace) -> Any:
    import socket

    from armnet.serving.certificate import given, self_signed
    from armnet.serving.run import LOCAL, is_everywhere, lan_address

    if args.certificate:
        return given(args.certificate, args.key)
    if not args.https:
        return None
    host = socket.gethostname()
    names, addresses = ["localhost", *([host] if host and host != "localhost" else [])], {LOCAL}
    if is_everywhere(args.host):
        addresses |= {found for found in [lan_address()] if found}
    elif args.host.replace(".", "").isdigit() or ":" in args.host:
        addresses.add(args.host)
    elif args.host not in names:
        names.append(args.host)
    return self_signed(names, sorted(addresses))
