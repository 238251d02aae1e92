"""Recurrent layers of kernels, against loops in float64."""

import numpy as np
import pytest
import scipy.sparse

import spjit

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 6, 9


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Weights:
    """Of one direction; of an LSTM [i, f, g, o], of a GRU [r, z, n]."""

    def __init__(self, rng, cell, outputs=HIDDEN):
        gates = {"lstm": 4, "gru": 3, "gru-reset-first": 3}.get(cell, 1)

        def sparse(rows, cols):
            return (rng.standard_normal((rows, cols)) * (rng.random((rows, cols)) < 0.4)).astype(
                np.float32)

        recurrent = gates - 1 if cell == "gru-reset-first" else gates
        self.input = sparse(gates * HIDDEN, INPUTS)
        self.recurrent = sparse(recurrent * HIDDEN, outputs)
        self.candidate = sparse(HIDDEN, HIDDEN) if cell == "gru-reset-first" else None
        self.projection = sparse(outputs, HIDDEN) if outputs != HIDDEN else None
        self.biases = [rng.standard_normal(rows).astype(np.float32) for rows in (
            gates * HIDDEN, recurrent * HIDDEN, HIDDEN)]


def advance(cell, w, x, h, c):
    of_x = np.split(w.input @ x + w.biases[0], max(len(w.biases[0]) // HIDDEN, 1))
    of_h = np.split(w.recurrent @ h + w.biases[1], len(w.biases[1]) // HIDDEN)
    if cell == "lstm":
        i, f, g, o = (a + b for a, b in zip(of_x, of_h))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h if w.projection is None else w.projection @ h), c
    if cell == "rnn-tanh":
        return np.tanh(of_x[0] + of_h[0]), c
    if cell == "rnn-relu":
        return np.maximum(of_x[0] + of_h[0], 0), c
    r, z = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
    n = r * of_h[2] if cell == "gru" else w.candidate @ (r * h) + w.biases[2]
    return (1 - z) * np.tanh(of_x[2] + n) + z * h, c


def by_loops(cell, weights, x, h0, c0, lengths, reverse):
    x, h_n, c_n = x.astype(np.float64), h0.astype(np.float64), c0.astype(np.float64)
    y = np.zeros((*x.shape[:2], len(weights), h0.shape[2]))
    for d, w in enumerate(weights):
        for b, length in enumerate(lengths):
            steps = range(length)
            for t in (reversed(steps) if d or reverse else steps):
                h_n[d, b], c_n[d, b] = advance(cell, w, x[t, b], h_n[d, b], c_n[d, b])
                y[t, b, d] = h_n[d, b]
    return y.reshape(*x.shape[:2], -1), h_n, c_n


def layer_of(cell, weights, direction):
    def kernels(name, bias=True):
        if getattr(weights[0], name) is None:
            return None
        return [spjit.compile(getattr(w, name), bias=bias) for w in weights]

    return spjit.Recurrent(cell, kernels("input"), kernels("recurrent"),
                           candidate=kernels("candidate"),
                           projection=kernels("projection", bias=False), direction=direction)


def biases_of(weights):
    names = ("input_bias", "recurrent_bias", "candidate_bias")
    used = 2 if weights[0].candidate is None else 3
    return {name: [w.biases[i] for w in weights] for i, name in enumerate(names[:used])}


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def assert_near(result, expected):
    np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("direction", ["forward", "reverse", "both"])
@pytest.mark.parametrize("cell", ["lstm", "gru", "gru-reset-first", "rnn-tanh", "rnn-relu"])
@pytest.mark.parametrize("lengths", [None, [5, 0, 2]])
def test_computes_what_loops_say(rng, cell, direction, lengths):
    weights = [Weights(rng, cell) for _ in range(2 if direction == "both" else 1)]
    layer = layer_of(cell, weights, direction)
    x = floats(rng, STEPS, BATCH, INPUTS)
    h0, c0 = (floats(rng, len(weights), BATCH, HIDDEN) for _ in range(2))
    state = {"h0": h0, "c0": c0} if cell == "lstm" else {"h0": h0}

    y, h_n, *c_n = layer(x, lengths=lengths, **state, **biases_of(weights))

    expected = by_loops(cell, weights, x, h0, c0, lengths or [STEPS] * BATCH,
                        direction == "reverse")
    assert_near(y, expected[0])
    assert_near(h_n, expected[1])
    assert len(c_n) == (cell == "lstm")
    if c_n:
        assert_near(c_n[0], expected[2])
    assert (layer.inputs, layer.hidden, layer.outputs) == (INPUTS, HIDDEN, HIDDEN)


def test_projects_the_state_of_an_lstm(rng):
    weights = [Weights(rng, "lstm", outputs=4) for _ in range(2)]
    x = floats(rng, STEPS, BATCH, INPUTS)

    y, h_n, c_n = layer_of("lstm", weights, "both")(x, **biases_of(weights))

    expected = by_loops("lstm", weights, x, np.zeros((2, BATCH, 4)), np.zeros((2, BATCH, HIDDEN)),
                        [STEPS] * BATCH, False)
    for result, reference in zip((y, h_n, c_n), expected):
        assert_near(result, reference)


def test_batches_first_and_strided_rows_have_the_same_bits(rng):
    weights = [Weights(rng, "gru") for _ in range(2)]
    layer, biases = layer_of("gru", weights, "both"), biases_of(weights)
    x = floats(rng, STEPS, BATCH, INPUTS)
    y, h_n = layer(x, **biases)

    swapped, h_swapped = layer(np.ascontiguousarray(x.swapaxes(0, 1)), batch_first=True, **biases)
    np.testing.assert_array_equal(swapped.swapaxes(0, 1), y)
    np.testing.assert_array_equal(h_swapped, h_n)

    wide = floats(rng, STEPS, 2 * BATCH, INPUTS + 3)
    wide[:, ::2, :INPUTS] = x
    np.testing.assert_array_equal(layer(wide[:, ::2, :INPUTS], **biases)[0], y)


@pytest.mark.parametrize(("steps", "batch"), [(0, 2), (2, 0), (0, 0), (1, 1)])
def test_no_steps_and_no_sequences_are_legal(rng, steps, batch):
    weights = [Weights(rng, "lstm")]
    h0, c0 = (floats(rng, 1, batch, HIDDEN) for _ in range(2))

    y, h_n, c_n = layer_of("lstm", weights, "forward")(
        floats(rng, steps, batch, INPUTS), h0=h0, c0=c0, **biases_of(weights))

    assert y.shape == (steps, batch, HIDDEN)
    if steps == 0:
        np.testing.assert_array_equal(h_n, h0)
        np.testing.assert_array_equal(c_n, c0)


def test_no_projection_in_a_list_is_none(rng):
    weights = Weights(rng, "lstm")
    kernels = [spjit.compile(each) for each in (weights.input, weights.recurrent)]

    assert spjit.Recurrent("lstm", *kernels, projection=[None]).outputs == HIDDEN


def test_refuses_what_does_not_fit(rng):
    weights = [Weights(rng, "lstm")]
    layer, biases = layer_of("lstm", weights, "forward"), biases_of(weights)
    x = floats(rng, STEPS, BATCH, INPUTS)

    def refused(text, error=spjit.InvalidArgument, **given):
        with pytest.raises(error) as raised:
            layer(**{"x": x, **biases, **given})
        assert text in str(raised.value)

    refused("x has the shape [5, 3, 5]; expected [steps, batch, 6]", x=x[..., :5])
    refused("expected [batch, steps, 6]", x=x[0], batch_first=True)
    refused("x is float64", TypeError, x=x.astype(np.float64))
    refused("in the last dimension", x=np.asfortranarray(x))
    refused("h0 has the shape [1, 3, 8]; expected [1, 3, 9]", h0=floats(rng, 1, BATCH, 8))
    refused("expected a contiguous array", c0=floats(rng, 1, HIDDEN, BATCH).swapaxes(1, 2))
    refused("lengths has the shape [2]; expected [3]", lengths=[1, 2])
    refused("lengths is [[1], [2, 3]]; expected [3]", lengths=[[1], [2, 3]])
    refused("the length of sequence 2 is 6; expected 0 to 5", lengths=[1, 2, 6])
    refused("lengths is float64; expected integers", TypeError, lengths=[1.0, 2.0, 3.0])
    refused("the input bias is null", input_bias=None)
    refused("input_bias is of 2 directions; expected 1", input_bias=[biases["input_bias"][0]] * 2)
    refused("candidate", candidate_bias=biases["input_bias"][0][:HIDDEN])


def test_refuses_kernels_that_are_no_layer(rng):
    kernel = spjit.compile(Weights(rng, "lstm").input)

    with pytest.raises(spjit.InvalidArgument, match="cell is 'peephole'; expected one of 'lstm'"):
        spjit.Recurrent("peephole", kernel, kernel)
    with pytest.raises(spjit.InvalidArgument, match=r"cell is \['lstm'\]; expected one of 'lstm'"):
        spjit.Recurrent(["lstm"], kernel, kernel)
    with pytest.raises(spjit.InvalidArgument, match="direction is 'back'"):
        spjit.Recurrent("lstm", kernel, kernel, direction="back")
    with pytest.raises(spjit.InvalidArgument, match="input is of 1 directions; expected 2"):
        spjit.Recurrent("lstm", kernel, kernel, direction="both")
    with pytest.raises(TypeError, match="recurrent is csr_array; expected a Kernel"):
        spjit.Recurrent("lstm", kernel, scipy.sparse.csr_array(np.eye(3)))
    with pytest.raises(spjit.InvalidArgument, match=r"the recurrent kernel is \[36 x 6\]"):
        spjit.Recurrent("lstm", kernel, kernel)
    with pytest.raises(spjit.InvalidArgument, match="an input kernel is NULL"):
        spjit.Recurrent("lstm", None, kernel)
