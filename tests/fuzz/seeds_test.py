#!/usr/bin/env python3
"""seeds_test.py FUZZ_MAKE_SEEDS: what it writes is what tests/fuzz/seeds has.

A seed of an older version of a format is refused at its first member, and a target that begins
with it sees nothing of what comes behind.
"""

import pathlib
import subprocess
import sys
import tempfile

SEEDS = pathlib.Path(__file__).with_name("seeds")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[1], folder], check=True)
        made = [path for path in sorted(pathlib.Path(folder).rglob("*")) if path.is_file()]
        names = [path.relative_to(folder) for path in made]
        stale = [str(name) for name, path in zip(names, made)
                 if not (SEEDS / name).is_file() or (SEEDS / name).read_bytes() != path.read_bytes()]
    if not names:
        print("no seed was made")
        return 1
    if stale:
        print(f"{len(stale)} of {len(names)} seeds are not as they are made now; "
              f"run scripts/data/make_fuzz_seeds.sh: {', '.join(stale)}")
        return 1
    print(f"{len(names)} seeds are as they are made")
    return 0


if __name__ == "__main__":
    sys.exit(main())
