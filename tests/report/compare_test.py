"""scripts/data/bench_compare.py: what counts as slower."""

import json
import unittest

import fixture
from fixture import ReportTest

# The fixture's timings have 1 % of noise each: a change counts beyond 3 * sqrt(2) % = 4.24 %.
OLD = {"spjit": 100.0, "csr": 200.0, "openblas": 400.0}


def file(medians: dict[str, float], **more) -> dict:
    return fixture.side_by_side([fixture.case("a", medians)], **more)


def with_noise(document: dict, noise: float) -> dict:
    for timing in document["cases"][0]["timings"]:
        timing["noise"] = noise
    return document


class ComparingTest(ReportTest):
    def compare(self, old: dict, new: dict, *arguments: object, status: int | None = None) -> dict:
        result = self.run_script("bench_compare.py", self.write(old, "old.json"),
                                 self.write(new, "new.json"), "--json", *arguments)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        document = json.loads(result.stdout)
        self.assertEqual(result.returncode, int(document["regressed"]))
        if status is not None:
            self.assertEqual(result.returncode, status)
        return document

    def verdicts(self, old: dict, new: dict, *arguments: object) -> dict[str, str]:
        changes = self.compare(old, new, *arguments)["changes"]
        return {change["library"]: change["verdict"] for change in changes}


class VerdictTest(ComparingTest):
    def test_only_what_is_beyond_noise_is_slower(self):
        within = self.verdicts(file(OLD), file({**OLD, "spjit": 104}))
        beyond = self.verdicts(file(OLD), file({**OLD, "spjit": 105}))

        self.assertEqual(within, {"spjit": "same", "csr": "same"})
        self.assertEqual(beyond, {"spjit": "slower", "csr": "same"})

    def test_faster_is_the_same_the_other_way_round(self):
        within = self.verdicts(file({**OLD, "csr": 208}), file(OLD))
        beyond = self.verdicts(file({**OLD, "csr": 210}), file(OLD))

        self.assertEqual(within["csr"], "same")
        self.assertEqual(beyond["csr"], "faster")

    def test_without_noise_the_threshold_decides(self):
        old = with_noise(file(OLD), 0)

        for us, threshold, verdict in [(102.9, 0.03, "same"), (103.1, 0.03, "slower"),
                                       (103.1, 0.05, "same"), (101.1, 0.01, "slower")]:
            with self.subTest(us=us, threshold=threshold):
                new = with_noise(file({**OLD, "spjit": us}), 0)
                found = self.verdicts(old, new, "--threshold", threshold)
                self.assertEqual(found["spjit"], verdict)

    def test_noise_of_both_files_counts(self):
        # 3 * sqrt(0.03^2 + 0.04^2) = 15 %.
        old, quiet = with_noise(file(OLD), 0.03), with_noise(file({**OLD, "spjit": 114}), 0.04)
        loud = with_noise(file({**OLD, "spjit": 116}), 0.04)

        self.assertEqual(self.verdicts(old, quiet)["spjit"], "same")
        self.assertEqual(self.verdicts(old, loud)["spjit"], "slower")

    def test_what_the_peers_suffer_too_is_the_machine(self):
        found = self.compare(file(OLD), file({**OLD, "spjit": 110, "openblas": 440}), status=0)

        change = found["changes"][0]
        self.assertEqual((change["library"], change["verdict"]), ("spjit", "machine"))
        self.assertAlmostEqual(change["control"], 1.1)
        self.assertAlmostEqual(change["adjusted"], 1.0)

    def test_slower_by_more_than_the_peers(self):
        found = self.compare(file(OLD), file({**OLD, "spjit": 132, "openblas": 440}), status=1)

        self.assertEqual(found["changes"][0]["verdict"], "slower")
        self.assertAlmostEqual(found["changes"][0]["adjusted"], 1.2)

    def test_a_faster_machine_hides_nothing(self):
        # The peer takes 4/5 of its time, spjit as long as before: 1.25 times as long as it should.
        found = self.compare(file(OLD), file({**OLD, "openblas": 320}), status=1)

        self.assertEqual(found["changes"][0]["verdict"], "slower")
        self.assertAlmostEqual(found["changes"][0]["adjusted"], 1.25)

    def test_a_peers_shift_within_its_noise_changes_nothing(self):
        found = self.compare(file(OLD), file({**OLD, "spjit": 105, "openblas": 410}), status=1)

        self.assertEqual(found["changes"][0]["control"], 1)

    def test_a_peer_of_another_version_is_no_control(self):
        libraries = [dict(library) for library in fixture.LIBRARIES]
        libraries[2]["version"] = "OpenBLAS 0.3.99"
        new = file({**OLD, "spjit": 110, "openblas": 440}, libraries=libraries)

        found = self.compare(file(OLD), new, status=1)

        self.assertNotIn("openblas", found["controls"])
        self.assertEqual(found["changes"][0]["verdict"], "slower")

    def test_the_control_is_the_mean_of_the_peers(self):
        # 1.21 and 1: 1.1 in the geometric mean.
        old, new = {**OLD, "mkl": 300.0}, {**OLD, "spjit": 110, "openblas": 484, "mkl": 300.0}

        found = self.compare(file(old), file(new), status=0)

        self.assertAlmostEqual(found["changes"][0]["control"], 1.1)

    def test_shifts_of_all_libraries_are_listed(self):
        found = self.compare(file(OLD), file({"spjit": 50, "csr": 200, "openblas": 800}))

        shifts = {s["library"]: (s["ratio"], s["control"]) for s in found["shifts"]}
        self.assertEqual({name: control for name, (_, control) in shifts.items()},
                         {"spjit": False, "csr": False, "openblas": True})
        for name, ratio in [("spjit", 0.5), ("csr", 1), ("openblas", 2)]:
            self.assertAlmostEqual(shifts[name][0], ratio)


class CompareFilesTest(ComparingTest):
    def test_what_is_in_one_file_only_is_named(self):
        old = fixture.side_by_side([fixture.case("a", OLD), fixture.case("b", {"spjit": 1})])
        new = fixture.side_by_side([fixture.case("a", OLD), fixture.case("c", {"csr": 1})])

        found = self.compare(old, new, status=0)

        self.assertEqual(found["missing"], ["spjit on dlmc b n=128 t=1"])
        self.assertEqual(found["added"], ["csr on dlmc c n=128 t=1"])

    def test_what_fails_or_is_wrong_now_is_a_regression(self):
        failing = file(OLD)
        failing["cases"][0]["timings"][0] = fixture.failed_timing("spjit", "signal 4")
        wrong = file(OLD)
        wrong["cases"][0]["checked"] = False

        self.assertEqual(self.compare(file(OLD), failing, status=1)["broken"],
                         ["spjit on dlmc a n=128 t=1: signal 4"])
        self.assertEqual(self.compare(file(OLD), wrong, status=1)["broken"],
                         ["dlmc a n=128 t=1: results were right and are not any more"])

    def test_the_text_names_the_case_and_the_times(self):
        result = self.run_script("bench_compare.py", self.write(file(OLD), "old.json"),
                                 self.write(file({**OLD, "spjit": 125}), "new.json"))

        self.assertEqual(result.returncode, 1)
        self.assertIn("1.250x  spjit on dlmc a n=128 t=1: 100.0 -> 125.0 us (limit 4.2 %)",
                      result.stdout)
        self.assertIn("REGRESSED", result.stdout)

    def test_the_same_file_twice(self):
        path = self.write(file(OLD))

        result = self.run_script("bench_compare.py", path, path)

        self.assertEqual(result.returncode, 0)
        self.assertIn("2 timings compared, 2 the same; nothing got slower", result.stdout)

    def assert_unusable(self, old: dict, new: dict, *fragments: str) -> None:
        result = self.run_script("bench_compare.py", self.write(old, "old.json"),
                                 self.write(new, "new.json"))
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def test_files_that_cannot_be_compared(self):
        other = fixture.side_by_side([fixture.case("b", OLD)])
        device = {**fixture.DEVICE, "name": "Test CPU 9001"}

        self.assert_unusable(file(OLD), other, "no case in common")
        self.assert_unusable(file(OLD), file(OLD, device=device), "device.name: 'Test CPU 9001'",
                             "--any-device")
        self.assert_unusable(file(OLD), fixture.search_cost([fixture.search_row("a", "ranked", 1)]),
                             "expected spjit-side-by-side-1")

    def test_two_machines_on_request(self):
        device = {**fixture.DEVICE, "name": "Test CPU 9001"}

        self.compare(file(OLD), file(OLD, device=device), "--any-device", status=0)


if __name__ == "__main__":
    unittest.main()
