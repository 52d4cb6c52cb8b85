#!/bin/sh
# Installation steps of the Dockerfile: install.sh libraries FILE | install.sh code | install.sh debian PACKAGE...
# The tools (uv, hatchling) are in a build cache that is mounted at /opt/tools, not in the images.
set -eu
cd /opt/agentrl/requirements
export UV_LINK_MODE=copy UV_SYSTEM_CERTS=1 PATH="/opt/tools/bin:$PATH"

tools() {
  python3 -m venv /opt/tools
  pip install --quiet --no-cache-dir --disable-pip-version-check --require-hashes \
    -r installer.txt -r build.txt
}

debian() { # PACKAGE...
  mkdir -p /usr/share/man/man1 # slim images lack it, and Java's package links its pages there
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
  rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log
}

libraries() { # FILE: requirements; CUDA=no installs them without CUDA
  tools
  if [ "${CUDA:-yes}" = no ]; then
    python3 without_cuda.py "$1" > without-cuda.txt
    uv pip install --quiet --require-hashes --no-deps -r without-cuda.txt
    # compiles only the modules that a stage imports, a tenth of all
    env -u PYTHONDONTWRITEBYTECODE /opt/agentrl/bin/python without_cuda.py --finish
  else
    uv pip install --quiet --compile-bytecode --require-hashes -r "$1"
  fi
}

code() { # into /code, which the Dockerfile copies over the libraries
  tools
  cd /src
  hatchling build --target wheel --directory /wheel
  uv pip install --quiet --no-cache --offline --no-deps --compile-bytecode /wheel/*.whl
  packages=$(cd /opt/agentrl && echo lib/python3*/site-packages)
  mkdir -p /code/bin "/code/$packages"
  cp -a /opt/agentrl/bin/agentrl /code/bin/
  cp -a /opt/agentrl/"$packages"/agentrl* "/code/$packages/"
  # Layers have whole seconds, and machine code belongs to a file of a certain time.
  find /code -name '*.py' -exec sh -c 'for f; do touch -d "@$(stat -c %Y "$f")" "$f"; done' _ {} +
}

"$@"
