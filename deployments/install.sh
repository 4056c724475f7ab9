#!/bin/sh
# Makes the virtual environment $1 from requirements.lock, or brings it up to date with it.
set -eu
venv=$1

is_recent() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null; }

can_make_environments() { "$1" -c 'import ensurepip, venv' 2>/dev/null; }

find_python() {
    recent=
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        is_recent "$python" || continue
        recent=$python
        if can_make_environments "$python"; then
            echo "$python"
            return
        fi
    done
    if [ "$recent" ]; then
        echo "$recent lacks the module venv: on Debian and Ubuntu, apt install $recent-venv" >&2
    else
        echo "Python 3.11, 3.12, 3.13 or 3.14 is needed and none was found on PATH." >&2
    fi
    exit 1
}

if ! is_recent "$venv/bin/python"; then
    python=$(find_python)
    echo "Making $venv with $python ..."
    "$python" -m venv --clear "$venv"
fi
echo "Installing what requirements.lock names ..."
pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }
pip install --require-hashes -r requirements.lock
pip install --no-deps --no-build-isolation -e .
