"""Where the stores are: one table of programs, each with the folders it takes by environment and system."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.hub.stores import folders, huggingface, jan, ollama
from gguftool.hub.stores.kept import Reader
from gguftool.reading import file_bytes, json_file
from gguftool.records import dataclass, field

_SETTINGS = 1 << 20
"""Bytes of a file of settings that is read."""


@dataclass(frozen=True, slots=True)
class Home:
    """A user whose stores are looked for.

    Attributes:
        path: home folder.
        env: environment; that of another user is not known, and empty.
        system: as `sys.platform` has it.
        user: name of another user; "" for the one who asks.
    """

    path: str
    env: Mapping[str, str] = field(default_factory=dict)
    system: str = sys.platform
    user: str = ""

    __repr__ = short_repr

    def at(self, *parts: str) -> str:
        """A path in the home folder."""
        return os.path.join(self.path, *parts)

    def said(self, name: str) -> str:
        """Value of a variable as a path, ``~`` taken for this home; "" when it is not set."""
        value = self.env.get(name) or ""
        return self.at(value[2:]) if value.startswith("~/") else self.path if value == "~" else value

    @property
    def cache(self) -> str:
        """Folder for caches."""
        if self.system == "darwin":
            return self.at("Library", "Caches")
        if self.system == "win32":
            return self.said("LOCALAPPDATA") or self.at("AppData", "Local")
        return self.said("XDG_CACHE_HOME") or self.at(".cache")

    @property
    def data(self) -> str:
        """Folder for data of programs, as `dirs::data_dir` of Rust has it."""
        if self.system == "darwin":
            return self.at("Library", "Application Support")
        if self.system == "win32":
            return self.said("APPDATA") or self.at("AppData", "Roaming")
        return self.said("XDG_DATA_HOME") or self.at(".local", "share")

    @property
    def config(self) -> str:
        """Folder for settings of programs, as `dirs::config_dir` has it."""
        if self.system in ("darwin", "win32"):
            return self.data
        return self.said("XDG_CONFIG_HOME") or self.at(".config")


def me() -> Home:
    """The user who asks."""
    return Home(os.path.expanduser("~"), os.environ)


def homes() -> list[Home]:
    """The user who asks, and the people who have an account on this machine."""
    return [me(), *_others()]


def _others() -> Iterator[Home]:
    try:
        import pwd
    except ImportError:
        return
    first = 500 if sys.platform == "darwin" else 1000
    for entry in pwd.getpwall():
        # 65534 is nobody; root and services keep models in system folders, which the table has.
        if first <= entry.pw_uid < 65534 and entry.pw_uid != os.getuid() and os.path.isdir(entry.pw_dir):
            yield Home(entry.pw_dir, user=entry.pw_name)


# -- folders by program; the first one is where it would put the next model


def hub_roots(home: Home) -> Iterator[str]:
    """Caches of huggingface-hub, by rank (`constants.py` of huggingface_hub: HF_HUB_CACHE before HF_HOME)."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if place := home.said(name):
            yield place
    if place := home.said("HF_HOME"):
        yield os.path.join(place, "hub")
    if place := home.said("XDG_CACHE_HOME"):
        yield os.path.join(place, "huggingface", "hub")
    yield home.at(".cache", "huggingface", "hub")


def hub_cache() -> str:
    """Folder of the Hugging Face cache, as the environment has it (HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME)."""
    return next(hub_roots(me()))


def ollama_roots(home: Home) -> Iterator[str]:
    """Folders where Ollama keeps models: OLLAMA_MODELS, the user's, and those of the service."""
    if place := home.said("OLLAMA_MODELS"):
        yield place
    yield home.at(".ollama", "models")
    if home.system == "linux":
        yield from OLLAMA_SERVICE


OLLAMA_SERVICE = ("/usr/share/ollama/.ollama/models", "/var/lib/ollama/models")
"""Stores of the service: the home that its installer gives the user ``ollama``, and that of packages."""


def lm_studio_roots(home: Home) -> Iterator[str]:
    """Folders of LM Studio: as its settings have it, else below its home, of which older versions had another."""
    pointed = _line(home.at(".lmstudio-home-pointer"))
    for place in dict.fromkeys(p for p in (pointed, home.at(".lmstudio"), home.at(".cache", "lm-studio")) if p):
        if chosen := _text_of(os.path.join(place, "settings.json"), "downloadsFolder"):
            yield chosen
        yield os.path.join(place, "models")


def llama_roots(home: Home) -> Iterator[str]:
    """Caches of llama.cpp itself; newer builds put models of the Hub into LLAMA_CACHE as huggingface-hub lays them."""
    if place := home.said("LLAMA_CACHE"):
        yield place
    yield os.path.join(home.cache, "llama.cpp")
    if home.system == "linux" and home.said("XDG_CACHE_HOME"):
        yield home.at(".cache", "llama.cpp")


def jan_roots(home: Home) -> Iterator[str]:
    """Data folders of jan: named by the environment or in its settings, and where older versions had theirs."""
    if place := home.said("JAN_DATA_FOLDER"):
        yield place
    root = home.said("JAN_DATA_ROOT") if os.path.isabs(home.said("JAN_DATA_ROOT")) else home.data
    for folder in (os.path.join(root, "Jan"), os.path.join(root, "jan.ai.app"), os.path.join(home.config, "Jan")):
        chosen = _text_of(os.path.join(folder, "settings.json"), "data_folder")
        if os.path.isabs(chosen):
            yield chosen
    yield os.path.join(root, "Jan", "data")
    yield os.path.join(home.config, "Jan", "data")
    yield home.at("jan")


def gpt4all_roots(home: Home) -> Iterator[str]:
    """Folders of GPT4All: as its settings have it, its default, and that of its Python package."""
    local = home.said("LOCALAPPDATA") or home.at("AppData", "Local")
    settings = home.config if home.system != "darwin" else home.at(".config")
    if chosen := _ini(os.path.join(settings, "nomic.ai", "GPT4All.ini"), "modelPath"):
        yield chosen
    yield os.path.join(local if home.system == "win32" else home.data, "nomic.ai", "GPT4All")
    yield home.at(".cache", "gpt4all")


def _text_of(path: str, key: str) -> str:
    """A text in a JSON file of settings; "" when there is none."""
    try:
        found = json_file(path, _SETTINGS)
    except GgufToolError:
        return ""
    value = found.get(key) if isinstance(found, dict) else None
    return value if isinstance(value, str) and "\0" not in value else ""


def _line(path: str) -> str:
    try:
        text = file_bytes(path, 1 << 12).decode("utf-8", "replace").strip()
    except GgufToolError:
        return ""
    return text if os.path.isabs(text) and "\0" not in text else ""


def _ini(path: str, key: str) -> str:
    """A value of a file of settings of Qt: ``key=value`` in the section General; "" when there is none."""
    import configparser

    reader = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=(";",))
    reader.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        reader.read_string(file_bytes(path, _SETTINGS).decode("utf-8", "replace"))
    except (GgufToolError, configparser.Error):
        return ""
    value = reader.get("General", key, fallback="").strip().strip('"')
    text = re.sub(r"\\x([0-9a-fA-F]{1,6})", lambda m: _character(m[1]), value).replace("\\\\", "\\")
    return text if os.path.isabs(text) and "\0" not in text else ""


def _character(digits: str) -> str:
    number = int(digits, 16)
    return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else ""


# -- the table


@dataclass(frozen=True, slots=True)
class Program:
    """A program that keeps models.

    Attributes:
        name: as people call it.
        roots: its folders for a user, whether they are there or not.
        read: reads a folder of it.
        origin: what the layout was taken from.
    """

    name: str
    roots: Callable[[Home], Iterator[str]]
    read: Reader
    origin: str

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Place:
    """A folder that is there: whose program's, its path without links, another user's name or ""."""

    program: Program
    path: str
    user: str = ""

    __repr__ = short_repr


PROGRAMS = (
    Program("Hugging Face", hub_roots, huggingface.read, "huggingface_hub 2.4: _cache_manager.py, _shared_blobs.py"),
    Program("Ollama", ollama_roots, ollama.read, "ollama fb307609: envconfig, manifest, server/{download,images}.go"),
    Program("LM Studio", lm_studio_roots, folders.lm_studio, "lmstudio-js 6ec11db1, lms 07b7252: importCmd.ts"),
    Program("llama.cpp", llama_roots, folders.llama_cpp, "llama.cpp: common/{common,download,hf-cache}.cpp"),
    Program("jan", jan_roots, jan.read, "jan: core/app/{paths,commands}.rs, downloads/helpers.rs, llamacpp-extension"),
    Program("GPT4All", gpt4all_roots, folders.gpt4all, "gpt4all cd70db29: mysettings.cpp, modellist.cpp, gpt4all.py"),
)


def existing(users: Sequence[Home] | None = None) -> Iterator[Place]:
    """Folders of stores that are there, each once.

    Args:
        users: whose; None: the one who asks.
    """
    seen: set[str] = set()
    for home in users if users is not None else [me()]:
        for program in PROGRAMS:
            for root in program.roots(home):
                path = os.path.realpath(root)
                if path not in seen and os.path.isdir(path):
                    seen.add(path)
                    yield Place(program, path, "" if root in OLLAMA_SERVICE else home.user)


def closed(users: Sequence[Home] | None = None) -> list[str]:
    """Folders of others that may not be looked into, where a store may lie, as that of Ollama's service often does."""
    found: dict[str, None] = {}
    for home in users if users is not None else [me()]:
        for root in (root for program in PROGRAMS for root in program.roots(home)):
            try:
                os.stat(root)
            except PermissionError:
                found[_barred(root)] = None
            except OSError:
                continue
    return list(found)


def _barred(path: str) -> str:
    """The folder on the way that cannot be entered."""
    above = os.path.dirname(path)
    while above != os.path.dirname(above) and not os.path.lexists(above):
        above = os.path.dirname(above)
    return above
