"""spjit.fleet: kernels of a model made on a cluster of Ray, of two nodes in this machine."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("ray", reason="ray is not installed")
safetensors = pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")

import ray  # noqa: E402
from ray.cluster_utils import Cluster  # noqa: E402
from spjit import Bundle, InvalidArgument, IoError, SpjitError, fleet  # noqa: E402

# ray's own.
pytestmark = [pytest.mark.filterwarnings("ignore"),
              pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]

TARGETS = "host-avx2:zen3,host-generic:any"


@pytest.fixture(scope="module")
def cluster():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1, resources={"spjit:host:zen3": 1})
    ray.init(address=made.address, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def model(tmp_path):
    """Three layers; the path of the model."""
    rng = np.random.default_rng(0)
    path = tmp_path / "model.safetensors"
    safetensors.save_file({
        name: np.where(rng.random(shape) < 0.2, rng.standard_normal(shape), 0).astype(np.float32)
        for name, shape in (("a.weight", (32, 24)), ("/b.weight", (24, 40)),
                            ("c.weight", (16, 16)))}, path)
    return path


def compiled(model, folder, *options):
    """The bundle that one process makes."""
    whole = folder / "whole.spjit"
    subprocess.run([sys.executable, "-m", "spjit", "compile", str(model), "--target", TARGETS,
                    "--no-measure", "--cache", str(folder / "cache"), "--bundle", str(whole),
                    *options], check=True, capture_output=True)
    return whole.read_bytes()


def test_a_cluster_makes_the_bundle_of_one_process(cluster, model, tmp_path):
    seen = []
    report = fleet.compile_model(model, TARGETS, out=tmp_path / "model.spjit",
                                 options=["--layout=tokens"],
                                 progress=lambda *given: seen.append(given))

    assert (tmp_path / "model.spjit").read_bytes() == compiled(model, tmp_path, "--layout=tokens")
    assert [(row.layer, row.target) for row in report.rows] == [
        (layer, target) for layer in ("/b.weight", "a.weight", "c.weight")
        for target in TARGETS.split(",")]
    assert all(row.node == os.uname().nodename for row in report.rows)
    assert [(done, of) for done, of, _ in seen] == [(i, 6) for i in range(1, 7)]
    assert "6 kernels" in str(report) and report.bytes == (tmp_path / "model.spjit").stat().st_size


def test_what_is_there_is_not_made_again(cluster, model, tmp_path):
    out = tmp_path / "model.spjit"
    fleet.compile_model(model, TARGETS, out=out)
    first = out.read_bytes()
    kernels = sorted((tmp_path / "model.spjit.work").iterdir())
    kernels[0].unlink()

    again = fleet.compile_model(model, TARGETS.split(","), out=out)

    assert sum(bool(row.node) for row in again.rows) == 1
    assert out.read_bytes() == first


def test_a_signature_of_this_machine(cluster, model, tmp_path, signing_keys):
    private, public = signing_keys("ours")
    fleet.compile_model(model, "host-generic:any", out=tmp_path / "model.spjit", key=private)
    assert len(Bundle(tmp_path / "model.spjit", public_key=public)) == 3


def test_a_search_needs_the_device(cluster, model, tmp_path):
    made = fleet.compile_model(model, "host-avx2:zen3", out=tmp_path / "model.spjit",
                               options=["--search=ranked", "--layout=tokens"])
    assert len(made.rows) == 3
    with pytest.raises(InvalidArgument, match="resource spjit:gpu:sm_90:h100.*expected one that"):
        fleet.compile_model(model, "sm_90:h100", out=tmp_path / "other.spjit",
                            options=["--search=ranked"])


def test_a_node_that_is_lost(cluster, model, tmp_path):
    node = cluster.add_node(num_cpus=2)

    def lose_it(done, *_):
        if done == 1:
            cluster.remove_node(node, allow_graceful=False)

    fleet.compile_model(model, TARGETS, out=tmp_path / "model.spjit", progress=lose_it)
    assert (tmp_path / "model.spjit").read_bytes() == compiled(model, tmp_path)


def test_an_interruption_leaves_what_is_made(cluster, model, tmp_path):
    def interrupt(done, *_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fleet.compile_model(model, TARGETS, out=tmp_path / "model.spjit", progress=interrupt)

    assert not (tmp_path / "model.spjit").exists()
    report = fleet.compile_model(model, TARGETS, out=tmp_path / "model.spjit")
    assert any(not row.node for row in report.rows)


def test_kernels_that_cannot_be_made(cluster, model, tmp_path, monkeypatch):
    with pytest.raises(SpjitError, match=r"6 of 6 kernels cannot be made, first '/b.weight'"):
        fleet.compile_model(model, TARGETS, out=tmp_path / "model.spjit",
                            options=["--family=unrolled", "--code-budget=1"])
    monkeypatch.setattr(fleet.spjit, "__version__", "0.0.9")
    with pytest.raises(SpjitError, match="has spjit .*; expected 0.0.9"):
        fleet.compile_model(model, "host-generic:any", out=tmp_path / "model.spjit")
    assert not (tmp_path / "model.spjit").exists()


def test_an_onnx_model(cluster, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    rng = np.random.default_rng(0)
    weight = np.where(rng.random((24, 32)) < 0.2, 1, 0).astype(np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["n", 24])],
        [onnx.helper.make_tensor_value_info("y", 1, ["n", 32])],
        [onnx.numpy_helper.from_array(weight, "w")])
    onnx.save(onnx.helper.make_model(graph), tmp_path / "net.onnx")
    report = fleet.compile_model(tmp_path / "net.onnx", "host-generic:any",
                                 out=tmp_path / "net.spjit")
    assert len(report.rows) == 1


def test_what_is_wrong_before_a_task(tmp_path, model):
    with pytest.raises(IoError, match="none.safetensors"):
        fleet.compile_model(tmp_path / "none.safetensors", TARGETS, out=tmp_path / "m.spjit")
    with pytest.raises(SpjitError, match="sm_1"):
        fleet.compile_model(model, "sm_1", out=tmp_path / "m.spjit")
    with pytest.raises(SpjitError, match="--fast"):
        fleet.compile_model(model, TARGETS, out=tmp_path / "m.spjit", options=["--fast"])
