"""A folder of the cache is either complete or rebuilt."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import List

import pytest

from device_tests.host.emulation import cache
from device_tests.host.emulation.cache import EmulationUnavailable, built, locked
from runtime_arm.errors import ArmnetError


class Builder:
    """Builds a folder of two files and counts the builds."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.builds: List[Path] = []

    def __call__(self, folder: Path) -> None:
        self.builds.append(folder)
        (folder / "inner").mkdir()
        (folder / "inner/a").write_text("abc")
        (folder / "b").symlink_to("inner/a")

    def get(self, recipe: object = 1) -> int:
        """Asks for the folder; returns the number of builds so far."""
        assert built(self.folder, recipe, self) == self.folder
        assert (self.folder / "b").read_text() == "abc"
        assert not list(self.folder.parent.glob("*.partial"))
        return len(self.builds)


@pytest.fixture
def builder(tmp_path: Path) -> Builder:
    return Builder(tmp_path / "cache/thing")


def test_a_complete_folder_is_built_once(builder: Builder) -> None:
    assert [builder.get(), builder.get()] == [1, 1]


def test_another_recipe_causes_a_rebuild(builder: Builder) -> None:
    assert [builder.get({"packages": ["x"]}), builder.get({"packages": ["y"]})] == [1, 2]


def test_missing_truncated_and_extra_files_cause_a_rebuild(builder: Builder) -> None:
    builder.get()
    (builder.folder / "b").unlink()
    assert builder.get() == 2
    (builder.folder / "inner/a").write_text("")
    assert builder.get() == 3
    (builder.folder / "extra").touch()
    assert builder.get() == 4


def test_a_damaged_stamp_causes_a_rebuild(builder: Builder) -> None:
    builder.get()
    (builder.folder / ".stamp.json").write_text('["not a stamp')
    assert builder.get() == 2


def test_bytecode_may_be_added(builder: Builder) -> None:
    builder.get()
    (builder.folder / "inner/__pycache__").mkdir()
    (builder.folder / "inner/__pycache__/a.pyc").touch()
    assert builder.get() == 1


def test_leftovers_of_a_killed_build_are_removed(builder: Builder) -> None:
    leftover = builder.folder.with_name("thing.partial")
    leftover.mkdir(parents=True)
    (leftover / "inner").write_text("half done")
    assert builder.get() == 1


@pytest.mark.parametrize("error", [OSError("No space left on device"), EmulationUnavailable("no packages")])
def test_a_failed_build_leaves_the_reason_and_nothing_else(tmp_path: Path, error: Exception) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").touch()
        raise error

    with pytest.raises(EmulationUnavailable, match=str(error)):
        built(tmp_path / "thing", 1, fail)
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArmnetError, match=r"cannot write the cache .*file/cache"), locked(tmp_path / "file/cache"):
        pass


@pytest.mark.parametrize(("patience", "words"), [(60.0, 0), (0.0, 1)])
def test_a_second_preparation_waits_for_the_first_and_says_so_if_it_is_long(
    patience: float, words: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache, "PATIENCE", patience)
    order: List[str] = []

    def second() -> None:
        with locked(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    with locked(tmp_path):
        thread.start()
        thread.join(timeout=0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert capsys.readouterr().err.count("waiting for another process") == words
