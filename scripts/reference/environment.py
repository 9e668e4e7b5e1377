"""docs/reference/environment.md: what gguftool reads of the environment.

The table is written by hand; `tests/docs/test_reference.py` finds every name that the code asks for, and none else.
"""

from __future__ import annotations

from kept import DOCS, keep, table

PAGE = DOCS / "reference" / "environment.md"
GROUPS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    (
        "gguftool's own",
        "",
        (
            ("GGUFTOOL_DEBUG", "set: a bug ends with its traceback"),
            (
                "GGUFTOOL_CACHE",
                "folder of the headers that were read from servers, `off` for none; else `~/.cache/gguftool/headers`",
            ),
            ("GGUFTOOL_LLAMA_SERVER", "the llama-server to take; so for every program: GGUFTOOL_LLAMA_QUANTIZE, …"),
            ("LLAMA_CPP_DIR", "folder of llama.cpp (built, or its release): programs and converter, as `--llama-cpp`"),
            ("PATH", "where these programs are looked for else"),
            ("GGUFTOOL_CONVERTER_PYTHON", "the Python that llama.cpp's converter runs in"),
        ),
    ),
    (
        "The terminal",
        "",
        (
            ("NO_COLOR", "set and not empty: no colour; before all others"),
            ("FORCE_COLOR, CLICOLOR_FORCE", "colour also where nobody looks; `0` and `false` do not count"),
            ("CLICOLOR", "`0`: no colour"),
            ("TERM", "`dumb`: no colour"),
            ("COLUMNS", "width to fold output for, in place of the terminal's own"),
            ("VISUAL, EDITOR", "the editor of `fix --edit`; else vi"),
            ("SHELL", "which shell `completion` speaks of first"),
        ),
    ),
    (
        "The Hub and other servers",
        "As huggingface-hub reads them.",
        (
            ("HF_ENDPOINT", "another address than https://huggingface.co: a mirror"),
            ("HF_TOKEN, HUGGING_FACE_HUB_TOKEN, HF_TOKEN_PATH", "the token, or the file that holds it"),
            ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "send none"),
            ("HF_HUB_OFFLINE", "no network: what lies in the cache is taken"),
            (
                "HF_HUB_DISABLE_TELEMETRY",
                "taken as `1`; `0` lets huggingface-hub fetch a list of agents and name the one it runs under",
            ),
            ("HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME", "where the cache lies"),
            ("HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY", "proxies, in lower case, too"),
            ("REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR", "certificates to trust"),
            ("FSSPEC_…", "settings of fsspec's drivers for `s3://`, `gs://` …: FSSPEC_S3_ANON=true"),
        ),
    ),
    (
        "Where other programs keep models",
        "Read by `scan --stores`, `doctor`, `pull` and `ollama://`.",
        (
            ("OLLAMA_MODELS", "Ollama's store"),
            ("LLAMA_CACHE", "llama.cpp's cache"),
            ("JAN_DATA_FOLDER, JAN_DATA_ROOT", "jan's data"),
            ("XDG_CACHE_HOME, XDG_DATA_HOME, XDG_CONFIG_HOME", "in place of `~/.cache`, `~/.local/share`, `~/.config`"),
            ("APPDATA, LOCALAPPDATA", "the same on Windows"),
        ),
    ),
    (
        "llama.cpp's",
        "`launch` and `doctor` tell what llama.cpp would take from them unseen.",
        (
            ("LLAMA_ARG_…", "options of llama-server: LLAMA_ARG_CTX_SIZE; an option on the command line goes before"),
            ("GGML_CUDA_P2P", "`diagnose` names it for a model that talks nonsense on several GPUs"),
        ),
    ),
    (
        "Continuous integration",
        "",
        (
            (
                "GITHUB_WORKSPACE, CI_PROJECT_DIR",
                "the checkout that paths of reports start from; SARIF for GitHub gets lines",
            ),
            ("SOURCE_DATE_EPOCH", "the date in bills of materials"),
        ),
    ),
)
HEAD = """# Environment variables

An option of the command line goes before a variable, and a variable before a configuration file. Nothing else of the
environment changes what gguftool does.

"""


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for title, about, rows in GROUPS:
        parts.append(f"## {title}\n\n" + (f"{about}\n\n" if about else ""))
        shown = [(", ".join(f"`{name}`" for name in names.split(", ")), what) for names, what in rows]
        parts.append(table("variable", "meaning", rows=shown) + "\n")
    return "".join(parts).rstrip("\n") + "\n"


if __name__ == "__main__":
    keep({PAGE: page()})
