"""Kernels in threads, forks, interrupted compilations and ends of programs; the command line."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse
from conftest import assert_close, expected, floats

import spjit
from spjit._compiler import interruptible


def test_two_kernels_run_in_two_threads(weights, rng):
    kernels = [spjit.compile(weights, threads=2), spjit.compile(weights.T.tocsr(), threads=2)]
    inputs = [floats(rng, 65, 40), floats(rng, 65, 48)]
    references = [kernel(x) for kernel, x in zip(kernels, inputs)]
    wrong = []

    def work(index):
        for _ in range(300):
            if not np.array_equal(kernels[index](inputs[index]), references[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(i % 2,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not wrong


def test_threads_compile_at_once(weights):
    compiler = spjit.Compiler(cache=False)
    made = []
    threads = [threading.Thread(target=lambda n=n: made.append(compiler.compile(weights, n).n))
               for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(made) == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("threads", [1, 2])
def test_runs_in_a_forked_child(weights, rng, threads):
    kernel = spjit.compile(weights, threads=threads)
    x = floats(rng, 33, 40)
    reference = kernel(x)

    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if np.array_equal(kernel(x), reference) else 2
            del kernel
            gc.collect()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    np.testing.assert_array_equal(kernel(x), reference)


def _call(kernel, x, bias):
    return kernel(x, bias=bias)


def test_goes_to_worker_processes_by_content(weights, rng):
    x, bias = floats(rng, 9, 40), floats(rng, 48)
    kernel = spjit.compile(weights, bias=True, activation="relu", threads=2, cache=False)

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        y = pool.apply(_call, (kernel, x, bias))

    np.testing.assert_array_equal(y, kernel(x, bias=bias))


def test_a_copy_of_a_copy_is_the_kernel(weights, rng):
    x, w = floats(rng, 2, 6, 8, 4), floats(rng, 6, 4) * (rng.random((6, 4)) < 0.3)
    for kernel, given in (
            (spjit.compile(weights, threads=2, layout="features"), floats(rng, 40, 3)),
            (spjit.compile(w, convolution=spjit.Conv2d(4, 6, 8)), x)):
        other = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(kernel))))

        np.testing.assert_array_equal(other(given), kernel(given))
        assert type(other) is type(kernel)
        assert repr(other) == repr(kernel)
        assert other.info["threads"] == kernel.info["threads"]
        assert copy.copy(kernel) is copy.deepcopy(kernel) is kernel


def test_what_cannot_be_pickled_says_so_in_one_line(weights, tmp_path, capfd):
    kernel = spjit.compile(weights, runtime_values=True)
    with spjit.BundleWriter(tmp_path / "a.spjit") as writer:
        writer.add("layer", kernel)
        for what in (spjit.Compiler(), kernel.prepare_values(weights), writer):
            with pytest.raises(TypeError, match="only a Kernel can; make the others anew"):
                pickle.dumps(what)
            with pytest.raises(TypeError, match="only a Kernel can"):
                copy.deepcopy(what)
    with pytest.raises(TypeError, match="only a Kernel can"):
        pickle.dumps(spjit.Bundle(tmp_path / "a.spjit"))

    del what
    gc.collect()
    object.__new__(type(kernel._handle))  # as a copy that failed leaves it
    gc.collect()
    assert capfd.readouterr().err == ""  # no ignored exception of __del__


def test_outlives_its_compiler_matrix_and_values_its_kernel(weights, rng):
    x = floats(rng, 9, 40)
    compiler = spjit.Compiler(threads=2)
    kernel = compiler.compile(weights, runtime_values=True)
    values = kernel.prepare_values(weights)
    reference = expected(weights, x)
    del compiler, weights
    gc.collect()
    assert_close(kernel(x, values=values), reference)

    run = kernel.__call__
    del kernel
    gc.collect()
    assert_close(run(x, values=values), reference)
    del run
    gc.collect()
    del values


def test_ends_with_the_interpreter_in_any_order():
    program = ("import numpy, spjit, sys\n"
               "k = spjit.compile(numpy.eye(8, dtype='f4'), threads=2, cache=False)\n"
               "class Late:\n"
               "    def __del__(self):\n"
               "        assert (k(numpy.ones((2, 8), 'f4')) == 1).all(); print('late')\n"
               "sys.late = Late(); sys.kernel = k; k.itself = k\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          check=False)

    assert (done.returncode, done.stderr) == (0, "")


def test_lets_other_threads_run_meanwhile(rng):
    a = scipy.sparse.random(1500, 1500, density=0.3, format="csr", dtype=np.float32,
                            random_state=1)
    kernel = spjit.compile(a, cache=False)
    x = floats(rng, 2000, 1500)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.perf_counter()
    kernel(x)
    end = time.perf_counter()
    done.set()
    thread.join()

    # With the lock held there would be none between begin and end.
    assert any(begin < at < end for at in ticks)


@pytest.fixture
def default_interrupts():
    """Programs that a script starts in the background ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_stops_a_compilation(default_interrupts):
    a = scipy.sparse.random(3000, 3000, density=0.2, format="csr", dtype=np.float32,
                            random_state=1)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.perf_counter()

    with pytest.raises(KeyboardInterrupt):
        spjit.compile(a, 256, search="exhaustive", search_budget=120, cache=False)

    timer.join()
    assert time.perf_counter() - begin < 60  # of 120


def test_ctrl_c_while_the_thread_starts_waits_for_its_end(default_interrupts, monkeypatch):
    ended = []

    class Starting(threading.Thread):
        def start(self):
            super().start()
            raise KeyboardInterrupt

    def work():
        time.sleep(0.2)
        ended.append(True)

    monkeypatch.setattr(threading, "Thread", Starting)
    with pytest.raises(KeyboardInterrupt):
        interruptible(work, lambda: None)
    assert ended == [True]


def run_command(*arguments):
    return subprocess.run([sys.executable, "-m", "spjit", *arguments], capture_output=True,
                          text=True, check=False)


def test_is_the_command_line(tmp_path):
    made = run_command("gen", "--rows", "16", "--cols", "24", "--sparsity", "0.5", "--out",
                       str(tmp_path / "a.npz"))
    assert made.returncode == 0, made.stderr
    compiled = run_command("compile", str(tmp_path / "a.npz"), "--n", "8", "--no-measure")
    assert compiled.returncode == 0, compiled.stderr
    assert "16x24" in compiled.stdout
    assert run_command("--version").stdout == f"spjit {spjit.__version__}\n"
    wrong = run_command("cook")
    assert wrong.returncode == 2
    assert "'cook' is no command" in wrong.stderr
