"""Examples that are scripts, run as a user runs them, for a moment."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def test_ocr(tmp_path):
    pytest.importorskip("onnx", reason="the package onnx is not installed")
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    try:
        importlib.metadata.distribution("rapidocr-onnxruntime")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("rapidocr-onnxruntime, whose detector is pruned, is not installed")

    result = subprocess.run(
        [sys.executable, EXAMPLES / "ocr" / "ocr.py", "--size", "64", "--budget", "0.05",
         "--picture", tmp_path / "ocr.svg"],
        text=True, capture_output=True, timeout=300, check=False)

    assert result.returncode == 0, result.stderr
    assert "48 convolutions pruned to 90 % zeros" in result.stdout
    assert xml.dom.minidom.parse(str(tmp_path / "ocr.svg")).documentElement.tagName == "svg"
