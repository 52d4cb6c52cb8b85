#!/bin/sh
# Create .venv-peer, a virtual environment with TRL. It is separate because TRL is measured with a newer
# transformers than vLLM supports. Does nothing if the environment is up to date.
set -eu
cd "$(dirname "$0")/../.."
venv=.venv-peer
pins=requirements/bench.txt
if [ -e "$venv/.installed" ] && [ "$venv/.installed" -nt "$pins" ]; then
    exit 0
fi
echo "Installing TRL into $venv (benchmarks only) ..."
if [ -x .venv/bin/uv ]; then
    UV_FIND_LINKS="${UV_FIND_LINKS:-${PIP_FIND_LINKS:-}}"
    [ -n "$UV_FIND_LINKS" ] && export UV_FIND_LINKS || unset UV_FIND_LINKS
    .venv/bin/uv venv --quiet --clear --python .venv/bin/python "$venv"
    VIRTUAL_ENV="$venv" .venv/bin/uv pip install --quiet --python "$venv/bin/python" -r "$pins"
else
    "${PYTHON:-python3}" -m venv --clear "$venv"
    "$venv/bin/python" -m pip install --quiet -r "$pins"
fi
touch "$venv/.installed"
