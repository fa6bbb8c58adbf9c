"""The ASGI application of ``armnet serve``, by Starlette."""

from __future__ import annotations

import hmac
import time
from functools import partial
from pathlib import Path
from typing import Any, Awaitable, Callable, Dict, List, Mapping, Optional, Tuple

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from armnet.serving.bodies import value_of
from armnet.serving.openapi import openapi
from armnet.serving.replies import reply
from armnet.serving.settings import Settings
from runtime_arm.app.answer import Answer, Options
from runtime_arm.app.model import Model
from runtime_arm.errors import ArmnetError, FeedError, ResourceError, UsageError

STATIC = Path(__file__).parent / "static"
_FILES = {"/": "index.html", "/page.js": "page.js", "/page.css": "page.css"}
_KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_STATUS = ((ResourceError, 413), (FeedError, 422), (UsageError, 400))  # of the errors that a request can cause
DRAINED = 4  # how many times the allowed bytes are read before a request is refused
BUSY_SECONDS = "1"  # after which a client that was turned away may come again


class Queue:
    """Lets one request at a time use the model, while others wait; if too many wait, the next is refused."""

    def __init__(self, most: int):
        self.waiting = self.answered = 0
        self._most = most
        self._turn: Optional[anyio.CapacityLimiter] = None

    async def answer(self, ask: Callable[[], Any]) -> Any:
        """What ``ask`` returns, which runs in a thread. HTTPException 503 if too many wait."""
        if self.waiting > self._most:
            headers = {"Retry-After": BUSY_SECONDS}
            raise HTTPException(503, f"{self._most} requests are already waiting; try again later", headers)
        if self._turn is None:
            self._turn = anyio.CapacityLimiter(1)
        self.waiting += 1
        try:
            answer = await anyio.to_thread.run_sync(ask, limiter=self._turn)
        finally:
            self.waiting -= 1
        self.answered += 1
        return answer


class Server:
    """The answers to requests. model: one request at a time uses it."""

    def __init__(self, model: Model, settings: Settings):
        self._model, self._settings = model, settings
        self._queue = Queue(settings.most_waiting)

    def application(self) -> Starlette:
        """The application."""
        routes = [Route(path, partial(_file, name)) for path, name in _FILES.items()]
        guarded: Mapping[str, Callable[[Request], Awaitable[Response]]] = {
            "/model": self._about,
            "/health": self._health,
            "/openapi.json": self._openapi,
        }
        routes += [Route(path, self._guarded(endpoint)) for path, endpoint in guarded.items()]
        routes.append(Route("/predict", self._guarded(self._predict), methods=["POST"]))
        hosts = Middleware(TrustedHostMiddleware, allowed_hosts=list(self._settings.hosts), www_redirect=False)
        handlers: Dict[Any, Any] = {HTTPException: _http_problem, ArmnetError: _problem, Exception: _bug}
        return Starlette(routes=routes, middleware=[hosts], exception_handlers=handlers)

    def _guarded(self, endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """The endpoint, for requests with the token only."""

        async def checked(request: Request) -> Response:
            if self._settings.token is not None:
                scheme, _, given = request.headers.get("authorization", "").partition(" ")
                if scheme.lower() != "bearer" or not _equal(given.strip(), self._settings.token):
                    raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
            return await endpoint(request)

        return checked

    async def _about(self, request: Request) -> Response:
        from runtime_arm.results.drawing import COLOURS

        model = self._model
        takes = "sound" if "sound" in model.entry else "picture" if model.input is not None else "arrays"
        inputs = [{"name": info.name, "dtype": info.dtype, "shape": info.shape_text()} for info in model.pair.inputs]
        limits = {"bytes": self._settings.most_bytes, "pixels": self._settings.most_pixels}
        about = {"name": self._settings.name, "kind": model.decoder.kind, "takes": takes, "inputs": inputs}
        more = {"labels": len(model.labels or ()), "notes": model.notes, "limits": limits, "colours": COLOURS}
        return JSONResponse({**about, **more}, headers=HEADERS)

    async def _health(self, request: Request) -> Response:
        counts = {"waiting": self._queue.waiting, "answered": self._queue.answered}
        return JSONResponse({"status": "ok", **counts}, headers=HEADERS)

    async def _openapi(self, request: Request) -> Response:
        return JSONResponse(openapi(self._settings, self._model.decoder.kind), headers=HEADERS)

    async def _predict(self, request: Request) -> Response:
        options, flags = self._options(request.query_params)
        content, kind = await self._body(request)
        value = value_of(content, kind, self._model.pair.inputs, self._settings)
        said = await self._queue.answer(lambda: self._asked(value, options, flags))
        return JSONResponse(said, headers=HEADERS)

    def _asked(self, value: Any, options: Options, flags: Dict[str, bool]) -> Dict[str, Any]:
        start = time.perf_counter()
        answers: List[Answer] = self._model.answers(value, options)
        return reply(answers, time.perf_counter() - start, **flags)

    def _options(self, query: Mapping[str, str]) -> Tuple[Options, Dict[str, bool]]:
        """The options in the query. UsageError, naming the parameter, if it does not exist or cannot have this
        value.
        """
        unknown = sorted(set(query) - {"top", "score", "overlay", "outputs"})
        if unknown:
            raise UsageError(f"no parameter {unknown[0]!r}; there are top, score, overlay, outputs")
        try:
            top = int(query.get("top", self._settings.top))
            score = float(query["score"]) if "score" in query else self._settings.threshold
        except ValueError:
            raise UsageError("top and score must be numbers") from None
        flags = {name: query.get(name, "0") for name in ("overlay", "outputs")}
        if not 1 <= top <= 1 << 20 or not set(flags.values()) <= {"0", "1"} or (score is not None and score != score):
            raise UsageError("top must be 1 or more, score a number, overlay and outputs 0 or 1")
        return Options(score, top), {name: value == "1" for name, value in flags.items()}

    async def _body(self, request: Request) -> Tuple[bytes, str]:
        """The bytes of a request, or of the file in its form, and their content type.

        HTTPException 413 for too many, 408 if they do not arrive in time.
        """
        kind = request.headers.get("content-type", "")
        limited = Request(request.scope, _limited(request.receive, self._settings.most_bytes))
        length = request.headers.get("content-length", "0")
        if length.isdecimal() and int(length) > DRAINED * self._settings.most_bytes:
            raise _too_large(self._settings.most_bytes)
        try:
            with anyio.fail_after(self._settings.body_seconds):
                if not kind.startswith("multipart/form-data"):
                    return await limited.body(), kind
                async with limited.form(max_files=1, max_fields=8) as form:
                    file = form.get("file")
                    if not isinstance(file, UploadFile):
                        raise HTTPException(422, "the form has no file in its field 'file'")
                    return await file.read(), file.content_type or ""
        except TimeoutError:
            raise HTTPException(408, f"the request did not arrive in {self._settings.body_seconds:g} s") from None
        except ClientDisconnect:
            raise HTTPException(400, "the request was broken off") from None


def _limited(receive: Callable[[], Awaitable[Any]], most: int) -> Callable[[], Awaitable[Any]]:
    """The same messages; HTTPException 413 if they hold more bytes than are allowed.

    Before that, the rest is read and dropped, up to a limit: a client that is still sending would not receive the
    answer.
    """
    seen = 0

    async def limited() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            while message.get("more_body") and seen <= DRAINED * most:
                message = await receive()
                seen += len(message.get("body", b""))
            raise _too_large(most)
        return message

    return limited


def _too_large(most: int) -> HTTPException:
    return HTTPException(413, f"a request of more than {most} bytes", {"Connection": "close"})


def _equal(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


async def _file(name: str, request: Request) -> Response:
    path = STATIC / name
    return Response(path.read_bytes(), media_type=_KINDS[path.suffix], headers=HEADERS)


async def _http_problem(request: Request, error: HTTPException) -> Response:
    headers = {**HEADERS, **(error.headers or {})}
    return JSONResponse({"error": error.detail}, error.status_code, headers)


async def _problem(request: Request, error: ArmnetError) -> Response:
    """An error that armnet raises on purpose: its line, and whose fault it is."""
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return JSONResponse({"error": str(error)}, status, HEADERS)


async def _bug(request: Request, error: Exception) -> Response:
    """A bug: its traceback is for the terminal, where the server prints it, not for the client."""
    return JSONResponse({"error": "the server failed; its terminal tells more"}, 500, HEADERS)
