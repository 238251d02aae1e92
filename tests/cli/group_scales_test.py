"""Scales of groups of columns of A, on the command line."""

import json
import unittest
import zipfile

from spjit_tool import FAILED, SOME_FAILED, USAGE, ToolTest

ROWS, COLUMNS, GROUPS = 12, 70, 3  # of 32 columns, the last of 6
FOUR_BITS = ["--types", "i4,f32,f32"]
WITH_SCALES = ["--group-scales", "scales.npy", "--group-columns", 32]


class GroupScalesTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.write_matrix("whole.mtx", ROWS)
        self.save("scales.npy", (ROWS, GROUPS), [0.25 + i / 64 for i in range(ROWS * GROUPS)])

    def write_matrix(self, name, rows):
        """Of whole numbers from -7 to 7."""
        entries = [(row, column, (row * column) % 15 - 7)
                   for row in range(1, rows + 1) for column in range(1, COLUMNS + 1)
                   if (row + column) % 3 == 0]
        lines = ["%%MatrixMarket matrix coordinate real general",
                 f"{rows} {COLUMNS} {len(entries)}"]
        lines += [f"{row} {column} {value}" for row, column, value in entries]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def layer(self, *arguments, command="compile"):
        return self.run_json(command, "whole.mtx", "--n", 9, *arguments)["layers"][0]

    def refuse(self, arguments, status, *fragments, files=("whole.mtx",)):
        result = self.run_tool("compile", *files, "--n", 9, *arguments)

        self.assert_error(result, status, *fragments)

    def test_layers_are_checked_and_measured(self):
        for types, more in (("i4,f32,f32", []), ("i8,bf16,bf16", ["--bias", "--residual"]),
                            ("i4,i8,f32", ["--accumulate", "integer"]),
                            ("i4,f32,f32", ["--accumulate", "integer", "--quantize", "token"])):
            with self.subTest(types):
                layer = self.layer("--types", types, *WITH_SCALES, *more)

                self.assertEqual(layer["record"]["problem"]["group_scales"]["columns"], 32)
                self.assertTrue(layer["verification"]["complete"])
                self.assertLessEqual(layer["verification"]["max_error_over_bound"], 1)
                self.assertGreater(layer["speed"]["median_us"], 0)

    def test_bench_compares_with_the_scales(self):
        self.succeed("bench", "whole.mtx", "--n", 9, *FOUR_BITS, *WITH_SCALES, "--budget", 20)

    def test_other_scales_and_columns_are_other_kernels(self):
        one = self.layer(*FOUR_BITS, *WITH_SCALES, "--no-measure")["kernel"]["key"]
        again = self.layer(*FOUR_BITS, *WITH_SCALES, "--no-measure")["kernel"]
        self.assertEqual(again["key"], one)
        self.assertTrue(again["from_cache"])
        keys = {one, self.layer(*FOUR_BITS, "--no-measure")["kernel"]["key"]}
        self.save("scales.npy", (ROWS, GROUPS), [1.0] * (ROWS * GROUPS))
        keys.add(self.layer(*FOUR_BITS, *WITH_SCALES, "--no-measure")["kernel"]["key"])
        self.save("wide.npy", (ROWS, 1), [1.0] * ROWS)
        keys.add(self.layer(*FOUR_BITS, "--group-scales", "wide.npy", "--group-columns", 128,
                            "--no-measure")["kernel"]["key"])
        self.assertEqual(len(keys), 4)

    def test_a_file_of_numpy_with_one_array(self):
        with zipfile.ZipFile(self.folder / "scales.npz", "w") as archive:
            archive.write(self.folder / "scales.npy", "scales.npy")

        layers = [self.layer(*FOUR_BITS, "--group-scales", name, "--group-columns", 32,
                             "--no-measure") for name in ("scales.npy", "scales.npz")]

        self.assertEqual(layers[0]["kernel"]["key"], layers[1]["kernel"]["key"])

    def test_the_document_has_the_file(self):
        options = self.run_json("compile", "whole.mtx", "--n", 9, "--no-measure", *FOUR_BITS,
                                *WITH_SCALES)["options"]

        self.assertEqual(options["operands"]["group_scales"],
                         {"path": "scales.npy", "columns": 32})

    def test_shapes_that_do_not_fit_are_named(self):
        self.save("short.npy", (ROWS, 2), [1.0] * (2 * ROWS))
        self.refuse([*FOUR_BITS, "--group-scales", "short.npy", "--group-columns", 32], FAILED,
                    "whole.mtx: --group-scales: ", "short.npy is [12 x 2]; expected [12 x 3] for A "
                    "[12 x 70] and groups of 32 columns")
        self.refuse([*FOUR_BITS, "--group-scales", "scales.npy", "--group-columns", 64], FAILED,
                    "scales.npy is [12 x 3]; expected [12 x 2]")
        self.save("flat.npy", (ROWS * GROUPS,), [1.0] * (ROWS * GROUPS))
        self.refuse([*FOUR_BITS, "--group-scales", "flat.npy", "--group-columns", 32], FAILED,
                    "flat.npy is [1 x 36]; expected [12 x 3]")
        self.write_matrix("taller.mtx", ROWS + 1)
        self.refuse([*FOUR_BITS, *WITH_SCALES], SOME_FAILED,
                    "taller.mtx: --group-scales: ", "expected [13 x 3]",
                    files=("whole.mtx", "taller.mtx"))

    def test_bad_options_are_one_error_before_any_work(self):
        for arguments, message in (
                (["--group-scales", "scales.npy"], "--group-scales and --group-columns need each"),
                (["--group-columns", 32], "--group-scales and --group-columns need each other"),
                (["--group-scales", "scales.npy", "--group-columns", 48],
                 "--group-columns: expected 32, 64 or 128, not 48"),
                (["--group-scales", "scales.npy", "--group-columns", 0], "--group-columns"),
                (["--group-scales", "", "--group-columns", 32], "expected a path")):
            with self.subTest(arguments):
                self.refuse([*FOUR_BITS, *arguments], USAGE, message)
        self.refuse([*FOUR_BITS, "--group-scales", "none.npy", "--group-columns", 32], FAILED,
                    "none.npy: cannot open")
        self.assertFalse(self.cache.exists())

    def test_what_has_no_scales_of_groups_is_refused(self):
        self.refuse(WITH_SCALES, FAILED, "A with scales of groups is of f32, ordered; expected i8")
        self.save("infinite.npy", (ROWS, GROUPS), [float("inf")] * (ROWS * GROUPS))
        self.refuse([*FOUR_BITS, "--group-scales", "infinite.npy", "--group-columns", 32], FAILED,
                    "the scale of row 0 and group 0 is inf; expected a finite number")

    def test_the_file_is_not_overwritten(self):
        self.refuse([*FOUR_BITS, *WITH_SCALES, "--no-measure", "--bundle", "scales.npy"], USAGE,
                    "scales.npy is another file of this command, which would be lost")

    def test_plans_and_bundles_have_them(self):
        command = ["whole.mtx", "--n", "any:4", "--target", "host-avx2", *FOUR_BITS]
        lines = self.succeed("plan", *command, *WITH_SCALES).stdout
        without = self.succeed("plan", *command).stdout
        self.assertNotEqual(json.loads(lines)["id"], json.loads(without)["id"])
        (self.folder / "work.jsonl").write_text(lines)

        done = self.run_json("work", "work.jsonl", "--out", "kernels", "--bundle", "all.spjit")

        self.assertEqual([line["state"] for line in done["lines"]], ["made"])
        shown = self.succeed("bundle", "show", "all.spjit", "whole", "--json").stdout
        self.assertRegex(shown, r'"group_scales": *{\s*"columns": 32')
        self.save("scales.npy", (ROWS, GROUPS), [1.0] * (ROWS * GROUPS))
        self.assertIn("changed", self.run_tool("work", "work.jsonl", "--out", "other").stderr)


if __name__ == "__main__":
    unittest.main()
