#!/bin/sh
# Makes the virtual environment $1 from requirements.lock, or brings it up to date with it.
#
# uv does the work, in the version that the lock names. pip only fetches that one wheel, checked
# against the lock's hashes, where this very uv is not on the machine yet.
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

pip() { "$venv/bin/python" -m pip --quiet --disable-pip-version-check --no-input "$@"; }

locked_uv() { sed -n '/^uv==/,/[^\\]$/p' requirements.lock; }

find_uv() {
    locked=$(locked_uv | sed -n 's/^uv==\([^ ;]*\).*/\1/p')
    for uv in "$venv/bin/uv" uv; do
        case "$("$uv" --version 2>/dev/null) " in "uv $locked "*) return ;; esac
    done
    uv=$venv/bin/uv
    locked_uv >"$venv/uv.txt"
    pip install --require-hashes --only-binary :all: -r "$venv/uv.txt"
}

# uv reads none of pip's settings: it is told of the machine's certificates and of pip's index.
settle_uv() {
    export UV_SYSTEM_CERTS=1
    if [ -z "${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-}" ]; then
        index=${PIP_INDEX_URL:-$(pip config get global.index-url 2>/dev/null || true)}
        if [ "$index" ]; then export UV_DEFAULT_INDEX="$index"; fi
    fi
    cache=$("$uv" cache dir)
    if ! { mkdir -p "$cache" && [ -w "$cache" ]; } 2>/dev/null; then
        export UV_NO_CACHE=1 # an account without a home of its own
    fi
}

# A package of which an installation that was killed had copied only a part looks installed.
unfinished=$venv/unfinished
if [ -e "$unfinished" ] || ! { is_recent "$venv/bin/python" && pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    echo "Making $venv with $python ..."
    "$python" -m venv --clear "$venv"
fi
echo "Installing what requirements.lock names ..."
touch "$unfinished"
find_uv
settle_uv
# Compiled now, since later nobody may write it: a worker's account of its own, or an environment
# with PYTHONDONTWRITEBYTECODE. Each run would compile all of Prefect again, in twice the time.
"$uv" pip sync --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes requirements.lock
"$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
rm "$unfinished"
