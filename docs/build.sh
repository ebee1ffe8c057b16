#!/bin/sh
# Builds the site. Exit code 77: the package index does not give what it needs. Nothing is installed on the machine.
#
#   docs/build.sh [folder]     default: build/docs
set -eu
cd "$(dirname "$0")/.."
site=${1:-build/docs}
tools=build/docs-tools

if [ ! -e "$tools/complete" ]; then
  if ! { python3 -m venv --clear "$tools" &&
    "$tools/bin/python" -m pip --disable-pip-version-check --quiet install --retries 1 --timeout 15 -r docs/requirements.txt; }; then
    echo "skipped: the package index does not give what the site is built with"
    exit 77
  fi
  touch "$tools/complete"
fi
"$tools/bin/sphinx-build" --quiet --fail-on-warning --keep-going --fresh-env -c docs . "$site"
echo "$site/index.html"
