"""Compiler(cache_remote=...): kernels from a server (docs/use/remote-cache.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import assert_close, expected, floats

import spjit

_SCRIPT = Path(__file__).parents[3] / "tests" / "support" / "files" / "fault_server.py"


@pytest.fixture
def server(tmp_path):
    """The URL of a server of an empty folder."""
    folder = tmp_path / "objects"
    folder.mkdir()
    with subprocess.Popen([sys.executable, _SCRIPT, folder], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.stdin.close()


@pytest.fixture
def remote(tmp_path, server, signing_keys, monkeypatch):
    """Writes the options of a server with the given fault."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    private, public = signing_keys("team")

    def write(fault="ok", **members):
        path = tmp_path / "remote.json"
        path.write_text(json.dumps({
            "url": f"{server}/{fault}", "mode": "read-write", "public_keys": [str(public)],
            "private_key": str(private), "dear_only": False, "timeout_ms": 10_000, **members}))
        path.chmod(0o600)
        return path

    Path(private).chmod(0o600)
    return write


def _compiler(tmp_path, name, remote):
    return spjit.Compiler(cache=tmp_path / name, cache_remote=remote)


def test_what_one_compiler_made_another_takes(tmp_path, weights, rng, remote):
    x = floats(rng, 8, weights.shape[1])
    one = _compiler(tmp_path, "one", remote())
    made = one.compile(weights, 8)
    assert one.flush_remote(timeout=30)

    taken = _compiler(tmp_path, "two", remote()).compile(weights, 8)

    assert (made.info["from_cache"], taken.info["from_cache"]) == (False, True)
    assert taken.info["cache_directory"] == str(tmp_path / "two")
    assert_close(taken(x), expected(weights, x))


def test_a_server_that_fails_is_a_note(tmp_path, weights, rng, remote):
    kernel = _compiler(tmp_path, "one", remote("status/500", mode="read")).compile(weights, 8)

    assert "status 500" in kernel.info["note"]
    x = floats(rng, 8, weights.shape[1])
    assert_close(kernel(x), expected(weights, x))


def test_without_a_server_nothing_is_waited_for(tmp_path):
    assert spjit.Compiler(cache=tmp_path / "one", cache_remote=False).flush_remote()


def test_counts_of_a_compiler(tmp_path, weights, remote):
    made = _compiler(tmp_path, "one", remote())
    made.compile(weights, 8)
    assert made.flush_remote(timeout=30)
    taken = _compiler(tmp_path, "two", remote())
    taken.compile(weights, 8)

    assert made.metrics()["spjit_kernels_compiled_total"] == 1
    assert made.metrics()['spjit_remote_pushed_total{outcome="written"}'] == 1
    assert taken.metrics()['spjit_cache_hits_total{place="remote"}'] == 1
    assert taken.metrics()['spjit_remote_bytes_total{direction="in"}'] > 0
    assert "# TYPE spjit_cache_hits_total counter\n" in taken.metrics_text()


def test_what_prometheus_reads(tmp_path, weights, remote):
    parser = pytest.importorskip("prometheus_client.parser",
                                 reason="prometheus-client is not installed")
    compiler = _compiler(tmp_path, "one", remote())
    compiler.compile(weights, 8)

    families = list(parser.text_string_to_metric_families(compiler.metrics_text()))

    read = {family.name: family.type for family in families}
    assert read["spjit_cache_hits"] == read["spjit_remote_misses"] == "counter"
    assert read["spjit_remote_left_alone"] == "gauge"
    assert sum(len(family.samples) for family in families) == len(compiler.metrics())


def test_a_host_that_never_compiles(tmp_path, weights, rng):
    spjit.Compiler(cache=tmp_path / "one").compile(weights, 8)
    never = spjit.Compiler(cache=tmp_path / "one", compile="never")
    x = floats(rng, 8, weights.shape[1])

    assert_close(never.compile(weights, 8)(x), expected(weights, x))
    with pytest.raises(spjit.NotSupported, match=r"differs in n \(8 there, 9 wanted\)"):
        never.compile(weights, 9)
    with pytest.raises(spjit.InvalidArgument, match="needed or never"):
        spjit.Compiler(compile="always")


def test_a_dead_server_and_a_compiler_a_layer(tmp_path, weights, remote):
    """What a program of 72 layers waits for: three deadlines."""
    path = remote("slow_first_byte", mode="read", timeout_ms=300)

    counts = [0.0, 0.0]
    for layer in range(72):
        compiler = _compiler(tmp_path, "one", path)
        compiler.compile(weights, layer + 1)
        counts[0] += compiler.metrics()['spjit_remote_misses_total{reason="timeout"}']
        counts[1] += compiler.metrics()['spjit_remote_misses_total{reason="breaker"}']

    assert counts == [3, 69]
