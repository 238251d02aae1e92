"""A PC in Debian's Bochs that boots a Linux kernel with given programs and says on its serial port
what they print. For scripts/check/avx512_tests.py.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import re
import shutil
import signal
import stat
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Iterator
from pathlib import Path

# The kernel refuses the XSAVES of Bochs 2.7, and without XSAVE's AVX-512 state no EVEX code runs.
# The PC's clock is that of _IPS, whatever the emulated CPU says of its own.
_KERNEL = ("console=ttyS0,115200 rdinit=/init loglevel=3 panic=0 mitigations=off nokaslr lpj=160000 "
           "tsc_early_khz=40000 no_timer_check random.trust_cpu=on nosmp acpi=off "
           "cryptomgr.notests noxsaves clearcpuid=xsaves,xsavec")

# CPUs that Bochs has, and the kernel's options for each.
MODELS = {
    # AVX-512 F, CD, BW, DQ, VL.
    "corei7_skylake_x": _KERNEL,
    # Also VNNI, VBMI, VBMI2, IFMA, BITALG, VPOPCNTDQ; not BF16. Of what is new in it the kernel may
    # use less: it has XSAVE areas that the kernel finds wrong, and entry code that loses the stack.
    "corei7_icelake_u": f"{_KERNEL},pku,ospke,aperfmperf,rdpid,fsrm nopku split_lock_detect=off "
                        "idle=poll nofsgsbase nopcid noinvpcid",
}

# A second of the PC: about what a second of the CPU here emulates. The PC's clock counts
# instructions, so a test takes the same time of it wherever it runs.
_IPS = 40_000_000
_MEMORY_MB = 1024
_SILENT_CPU_S = 1800  # of Bochs, without a byte from the PC: it hangs

_BOCHSRC = """\
plugin_ctrl: unmapped=1, biosdev=1, speaker=0, extfpuirq=1, parallel=0, serial=1, iodebug=1
config_interface: textconfig
display_library: term
memory: guest={memory}, host={memory}
romimage: file={bochs}/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file={bochs}/usr/share/vgabios/vgabios.bin
cpu: model={model}, count=1, ips={ips}, reset_on_triple_fault=0, ignore_bad_msrs=1
clock: sync=none
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=disk.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=serial.txt
log: bochs.log
panic: action=fatal
error: action=ignore
info: action=report
debug: action=ignore
"""

_GRUB = """\
serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
linux /boot/vmlinuz {kernel}
initrd /boot/initrd
boot
"""


class PcError(Exception):
    """The PC cannot be made, or did not get to its end. One message, with what it said last."""


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive ("newc") of paths without a leading '/', each with its mode and content."""
    def entry(number: int, path: str, mode: int, content: bytes) -> bytes:
        name = path.encode() + b"\0"
        head = b"070701" + b"".join(b"%08X" % word for word in (
            number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0))
        return _padded(head + name) + _padded(content)

    entries = [entry(number, path, *files[path]) for number, path in enumerate(sorted(files), 1)]
    return b"".join([*entries, entry(0, "TRAILER!!!", 0, b"")])


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _end_with_parent() -> None:
    """In the child: however this script ends, the emulator does too."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def libraries_of(program: Path) -> list[Path]:
    """The shared libraries and the loader, where the loader finds them here."""
    output = subprocess.run(["ldd", program], text=True, check=True, stdout=subprocess.PIPE).stdout
    missing = re.findall(r"(\S+) => not found", output)
    if missing:
        raise PcError(f"{program} does not find {', '.join(missing)}")
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", output)]


def root_files(init: Path, programs: list[Path], plan: str) -> dict[str, tuple[int, bytes]]:
    """What the PC's memory holds at the start: folders first, since a path sorts after its folder."""
    files = {name: (stat.S_IFDIR | 0o755, b"") for name in ("dev", "proc", "sys", "tmp", "tests")}
    files["plan"] = (stat.S_IFREG | 0o644, plan.encode())
    executable = stat.S_IFREG | 0o755
    files["init"] = (executable, init.read_bytes())
    for program in programs:
        files[f"tests/{program.name}"] = (executable, program.read_bytes())
    for program in (init, *programs):
        for library in libraries_of(program):
            for folder in reversed(library.relative_to("/").parents[:-1]):
                files.setdefault(str(folder), (stat.S_IFDIR | 0o755, b""))
            files[str(library.relative_to("/"))] = (executable, library.read_bytes())
    return files


class EmulatedPc:
    """A context: leaving it ends the emulator. `bochs` is what scripts/build/setup_bochs.sh made; disk and
    logs go to `work`."""

    def __init__(self, bochs: Path, model: str, work: Path) -> None:
        self.bochs = bochs.resolve()
        self.model = model
        self.work = work
        self.process: subprocess.Popen[bytes] | None = None
        self.screen = -1
        self.drain = threading.Thread()
        self.cpu_s = 0.0  # of the emulator so far
        self.boot_cpu_s = 0.0  # up to the first word of the programs
        self.peak_mb = 0

    def __enter__(self) -> EmulatedPc:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def environment(self) -> dict[str, str]:
        libraries = self.bochs / "usr/lib/x86_64-linux-gnu"
        return {**os.environ, "TERM": "vt100", "BXSHARE": str(self.bochs / "usr/share/bochs"),
                "LTDL_LIBRARY_PATH": str(libraries / "bochs/plugins"),
                "LD_LIBRARY_PATH": f"{libraries}:{self.bochs / 'lib/x86_64-linux-gnu'}"}

    def make_disk(self, files: dict[str, tuple[int, bytes]], variables: dict[str, str]) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        boot = self.work / "disk/boot"
        (boot / "grub").mkdir(parents=True)
        (boot / "initrd").write_bytes(archive(files))
        shutil.copy(self.bochs / "vmlinuz", boot / "vmlinuz")
        # What the kernel does not know becomes a variable of /init.
        words = [MODELS[self.model], *(f"{name}={value}" for name, value in variables.items())]
        (boot / "grub/grub.cfg").write_text(_GRUB.format(kernel=" ".join(words)))
        tools = self.bochs / "usr/bin"
        made = subprocess.run(
            [tools / "grub-mkrescue", f"--directory={self.bochs / 'usr/lib/grub/i386-pc'}",
             f"--xorriso={tools / 'xorriso'}", "--fonts=", "--themes=", "--locales=", "--compress=no",
             "-o", self.work / "disk.iso", self.work / "disk"],
            env={**self.environment(), "PATH": f"{tools}:{os.environ['PATH']}"}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            raise PcError(f"grub-mkrescue ended with {made.returncode}:\n{made.stdout}")
        shutil.rmtree(self.work / "disk")

    def start(self, init: Path, programs: list[Path], plan: str, variables: dict[str, str]) -> None:
        """`variables` are the environment of the programs: names and values without spaces."""
        self.make_disk(root_files(init, programs, plan), variables)
        (self.work / "serial.txt").touch()
        (self.work / "bochsrc").write_text(_BOCHSRC.format(
            memory=_MEMORY_MB, bochs=self.bochs, model=self.model, ips=_IPS))
        (self.work / "rc").write_text("c\n")  # Debian's Bochs has a debugger: continue
        # It draws its screen in a terminal, which this is and nobody looks at.
        self.screen, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.process = subprocess.Popen(
            [self.bochs / "usr/bin/bochs-bin", "-q", "-f", "bochsrc", "-rc", "rc"], cwd=self.work,
            env=self.environment(), stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True, preexec_fn=_end_with_parent)
        os.close(terminal)
        self.drain = threading.Thread(target=self._drain, daemon=True)
        self.drain.start()

    def _drain(self) -> None:
        try:
            with open(self.work / "screen.txt", "wb") as log:
                while data := os.read(self.screen, 65536):
                    log.write(data)
        except OSError:  # its other end is closed
            pass

    def lines(self) -> Iterator[str]:
        """What the PC says, a line at a time. Raises PcError if it stops, hangs or panics."""
        assert self.process is not None
        rest, heard_cpu_s = b"", 0.0
        with open(self.work / "serial.txt", "rb") as serial:
            while True:
                self._measure()
                ended = self.process.poll() is not None  # asked first: what it wrote before is read
                data = serial.read()
                if data:
                    heard_cpu_s = self.cpu_s
                    *complete, rest = (rest + data).replace(b"\r", b"").split(b"\n")
                    for line in complete:
                        yield self._checked(line.decode(errors="replace"))
                elif ended:
                    raise PcError(f"the emulator ended: {self._last_words()}")
                elif self.cpu_s - heard_cpu_s > _SILENT_CPU_S:
                    raise PcError(f"the PC has said nothing for {_SILENT_CPU_S} s of CPU time: "
                                  f"{self._last_words()}")
                else:
                    time.sleep(0.2)

    def _checked(self, line: str) -> str:
        if "Kernel panic" in line:
            raise PcError(f"the PC's kernel stopped: {self._last_words()}")
        if not self.boot_cpu_s and line.startswith("@@ "):
            self.boot_cpu_s = self.cpu_s
        return line

    def _last_words(self) -> str:
        log = self.work / "bochs.log"
        panics = re.findall(r"^.*PANIC.*$", log.read_text(errors="replace"), re.M) if log.exists() else []
        said = (self.work / "serial.txt").read_text(errors="replace").splitlines()[-20:]
        return "\n".join([*panics, "the last that it said:", *said])

    def _measure(self) -> None:
        """Leaves the figures as they are once the process has gone."""
        assert self.process is not None
        folder = Path(f"/proc/{self.process.pid}")
        try:
            times = (folder / "stat").read_text().rsplit(")", 1)[1].split()[11:13]
            peak = re.search(r"VmHWM:\s+(\d+) kB", (folder / "status").read_text())
        except OSError:
            return
        self.cpu_s = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        self.peak_mb = int(peak[1]) // 1024 if peak else self.peak_mb

    def cost(self) -> str:
        return (f"boot {self.boot_cpu_s:.0f} s, all {self.cpu_s:.0f} s of CPU time, "
                f"{self.peak_mb} MB of memory, CPU model {self.model}")

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.drain.join()  # nobody has the terminal's other end now
        os.close(self.screen)
        self.process = None
