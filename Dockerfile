# The images of AgentRL, by target:
#   operator  the operator, without torch
#   envs      the environment servers
#   envs-science, envs-web
#             the environment servers with Java (sciworld), and with Chromium
#   stage     the stages of the pipeline: torch and the environments. CUDA=no for nodes without GPUs.
#   trainer   stage with vLLM, for nodes with GPUs
#
#   docker build --target operator -t agentrl-operator .
#   docker build --target trainer -t agentrl-trainer .
#
# Dependencies are in a layer below AgentRL's code, so that a change of the code rebuilds and pulls only a
# small layer. The images contain no secrets; the tools that build them are mounted from a build cache.
# The images run as any numeric user with a read-only root file system; they write only to /tmp.

# Any image with Python 3.11, its venv module and CA certificates. Pin it by digest for a release.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS base
ENV VIRTUAL_ENV=/opt/agentrl \
    PATH=/opt/agentrl/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    USER=agentrl \
    MPLCONFIGDIR=/tmp/matplotlib \
    GIT_PYTHON_REFRESH=quiet
# Compile the standard library: the official Python images have no bytecode for it, and at run time none is
# written. Add the user to /etc/passwd: some libraries look up the name of the user.
RUN python3 -m compileall -q -x '/(test|tests|lib2to3|(site|dist)-packages)/' \
      "$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && python3 -m venv --without-pip /opt/agentrl \
 && echo 'agentrl:x:65532:65532::/tmp:/usr/sbin/nologin' >> /etc/passwd \
 && echo 'agentrl:x:65532:' >> /etc/group
COPY requirements/install.sh requirements/installer.txt requirements/build.txt /opt/agentrl/requirements/
WORKDIR /tmp

FROM base AS code
ARG PIP_CERT
COPY pyproject.toml README.md LICENSE /src/
COPY envs /src/envs
COPY components /src/components
COPY pipelines /src/pipelines
COPY operator /src/operator
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    sh /opt/agentrl/requirements/install.sh code

FROM base AS operator
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
COPY requirements/operator.txt /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries operator.txt
COPY --from=code /code /opt/agentrl
USER 65532:65532
CMD ["python", "-m", "agentrl_operator"]

FROM base AS envs
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
COPY requirements/envs.txt /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries envs.txt
COPY --from=code /code /opt/agentrl
USER 65532:65532
CMD ["agentrl", "envs", "--help"]

# Debian's packages without recommendations: the runtime of Java without its window toolkit.
FROM base AS envs-science
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
RUN sh /opt/agentrl/requirements/install.sh debian openjdk-17-jre-headless
COPY requirements/envs-science.txt /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries envs-science.txt
COPY --from=code /code /opt/agentrl
USER 65532:65532
CMD ["agentrl", "envs", "--help"]

# Chromium writes its profile and its cache to /tmp. The driver of Playwright needs libatomic1.
FROM base AS envs-web
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
ENV XDG_CONFIG_HOME=/tmp/.config \
    XDG_CACHE_HOME=/tmp/.cache
RUN sh /opt/agentrl/requirements/install.sh debian chromium-headless-shell fonts-liberation libatomic1
COPY requirements/envs-web.txt /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries envs-web.txt
COPY --from=code /code /opt/agentrl
USER 65532:65532
CMD ["agentrl", "envs", "--help"]

FROM base AS stage
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
# no: without CUDA's libraries, which saves 3 GB. For tests on machines without a GPU.
ARG CUDA=yes
COPY requirements/stage.txt requirements/without_cuda.py /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries stage.txt
COPY --from=code /code /opt/agentrl
# What models compute on CPU is compiled now instead of in each pod, for processors like this one.
RUN NUMBA_CACHE_DIR=/opt/agentrl/machine-code python -m agentrl_components.engines.torch_engine.compile_all
ENV AGENTRL_MACHINE_CODE=/opt/agentrl/machine-code \
    NUMBA_CACHE_DIR=/tmp/numba
USER 65532:65532
CMD ["agentrl", "--help"]

# With a compiler: vLLM and torch.compile generate kernels on the node, and Triton builds what starts each of
# them with a C compiler and Python's headers, which the official Python images have.
FROM base AS trainer
ARG PIP_CERT
ARG UV_CACHE_DIR=/var/cache/uv
RUN sh /opt/agentrl/requirements/install.sh debian g++
COPY requirements/trainer.txt /opt/agentrl/requirements/
RUN --mount=type=cache,id=agentrl-tools,target=/opt/tools \
    --mount=type=cache,id=agentrl-wheels,target=/var/cache/uv \
    sh /opt/agentrl/requirements/install.sh libraries trainer.txt
COPY --from=code /code /opt/agentrl
USER 65532:65532
CMD ["agentrl", "--help"]
