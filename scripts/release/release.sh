#!/usr/bin/env bash
# scripts/release/release.sh [--output FOLDER] [--version X.Y.Z] [--rehearse]
#
# Makes the files of a release, on Debian 12, from a clean tree whose version, CHANGELOG.md and
# README.md agree (scripts/release/release_check.py): a source archive; from that the Python wheel and the
# Debian packages; SHA256SUMS. Checks the symbols of the library and the packages (lintian), and
# tries all of it in a bare Debian 12 (scripts/release/release_try.sh), for which it needs mmdebstrap and
# the right to make namespaces; without, the end says that it was not tried. FOLDER appears when
# all is done. What was made of this commit is kept in build/packages and not made again.
#
#   --output FOLDER  default: build/spjit-X.Y.Z; one that is there has to hold a release, and is
#                    replaced
#   --version X.Y.Z  refuses a tree of another version
#   --rehearse       does all this to the last commit, whatever release_check.py says
#   DEBFULLNAME, DEBEMAIL  who maintains the Debian packages; default: git's user.name, user.email
#   SPJIT_SKIP_SETUP=1     leaves out the installation of packages
#
# With CMAKE_CXX_COMPILER_LAUNCHER=ccache a second release compiles what changed.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/../build/packages.sh"
cd "$ROOT"

output=""
check_options=()
while (($# > 0)); do
  case $1 in
    --output) output=${2:?--output needs a folder}; shift 2 ;;
    --version) check_options+=(--version "${2:?--version needs X.Y.Z}"); shift 2 ;;
    --rehearse) check_options+=(--rehearse); shift ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --output, --version, --rehearse or --help" ;;
  esac
done

readonly WORK=$ROOT/build/packages
readonly SOURCE=$WORK/source FILES=$WORK/files MAKING=$WORK/making DONE=$WORK/done
readonly BARE=$ROOT/build/debian12.tar

# A line each for what is missing.
check_tools() {
  local tool complete=1
  for tool in git python3 cmake ninja dpkg-shlibdeps file lintian; do
    command -v "$tool" >/dev/null || { say "missing: $tool" >&2; complete=0; }
  done
  ((complete == 1)) || die "install them, or leave out SPJIT_SKIP_SETUP"
}

check_output() {
  if [[ -e $1 && ! -f $1/SHA256SUMS ]] && [[ ! -d $1 || -n $(ls -A "$1") ]]; then
    die "$1 is there and holds no release; remove it or name another --output"
  fi
}

# What was made of another commit is of no use.
begin_work() {
  if [[ $(cat "$WORK/commit" 2>/dev/null) != "$COMMIT" ]]; then
    rm -rf "$WORK"
    mkdir -p "$WORK"
    say "$COMMIT" >"$WORK/commit"
  fi
  mkdir -p "$FILES" "$DONE"
}

# made STEP COMMAND...: unless it was done for this commit. What it puts into MAKING is part of the
# release when it has ended well.
made() {
  if [[ -e $DONE/$1 ]]; then
    say "==> $1: done before"
    return
  fi
  rm -rf "$MAKING"
  mkdir "$MAKING"
  step "$@"
  find "$MAKING" -type f -exec mv -t "$FILES" {} +
  touch "$DONE/$1"
}

make_source_archive() {
  rm -rf "$SOURCE"
  git archive --format=tar.gz --prefix="spjit-$VERSION/" -o "$MAKING/spjit-$VERSION.tar.gz" HEAD
  mkdir "$SOURCE"
  tar -xzf "$MAKING/spjit-$VERSION.tar.gz" -C "$SOURCE" --strip-components=1
}

make_wheel() {
  (cd "$SOURCE" && scripts/check/python_tests.sh --wheel-only --keep "$MAKING")
}

maintainer() {
  local name=${DEBFULLNAME:-$(git config user.name)} email=${DEBEMAIL:-$(git config user.email)}
  [[ -n $name && -n $email ]] || die "who maintains the packages? Set DEBFULLNAME and DEBEMAIL"
  say "$name <$email>"
}

make_debian_packages() {
  local who
  who=$(maintainer)
  # Objects are the wheel's, but for those that use LLVM: ccache has them.
  cmake -G Ninja -S "$SOURCE" -B "$SOURCE/build/deb" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DSPJIT_DEB=ON \
    "-DSPJIT_DEB_MAINTAINER=$who" "-DSPJIT_WERROR=${SPJIT_WERROR:-OFF}" -DSPJIT_LLVM=ON \
    -DSPJIT_TRAINING=ON -DSPJIT_BUILD_TESTS=OFF -DSPJIT_BUILD_BENCH=OFF \
    -DSPJIT_BUILD_EXAMPLES=OFF
  cmake --build "$SOURCE/build/deb" -j "$JOBS"
  (cd "$SOURCE/build/deb" && rm -rf debs && cpack -G DEB -B debs)
  mv "$SOURCE"/build/deb/debs/*.deb "$MAKING"
}

# What release_check.py, and so README.md, calls them.
check_names() {
  local found
  found=$(cd "$FILES" && find . -type f \( -name '*.whl' -o -name '*.deb' \) -printf '%P\n' | sort)
  [[ $found == "$(printf '%s\n' "${EXPECTED[@]}" | sort)" ]] ||
    die "made $(xargs <<<"$found"); expected ${EXPECTED[*]}"
}

check_symbols() {
  local unpacked=$MAKING/unpacked library
  dpkg-deb -x "$FILES"/libspjit[0-9]*.deb "$unpacked"
  library=$(find "$unpacked" -name 'libspjit.so.*' -type f)
  python3 "$SOURCE/scripts/check/check_symbols.py" "$library"
  rm -rf "$unpacked"
}

# Not of packages from outside Debian: they close no bug of it. CPack calls ldconfig, where Debian's
# own tools would ask dpkg to.
check_packages() {
  lintian --allow-root --fail-on error,warning \
    --suppress-tags initial-upload-closes-no-bugs,maintscript-calls-ldconfig "$FILES"/*.deb
}

# in_namespace COMMAND...: as root of a system of its own, which root may, and a user where the
# kernel lets users.
in_namespace() {
  local user=()
  ((EUID == 0)) || user=(--user --map-root-user --map-auto)
  unshare "${user[@]}" --mount --pid --fork "$@"
}

# Why nothing can be tried in a bare Debian; nothing if it can.
why_not_tried() {
  if ! command -v mmdebstrap >/dev/null; then
    say "mmdebstrap is not installed"
  elif ! in_namespace true 2>/dev/null; then
    say "unshare may make no namespace here; run this as root, or install uidmap"
  fi
}

# A month later its packages have changed.
make_bare_debian() {
  [[ -z $(find "$BARE" -mtime -30 2>/dev/null) ]] || return 0
  rm -f "$BARE.part.tar"
  mmdebstrap --quiet --variant=apt bookworm "$BARE.part.tar"
  mv "$BARE.part.tar" "$BARE"
}

# first_block LANGUAGE: the first example of README.md in that language.
first_block() {
  awk -v start="\`\`\`$1" '$0 == start { inside = 1; next } inside && /^```/ { exit } inside' \
    "$SOURCE/README.md"
}

# What release_try.sh works on. Dependencies of the wheel come from here, so that pip's settings of
# this machine hold.
collect_trial() {
  mkdir -p "$1/wheels"
  cp "$FILES"/* "$SOURCE/scripts/release/release_try.sh" "$SOURCE/examples/c/layer.c" \
    "$SOURCE/examples/quickstart/weights.mtx" "$1"
  cp -r "$SOURCE/tests/install/consumer" "$1"
  first_block python >"$1/readme.py"
  first_block cpp >"$1/readme.txt"
  {
    grep '^#include' "$1/readme.txt"
    printf 'int main() {\n%s\n}\n' "$(grep -v '^#include' "$1/readme.txt")"
  } >"$1/readme.cpp"
  with_pip "$WORK/pip" download --only-binary :all: --python-version 3.11 --dest "$1/wheels" \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 "$FILES"/*.whl
}

try_in_bare_debian() {
  local root=$WORK/bare
  in_namespace rm -rf "$root"
  mkdir "$root"
  make_bare_debian
  rm -rf "$WORK/trial"
  collect_trial "$WORK/trial"
  # shellcheck disable=SC2016  # expanded in there
  in_namespace bash -euc '
    tar -xpf "$1" -C "$2" --exclude="./dev/*"
    mount --rbind /dev "$2/dev"
    mount -t proc proc "$2/proc"
    cp /etc/resolv.conf "$2/etc/resolv.conf"
    cp -r "$3" "$2/trial"
    exec chroot "$2" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
      ${http_proxy:+http_proxy="$http_proxy"} sh /trial/release_try.sh "$4"
  ' bash "$BARE" "$root" "$WORK/trial" "$VERSION"
  in_namespace rm -rf "$root"
  rm -rf "$WORK/trial"
}

# Whole, or as it was.
publish() {
  local output=$1 new
  mkdir -p "$(dirname "$output")"
  new=$(mktemp -d "$output.XXXXXX")
  chmod 755 "$new"
  cp "$FILES"/* "$new"
  (cd "$new" && sha256sum -- * >../SHA256SUMS.$$ && mv ../SHA256SUMS.$$ SHA256SUMS)
  [[ ! -e $output ]] || mv "$output" "$new.former"
  mv "$new" "$output"
  rm -rf "$new.former"
}

if [[ ${SPJIT_SKIP_SETUP:-0} != 1 ]]; then
  step "setup" scripts/build/setup.sh
  install_packages lintian mmdebstrap file
fi
is_debian_12 || die "expected Debian 12: the packages are made for it"
check_tools
release=$(scripts/release/release_check.py "${check_options[@]}") || die "this tree cannot be released"
mapfile -t EXPECTED <<<"$release"
VERSION=${EXPECTED[0]}
unset 'EXPECTED[0]'
COMMIT=$(git rev-parse HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
readonly EXPECTED VERSION COMMIT
export SOURCE_DATE_EPOCH CCACHE_BASEDIR=$SOURCE CCACHE_NOHASHDIR=1
output=$(realpath -m "${output:-build/spjit-$VERSION}")
check_output "$output"
begin_work
made "source archive" make_source_archive
made "wheel" make_wheel
made "Debian packages" make_debian_packages
check_names
made "symbols" check_symbols
made "lintian" check_packages
not_tried=$(why_not_tried)
[[ -n $not_tried ]] || made "bare Debian 12" try_in_bare_debian
step "files" publish "$output"
print_step_times
say ""
(cd "$output" && ls -l && cat SHA256SUMS)
[[ -z $not_tried ]] || say "release.sh: NOT tried in a bare Debian 12: $not_tried"
say "release.sh: spjit $VERSION of ${COMMIT:0:8} is in $output"
