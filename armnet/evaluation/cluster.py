"""Answers examples on several cores or machines, by Dask."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from itertools import islice
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from armnet.evaluation.example import Example, Finding
from armnet.evaluation.journal import fingerprint
from armnet.evaluation.place import Answered, LocalPlace, self_contained
from runtime_arm.app.answer import Options
from runtime_arm.app.model import Model
from runtime_arm.errors import ArmnetError, FeedError, MissingDependency, UsageError, WorkerError, first_line
from runtime_arm.imports import needed_for
from runtime_arm.pair.pair import Pair
from runtime_arm.version import VERSION

LOCAL = "local:"  # a scheduler of so many processes on this machine
CHUNK = 8  # examples in a task
WAITING = 3  # tasks for each worker that are handed out at once
PATIENCE = 30.0  # seconds to wait for a scheduler, and for its first worker

Loaded = Tuple[int, Any]  # the number of an example, and its value without files


class Recipe(NamedTuple):
    """A model for a worker to open. key: changes whenever the model does."""

    key: str
    version: str
    pair: Pair
    options: Options


class Cluster:
    """A scheduler of Dask, ``tcp://host:8786``, or ``local:4`` for four processes of this machine.

    Workers need armnet and its packages, but no files: examples are sent to them.
    """

    def __init__(self, scheduler: str, model: Model, options: Options):
        if model.following:
            raise UsageError("--scheduler: a worker runs one net; this model has several")
        pair = self_contained(model)
        self.name = scheduler
        self._model = model
        self._recipe = Recipe(fingerprint(pair), VERSION, pair, options)
        self._local = _processes(scheduler)

    def findings(self, examples: Sequence[Example], todo: Sequence[int]) -> Answered:
        """The findings in the order in which workers answer; enough examples are sent ahead to keep the workers
        busy.
        """
        with needed_for("--scheduler"):
            from distributed import as_completed
        failed: List[Tuple[int, Finding]] = []
        chunks = self._chunks(examples, todo, failed)
        with self._client() as (client, workers):
            recipe = client.scatter(self._recipe, broadcast=True, hash=False)

            def handed(chunk: List[Loaded]) -> Any:
                return client.submit(answer_chunk, recipe, chunk, pure=False)

            running = as_completed([handed(chunk) for chunk in islice(chunks, WAITING * workers)])
            for future in running:
                yield from future.result()
                for chunk in islice(chunks, 1):
                    running.add(handed(chunk))
        yield from failed

    def _chunks(
        self, examples: Sequence[Example], todo: Sequence[int], failed: List[Tuple[int, Finding]]
    ) -> Iterator[List[Loaded]]:
        """Examples with the content of their files; those that cannot be read go to ``failed``."""
        chunk: List[Loaded] = []
        for number in todo:
            try:
                chunk.append((number, self._loaded(examples[number].value)))
            except (UsageError, MissingDependency):
                raise
            except ArmnetError as error:
                failed.append((number, {"error": str(error)}))
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
        if chunk:
            yield chunk

    def _loaded(self, value: Any) -> Any:
        arrays = self._model.arrays_of(value)
        if arrays is not None:
            return arrays
        if not isinstance(value, str):
            return value
        try:
            with open(value, "rb") as file:
                return file.read()
        except OSError as error:
            raise FeedError(f"{value}: cannot be read: {error.strerror or error}") from None

    @contextmanager
    def _client(self) -> Iterator[Tuple[Any, int]]:
        """A client of the scheduler, and the number of its workers. What Dask raises becomes one line."""
        with needed_for("--scheduler"):
            from distributed import Client, LocalCluster
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its exceptions repeat its messages
        cluster: Any = None
        try:
            if self._local is not None:
                quiet = {"silence_logs": logging.CRITICAL, "dashboard_address": None}
                cluster = LocalCluster(n_workers=self._local, threads_per_worker=1, processes=True, **quiet)
            with Client(cluster or self.name, timeout=PATIENCE) as client:
                client.wait_for_workers(1, timeout=PATIENCE)
                yield client, sum(client.nthreads().values())
        except (ArmnetError, GeneratorExit, KeyboardInterrupt):
            raise
        except Exception as error:  # its own, Tornado's, asyncio's, and OSErrors: they have no common base
            raise WorkerError(f"--scheduler {self.name}: {first_line(error)}") from error
        finally:
            if cluster is not None:
                cluster.close()


def _processes(scheduler: str) -> Optional[int]:
    """How many processes ``local:N`` asks for; None for the address of a scheduler. UsageError for anything else."""
    if not scheduler.startswith(LOCAL):
        if "://" not in scheduler:
            raise UsageError(f"--scheduler takes an address such as tcp://host:8786, or {LOCAL}4, got {scheduler!r}")
        return None
    text = scheduler[len(LOCAL) :]
    if not text.isdecimal() or not 1 <= int(text) <= 256:
        raise UsageError(f"--scheduler {LOCAL}N takes a number of processes, got {scheduler!r}")
    return int(text)


_opened: Dict[str, Model] = {}  # the model that this worker has opened last
_lock = threading.Lock()


def answer_chunk(recipe: Recipe, chunk: Sequence[Loaded]) -> List[Tuple[int, Finding]]:
    """The findings of some examples; runs in a worker, which keeps the model for the next ones."""
    if recipe.version != VERSION:
        raise UsageError(f"a worker has armnet {VERSION}, the client {recipe.version}; they must have the same")
    with _lock:
        if recipe.key not in _opened:
            for model in _opened.values():
                model.close()
            _opened.clear()
            _opened[recipe.key] = Model(recipe.pair, threads=1, notice=lambda text: None)
        place = LocalPlace(_opened[recipe.key], recipe.options)
        examples = [Example("", value, None) for _, value in chunk]
        found = place.findings(examples, range(len(chunk)))
        return [(chunk[at][0], finding) for at, finding in found]
