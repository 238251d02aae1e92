"""Types of A, x and y and the promise on sums."""

import sys

import numpy as np
import pytest
import scipy.sparse

import spjit


@pytest.fixture
def whole():
    """[12, 10] of whole numbers up to 7, which every type has."""
    rows, columns = np.indices((12, 10))
    return scipy.sparse.csr_array(
        ((rows * columns) % 8 * ((rows + columns) % 3 != 0)).astype(np.float32))


def test_sums_of_integers_are_exact(whole):
    kernel = spjit.compile(whole, types=("i8", "u8", "i32"), accumulate="integer")
    x = np.arange(30, dtype=np.uint8).reshape(3, 10) * 8

    y = kernel(x)

    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, x.astype(np.int64) @ whole.toarray().T.astype(np.int64))
    assert kernel.info["family"] in ("byte_windows", "reference")  # without AVX2
    assert kernel.info["numerics"] == {"a": "i8", "b": "u8", "c": "i32", "accumulate": "integer"}


def test_float16_in_and_out(whole):
    kernel = spjit.compile(whole, types=("f16", "f16", "f16"), residual=True)
    x = np.linspace(-1, 1, 40, dtype=np.float16).reshape(4, 10)
    residual = np.ones((4, 12), np.float16)

    y = kernel(x, residual=residual)

    assert y.dtype == np.float16
    np.testing.assert_allclose(y, x.astype(np.float64) @ whole.toarray().T + 1, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("types", [("bf16", "bf16", "bf16"), ("f16", "f16", "f16"),
                                   ("i8", "f32", "f32"), ("i4", "bf16", "f32")])
@pytest.mark.parametrize("n", [1, 40])
def test_sums_in_order_have_a_fast_family(whole, types, n):
    assert spjit.compile(whole, types=types, n=n).info["family"] != "reference"


def test_strides_count_bytes_of_each_type(whole):
    kernel = spjit.compile(whole, types=("i8", "i8", "i32"), accumulate="integer",
                           layout="features", n=3)
    wide = np.ones((10, 8), np.int8)
    out = np.full((12, 5), -1, np.int32)

    kernel(wide[:, 2:5], out=out[:, 1:4])

    np.testing.assert_array_equal(out[:, 1], whole.toarray().sum(axis=1))
    assert (out[:, [0, 4]] == -1).all()
    with pytest.raises(spjit.InvalidArgument, match=r"expected 1 \(of x\) and 4 in one"):
        kernel(wide[:, ::2][:, :3], out=out[:, 1:4])


def test_bfloat16_of_ml_dtypes(whole):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kernel = spjit.compile(whole, types=("bf16", "bf16", "bf16"))
    x = np.ones((2, 10), ml_dtypes.bfloat16)

    y = kernel(x)

    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y.astype(np.float32), np.tile(whole.toarray().sum(1), (2, 1)))


def test_bfloat16_of_torch(whole):
    torch = pytest.importorskip("torch")
    kernel = spjit.compile(whole, types=("bf16", "bf16", "bf16"))
    x = torch.ones((2, 10), dtype=torch.bfloat16)
    out = torch.zeros((2, 12), dtype=torch.bfloat16)

    kernel(x, out=out)

    np.testing.assert_array_equal(out.float().numpy(), np.tile(whole.toarray().sum(1), (2, 1)))
    with pytest.raises(TypeError, match="x is float32; expected bfloat16"):
        kernel(x.float(), out=out)


def test_a_new_bfloat16_needs_a_dtype(whole, monkeypatch):
    kernel = spjit.compile(whole, types=("f32", "f32", "bf16"))
    monkeypatch.delitem(sys.modules, "ml_dtypes", raising=False)

    with pytest.raises(spjit.InvalidArgument, match="y is bfloat16, which numpy does not have"):
        kernel(np.ones((2, 10), np.float32))


def test_another_type_is_a_type_error(whole):
    kernel = spjit.compile(whole, types=("f32", "f16", "f32"))

    with pytest.raises(TypeError, match=r"x is float32; expected float16: x.astype\(numpy.float16"):
        kernel(np.ones((2, 10), np.float32))
    with pytest.raises(TypeError, match="out is float16; expected float32"):
        kernel(np.ones((2, 10), np.float16), out=np.ones((2, 12), np.float16))


def test_a_value_that_the_type_does_not_have_is_named():
    a = scipy.sparse.csr_array(np.array([[0, 0.1]], np.float32))

    with pytest.raises(spjit.InvalidArgument, match=r"A\[0\]\[1\] is 0.1, which bf16 does not"):
        spjit.compile(a, types=("bf16", "f32", "f32"))


@pytest.mark.parametrize("fields, message", [
    ({"types": ("f32", "f32")}, "expected three"),
    ({"types": "f32"}, "expected three"),
    ({"types": ("f32", "float32", "f32")}, "a type is 'float32'"),
    ({"accumulate": "exact"}, "expected 'ordered'"),
    ({"accumulate": "bounded:2"}, "expected 'ordered'"),
    ({"accumulate": "bounded:nan"}, "expected 'ordered'"),
    ({"accumulate": 3}, "expected 'ordered'"),
])
def test_what_is_no_type_or_promise_is_refused(fields, message):
    with pytest.raises(spjit.InvalidArgument, match=message):
        spjit.Problem(**fields)


def test_a_bounded_promise_is_read(whole):
    kernel = spjit.compile(whole, accumulate="bounded:1e-3")

    assert kernel.info["numerics"]["accumulate"] == "bounded:0.001"
