"""Models as inputs: their layers, options of layers, and what stays dense."""

from __future__ import annotations

import json
import random
import unittest
from pathlib import Path

from spjit_tool import FAILED, OK, SOME_FAILED, USAGE, ToolTest, write_safetensors

COMPILE = ("compile", "model.safetensors", "--layout", "tokens", "--no-measure")


def sparse(count: int, zeros: float, seed: int = 1) -> list[float]:
    """So many numbers, a share of them 0."""
    numbers = random.Random(seed)
    return [0.0 if i < zeros * count else numbers.uniform(0.5, 2)
            for i in numbers.sample(range(count), count)]


class ModelTest(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        self.write("model.safetensors", {
            "emb.weight": ([20, 8], sparse(160, 0.1)),
            "fc.2.weight": ([16, 24], sparse(384, 0.8)),
            "fc.2.bias": ([16], sparse(16, 0, 2)),
            "fc.10.weight_orig": ([24, 16], sparse(384, 0)),
            "fc.10.weight_mask": ([24, 16], [float(v != 0) for v in sparse(384, 0.75, 3)]),
            "conv.weight": ([8, 4, 3, 3], sparse(288, 0.9)),
            "tokens.weight": ([12, 4, 5], sparse(240, 0.75)),
            "cell.weight": ([2, 1, 2, 1, 2], sparse(8, 1)),
        })

    def write(self, name: str, *content: object, **more: object) -> Path:
        path = self.folder / name
        write_safetensors(path, *content, **more)
        return path

    def rules(self, *layers: dict) -> Path:
        return self.rules_file("layers.json", *layers)

    def rules_file(self, name: str, *layers: dict) -> Path:
        path = self.folder / name
        path.write_text(json.dumps({"layers": layers}))
        return path

    def layers_of(self, *arguments: object, status: int = OK) -> dict[str, dict]:
        document = self.run_json(*arguments, status=status)
        return {Path(layer["file"]).name: layer for layer in document["layers"]}


class InspectTest(ModelTest):
    def test_lists_layers_and_what_stays_dense(self) -> None:
        document = self.run_json("inspect", "model.safetensors")

        layers = document["layers"]
        self.assertEqual([layer["file"] for layer in layers],
                         ["model.safetensors/fc.2.weight", "model.safetensors/fc.10.weight"])
        self.assertEqual([layer["shape"] for layer in layers], [[16, 24], [24, 16]])
        self.assertEqual([layer["nnz"] for layer in layers], [76, 96])
        self.assertEqual(layers[0]["problem"]["n"], {"runtime": True, "value": 128})
        for layer in layers:
            self.assertTrue(layer["family"])
            self.assertTrue(layer["reason"])
        reasons = {Path(left["file"]).name: left["reason"] for left in document["left_dense"]}
        self.assertEqual(sorted(reasons),
                         ["cell.weight", "conv.weight", "emb.weight", "tokens.weight"])
        self.assertIn("--min-zeros", reasons["emb.weight"])
        self.assertIn("--layers", reasons["conv.weight"])
        self.assertIn("needs channels and length", reasons["tokens.weight"])
        self.assertIn("5 dimensions", reasons["cell.weight"])

    def test_prints_tables_and_nothing_else(self) -> None:
        result = self.succeed("inspect", "model.safetensors")

        for text in ("layer", "fc.10.weight", "24x16", "75.0 %", "left dense", "emb.weight",
                     "2 layers: 77.6 % of 0.00 million weights are zeros"):
            self.assertIn(text, result.stdout)
        self.assertEqual(result.stderr, "")
        self.assertFalse(self.cache.exists())

    def test_min_zeros_decides_what_is_a_layer(self) -> None:
        self.assertEqual(list(self.layers_of("inspect", "model.safetensors", "--min-zeros", 76)),
                         ["fc.2.weight"])
        self.assertIn("emb.weight",
                      self.layers_of("inspect", "model.safetensors", "--min-zeros", 5))
        for percent in ("101", "-1", "nan"):
            self.assert_error(
                self.run_tool("inspect", "model.safetensors", "--min-zeros", percent), USAGE)

    def test_names_and_globs_choose_layers(self) -> None:
        for pattern in ("fc.10.weight", "fc.1*"):
            found = self.run_json("inspect", f"model.safetensors/{pattern}")
            self.assertEqual([Path(one["file"]).name for one in found["layers"]], ["fc.10.weight"])
            self.assertEqual(found["left_dense"], [])

    def test_matrices_and_folders_are_inputs_too(self) -> None:
        self.generate("weights/one.npz")
        (self.folder / "model.safetensors").rename(self.folder / "weights/model.safetensors")
        self.assertEqual(list(self.layers_of("inspect", "weights")),
                         ["fc.2.weight", "fc.10.weight", "one.npz"])

    def write_parts(self) -> None:
        """A model in two parts with an index, beside what an older one in three left."""
        (self.folder / "model.safetensors").unlink()
        (self.folder / "parts").mkdir()
        self.write("parts/model-00001-of-00002.safetensors",
                   {"a.weight_orig": ([24, 16], sparse(384, 0)),
                    "stale.weight": ([16, 24], sparse(384, 0.8))})
        self.write("parts/model-00002-of-00002.safetensors",
                   {"a.weight_mask": ([24, 16], [float(v != 0) for v in sparse(384, 0.75, 3)]),
                    "b.weight": ([16, 24], sparse(384, 0.8)), "b.bias": ([16], sparse(16, 0, 2))})
        self.write("parts/model-00003-of-00003.safetensors",
                   {"older.weight": ([16, 24], sparse(384, 0.8))})
        first, second = (f"model-0000{i}-of-00002.safetensors" for i in (1, 2))
        self.index = {"metadata": {"total_size": 1}, "weight_map": {
            "a.weight_orig": first, "a.weight_mask": second, "b.weight": second, "b.bias": second}}
        (self.folder / "parts/model.safetensors.index.json").write_text(json.dumps(self.index))

    def test_an_index_says_which_part_holds_what(self) -> None:
        self.write_parts()
        index = "parts/model.safetensors.index.json"

        for inputs in ([index], ["parts"], ["parts/*.safetensors*"],
                       [index, "parts/model-00001-of-00002.safetensors"]):
            with self.subTest(inputs):
                document = self.run_json("inspect", *inputs)
                self.assertEqual([layer["file"] for layer in document["layers"]],
                                 [f"{index}/a.weight", f"{index}/b.weight"])
                self.assertEqual([layer["nnz"] for layer in document["layers"]], [96, 76])
                self.assertEqual(document["left_dense"], [])
        self.assertEqual(list(self.layers_of("inspect", f"{index}/b*")), ["b.weight"])
        layers = self.layers_of("compile", index, "--layout", "tokens", "--bias", "--no-measure",
                                "-o", "model.spjit")
        self.assertTrue(layers["b.weight"]["record"]["problem"]["epilogue"]["bias"])
        self.assertTrue(layers["a.weight"]["verification"]["passed"])
        self.assertEqual([kernel["layer"] for kernel in
                          self.run_json("bundle", "ls", "model.spjit")["kernels"]],
                         ["a.weight", "b.weight"])

    def test_an_index_that_is_wrong_is_one_error(self) -> None:
        self.write_parts()
        path = self.folder / "parts/model.safetensors.index.json"
        part = self.index["weight_map"]["b.weight"]
        for change, *fragments in (
                ({"b.weight": "../elsewhere.safetensors"}, "beside the index"),
                ({"b.weight": 3}, "beside the index"),
                ({"c.weight": part}, "'c.weight'", "does not have it"),
                ({"b.weight": "none.safetensors"}, "none.safetensors", "No such file")):
            with self.subTest(change):
                changed = {**self.index, "weight_map": {**self.index["weight_map"], **change}}
                path.write_text(json.dumps(changed))
                result = self.run_tool("inspect", path.relative_to(self.folder))
                self.assert_error(result, FAILED, "model.safetensors.index.json", *fragments)
        for text in ("", "[]", "{}", '{"weight_map": []}', "{" * 1000):
            path.write_text(text)
            self.assert_error(self.run_tool("inspect", path.relative_to(self.folder)), FAILED,
                              "model.safetensors.index.json")

    def test_a_folder_of_models_needs_no_n(self) -> None:
        (self.folder / "models").mkdir()
        (self.folder / "model.safetensors").rename(self.folder / "models/model.safetensors")

        compiled = self.layers_of("compile", "models", "--no-measure")
        benched = self.run_json("bench", "models/*", "--n", 8)["matrices"]
        self.generate("models/one.npz")
        mixed = self.run_tool("compile", "models", "--no-measure")

        self.assertEqual(list(compiled), ["fc.2.weight", "fc.10.weight"])
        for layer in compiled.values():
            self.assertTrue(layer["record"]["problem"]["n"]["runtime"])
        self.assertEqual(len(benched), 2)
        self.assert_error(mixed, USAGE, "--n is required")

    def test_damaged_models_fail_alone(self) -> None:
        (self.folder / "bad.safetensors").write_bytes(b"\xff" * 20)
        result = self.run_tool("inspect", "bad.safetensors", "model.safetensors")
        self.assert_error(result, SOME_FAILED, "bad.safetensors: ", "header has")
        self.assertIn("fc.2.weight", result.stdout)

    def write_with_bad_layers(self) -> None:
        """One layer that there is a kernel for, and one of each kind that there is none for."""
        self.write("bad.safetensors", {
            "1.weight": ([8, 8], [0.0] * 63 + [1e300]),
            "2.weight": ([8, 8], sparse(64, 0.8)),
            "3.weight": ([8, 8], [0.0] * 64),
            "4.weight": ([8, 8], [0.0] * 63 + [float("nan")]),
            "5.weight_orig": ([8, 8], sparse(64, 0)),
            "5.weight_mask": ([8, 8], [0.0] * 63 + [-1e39]),
        }, dtypes={"1.weight": "F64", "3.weight": "F9_E2", "5.weight_mask": "F64"})

    def test_weights_beyond_fp32_fail_alone(self) -> None:
        self.write_with_bad_layers()

        document = self.run_json("inspect", "bad.safetensors", status=SOME_FAILED)

        errors = {Path(layer["file"]).name: layer["error"] for layer in document["layers"]}
        self.assertEqual(list(errors), ["1.weight", "2.weight", "4.weight", "5.weight"])
        self.assertEqual(errors["1.weight"], "bad.safetensors: tensor '1.weight': element 63 is "
                         "1e+300, which does not fit fp32: expected at most 3.4028235e38")
        self.assertIn("'5.weight_mask': element 63 is -1e+39,", errors["5.weight"])
        self.assertIsNone(errors["2.weight"])
        self.assertIsNone(errors["4.weight"])
        self.assertEqual(document["failed"], 2)
        self.assertEqual([(Path(left["file"]).name, left["reason"])
                          for left in document["left_dense"]],
                         [("3.weight", "its dtype is F9_E2; expected F32, F16, BF16, F64, or I8 with a scale")])

    def test_onnx_needs_python(self) -> None:
        (self.folder / "model.onnx").write_bytes(b"")
        self.assert_error(self.run_tool("inspect", "model.onnx"), FAILED, "python -m spjit")

    def test_a_model_without_a_sparse_layer_is_no_error(self) -> None:
        self.write("dense.safetensors", {"w": ([2, 2], [1, 2, 3, 4])})
        result = self.succeed("inspect", "dense.safetensors")
        self.assertNotIn("layers:", result.stdout)
        self.assertIn("left dense", result.stdout)


class CompileTest(ModelTest):
    def test_compiles_layers_with_any_n(self) -> None:
        result = self.succeed(*COMPILE)

        self.assertIn("fc.10.weight", result.stdout)
        self.assertIn("n: any", result.stdout)
        self.assertIn("4 of 6 weights are left dense", result.stderr)
        self.generate("fc.npz")
        self.write("dense.safetensors", {"emb.weight": ([20, 8], sparse(160, 0.1))})
        result = self.run_tool("compile", "fc.npz", "dense.safetensors", "--n", 8, "--no-measure")
        self.assertIn("1 of 1 weights are left dense", result.stderr)

    def test_a_bias_is_the_one_beside_the_weights(self) -> None:
        layers = self.layers_of(*COMPILE, "--bias")

        has_bias = {name: layer["kernel"]["epilogue"]["bias"] for name, layer in layers.items()}
        self.assertEqual(has_bias, {"fc.2.weight": True, "fc.10.weight": False})

    def test_integers_have_the_scale_beside_them(self) -> None:
        self.write("model.safetensors", {
            "fc.weight": ([16, 24], [int(60 * v) for v in sparse(384, 0.8)]),
            "fc.weight_scale": ([16, 1], [0.25 + i for i in range(16)]),
            "zero.weight": ([2, 2], [0, 0, 0, 3]),
            "zero.weight_scale": ([2, 1], [1.0, 0.0]),
        })

        layers = self.layers_of(*COMPILE, "--types", "i8,f32,f32", status=SOME_FAILED)

        kernel = layers["fc.weight"]["kernel"]
        self.assertTrue(kernel["epilogue"]["scale"])
        self.assertIn("the scale of row 1 is 0; expected a finite number", json.dumps(layers))

    def test_layers_have_options_of_their_own(self) -> None:
        rules = self.rules({"name": "fc.*", "activation": "relu", "bias": True},
                           {"name": "fc.10.weight", "activation": "gelu"},
                           {"name": "conv.weight", "conv": "4x9x9", "pad": 1, "n": "any"})

        layers = self.layers_of(*COMPILE, "--layers", rules)

        self.assertEqual(layers["fc.2.weight"]["kernel"]["epilogue"]["activation"], "relu")
        self.assertEqual(layers["fc.10.weight"]["kernel"]["epilogue"]["activation"], "gelu")
        convolution = layers["conv.weight"]["record"]["problem"]["convolution"]
        self.assertEqual(convolution["kernel"], [3, 3])
        self.assertEqual(convolution["pad"], [1, 1, 1, 1])

    def test_two_models_with_one_name_are_no_bundle(self) -> None:
        self.write("more.safetensors", {"fc.2.weight": ([16, 24], sparse(384, 0.8, 5))})

        result = self.run_tool("compile", "model.safetensors", "more.safetensors", "--no-measure",
                               "-o", "both.spjit")

        self.assert_error(result, SOME_FAILED, "more.safetensors/fc.2.weight: the layer "
                          "'fc.2.weight' is in the bundle with weights")
        kernels = self.run_json("bundle", "ls", "both.spjit")["kernels"]
        self.assertEqual([kernel["layer"] for kernel in kernels], ["fc.2.weight", "fc.10.weight"])

    def test_options_of_a_layer_that_is_not_there(self) -> None:
        for name in ("fc.2", "fc.3.weight", "decoder.*"):
            result = self.run_tool(*COMPILE, "--layers", self.rules(
                {"name": "fc.*", "bias": True}, {"name": name, "activation": "relu"}))
            self.assert_error(result, FAILED, f"no weights of a model here are called '{name}'")
        self.write("more.safetensors", {"fc.3.weight": ([16, 24], sparse(16 * 24, 0.8))})
        rules = self.rules({"name": "fc.3.weight", "activation": "relu"},
                           {"name": "emb.weight", "bias": True})

        both = self.layers_of("compile", "model.safetensors", "more.safetensors", "--no-measure",
                              "--layers", rules)

        self.assertEqual(both["fc.3.weight"]["kernel"]["epilogue"]["activation"], "relu")
        # Names that the input leaves out are names, too.
        self.layers_of("compile", "model.safetensors/fc.2.weight", "--no-measure", "--layers",
                       self.rules({"name": "fc.10.weight", "bias": True}))

    def test_an_image_for_a_product_is_an_error(self) -> None:
        for name in ("fc.2.weight", "fc.*"):
            result = self.run_tool(*COMPILE, "--layers", self.rules({"name": name,
                                                                     "conv": "4x9x9"}))
            self.assert_error(result, FAILED, f"layers.json: '{name}' has \"conv\", but its weights "
                              "have two dimensions")

        layers = self.layers_of(*COMPILE, "--layers", self.rules({"name": "*", "conv": "4x9x9"}),
                                status=SOME_FAILED)

        self.assertIsNone(layers["fc.2.weight"]["record"]["problem"]["convolution"])

    def test_products_beside_a_geometry_for_all_have_any_n(self) -> None:
        found = self.run_json("inspect", "model.safetensors", "--conv", "4x9x9", "--layers",
                              self.rules({"name": "fc.10.weight", "n": 16}))

        n = {Path(layer["file"]).name: layer["problem"]["n"] for layer in found["layers"]}
        self.assertEqual(n, {"fc.2.weight": {"runtime": True, "value": 128},
                             "fc.10.weight": {"runtime": False, "value": 16},
                             "conv.weight": {"runtime": True, "value": 49}})

    def test_zeros_of_groups_are_those_of_the_weights(self) -> None:
        self.write("groups.safetensors", {"w": ([8, 1, 3, 3], sparse(72, 0.75))})
        found = self.run_json("inspect", "groups.safetensors", "--conv", "8x9x9", "--groups", 8)
        self.assertEqual((found["layers"][0]["nnz"], found["layers"][0]["sparsity"]), (18, 0.75))

    def test_a_geometry_for_all_convolutions(self) -> None:
        layers = self.layers_of("compile", "model.safetensors/conv.weight", "--conv", "4x9x9",
                                "--no-measure")
        self.assertEqual(layers["conv.weight"]["n"], 49)

    def test_a_geometry_of_another_image_fails_the_layer(self) -> None:
        result = self.run_tool(*COMPILE, "--layers", self.rules(
            {"name": "conv.weight", "conv": "5x9x9"}))
        self.assert_error(result, SOME_FAILED, "model.safetensors/conv.weight: ")

    def test_a_convolution_of_one_dimension_is_one_of_height_1(self) -> None:
        rules = self.rules({"name": "*", "pad": 2, "stride": 3},
                           {"name": "tokens.weight", "conv": "8x50", "groups": 2, "bias": True})
        image = self.rules_file("image.json", {"name": "tokens.weight", "conv": "8x1x50",
                                               "pad": "0x2", "stride": "1x3", "groups": 2})

        layers = [self.layers_of("compile", "model.safetensors/tokens.weight", "--layers", file,
                                 "--no-measure", "--verify", "full")["tokens.weight"]
                  for file in (rules, image)]

        problems = [layer["record"]["problem"] for layer in layers]
        self.assertEqual(problems[0]["convolution"], {
            "channels": 8, "height": 1, "width": 50, "kernel": [1, 5], "stride": [1, 3],
            "pad": [0, 2, 0, 2], "dilation": [1, 1], "groups": 1})
        self.assertEqual(problems[0], problems[1])
        self.assertEqual([layer["n"] for layer in layers], [17, 17])
        self.assertTrue(all(layer["verification"]["passed"] for layer in layers))

    def test_a_length_for_all_convolutions_of_one_dimension(self) -> None:
        found = self.run_json("inspect", "model.safetensors/tokens.*", "model.safetensors/fc.2.*",
                              "--conv", "4x30", "--pad", "0x1x0x3", "--dilation", 2)
        layers = {Path(layer["file"]).name: layer for layer in found["layers"]}
        convolution = layers["tokens.weight"]["problem"]["convolution"]
        self.assertEqual((convolution["height"], convolution["width"], convolution["kernel"],
                          convolution["pad"], convolution["dilation"]),
                         (1, 30, [1, 5], [0, 1, 0, 3], [1, 2]))
        self.assertIsNone(layers["fc.2.weight"]["problem"]["convolution"])

    def test_an_image_for_all_is_none_of_one_dimension(self) -> None:
        found = self.run_json("inspect", "model.safetensors", "--conv", "4x9x9")
        left = {Path(layer["file"]).name: layer["reason"] for layer in found["left_dense"]}
        self.assertIn("needs channels and length", left["tokens.weight"])
        self.assertNotIn("conv.weight", left)

    def test_what_is_no_convolution_of_one_dimension_fails_the_layer(self) -> None:
        for options, message in [
                ({"conv": "4x9x30"}, "--conv: the image is 9 high; expected channels and length"),
                ({"conv": "4x30", "stride": "2x1"},
                 "--stride has 2 for the height and 1 for the width; expected one number"),
                ({"conv": "4x30", "pad": "0x1x2x3"}, "--pad has 2 for the height and 3 "),
                ({"conv": "4x3"}, "a kernel of width 5 ")]:
            rules = self.rules({"name": "tokens.weight", **options})
            result = self.run_tool("compile", "model.safetensors/tokens.weight", "--layers", rules)
            self.assert_error(result, FAILED, "model.safetensors/tokens.weight: ", message)

    def test_a_converter_names_weights_that_it_cannot_read(self) -> None:
        said = {"layers": [], "left_dense": [{"name": "Gather", "reason": "a table"}],
                "damaged": [{"name": "a/Conv", "reason": "its data are short"}]}
        self.write("model.safetensors", {"one.weight": ([8, 8], sparse(64, 0.9))},
                   {"spjit": json.dumps(said)})

        result = self.run_tool("inspect", "model.safetensors")
        found = self.run_json("inspect", "model.safetensors", status=SOME_FAILED)
        chosen = self.run_json("inspect", "model.safetensors/one.*")

        self.assert_error(result, SOME_FAILED, "model.safetensors/a.Conv: its data are short")
        self.assertEqual([(layer["file"], layer["error"] is None) for layer in found["layers"]],
                         [("model.safetensors/a.Conv", False),
                          ("model.safetensors/one.weight", True)])
        self.assertEqual(chosen["failed"], 0)

    def test_options_of_the_model_itself(self) -> None:
        document = {"layers": [{"name": "w", "activation": "silu"}],
                    "left_dense": [{"name": "lstm", "reason": "LSTM: recurrent"}]}
        self.write("own.safetensors", {"w": ([4, 4], sparse(16, 0.75))},
                   {"spjit": json.dumps(document)})

        found = self.run_json("inspect", "own.safetensors")

        self.assertEqual(found["layers"][0]["problem"]["epilogue"]["activation"], "silu")
        self.assertEqual(found["left_dense"][0]["reason"], "LSTM: recurrent")

    def test_wrong_options_of_layers_are_refused(self) -> None:
        for layers, fragment in (
            ([{"activation": "gelu"}], 'has no "name"'),
            ([{"name": "w", "activation": "softmax"}], "softmax"),
            ([{"name": "w", "speed": "fast"}], "speed"),
            ([{"name": "w", "n": None}], '"n" is null'),
            (["w"], "expected an object"),
        ):
            result = self.run_tool(*COMPILE, "--layers", self.rules(*layers))
            self.assert_error(result, FAILED, "layers.json: ", fragment)
        (self.folder / "layers.json").write_text("{")
        self.assert_error(self.run_tool(*COMPILE, "--layers", "layers.json"), FAILED, "layers.json")

    def test_a_model_without_a_layer_has_failed(self) -> None:
        self.write("dense.safetensors", {"w": ([2, 2], [1, 2, 3, 4])})
        self.assert_error(self.run_tool("compile", "dense.safetensors"), FAILED,
                          "none of its 1 weights is a layer")

    def test_nothing_to_inspect_is_an_error(self) -> None:
        self.write("vectors.safetensors", {"v": ([4], [1, 2, 3, 4])})
        (self.folder / "none.safetensors.index.json").write_text('{"weight_map": {}}')
        for command in ("inspect", "compile"):
            for name, fragment in (
                ("vectors.safetensors", "it has no weights of two dimensions or more"),
                ("none.safetensors.index.json", "it has no weights of two dimensions or more"),
                ("model.safetensors/fc.2", "it has no weights 'fc.2'"),
            ):
                self.assert_error(self.run_tool(command, name), FAILED, fragment)

    def test_a_matrix_beside_a_model_needs_n(self) -> None:
        self.generate()
        self.assert_error(self.run_tool("compile", "layer.npz", "model.safetensors"), USAGE, "--n")

    def test_files_are_called_after_layers(self) -> None:
        self.succeed(*COMPILE, "--out", "out", "--emit", "json")
        self.assertEqual(sorted(p.name for p in (self.folder / "out").iterdir()),
                         ["fc_10.json", "fc_2.json"])

    def test_a_bundle_has_the_layers(self) -> None:
        self.succeed(*COMPILE, "-o", "model.spjit")
        self.succeed(*COMPILE, "-o", "again.spjit")

        content = (self.folder / "model.spjit").read_bytes()
        for name in (b"fc.2.weight", b"fc.10.weight"):
            self.assertIn(name, content)
        self.assertNotIn(b"emb.weight", content)
        self.assertEqual(content, (self.folder / "again.spjit").read_bytes())

    def test_a_bundle_has_what_did_not_fail(self) -> None:
        self.write("bad.safetensors", {"1.weight": ([8, 8], [0.0] * 63 + [1e300]),
                                       "2.weight": ([8, 8], sparse(64, 0.8)),
                                       "3.weight": ([8, 8], sparse(64, 0))},
                   dtypes={"1.weight": "F64"})

        result = self.run_tool("compile", "bad.safetensors", "--no-measure", "-o", "net.spjit")

        self.assert_error(result, SOME_FAILED, "'1.weight': element 63 is 1e+300,")
        self.assertIn("1 of 3 weights are left dense", result.stderr)
        layers = self.run_json("bundle", "ls", "net.spjit")["kernels"]
        self.assertEqual([layer["layer"] for layer in layers], ["2.weight"])

    def test_a_bundle_of_nothing_is_not_written(self) -> None:
        self.write("dense.safetensors", {"w": ([2, 2], [1, 2, 3, 4])})
        self.run_tool("compile", "dense.safetensors", "-o", "model.spjit")
        self.assertFalse((self.folder / "model.spjit").exists())

    def test_bench_and_explain_take_layers(self) -> None:
        layer = "model.safetensors/fc.2.weight"
        self.assertIn("fc.2.weight", self.succeed("explain", layer).stdout)
        self.assertIn("fc.2.weight",
                      self.succeed("bench", layer, "--budget", 1, "--threads", 1).stdout)


if __name__ == "__main__":
    unittest.main()
