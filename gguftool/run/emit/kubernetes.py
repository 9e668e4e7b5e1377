"""A Deployment of Kubernetes, and its Service."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gguftool.run.emit.inside import Inside, inside
from gguftool.run.emit.words import comment, flow, mib, mib_start, name, path, scheme, which, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.sidefiles import Mount
from gguftool.shell import shell

_RESOURCES = {
    "cuda": "nvidia.com/gpu",
    "rocm": "amd.com/gpu",
    "sycl": "gpu.intel.com/xe",
    "vulkan": "amd.com/gpu",
}
"""What the makers' device plugins call their GPUs."""
_GROWS = (
    "It starts with the memory that is requested and may grow to the limit (prompts seen before, checkpoints). A node",
    "that runs short ends first what is above its request: request the limit, or bound it (--cache-ram,",
    "--ctx-checkpoints).",
)
_SAID = {
    "sycl": "gpu.intel.com/xe: cards of the kernel's older driver are gpu.intel.com/i915.",
    "vulkan": "Vulkan runs on the GPUs of every maker: amd.com/gpu, nvidia.com/gpu, or gpu.intel.com/xe.",
}


def k8s(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """A Deployment with the preflight as its first container, and a Service."""
    x = inside(plan, force)
    called = name(plan.model)
    volumes, uses = _volumes(called, x.mounts)
    probe = _probe(x)
    start, most = mib_start(plan), mib(plan)
    limits = ", ".join((_memory(most), *_gpus(x.gpus)))
    notes = [f"# {line}" for line in (*_notes(called, x), *(_GROWS if start < most else ()))]
    ports = "" if x.port is None else f"          ports: [{{containerPort: {x.port}}}]\n"
    return f"""\
# llama-server for {comment(os.path.basename(plan.model))}. Replace the images and the volumes.
# The image of llama-server starts it with the arguments it is given (its entrypoint); that of gguftool has gguftool and
# llama-server on its PATH. In a checkout of gguftool the latter is built with
#   docker build -t gguftool:server --target server --build-arg LLAMA_SERVER_IMAGE={comment(image or "IMAGE")} .
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
          image: {yaml(image or "REPLACE-WITH-AN-IMAGE-OF-LLAMA-SERVER")}
          args: {_k8s_words(x.serve)}
{ports}          resources:
            requests: {{{_memory(start)}}}
            limits: {{{limits}}}
          startupProbe: {probe}, periodSeconds: 5, failureThreshold: 180}}
          readinessProbe: {probe}, periodSeconds: 5}}
          livenessProbe: {probe}, periodSeconds: 20, timeoutSeconds: 5}}
          volumeMounts:
{uses}
      volumes:
{volumes}
{_service(called, x.port)}"""


def _memory(size: int) -> str:
    return f"memory: {yaml(f'{size}Mi')}"


def _service(called: str, port: int | None) -> str:
    if port is None:
        return ""
    return f"""---
apiVersion: v1
kind: Service
metadata: {{name: {yaml(called)}}}
spec:
  selector: {{app: {yaml(called)}}}
  ports: [{{port: {port}, targetPort: {port}}}]
"""


def _gpus(gpus: dict[str, int]) -> list[str]:
    return [f"{_RESOURCES[kind]}: {count}" for kind, count in gpus.items()]


def _probe(x: Inside) -> str:
    if x.port is None:
        return f"{{exec: {{command: {_k8s_words(x.probe)}}}"
    check = path(x.wishes, "/health")
    https = ", scheme: HTTPS" if scheme(x.wishes) == "https" else ""
    return f"{{httpGet: {{path: {check if check == '/health' else yaml(check)}, port: {x.port}{https}}}"


def _notes(called: str, x: Inside) -> list[str]:
    out = [_SAID[kind] for kind in x.gpus if kind in _SAID]
    for i, m in enumerate(x.mounts):
        if m.secret:
            file = f"--from-file={os.path.basename(m.target)}={m.source}"
            out.append("The keys: " + shell(("kubectl", "create", "secret", "generic", _secret(called, i), file)))
    if x.wishes.api_key_file is None and x.port is not None:
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
