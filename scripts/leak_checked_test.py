"""Tests of leak_checked.sh, with shell programs that end as sanitized ones do."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("leak_checked.sh")
CRASH = "==1==LeakSanitizer has encountered a fatal error."


class LeakChecked(unittest.TestCase):

    def run_program(self, body: str) -> tuple[int, str, int]:
        """Exit status, output, and how often the program ran. `$n` is the number of the run."""
        with tempfile.TemporaryDirectory() as folder:
            count = pathlib.Path(folder) / "count"
            program = f'echo >> {count}; n=$(wc -l < {count}); {body}'
            done = subprocess.run([SCRIPT, "sh", "-c", program], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, check=False)
            return done.returncode, done.stdout, len(count.read_text())

    def test_a_program_that_passes_runs_once(self):
        self.assertEqual(self.run_program("echo fine"), (0, "fine\n", 1))

    def test_a_failure_is_one_at_once_with_its_status(self):
        self.assertEqual(self.run_program("echo bad >&2; exit 7"), (7, "bad\n", 1))

    def test_a_crash_of_the_leak_check_is_tried_again(self):
        status, output, runs = self.run_program(f'[ $n -gt 1 ] || {{ echo "{CRASH}"; exit 1; }}')
        self.assertEqual((status, runs), (0, 2))
        self.assertIn("crashed in run 1", output)

    def test_one_that_always_crashes_fails(self):
        status, _, runs = self.run_program(f'echo "{CRASH}"; exit 23')
        self.assertEqual((status, runs), (23, 3))

    def test_failures_besides_the_crash_count(self):
        for line in ("[  FAILED  ] A.B", "ERROR: AddressSanitizer: heap-use-after-free",
                     "ERROR: LeakSanitizer: detected memory leaks",
                     "a.cpp:1:2: runtime error: signed integer overflow"):
            with self.subTest(line):
                status, _, runs = self.run_program(f'echo "{line}"; echo "{CRASH}"; exit 1')
                self.assertEqual((status, runs), (1, 1))

    def test_leaks_found_at_the_second_run_are_a_failure(self):
        status, _, runs = self.run_program(
            f'[ $n -gt 1 ] && {{ echo "ERROR: LeakSanitizer: detected"; exit 5; }}; '
            f'echo "{CRASH}"; exit 1')
        self.assertEqual((status, runs), (5, 2))


if __name__ == "__main__":
    unittest.main()
