"""The files in bench/results/clock hold simulated cycles, and what holds others is refused."""

import copy
import json
import unittest

import fixture
from clock_files import clock_file_faults
from fixture import ReportTest

FILES = sorted((fixture.ROOT / "bench/results/clock").glob("*-simulated.json"))


def made_up() -> dict:
    tiles = [{"tile": f"rows={rows} columns={columns}", "cycles": 1000 * rows + columns,
              "instructions": 500} for rows in (8, 16, 24, 32, 64) for columns in (32, 64, 96, 128)]
    return {"kind": "simulated", "device": "Card (simulated: 2 SMs)", "simulator": "Simulator 1.0",
            "method": "Traces.", "matrix": "dlmc/layer.smtx", "n": 512, "tiles": tiles,
            "families": [{"family": "csr", "cycles": 9000, "instructions": 800}]}


class ClockFilesTest(ReportTest):
    def assert_refused(self, document: object, reason: str) -> None:
        faults = clock_file_faults(document)
        self.assertTrue([fault for fault in faults if reason in fault], f"{reason}: {faults}")

    def changed(self, **members: object) -> dict:
        return {**made_up(), **members}

    def with_tile(self, **members: object) -> dict:
        document = copy.deepcopy(made_up())
        document["tiles"][3].update(members)
        return document

    def test_there_are_files(self):
        self.assertTrue(FILES)

    def test_the_files_are_right(self):
        for path in FILES:
            document = json.loads(path.read_text(encoding="utf-8"))
            with self.subTest(path.name):
                self.assertEqual(clock_file_faults(document), [])

    def test_a_line_a_record(self):
        for path in FILES:
            text = path.read_text(encoding="utf-8")
            document = json.loads(text)
            lines = [line for line in text.splitlines() if line.startswith("  ")]
            with self.subTest(path.name):
                self.assertEqual([json.loads(line.removesuffix(",")) for line in lines],
                                 document["families"] + document["tiles"])
                self.assertEqual(list(document), sorted(document))

    def test_a_right_one_has_no_faults(self):
        self.assertEqual(clock_file_faults(made_up()), [])
        self.assertEqual(clock_file_faults(self.with_tile(cycles_limited_fetch=2000)), [])

    def test_another_kind_is_refused(self):
        self.assert_refused(self.changed(kind="measured"), "kind is 'measured'")
        self.assert_refused(self.changed(device="RTX 2080 Ti"), "device does not say")

    def test_too_few_tiles_are_refused(self):
        self.assert_refused(self.changed(tiles=made_up()["tiles"][:19]), "19 tiles")
        self.assert_refused(self.changed(tiles=None), "tiles is None")

    def test_fewer_tiles_have_a_reason(self):
        fewer = {"tiles": made_up()["tiles"][:3]}
        self.assertEqual(clock_file_faults(self.changed(**fewer, fewer_tiles="No time.")), [])
        self.assert_refused(self.changed(**fewer, fewer_tiles=""), "fewer_tiles is ''")
        self.assert_refused(self.changed(**fewer, fewer_tiles=3), "fewer_tiles is 3")

    def test_how_a_family_was_launched_is_a_text(self):
        launched = {"family": "sputnik-style", "cycles": 9000, "instructions": 800}
        self.assertEqual(clock_file_faults(
            self.changed(families=[{**launched, "detail": "threads=32"}])), [])
        self.assert_refused(self.changed(families=[{**launched, "detail": 32}]), "detail is 32")

    def test_a_tile_twice_is_refused(self):
        tiles = made_up()["tiles"]
        self.assert_refused(self.changed(tiles=[*tiles, tiles[0]]), "is there twice")
        families = made_up()["families"]
        self.assert_refused(self.changed(families=families * 2), "is there twice")

    def test_cycles_that_are_none_are_refused(self):
        for cycles in (0, -5, 12.5, "12", None, True):
            with self.subTest(cycles):
                self.assert_refused(self.with_tile(cycles=cycles), "cycles is")
        self.assert_refused(self.with_tile(instructions=0), "instructions is 0")
        self.assert_refused(self.with_tile(cycles_limited_fetch=0), "cycles_limited_fetch is 0")

    def test_other_members_are_refused(self):
        self.assert_refused(self.with_tile(time_us=3), "unknown member time_us")
        self.assert_refused(self.with_tile(tile=""), "a record without tile")
        self.assert_refused(self.changed(tiles=[3] * 20), "a record without tile")
        self.assert_refused(self.changed(families=[{"family": "cublas", "cycles": 1,
                                                    "instructions": 1}]), "'cublas' is unknown")
        self.assert_refused([], "expected an object")

    def test_a_path_of_one_machine_is_refused(self):
        self.assert_refused(self.changed(matrix="/data/layer.smtx"), "expected a path below")
        self.assert_refused(self.changed(n=0), "n is 0")
        self.assert_refused(self.changed(method=""), "method is ''")


if __name__ == "__main__":
    unittest.main()
