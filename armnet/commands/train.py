"""Train a network on examples, from scratch or from the weights that it has.

  armnet train net.onnx --data digits.npz -o trained            images and labels
  armnet train net --data photos/ --loss softmax -o trained     photos/cat/*.jpg, photos/dog/*.jpg, ...
  armnet train net --data d.npz --loss l2 --solver sgd --rate 0.1 --momentum 0.9 --schedule cosine -o trained
  armnet train net --data photos/ --from-scratch --augment mirror,crop -o trained

  armnet train --solver solver.prototxt                         Caffe's own files, its data layers and snapshots
  armnet train --solver solver.prototxt --data train=mugs/ --snapshot latest

A part of the data is held out, and each epoch is judged by it. While the command runs, checkpoints are in
PAIR2.checkpoints. If it is killed, start it again: it continues where it was, and ends with the same weights.

Caffe's data layers take an LMDB, a list of pictures, HDF5, a folder of pictures for each class or an .npz.
"""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, Dict, List, Optional

from armnet.arguments import add_json, add_pair, add_seed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pair(parser, optional=True)
    parser.add_argument(
        "--data",
        nargs="+",
        default=[],
        metavar="DATA",
        help="one folder of pictures per class, or an .npz; for Caffe's solvers also LAYER=DATA, instead of its source",
    )
    parser.add_argument("-o", "--output", metavar="PAIR2", help="the folder to write, or a .zip")
    _add_net(parser)
    _add_solver(parser)
    _add_course(parser)
    parser.add_argument("--html", metavar="FILE", help="write a page with the loss curve")
    add_json(parser)


def _add_net(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--loss",
        default="softmax",
        metavar="LOSS",
        help="softmax, sigmoid, l1, l2, smooth_l1, ... (default: %(default)s)",
    )
    parser.add_argument("--smoothing", type=float, metavar="SHARE", help="label smoothing, for softmax (default: 0)")
    parser.add_argument(
        "--labels", metavar="KEY", help="the array of the labels in an .npz (default: labels, label, y)"
    )
    parser.add_argument(
        "--outputs", nargs="+", metavar="BLOB", help="the inputs of the loss (default: the first output)"
    )
    parser.add_argument("--trainable", nargs="+", metavar="NAME", help="parameters to train: fc*, ... (default: all)")
    parser.add_argument(
        "--batch-norm",
        choices=["auto", "train", "frozen"],
        default="auto",
        help="where to use the statistics of the batch: auto, in layers whose scale or bias is trained; train, "
        "everywhere; frozen, nowhere (default: %(default)s)",
    )
    parser.add_argument("--from-scratch", action="store_true", help="start from random weights")
    parser.add_argument(
        "--augment",
        default="none",
        metavar="WAY,...",
        help="mirror, flip, crop, brightness: how pictures are varied (default: %(default)s)",
    )
    parser.add_argument("--preprocessing", metavar="RULE", help="how pictures become the input (default: as stored)")


def _add_solver(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--solver", default="adam", metavar="SOLVER", help="sgd, adam, adamw, ..., or a solver.prototxt (default: adam)"
    )
    parser.add_argument("--weights", metavar="FILE", help="a caffemodel with which Caffe's solver starts")
    parser.add_argument("--snapshot", metavar="FILE", help="a solverstate to continue from; latest: the newest one")
    parser.add_argument("--rate", type=float, metavar="X", help="the learning rate (default: the solver's own)")
    parser.add_argument("--momentum", type=float, metavar="X", help="momentum, for sgd and rmsprop (default: 0)")
    parser.add_argument("--nesterov", action="store_true", default=None, help="Nesterov's momentum, for sgd")
    parser.add_argument("--weight-decay", type=float, metavar="X", help="weight decay (default: 0; for adamw 0.01)")
    parser.add_argument("--clip-norm", type=float, metavar="X", help="the largest norm of all gradients together")
    parser.add_argument("--iter-size", type=int, metavar="N", help="compute each batch in N parts, to save memory")
    parser.add_argument(
        "--schedule",
        default="fixed",
        metavar="POLICY",
        help="how the rate changes: fixed, cosine, warmup, poly, step:stepsize=100,gamma=0.1, ... (default: fixed)",
    )


def _add_course(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--epochs", type=int, default=10, metavar="N", help="passes over the data (default: %(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, metavar="N", help="number of batches, instead of --epochs; rounded up to whole epochs"
    )
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="samples per step (default: %(default)s)")
    parser.add_argument(
        "--hold-out",
        metavar="SHARE|DATA",
        default="0.2",
        help="data to judge each epoch by, or the share of the data to hold out (default: %(default)s)",
    )
    parser.add_argument("--patience", type=int, default=0, metavar="N", help="stop after N epochs without improvement")
    add_seed(parser, "all random choices")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="cores to use (default: %(default)s)")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        help="the memory limit of a step, such as 200M; what does not fit is computed again (default: no limit)",
    )
    parser.add_argument(
        "--checkpoints", metavar="FOLDER", help="keep checkpoints here (default: they are removed at the end)"
    )


def run(args: argparse.Namespace) -> int:
    from runtime_arm.errors import UsageError

    if args.solver.endswith((".prototxt", ".pbtxt")):
        return _run_caffe(args)
    if args.weights or args.snapshot:
        raise UsageError("--weights and --snapshot are for Caffe's solvers, --solver solver.prototxt")
    if not args.pair or len(args.data) != 1 or args.output is None:
        raise UsageError("give a network, --data DATA and -o PAIR2; or --solver solver.prototxt")
    return _run_pair(args)


def _run_caffe(args: argparse.Namespace) -> int:
    from armnet.console import print_json, progress
    from runtime_arm.errors import UsageError
    from training.caffe.course import Course

    if args.pair or args.output is not None:
        raise UsageError("a solver.prototxt names its net and where snapshots go; leave out the network and -o")
    if args.memory is not None:
        raise UsageError("--memory is for networks that armnet trains in its own way, not for a solver.prototxt")
    parts = (word.rpartition("=") for word in args.data)
    given = {layer: path for layer, _, path in parts}
    said: List[str] = []
    say = said.append if args.json else lambda text: print(text, flush=True)
    weights = None if args.weights is None else Path(args.weights)
    course = Course(Path(args.solver), weights=weights, snapshot=args.snapshot, data=given, say=say)
    with progress("train") as bar:
        course.run(bar)
    if args.json:
        tests = course.test()
        print_json("train", {"solver": args.solver, "iterations": course.solver.iteration, "tests": tests, "log": said})
    return 0


def _run_pair(args: argparse.Namespace) -> int:
    from armnet.console import note, print_json
    from armnet.model_files import check_pair_output
    from armnet.opening import pair_of
    from runtime_arm.app.model import Model

    check_pair_output(args.output)
    pair = pair_of(args.pair, plain=True)
    with Model(pair, preprocessing=args.preprocessing, notice=lambda text: note(f"armnet: {text}")) as model:
        learned, held, names = _samples(args, model)
        plan = _plan(args, learned)
        kept = Path(args.checkpoints or f"{Path(args.output)}.checkpoints")
        trainer, epochs, memory = _trained(args, pair, learned, held, plan, kept)
        meta = dict(pair.meta)
        if names is not None:
            meta.update(labels=names, preprocessing=dict(model.rule))
    trainer.pair().replace(meta=meta).save(args.output)
    if args.checkpoints is None:
        from shutil import rmtree

        rmtree(kept, ignore_errors=True)
    facts = {"pair": args.output, "labels": names, "learned": len(learned), "held_out": len(held) if held else 0}
    facts.update(memory=memory._asdict(), steps=trainer.iteration, epochs=[epoch._asdict() for epoch in epochs])
    facts["accuracy"] = epochs[trainer.iteration // plan.steps_an_epoch(learned) - 1].accuracy  # of what was kept
    if args.html:
        from armnet.opening import name_of
        from armnet.page.lesson import render
        from runtime_arm.files import write_file

        write_file(args.html, [render(f"{name_of(args.pair)}, trained", facts).encode()])
    if args.json:
        print_json("train", facts)
        return 0
    for number, epoch in enumerate(epochs, 1):
        print(f"epoch {number:3}: {epoch}")
    note(f"{args.output}: {trainer.iteration} steps on {len(learned)} samples")
    return 0


def _trained(args: argparse.Namespace, pair: Any, learned: Any, held: Any, plan: Any, kept: Path) -> Any:
    """The trainer at the end of its course, the figures of each epoch, and the memory of a step."""
    import numpy as np

    from armnet.console import note, progress
    from runtime_arm.machine.cache import nbytes_of
    from training.fitting import fit
    from training.initialization import initialized
    from training.trainer import Trainer

    trainer = Trainer(
        initialized(pair, args.seed) if args.from_scratch else pair,
        _loss(args),
        _free_name(pair),
        args.trainable,
        _solver(args, plan.epochs * plan.steps_an_epoch(learned)),
        outputs=args.outputs,
        batch_norm=args.batch_norm,
        threads=args.threads,
        memory=None if args.memory is None else nbytes_of(args.memory, "--memory"),
    )
    rows = np.arange(min(plan.batch, len(learned)))
    memory = trainer.memory({**learned.feeds(rows), trainer.labels: learned.truths[rows]})
    note(f"armnet: {memory}")
    with progress("train") as bar:
        epochs = fit(trainer, learned, held, plan, checkpoints=kept, progress=bar)
    return trainer, epochs, memory


def _samples(args: argparse.Namespace, model: Any) -> Any:
    """The samples to learn from, those to judge by, and the names of the classes."""
    from runtime_arm.app.teaching.augment import ways_of
    from runtime_arm.errors import UsageError
    from training.data.reading import samples_at
    from training.data.samples import held_out

    samples = samples_at(args.data[0], model, ways_of(args.augment), args.labels)
    try:
        share = float(args.hold_out)
    except ValueError:
        judged = samples_at(args.hold_out, model, (), args.labels)
        if judged.labels != samples.labels:
            raise UsageError(f"{args.hold_out}: its classes differ from those of {args.data[0]}") from None
        return samples, judged, samples.labels
    return (*held_out(samples, share, args.seed), samples.labels)


def _plan(args: argparse.Namespace, samples: Any) -> Any:
    from runtime_arm.errors import UsageError
    from training.fitting import Plan

    epochs = args.epochs
    if args.steps is not None:
        if args.steps < 1:
            raise UsageError(f"--steps must be at least 1, got {args.steps}")
        epochs = -(-args.steps // max(1, len(samples) // args.batch))
    return Plan(epochs, args.batch, args.patience, args.seed)


def _loss(args: argparse.Namespace) -> Any:
    from runtime_arm.errors import UsageError
    from training.losses import Softmax

    if args.smoothing is None:
        return args.loss
    if args.loss != "softmax":
        raise UsageError("--smoothing is for the loss softmax")
    return Softmax(smoothing=args.smoothing)


def _solver(args: argparse.Namespace, steps: int) -> Any:
    """The solver with the given numbers. UsageError for one that it does not have."""
    from runtime_arm.errors import UsageError
    from training.schedules import schedule_of
    from training.solvers import solver_of

    kind = type(solver_of(args.solver))
    words = ("rate", "momentum", "nesterov", "weight_decay", "clip_norm", "iter_size")
    given: Dict[str, Any] = {word: getattr(args, word) for word in words if getattr(args, word) is not None}
    known = {field.name for field in fields(kind)}
    strange: List[str] = [word for word in given if word not in known]
    if strange:
        raise UsageError(f"--{strange[0].replace('_', '-')}: the solver {args.solver} has no such number")
    return kind(schedule=schedule_of(args.schedule, steps), **given)


def _free_name(pair: Any) -> str:
    """A name for the labels that no blob of the net has."""
    taken = {name for op in pair.predict_net.op for name in (*op.input, *op.output)}
    name: Optional[str] = "label"
    while name in taken:
        name = f"{name}_"
    return str(name)
