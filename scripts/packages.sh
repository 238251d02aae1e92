# shellcheck shell=bash
# Sourced after common.sh by the scripts that install something: Debian packages, PyPI wheels.

is_debian_12() {
  [[ -r /etc/os-release ]] || return 1
  # shellcheck source=/dev/null
  (source /etc/os-release && [[ ${ID:-} == debian && ${VERSION_ID:-} == 12 ]])
}

# The packages among the arguments that dpkg does not have installed.
missing_packages() {
  local installed package
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
  for package in "$@"; do
    grep -qFx "$package installed" <<<"$installed" || say "$package"
  done
}

as_root() {
  if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

apt_get() {
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 \
    -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

update_package_lists() {
  local attempt
  for attempt in 1 2 3; do
    apt_get update && return 0
    say "apt-get update failed (attempt $attempt of 3)"
    sleep $((attempt * 5))
  done
  die "apt-get update failed three times; is there a network, and is /etc/apt/sources.list right?"
}

# install_packages PACKAGE...: those that are missing.
install_packages() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  if ((${#missing[@]} == 0)); then
    say "All $# packages are installed."
    return 0
  fi
  if ((EUID != 0)) && ! command -v sudo >/dev/null; then
    die "missing ${missing[*]}; run this as root, or install sudo, or have them installed"
  fi
  say "Missing: ${missing[*]}"
  step "apt-get update" update_package_lists
  step "apt-get install" apt_get install --no-install-recommends "${missing[@]}"
}

# install_wheels FOLDER WHEEL...: with pip, from PyPI, without what they depend on. Debian's own
# Python has no pip; a virtual environment, FOLDER.venv, brings one. The caller removes that.
install_wheels() {
  local target=$1 python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv "$target.venv" || die "python3 has neither pip nor venv; install python3-venv"
    python=$target.venv/bin/python
  fi
  "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
    --no-deps --only-binary :all: --target "$target" "${@:2}" ||
    die "pip cannot install ${*:2}; is there a network, and does PyPI have that version?"
}
