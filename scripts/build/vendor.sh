#!/usr/bin/env bash
# scripts/build/vendor.sh [--to FOLDER]
#
# Collects the headers and libraries that spjit is built with into one folder (default: .vendor of
# this repository, about 21 MB), out of the packages that scripts/build/setup.sh installed. Take the folder
# along to an x86-64 machine that has a GPU, cmake and g++ but no network: scripts/gpu/gpu.sh builds
# with it.
#
# Copies files that are installed here; needs no network and no root. Debian 12 only.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# What the library and its tests link, and what those libraries load. LLVM is left out: it is an
# option, and larger than everything else.
readonly PACKAGES=(libfmt-dev libfmt9 nlohmann-json3-dev libcli11-dev libgtest-dev
                   libgmock-dev libzip-dev libzip4 libbz2-1.0 zlib1g-dev zlib1g libssl-dev
                   libssl3 libxxhash-dev libxxhash0)
# What benchmarks load that were built where XNNPACK is; it is one they compare with.
readonly IF_INSTALLED=(libxnnpack0 libcpuinfo0 libpthreadpool0)

folder=$ROOT/.vendor
while (($# > 0)); do
  case $1 in
    --to) folder=${2:?--to needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --to FOLDER or --help" ;;
  esac
done

if [[ -e $folder && ! -f $folder/made-by-spjit-vendor && -n $(ls -A "$folder") ]]; then
  die "$folder exists and was not made by this script; remove it or choose another with --to"
fi

# A package's headers, libraries and CMake files, but neither documentation nor libssl, which
# nothing here links.
files_of() {
  dpkg -L "$1" 2>/dev/null || die "package $1 is not installed; run scripts/build/setup.sh"
}

wanted() {
  case $1 in
    */libssl.a | */libssl.so* | */engines-3/* | */ossl-modules/*) return 1 ;;
    /usr/include/* | /usr/lib/* | /lib/x86_64-linux-gnu/*) [[ -f $1 || -L $1 ]] ;;
    /usr/share/cmake/* | /usr/share/*/cmake/*) [[ -f $1 ]] ;;
    *) return 1 ;;
  esac
}

# collect FOLDER PACKAGE...
collect() {
  local into=$1 package file target
  for package in "${@:2}"; do
    while IFS= read -r file; do
      wanted "$file" || continue
      target=$into/usr/${file#/}
      target=${target/usr\/usr\//usr/}
      # A compiler searches its own system's multiarch folder, not this one's.
      target=${target/include\/x86_64-linux-gnu\//include/}
      mkdir -p "$(dirname "$target")"
      cp -P "$file" "$target"
    done < <(files_of "$package")
  done
}

# Into a folder beside it, then renamed: an interrupted run leaves what was there.
mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
trap 'report_failed_step; rm -rf "$new"' EXIT
collect "$new" "${PACKAGES[@]}"
for package in "${IF_INSTALLED[@]}"; do
  if dpkg -L "$package" >/dev/null 2>&1; then collect "$new" "$package"; fi
done
for header in fmt/core.h nlohmann/json.hpp gtest/gtest.h zip.h zlib.h openssl/sha.h xxhash.h; do
  [[ -n $(find "$new/usr/include" -path "*/$header" -print -quit) ]] ||
    die "$header is not among the collected files; nothing was kept"
done
printf '%s\n' "${PACKAGES[@]}" >"$new/made-by-spjit-vendor"
chmod 755 "$new"
rm -rf "$folder"
mv "$new" "$folder"
say "vendor.sh: $(du -sh "$folder" | cut -f1) in $folder"
