"""Files of Docker Compose and Kubernetes: what a command names here is mounted, and named as it is there."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gguftool.run.args import server_command
from gguftool.run.emit.words import comment, flow, hook, mib, name, path, scheme, which, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT, LOOPBACK
from gguftool.run.sidefiles import Mount, mounted
from gguftool.run.wishes import Wishes
from gguftool.shell import shell

EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class _Inside:
    """A launch as it is in containers.

    Attributes:
        check: the preflight, ``gguftool`` first.
        serve: the arguments of llama-server.
        mounts: what both need.
        port: where it listens.
        wishes: with paths and address as they are there.
    """

    check: list[str]
    serve: list[str]
    mounts: tuple[Mount, ...]
    port: int
    wishes: Wishes


def _inside(plan: LaunchPlan, force: tuple[str, ...]) -> _Inside:
    port = plan.wishes.port or DEFAULT_PORT
    # The program and the log are those of this machine; in a container the image has the one, and keeps the other.
    here = replace(plan.wishes, server=None, engine="auto", log=None, host=EVERYWHERE, port=port)
    model, there, mounts = mounted(plan.model, plan.files, here)
    # What the server listens on is not the business of the preflight.
    judged = replace(there, host=plan.wishes.host, port=plan.wishes.port)
    check = hook(replace(plan, model=model, wishes=judged), force)
    return _Inside(check, list(server_command(model, there, plan.engine.build).args), mounts, port, there)


def compose(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    """Two services of Docker Compose: the preflight, and the server that waits for it."""
    x = _inside(plan, force)
    volumes = "\n".join(_volume(m) for m in x.mounts)
    probe = f"{scheme(x.wishes)}://{LOOPBACK}:{x.port}{path(x.wishes, '/health')}"
    return f"""\
# llama-server for {comment(os.path.basename(plan.model))}.
# Name the images: LLAMA_SERVER_IMAGE starts llama-server with the arguments it is given, GGUFTOOL_IMAGE has gguftool.
# The options are spelled for {which(plan)}.
services:
  preflight:
    image: ${{GGUFTOOL_IMAGE:?name an image with gguftool}}
    entrypoint: []
    command: {_compose_words(x.check)}
    volumes:
{volumes}
    network_mode: none
    restart: "no"
  llama-server:
    image: ${{LLAMA_SERVER_IMAGE:?name an image with llama-server}}
    command: {_compose_words(x.serve)}
    depends_on:
      preflight:
        condition: service_completed_successfully
    volumes:
{volumes}
    ports: [{yaml(f"{LOOPBACK}:{x.port}:{x.port}")}]
    mem_limit: {mib(plan)}m
    restart: unless-stopped
    healthcheck:
      test: ["CMD", "curl", "{"-skf" if scheme(x.wishes) == "https" else "-sf"}", {_compose_word(probe)}]
      interval: 10s
      start_period: 600s
"""


def _volume(m: Mount) -> str:
    """The long form: a colon in a path parts nothing, and a folder that is not there is not made."""
    source, target = _compose_word(m.source), _compose_word(m.target)
    read_only = "" if m.writable else "read_only: true, "
    return f"      - {{type: bind, source: {source}, target: {target}, {read_only}bind: {{create_host_path: false}}}}"


def _compose_word(word: str) -> str:
    """A string of Compose, which takes ``$`` for the beginning of a variable wherever it stands."""
    return yaml(word.replace("$", "$$"))


def _compose_words(words: Sequence[str]) -> str:
    return flow([_compose_word(w) for w in words])


def k8s(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    """A Deployment with the preflight as its first container, and a Service."""
    x = _inside(plan, force)
    called = name(plan.model)
    volumes, uses = _volumes(called, x.mounts)
    probe = _probe(x)
    memory = f"{mib(plan)}Mi"
    notes = [f"# {line}" for line in _notes(called, x)]
    return f"""\
# llama-server for {comment(os.path.basename(plan.model))}. Replace the two images and the volumes.
# The options are spelled for {which(plan)}.
{"".join(line + chr(10) for line in notes)}apiVersion: apps/v1
kind: Deployment
metadata: {{name: {yaml(called)}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {yaml(called)}}}}}
  template:
    metadata: {{labels: {{app: {yaml(called)}}}}}
    spec:
      initContainers:
        - name: preflight
          image: "REPLACE-WITH-AN-IMAGE-OF-GGUFTOOL"
          command: ["gguftool"]
          args: {_k8s_words(x.check[1:])}
          volumeMounts:
{uses}
      containers:
        - name: llama-server
          image: "REPLACE-WITH-AN-IMAGE-OF-LLAMA-SERVER"
          args: {_k8s_words(x.serve)}
          ports: [{{containerPort: {x.port}}}]
          resources:
            requests: {{memory: "{memory}"}}
            limits: {{memory: "{memory}"}}
          startupProbe: {probe}, periodSeconds: 5, failureThreshold: 180}}
          readinessProbe: {probe}, periodSeconds: 5}}
          livenessProbe: {probe}, periodSeconds: 20, timeoutSeconds: 5}}
          volumeMounts:
{uses}
      volumes:
{volumes}
---
apiVersion: v1
kind: Service
metadata: {{name: {yaml(called)}}}
spec:
  selector: {{app: {yaml(called)}}}
  ports: [{{port: {x.port}, targetPort: {x.port}}}]
"""


def _probe(x: _Inside) -> str:
    check = path(x.wishes, "/health")
    https = ", scheme: HTTPS" if scheme(x.wishes) == "https" else ""
    return f"{{httpGet: {{path: {check if check == '/health' else yaml(check)}, port: {x.port}{https}}}"


def _notes(called: str, x: _Inside) -> list[str]:
    out = []
    for i, m in enumerate(x.mounts):
        if m.secret:
            file = f"--from-file={os.path.basename(m.target)}={m.source}"
            out.append("The keys: " + shell(("kubectl", "create", "secret", "generic", _secret(called, i), file)))
    if x.wishes.api_key_file is None:
        out.append("Everybody in the cluster who reaches the Service can use the server: no --api-key-file was given.")
    return out


def _secret(called: str, number: int) -> str:
    return f"{called[:50].rstrip('-')}-keys-{number}"


def _volumes(called: str, mounts: Sequence[Mount]) -> tuple[str, str]:
    """The volumes of a pod, and how a container uses them."""
    volumes, uses = [], []
    for i, m in enumerate(mounts):
        volume = "models" if not i else f"files-{i}"
        if m.secret:
            what = f"secret: {{secretName: {yaml(_secret(called, i))}}}"
        else:
            what = f"hostPath: {{path: {yaml(m.source)}, type: {'Directory' if m.folder else 'File'}}}"
        part = f", subPath: {yaml(os.path.basename(m.target))}" if m.secret else ""
        only = "" if m.writable else ", readOnly: true"
        mount = m.target if m.target.isascii() and re.fullmatch(r"[\w./-]+", m.target) else yaml(m.target)
        volumes.append(f"        - name: {volume}\n          {what}")
        uses.append(f"            - {{name: {volume}, mountPath: {mount}{part}{only}}}")
    return "\n".join(volumes), "\n".join(uses)


def _k8s_words(words: Sequence[str]) -> str:
    """Strings in which Kubernetes finds no variable: ``$(NAME)`` is one, and ``$$`` stands for one ``$``."""
    return flow([yaml(re.sub(r"\$+(?=\()|\${2,}", lambda found: found[0] * 2, w)) for w in words])
