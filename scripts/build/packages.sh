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

# with_pip FOLDER ARGUMENT...: pip, quietly. Debian's own Python has none; a virtual environment,
# FOLDER.venv, brings one. The caller removes that.
with_pip() {
  local venv=$1.venv python=python3
  if ! python3 -m pip --version >/dev/null 2>&1; then
    [[ -d $venv ]] || python3 -m venv "$venv" ||
      die "python3 has neither pip nor venv; install python3-venv"
    python=$venv/bin/python
  fi
  PIP_ROOT_USER_ACTION=ignore "$python" -m pip --quiet --disable-pip-version-check "${@:2}"
}

# install_wheels FOLDER WHEEL...: with pip, from PyPI, without what they depend on.
install_wheels() {
  with_pip "$1" install --no-deps --only-binary :all: --target "$1" "${@:2}" ||
    die "pip cannot install ${*:2}; is there a network, and does PyPI have that version?"
}

# unpack_wheels FOLDER WHEEL...: the same for wheels whose files belong beside a Python, which pip
# leaves out of a target folder. FOLDER is to exist; it gets one folder `lib`.
unpack_wheels() {
  local folder=$1 wheel
  with_pip "$folder" download --no-deps --only-binary :all: --dest "$folder/wheels" "${@:2}" ||
    die "pip cannot download ${*:2}; is there a network, and does PyPI have that version?"
  mkdir "$folder/lib"
  for wheel in "$folder"/wheels/*.whl; do
    python3 -m zipfile -e "$wheel" "$folder/content"
  done
  mv "$folder"/content/*.data/data/lib/*.so* "$folder/lib/"
  rm -rf "$folder/wheels" "$folder/content"
}
