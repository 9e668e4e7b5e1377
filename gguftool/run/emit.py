"""Ready files for service managers, each with the preflight as its hook.

The hook is ``gguftool launch … --print``, which ends with an error code when something stands in the way, or
``--exec``, which checks and then becomes the server.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from gguftool.errors import UsageError
from gguftool.run.args import own_words
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT, LOOPBACK
from gguftool.shell import split_word

MOUNT = "/models"
SWAP_PORT = "${PORT}"
"""What llama-swap replaces by the port it chose."""
_HOME = ["# The model lies in a home directory: name a user who may read it.", "#User=NAME"]
_HEADROOM = 1.15
"""Room above the plan for what it only estimates."""


def emit(kind: str, plan: LaunchPlan, *, force: bool = False) -> str:
    """The file as text.

    Args:
        kind: ``systemd``, ``docker-compose``, ``k8s`` or ``llama-swap``.
        plan: what is to run.
        force: the hook goes on in spite of what it finds, too.

    Raises:
        UsageError: no such kind.
    """
    if kind not in _KINDS:
        raise UsageError(f"{kind!r} cannot be emitted", "one of " + ", ".join(_KINDS))
    return _KINDS[kind](plan, ("--force",) if force else ())


def own_command(plan: LaunchPlan, model: str, *last: str, program: str = "gguftool") -> list[str]:
    """The ``gguftool launch`` that plans the same again."""
    return [program, "launch", model, *last, *own_words(plan.wishes)]


def _systemd(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    o, file = plan.wishes, plan.model
    inside = own_command(plan, file, "--print", *force, program=_installed())
    home = file.startswith(("/home/", "/root/"))
    lines = [
        f"# Save as /etc/systemd/system/{_name(file)}.service",
        "[Unit]",
        f"Description=llama-server for {_unit_text(os.path.basename(file))}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "# Preflight: integrity, lint, memory; the unit fails here and says why when something stands in the way.",
        f"ExecStartPre={_unit_words(inside)}",
        f"ExecStart={_unit_words(plan.argv)}",
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStartSec=900",
        f"MemoryHigh={_mib(plan)}M",
        *(["LimitMEMLOCK=infinity"] if o.load_mode in ("mlock", "mmap+mlock") else []),
        *(_HOME if home else ["DynamicUser=yes"]),
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        "PrivateTmp=yes",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _compose(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    o, file = plan.wishes, plan.model
    folder, inside = os.path.dirname(file), _mounted(file)
    check = own_command(plan, inside, "--print", *force)
    port = o.port or 8080
    return f"""\
# llama-server for {_comment(os.path.basename(file))}.
# Name the images: LLAMA_SERVER_IMAGE holds llama-server, GGUFTOOL_IMAGE gguftool.
# The options are spelled for {_which(plan)}.
services:
  preflight:
    image: ${{GGUFTOOL_IMAGE:?name an image with gguftool}}
    command: {_flow(check, "$")}
    volumes: [{_yaml(f"{folder}:{MOUNT}:ro")}]
    network_mode: none
    restart: "no"
  llama-server:
    image: ${{LLAMA_SERVER_IMAGE:?name an image with llama-server}}
    command: {_flow(_inside(plan, port), "$")}
    depends_on:
      preflight:
        condition: service_completed_successfully
    volumes: [{_yaml(f"{folder}:{MOUNT}:ro")}]
    ports: [{_yaml(f"{LOOPBACK}:{port}:{port}")}]
    mem_limit: {_mib(plan)}m
    restart: unless-stopped
    healthcheck:
      test: ["CMD", "curl", "-sf", {_yaml(f"http://{LOOPBACK}:{port}/health")}]
      interval: 10s
      start_period: 600s
"""


def _k8s(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    o, file = plan.wishes, plan.model
    name, inside, port = _name(file), _mounted(file), o.port or 8080
    check = own_command(plan, inside, "--print", *force)
    probe = f"{{httpGet: {{path: /health, port: {port}}}"
    return f"""\
# llama-server for {_comment(os.path.basename(file))}. Replace the two images and the volume.
# The options are spelled for {_which(plan)}.
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {_yaml(name)}}}
spec:
  replicas: 1
  selector: {{matchLabels: {{app: {_yaml(name)}}}}}
  template:
    metadata: {{labels: {{app: {_yaml(name)}}}}}
    spec:
      initContainers:
        - name: preflight
          image: "REPLACE-WITH-AN-IMAGE-OF-GGUFTOOL"
          args: {_flow(check[1:], "$(")}
          volumeMounts: [{{name: models, mountPath: {MOUNT}, readOnly: true}}]
      containers:
        - name: llama-server
          image: "REPLACE-WITH-AN-IMAGE-OF-LLAMA-SERVER"
          args: {_flow(_inside(plan, port), "$(")}
          ports: [{{containerPort: {port}}}]
          resources:
            requests: {{memory: "{_mib(plan)}Mi"}}
            limits: {{memory: "{_mib(plan)}Mi"}}
          startupProbe: {probe}, periodSeconds: 5, failureThreshold: 180}}
          readinessProbe: {probe}, periodSeconds: 5}}
          livenessProbe: {probe}, periodSeconds: 20, timeoutSeconds: 5}}
          volumeMounts: [{{name: models, mountPath: {MOUNT}, readOnly: true}}]
      volumes:
        - name: models
          hostPath: {{path: {_yaml(os.path.dirname(file))}, type: Directory}}
---
apiVersion: v1
kind: Service
metadata: {{name: {_yaml(name)}}}
spec:
  selector: {{app: {_yaml(name)}}}
  ports: [{{port: {port}, targetPort: {port}}}]
"""


def _swap(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    o, file = plan.wishes, plan.model
    swapped = replace(plan, wishes=replace(o, port=DEFAULT_PORT))
    command = own_command(swapped, file, "--port", SWAP_PORT, "--exec", *force, program=_installed())
    return f"""\
# One entry of llama-swap's models; gguftool checks the model and then becomes the server.
models:
  {_yaml(o.alias or _name(file))}:
    cmd: {_yaml(_shell(command))}
    checkEndpoint: /health
    ttl: 600
"""


_KINDS: dict[str, Callable[[LaunchPlan, tuple[str, ...]], str]] = {
    "systemd": _systemd,
    "docker-compose": _compose,
    "k8s": _k8s,
    "llama-swap": _swap,
}


def _inside(plan: LaunchPlan, port: int) -> list[str]:
    """The arguments with paths and address as they are in a container."""
    args = list(plan.command.args)
    for i, word in enumerate(args[:-1]):
        if word in ("-m", "--model"):
            args[i + 1] = _mounted(plan.model)
        elif word == "--host":
            args[i + 1] = "0.0.0.0"
        elif word == "--port":
            args[i + 1] = str(port)
    return args


def _mounted(path: str) -> str:
    return f"{MOUNT}/{os.path.basename(path)}"


def _which(plan: LaunchPlan) -> str:
    build = plan.engine.build
    return f"llama.cpp build {build.build}" if build.build else f"llama.cpp commit {build.commit or 'unknown'}"


def _installed() -> str:
    import shutil

    beside = os.path.join(os.path.dirname(sys.executable), "gguftool")
    return shutil.which("gguftool") or (beside if os.access(beside, os.X_OK) else "gguftool")


def _mib(plan: LaunchPlan) -> int:
    """Host memory to allow, in MiB, rounded up to a multiple of 64."""
    host = plan.memory.devices[-1].total
    return math.ceil(host * _HEADROOM / (1 << 20) / 64) * 64 + 256


def _name(path: str) -> str:
    stem = os.path.basename(path).removesuffix(".gguf").lower()
    clean = re.sub(r"[^a-z0-9]+", "-", re.sub(r"-00001-of-\d{5}$", "", stem)).strip("-")
    return f"llama-{clean or 'model'}"[:60].rstrip("-")


def _comment(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


def _unit_text(text: str) -> str:
    return _comment(text).replace("%", "%%")


def _unit_words(words: Sequence[str]) -> str:
    """Words as systemd.service(5) reads them: its own quotes, ``%`` and ``$`` doubled."""
    out = []
    for word in words:
        doubled = word.replace("%", "%%").replace("$", "$$")
        if re.fullmatch(r"[\w@%+=:,./$-]+", doubled, re.ASCII):
            out.append(doubled)
        else:
            escaped = "".join(_unit_escape(c) for c in doubled)
            out.append(f'"{escaped}"')
    return " ".join(out)


def _unit_escape(c: str) -> str:
    if c in '"\\':
        return "\\" + c
    return c if c.isprintable() else "".join(f"\\x{b:02x}" for b in c.encode("utf-8", "surrogateescape"))


def _yaml(text: str) -> str:
    """A YAML string: JSON's are a subset of them."""
    return json.dumps(text)


def _flow(words: Sequence[str], variable: str) -> str:
    """A list in one line; the beginning of a variable, ``$`` or ``$(``, is kept from being replaced."""
    return "[" + ", ".join(_yaml(w.replace(variable, "$" + variable)) for w in words) + "]"


def _shell(words: Sequence[str]) -> str:
    return " ".join(w if w == SWAP_PORT else split_word(w) for w in words)
