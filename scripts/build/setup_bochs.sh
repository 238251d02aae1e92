#!/usr/bin/env bash
# scripts/build/setup_bochs.sh [--to FOLDER]
#
# Brings what scripts/check/avx512_tests.sh emulates a PC with into .bochs/ of this repository: the emulator
# Bochs with its BIOS, a Linux kernel, and GRUB's tools, from Debian 12's own packages. They are
# unpacked, not installed: no root is needed, and the system stays as it is. About 45 MB to fetch,
# more where GTK is not installed, which Bochs is linked with. With all of it already there it only
# looks.
#
#   --to FOLDER   somewhere else; then set SPJIT_BOCHS=FOLDER for scripts/check/avx512_tests.sh

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

readonly PACKAGES=(bochs bochs-term bochsbios vgabios grub-common grub-pc-bin xorriso)
readonly KERNEL=linux-image-cloud-amd64  # depends on the image of today

folder=${SPJIT_BOCHS:-$ROOT/.bochs}
while (($# > 0)); do
  case $1 in
    --to) folder=${2:?--to needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --to FOLDER or --help" ;;
  esac
done

# of_root FOLDER COMMAND...: with the libraries that were unpacked there before the system's.
of_root() {
  env LD_LIBRARY_PATH="$1/usr/lib/x86_64-linux-gnu:$1/lib/x86_64-linux-gnu" "${@:2}"
}

# Whether the folder has everything, and its programs find their libraries.
is_complete() {
  local program
  [[ -f $1/vmlinuz && -f $1/usr/share/bochs/BIOS-bochs-latest &&
    -f $1/usr/share/vgabios/vgabios.bin && -d $1/usr/lib/grub/i386-pc &&
    -f $1/usr/lib/x86_64-linux-gnu/bochs/plugins/libbx_term_gui.so ]] || return 1
  for program in bochs-bin grub-mkrescue grub-mkimage xorriso; do
    [[ -x $1/usr/bin/$program ]] || return 1
    ! of_root "$1" ldd "$1/usr/bin/$program" | grep -q "not found" || return 1
  done
}

# apt's lists and downloads in the folder of this run, so that nothing of the system's is written.
own_apt() {
  env LC_ALL=C "$1" -q -o Dir::State::Lists="$new/lists" -o Dir::Cache="$new/cache" \
    -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" -o Acquire::Retries=3 "${@:2}" </dev/null
}

# The packages and those that they need and this system lacks. Of the kernel only its image: no
# system boots it.
wanted_packages() {
  local image
  image=$(own_apt apt-cache depends "$KERNEL" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p')
  [[ -n $image ]] || die "$KERNEL names no image; is the mirror Debian 12's?"
  say "$image"
  own_apt apt-get --simulate --no-install-recommends install "${PACKAGES[@]}" |
    sed -n 's/^Inst \([^ ]*\).*/\1/p'
  printf '%s\n' "${PACKAGES[@]}"
}

unpack() {
  local package
  for package in "$new"/debs/*.deb; do dpkg-deb -x "$package" "$new/root"; done
  mv "$new"/root/boot/vmlinuz-* "$new/root/vmlinuz"
  rm -rf "$new/root/boot" "$new"/root/lib/modules "$new/root/usr/share/doc" "$new/root/var"
}

fetch() {
  local packages
  mkdir -p "$new/lists/partial" "$new/cache/archives/partial" "$new/debs"
  own_apt apt-get update || die "apt-get update failed; is there a network?"
  packages=$(wanted_packages | sort -u)
  # shellcheck disable=SC2086  # a word a package
  (cd "$new/debs" && own_apt apt-get download $packages)
  unpack
}

if is_complete "$folder"; then
  say "setup_bochs.sh: $folder has Bochs, a kernel and GRUB's tools"
  exit 0
fi
is_debian_12 || die "this fetches Debian 12's packages, and this system is another"
if [[ -e $folder && ! -f $folder/vmlinuz && -n $(ls -A "$folder") ]]; then
  die "$folder exists and was not made by this script; remove it or choose another with --to"
fi

# Into a folder beside it, then renamed: a failed download leaves what was there.
mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
trap 'report_failed_step; rm -rf "$new"' EXIT
step "fetch ${PACKAGES[*]} $KERNEL" fetch
is_complete "$new/root" || die "these packages lack what is needed, or a library of it; nothing was kept"
chmod 755 "$new/root"
rm -rf "$folder"
mv "$new/root" "$folder"
say "setup_bochs.sh: Bochs, a kernel and GRUB's tools are in $folder"
