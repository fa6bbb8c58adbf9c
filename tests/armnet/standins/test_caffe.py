"""What armnet's stand-in for pycaffe does, call by call."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("google.protobuf", reason="Caffe's files are read with protobuf")

import armnet.standins.caffe as caffe
from armnet.standins import notes
from armnet.standins.caffe import io, net_spec
from armnet.standins.caffe.proto import caffe_pb2
from device_tests.suite.tolerance import assert_close, assert_each_close

L, P = net_spec.layers, net_spec.params
RNG = np.random.RandomState(0)


def saved(spec: Any, path: Path) -> str:
    path.write_text(str(spec.to_proto()))
    return str(path)


@pytest.fixture
def net(tmp_path: Path) -> Any:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [2, 3, 6, 6]})
    n.conv = L.Convolution(n.data, num_output=4, kernel_size=3, weight_filler={"type": "xavier"})
    n.relu = L.ReLU(n.conv, in_place=True)
    n.pool = L.Pooling(n.relu, pool=P.Pooling.AVE, global_pooling=True)
    n.prob = L.Softmax(n.pool)
    return caffe.Net(saved(n, tmp_path / "deploy.prototxt"), caffe.TEST)


# Nets


def test_a_net_shows_its_blobs_layers_and_parameters(net: Any) -> None:
    assert (net.inputs, net.outputs) == (["data"], ["prob"])
    assert list(net._layer_names) == ["data", "conv", "relu", "pool", "prob"]
    assert [layer.type for layer in net.layers] == ["Input", "Convolution", "ReLU", "Pooling", "Softmax"]
    assert net.layer_dict["conv"].blobs[0].data.shape == (4, 3, 3, 3)
    assert (net.top_names["relu"], net.bottom_names["relu"]) == (["conv"], ["conv"])
    data = net.blobs["data"]
    assert (data.num, data.channels, data.height, data.width, data.count) == (2, 3, 6, 6, 216)
    with pytest.raises(AttributeError, match="stand-in for caffe has no attribute 'nothing'"):
        _ = net.nothing


def test_the_forms_of_opening_a_net_are_one(net: Any, tmp_path: Path) -> None:
    path, weights = str(tmp_path / "deploy.prototxt"), str(tmp_path / "w.caffemodel")
    net.save(weights)
    x = RNG.rand(2, 3, 6, 6)
    expected = net.forward(data=x)["prob"].copy()
    for other in (
        caffe.Net(path, weights, caffe.TEST),
        caffe.Net(path, caffe.TEST, weights=weights),
        caffe.Net(network_file=path, weights=weights, phase=caffe.TEST),
        caffe.Net(path, caffe.TEST, 0, ["stage"], weights),
    ):
        np.testing.assert_array_equal(other.forward(data=x)["prob"], expected)
    for wrong, kind, problem in (
        (lambda: caffe.Net(path), TypeError, "caffe.TEST"),
        (lambda: caffe.Net("nowhere.prototxt", caffe.TEST), RuntimeError, "nowhere.prototxt"),
        (lambda: caffe.Net(path, "nowhere.caffemodel", caffe.TEST), RuntimeError, "nowhere.caffemodel"),
        (lambda: caffe.Net(path, "nowhere.caffemodel.h5", caffe.TEST), RuntimeError, "nowhere.caffemodel.h5"),
    ):
        with pytest.raises(kind, match=problem):
            wrong()


def test_weights_in_hdf5_are_those_of_the_caffemodel(net: Any, tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="HDF5 needs the package h5py")
    path, weights = str(tmp_path / "deploy.prototxt"), str(tmp_path / "w.caffemodel.h5")
    net.save_hdf5(weights)
    x = RNG.rand(2, 3, 6, 6)
    expected = net.forward(data=x)["prob"].copy()
    later = caffe.Net(path, caffe.TEST)
    later.load_hdf5(weights)
    for other in (caffe.Net(path, weights, caffe.TEST), later):
        np.testing.assert_array_equal(other.forward(data=x)["prob"], expected)
    Path(weights).write_bytes(Path(weights).read_bytes()[:100])
    with pytest.raises(RuntimeError, match="the caffemodel cannot be read as HDF5"):
        later.copy_from(weights)


def test_a_layer_without_tops_has_the_name_that_a_spec_gives_it(tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 4]})
    n.a, n.b = L.Slice(n.data, ntop=2, slice_point=1)
    n.silence = L.Silence(n.b, ntop=0)
    assert [(layer.name, list(layer.top)) for layer in n.to_proto().layer] == [
        ("data", ["data"]),
        ("a", ["a", "b"]),
        ("silence", []),
    ]
    assert caffe.Net(saved(n, tmp_path / "net.prototxt"), caffe.TEST).outputs == ["a"]


def test_stages_choose_layers(tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [1, 3]})
    n.more = L.Power(n.data, shift=1, include={"stage": "more"})
    n.out = L.Power(n.data, scale=2)
    path = saved(n, tmp_path / "net.prototxt")
    assert caffe.Net(path, caffe.TEST).outputs == ["out"]
    assert sorted(caffe.Net(path, caffe.TEST, stages=["more"]).outputs) == ["more", "out"]


def test_inputs_that_no_layer_reads_are_outputs(tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data, n.info = L.Input(shape={"dim": [1, 3]}), L.Input(shape={"dim": [1, 2]})
    n.a = L.Power(n.data, scale=2)
    net = caffe.Net(saved(n, tmp_path / "net.prototxt"), caffe.TEST)
    assert net.outputs == ["a", "info"]
    found = net.forward(data=np.ones((1, 3)), info=np.full((1, 2), 3))
    assert {name: values.tolist() for name, values in found.items()} == {"a": [[2, 2, 2]], "info": [[3, 3]]}


def test_a_pass_may_start_and_end_anywhere(net: Any) -> None:
    x = RNG.rand(2, 3, 6, 6)
    whole = net.forward(data=x, blobs=["conv"])
    assert sorted(whole) == ["conv", "prob"]
    expected = whole["prob"].copy()
    assert list(net.forward(end="pool")) == ["pool"]
    net.blobs["data"].data[...] = 0
    assert_close(net.forward(start="pool")["prob"], expected, terms=27)
    assert not np.allclose(net.forward(start="data")["prob"], expected)
    with pytest.raises(RuntimeError, match="nowhere"):
        net.forward(end="nowhere")
    with pytest.raises(Exception, match="the net needs data; image are given"):
        net.forward(image=x)
    with pytest.raises(Exception, match="3 rows, the net's batches have 2"):
        net.forward(data=np.zeros((3, 3, 6, 6)))


def test_many_rows_run_batch_by_batch(net: Any) -> None:
    x = RNG.rand(5, 3, 6, 6)
    found = net.forward_all(data=x, blobs=["pool"])
    assert found["prob"].shape == (5, 4, 1, 1)
    net.blobs["data"].reshape(5, 3, 6, 6)
    assert_close(net.forward(data=x)["prob"], found["prob"], terms=27)


def tripled_product(folder: Path) -> Any:
    """A net of gradients for data (2, 3) -> fc (2, 4) -> out, three times fc."""
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [2, 3]})
    n.fc = L.InnerProduct(n.data, num_output=4, weight_filler={"type": "xavier"})
    n.out = L.Power(n.fc, scale=3)
    spec = n.to_proto()
    spec.force_backward = True
    (folder / "net.prototxt").write_text(str(spec))
    return caffe.Net(str(folder / "net.prototxt"), caffe.TRAIN)


def test_backward_gives_gradients_of_inputs_and_parameters(tmp_path: Path) -> None:
    net = tripled_product(tmp_path)
    x, dy = RNG.rand(2, 3).astype(np.float32), RNG.rand(2, 4).astype(np.float32)
    net.forward(data=x)
    weights = net.params["fc"][0]
    found = net.backward(out=dy)["data"]
    assert_close(found, 3 * dy @ weights.data, terms=4)
    assert_close(weights.diff, 3 * dy.T @ x, terms=2)
    net.clear_param_diffs()
    assert not weights.diff.any()
    net.blobs["fc"].diff[...] = dy
    assert list(net.backward(start="fc", diffs=["fc"])) == ["data", "fc"]
    assert_close(net.blobs["data"].diff, dy @ weights.data, terms=4)
    assert_close(weights.diff, dy.T @ x, terms=2)


def test_gradients_of_many_rows_run_batch_by_batch(tmp_path: Path) -> None:
    net = tripled_product(tmp_path)
    x, dy = RNG.rand(5, 3).astype(np.float32), RNG.rand(5, 4).astype(np.float32)
    values, gradients = net.forward_backward_all(blobs=["fc"], diffs=["fc"], data=x, out=dy)
    assert (sorted(values), sorted(gradients)) == (["fc", "out"], ["data", "fc"])
    weights = net.params["fc"][0].data
    assert_close(values["out"], 3 * x @ weights.T, terms=3)
    assert_close(gradients["data"], 3 * dy @ weights, terms=4)
    net.blobs["out"].diff[...] = 1
    _, gradients = net.forward_backward_all(data=x[:2])
    assert_close(gradients["data"], np.tile(3 * weights.sum(axis=0), (2, 1)), terms=4)


def test_parameters_are_of_the_type_for_which_programs_look(net: Any) -> None:
    assert type(net.params["conv"]) is caffe._caffe.BlobVec
    assert [type(layer.blobs) for layer in net.layers] == [caffe._caffe.BlobVec] * 5


def test_a_step_may_be_taken_by_hand(tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [2, 3]})
    n.fc = L.InnerProduct(n.data, num_output=4)
    n.loss = L.Reduction(n.fc, loss_weight=1)
    net = saved(n, tmp_path / "net.prototxt")
    (tmp_path / "solver.prototxt").write_text(
        f'net: "{net}" base_lr: 0.5 momentum: 0.9 lr_policy: "fixed" iter_size: 2'
    )
    solver = caffe.get_solver(str(tmp_path / "solver.prototxt"))
    weights = solver.net.params["fc"][0]
    for step, expected in ((1, -0.25), (2, -0.25 * 2.9)):
        solver.net.clear_param_diffs()
        weights.diff[...] = 1
        solver.apply_update()
        assert solver.iter == step
        assert_each_close(weights.data, np.full((4, 3), expected))


def test_memory_data_gives_what_it_is_set_to(tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data, n.label = L.MemoryData(batch_size=2, channels=1, height=1, width=3, ntop=2)
    n.out = L.Power(n.data, scale=2)
    n.silence = L.Power(n.label)
    net = caffe.Net(saved(n, tmp_path / "net.prototxt"), caffe.TEST)
    assert net.inputs == []
    rows = RNG.rand(4, 1, 1, 3).astype(np.float32)
    net.set_input_arrays(rows, np.arange(4, dtype=np.float32))
    for at in (0, 2, 0):
        np.testing.assert_array_equal(net.forward()["out"], 2 * rows[at : at + 2])
    with pytest.raises(RuntimeError, match="no multiple of the batch size, 2"):
        net.set_input_arrays(rows[:3], np.arange(3))


def test_the_processor_runs_whatever_is_asked(caplog: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(notes, "_said", set())
    with caplog.at_level(logging.WARNING, "armnet.standins"):
        caffe.set_mode_cpu()
        caffe.set_mode_gpu()
        caffe.set_device(1)
    assert [message.split("(")[0].split(".")[-1] for message in caplog.messages] == ["set_mode_gpu", "set_device"]


# Pictures


def test_a_picture_is_prepared_in_caffes_order() -> None:
    transformer = io.Transformer({"data": (1, 3, 4, 5)})
    transformer.set_transpose("data", (2, 0, 1))
    transformer.set_channel_swap("data", (2, 1, 0))
    transformer.set_raw_scale("data", 255)
    transformer.set_mean("data", np.array([1, 2, 3]))
    transformer.set_input_scale("data", 0.5)
    picture = RNG.rand(4, 5, 3).astype(np.float32)
    found = transformer.preprocess("data", picture)
    expected = (picture.transpose(2, 0, 1)[::-1] * 255 - np.array([1, 2, 3])[:, None, None]) / 2
    assert_close(found, np.float32(expected))
    assert_close(transformer.deprocess("data", found[None]), picture)
    with pytest.raises(Exception, match="'image' is none of the net's inputs"):
        transformer.set_raw_scale("image", 1)
    with pytest.raises(ValueError, match="the mean has 2 channels, the input 3"):
        transformer.set_mean("data", [1, 2])
    transformer.set_mean("data", np.full((3, 8, 8), 7))
    assert_close(transformer.mean["data"], np.full((3, 4, 5), 7, np.float32))


@pytest.mark.parametrize("size", [(3, 7), (24, 5), (11, 30)])
@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_are_resized_between_their_pixels_centres(size: Any, channels: int) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed to compare with")
    picture = RNG.rand(12, 15, channels).astype(np.float32)
    found = io.resize_image(picture, size)
    expected = cv2.resize(picture, size[::-1], interpolation=cv2.INTER_LINEAR).reshape(found.shape)
    inside = tuple(slice(margin, -margin or None) for margin in (size[0] // 12, size[1] // 15))
    np.testing.assert_allclose(found[inside], expected[inside], atol=1e-5)  # coordinates


def test_what_has_other_channels_is_resized_from_corner_to_corner() -> None:
    ramp = np.stack([np.add.outer(np.arange(3.0), 10 * np.arange(4.0))] * 2, axis=2)
    found = io.resize_image(ramp, (5, 7))
    assert_close(found[..., 1], np.float32(np.add.outer(np.arange(0, 2.1, 0.5), np.arange(0, 31, 5))))
    nearest = io.resize_image(ramp, (6, 8), interp_order=0)
    assert set(np.unique(nearest)) == set(np.unique(ramp))
    with pytest.raises(NotImplementedError, match="interp_order"):
        io.resize_image(ramp, (2, 2), 3)


def test_a_picture_gives_ten_crops() -> None:
    picture = np.arange(6 * 8 * 1, dtype=np.float32).reshape(6, 8, 1)
    crops = io.oversample([picture, picture + 100], (4, 4))
    assert crops.shape == (20, 4, 4, 1)
    assert crops[:5, 0, 0, 0].tolist() == [0, 4, 16, 20, 10]
    np.testing.assert_array_equal(crops[5:10], crops[:5, :, ::-1])
    np.testing.assert_array_equal(crops[10:], crops[:10] + 100)


def test_pictures_are_read_as_fractions(tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    pixels = RNG.randint(0, 256, (3, 4, 3)).astype(np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    assert_close(io.load_image(tmp_path / "x.png"), np.float32(pixels / 255))
    grey = io.load_image(str(tmp_path / "x.png"), color=False)
    assert_close(grey[..., 0], np.float32(pixels / 255 @ [0.2125, 0.7154, 0.0721]), terms=3)
    Image.fromarray(pixels[..., 0]).save(tmp_path / "grey.png")
    assert io.load_image(tmp_path / "grey.png").shape == (3, 4, 3)
    assert io.load_image(tmp_path / "grey.png", color=False).shape == (3, 4, 1)


def test_windows_of_pictures_are_answered(net: Any, tmp_path: Path) -> None:
    Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    Image.fromarray(RNG.randint(0, 256, (20, 20, 3)).astype(np.uint8)).save(tmp_path / "x.png")
    net.save(tmp_path / "w.caffemodel")
    files = str(tmp_path / "deploy.prototxt"), str(tmp_path / "w.caffemodel")
    detector = caffe.Detector(*files, raw_scale=255)
    windows = [(0, 0, 6, 6), (4, 2, 18, 19), (1, 1, 7, 7)]
    found = detector.detect_windows([(str(tmp_path / "x.png"), windows)])
    assert [one["window"] for one in found] == windows
    picture = io.load_image(tmp_path / "x.png")
    classifier = caffe.Classifier(*files, raw_scale=255)
    expected = classifier.predict([picture[1:7, 1:7]], oversample=False)[0]
    assert_close(found[2]["prediction"], expected.ravel(), terms=27)
    with pytest.raises(NotImplementedError, match="context_pad"):
        caffe.Detector(*files, context_pad=16)


# Messages


def test_arrays_become_messages_and_come_back() -> None:
    values = RNG.rand(2, 3).astype(np.float32)
    blob = io.array_to_blobproto(values, diff=values + 1)
    read = caffe_pb2.BlobProto.FromString(blob.SerializeToString())
    np.testing.assert_array_equal(io.blobproto_to_array(read), values)
    np.testing.assert_array_equal(io.blobproto_to_array(read, return_diff=True), values + 1)
    old = caffe_pb2.BlobProto(num=1, channels=2, height=1, width=3, data=values.ravel().tolist())
    assert io.blobproto_to_array(old).shape == (1, 2, 1, 3)
    several = io.blobprotovector_str_to_arraylist(io.arraylist_to_blobprotovector_str([values, values[0]]))
    assert [one.shape for one in several] == [(2, 3), (3,)]
    pixels = RNG.randint(0, 256, (3, 2, 2)).astype(np.uint8)
    datum = io.array_to_datum(pixels, 5)
    assert datum.label == 5
    np.testing.assert_array_equal(io.datum_to_array(datum), pixels)
    np.testing.assert_array_equal(io.datum_to_array(io.array_to_datum(pixels / 2.0)), pixels / 2.0)
    with pytest.raises(AttributeError, match="no message 'NoSuchMessage'"):
        _ = caffe_pb2.NoSuchMessage


def test_the_classes_of_an_ssd_are_read() -> None:
    from google.protobuf import text_format

    labels = caffe_pb2.LabelMap()
    text_format.Merge('item { name: "n1" label: 1 display_name: "person" }', labels)
    assert [(one.label, one.display_name) for one in labels.item] == [(1, "person")]


def test_a_net_written_in_python_is_caffes_text() -> None:
    n = caffe.NetSpec()
    n.data, n.label = L.Data(batch_size=4, source="x", backend=P.Data.LMDB, ntop=2, transform_param={"scale": 0.5})
    n.conv = L.Convolution(n.data, kernel_size=3, num_output=2, param=[{"lr_mult": 1}, {"lr_mult": 2}])
    n.relu = L.ReLU(n.conv, in_place=True)
    n.loss = L.SoftmaxWithLoss(L.InnerProduct(n.relu, num_output=2), n.label, loss_weight=2)
    proto = n.to_proto()
    assert [layer.name for layer in proto.layer] == ["data", "conv", "relu", "InnerProduct1", "loss"]
    data, conv, relu, product, loss = proto.layer
    assert (data.data_param.backend, data.transform_param.scale) == (1, 0.5)
    assert (list(conv.convolution_param.kernel_size), [one.lr_mult for one in conv.param]) == ([3], [1, 2])
    assert (list(relu.bottom), list(relu.top)) == (["conv"], ["conv"])
    assert (list(product.bottom), list(product.top)) == (["conv"], ["InnerProduct1"])
    assert (list(loss.bottom), list(loss.loss_weight)) == (["InnerProduct1", "label"], [2])
    assert str(caffe.to_proto(n.relu)) == str(n.relu.to_proto())
    with pytest.raises(AttributeError, match="no field 'no_such_field'"):
        L.ReLU(n.conv, no_such_field=1).to_proto()
    with pytest.raises(TypeError, match="takes tops of other layers, got str"):
        L.ReLU("conv")


# Layers in Python


LAYERS = """
import numpy as np, armnet.standins.caffe as caffe

class Twice(caffe.Layer):
    def setup(self, bottom, top):
        self.blobs.add_blob(1)
        self.blobs[0].data[...] = float(self.param_str)
    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].data.shape)
    def forward(self, bottom, top):
        top[0].data[...] = self.blobs[0].data[0] * bottom[0].data
    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[0] += (top[0].diff * bottom[0].data).sum()
        if propagate_down[0]:
            bottom[0].diff[...] = self.blobs[0].data[0] * top[0].diff

class Phase(caffe.Layer):
    def reshape(self, bottom, top):
        top[0].reshape()
    def forward(self, bottom, top):
        top[0].data[()] = self.phase

class Rows(caffe.Layer):
    def setup(self, bottom, top):
        self.passes = 0
    def reshape(self, bottom, top):
        top[0].reshape(4, 3)
        top[1].reshape(4)
    def forward(self, bottom, top):
        self.passes += 1
        top[0].data[...] = np.arange(12).reshape(4, 3) / 10 + self.passes
        top[1].data[...] = [1, 2, 3, 4]

class Distance(caffe.Layer):
    def reshape(self, bottom, top):
        if bottom[0].count != bottom[1].count:
            raise ValueError("sizes differ")
        top[0].reshape(1)
    def forward(self, bottom, top):
        self.difference = bottom[0].data - bottom[1].data.reshape(bottom[0].shape)
        top[0].data[...] = (self.difference**2).sum() / bottom[0].num / 2
    def backward(self, top, propagate_down, bottom):
        for sign, wanted, blob in zip((1, -1), propagate_down, bottom):
            if wanted:
                blob.diff[...] = (sign * self.difference / blob.num * top[0].diff[0]).reshape(blob.shape)
"""


@pytest.fixture
def own_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module with LAYERS."""
    (tmp_path / "own_layers_of_a_test.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "own_layers_of_a_test"


def test_a_layer_in_python_runs_forwards_and_backwards(own_layers: str, tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.data = L.Input(shape={"dim": [2, 3]})
    n.out = L.Python(n.data, module=own_layers, layer="Twice", param_str="2")
    spec = n.to_proto()
    spec.force_backward = True
    path, weights = tmp_path / "net.prototxt", str(tmp_path / "w.caffemodel")
    path.write_text(str(spec))
    net = caffe.Net(str(path), caffe.TEST)
    x = RNG.rand(2, 3).astype(np.float32)
    assert_close(net.forward(data=x)["out"], 2 * x)
    assert_close(net.backward(out=np.ones((2, 3)))["data"], np.full((2, 3), 2, np.float32))
    assert_close(net.params["out"][0].diff, x.sum().reshape(1), terms=6)
    net.params["out"][0].data[...] = 3
    net.save(weights)
    again = caffe.Net(str(path), weights, caffe.TEST)
    again.blobs["data"].reshape(1, 3)
    assert_close(again.forward(data=x[:1])["out"], 3 * x[:1])


def test_a_layer_in_python_knows_the_phase(own_layers: str, tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.phase = L.Python(module=own_layers, layer="Phase")
    path = saved(n, tmp_path / "net.prototxt")
    assert [float(caffe.Net(path, phase).forward()["phase"]) for phase in (caffe.TRAIN, caffe.TEST)] == [0, 1]


def test_a_solver_learns_by_layers_in_python(own_layers: str, tmp_path: Path) -> None:
    losses = []
    for loss in ({"module": own_layers, "layer": "Distance", "loss_weight": 1}, None):
        n = caffe.NetSpec()
        n.data, n.label = L.Python(module=own_layers, layer="Rows", ntop=2)
        n.fc = L.InnerProduct(n.data, num_output=1, weight_filler={"type": "constant", "value": 0.1})
        n.flat = L.Reshape(n.fc, shape={"dim": [-1]})
        n.loss = L.EuclideanLoss(n.flat, n.label) if loss is None else L.Python(n.flat, n.label, **loss)
        net = saved(n, tmp_path / "net.prototxt")
        (tmp_path / "solver.prototxt").write_text(
            f'net: "{net}" base_lr: 0.01 lr_policy: "fixed" max_iter: 9 snapshot_after_train: false'
        )
        solver = caffe.get_solver(str(tmp_path / "solver.prototxt"))
        found = []
        for _ in range(3):
            solver.step(1)
            found.append(float(solver.net.blobs["loss"].data.ravel()[0]))
        losses.append(found)
    assert_each_close(np.float32(losses[0]), losses[1], terms=12)
    assert losses[0][-1] < losses[0][0]


def test_what_a_layer_in_python_raises_names_the_layer(own_layers: str, tmp_path: Path) -> None:
    n = caffe.NetSpec()
    n.a, n.b = L.Input(shape=[{"dim": [2, 3]}, {"dim": [2, 2]}], ntop=2)
    for name, layer, problem in (
        ("Distance", own_layers, "reshape raised ValueError: sizes differ"),
        ("Nothing", own_layers, "has no attribute 'Nothing'"),
        ("Distance", "no_such_module", "raised ModuleNotFoundError"),
    ):
        n.out = L.Python(n.a, n.b, module=layer, layer=name)
        with pytest.raises(RuntimeError, match=rf"layer 'out' \(Python\).*{problem}"):
            caffe.Net(saved(n, tmp_path / "net.prototxt"), caffe.TEST)
