"""The page in headless Chromium, on a phone and on a desk, light and dark. Skips without Chromium
(apt-get install chromium). SPJIT_SCREENSHOTS names a folder that keeps the screenshots."""

import os
import tempfile
import unittest
from pathlib import Path

import fixture
from chromium import NAMES, Browser, find_chromium
from convolutions_test import two_layers
from fixture import ReportTest
from layers_test import layer_bench, layer_case
from networks_test import a_pass, model_bench, network

SIZES = {"phone": (360, 800), "desk": (1280, 900)}

# What reaches beyond the window's right edge outside of frames that scroll.
STICKING_OUT = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + ': ' + e.textContent.slice(0, 40))"""

# Texts of figures that are cut off, and pairs that lie on each other by more than a pixel or two.
CUT_OFF = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  return [...svg.querySelectorAll('text')].filter(t => {
    const box = t.getBoundingClientRect();
    return box.left < frame.left - 1 || box.right > frame.right + 1 ||
           box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
  }).map(t => svg.querySelector('title').textContent + ': ' + t.textContent);
})"""
OVERLAPPING = """
[...document.querySelectorAll('svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
  return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([b, q]) => {
    const width = Math.min(p.right, q.right) - Math.max(p.left, q.left);
    const height = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
    return width > 2 && height > 5;
  }).map(([b]) => svg.querySelector('title').textContent + ': ' + a.textContent + ' / ' +
                  b.textContent));
})"""
SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll('svg text')].map(t =>
  parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"""
BACKGROUND = "getComputedStyle(document.body).backgroundColor"


def hard_document() -> dict:
    """Long names, many peers, shapes, widths and sparsities."""
    peers = ["csr", "openblas", "mkl-sparse-inspector", "onednn", "eigen", "libxsmm", "taco-like"]
    libraries = [{"name": name, "version": f"{name}-{'version' * 12}", "kind": "sparse",
                  "missing": None} for name in ["spjit", *peers]]
    cases = []
    for index, sparsity in enumerate([0.11, 0.5, 0.6, 0.7, 0.8, 0.9, 0.93, 0.95, 0.98, 0.999]):
        for n in (1, 50176):
            medians = {name: 10.0 + 3 * (index + 1) * (p + 1) for p, name in enumerate(peers)}
            size = 64 << index % 6
            cases.append(fixture.case(
                f"transformer/{'variational_dropout/' * 4}{sparsity}/{'layer_name_' * 8}.smtx",
                {"spjit": 10.0, **medians}, n=n, sparsity=sparsity, rows=size, cols=2 * size,
                nnz=round((1 - sparsity) * 2 * size * size),
                layer="encoder.layer.0.attention.output.dense"))
    return fixture.side_by_side(cases, libraries=libraries)


def hard_networks() -> dict:
    """Every n, many peers, times far apart; one family of five, one alone."""
    peers = ["openblas", "mkl-sparse-inspector", "onednn", "onnxruntime", "mkl-dense"]
    libraries = [{"name": name, "version": "1", "kind": "dense", "missing": None}
                 for name in ["spjit", *peers]]
    cases = [network(name, 1 << power,
                     [a_pass(library, (place + 1) * 30.0 * 2 ** power)
                      for place, library in enumerate(["spjit", *peers])])
             for name in ["minilm-50", "minilm-70", "minilm-80", "minilm-90", "minilm-95", "rn50"]
             for power in range(10)]
    return {**model_bench(cases), "libraries": libraries}


def hard_layers() -> dict:
    """Seventeen numbers of tokens, ways with long names, ratios far apart."""
    ways = ["own kernel of that n", "any n, made for 16", "any n, made for 128",
            "any n, made for 512"]
    return layer_bench([layer_case("runtime-n-tokens", n, {
        way: 10.0 * (1 + place * n / 999) for place, way in enumerate(ways)})
        for n in (1, 2, 3, 5, 8, 13, 16, 31, 64, 100, 128, 250, 512, 777, 1024, 2049, 4096)])


def documents() -> list[dict]:
    rows = [fixture.search_row(f"matrix{i}", way, seconds * (i + 1), killed=seconds * i > 500)
            for i in range(6) for way, seconds in
            [("full undivided", 110.0), ("proxies", 3.0), ("ranked", 1.0), ("instant", 0.0001)]]
    return [hard_document(), hard_networks(), hard_layers(), two_layers(),
            fixture.search_cost(rows)]


@unittest.skipUnless(find_chromium(), f"none of {', '.join(NAMES)} is installed")
class RenderingTest(ReportTest):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="spjit-chromium-", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        cls.browser = Browser(find_chromium(), Path(folder.name))
        cls.addClassCleanup(cls.browser.close)

    def setUp(self) -> None:
        super().setUp()
        self.make_page(*documents())
        self.page = self.folder / "report.html"

    def keep_screenshot(self, name: str) -> None:
        folder = os.environ.get("SPJIT_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.browser.screenshot(Path(folder) / f"{name}.png")

    def test_nothing_is_wider_than_the_window(self):
        for name, size in SIZES.items():
            with self.subTest(window=name):
                self.browser.show(self.page, size, "light")

                self.assertEqual(self.browser.evaluate("innerWidth"), size[0])
                self.assertEqual(self.browser.evaluate(STICKING_OUT), [])
                width = self.browser.evaluate("document.documentElement.scrollWidth")
                self.assertLessEqual(width, size[0])

    def test_folded_tables_scroll_inside_their_frames(self):
        self.browser.show(self.page, SIZES["phone"], "light")
        self.browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")

        self.assertEqual(self.browser.evaluate(STICKING_OUT), [])
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 360)

    def test_labels_of_figures_are_whole_apart_and_readable(self):
        for name, size in SIZES.items():
            with self.subTest(window=name):
                self.browser.show(self.page, size, "light")

                self.assertEqual(self.browser.evaluate(CUT_OFF), [])
                self.assertEqual(self.browser.evaluate(OVERLAPPING), [])
                self.assertGreaterEqual(self.browser.evaluate(SMALLEST_TEXT), 9)

    def test_light_and_dark_are_as_the_reader_has_them(self):
        for scheme, background in [("light", "rgb(255, 255, 255)"), ("dark", "rgb(15, 20, 25)")]:
            for name, size in SIZES.items():
                with self.subTest(scheme=scheme, window=name):
                    self.browser.show(self.page, size, scheme)
                    self.keep_screenshot(f"{name}-{scheme}")

                    self.assertEqual(self.browser.evaluate(BACKGROUND), background)

    def test_only_the_page_itself_is_loaded(self):
        self.browser.show(self.page, SIZES["desk"], "light")

        loaded = [event["params"]["request"]["url"] for event in self.browser.events
                  if event.get("method") == "Network.requestWillBeSent"]
        self.assertEqual(loaded, [self.page.resolve().as_uri()])


if __name__ == "__main__":
    unittest.main()
