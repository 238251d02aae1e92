"""Calls that the library looks at itself, beside those that Python code looks at."""

import sys

import numpy as np
import pytest
import scipy.sparse
import spjit
from spjit._fast_call import nothing_done

IN, OUT, TOKENS = 12, 9, 4


def checked(kernel):
    """The same kernel, whose calls Python code looks at."""
    slow = object.__new__(type(kernel))
    slow.__dict__.update(kernel.__dict__, _fast_call=nothing_done)
    return slow


@pytest.fixture(scope="module")
def weights():
    return scipy.sparse.random(OUT, IN, 0.4, "csr", np.float32, np.random.default_rng(3))


def kernels(weights):
    for layout in ("tokens", "features"):
        for n in (None, TOKENS, 1):
            yield spjit.compile(weights, n=n, layout=layout)
            yield spjit.compile(weights, n=n, layout=layout, bias=True, scale=True, residual=True)


def random_view(rng, shape):
    """An array of this shape in larger memory, strided in some way; now and then another shape,
    type or order."""
    choice = rng.integers(30)
    if choice == 0:
        shape = (*shape[:-1], shape[-1] + 1)
    if choice == 1:
        shape = (1, *shape)
    if choice == 2:
        shape = shape[1:]
    dtype = np.float64 if choice == 3 else np.int32 if choice == 4 else np.float32
    steps = [int(rng.choice((1,) * 12 + (2, -1))) for _ in shape]
    extents = [extent * abs(step) + int(rng.choice((0, 0, 3)))
               for extent, step in zip(shape, steps)]
    order = rng.permutation(len(shape)) if rng.integers(4) == 0 else range(len(shape))
    memory = rng.standard_normal([extents[i] for i in order]).astype(dtype)
    memory = memory.transpose(np.argsort(list(order))) if len(shape) else memory
    view = memory[tuple(slice(None, None, step) for step in steps)]
    view = view[tuple(slice(extent) for extent in shape)]
    if choice == 5:
        view.flags.writeable = False
    if choice == 6:
        view = view.view(np.ma.MaskedArray)
    if choice == 7:
        view = np.broadcast_to(view[:1], view.shape) if view.ndim else view
    return view


def outcome(kernel, operands):
    """What a call gives, or says."""
    try:
        return kernel(**operands), None
    except Exception as error:  # whatever it is, both have to raise it
        return None, (type(error), str(error))


def test_gives_and_says_what_python_code_does(weights):
    rng = np.random.default_rng(5)
    fast = 0
    for kernel in kernels(weights):
        slow = checked(kernel)
        for _ in range(400):
            n = kernel.n or int(rng.integers(0, 6))
            lead = [(), (1,), (2,), (2, 3)][rng.integers(4)]
            dims = (n,) if n != 1 or rng.integers(2) else ()
            tokens = kernel.layout == "tokens"
            x_shape = (*lead, *dims, IN) if tokens else (*lead, IN, n)
            y_shape = (*lead, *dims, OUT) if tokens else (*lead, OUT, n)
            operands = {"x": random_view(rng, x_shape)}
            has = kernel._has[0] if rng.integers(12) else not kernel._has[0]
            if has:
                operands |= {"bias": random_view(rng, (OUT,)), "scale": random_view(rng, (OUT,)),
                             "residual": random_view(rng, y_shape)}
            if rng.integers(3):
                operands["out"] = random_view(rng, y_shape)
            if has and rng.integers(4) == 0:
                operands["residual"] = operands.get("out")
            given = operands.get("out")
            before = None if given is None else given.copy()

            y, error = outcome(kernel, operands)
            ours = None if y is None else np.array(y)
            if given is not None and given.flags.writeable:
                given[...] = before
            expected, expected_error = outcome(slow, operands)

            assert error == expected_error
            if expected is None:
                continue
            assert type(y) is type(expected) and y.shape == expected.shape
            assert y.dtype == expected.dtype and (given is None or y is given)
            np.testing.assert_array_equal(ours, expected)
            fast += kernel._fast_call(*(operands.get(name) for name in (
                "x", "out", "bias", "scale", "residual"))) is not None
    assert fast > 500, fast


def test_takes_the_usual_calls_itself(weights):
    x = np.ones((TOKENS, IN), np.float32)
    y = np.empty((TOKENS, OUT), np.float32)
    wide = np.ones((TOKENS, IN + 3), np.float32)
    tokens = spjit.compile(weights)
    features = spjit.compile(weights, layout="features", n=TOKENS)

    assert tokens._fast_call(x, y, None, None, None) is y
    assert tokens._fast_call(x[0], None, None, None, None).shape == (OUT,)
    assert tokens._fast_call(x[:, None], None, None, None, None).shape == (TOKENS, 1, OUT)
    assert tokens._fast_call(wide[:, 1:-2], y[::1], None, None, None) is not None
    assert features._fast_call(x.T.copy(), None, None, None, None).shape == (OUT, TOKENS)


def test_leaves_what_is_not_usual(weights):
    x = np.ones((TOKENS, IN), np.float32)
    bias = np.ones(OUT, np.float32)
    kernel = spjit.compile(weights)
    unaligned = np.frombuffer(bytearray(4 * IN + 1), np.float32, IN, 1)
    swapped = x.astype(">f4")

    for given in (None, 1, "x", [1.0], x.tolist(), x.astype(np.float64), x.T, x[:, :0], x[:0],
                  unaligned, swapped, x.view(np.ma.MaskedArray), np.float32(1), np.ndarray):
        assert kernel._fast_call(given, None, None, None, None) is None
        assert kernel._fast_call(x, given, None, None, None) is None or given is None
    assert kernel._fast_call(x, None, bias, None, None) is None
    assert kernel._fast_call(x, None, None, bias, None) is None
    assert kernel._fast_call(x, None, None, None, bias) is None


def test_raises_what_the_library_says(weights):
    square = scipy.sparse.eye(IN, dtype=np.float32, format="csr")
    x = np.ones((TOKENS, IN), np.float32)
    kernel = spjit.compile(square)

    with pytest.raises(spjit.InvalidArgument, match="b and c overlap"):
        kernel._fast_call(x, x, None, None, None)


def test_holds_no_references(weights):
    x = np.ones((TOKENS, IN), np.float32)
    y = np.empty((TOKENS, OUT), np.float32)
    kernel = spjit.compile(weights)
    constants = (None, np.ndarray, np.empty, np.dtype(np.float32), x, y, "torch")
    before = [sys.getrefcount(constant) for constant in constants]

    for _ in range(1000):
        kernel(x, out=y)
        kernel(x)
        kernel._fast_call(x.T, None, None, None, None)
        kernel._fast_call("x", y, None, None, None)

    after = [sys.getrefcount(constant) for constant in constants]
    assert max(abs(now - then) for now, then in zip(after, before)) < 100


def test_a_kernel_that_goes_gives_back_what_it_held(weights):
    held = (np.empty, np.ndarray, np.dtype(np.float32))
    before = [sys.getrefcount(one) for one in held]

    for _ in range(200):
        spjit.compile(weights)

    after = [sys.getrefcount(one) for one in held]
    assert max(abs(now - then) for now, then in zip(after, before)) < 100


def test_takes_tensors_of_torch(weights):
    torch = pytest.importorskip("torch")
    if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        pytest.skip("this torch has no C interface of DLPack")
    kernel = spjit.compile(weights)
    x = torch.ones((TOKENS, IN))
    y = torch.empty((TOKENS, OUT))
    expected = kernel(x.numpy())

    class Other(torch.Tensor):
        pass

    assert kernel._fast_call(x, y, None, None, None) is y
    np.testing.assert_array_equal(y.numpy(), expected)
    np.testing.assert_array_equal(kernel._fast_call(x, None, None, None, None), expected)
    for given in (x.double(), x.clone().requires_grad_(), x.to("meta"), x.to_sparse(),
                  torch.complex(x, x).conj().imag, x.as_subclass(Other), x.T, x[:0], torch.Tensor):
        assert kernel._fast_call(given, None, None, None, None) is None
