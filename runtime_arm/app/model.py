"""Model: says in typed results what is in a picture, or what is heard in a sound."""

from __future__ import annotations

import os
import warnings
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NoReturn,
    Optional,
    Sequence,
    Union,
)

import numpy as np

from runtime_arm.app.answer import Answer, Options, Outputs, Prepared
from runtime_arm.app.default_preprocessing import default_rule
from runtime_arm.app.evidence import facts_of
from runtime_arm.app.finite import require_finite
from runtime_arm.app.inputs import read_npy, read_npz
from runtime_arm.app.labels import fitting, read_labels
from runtime_arm.app.pictures import open_picture, prepare
from runtime_arm.app.rules import VALUES, Rule, check_rule, fed, layout_for, read_rule, require_size, size_for
from runtime_arm.app.sounds import answer_windows, is_sound, read_sound, step_of
from runtime_arm.errors import FeedError, UsageError
from runtime_arm.execution.predictor import Predictor
from runtime_arm.files import checked_path
from runtime_arm.netdef import Array
from runtime_arm.pair.metadata import TensorInfo
from runtime_arm.pair.pair import Pair
from runtime_arm.registry.specs import QuantizedTensor
from runtime_arm.results.decoder import Decoder, Setting
from runtime_arm.results.decoders import decoder_of
from runtime_arm.results.facts import layout_of, pictures_of
from runtime_arm.results.frame import Frame
from runtime_arm.results.recognise import checked, recognised, stated
from runtime_arm.results.result import Result

if TYPE_CHECKING:
    from runtime_arm.app.sources import Item


class Model:
    """A network with all that turns its inputs and outputs into answers.

        with runtime_arm.open("ssd", labels="coco.txt") as model:
            for box in model.predict("cats.jpg"):
                print(box.label, box.score, box.box)

    entry: what the outputs mean, as in model.json. rule: the preprocessing. labels: those that fit the net's classes.
    notes: what the user should know, such as a preprocessing that was assumed; each is also a warning. fed: a line that
    describes the input, once there was one. following: the nets that refine the results of this one. states: outputs of
    one run that are inputs of the next.
    """

    def __init__(
        self,
        pair: Pair,
        labels: Union[str, os.PathLike[str], Sequence[str], None] = None,
        task: Optional[str] = None,
        preprocessing: Union[str, os.PathLike[str], Rule, None] = None,
        *,
        threads: Optional[int] = None,
        device: Optional[str] = None,
        half: bool = False,
        shapes: Optional[Mapping[str, Sequence[int]]] = None,
        changes: Optional[Rule] = None,
        notice: Optional[Callable[[str], None]] = None,
    ):
        self.notes: List[str] = []
        self._notice = notice or _warn
        self._assumed: Optional[str] = None
        self.pair = pair
        self.entry = _entry(pair, task, _count(labels), shapes)
        self.decoder: Decoder = decoder_of(self.entry["decoder"])
        self._given_labels = labels
        self.labels = self._fitting_labels(labels)
        self._shapes = dict(shapes or {})
        self.input = _picture_input(pair, self._shapes)
        self.rule = self._rule(read_rule(preprocessing), read_rule(changes) or {})
        self.predictor = Predictor(pair, threads=threads, device=device, half=half)
        self.fed: Optional[str] = None
        self.states: Dict[str, str] = {}
        self.following: Sequence[Model] = ()
        self.infer: Callable[[Mapping[str, Any]], Outputs] = self.predictor.run
        self._state: Outputs = {}

    def predict(
        self, x: Any, *, threshold: Optional[float] = None, top: int = 5, rate: Optional[int] = None
    ) -> Union[Result, List[Result]]:
        """What the net says about one input, or a list of that for several.

        x: a path, bytes, a file object, a Pillow picture, pixels (H, W, C) of uint8, a waveform (samples,) at ``rate``
        samples a second (default: the rate of the net), an array of the net's own shape and dtype, {input: array}; or a
        list or an iterator of these, or pixels (N, H, W, C). threshold: the least score that counts. top: how many
        classes are listed. FeedError for an input that cannot be read; ResultError if an output holds NaN.
        """
        options = Options(threshold, top)
        if isinstance(x, np.ndarray) and x.dtype == np.uint8 and x.ndim == 4 and x.shape[-1] in (1, 3, 4):
            x = list(x)
        if isinstance(x, (list, tuple)) or (isinstance(x, Iterator) and not hasattr(x, "read")):
            return [answer.result for one in x for answer in self.answers(one, options, rate)]
        found = [answer.result for answer in self.answers(x, options, rate)]
        return found[0] if len(found) == 1 else found

    def inputs(self, *words: str, every: int = 1) -> Iterator[Item]:
        """The inputs that the words name, one after the other; the ``value`` of each is an argument for ``predict``.

        words: files, folders, patterns, videos, ``camera`` or ``camera:1``, ``-`` for standard input; of folders, the
        files that the net takes. every: for videos and cameras, take one frame in this many, (H, W, 3) uint8. An input
        that cannot be read has an ``error`` instead of a value. FeedError if a word names nothing.
        """
        from runtime_arm.app.sources import items_of

        return items_of(words, self.pair.inputs, every, "sound" in self.entry)

    def answers(self, x: Any, options: Options = Options(), rate: Optional[int] = None) -> List[Answer]:  # noqa: B008
        """The answers to one input; several if it is an array that holds a batch."""
        arrays = self.arrays_of(x)
        if arrays is not None:
            return self._of_arrays(arrays, options)
        if "sound" in self.entry:
            return [self.answer_sound(answer_windows(self, self.wave_of(x, rate)), options)]
        if isinstance(x, (str, os.PathLike)) and is_sound(x):
            raise FeedError(
                f"{os.fspath(x)}: a sound, but the net is not known to take one; it takes {self._inputs()}. "
                "If these are samples, use --task keywords; if not, give arrays, as .npz or NAME=FILE"
            )
        return [self._of_picture(x, options)]

    def arrays_of(self, x: Any) -> Optional[Dict[str, Any]]:
        """The inputs by name, if the input holds what the net takes; None for a picture or a sound."""
        if isinstance(x, (str, os.PathLike)) and os.fspath(x).lower().endswith((".npy", ".npz")):
            return self._arrays(os.fspath(x))
        if isinstance(x, Mapping):
            return dict(x)
        if "sound" not in self.entry and isinstance(x, np.ndarray) and self._is_own(x):
            return {self.pair.inputs[0].name: x}
        return None

    def wave_of(self, x: Any, rate: Optional[int] = None) -> Array:
        """The samples of a sound as the net hears them, (n,) float32. FeedError if it cannot be read."""
        sound = self.entry["sound"]
        features = ", mel-frequency cepstral coefficients" if "features" in sound else ""
        self._tell_once(f"fed: {sound['rate']} samples a second, windows of {sound['window']}{features}")
        return read_sound(x, int(sound["rate"]), rate)

    def answer_sound(self, outputs: Outputs, options: Options) -> Answer:
        """The answer that the outputs of ``answer_windows`` hold."""
        with self._blamed(None):
            parameters = {**self.entry, "step": step_of(self.entry["sound"])}
            require_finite(outputs)
            setting = Setting(parameters, Frame.whole(1, 1), self.labels, options.threshold)
            return Answer(self.decoder.decode(outputs, setting), outputs)

    def as_task(self, task: str, **parameters: Any) -> Model:
        """The model itself, its outputs read as the task says, with other parameters of the entry."""
        self.entry = {**stated(task, facts_of(self.pair, self._shapes)), **parameters}
        self.decoder = decoder_of(self.entry["decoder"])
        self.labels = self._fitting_labels(self._given_labels)
        return self

    def close(self) -> None:
        """Free the memory; a later prediction is refused."""
        for model in (self, *self.following):
            model.predictor.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        source = (self.pair.meta.get("source") or {}).get("name") or self.pair.predict_net.name or "a net"
        classes = f", {len(self.labels)} labels" if self.labels else ""
        return f"Model({source}: {self.decoder.kind} by {self.entry['decoder']}{classes})"

    def __reduce__(self) -> NoReturn:
        raise UsageError("a model cannot be pickled: send its pair, model.pair, and open that where it is needed")

    def run(self, feeds: Mapping[str, Any]) -> Outputs:
        """One inference; the outputs by name, as the net gives them."""
        outputs = self.infer({**feeds, **self._state})
        self._state = {target: outputs[source] for source, target in self.states.items()}
        return outputs

    def real(self, outputs: Outputs) -> Outputs:
        """The outputs, with quantised ones converted to real numbers."""
        return {name: self._real(name, value) for name, value in outputs.items()}

    def decoded(self, raw: Outputs, frame: Frame, options: Options, picture: Any = None) -> Result:
        """The result of one input's outputs. ResultError if one of those that matter holds NaN or infinities."""
        outputs = self.real(raw) if self.decoder.kind != "tensors" else raw
        if self.decoder.kind != "tensors":
            roles = (self.entry.get("outputs") or {}).values()
            wanted = {name: outputs[name] for name in roles if name in outputs} or outputs
            require_finite(wanted)
        coloured = picture is not None and self.decoder.kind == "image"
        pixels = np.asarray(picture.convert("RGB")) if coloured else None
        return self.decoder.decode(
            outputs, Setting(self.entry, frame, self.labels, options.threshold, pixels, options.top)
        )

    def prepared(self, x: Any) -> Prepared:
        """A picture as the net's input. FeedError if the net takes something else, or if it cannot be read."""
        if self.input is None:
            raise FeedError(
                f"the net does not take one picture, but {self._inputs()}: give arrays, as .npz or NAME=FILE"
            )
        name = os.fspath(x) if isinstance(x, (str, os.PathLike)) else "the picture"
        info = self.input
        picture = open_picture(x, name)
        require_size(self.rule, info.name, info.shape)
        batch, frame = prepare(
            picture, self.rule, info.shape, info.dtype or np.float32, self._quantization(info.name), name
        )
        self.say_fed(batch)
        return Prepared({info.name: batch}, frame, picture)

    def _of_picture(self, x: Any, options: Options) -> Answer:
        if self.entry["decoder"] == "mtcnn" and self.entry.get("stage") == "P":
            from runtime_arm.app.cascade import answered

            return answered([self, *self.following], open_picture(x), options)
        fed = self.prepared(x)
        outputs = self.run(fed.feeds)
        with self._blamed(fed.feeds):
            return Answer(self.decoded(outputs, fed.frame, options, fed.picture), outputs, fed.picture)

    def _of_arrays(self, feeds: Dict[str, Any], options: Options) -> List[Answer]:
        """Arrays as the net takes them; a result for each item of a batch."""
        return self.answers_from(self.run(feeds), self.of_arrays(feeds), options)

    def of_arrays(self, feeds: Dict[str, Any]) -> Prepared:
        """Arrays as the net takes them; a picture among them is its own frame."""
        return Prepared(feeds, self._whole_frame(feeds), None)

    def answers_from(self, outputs: Outputs, fed: Prepared, options: Options) -> List[Answer]:
        """The answers that the outputs of a run hold: one for each item of a batch."""
        count = _batch(fed.feeds, outputs)
        answers = []
        with self._blamed(fed.feeds):
            for item in range(count):
                part = outputs if count == 1 else {name: value[item : item + 1] for name, value in outputs.items()}
                answers.append(Answer(self.decoded(part, fed.frame, options, fed.picture), part, fed.picture))
        return answers

    def _blamed(self, feeds: Optional[Mapping[str, Any]]) -> Any:
        from runtime_arm.app.finite import first_blob_named

        return first_blob_named(self.predictor, feeds)

    def _whole_frame(self, feeds: Mapping[str, Any]) -> Frame:
        """The frame of a picture that was fed as an array: the array itself."""
        if self.input is None or self.input.name not in feeds:
            return Frame.whole(1, 1)
        shape = np.shape(feeds[self.input.name])
        height, width = size_for(shape, layout_for(self.rule, shape))
        return Frame.whole(width or 1, height or 1)

    def _arrays(self, path: str) -> Dict[str, Any]:
        if path.lower().endswith(".npz"):
            return dict(read_npz(path, [info.name for info in self.pair.inputs]))
        return {self.pair.inputs[0].name: read_npy(path)}

    def _is_own(self, x: Array) -> bool:
        """Whether an array is an input of the net's own, and not pixels."""
        info = self.pair.inputs[0]
        if self.input is None:
            return True
        dtype = np.dtype(info.dtype or np.float32)
        return x.dtype == dtype and x.ndim == (4 if info.shape is None else len(info.shape))

    def _real(self, name: str, value: Any) -> Any:
        if isinstance(value, QuantizedTensor):
            return (value.values.astype(np.float32) - value.zero_point) * np.float32(value.scale)
        quantization = self._quantization(name)
        if quantization is None or np.asarray(value).dtype.kind not in "iu":
            return value
        return (value.astype(np.float32) - quantization["zero_point"]) * np.float32(quantization["scale"])

    def _inputs(self) -> str:
        return ", ".join(f"{info.name} {info.shape_text()}" for info in self.pair.inputs)

    def _quantization(self, name: str) -> Optional[Mapping[str, Any]]:
        found = (self.pair.meta.get("quantization") or {}).get(name)
        return found if isinstance(found, Mapping) and {"scale", "zero_point"} <= set(found) else None

    def _fitting_labels(self, given: Any) -> Optional[List[str]]:
        source = os.fspath(given) if isinstance(given, (str, os.PathLike)) else "the labels"
        if isinstance(given, (str, os.PathLike)):
            given = read_labels(given)
        labels = given if given is not None else self.pair.meta.get("labels")
        if labels is None:
            return None
        if self.decoder.kind == "text":
            return list(labels)
        if not self.decoder.classes:
            if given is not None and self.decoder.kind != "keypoints":
                self._tell(f"{source}: not used, for the result, {self.decoder.kind}, has no classes to name")
            return None if self.decoder.kind != "keypoints" else list(labels)
        return fitting(labels, self.entry.get("classes"), source, self._tell, behind=self.decoder.kind == "mask")

    def _rule(self, given: Optional[Dict[str, Any]], changes: Dict[str, Any]) -> Dict[str, Any]:
        """The preprocessing with the requested changes; checked."""
        if changes and given is None and not self._is_described() and set(changes) & set(VALUES):
            given = {}
        rule = {**self._base_rule(given), **changes}
        check_rule(rule)
        return rule

    def _is_described(self) -> bool:
        known = {**(self.decoder.preprocessing or {}), **(self.pair.meta.get("preprocessing") or {})}
        return bool(set(known) & set(VALUES))

    def _base_rule(self, given: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """The given rule, else the stored one, else the family's, else the usual one, with a warning at the first
        picture."""
        stored = dict(self.pair.meta.get("preprocessing") or {})
        family = dict(self.decoder.preprocessing or {})
        if given is not None:
            placed = {key: stored[key] for key in ("layout", "resize") if key in stored and not _sizes(given)}
            return {**{k: v for k, v in family.items() if k == "layout"}, **placed, **given}
        if set(stored) & set(VALUES) or self.input is None:
            return {**{k: v for k, v in family.items() if k not in VALUES}, **stored}
        if set(family) & set(VALUES):
            layout = {"layout": family["layout"]} if "layout" in family else {}
            return {**family, **stored, **layout}
        quantized = self._quantization(self.input.name) is not None or np.dtype(self.input.dtype or "f4").kind in "iu"
        if quantized:
            return stored
        assumed, why = default_rule(self.pair, self.input, self.entry)
        self._assumed = (
            f"no preprocessing is stored; taken as {why}. If answers are wrong, state it: "
            "--preprocessing imagenet|caffe|inception|0..1|-1..1|yolo|FILE, stored by export or describe"
        )
        return {**assumed, **stored}

    def say_fed(self, batch: Array) -> None:
        """Describe the input in ``fed``, if this is the first one."""
        if self.fed is None:
            if self._assumed is not None:
                self._tell(self._assumed)
            self._tell_once(f"fed: {fed(self.rule, batch.shape, batch.dtype)}")

    def _tell_once(self, text: str) -> None:
        if self.fed is None:
            self.fed = text

    def _tell(self, text: str) -> None:
        self.notes.append(text)
        self._notice(text)


_EXPECTED = "open takes a Pair, or the path of a pair's folder or bundle"


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=5)


def _count(labels: Any) -> int:
    """How many labels the user gives; 0 for none."""
    if labels is None:
        return 0
    return len(read_labels(labels) if isinstance(labels, (str, os.PathLike)) else labels)


def _sizes(rule: Mapping[str, Any]) -> bool:
    return bool(set(rule) & {"resize", "crop", "multiple"})


def _entry(
    pair: Pair, task: Optional[str], labels: int, shapes: Optional[Mapping[str, Sequence[int]]]
) -> Dict[str, Any]:
    """The meaning of the outputs: from the user, from the pair, or from its evidence."""
    if task is not None:
        return stated(task, facts_of(pair, shapes, labels))
    if pair.meta.get("result"):
        return checked(pair.meta["result"])
    return recognised(facts_of(pair, shapes, labels)) or {"kind": "tensors", "decoder": "tensors"}


def _picture_input(pair: Pair, shapes: Mapping[str, Sequence[int]]) -> Optional[TensorInfo]:
    """The input that takes a picture, if the net takes one picture and nothing else."""
    if len(pair.inputs) != 1:
        return None
    info = facts_of(pair).inputs[0] if pair.inputs[0].shape is None else pair.inputs[0]
    if info.name in shapes:
        info = TensorInfo(info.name, tuple(shapes[info.name]), info.dtype)
    return info if pictures_of([info]) or (info.shape is not None and layout_of(info.shape) is not None) else None


def _batch(feeds: Mapping[str, Any], outputs: Mapping[str, Any]) -> int:
    """How many items a batch holds: the first size that inputs and outputs share."""
    firsts = {np.shape(value)[0] if np.ndim(value) else 1 for value in [*feeds.values(), *outputs.values()]}
    return int(firsts.pop()) if len(firsts) == 1 else 1


def together(models: Sequence[Model]) -> Model:
    """Several nets that answer as one: the stages of an MTCNN, in any order. UsageError if they are something else."""
    if len(models) == 1:
        return models[0]
    from runtime_arm.app.cascade import in_order

    first, *rest = in_order(models)
    first.following = rest
    return first


def open(
    model: Union[str, os.PathLike[str], Pair, Sequence[Union[str, os.PathLike[str], Pair]]],
    labels: Union[str, os.PathLike[str], Sequence[str], None] = None,
    task: Optional[str] = None,
    preprocessing: Union[str, os.PathLike[str], Rule, None] = None,
    *,
    threads: Optional[int] = None,
    device: Optional[str] = None,
    half: bool = False,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    changes: Optional[Rule] = None,
    notice: Optional[Callable[[str], None]] = None,
) -> Model:
    """A Model for a Pair, a pair's folder or zip file, or a bundle; NumPy is all that it needs, and Pillow for
    pictures. Of a list, the stages of an MTCNN, it is one Model, in which they work together.

    labels: a file with one label a line, or a list; by default the pair's. task: what the outputs mean, where the net
    does not tell: "classes", "boxes", "mask", ..., or a decoder. preprocessing: a preset, a JSON file or a mapping.
    device, half: see ``Predictor``. shapes: of inputs whose sizes the pair leaves open. changes: keys of the
    preprocessing to change. notice: is given each note, instead of ``warnings.warn``.
    """
    several = model if isinstance(model, (list, tuple)) else [model]
    pairs = [one if isinstance(one, Pair) else Pair.load(checked_path(one, _EXPECTED)) for one in several]
    if not pairs:
        raise UsageError(_EXPECTED)
    options: Dict[str, Any] = {"threads": threads, "device": device, "half": half, "shapes": shapes}
    options.update({"changes": changes, "notice": notice})
    return together([Model(pair, labels, task, preprocessing, **options) for pair in pairs])
