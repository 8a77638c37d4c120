#!/bin/sh
# Installs what autotune needs, then configures and builds it. `./setup.sh test` runs the tests too.
# May be run again at any time; without anything to install it needs neither network nor root.
# shellcheck disable=SC2086  # lists of packages are split into words on purpose
set -eu
cd "$(dirname "$0")"

needed="g++ cmake ninja-build libcli11-dev nlohmann-json3-dev libfmt-dev libsqlite3-dev libgtest-dev libgmock-dev libyaml-cpp-dev libtomlplusplus-dev libjs-chart.js"
useful="ccache libbenchmark-dev libdnnl-dev libopenmpi-dev openmpi-bin libsentencepiece-dev"
# What only tests need: an emulated cluster, a browser, JSON schemas. Without them their tests are skipped.
for_tests="slurm-wlm slurmd slurmctld slurm-client slurm-wlm-basic-plugins munge chromium libvalijson-dev"

say() { printf '\n== %s\n' "$*"; }
stop() {
  printf 'setup.sh: %s\n' "$*" >&2
  exit 1
}

usage() {
  cat <<'TEXT'
usage: ./setup.sh          install the packages, configure and build the programs
       ./setup.sh test     the same, then build and run the tests
       ./setup.sh help     this text

JOBS=N sets how many compilers run at once. Written for Debian 12; Ubuntu 24.04 has packages of the
same names, but is untested. Elsewhere, install the packages' counterparts yourself first.
TEXT
}

# Prints those of the given packages that are not installed.
missing() {
  for package in "$@"; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$state" = installed ] || printf '%s ' "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    env DEBIAN_FRONTEND=noninteractive "$@"
  else
    sudo env DEBIAN_FRONTEND=noninteractive "$@"
  fi
}

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    say "Packages: no apt here; make sure that you have the counterparts of: $needed (useful: $useful)"
    return
  fi
  lacking=$(missing $needed)
  wanted=$(missing $useful)
  if [ -z "$lacking$wanted" ]; then
    say "Packages: all installed"
    return
  fi
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    [ -n "$lacking" ] || { say "Packages: left out, as there is no sudo: $wanted"; return; }
    stop "packages are missing and there is no sudo; as root run: apt-get install $lacking$wanted"
  fi
  say "Packages: installing $lacking$wanted"
  as_root apt-get update || echo "setup.sh: the package lists could not be renewed; trying with the old ones" >&2
  if [ -n "$lacking" ]; then
    as_root apt-get install -y --no-install-recommends $lacking ||
      stop "these packages could not be installed: $lacking(see apt's message above)"
  fi
  if [ -n "$wanted" ]; then
    as_root apt-get install -y --no-install-recommends $wanted ||
      echo "setup.sh: going on without: $wanted" >&2
  fi
}

# One compiler a core, but only as many as fit into the free memory.
jobs() {
  if [ -n "${JOBS:-}" ]; then
    echo "$JOBS"
    return
  fi
  cores=$(nproc)
  fitting=$(awk '/^MemAvailable:/ { print int($2 / 700000) }' /proc/meminfo 2>/dev/null || true)
  [ -n "$fitting" ] || fitting=$cores
  [ "$fitting" -ge 1 ] || fitting=1
  [ "$cores" -le "$fitting" ] && echo "$cores" || echo "$fitting"
}

configure() {
  say "Configuring"
  command -v cmake >/dev/null || stop "cmake is missing"
  version=$(cmake --version | sed -n 's/^cmake version //p')
  oldest=$(printf '%s\n3.25\n' "$version" | sort -V | head -n 1)
  [ "$oldest" = 3.25 ] || stop "cmake $version is too old; 3.25 or later is needed"
  # A tree that was copied or moved carries a cache that names its old place.
  cache=build/release/CMakeCache.txt
  fresh=
  if [ -f "$cache" ] && ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$(pwd -P)" "$cache"; then
    fresh=--fresh
  fi
  cmake $fresh --preset release
}

build() {
  say "Building $1 with $(jobs) compilers at once"
  cmake --build --preset release --target "$1" -j "$(jobs)"
}

case "${1:-build}" in
  build | test)
    [ "${1:-build}" = build ] || useful="$useful $for_tests"
    install_packages
    configure
    build programs
    if [ "${1:-build}" = test ]; then
      build all
      say "Testing"
      ctest --preset release
    else
      say "Ready. Try: build/release/autotune train --model 175b --gpus 1024"
    fi
    ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
