"""Fetch what a converter needs of a repository on the Hub: configuration, tokenizer, weights."""

from __future__ import annotations

from gguftool.errors import ToolFailed, UsageError
from gguftool.hub.address import hub_address
from gguftool.hub.api import offline
from gguftool.hub.cache import snapshot
from gguftool.wire import without_login

PATTERNS = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.jsonl", "*.tiktoken", "README.md"]


def model_folder(spec: str) -> str:
    """Folder in the Hugging Face cache that holds ``hf://owner/repo[@revision]``, downloaded when it is not there.

    Raises:
        UsageError: the address names a file.
        ToolFailed: the Hub cannot be asked, or refuses.
    """
    address = hub_address(spec)
    if address.path or address.quant:
        raise UsageError(f"{spec}: names a file; to convert, name the repository: hf://{address.repo}")
    if offline():
        here = snapshot(address)
        if here is None:
            raise ToolFailed(f"{spec}: is not in the cache, and HF_HUB_OFFLINE forbids to fetch it")
        return here
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    try:
        return str(snapshot_download(address.repo, revision=address.revision, allow_patterns=PATTERNS))
    except HfHubHTTPError as error:
        raise ToolFailed(
            f"{spec}: cannot be downloaded: {without_login(str(error).strip()).splitlines()[0]}",
            "a gated or private repository needs HF_TOKEN and an accepted licence",
        ) from None
    except Exception as error:
        # As in `gguftool.hub.api`: which classes the errors of its HTTP library have is not ours to say.
        raise ToolFailed(
            f"{spec}: cannot be downloaded: {without_login(str(error)) or type(error).__name__}", "check the network"
        ) from None
