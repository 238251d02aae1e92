#!/usr/bin/env bash
# scripts/build/setup_servers.sh [--to FOLDER]
#
# Fetches the servers that the remote cache is tested with, into FOLDER (default: build/servers):
# nginx of Debian's package, unpacked and not installed, so that none is started; moto, which is S3,
# and the reader of Prometheus's text, from PyPI. With all there it only looks. A failed fetch leaves
# what the next try removes.

set -euo pipefail
# shellcheck source=scripts/build/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/build/packages.sh
source "$(dirname "${BASH_SOURCE[0]}")/packages.sh"

readonly WHEELS=("moto[server]==5.*" "prometheus-client==0.*")

folder=$ROOT/build/servers
while (($# > 0)); do
  case $1 in
    --to) folder=${2:?--to needs a folder}; shift 2 ;;
    -h | --help) print_help; exit 0 ;;
    *) die "unknown argument '$1'; expected --to FOLDER or --help" ;;
  esac
done

readonly folder
is_whole() {
  [[ -x $folder/nginx/usr/sbin/nginx && -x $folder/python/bin/moto_server ]] &&
    "$folder/python/bin/python" -c 'import prometheus_client' 2>/dev/null
}

# `apt-get download` needs the lists of packages, which a fresh container does not have.
fetch_nginx() {
  cd "$folder"
  apt-get -q download nginx >/dev/null 2>&1 ||
    { update_package_lists >/dev/null && apt-get -q download nginx >/dev/null; }
  dpkg-deb --extract nginx_*.deb nginx
  rm nginx_*.deb
}

# A virtual environment knows its place, so it is made where it stays.
install_python() {
  python3 -m venv "$folder/python"
  "$folder/python/bin/python" -m pip --quiet --disable-pip-version-check install "${WHEELS[@]}"
}

if ! is_whole; then
  rm -rf "$folder"
  mkdir -p "$folder"
  step "nginx" fetch_nginx
  step "${WHEELS[*]}" install_python
  is_whole || die "$folder lacks nginx, moto_server or prometheus_client; remove it and try again"
fi
say "setup_servers.sh: $folder has nginx, moto and prometheus-client"
