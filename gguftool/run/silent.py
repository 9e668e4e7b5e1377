"""Settings that llama.cpp applies without being asked: configuration files and environment variables.

`common/arg.cpp:common_params_parse_main` (b11434) reads the configuration files first, then the environment, then the
command line; the last one wins. Nothing of it shows on the command line people look at.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.records import dataclass
from gguftool.run.capabilities import Capabilities

SYSTEM_CONFIG = "/etc/llama.cpp/config.ini"
USER_CONFIG = "llama.cpp/config.ini"
SECRET = ("KEY", "TOKEN", "PASSWORD", "SECRET")
OTHER = (
    "LLAMA_ATTN_ROT_DISABLE", "LLAMA_CACHE", "LLAMA_SET_ROWS", "LLAMA_GRAPH_REUSE_DISABLE", "LLAMA_KV_CACHE_DEBUG",
    "LLAMA_API_KEY", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES",
    "GGML_CUDA_ENABLE_UNIFIED_MEMORY", "GGML_CUDA_FORCE_MMQ", "GGML_CUDA_FORCE_CUBLAS", "GGML_CUDA_DISABLE_GRAPHS",
    "GGML_BACKEND_PATH", "MTMD_BACKEND_DEVICE",
)  # fmt: skip
"""Variables that llama.cpp's libraries read themselves, whatever the command line says."""
TEMPLATE_FILE = "LLAMA_ARG_CHAT_TEMPLATE_FILE"
GENERAL = ("", "*", "default")
"""Sections of a configuration file that are for every model."""
_LIMIT = 64 * 1024


@dataclass(frozen=True, slots=True)
class SilentSetting:
    """One setting nobody typed.

    Attributes:
        source: the file (with line) or ``environment``.
        name: the key or variable.
        value: its value; of secrets only that there is one.
        overridden: the command line says the same option, so this has no effect.
    """

    source: str
    name: str
    value: str
    overridden: bool

    __repr__ = short_repr


def config_files(environment: Mapping[str, str]) -> tuple[str, str]:
    """The two places a configuration file may be at, system-wide first."""
    home = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME", ""), ".config")
    return SYSTEM_CONFIG, os.path.join(home, USER_CONFIG)


def silent_settings(
    environment: Mapping[str, str], build: Capabilities | None = None, args: Iterable[str] = ()
) -> list[SilentSetting]:
    """What would apply unseen to a program started in ``environment`` with ``args``."""
    said = _said(build, args)
    out: list[SilentSetting] = []
    for path in config_files(environment):
        out += _from_file(path, build, said)
    for name in sorted(environment):
        if name.startswith("LLAMA_ARG_") or name in OTHER:
            out.append(SilentSetting("environment", name, _shown(name, environment[name]), _variable(name) in said))
    return out


def applied(environment: Mapping[str, str], build: Capabilities) -> dict[str, str]:
    """Variable to value of what the configuration files and the environment set, the later above the earlier.

    Of a file what stands before any heading counts, under ``[*]`` and under ``[default]``
    (`common/preset.cpp`, b11434).
    """
    out: dict[str, str] = {}
    for path in config_files(environment):
        out |= {
            variable: value for _, key, value in _entries(path, GENERAL) if (variable := _option_variable(build, key))
        }
    return {**out, **environment}


def names_template(environment: Mapping[str, str], build: Capabilities) -> bool:
    """Whether a variable or a configuration file names a file with a chat template."""
    return bool(applied(environment, build).get(TEMPLATE_FILE))


def _said(build: Capabilities | None, args: Iterable[str]) -> set[str]:
    """Variables of the options on the command line."""
    options = build.by_name if build else {}
    return {options[a].env for a in args if a in options and options[a].env}


def _variable(name: str) -> str:
    return name.replace("LLAMA_ARG_NO_", "LLAMA_ARG_", 1)


def _from_file(path: str, build: Capabilities | None, said: set[str]) -> list[SilentSetting]:
    out = []
    for number, key, value in _entries(path):
        env = _option_variable(build, key)
        out.append(SilentSetting(f"{path}:{number}", key, _shown(key, value), bool(env) and env in said))
    return out


def _entries(path: str, sections: Sequence[str] = ()) -> Iterator[tuple[int, str, str]]:
    """Line, key and value of a configuration file, of some sections or of all."""
    try:
        with open(path, "rb") as file:
            text = file.read(_LIMIT).decode("utf-8", "replace")
    except OSError:
        return
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("["):
            section = stripped.strip("[] ")
        elif stripped and not stripped.startswith(("#", ";")) and (not sections or section in sections):
            key, _, value = (part.strip() for part in stripped.partition("="))
            yield number, key, value


def _option_variable(build: Capabilities | None, key: str) -> str:
    if key.startswith("LLAMA_ARG_"):
        return _variable(key)
    name = key.lstrip("-").replace("_", "-")
    for spelled in (f"--{name}", f"-{name}"):
        if build and spelled in build.by_name:
            return build.by_name[spelled].env
    return ""


def _shown(name: str, value: str) -> str:
    return "(set)" if any(word in name.upper() for word in SECRET) else value
