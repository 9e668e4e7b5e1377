"""A unit of systemd, and an entry of llama-swap."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence

from gguftool.errors import UsageError
from gguftool.records import replace
from gguftool.run.emit.words import comment, installed, mib, name, own_command, scheme, title, utf8, with_program, yaml
from gguftool.run.launch import LaunchPlan
from gguftool.run.options.serving import DEFAULT_PORT, LOOPBACK
from gguftool.run.reach import way_to
from gguftool.run.sidefiles import is_socket, replaced, side_files
from gguftool.run.wishes import Wishes
from gguftool.shell import split_word

SWAP_PORT = "${PORT}"
"""What llama-swap replaces by the port it chose."""


CREDENTIALS = "\0"
"""What a path of a credential begins with, until systemd's own name for their folder is written."""
NOT_AGAIN = (1, 2, 3)
"""Exit codes of gguftool after which another try changes nothing: findings, usage, no model. A port that is taken and
memory that is short may pass. llama-server ends with 1 when it cannot load."""


def systemd(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """A unit of systemd whose main process is gguftool, which checks and then becomes the server.

    `RestartPreventExitStatus` looks at the main process alone: what fails in ``ExecStartPre`` is tried again and again
    (systemd.service(5)).
    """
    plan = with_program(plan)
    w, file = plan.wishes, plan.model
    sides = side_files(w)
    program = installed()
    used = (file, program, sys.executable, *((w.server,) if w.server else ()), *(s.path for s in sides if not s.secret))
    home = any(os.path.realpath(f).startswith(("/home/", "/root/")) for f in used)
    shared = any(os.path.realpath(f).startswith(("/tmp/", "/var/tmp/")) for f in used)
    written = [_folder(s.path, s.kind) for s in sides if s.kind != "read" and s.path != w.log]
    secret = dict.fromkeys(s.path for s in sides if s.secret and s.path.isprintable())
    credentials = {path: f"key-{i}" for i, path in enumerate(secret)}
    inside = replaced(w, lambda s: f"{CREDENTIALS}/{credentials[s.path]}" if s.path in credentials else s.path)
    judged = replace(plan, wishes=replace(inside, ram="auto" if w.ram is None else w.ram))
    lines = [
        f"# Save as /etc/systemd/system/{name(file)}.service",
        "[Unit]",
        f"Description=llama-server for {_unit_text(os.path.basename(file))}",
        "After=network-online.target",
        "Wants=network-online.target",
        "# What may pass is tried five times in ten minutes; then the unit stays failed.",
        "StartLimitIntervalSec=600",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        "# Checks integrity, lint and memory, and becomes llama-server: what stands in the way is in the journal.",
        f"ExecStart={_unit_words(own_command(judged, '--exec', *force, program=program))}",
        "Restart=on-failure",
        "RestartSec=5",
        "# After these the unit stays failed at once: another try repairs no file.",
        f"RestartPreventExitStatus={' '.join(map(str, NOT_AGAIN))}",
        f"MemoryHigh={mib(plan)}M",
        *(["LimitMEMLOCK=infinity"] if w.load_mode in ("mlock", "mmap+mlock") else []),
        *(["# A file lies where a user made up for the unit cannot read it: name one who can.", "#User=NAME"]
          if home or shared else ["DynamicUser=yes"]),
        *(f"LoadCredential={called}:{path.replace('%', '%%')}" for path, called in credentials.items()),
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        *(f"ReadWritePaths={_unit_words([folder], command=False)}" for folder in dict.fromkeys(written)),
        *([] if shared else ["PrivateTmp=yes"]),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _folder(path: str, kind: str) -> str:
    return path if kind == "folder" else os.path.dirname(path)


def llama_swap(plan: LaunchPlan, force: tuple[str, ...], image: str | None = None) -> str:
    """One entry of llama-swap's models: gguftool checks the model and then becomes the server."""
    return "\n".join((
        "# One entry of llama-swap's models; gguftool checks the model and then becomes the server.",
        "models:",
        *swap_entry(plan, plan.wishes.alias or title(plan.model), force),
        "",
    ))  # fmt: skip


def swap_entry(plan: LaunchPlan, called: str, force: tuple[str, ...]) -> list[str]:
    """The lines of one model.

    Raises:
        UsageError: llama-swap cannot speak to it.
    """
    w = plan.wishes
    here = with_program(replace(plan, wishes=replace(w, port=DEFAULT_PORT)))
    command = own_command(here, "--port", SWAP_PORT, "--exec", *force, program=installed())
    utf8(command)
    if is_socket(w.host):
        raise UsageError("llama-swap speaks to a port, not to a socket", "leave --host out, or name an address")
    # What is asked goes to the prefix as the check does: both are put behind the address.
    way = f"{scheme(w)}://{_reached(w)}:{SWAP_PORT}{w.api_prefix or ''}"
    proxy = [] if way == f"http://{LOOPBACK}:{SWAP_PORT}" else [f"    proxy: {yaml(way)}"]
    lines = [f"  {yaml(called)}:", f"    cmd: {yaml(_line(command))}", *proxy]
    return [*lines, "    checkEndpoint: /health", "    ttl: 600"]


def _reached(w: Wishes) -> str:
    """Where the server is reached from this machine."""
    host = way_to(replace(w, api_key=None, api_key_file=None), {}).host
    return f"[{host}]" if ":" in host else host


def _line(words: Sequence[str]) -> str:
    """Words as llama-swap takes them apart, as a POSIX shell does (`internal/config/commands.go`).

    Before that it puts in values for ``${NAME}``, leaves out lines that begin with ``#`` and joins those before which
    a backslash stands: a pair of quotes between such characters keeps them apart, and stands for nothing.
    """
    return " ".join(w if w == SWAP_PORT else split_word(w).replace("${", "$''{").replace("\n", "''\n''") for w in words)


def _unit_text(text: str) -> str:
    return comment(text).replace("%", "%%")


def _unit_words(words: Sequence[str], *, command: bool = True) -> str:
    """Words as systemd.service(5) reads them: its own quotes, ``%`` doubled, and ``$`` where it is a command."""
    out = []
    for word in words:
        doubled = word.replace("%", "%%").replace("$", "$$" if command else "$").replace(CREDENTIALS, "%d")
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
