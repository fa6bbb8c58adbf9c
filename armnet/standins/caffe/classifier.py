"""Classifier: a net that is given pictures as they are."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Sequence

import numpy as np

from armnet.standins.caffe.io import Transformer, resize_image
from armnet.standins.caffe.io import oversample as ten_crops
from armnet.standins.caffe.net import Net
from runtime_arm.netdef import Array


class PictureNet(Net):
    """A net in the phase TEST with a Transformer for its first input."""

    def __init__(
        self,
        model_file: Any,
        pretrained_file: Any,
        mean: Any,
        input_scale: Optional[float],
        raw_scale: Optional[float],
        channel_swap: Optional[Sequence[int]],
    ):
        super().__init__(model_file, phase=1, weights=pretrained_file)
        name = self.inputs[0]
        self.transformer = Transformer({one: self.blobs[one].data.shape for one in self.inputs})
        self.transformer.set_transpose(name, (2, 0, 1))
        if mean is not None:
            self.transformer.set_mean(name, mean)
        if input_scale is not None:
            self.transformer.set_input_scale(name, input_scale)
        if raw_scale is not None:
            self.transformer.set_raw_scale(name, raw_scale)
        if channel_swap is not None:
            self.transformer.set_channel_swap(name, channel_swap)

    def outputs_for(self, pictures: Iterable[Any]) -> Array:
        """The first output for each picture, prepared for the first input."""
        name = self.inputs[0]
        prepared = np.stack([self.transformer.preprocess(name, picture) for picture in pictures])
        return self.forward_all(**{name: prepared})[self.outputs[0]]


class Classifier(PictureNet):
    """``Classifier("deploy.prototxt", "w.caffemodel", image_dims=(256, 256), ...)``.

    image_dims: the size to which pictures are brought before the crops; by default the input's.
    """

    def __init__(
        self,
        model_file: Any,
        pretrained_file: Any,
        image_dims: Optional[Sequence[int]] = None,
        mean: Any = None,
        input_scale: Optional[float] = None,
        raw_scale: Optional[float] = None,
        channel_swap: Optional[Sequence[int]] = None,
    ):
        super().__init__(model_file, pretrained_file, mean, input_scale, raw_scale, channel_swap)
        self.crop_dims = np.array(self.blobs[self.inputs[0]].data.shape[2:])
        self.image_dims = np.array(self.crop_dims if image_dims is None else image_dims)

    def predict(self, inputs: Iterable[Any], oversample: bool = True) -> Array:
        """The scores (N, classes) of pictures (H, W, K): the mean over ten crops of each, or those of the middle."""
        pictures = [resize_image(picture, self.image_dims) for picture in inputs]
        if oversample:
            scores = self.outputs_for(ten_crops(pictures, self.crop_dims))
            return np.asarray(scores.reshape(len(pictures), 10, -1).mean(axis=1))
        height, width = self.crop_dims
        y, x = (int(self.image_dims[0]) - height) // 2, (int(self.image_dims[1]) - width) // 2
        return self.outputs_for(picture[y : y + height, x : x + width] for picture in pictures)
