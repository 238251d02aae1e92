"""spjit bundle, and bundles of spjit compile."""

import hashlib
import shutil
import subprocess
import unittest

from spjit_tool import FAILED, SOME_FAILED, USAGE, ToolTest


class BundleTest(ToolTest):
    def bundle(self, name: str = "model.spjit", *arguments: object) -> dict:
        """Two layers in a bundle; what the command reports."""
        self.generate("fc1.npz")
        self.generate("fc2.npz", 40, 30, 0.8, "--seed", 2)
        return self.run_json("compile", "fc1.npz", "fc2.npz", "--n", 8, "--no-measure",
                             "--bundle", name, *arguments)

    def keys(self, name: str) -> tuple[str, str]:
        if shutil.which("openssl") is None:
            self.skipTest("there is no openssl")
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", f"{name}.pem"],
                       cwd=self.folder, check=True, capture_output=True)
        subprocess.run(["openssl", "pkey", "-in", f"{name}.pem", "-pubout", "-out", f"{name}.pub"],
                       cwd=self.folder, check=True)
        return f"{name}.pem", f"{name}.pub"

    def test_compile_makes_one_of_all_layers(self):
        report = self.bundle()

        listed = self.run_json("bundle", "ls", "model.spjit")
        text = self.succeed("bundle", "ls", "model.spjit").stdout

        self.assertEqual(report["bundle"]["bytes"],
                         (self.folder / "model.spjit").stat().st_size)
        self.assertEqual([kernel["layer"] for kernel in listed["kernels"]], ["fc1", "fc2"])
        self.assertEqual([kernel["key"] for kernel in listed["kernels"]],
                         [layer["kernel"]["key"] for layer in report["layers"]])
        self.assertIsNone(listed["signed_by"])
        self.assertIn("fc2", text)
        self.assertIn("2 kernels", text)
        self.assertIn("not signed", text)

    def test_a_bundle_of_several_targets(self):
        report = self.bundle("model.spjit", "--target", "host-generic,host")

        kernels = self.run_json("bundle", "ls", "model.spjit")["kernels"]
        text = self.succeed("compile", "fc1.npz", "fc2.npz", "--n", 8, "--no-measure", "--target",
                            "host-generic,host").stdout.splitlines()

        best = report["layers"][1]["kernel"]["target"]
        self.assertNotEqual(best, "host-generic")
        self.assertEqual([(kernel["layer"], kernel["kernel"]["target"]) for kernel in kernels],
                         [("fc1", "host-generic"), ("fc1", best),
                          ("fc2", "host-generic"), ("fc2", best)])
        self.assertEqual(report["options"]["target"], f"host-generic,{best}")
        self.assertEqual(text[0].split()[:3], ["file", "target", "shape"])
        self.assertEqual([line.split()[:2] for line in text[1:3]],
                         [["fc1.npz", "host-generic"], ["fc1.npz", best]])

    def test_verify_runs_kernels_of_every_family_and_reads_their_weights_back(self):
        self.generate("fc1.npz", 60, 70, 0.7)
        for i, (family, target, *more) in enumerate([
                ("unrolled", "host"), ("unrolled", "host-generic"), ("csr", "host"),
                ("compact", "host"), ("dense", "host"), ("reference", "host"),
                ("unrolled", "host", "--hot", "--runtime-values"),
                ("compact", "host", "--runtime-values"),
                ("compact", "host", "--layout", "tokens", "--bias", "--residual", "--activation",
                 "gelu"),
                ("unrolled", "host", "--layout", "tokens", "--scale", "--activation", "silu")]):
            for n in ("any", 1, 300):
                with self.subTest(family=family, n=n, more=more):
                    self.succeed("compile", "fc1.npz", "--n", n, "--family", family, "--target",
                                 target, "--no-measure", *more, "-o", f"{i}.spjit")
                    report = self.run_json("bundle", "verify", f"{i}.spjit", "--run")
                    self.assertEqual(len(report["runs"]), 1)
                    run = report["runs"][0]
                    self.assertTrue(run["passed"], run)
                    self.assertIsNone(run["note"])
                    self.assertLessEqual(run["max_error_over_bound"], 1)

    def test_verify_runs_convolutions(self):
        self.generate("conv.npz", 16, 8 * 9, 0.7)
        for target in ("host", "host-generic"):
            for options in ((), ("--hot",)):
                with self.subTest(target=target, options=options):
                    self.succeed("compile", "conv.npz", "--conv", "8x12x10", "--kernel", 3, "--pad",
                                 1, "--stride", 2, "--no-measure", "--target", target, "--bias",
                                 "--activation", "relu", *options, "-o", "conv.spjit")
                    run = self.run_json("bundle", "verify", "conv.spjit", "--run")["runs"][0]
                    self.assertTrue(run["passed"], run)
                    self.assertIsNone(run["note"])

    def test_verify_finds_kernels_of_other_weights(self):
        self.bundle()
        other = self.run_json("compile", "fc2.npz", "--n", 8, "--no-measure", "--no-verify",
                              "-o", "other.spjit")
        self.assertEqual(other["failed"], 0)
        data = (self.folder / "other.spjit").read_bytes()
        mine, its = (self.run_json("bundle", "ls", name)["kernels"][0]["kernel"]["problem"]["a"]
                     ["hash"] for name in ("model.spjit", "other.spjit"))
        self.assertEqual(len(mine), len(its))
        # A record that names other weights, in an index whose digest fits.
        footer = data[-192:]
        index_at = int.from_bytes(footer[:8], "little")
        index = data[index_at:-192].replace(its.encode(), mine.encode())
        changed = (data[:index_at] + index + footer[:16] + hashlib.sha256(index).digest() +
                   footer[48:])
        (self.folder / "other.spjit").unlink()
        (self.folder / "other.spjit").write_bytes(changed)

        result = self.run_tool("bundle", "verify", "other.spjit", "--run")

        self.succeed("bundle", "verify", "other.spjit")
        self.assert_error(result, FAILED, "layer 'fc2'", "other weights")

    def test_verify_says_what_it_cannot_compare(self):
        (self.folder / "zeros.mtx").write_text(
            "%%MatrixMarket matrix coordinate real general\n3 3 3\n1 1 2\n2 2 0\n3 1 -1\n")
        self.succeed("compile", "zeros.mtx", "--n", 4, "--no-measure", "-o", "zeros.spjit")

        report = self.run_json("bundle", "verify", "zeros.spjit", "--run")
        text = self.succeed("bundle", "verify", "zeros.spjit", "--run").stdout

        self.assertTrue(report["runs"][0]["passed"])
        self.assertIn("weights not compared: 1 of 3", report["runs"][0]["note"])
        self.assertIn("1 kernels ran and are right", text)

    def test_targets_that_are_none_are_usage_errors(self):
        self.generate("fc1.npz")
        for targets, message in [("host-generic,", 'target ""'),
                                 ("host-generic,host-generic", "is there twice"),
                                 ("host-generic,mars", "mars")]:
            result = self.run_tool("compile", "fc1.npz", "--n", 8, "--target", targets)
            self.assert_error(result, USAGE, message)
        several = ["fc1.npz", "--n", 8, "--target", "host-generic,host"]
        self.assert_error(self.run_tool("compile", *several, "--out", "files"), USAGE,
                          "--out has the files of one target")
        self.assert_error(self.run_tool("explain", *several), USAGE, "expected one target")

    def test_a_target_that_fails_leaves_the_others(self):
        self.generate("fc1.npz")

        result = self.run_tool("compile", "fc1.npz", "--n", "any", "--no-measure", "--family",
                               "compact", "--target", "host-generic,host", "-o", "model.spjit")

        kernels = self.run_json("bundle", "ls", "model.spjit")["kernels"]
        self.assertEqual(result.returncode, SOME_FAILED, result.stderr)
        self.assertIn("1 of 2 kernels failed", result.stderr)
        self.assertEqual(len(kernels), 1)
        self.assertNotEqual(kernels[0]["kernel"]["target"], "host-generic")

    def test_show_has_the_record_and_where_files_lie(self):
        self.bundle()

        (kernel,) = self.run_json("bundle", "show", "model.spjit", "fc1")

        self.assertEqual(kernel["layer"], "fc1")
        self.assertEqual(kernel["files"][0]["offset"], 4096)
        self.assertEqual(kernel["kernel"]["problem"]["n"]["value"], 8)
        self.assert_error(self.run_tool("bundle", "show", "model.spjit", "fc3"), FAILED, "fc3",
                          "bundle ls")

    def test_layers_that_fail_are_left_out_and_of_none_there_is_no_bundle(self):
        self.generate("fc1.npz")
        (self.folder / "bad.npz").write_text("no matrix")

        some = self.run_tool("compile", "fc1.npz", "bad.npz", "--n", 8, "--no-measure",
                             "--bundle", "some.spjit")
        none = self.run_tool("compile", "bad.npz", "--n", 8, "-o", "none.spjit")

        self.assertEqual((some.returncode, none.returncode), (1, FAILED))
        self.assertEqual(len(self.run_json("bundle", "ls", "some.spjit")["kernels"]), 1)
        self.assertFalse((self.folder / "none.spjit").exists())

    def test_signed_bundles(self):
        private, public = self.keys("ours")
        _, other = self.keys("theirs")
        self.bundle("signed.spjit", "--key", private)
        self.bundle()

        self.succeed("bundle", "verify", "signed.spjit", "--public-key", public)
        report = self.run_json("bundle", "verify", "signed.spjit", "--public-key", public)
        self.assertTrue(report["signature_checked"])
        self.assertIn("not checked without --public-key",
                      self.succeed("bundle", "ls", "signed.spjit").stdout)
        self.assert_error(self.run_tool("bundle", "verify", "signed.spjit", "--public-key", other),
                          FAILED, "signed.spjit", "another key")
        self.assert_error(self.run_tool("bundle", "ls", "model.spjit", "--public-key", public),
                          FAILED, "is not signed")
        self.assert_error(self.run_tool("bundle", "ls", "signed.spjit", "--public-key", private),
                          USAGE, private, "no public key")
        self.assert_error(self.run_tool("cache", "import", "model.spjit", "--public-key", public),
                          FAILED, "is not signed")

    def test_merging_joins_signs_and_gives_the_same_bytes(self):
        private, public = self.keys("ours")
        self.bundle()
        self.generate("fc3.npz", 40, 30, 0.8, "--seed", 3)
        self.succeed("compile", "fc3.npz", "--n", 8, "--no-measure", "-o", "more.spjit")

        for name in ["a.spjit", "b.spjit"]:
            self.succeed("bundle", "merge", "model.spjit", "more.spjit", "model.spjit", "--out",
                         name, "--key", private)

        merged = self.run_json("bundle", "ls", "a.spjit", "--public-key", public)
        self.assertEqual([kernel["layer"] for kernel in merged["kernels"]], ["fc1", "fc2", "fc3"])
        self.assertEqual((self.folder / "a.spjit").read_bytes(),
                         (self.folder / "b.spjit").read_bytes())

    def test_the_same_kernels_compiled_again_give_the_same_bytes(self):
        self.generate("fc1.npz", 256, 256, 0.9)
        for name in ["a", "b"]:
            self.succeed("compile", "fc1.npz", "--n", 64, "--family", "unrolled", "--no-measure",
                         "--cache", self.folder / name, "-o", f"{name}.spjit")
        self.assertEqual((self.folder / "a.spjit").read_bytes(),
                         (self.folder / "b.spjit").read_bytes())

    def test_targets_that_have_the_same_kernel_are_in_it_once(self):
        self.generate("fc1.npz")
        text = self.succeed("compile", "fc1.npz", "--n", 8, "--no-measure", "--target",
                            "host-avx2:zen3,host-avx2:any", "-o", "model.spjit").stdout
        self.assertEqual(self.kernels_in("model.spjit"), [("fc1", "host-avx2:zen3")])
        self.assertIn("model.spjit: 1 kernels", text)
        self.assertIn("the same is made for two targets", text)

    def kernels_in(self, name: str, *arguments: object) -> list[tuple[str, str]]:
        return [(kernel["layer"], kernel["kernel"]["target"])
                for kernel in self.run_json("bundle", "ls", name, *arguments)["kernels"]]

    def test_a_filter_keeps_targets_and_layers(self):
        self.bundle("model.spjit", "--target", "host-generic:any,host-avx2:zen3,host-avx2:emerald-rapids")
        for arguments, expected in (
                (["--target", "host-generic"],
                 [("fc1", "host-generic:any"), ("fc2", "host-generic:any")]),
                (["--target", "host-avx2:zen3"],
                 [("fc1", "host-avx2:zen3"), ("fc2", "host-avx2:zen3")]),
                (["--target", "host-avx2,host-generic:any", "--layer", "fc2"],
                 [kernel for kernel in self.kernels_in("model.spjit") if kernel[0] == "fc2"]),
                (["--layer", "*2", "--layer", "fc1"], self.kernels_in("model.spjit"))):
            made = self.run_json("bundle", "filter", "model.spjit", "--out", "some.spjit",
                                 *arguments)
            self.assertEqual(self.kernels_in("some.spjit"), expected)
            self.assertEqual(made["kernels"], len(expected))
            self.assertEqual(made["bytes"], (self.folder / "some.spjit").stat().st_size)
        self.succeed("bundle", "verify", "some.spjit", "--run")
        self.succeed("bundle", "filter", "model.spjit", "--out", "all.spjit")
        self.assertEqual((self.folder / "all.spjit").read_bytes(),
                         (self.folder / "model.spjit").read_bytes())

    def test_a_filter_checks_one_signature_and_makes_another(self):
        private, public = self.keys("ours")
        other, other_public = self.keys("other")
        self.bundle("model.spjit", "--key", private)
        self.succeed("bundle", "filter", "model.spjit", "--public-key", public, "--layer", "fc1",
                     "--out", "some.spjit", "--key", other)
        self.assertEqual(len(self.kernels_in("some.spjit", "--public-key", other_public)), 1)
        self.succeed("bundle", "filter", "model.spjit", "--layer", "fc1", "--out", "bare.spjit")
        self.assertIsNone(self.run_json("bundle", "ls", "bare.spjit")["signed_by"])
        result = self.run_tool("bundle", "filter", "bare.spjit", "--public-key", public, "--out",
                               "x.spjit")
        self.assert_error(result, FAILED, "bare.spjit", "not signed")

    def test_a_filter_for_what_is_not_there(self):
        self.bundle("model.spjit", "--target", "host-avx2:zen3")
        self.generate("fc9.npz")
        self.succeed("compile", "fc9.npz", "--n", 8, "--target", "host-generic:any",
                     "--no-measure", "-o", "more.spjit")
        self.succeed("bundle", "merge", "model.spjit", "more.spjit", "--out", "both.spjit")
        for arguments, *expected in (
                (["--target", "host-avx2:zen3,sm_80"], "target 'sm_80'", "host-avx2:zen3"),
                (["--target", "host-avx2:zen4"], "target 'host-avx2:zen4'"),
                (["--layer", "fc3"], "layer 'fc3'", "fc1, fc2"),
                (["--layer", "fc9", "--target", "host-avx2"], "these layers for these targets")):
            result = self.run_tool("bundle", "filter", "both.spjit", "--out", "some.spjit",
                                   *arguments)
            self.assert_error(result, FAILED, "both.spjit", *expected)
            self.assertFalse((self.folder / "some.spjit").exists())
        result = self.run_tool("bundle", "filter", "both.spjit", "--out", "./both.spjit")
        self.assert_error(result, USAGE, "--out")

    def test_a_layer_of_two_weights_is_no_layer(self):
        self.generate("fc1.npz")
        self.succeed("compile", "fc1.npz", "--n", 8, "--no-measure", "-o", "a.spjit")
        self.generate("fc1.npz", 48, 40, 0.9, "--seed", 7)
        self.succeed("compile", "fc1.npz", "--n", 8, "--no-measure", "-o", "b.spjit")

        result = self.run_tool("bundle", "merge", "a.spjit", "b.spjit", "--out", "both.spjit")

        self.assert_error(result, USAGE, "b.spjit: the layer 'fc1' is in the bundle with weights")
        self.assertFalse((self.folder / "both.spjit").exists())

    def test_damage_is_one_line(self):
        self.bundle()
        good = (self.folder / "model.spjit").read_bytes()
        for place in (0, 4096 + 100, len(good) - 3000, len(good) - 150):
            with self.subTest(place=place):
                (self.folder / "bad.spjit").write_bytes(
                    good[:place] + bytes([good[place] ^ 1]) + good[place + 1:])
                result = self.run_tool("bundle", "verify", "bad.spjit")
                self.assert_error(result, FAILED, "bad.spjit")
                self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_a_bundle_that_others_can_write_to(self):
        self.bundle()
        (self.folder / "model.spjit").chmod(0o666)

        self.assert_error(self.run_tool("bundle", "ls", "model.spjit"), FAILED, "everybody")
        self.succeed("bundle", "ls", "model.spjit", "--any-owner")

    def test_wrong_command_lines(self):
        self.generate("fc1.npz")
        for arguments in [[], ["ls"], ["show", "a.spjit"], ["merge", "a.spjit"], ["fold"]]:
            self.assertEqual(self.run_tool("bundle", *arguments).returncode, USAGE, arguments)
        self.assert_error(self.run_tool("compile", "fc1.npz", "--n", 8, "--key", "k.pem"), USAGE,
                          "--bundle")
        self.assert_error(self.run_tool("compile", "fc1.npz", "--n", 8, "-o", "a.spjit", "--key",
                                        "no.pem"), FAILED, "no.pem")


if __name__ == "__main__":
    unittest.main()
