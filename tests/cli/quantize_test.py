"""Weights of models as int8."""

from __future__ import annotations

import json
import struct
import unittest
import xml.etree.ElementTree
from pathlib import Path

from model_test import ModelTest, sparse
from spjit_tool import FAILED, OK, USAGE

QUANTIZE = ("quantize", "model.safetensors", "--out", "small.safetensors")


def tensors_of(path: Path) -> tuple[dict, dict[str, bytes]]:
    """The header, and the bytes of each tensor."""
    contents = path.read_bytes()
    length = struct.unpack("<Q", contents[:8])[0]
    header = json.loads(contents[8:8 + length])
    data = contents[8 + length:]
    return header, {name: data[slice(*entry["data_offsets"])]
                    for name, entry in header.items() if name != "__metadata__"}


class QuantizeTest(ModelTest):
    def small(self) -> tuple[dict, dict[str, bytes]]:
        return tensors_of(self.folder / "small.safetensors")

    def test_sparse_weights_become_int8(self) -> None:
        document = self.run_json(*QUANTIZE)

        became = {one["name"]: one["dtype"] for one in document["weights"]}
        self.assertEqual(became, {"cell.weight": None, "conv.weight": "I8", "emb.weight": None,
                                  "fc.2.weight": "I8", "fc.10.weight": "I8",
                                  "tokens.weight": "I8"})
        header, data = self.small()
        self.assertEqual(header["fc.2.weight"]["dtype"], "I8")
        self.assertEqual(header["conv.weight"]["shape"], [8, 4, 3, 3])
        self.assertEqual(header["fc.2.weight_scale"]["shape"], [16, 1])
        self.assertNotIn("fc.10.weight_orig", header)
        self.assertNotIn("fc.10.weight_mask", header)
        _, before = tensors_of(self.folder / "model.safetensors")
        for name in ["emb.weight", "fc.2.bias", "cell.weight"]:
            self.assertEqual(data[name], before[name])
        self.assertLess(document["bytes"]["after"], document["bytes"]["before"])

    def test_integers_times_their_scale_are_the_weights(self) -> None:
        document = self.run_json(*QUANTIZE)

        _, data = self.small()
        values = sparse(384, 0.8)
        integers = struct.unpack("384b", data["fc.2.weight"])
        scale = struct.unpack("<16f", data["fc.2.weight_scale"])
        for i, value in enumerate(values):
            self.assertLessEqual(abs(value - integers[i] * scale[i // 24]),
                                 0.5001 * scale[i // 24])
        one = next(one for one in document["weights"] if one["name"] == "fc.2.weight")
        self.assertGreater(one["cosine"], 0.9999)
        self.assertLess(one["relative_error"], 0.01)

    def test_the_new_model_compiles_with_its_types(self) -> None:
        self.succeed(*QUANTIZE)

        layers = self.layers_of("compile", "small.safetensors", "--layout", "tokens",
                                "--no-measure")

        record = layers["fc.2.weight"]["record"]["problem"]
        self.assertEqual(record["numerics"]["a"], "i8")
        self.assertTrue(record["epilogue"]["scale"])
        result = self.run_tool("quantize", "small.safetensors", "--out", "again.safetensors")
        self.assertEqual(result.returncode, FAILED)
        self.assertIn("none of its", result.stderr)
        self.assertFalse((self.folder / "again.safetensors").exists())

    def test_layers_may_quantise_their_input(self) -> None:
        self.succeed(*QUANTIZE, "--activations", "dynamic")

        layers = self.layers_of("compile", "small.safetensors", "--layout", "tokens",
                                "--no-measure")

        numerics = layers["fc.2.weight"]["record"]["problem"]["numerics"]
        self.assertEqual(numerics, {"a": "i8", "b": "f32", "c": "f32", "accumulate": "integer",
                                    "quantize": "token"})

    def test_rules_of_the_model_stay_in_front(self) -> None:
        self.write("model.safetensors", {"fc.weight": ([16, 24], sparse(384, 0.8))},
                   {"spjit": json.dumps({"layers": [{"name": "fc.*", "activation": "relu"}]}),
                    "format": "pt"})

        self.succeed(*QUANTIZE)

        metadata = self.small()[0]["__metadata__"]
        self.assertEqual(metadata["format"], "pt")
        self.assertEqual(json.loads(metadata["spjit"])["layers"],
                         [{"name": "fc.*", "activation": "relu"},
                          {"name": "fc.weight", "types": "i8,f32,f32"}])
        layers = self.layers_of("compile", "small.safetensors", "--no-measure")
        self.assertEqual(layers["fc.weight"]["kernel"]["epilogue"]["activation"], "relu")

    def test_weights_unlike_their_integers_stay(self) -> None:
        self.write("model.safetensors", {
            "wide.weight": ([1, 4], [1000.0, 3.0, 0.0, 0.0]),
            "fc.weight": ([1, 4], [1000.0, 1000.0, 0.0, 0.0]),
            "nan.weight": ([1, 4], [float("nan"), 1.0, 0.0, 0.0]),
        })

        document = self.run_json(*QUANTIZE, "--least-cosine", "0.999999")

        reasons = {one["name"]: one["reason"] for one in document["weights"]}
        self.assertIsNone(reasons["fc.weight"])
        self.assertIn("its cosine is under 0.999999", reasons["wide.weight"])
        self.assertIn("row 0 has the entry nan", reasons["nan.weight"])
        self.assertEqual(self.small()[0]["wide.weight"]["dtype"], "F32")

    def test_a_picture_has_a_bar_for_each(self) -> None:
        self.succeed(*QUANTIZE, "--plot", "errors.svg")

        root = xml.etree.ElementTree.parse(self.folder / "errors.svg").getroot()
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("fc.2.weight", texts)
        self.assertNotIn("emb.weight", texts)

    def test_the_table_says_what_became_of_each(self) -> None:
        result = self.succeed(*QUANTIZE)

        self.assertIn("4 of 6 weights are int8", result.stdout)
        self.assertIn("as it is: fewer than 50 % of it are zeros", result.stdout)

    def test_wrong_files_are_usage_errors(self) -> None:
        for arguments, message in [
                (("model.onnx", "--out", "x.safetensors"), "onnxruntime.quantization"),
                (("model.npz", "--out", "x.safetensors"), "ends in neither"),
                (("model.safetensors", "--out", "x.npz"), "does not end in .safetensors"),
                (("model.safetensors", "--out", "model.safetensors"), "would be lost"),
                ((*QUANTIZE[1:], "--weights", "int3"), "int3"),
                ((*QUANTIZE[1:], "--activations", "static"), "static")]:
            with self.subTest(arguments=arguments):
                result = self.run_tool("quantize", *arguments)
                self.assertEqual(result.returncode, USAGE)
                self.assertIn(message, result.stderr)

    def test_a_picture_replaces_no_other_file_of_the_command(self) -> None:
        before = (self.folder / "model.safetensors").read_bytes()
        for plot in ["model.safetensors", "./small.safetensors", ""]:
            with self.subTest(plot=plot):
                self.assert_error(self.run_tool(*QUANTIZE, "--plot", plot), USAGE, "--plot: ")
                self.assertEqual((self.folder / "model.safetensors").read_bytes(), before)
                self.assertFalse((self.folder / "small.safetensors").exists())

    def test_without_its_picture_there_is_no_model(self) -> None:
        for plot in [".", "none/error.svg"]:
            with self.subTest(plot=plot):
                self.assert_error(self.run_tool(*QUANTIZE, "--plot", plot), FAILED, plot)
                self.assertFalse((self.folder / "small.safetensors").exists())

    def test_parts_of_a_model_are_not_replaced(self) -> None:
        (self.folder / "part.safetensors").write_bytes(
            (self.folder / "model.safetensors").read_bytes())
        header, _ = tensors_of(self.folder / "part.safetensors")
        names = [name for name in header if name != "__metadata__"]
        (self.folder / "all.safetensors.index.json").write_text(
            json.dumps({"weight_map": dict.fromkeys(names, "part.safetensors")}))
        result = self.run_tool("quantize", "all.safetensors.index.json", "--out",
                               "part.safetensors")
        self.assert_error(result, USAGE, "--out: part.safetensors is another file")

    def test_a_model_that_is_not_there(self) -> None:
        result = self.run_tool("quantize", "none.safetensors", "--out", "x.safetensors")

        self.assertEqual(result.returncode, FAILED)
        self.assertIn("none.safetensors", result.stderr)


if __name__ == "__main__":
    unittest.main()
