"""Products with constant weights in other forms than MatMul's X * W."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import spjit.onnx
from onnx import TensorProto, helper, numpy_helper
from onnx_testing import floats, kernels_are_faster, node, sparse  # noqa: F401
from spjit._onnx_graph import survey
from spjit._onnx_products import Terms, arranged
from spjit._onnx_weights import Refused
from spjit.onnx import _graph, _optimize

MINE = "com.microsoft"


def model_of(nodes, constants, x, *, opset=17, ir_version=8, outputs=("y",), more_inputs=()):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), *more_inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()])
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[
        helper.make_opsetid("", opset), helper.make_opsetid(MINE, 1)])


def plain(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def in_double(one, weight, x, place):
    """What the node computes, by numpy in fp64."""
    given = {attribute.name: helper.get_attribute_value(attribute) for attribute in one.attribute}
    operands = [x.astype(np.float64)]
    operands.insert(place, weight.astype(np.float64))
    if one.op_type == "Einsum":
        return np.einsum(given["equation"].decode(), *operands)
    turned = [operand.swapaxes(-1, -2) if given.get(name) else operand
              for operand, name in zip(operands, ("transA", "transB"))]
    return given.get("alpha", 1.0) * np.matmul(*turned)


def optimized(tmp_path, model, x):
    onnx.save(model, tmp_path / "m.onnx")
    return spjit.onnx.optimize(tmp_path / "m.onnx", {"x": x})


def close(y, expected):
    assert y.shape == expected.shape
    if y.size:
        np.testing.assert_allclose(y, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


# Operator, attributes, place of the weights, their shape, that of X, and nodes of the kernels.
FORMS = [
    ("MatMul", {}, 0, (13, 17), (17, 5), 1), ("MatMul", {}, 0, (13, 17), (17, 1), 1),
    ("MatMul", {}, 0, (13, 17), (3, 17, 5), 1), ("MatMul", {}, 0, (13, 17), (1, 17, 5), 1),
    ("MatMul", {}, 0, (13, 17), (2, 3, 17, 5), 1), ("MatMul", {}, 0, (13, 17), (17,), 1),
    ("MatMul", {}, 0, (1, 13, 17), (17, 5), 1), ("MatMul", {}, 0, (1, 13, 17), (3, 17, 5), 1),
    ("MatMul", {}, 0, (3, 13, 17), (3, 17, 5), 3), ("MatMul", {}, 0, (3, 13, 17), (17, 5), 1),
    ("MatMul", {}, 0, (3, 13, 17), (17,), 1), ("MatMul", {}, 0, (3, 13, 17), (2, 3, 17, 5), 3),
    ("MatMul", {}, 1, (3, 17, 13), (3, 5, 17), 3), ("MatMul", {}, 1, (3, 17, 13), (5, 17), 1),
    ("MatMul", {}, 1, (3, 17, 13), (1, 5, 17), 1), ("MatMul", {}, 1, (3, 17, 13), (2, 3, 5, 17), 3),
    ("MatMul", {}, 1, (3, 17, 13), (2, 1, 5, 17), 1), ("MatMul", {}, 1, (3, 17, 13), (17,), 1),
    ("MatMul", {}, 1, (2, 1, 17, 13), (2, 4, 5, 17), 2), ("MatMul", {}, 1, (1, 17, 13), (5, 17), 1),
    ("MatMul", {}, 1, (2, 3, 17, 13), (5, 17), 1),
    ("Gemm", {"transA": 1}, 1, (17, 13), (17, 5), 1),
    ("Gemm", {"transA": 1, "transB": 1, "alpha": 0.5}, 1, (13, 17), (17, 5), 1),
    ("Gemm", {}, 0, (13, 17), (17, 5), 1), ("Gemm", {"transA": 1}, 0, (17, 13), (17, 5), 1),
    ("Gemm", {"transB": 1}, 0, (13, 17), (5, 17), 1),
    ("Gemm", {"transA": 1, "transB": 1, "alpha": -2.0}, 0, (17, 13), (5, 17), 1),
    ("FusedMatMul", {"transA": 1}, 1, (17, 13), (3, 17, 5), 1),
    ("FusedMatMul", {"transA": 1, "transB": 1, "alpha": 0.25}, 1, (13, 17), (17, 5), 1),
    ("FusedMatMul", {"transB": 1, "alpha": 3.0}, 0, (13, 17), (2, 5, 17), 1),
    ("FusedMatMul", {"transA": 1}, 0, (17, 13), (2, 17, 5), 1),
    ("FusedMatMul", {"transB": 1}, 1, (3, 13, 17), (3, 5, 17), 3),
    ("Einsum", {"equation": "bti,oi->bto"}, 1, (13, 17), (2, 5, 17), 1),
    ("Einsum", {"equation": "oi, bit -> bot"}, 0, (13, 17), (2, 17, 5), 1),
    ("Einsum", {"equation": "nchw,oc->nohw"}, 1, (13, 17), (2, 17, 4, 3), 1),
    ("Einsum", {"equation": "btd,dhe->bhte"}, 1, (17, 4, 3), (2, 5, 17), 1),
    ("Einsum", {"equation": "bhte,hed->btd"}, 1, (4, 3, 17), (2, 4, 5, 3), 1),
    ("Einsum", {"equation": "bhte,ehd->btd"}, 1, (3, 4, 17), (2, 4, 5, 3), 1),
    ("Einsum", {"equation": "gtk,gkn->gtn"}, 1, (3, 17, 13), (3, 5, 17), 3),
    ("Einsum", {"equation": "gtk,gkn->tng"}, 1, (3, 17, 13), (3, 5, 17), 3),
    ("Einsum", {"equation": "gtk,gkn->tng"}, 1, (1, 17, 13), (1, 5, 17), 1),
    ("Einsum", {"equation": "gkt,gnk->gnt"}, 1, (3, 13, 17), (3, 17, 5), 3),
    ("Einsum", {"equation": "...k,kn->...n"}, 1, (17, 13), (2, 3, 5, 17), 1),
    ("Einsum", {"equation": "...k,kn->...n"}, 1, (17, 13), (17,), 1),
    ("Einsum", {"equation": "ab,bc"}, 1, (17, 13), (5, 17), 1),
    ("Einsum", {"equation": "ba,ca"}, 0, (13, 17), (5, 17), 1),
]


def form_of(form):
    op, attributes, place, weight, x, kernels = form
    names = ["x"]
    names.insert(place, "w")
    one = helper.make_node(op, names, ["y"], "n", domain=MINE if op == "FusedMatMul" else "",
                           **attributes)
    return one, place, sparse(*weight, zeros=0.8), x, kernels


def kernels_in(model):
    return [one for one in model.graph.node if one.op_type == "SparseLayer"]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_forms_beside_onnx_runtime_and_float64(tmp_path, form):
    one, place, weight, shape, kernels = form_of(form)
    x = floats(*shape)
    model = model_of([one], {"w": weight}, shape)

    fast = optimized(tmp_path, model, x)

    assert len(kernels_in(fast.model)) == kernels, str(fast.report)
    row, = fast.report.rows
    assert (row.sparse, row.kind) == (True, one.op_type.replace("Fused", ""))
    assert row.zeros == pytest.approx(1 - np.count_nonzero(weight) / weight.size)
    assert int(np.prod(row.shape)) == weight.size
    close(fast(x)[0], plain(model, {"x": x})[0])
    close(fast(x)[0], in_double(one, weight, x, place))


def rows_of(form, y):
    """The axis of the result that the rows are."""
    op, attributes, place, *_ = form
    if op == "Einsum":
        return attributes["equation"].replace(" ", "").split("->")[-1].replace("...", "").find("o")
    return y.ndim - 1 if place == 1 or y.ndim == 1 else y.ndim - 2


@pytest.mark.parametrize("form", [one for one in FORMS if one[5] == 1 and (
    one[0] != "Einsum" or "o" in one[1]["equation"])], ids=str)
@pytest.mark.parametrize("fold", [True, False])
def test_what_follows_is_within_or_behind(tmp_path, form, fold):
    """A bias of rows, which a kernel takes, or one of other dimensions; and an activation."""
    one, place, weight, shape, _ = form_of(form)
    x = floats(*shape)
    y = in_double(one, weight, x, place)
    one.output[0] = "p"
    axis = rows_of(form, y) if fold else 0
    bias = floats(*(size if i == axis else 1 for i, size in enumerate(y.shape)))
    model = model_of([one, node("Add", "p b", "q"), node("Relu", "q", "y")],
                     {"w": weight, "b": bias}, shape)

    fast = optimized(tmp_path, model, x)

    assert len(kernels_in(fast.model)) == 1, str(fast.report)
    close(fast(x)[0], np.maximum(y + bias, 0))
    close(fast(x)[0], plain(model, {"x": x})[0])


@pytest.mark.parametrize("form", [
    ("MatMul", {}, 0, (13, 17), (17, "n"), 1), ("MatMul", {}, 0, (13, 17), ("b", 17, "n"), 1),
    ("MatMul", {}, 0, (13, 17), ("b", "c", 17, "n"), 1), ("MatMul", {}, 1, (3, 17, 13),
                                                          (3, "n", 17), 3),
    ("MatMul", {}, 1, (3, 17, 13), ("b", 3, "n", 17), 3), ("Gemm", {"transA": 1}, 1, (17, 13),
                                                           (17, "n"), 1),
    ("Gemm", {"transB": 1}, 0, (13, 17), ("n", 17), 1),
    ("Einsum", {"equation": "btd,dhe->bhte"}, 1, (17, 4, 3), ("b", "n", 17), 1),
    ("Einsum", {"equation": "bhte,hed->btd"}, 1, (4, 3, 17), ("b", 4, "n", 3), 1),
    ("Einsum", {"equation": "nchw,oc->nohw"}, 1, (13, 17), ("b", 17, "n", 3), 1),
    ("Einsum", {"equation": "gtk,gkn->gtn"}, 1, (3, 17, 13), (3, "n", 17), 3)], ids=str)
def test_sizes_that_runs_say(tmp_path, form):
    one, place, weight, shape, kernels = form_of(form)
    model = model_of([one], {"w": weight}, shape)

    def of(**sizes):
        return floats(*(sizes.get(size, size) for size in shape))

    fast = optimized(tmp_path, model, of(b=2, c=2, n=5))
    fast.save(tmp_path / "fast.onnx")
    session = spjit.onnx.load(tmp_path / "fast.onnx")

    assert len(kernels_in(fast.model)) == kernels
    for sizes in ({"b": 1, "c": 1, "n": 1}, {"b": 3, "c": 2, "n": 33}, {"b": 0, "c": 2, "n": 5},
                  {"b": 2, "c": 3, "n": 0}):
        x = of(**sizes)
        expected = in_double(one, weight, x, place)
        close(fast(x)[0], expected)
        close(session.run(None, {"x": x})[0], expected)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_nodes_around_kernels_in_any_version(tmp_path, opset):
    """Axes and sizes of parts are attributes before version 13."""
    weight, left = sparse(3, 17, 13), sparse(4, 17)
    model = model_of([node("MatMul", "x w", "y"), node("MatMul", "v z", "q")],
                     {"w": weight, "v": left}, (3, 5, 17), opset=opset, outputs=("y", "q"),
                     more_inputs=[helper.make_tensor_value_info("z", TensorProto.FLOAT, (17, 3))])
    onnx.save(model, tmp_path / "m.onnx")
    x, z = floats(3, 5, 17), floats(17, 3)

    fast = spjit.onnx.optimize(tmp_path / "m.onnx", x, z)

    assert {one.op_type for one in fast.model.graph.node} == {
        "Split", "SparseLayer", "Concat", "Unsqueeze", "Squeeze"}
    y, q = fast(x, z)
    close(y, np.matmul(x.astype(np.float64), weight))
    close(q, left.astype(np.float64) @ z)


@pytest.mark.parametrize(("c", "apart"), [((13, 1), False), ((), False), ((1, 1), False),
                                          ((5,), True), ((1, 5), True), ((13, 5), True)])
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_sums_of_a_gemm_with_weights_first(tmp_path, c, apart, beta):
    weight, addend, x = sparse(13, 17), floats(*c), floats(17, 5)
    model = model_of([node("Gemm", "w x c", "y", beta=beta)], {"w": weight, "c": addend}, ("k", 5))

    fast = optimized(tmp_path, model, x)

    assert ("Add" in [one.op_type for one in fast.model.graph.node]) == apart
    assert len(kernels_in(fast.model)) == 1
    close(fast(x)[0], weight.astype(np.float64) @ x + beta * addend)


@pytest.mark.parametrize("transposed", ["x", "c"])
def test_a_sum_of_the_outputs_shape_and_transposed_activations(tmp_path, transposed):
    """The residual of a kernel would be of another shape."""
    weight, x = sparse(17, 17), floats(17, 17)
    model = model_of([node("Gemm", "x w x" if transposed == "x" else "w x x", "y",
                           transA=int(transposed == "x"))], {"w": weight}, ("n", 17))

    fast = optimized(tmp_path, model, x)

    assert len(kernels_in(fast.model)) == 1
    exact, w = x.astype(np.float64), weight.astype(np.float64)
    close(fast(x)[0], (exact.T @ w if transposed == "x" else w @ exact) + exact)


def test_weights_of_two_forms_and_results_that_many_see(tmp_path):
    weight, x = sparse(17, 17), floats(17, 17)
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "w a", "b"), node("Relu", "b", "c"),
             node("Gemm", "b w", "d", transA=1), node("Add", "b d", "e"), node("Add", "c e", "y")]
    model = model_of(nodes, {"w": weight}, (17, 17), outputs=("y", "b"))

    fast = optimized(tmp_path, model, x)

    assert len(kernels_in(fast.model)) == 3, str(fast.report)
    for y, expected in zip(fast(x), plain(model, {"x": x})):
        close(y, expected)


def test_names_that_parts_would_have(tmp_path):
    """Kernels of a batch are n/0, n/1, ... where no other layer is called so."""
    batch, one = sparse(2, 17, 17), sparse(17, 17)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["spjit n x of 0"], "n"),
             helper.make_node("MatMul", ["spjit n x of 0", "v"], ["y"], "n/0")]
    model, x = model_of(nodes, {"w": batch, "v": one}, (2, 5, 17)), floats(2, 5, 17)

    fast = optimized(tmp_path, model, x)

    assert len(fast.report.sparse) == 2
    close(fast(x)[0], np.matmul(np.matmul(x.astype(np.float64), batch), one))


# ---- What stays dense -----------------------------------------------------------------------

SQUARE = sparse(17, 17, zeros=0.8)
CHAIN = {"w": SQUARE}


def one_hot(**attributes):
    """Rows of a table by numbers, as TensorFlow has them."""
    return [node("Cast", "x", "i", to=TensorProto.INT64), node("OneHot", "i depth values", "h"),
            *([node("Reshape", "h rows", "r")] if attributes.get("moved") else []),
            node("MatMul", "r w" if attributes.get("moved") else "h w", "y")]


ROWS = {"depth": np.array(17), "values": np.array([0, 1], np.float32), "rows": np.array([-1, 17])}


@pytest.mark.parametrize(("nodes", "constants", "x", "reason"), [
    ([node("MatMul", "x w", "y")], {"w": np.stack([SQUARE, SQUARE])}, ("b", 3, 17),
     "leaves open how many"),
    ([node("MatMul", "x w", "y")], {"w": SQUARE[None]}, None, "an unknown number"),
    ([node("MatMul", "w x", "y")], CHAIN, None, "an unknown number"),
    ([node("MatMul", "x w", "y")], {"w": np.stack([SQUARE] * 4).reshape(2, 2, 17, 17)},
     (2, 2, 3, 17), "2 dimensions of batches"),
    ([node("MatMul", "x w", "y")], {"w": np.eye(17, dtype=np.float32)}, (3, 17), "one-hot"),
    ([node("MatMul", "w x", "y")], {"w": np.eye(17, dtype=np.float32)[[3, 1, 3]]}, (17, 3),
     "one-hot"),
    ([node("Gemm", "x w", "y", transB=1)], {"w": np.eye(17, dtype=np.float32)}, (3, 17), "one-hot"),
    (one_hot(), {**CHAIN, **ROWS}, (3,), "its activations are one-hot"),
    (one_hot(moved=True), {**CHAIN, **ROWS}, (3,), "its activations are one-hot"),
    ([node("FusedMatMul", "x w", "y", domain=MINE, transBatchA=1)], CHAIN, (3, 2, 17),
     "transBatchA"),
    ([node("FusedMatMul", "x w", "y", domain=MINE, transA=1)], CHAIN, None, "an unknown number"),
    ([node("Einsum", "x w", "y", equation="ik,kj->ij")], CHAIN, None, "an unknown number"),
    ([node("Einsum", "x w", "y", equation="ii,ij->ij")], CHAIN, (17, 17), "twice in one operand"),
    ([node("Einsum", "x w", "y", equation="ai,ij->j")], CHAIN, (3, 17), "'a' is in one operand"),
    ([node("Einsum", "x w", "y", equation="ab,cd->abcd")], CHAIN, (3, 2), "sums nothing"),
    ([node("Einsum", "x w", "y", equation="ab,ab->a")], CHAIN, (17, 17), "no dimension of its"),
    ([node("Einsum", "x w w", "y", equation="ab,bc,cd->ad")], CHAIN, (3, 17), "3 operands"),
    ([node("Einsum", "x w", "y", equation="ab,bc->ac")], CHAIN, ("n", "k"), "not known"),
    ([node("Einsum", "x w", "y", equation="ab,bc->ac")], CHAIN, (3, 1), "and 1 in the"),
    ([node("Einsum", "x w", "y", equation="ak,...k->a...")], CHAIN, (3, 17), "a letter for each"),
], ids=lambda one: one if isinstance(one, str) else "")
def test_products_that_stay_say_why(nodes, constants, x, reason):
    found = survey(model_of(nodes, constants, x))

    assert found.layers == []
    assert [reason in other.reason for other in found.others if other.op != "OneHot"] == [True], (
        found.others)


@pytest.mark.parametrize(("nodes", "x"), [
    ([node("OneHot", "i depth values", "h"), node("Flatten", "h", "f")], (3, 2)),
    ([node("OneHot", "i depth values", "f", axis=0)], (34,))])
def test_sums_of_rows_are_layers(nodes, x):
    """Of several one-hot vectors side by side, and of those along another dimension."""
    weight = sparse(34, 17)
    model = model_of([node("Cast", "x", "i", to=TensorProto.INT64), *nodes,
                      node("MatMul", "f w", "y")], {"w": weight, **ROWS}, x)

    assert [one.op for one in survey(model).layers] == ["MatMul"]


def test_a_report_has_a_line_for_what_stays(tmp_path):
    model = model_of(one_hot(), {**CHAIN, **ROWS}, (3,))

    report = optimized(tmp_path, model, np.array([1, 16, 3], np.float32)).report

    assert [(row.shape, row.sparse) for row in report.rows] == [((17, 17), False)]
    assert "as Gather gives it" in str(report)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("op", ["MatMul", "Gemm", "Einsum"])
def test_weights_that_a_run_may_replace_stay(op, place):
    names = "x w" if place else "w x"
    attributes = {"equation": "ab,bc->ac"} if op == "Einsum" else {}
    default = helper.make_tensor_value_info("w", TensorProto.FLOAT, (17, 17))

    def found(ir_version):
        return survey(model_of([node(op, names, "y", **attributes)], CHAIN, (17, 17),
                               ir_version=ir_version, more_inputs=[default]))

    assert found(8).layers == []
    assert ["a run may replace" in one.reason for one in found(8).others] == [True]
    assert [one.op for one in found(3).layers] == [op]


def test_old_models_whose_weights_are_inputs(tmp_path):
    model = model_of([node("MatMul", "w x", "y")], CHAIN, (17, 5), opset=9, ir_version=3,
                     more_inputs=[helper.make_tensor_value_info("w", TensorProto.FLOAT, (17, 17))])
    x = floats(17, 5)

    fast = optimized(tmp_path, model, x)

    assert len(kernels_in(fast.model)) == 1
    close(fast(x)[0], SQUARE.astype(np.float64) @ x)


def candidate_of_a_batch():
    model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "n")],
                     {"w": sparse(2, 17, 13)}, (2, 5, 17))
    layer, = survey(model).layers
    one = _optimize._Candidate(layer, _optimize.Row("n", "MatMul", (2, 13, 17), 0.9))
    one.swap = _graph.Swap(layer, "[]", "model.spjit", 1)
    return model, one


def test_times_of_nodes_around_kernels_count(tmp_path):
    """What is slower with them is dense."""
    model, one = candidate_of_a_batch()
    compare = _compare_of_source()

    for split, reason in ((2.9, ""), (3.1, "dense is faster here")):
        compare(one, model, {"n": 10.0}, {"spjit n/0": 3.0, "spjit n/1": 3.0,
                                          "spjit n split": split, "spjit n concat": 1.0})
        assert (one.row.reason, one.row.before_us) == (reason, 10.0)
        assert one.row.after_us == pytest.approx(7.0 + split)


@pytest.mark.parametrize("missing", ["spjit n/0", "spjit n/1"])
def test_a_kernel_that_did_not_run_has_no_time(missing):
    model, one = candidate_of_a_batch()
    times = {"spjit n/0": 3.0, "spjit n/1": 3.0}
    del times[missing]

    _compare_of_source()(one, model, {"n": 10.0}, times)

    assert (one.row.after_us, one.row.reason) == (None, "")


_COMPARE = _optimize._compare  # before a fixture replaces it


def _compare_of_source():
    return _COMPARE


# ---- Dimensions -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_random_terms_beside_numpy(seed):
    """The steps before, products of matrices, and the steps behind."""
    rng = np.random.default_rng(seed)
    letters = [str(one) for one in rng.permutation(list("abcdefg"))]
    batch, inner, rows, tokens = (
        [letters.pop() for _ in range(int(rng.choice(of)))]
        for of in ((0, 0, 1), (1, 1, 2), (1, 1, 2), (0, 1, 2)))
    x, w, y = (rng.permutation(of).tolist() for of in (
        batch + inner + tokens, batch + inner + rows, batch + rows + tokens))
    terms = Terms(*("".join(term) for term in (x, w, y)))
    sizes = {one: int(rng.integers(1, 4)) for one in set(x + w)}
    values, weight = (rng.standard_normal([sizes[one] for one in term]) for term in (x, w))

    matrix, how = arranged(terms, weight)

    given = _stepped(values, how.before)
    parts = np.split(given, how.batch) if how.batch else [given]
    results = [np.einsum("nk...,ok->no...", part, one) if how.layout == "features" else part @ one.T
               for part, one in zip(parts, matrix if how.batch else [matrix])]
    y = _stepped(np.concatenate(results) if how.batch else results[0], how.behind)
    np.testing.assert_allclose(y, np.einsum(f"{terms.x},{terms.w}->{terms.y}", values, weight),
                               rtol=1e-12, atol=1e-12)
    assert how.rank == y.ndim
    if how.trailing is not None:
        assert terms.y[len(terms.y) - 1 - how.trailing] == rows[0]


def _stepped(values, steps):
    for step in steps:
        if step.op == "Transpose":
            values = values.transpose(step.sizes)
        elif step.op == "Reshape":
            values = values.reshape([values.shape[i] if size == 0 else size
                                     for i, size in enumerate(step.sizes)])
        else:
            values = (np.expand_dims if step.op == "Unsqueeze" else np.squeeze)(values, step.sizes)
    return values


def test_weights_without_elements_are_none():
    with pytest.raises(Refused, match="no elements"):
        arranged(Terms("ab", "bc", "ac"), np.zeros((4, 0)))
