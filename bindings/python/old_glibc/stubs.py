"""Makes the libraries of glibc as version VERSION had them, to link with.

They have no code, only symbols: of each symbol of this system's glibc the newest version that is
not newer than VERSION, in the library that had it before glibc 2.34 moved most of them into libc.
What is linked with them runs with any glibc from VERSION on. A function that VERSION does not have
is missing here, so that the linker names it.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

LIBRARIES = ("libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0", "libdl.so.2",
             "librt.so.1")
# Where functions were that are in libc now, by their names.
MOVED = (
    ("libpthread.so.0", re.compile(r"_*pthread_|sem_|cnd_|mtx_|thrd_|tss_|call_once$")),
    ("libdl.so.2", re.compile(r"dl(addr|addr1|close|error|info|mopen|open|sym|vsym)$")),
    ("librt.so.1", re.compile(r"aio_|lio_|mq_|__mq_|shm_|timer_")),
)
# By these names a linker looks for them.
LINK_NAMES = {"libm.so.6": "libm.so", "libpthread.so.0": "libpthread.so", "libdl.so.2": "libdl.so",
              "librt.so.1": "librt.so"}

Symbol = collections.namedtuple("Symbol", "name version is_default is_data size")


def version_number(version):
    """GLIBC_2.3.4 is (2, 3, 4); what is no version of glibc, as GLIBC_PRIVATE, is None."""
    match = re.fullmatch(r"(?:GLIBC_)?(\d+(?:\.\d+)+)", version)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def read_symbols(dynamic_symbols):
    """What `readelf --wide --dyn-syms` prints: the symbols that the library defines, with versions."""
    for line in dynamic_symbols.splitlines():
        fields = line.split()
        if len(fields) != 8 or fields[6] in ("UND", "ABS", "Ndx") or "@" not in fields[7]:
            continue
        name, version = re.split("@@?", fields[7])
        if version_number(version):
            yield Symbol(name, version, "@@" in fields[7], fields[3] == "OBJECT", int(fields[2], 0))


def library_of(library, symbol, newest):
    """Where `newest` had what is in this system's `library`; None if that is not known."""
    if library != "libc.so.6" or version_number(symbol.version) <= newest:
        return library
    return next((old for old, names in MOVED if names.match(symbol.name)), None)


def old_symbols(symbols_of, newest):
    """Library -> the symbols that it had, of {library: symbols} of this system."""
    old = collections.defaultdict(list)
    for library, symbols in symbols_of.items():
        versions = collections.defaultdict(list)
        for symbol in symbols:
            versions[symbol.name].append(symbol)
        # What has no default version is there for old programs only: no source can refer to it.
        for default in (symbol for symbol in symbols if symbol.is_default):
            known = [one for one in versions[default.name] if version_number(one.version) <= newest]
            home = library_of(library, default, newest)
            if known and home:
                old[home].append(max(known, key=lambda one: version_number(one.version)))
    return old


def assembly(symbols):
    lines = ['.section .note.GNU-stack,"",@progbits']
    for one in symbols:
        kind, section = ("object", ".bss") if one.is_data else ("function", ".text")
        lines += [section, f".globl {one.name}", f".type {one.name}, @{kind}",
                  f".size {one.name}, {one.size if one.is_data else 0}", f"{one.name}:"]
        lines += [f".skip {max(one.size, 1)}"] if one.is_data else [".byte 0xcc"]
    return "\n".join(lines) + "\n"


def version_script(symbols):
    by_version = collections.defaultdict(list)
    for one in symbols:
        by_version[one.version].append(one.name)
    nodes = [f"{version} {{ global: {'; '.join(sorted(names))}; }};"
             for version, names in sorted(by_version.items())]
    return "\n".join(nodes) + "\n"


def make_stub(cc, folder, library, symbols):
    source, script = folder / f"{library}.s", folder / f"{library}.map"
    source.write_text(assembly(symbols))
    script.write_text(version_script(symbols))
    subprocess.run([cc, "-shared", "-nostdlib", "-x", "assembler", str(source),
                    "-o", str(folder / library), f"-Wl,--soname={library}",
                    f"-Wl,--version-script={script}"], check=True)
    if library in LINK_NAMES:
        link = folder / LINK_NAMES[library]
        link.unlink(missing_ok=True)
        link.symlink_to(library)


def path_of(cc, name):
    found = subprocess.run([cc, f"-print-file-name={name}"], check=True, capture_output=True,
                           text=True)
    path = pathlib.Path(found.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"stubs.py: {cc} finds no {name}; expected glibc with its -dev package")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("version", help="the oldest glibc to run with, such as 2.28")
    parser.add_argument("folder", type=pathlib.Path, help="where the libraries go")
    parser.add_argument("--cc", default="cc", help="the compiler that links")
    arguments = parser.parse_args()
    newest = version_number(arguments.version)
    if newest is None:
        parser.error(f"the version is '{arguments.version}'; expected numbers, such as 2.28")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    symbols_of = {}
    for library in LIBRARIES:
        path = path_of(arguments.cc, library)
        printed = subprocess.run(["readelf", "--wide", "--dyn-syms", str(path)], check=True,
                                 capture_output=True, text=True)
        symbols_of[library] = list(read_symbols(printed.stdout))
    for library, symbols in old_symbols(symbols_of, newest).items():
        make_stub(arguments.cc, arguments.folder.resolve(), library, symbols)
    # As the system's libc.so: functions that every library has of its own, such as atexit.
    own = path_of(arguments.cc, "libc_nonshared.a")
    (arguments.folder / "libc.so").write_text(
        f"GROUP(libc.so.6 {own} AS_NEEDED(ld-linux-x86-64.so.2))\n")


if __name__ == "__main__":
    main()
