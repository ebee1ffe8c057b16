#!/bin/sh
# Runs a test with the module of the build, in a virtual environment with packages of PyPI. Exit code 77: skipped, because
# the package index does not answer, or because a program that NEEDS names is not there.
#
#   python/tests/with_packages.sh python test.py package...
set -eu
python=$1 test=$2
shift 2
for program in ${NEEDS:-}; do
  command -v "$program" >/dev/null || { echo "skipped: there is no $program"; exit 77; }
done
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
"$python" -m venv "$venv"
if ! "$venv/bin/python" -m pip --disable-pip-version-check --quiet install --retries 1 --timeout 15 numpy pytest "$@"; then
  echo "skipped: the package index does not give $*"
  exit 77
fi
"$venv/bin/python" -m pytest -q -rs -p no:cacheprovider "$test"
