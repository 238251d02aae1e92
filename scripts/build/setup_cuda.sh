#!/usr/bin/env bash
# scripts/build/setup_cuda.sh [--cuda VERSION] [--peers] [--to FOLDER]
#
# Brings NVIDIA's compiler libraries, NVRTC and nvJitLink, from their PyPI wheels into .cuda/ of
# this repository, for machines without a CUDA toolkit: with them spjit compiles for NVIDIA GPUs, a
# GPU or a driver is not needed for that. About 320 MB. With them comes nvdisasm (5 MB), which a
# test compares spjit's decoder of machine code with. With all of it already there it only looks.
#
#   --cuda VERSION   11.8, 12.0 .. 12.9 or 13.0 and later (default: 13.0; sm_70 needs 12.9)
#   --peers          also cuBLAS and cuSPARSE with their headers, which side_by_side_bench measures
#                    beside spjit on a GPU (about 900 MB more; CUDA 13 and later)
#   --to FOLDER      somewhere else; then set SPJIT_CUDA_PATH=FOLDER when you use spjit
#
# 11.8 has no nvJitLink: 12.4's, which links its code, comes with it.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

version=13.0
folder=$ROOT/.cuda
peers=0
while (($# > 0)); do
  case $1 in
    --cuda) version=${2:?--cuda needs a version, say 12.9}; shift 2 ;;
    --peers) peers=1; shift ;;
    --to) folder=${2:?--to needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --cuda VERSION, --peers, --to FOLDER or --help" ;;
  esac
done

# The wheels of a version; from 13 on their names carry no version.
case $version in
  11.8) wheels=("nvidia-cuda-nvrtc-cu11==11.8.*" "nvidia-nvjitlink-cu12==12.4.*") ;;
  12.[0-9]) wheels=("nvidia-cuda-nvrtc-cu12==$version.*" "nvidia-nvjitlink-cu12==$version.*") ;;
  13.[0-9]) wheels=("nvidia-cuda-nvrtc==$version.*" "nvidia-nvjitlink==$version.*") ;;
  *) die "no CUDA version '$version'; expected 11.8, 12.0 .. 12.9 or 13.0 .. 13.9" ;;
esac

# The oldest on PyPI. It reads cubins of all these versions.
wheels+=("nvidia-cuda-nvdisasm==13.2.*")

# cuSPARSE has versions of its own; all for CUDA 13 are libcusparse.so.12. The last three have the
# headers that those of cuBLAS and cuSPARSE include.
if ((peers)); then
  [[ $version == 13.* ]] || die "--peers is for CUDA 13 and later, not for $version"
  wheels+=("nvidia-cublas==$version.*" "nvidia-cusparse" "nvidia-cuda-runtime==$version.*"
           "nvidia-cuda-crt==$version.*" "nvidia-cuda-cccl==$version.*")
fi

has_libraries() {
  compgen -G "$1/nvidia/*/bin/nvdisasm" >/dev/null &&
    compgen -G "$1/nvidia/*/lib/libnvrtc.so.*" >/dev/null &&
    compgen -G "$1/nvidia/*/lib/libnvJitLink.so.*" >/dev/null
}

has_peers() {
  compgen -G "$1/nvidia/*/lib/libcublas.so.*" >/dev/null &&
    compgen -G "$1/nvidia/*/lib/libcusparse.so.*" >/dev/null &&
    compgen -G "$1/nvidia/*/include/cusparse.h" >/dev/null &&
    compgen -G "$1/nvidia/*/include/nv/target" >/dev/null
}

readonly stamp=$folder/cuda-version
if [[ -f $stamp && $(<"$stamp") == "$version" ]] && has_libraries "$folder" &&
  { ((!peers)) || has_peers "$folder"; }; then
  say "setup_cuda.sh: $folder has NVRTC, nvJitLink and nvdisasm for CUDA $version"
  exit 0
fi
if [[ -e $folder && ! -f $stamp && -n $(ls -A "$folder") ]]; then
  die "$folder exists and was not made by this script; remove it or choose another with --to"
fi

# Into a folder beside it, then renamed: a failed download leaves what was there.
mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
cleanup() { rm -rf "$new" "$new.venv"; }
trap 'report_failed_step; cleanup' EXIT
chmod 755 "$new"
step "install ${wheels[*]}" install_wheels "$new" "${wheels[@]}"
chmod -R go-w "$new"  # libraries are loaded from it only if nobody else can write to any of it
has_libraries "$new" || die "${wheels[*]} hold no libnvrtc.so, libnvJitLink.so and nvdisasm; nothing was kept"
((!peers)) || has_peers "$new" || die "${wheels[*]} hold no cuBLAS and cuSPARSE; nothing was kept"
say "$version" >"$new/cuda-version"
rm -rf "$folder"
mv "$new" "$folder"
say "setup_cuda.sh: CUDA $version's NVRTC and nvJitLink, and nvdisasm, are in $folder"
