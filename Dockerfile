# Images of gguftool, built from its checkout (no index and no registry has it):
#
#   docker build -t gguftool:local .
#       gguftool alone, for checks: docker run --rm -v /srv/models:/models:ro gguftool:local lint /models
#   docker build -t gguftool:server --target server --build-arg LLAMA_SERVER_IMAGE=IMAGE .
#       gguftool in front of the llama-server of IMAGE: what the files of `gguftool launch --emit docker-compose|k8s` call
#       the image of gguftool, and what starts a checked server by itself:
#       docker run --rm -p 127.0.0.1:8080:8080 -v /srv/models:/models:ro gguftool:server \
#           launch /models/model.gguf --exec --host 0.0.0.0
#
# The bases are names with which a build is tried; for one that is always the same, name them by digest
# (--build-arg PYTHON_IMAGE=python@sha256:…) and set SOURCE_DATE_EPOCH, see docs/install.md.
ARG PYTHON_IMAGE=python:3.13-slim-bookworm
ARG LLAMA_SERVER_IMAGE=scratch

# -- the wheel, the same bytes wherever it is built
FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /src
COPY scripts/package/tools.txt /src/scripts/package/tools.txt
RUN grep '^hatchling==' scripts/package/tools.txt > /tmp/builder.txt \
 && pip install --no-cache-dir --disable-pip-version-check -r /tmp/builder.txt
COPY . /src
RUN hatchling build -t wheel -d /wheel

# -- its environment
FROM ${PYTHON_IMAGE} AS environment
# Extras, by commas with the brackets: --build-arg EXTRAS=[remote,watch]
ARG EXTRAS=""
# Exact versions, one a line, where every build has to bring the same: --build-arg CONSTRAINTS="$(cat versions.txt)"
ARG CONSTRAINTS=""
COPY --from=wheel /wheel /wheel
RUN printf '%s\n' "${CONSTRAINTS}" > /tmp/versions.txt \
 && python -m venv --without-pip /opt/gguftool \
 && pip --python /opt/gguftool/bin/python install --no-cache-dir --disable-pip-version-check --no-compile \
        -c /tmp/versions.txt "$(echo /wheel/*.whl)${EXTRAS}" \
 && PYTHONHASHSEED=0 /opt/gguftool/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/gguftool

# -- gguftool in front of a llama-server; its base has apt-get and llama-server (in /app or on PATH), as those of llama.cpp
FROM ${LLAMA_SERVER_IMAGE} AS server
ARG EXTRAS=""
ARG CONSTRAINTS=""
USER 0
# Of the versions that the base has.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends curl python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* /var/cache/ldconfig/aux-cache /var/log/apt /var/log/dpkg.log
COPY --from=wheel /wheel /tmp/wheel
RUN printf '%s\n' "${CONSTRAINTS}" > /tmp/versions.txt \
 && python3 -m venv /opt/gguftool \
 && /opt/gguftool/bin/pip install --no-cache-dir --disable-pip-version-check --no-compile \
        -c /tmp/versions.txt "$(echo /tmp/wheel/*.whl)${EXTRAS}" \
 && find /opt/gguftool -name __pycache__ -type d -prune -exec rm -rf {} + \
 && PYTHONHASHSEED=0 /opt/gguftool/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/gguftool \
 && rm -rf /tmp/wheel /tmp/versions.txt
ENV PATH="/opt/gguftool/bin:/app:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1
# Nobody in particular: it can read what everybody can.
USER 10001:10001
EXPOSE 8080
# Of the server that `launch --exec` becomes; where another port or a prefix is asked for, say so with --health-cmd.
HEALTHCHECK --interval=10s --timeout=5s --start-period=600s \
    CMD ["curl", "-fsS", "--max-time", "4", "http://127.0.0.1:8080/health"]
ENTRYPOINT ["gguftool"]
CMD ["--help"]

# -- gguftool alone
FROM ${PYTHON_IMAGE} AS gguftool
COPY --from=environment /opt/gguftool /opt/gguftool
ENV PATH="/opt/gguftool/bin:${PATH}" \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /models
ENTRYPOINT ["gguftool"]
CMD ["--help"]
