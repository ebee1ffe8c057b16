#!/bin/sh
# Installs the packages of a list that are missing. Where it cannot, it says so and lets the build go on:
# the libraries may be there under other names.
#
#   packaging/install.sh [list]     default: packaging/apt.txt
set -eu

cd "$(dirname "$0")/.."
wanted=$(sed 's/#.*//' "${1:-packaging/apt.txt}")

if ! command -v apt-get >/dev/null; then
  echo "No apt-get here. If the build stops, install your system's equivalents of:" $wanted
  exit 0
fi

missing=
for package in $wanted; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "Not root and no sudo. Ask an administrator for: apt-get install$missing"
    exit 0
  fi
  sudo=sudo
fi

mkdir -p build
log=$PWD/build/apt.log
echo "Installing:$missing"
if ! { $sudo apt-get update -qq &&
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing; } >"$log" 2>&1; then
  tail -n 20 "$log"
  echo "Not installed. All that apt-get said: $log" >&2
  exit 1
fi
