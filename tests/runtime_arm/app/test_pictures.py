from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from device_tests.suite.tolerance import assert_each_close
from runtime_arm.app.labels import read_labels
from runtime_arm.app.pictures import read_picture
from runtime_arm.errors import FeedError, UsageError

Image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """4 rows, 6 columns; red grows with the row, green with the column, blue is 10."""
    pixels = np.zeros((4, 6, 3), np.uint8)
    pixels[..., 0], pixels[..., 1], pixels[..., 2] = np.arange(4)[:, None] * 20, np.arange(6) * 30, 10
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


def test_a_picture_is_a_batch_of_one(picture: Path) -> None:
    batch = read_picture(picture, {})
    assert batch.shape == (1, 3, 4, 6)
    assert batch.dtype == np.float32
    assert batch[0, :, 3, 5].tolist() == [60, 150, 10]


def test_channels_scale_mean_std_and_layout_are_applied_in_that_order(picture: Path) -> None:
    rule = {"channels": "BGR", "scale": 0.1, "mean": [1, 2, 3], "std": [1, 2, 4], "layout": "NHWC"}
    batch = read_picture(picture, rule)
    assert batch.shape == (1, 4, 6, 3)
    assert_each_close(batch[0, 3, 5], [(1 - 1) / 1, (15 - 2) / 2, (6 - 3) / 4])


def test_the_declared_shape_sets_the_size_and_greyscale(picture: Path) -> None:
    assert read_picture(picture, {}, (1, 3, 8, 2)).shape == (1, 3, 8, 2)
    assert read_picture(picture, {}, ("batch", 1, 8, 2)).shape == (1, 1, 8, 2)
    assert read_picture(picture, {}, ("batch", 3, None, None)).shape == (1, 3, 4, 6)
    assert read_picture(picture, {"layout": "NHWC"}, (1, 8, 2, 1)).shape == (1, 8, 2, 1)


def test_the_shorter_side_is_resized_and_the_centre_cropped(picture: Path) -> None:
    assert read_picture(picture, {"resize": 8}).shape == (1, 3, 8, 12)
    middle = read_picture(picture, {"crop": [2, 2]})
    assert middle[0, 0, :, 0].tolist() == [20, 40]
    assert middle[0, 1, 0].tolist() == [60, 90]
    with pytest.raises(FeedError, match="smaller than the crop"):
        read_picture(picture, {"crop": 5})


def test_integer_inputs_are_rounded_and_saturated(picture: Path) -> None:
    batch = read_picture(picture, {"scale": 2.0, "mean": 60.5}, dtype=np.uint8)
    assert batch.dtype == np.uint8
    assert batch.min() == 0
    assert batch[0, 1, 0].tolist() == [0, 0, 60, 120, 180, 240]


@pytest.mark.parametrize(
    "rule", [{"channels": "CMYK"}, {"resize": 0}, {"crop": [1, 2, 3]}, {"mean": [1, 2]}, {"zoom": 2}, {"layout": "CHW"}]
)
def test_invalid_preprocessing_is_refused(picture: Path, rule) -> None:
    with pytest.raises(UsageError, match=next(iter(rule))):
        read_picture(picture, rule)


def test_files_that_are_not_pictures_are_refused(tmp_path: Path, picture: Path) -> None:
    (tmp_path / "cut.png").write_bytes(picture.read_bytes()[:40])
    (tmp_path / "text.jpg").write_text("not a picture")
    for name in ("cut.png", "text.jpg", "nowhere.bmp"):
        with pytest.raises(FeedError, match=name):
            read_picture(tmp_path / name, {})


def test_sixteen_bit_pictures_keep_their_upper_eight_bits(tmp_path: Path) -> None:
    wide = np.array([[0x0000, 0x1234], [0x80FF, 0xFFFF]], np.uint16)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    (tmp_path / "wide.pgm").write_bytes(b"P5\n2 2\n65535\n" + wide.astype(">u2").tobytes())
    for name in ("wide.png", "wide.pgm"):
        batch = read_picture(tmp_path / name, {"channels": "GRAY"})
        assert batch[0, 0].tolist() == [[0x00, 0x12], [0x80, 0xFF]], name


def test_pixels_without_a_known_range_are_refused(tmp_path: Path) -> None:
    for name, dtype in (("floats.tif", np.float32), ("integers.tif", np.int32)):
        Image.fromarray(np.ones((2, 2), dtype)).save(tmp_path / name)
        with pytest.raises(FeedError, match=f"{name}: pixels of mode [FI] have no defined range"):
            read_picture(tmp_path / name, {})


def test_the_exif_orientation_is_applied(picture: Path, tmp_path: Path) -> None:
    upright = Image.open(picture).resize((16, 8), 0)
    exif = Image.Exif()
    exif[0x112] = 6  # EXIF orientation: rotate 90 degrees clockwise
    upright.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    np.testing.assert_array_equal(read_picture(tmp_path / "turned.png", {})[0].transpose(1, 2, 0), np.asarray(upright))


def test_transparent_palette_and_tiny_pictures_are_read(picture: Path, tmp_path: Path) -> None:
    for mode in ("RGBA", "P", "L", "LA", "1"):
        Image.open(picture).convert(mode).save(tmp_path / f"{mode}.png")
        assert read_picture(tmp_path / f"{mode}.png", {}).shape == (1, 3, 4, 6)
    Image.open(picture).resize((1, 1)).save(tmp_path / "dot.png")
    assert read_picture(tmp_path / "dot.png", {"resize": 8, "crop": 8}).shape == (1, 3, 8, 8)


def test_a_strip_that_resizing_would_make_huge_is_refused(tmp_path: Path) -> None:
    Image.new("L", (1, 60_000)).save(tmp_path / "strip.png")
    with pytest.raises(FeedError, match=r"strip\.png: 224x13440000 pixels are too many"):
        read_picture(tmp_path / "strip.png", {"resize": 224, "crop": 224})


def test_pillow_8_of_debian_11_is_enough(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Older:
        """PIL.Image before 9.1."""

        def __getattr__(self, name: str) -> object:
            if name == "Resampling":
                raise AttributeError(name)
            return getattr(Image, name)

    monkeypatch.setattr("PIL.Image", Older())
    assert read_picture(picture, {"resize": 8}).shape == (1, 3, 8, 12)


def test_squeezenet_names_the_dog_and_the_lemon(shared: Path, tmp_path: Path) -> None:
    exporter = pytest.importorskip("exporter", reason="the exporter is not installed beside the runtime")
    import runtime_arm

    photos = shared / "models" / "photos"
    labels = read_labels(photos / "coral" / "imagenet_labels.txt")[1:]
    rule = {"channels": "BGR", "mean": [104, 117, 123]}
    dogs = (
        "Chihuahua",
        "terrier",
        "hound",
        "spaniel",
        "retriever",
        "griffon",
        "pinscher",
        "corgi",
        "Pembroke",
        "dog",
        "pug",
        "beagle",
    )
    pair = exporter.export(shared / "models" / "onnx" / "squeezenet_v1.1" / "squeezenet_v1.1.onnx")
    with runtime_arm.open(pair, labels=labels, preprocessing=rule) as model:
        assert model.predict(photos / "caffe2_tutorials" / "lemon.jpg").label == "lemon"
        best = model.predict(photos / "tflite_support" / "cats_and_dogs.jpg").label
        assert any(dog in best for dog in dogs)
