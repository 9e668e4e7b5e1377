"""A Dockerfile: an image in which gguftool checks the model and then becomes llama-server."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from gguftool.errors import UsageError
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.emit.compose import nodes
from gguftool.run.emit.inside import Inside, inside
from gguftool.run.emit.words import comment, name, own_command, which
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import LOOPBACK
from gguftool.run.sidefiles import Mount
from gguftool.shell import shell

_IMAGE = regex(r"[A-Za-z0-9][\w./:@-]*", re.ASCII)
_USER = 10001
"""Nobody in particular: it can read what everybody can."""


def dockerfile(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """An image with gguftool in front of the server, and how it is built and run.

    Raises:
        UsageError: the name of an image is none, or no container reaches the devices of the plan.
    """
    if image is not None and not _IMAGE.fullmatch(image):
        raise UsageError(f"--image {image!r}: is no name of an image", "NAME[:TAG]")
    x = inside(plan, force)
    judged = replace(x.wishes, ram="auto" if x.wishes.ram is None else x.wishes.ram)
    serve = own_command(replace(plan, model=x.model, wishes=judged), "--exec", *force)
    base = f"FROM {image}" if image else "ARG LLAMA_SERVER_IMAGE\nFROM ${LLAMA_SERVER_IMAGE}"
    called = name(plan.model)
    argument = () if image else ("--build-arg", "LLAMA_SERVER_IMAGE=IMAGE")
    build = shell(("docker", "build", *argument, "-t", called, "-f", "Dockerfile", "CHECKOUT"))
    expose = "" if x.port is None else f"EXPOSE {x.port}\n"
    return f"""\
# llama-server for {comment(os.path.basename(plan.model))}: gguftool checks the model, then becomes the server.
# Its base has llama-server (in /app, or on PATH) and apt-get, as the images of llama.cpp. CHECKOUT is one of gguftool:
#   {build}
# What it reads is mounted, and has to be readable by user {_USER} (or add --user):
#   {_run(called, x)}
# The options are spelled for {which(plan)}.
{base}
USER 0
# Of the versions that the base has.
# hadolint ignore=DL3008
RUN apt-get update \\
 && apt-get install -y --no-install-recommends curl python3 python3-venv \\
 && rm -rf /var/lib/apt/lists/*
COPY . /tmp/gguftool
RUN python3 -m venv /opt/gguftool \\
 && /opt/gguftool/bin/pip install --no-cache-dir /tmp/gguftool \\
 && rm -rf /tmp/gguftool
ENV PATH="/opt/gguftool/bin:/app:${{PATH}}"
USER {_USER}:{_USER}
{expose}HEALTHCHECK --interval=10s --timeout=5s --start-period=600s CMD {_words(x.probe)}
ENTRYPOINT {_words(serve[:1])}
CMD {_words(serve[1:])}
"""


def _words(words: Sequence[str]) -> str:
    """The form that no shell reads: a list as JSON has it."""
    return json.dumps(list(words))


def _run(called: str, x: Inside) -> str:
    words = ["docker", "run", "--rm"]
    if "cuda" in x.gpus:
        words += ["--gpus", str(x.gpus["cuda"])]
    for node in nodes(x.gpus):
        words += ["--device", node]
    if x.port is not None:
        words += ["-p", f"{LOOPBACK}:{x.port}:{x.port}"]
    for m in x.mounts:
        words += ["--mount", _mount(m)]
    return shell((*words, called))


def _mount(m: Mount) -> str:
    """A value of ``--mount``, which docker reads as a line of CSV."""
    parts = ["type=bind", f"source={m.source}", f"target={m.target}", *([] if m.writable else ["readonly"])]
    return ",".join(_quoted(part) for part in parts)


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"' if re.search(r'[,"\r\n]', part) else part
