"""The codec: it reads what protobuf's rules allow, writes what the schema declares, and refuses the rest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime_arm.errors import FormatError
from runtime_arm.netdef import Argument, NetDef, OperatorDef, decoder
from runtime_arm.netdef.encoder import ALIGNMENT, LARGE, SMALL_ALIGNMENT, encode_net
from tests.runtime_arm.netdef import protobuf_bytes as pb
from tests.runtime_arm.netdef.strategies import nets


def read_argument(data: bytes) -> Argument:
    return NetDef.from_bytes(data).op[0].arg[0]


@given(nets)
@settings(max_examples=300)
def test_every_net_survives_its_bytes(net: NetDef) -> None:
    assert NetDef.from_bytes(net.to_bytes()) == net


def test_an_empty_net_has_no_bytes() -> None:
    assert NetDef().to_bytes() == b""
    assert NetDef.from_bytes(b"") == NetDef()


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=300), st.integers(0, 300))
def test_ints_may_be_packed_or_not_or_both(values: list[int], cut: int) -> None:
    for data in (
        pb.argument(pb.packed(6, values)),
        pb.argument(*(pb.integer(6, value) for value in values)),
        pb.argument(pb.packed(6, values[:cut]), *(pb.integer(6, value) for value in values[cut:])),
        pb.argument(*(pb.integer(6, value) + pb.integer(50, value) for value in values)),
    ):
        assert read_argument(data).ints.tolist() == values
    assert NetDef(op=(OperatorDef("Op", arg=(Argument.of("x", values),)),)).to_bytes() == pb.argument(
        *(pb.integer(6, value) for value in values)
    )


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=300), st.integers(0, 300))
def test_floats_may_be_packed_or_not_or_both(values: list[float], cut: int) -> None:
    def packed(items: list[float]) -> bytes:
        return pb.content(5, np.array(items, "<f4").tobytes())

    for data in (
        pb.argument(packed(values)),
        pb.argument(*(pb.single(5, value) for value in values)),
        pb.argument(*(pb.single(5, value) for value in values[:cut]), packed(values[cut:])),
        pb.argument(*(pb.single(5, value) + pb.integer(50, 3) for value in values)),
    ):
        assert read_argument(data).floats.tolist() == values
    assert NetDef(op=(OperatorDef("Op", arg=(Argument.of("x", [float(v) for v in values]),)),)).to_bytes() == (
        pb.argument(*(pb.single(5, value) for value in values))
    )


@pytest.mark.parametrize("count", [7, 8, 9, 100, 1023, 300_000])
def test_runs_of_any_length_are_read_and_written_whole(count: int) -> None:
    rng = np.random.default_rng(count)
    ints = rng.integers(-(2**63), 2**63 - 1, count) >> rng.integers(0, 63, count)
    floats = rng.standard_normal(count).astype(np.float32)
    op = OperatorDef("Op", arg=(Argument("i", ints=ints), Argument("f", floats=floats)))
    assert NetDef.from_bytes(NetDef(op=(op,)).to_bytes()).op[0] == op


def test_runs_end_where_another_field_begins() -> None:
    ints, floats = list(range(-50, 2000)), [value / 2 for value in range(3000)]
    runs = [*(pb.integer(6, value) for value in ints), *(pb.single(5, value) for value in floats)]
    argument = read_argument(pb.argument(*runs, pb.content(7, b"middle"), *runs, pb.integer(3, 9)))
    assert argument.ints.tolist() == 2 * ints
    assert argument.floats.tolist() == 2 * floats
    assert (argument.strings, argument.i) == ((b"middle",), 9)


def test_a_tag_of_two_bytes_where_one_would_do_is_read() -> None:
    overlong = b"\xad\x00" + pb.single(5, 1.5)[1:]
    assert read_argument(pb.argument(overlong, pb.single(5, 2.5))).floats.tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("number", "fields", "expected"),
    [
        (1, [pb.content(3, np.array([1, 2], "<f4").tobytes())], np.array([1, 2], np.float32)),
        (1, [pb.single(3, 1), pb.single(3, 2)], np.array([1, 2], np.float32)),
        (1, [pb.content(13, np.array([1, 2], "<f4").tobytes())], np.array([1, 2], np.float32)),
        (1, [pb.content(13, b"\x80\x3f\x00\x40"), pb.integer(15, 1)], np.array([1, 2], np.float32)),
        (2, [pb.packed(4, [-1, 7])], np.array([-1, 7], np.int32)),
        (2, [pb.integer(4, -1), pb.integer(4, 7)], np.array([-1, 7], np.int32)),
        (3, [pb.content(5, b"\x01\xff")], np.array([1, 255], np.uint8)),
        (5, [pb.packed(4, [0, 1])], np.array([False, True])),
        (5, [pb.content(13, b"\x00\x07")], np.array([False, True])),
        (6, [pb.packed(4, [1, 255])], np.array([1, 255], np.uint8)),
        (6, [pb.content(5, b"\x01\xff")], np.array([1, 255], np.uint8)),
        (7, [pb.packed(4, [1, -128])], np.array([1, -128], np.int8)),
        (8, [pb.packed(4, [1, 65535])], np.array([1, 65535], np.uint16)),
        (9, [pb.packed(4, [1, -32768])], np.array([1, -32768], np.int16)),
        (10, [pb.packed(10, [-1, 1 << 62])], np.array([-1, 1 << 62])),
        (12, [pb.packed(4, [0x3C00, 0xC000])], np.array([1, -2], np.float16)),
        (13, [pb.content(9, np.array([1, 2], "<f8").tobytes())], np.array([1, 2], np.float64)),
        (13, [pb.double(9, 1), pb.double(9, 2)], np.array([1, 2], np.float64)),
        (101, [pb.content(13, b"\xff\xff\xff\xff\x01\0\0\0")], np.array([2**32 - 1, 1], np.uint32)),
    ],
)
def test_tensor_data_is_read_from_every_field_that_may_hold_it(
    number: int, fields: list[bytes], expected: np.ndarray
) -> None:
    value = read_argument(pb.tensor(pb.integer(1, 2), pb.integer(2, number), *fields)).t
    assert value is not None
    assert value.dtype == expected.dtype
    assert value.flags.aligned
    assert not value.flags.writeable
    np.testing.assert_array_equal(value, expected)


def test_strings_are_tensors_of_objects() -> None:
    value = read_argument(pb.tensor(pb.integer(1, 2), pb.integer(2, 4), pb.content(6, b"a"), pb.content(6, b""))).t
    assert value is not None
    assert value.tolist() == [b"a", b""]


def test_data_type_is_float_and_dims_are_a_scalar_by_default() -> None:
    value = read_argument(pb.tensor(pb.single(3, 2.5))).t
    assert value is not None
    assert (value.shape, value.dtype, float(value)) == ((), np.float32, 2.5)


REFUSED = {
    "too few": (pb.tensor(pb.integer(1, 3), pb.single(3, 1)), "dims [3] need 3 elements, the data has 1"),
    "too many": (pb.tensor(pb.integer(1, 1), pb.single(3, 1), pb.single(3, 1)), "dims [1] need 1 elements"),
    "no data": (pb.tensor(pb.integer(1, 4), pb.integer(2, 101)), "dims [4] need 4 elements, the data has 0"),
    "huge": (pb.tensor(pb.integer(1, 1 << 31), pb.integer(1, 1 << 31)), "are not possible"),
    "huge and empty": (pb.tensor(pb.integer(1, 0), pb.integer(1, 1 << 62)), "are not possible"),
    "negative": (pb.tensor(pb.integer(1, -1)), "dims [-1] are not possible"),
    "many dims": (pb.tensor(*[pb.integer(1, 1)] * 33, pb.single(3, 1)), "33 dims"),
    "raw length": (pb.tensor(pb.integer(1, 1), pb.content(13, b"abc")), "3 bytes is no multiple of 4"),
    "packed length": (pb.tensor(pb.integer(1, 1), pb.content(3, b"abc")), "3 bytes are not a multiple of 4"),
    "range": (pb.tensor(pb.integer(1, 1), pb.integer(2, 6), pb.packed(4, [256])), "256, which is no uint8"),
    "data type": (pb.tensor(pb.integer(2, 77)), "data type 77 is not supported"),
    "no data type": (pb.tensor(pb.integer(2, 0)), "data type 0 is not supported"),
    "string": (pb.net(pb.content(1, b"\xff")), "a string that is not UTF-8"),
    "group": (pb.net(b"\x0b"), "wire type 3, which is a group or does not exist"),
    "field 0": (pb.net(b"\x00\x00"), "field number 0 does not exist"),
    "long varint": (pb.net(pb.varint(5 << 3) + b"\xff" * 11), "a varint is longer than 10 bytes"),
    "long packed varint": (pb.argument(pb.content(6, b"\x80" * 11 + b"\x01")), "a varint is longer than 10 bytes"),
    "cut run": (pb.argument(*[pb.single(5, 1)] * 3, pb.single(5, 1)[:3]), "field 5 takes 4 bytes, 2 are left"),
    "cut varint": (pb.argument(pb.content(6, b"\x01\x80")), "the bytes end inside a varint"),
    "length": (b"\x12\xff\xff\xff\xff\x0f", "takes 4294967295 bytes, 0 are left"),
    "kind": (pb.net(pb.integer(4, 3)), "wire type 0 where a string is expected"),
    "kind of list": (pb.argument(pb.single(6, 3)), "wire type 5 where a int64 is expected"),
    "kind of message": (b"\x10\x01", "wire type 0 where a message is expected"),
    "twice": (pb.argument(pb.content(8), pb.content(8)), "the field occurs twice"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bytes_that_are_not_a_net_are_refused_with_their_place(case: str) -> None:
    data, problem = REFUSED[case]
    with pytest.raises(FormatError) as caught:
        NetDef.from_bytes(data, "model.pb")
    assert problem in str(caught.value)
    assert str(caught.value).startswith("model.pb: op[0]")


def test_the_message_names_operator_argument_and_byte() -> None:
    good = pb.net(pb.content(4, b"Relu"))
    with pytest.raises(FormatError) as caught:
        NetDef.from_bytes(good + pb.argument(pb.content(6, b"\x80")), "init_net.pb")
    assert str(caught.value) == (
        "init_net.pb: op[1] Op arg[0] 'x' ints: the bytes end inside a varint (at byte 22 of 22)"
    )


def test_nets_inside_nets_have_a_limit() -> None:
    data = b""
    for _ in range(40):
        data = pb.net(pb.content(5, pb.content(8, data)))
    with pytest.raises(FormatError, match="levels deep"):
        NetDef.from_bytes(data)
    net = NetDef()
    for _ in range(30):
        net = NetDef(op=(OperatorDef("If", arg=(Argument("n", n=net),)),))
    assert NetDef.from_bytes(net.to_bytes()) == net


def test_a_flood_of_messages_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder, "MOST_MESSAGES", 100)
    assert len(NetDef.from_bytes(pb.net() * 99).op) == 99
    with pytest.raises(FormatError, match="100 messages"):
        NetDef.from_bytes(pb.net() * 100)


def test_unknown_fields_are_skipped() -> None:
    unknown = pb.integer(99, 5) + pb.content(100, b"abc") + pb.single(101, 1) + pb.double(102, 1)
    assert NetDef.from_bytes(unknown + pb.net(unknown, pb.content(4, b"Op"))) == NetDef(op=(OperatorDef("Op"),))


def test_the_last_of_a_repeated_single_field_counts() -> None:
    assert NetDef.from_bytes(pb.content(1, b"a") + pb.content(1, b"b")).name == "b"


def test_integers_are_truncated_to_the_width_of_their_field() -> None:
    option = NetDef.from_bytes(pb.content(5, pb.integer(2, -1), pb.integer(3, (1 << 40) + 5))).device_option
    assert option is not None
    assert (option.device_id, option.random_seed) == (-1, 5)


def weights(count: int) -> NetDef:
    rng = np.random.default_rng(0)
    fills = [
        OperatorDef.of(
            "GivenTensorFill", [], [f"w{i}"], name="n" * i, values=rng.standard_normal(i * i).astype(np.float32)
        )
        for i in range(1, count)
    ]
    return NetDef("init", tuple(fills))


def test_arrays_are_read_in_place_from_aligned_bytes() -> None:
    net = weights(90)
    data = np.frombuffer(net.to_bytes(), np.uint8)
    start = data.__array_interface__["data"][0]
    again = NetDef.from_bytes(data.data)
    assert again == net
    for op in again.op:
        array = op.get_tensor("values")
        assert array.flags.aligned
        if array.nbytes >= ALIGNMENT:
            assert np.shares_memory(array, data)
            alignment = ALIGNMENT if array.nbytes >= LARGE else SMALL_ALIGNMENT
            assert (array.__array_interface__["data"][0] - start) % alignment == 0


@pytest.mark.parametrize(("nbytes", "alignment"), [(LARGE, ALIGNMENT), (256, SMALL_ALIGNMENT)])
def test_filler_takes_no_more_than_it_has_to(nbytes: int, alignment: int) -> None:
    """A file has one for each weight. One or two bytes are too few for a field, and need another alignment's worth."""
    array, rest = np.zeros(nbytes, np.int8), []
    for length in range(ALIGNMENT):
        op = OperatorDef.of("GivenTensorFill", [], ["w"], name="n" * length, values=array)
        rest.append(len(NetDef("init", (op,)).to_bytes()) - length - nbytes)
    assert max(rest) - min(rest) < alignment + 3


@pytest.mark.parametrize("small", [1, 2, 3, 7])
def test_a_big_array_behind_small_ones_in_one_operator_is_aligned(small: int) -> None:
    """As the weights of a branch are."""
    arrays = [np.arange(3, dtype=np.float32)] * small + [np.arange(LARGE, dtype=np.float32)] * 2
    branch = NetDef("branch", tuple(OperatorDef.of("GivenTensorFill", [], ["w"], values=array) for array in arrays))
    data = np.frombuffer(NetDef("net", (OperatorDef.of("If", ["c"], ["y"], then_net=branch),)).to_bytes(), np.uint8)
    branch_again = NetDef.from_bytes(data.data).op[0].get_net("then_net")
    assert branch_again == branch
    first_big = branch_again.op[small].get_tensor("values")
    assert (first_big.__array_interface__["data"][0] - data.__array_interface__["data"][0]) % ALIGNMENT == 0


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_arrays_that_are_not_aligned_are_copied(shift: int) -> None:
    net = weights(20)
    data = memoryview(bytes(shift) + net.to_bytes())[shift:]
    again = NetDef.from_bytes(data)
    assert again == net
    assert all(op.get_tensor("values").flags.aligned for op in again.op)


def test_writing_copies_no_weights() -> None:
    array = np.zeros((1024, 1024), np.float32)
    net = NetDef(op=(OperatorDef("Fill", (), ("w",), (Argument("t", t=array), Argument("f", floats=array.ravel()))),))
    pieces = list(encode_net(net))
    views = [piece for piece in pieces if isinstance(piece, memoryview)]
    assert len(views) == 1
    assert np.shares_memory(np.frombuffer(views[0], np.uint8), array)
    assert max(len(piece) for piece in pieces if isinstance(piece, bytes)) < 1 << 20
    assert NetDef.from_bytes(b"".join(pieces)) == net


@pytest.mark.parametrize("array", [np.zeros((3, 4), ">f4"), np.arange(24.0).reshape(4, 6)[::2, ::3], np.float32(3)])
def test_arrays_of_any_layout_are_written(array: np.ndarray) -> None:
    net = NetDef(op=(OperatorDef.of("Fill", [], ["w"], t=np.asarray(array)),))
    value = NetDef.from_bytes(net.to_bytes()).op[0].get_tensor("t")
    np.testing.assert_array_equal(value, array)
    assert value.dtype == array.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    ("argument", "problem"),
    [
        (Argument("c", t=np.zeros(1, np.complex64)), "complex64 has no place in a net"),
        (Argument("o", t=np.array([None], object)), "may hold strings only, not NoneType"),
        (Argument("i", i=1 << 63), "i = 9223372036854775808 does not fit int64"),
        (Argument("f", f=1e300), "f = 1e+300 does not fit float"),
    ],
)
def test_values_that_the_format_cannot_hold_are_refused(argument: Argument, problem: str) -> None:
    with pytest.raises(FormatError) as caught:
        NetDef(op=(OperatorDef("Op", arg=(argument,)),)).to_bytes()
    assert problem in str(caught.value)
