#!/usr/bin/env bash
# scripts/build/static_libraries.sh FOLDER
#
# Makes the static libraries that Debian 12 has no package of, FOLDER/libfmt.a and FOLDER/libzip.a,
# as position-independent code, from Debian's sources of the installed versions, for the Python
# wheel. What is there already of these versions stays. Needs what scripts/build/setup.sh installs; changes
# nothing of the system, so it needs no root.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

case ${1:-} in
  -h | --help) print_help; exit 0 ;;
  -* | "") die "expected FOLDER or --help, got '${1:-}'" ;;
esac
(($# == 1)) || die "expected one FOLDER, got $*"
is_debian_12 || die "expected Debian 12: these are Debian's sources of the installed versions"
mkdir -p "$1"
FOLDER=$(cd "$1" && pwd)
readonly FOLDER WORK=$FOLDER/work

# apt with lists of its own: the sources of the packages that the system's lists name.
apt_sources() {
  apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$WORK/sources.list.d" \
    -o Dir::State::Lists="$WORK/lists" -o Dir::Cache="$WORK/cache" -o Acquire::Retries=3 "$@"
}

list_sources() {
  local list
  mkdir -p "$WORK/sources.list.d" "$WORK/lists/partial" "$WORK/cache/archives/partial"
  for list in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
    [[ -s $list ]] || continue
    sed -E 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$list" \
      >"$WORK/sources.list.d/$(basename "$list")"
  done
  apt_sources update
}

# version_of PACKAGE: of its source.
version_of() {
  dpkg-query -W -f '${source:Version}' "$1" || die "$1 is not installed; run scripts/build/setup.sh"
}

# unpack SOURCE VERSION: as the folder WORK/SOURCE.
unpack() {
  (cd "$WORK" && apt_sources source --only-source "$1=$2")
  mv "$WORK/$1"-*/ "$WORK/$1"
}

# build SOURCE TARGET CMAKE ARGUMENT...
build() {
  cmake -S "$WORK/$1" -B "$WORK/$1-build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DBUILD_SHARED_LIBS=OFF -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_C_FLAGS=-w \
    -DCMAKE_CXX_FLAGS=-w "${@:3}" >"$WORK/$1.log" 2>&1 ||
    die "CMake failed: $(tail -n 20 "$WORK/$1.log")"
  cmake --build "$WORK/$1-build" -j "$JOBS" --target "$2" -- --quiet
}

FMT=$(version_of libfmt-dev)
LIBZIP=$(version_of libzip-dev)
readonly FMT LIBZIP
readonly VERSIONS="fmt $FMT, libzip $LIBZIP"
if [[ $(cat "$FOLDER/versions" 2>/dev/null) == "$VERSIONS" ]]; then
  say "$FOLDER has them: $VERSIONS"
  exit 0
fi
rm -rf "$FOLDER/versions" "$WORK"
step "lists of sources" list_sources
step "source of fmt" unpack fmtlib "$FMT"
step "source of libzip" unpack libzip "$LIBZIP"
step "fmt" build fmtlib fmt
# .npz files are stored or deflated.
step "libzip" build libzip zip -DENABLE_BZIP2=OFF -DENABLE_LZMA=OFF \
  -DENABLE_COMMONCRYPTO=OFF -DENABLE_GNUTLS=OFF -DENABLE_MBEDTLS=OFF -DENABLE_OPENSSL=OFF
cp "$WORK/fmtlib-build/libfmt.a" "$WORK/libzip-build/lib/libzip.a" "$FOLDER"
say "$VERSIONS" >"$FOLDER/versions"
rm -rf "$WORK"
