"""A unit of systemd, and an entry of llama-swap."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace

from gguftool.run.emit.words import comment, hook, installed, mib, name, own_command, path, with_program, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT
from gguftool.run.sidefiles import side_files
from gguftool.shell import split_word

SWAP_PORT = "${PORT}"
"""What llama-swap replaces by the port it chose."""


def systemd(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    """A unit of systemd."""
    plan = with_program(plan)
    w, file = plan.wishes, plan.model
    sides = side_files(w)
    home = any(f.startswith(("/home/", "/root/")) for f in (file, *(s.path for s in sides)))
    written = [_folder(s.path, s.kind) for s in sides if s.kind != "read" and s.path != w.log]
    lines = [
        f"# Save as /etc/systemd/system/{name(file)}.service",
        "[Unit]",
        f"Description=llama-server for {_unit_text(os.path.basename(file))}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "# Preflight: integrity, lint, memory; the unit fails here and says why when something stands in the way.",
        f"ExecStartPre={_unit_words(hook(plan, force, installed()))}",
        f"ExecStart={_unit_words(plan.argv)}",
        "Restart=on-failure",
        "RestartSec=5",
        "TimeoutStartSec=900",
        f"MemoryHigh={mib(plan)}M",
        *(["LimitMEMLOCK=infinity"] if w.load_mode in ("mlock", "mmap+mlock") else []),
        *(["# A file lies in a home directory: name a user who may read it.", "#User=NAME"] if home
          else ["DynamicUser=yes"]),
        *(["# The user of the unit has to be able to read the keys, and nobody else."] if w.api_key_file else []),
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        *(f"ReadWritePaths={_unit_words([folder])}" for folder in dict.fromkeys(written)),
        "PrivateTmp=yes",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _folder(path: str, kind: str) -> str:
    return path if kind == "folder" else os.path.dirname(path)


def llama_swap(plan: LaunchPlan, force: tuple[str, ...]) -> str:
    """One entry of llama-swap's models: gguftool checks the model and then becomes the server."""
    w = plan.wishes
    here = with_program(replace(plan, wishes=replace(w, port=DEFAULT_PORT)))
    command = own_command(here, "--port", SWAP_PORT, "--exec", *force, program=installed())
    check = path(w, "/health")
    return f"""\
# One entry of llama-swap's models; gguftool checks the model and then becomes the server.
models:
  {yaml(w.alias or name(plan.model))}:
    cmd: {yaml(_line(command))}
    checkEndpoint: {check if check == "/health" else yaml(check)}
    ttl: 600
"""


def _line(words: Sequence[str]) -> str:
    return " ".join(w if w == SWAP_PORT else split_word(w) for w in words)


def _unit_text(text: str) -> str:
    return comment(text).replace("%", "%%")


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
