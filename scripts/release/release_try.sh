#!/bin/sh
# scripts/release/release_try.sh VERSION
#
# Run by scripts/release/release.sh as root of a bare Debian 12, beside the files of a release: installs the
# Debian packages and the wheel as README.md says, and runs its examples. Never run it elsewhere: it
# installs and removes packages.

set -eu
cd "$(dirname "$0")"
version=$1

say() { printf '%s\n' "$*"; }
fail() {
  say "release_try.sh: $*" >&2
  exit 1
}

# apt COMMAND PACKAGE...
apt() {
  DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 \
    --no-install-recommends "$@" >apt.log 2>&1 || {
    tail -n 20 apt.log
    fail "apt-get $* failed"
  }
}

# The tool alone, before anything else could bring a library that it needs.
try_tool() {
  apt install ./libspjit*.deb ./spjit_*.deb
  [ "$(spjit --version)" = "spjit $version" ] ||
    fail "spjit --version says '$(spjit --version)'; expected 'spjit $version'"
  ldconfig -p | grep -q 'libspjit[.]so[.]' || fail "the loader does not find libspjit"
  [ -s /usr/share/man/man1/spjit-compile.1.gz ] || say "no manual pages: dpkg leaves them out here"
  spjit gen --rows 2048 --cols 512 --sparsity 0.9 --seed 1 --out weights.npz
  spjit compile weights.npz --n 512
}

try_wheel() {
  apt install python3-venv
  python3 -m venv venv
  venv/bin/pip --quiet install --no-index --find-links wheels ./spjit-*.whl
  cat readme.py - >readme_checked.py <<'END'
import numpy as np
expected = np.maximum(np.ones((8, 512), "float32") @ w.T, 0)
assert y.shape == (8, 2048) and np.allclose(y, expected, atol=1e-3), (y, expected)
print("README.md's Python:", spjit.__version__, layer.info["target"], layer.info["family"], y.shape)
END
  venv/bin/python readme_checked.py
  venv/bin/python -m spjit --version
}

try_cmake() {
  mkdir with_cmake
  cp readme.cpp with_cmake
  cat >with_cmake/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(readme LANGUAGES CXX)
find_package(spjit REQUIRED)
add_executable(readme readme.cpp)
target_link_libraries(readme PRIVATE spjit::spjit)
END
  for folder in with_cmake consumer; do
    cmake --no-warn-unused-cli -S $folder -B $folder/build "-DSPJIT_EXPECTED_VERSION=$version" \
      >cmake.log
    cmake --build $folder/build >>cmake.log || { cat cmake.log; fail "$folder does not build"; }
  done
  with_cmake/build/readme
  consumer/build/consumer
}

# shellcheck disable=SC2046  # flags are words
try_pkg_config() {
  g++ -std=c++20 readme.cpp -o readme $(pkg-config --cflags --libs spjit)
  ./readme
  gcc -std=c11 layer.c -o layer $(pkg-config --cflags --libs spjit) -lm
  ./layer weights.mtx
}

apt update
say "-- spjit"
try_tool
say "-- the wheel"
try_wheel
apt install g++ cmake make pkg-config
say "-- find_package(spjit)"
try_cmake
say "-- pkg-config spjit"
try_pkg_config
apt purge 'libspjit*' spjit
left=$(find /usr -name '*spjit*' -not -path '/usr/share/doc/*')
[ -z "$left" ] || fail "removing the packages leaves $left"
say "-- all of it works in a bare Debian $(cat /etc/debian_version)"
