"""What the Hub says of repositories and their files; who asks, and whether asking is allowed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from gguftool.errors import GgufToolError, MissingFile, ToolFailed, UsageError
from gguftool.hub import pace, stamps
from gguftool.hub.address import HubAddress, WebAddress, parse
from gguftool.hub.session import keep_redirects_in
from gguftool.hub.stores.places import hub_cache
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.wire import HEAD_SECONDS, within, without_login

_SHA256 = regex("[0-9a-f]{64}")
LOOKUP_SECONDS = 90.0
"""What one question to the Hub may take in all: huggingface-hub's own limits are for one wait, where it has any."""


@dataclass(frozen=True, slots=True)
class LfsRecord:
    """What the Hub says of a file: size in bytes and, for files in large storage, the sha256."""

    path: str
    size: int
    sha256: str | None


def endpoint() -> str:
    """Address of the Hub; HF_ENDPOINT names a mirror."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def offline() -> bool:
    """Whether the user forbids the network (HF_HUB_OFFLINE)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def token() -> str | None:
    """The user's token for the Hub: HF_TOKEN, or the file that ``hf auth login`` writes."""
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return None
    if found := os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"):
        return found.strip() or None
    place = os.environ.get("HF_TOKEN_PATH") or os.path.join(os.path.dirname(hub_cache()), "token")
    try:
        with open(os.path.expanduser(place), encoding="utf-8") as f:
            return f.read().strip() or None
    except OSError:
        return None


def listing(address: HubAddress) -> list[LfsRecord]:
    """All files of a repository with size and sha256, as the Hub records them.

    Raises:
        MissingFile: no such repository or revision.
        ToolFailed: the network or the Hub failed, or access is refused.
    """
    from huggingface_hub.hf_api import HfApi

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        # One request and no retries, unlike the listing of a tree: without a network the answer comes at once.
        info = api.model_info(address.repo, revision=address.revision, files_metadata=True, timeout=HEAD_SECONDS)
        return [_record(entry) for entry in info.siblings or ()]

    records = _asked(address, ask)
    at = "" if address.revision == "main" else f"@{address.revision}"
    rows = ((f"hf://{address.repo}{at}/{r.path}", stamps.word(r.size, r.sha256 or "")) for r in records)
    stamps.note((spec, stamp) for spec, stamp in rows if stamp)
    return records


def lfs_record(address: HubAddress) -> LfsRecord:
    """What the Hub records of one file.

    Raises:
        MissingFile: no such repository, revision or file.
        ToolFailed: the network or the Hub failed, or access is refused.
    """
    from huggingface_hub.hf_api import HfApi, RepoFile

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        found = api.get_paths_info(address.repo, [address.path], revision=address.revision)
        return [_record(entry) for entry in found if isinstance(entry, RepoFile)]

    records = _asked(address, ask)
    if not records:
        raise MissingFile(f"{address}: the repository has no such file")
    return records[0]


def _record(entry: object) -> LfsRecord:
    lfs = getattr(entry, "lfs", None)
    sha256 = lfs["sha256"] if isinstance(lfs, dict) else getattr(lfs, "sha256", None)
    size = getattr(entry, "size", 0)
    path = getattr(entry, "path", None) or getattr(entry, "rfilename", "")
    # It becomes the name of a file.
    digest = sha256 if isinstance(sha256, str) and _SHA256.fullmatch(sha256) else None
    return LfsRecord(str(path), int(size or 0), digest)


def _asked(address: HubAddress, ask: Callable[[], list[LfsRecord]]) -> list[LfsRecord]:
    """The answer of huggingface-hub, its errors turned into ours."""
    if offline():
        hint = "unset it; to verify without the Hub, use a manifest or SHA256SUMS"
        raise ToolFailed(f"{address}: HF_HUB_OFFLINE forbids to ask the Hub", hint)
    try:
        return _in_time(ask)
    except Exception as error:
        hint = "check the network; to verify without one, use a manifest or SHA256SUMS"
        raise ours(error, address, "the Hub cannot be asked", hint) from None


def ours(error: Exception, address: HubAddress, what: str, hint: str) -> GgufToolError:
    """An error of huggingface-hub, or of what it calls, as one of ours.

    Args:
        error: what was raised.
        address: what was asked for.
        what: what could not be done, for errors that say nothing of the repository.
        hint: what helps then.
    """
    from huggingface_hub import errors

    if isinstance(error, GgufToolError):
        return error
    if isinstance(error, errors.LocalEntryNotFoundError):
        # It stands for whatever kept huggingface-hub from asking.
        return ToolFailed(f"{address}: {what}: {_first_line(error)}", hint)
    if isinstance(error, (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError)):
        gated = isinstance(error, errors.GatedRepoError)
        way = "a gated or private repository needs HF_TOKEN" + (" and an accepted licence" if gated else "")
        kind: type[GgufToolError] = ToolFailed if gated else MissingFile
        return kind(f"{address}: {_first_line(error)}", way)
    if isinstance(error, errors.HFValidationError):
        return UsageError(f"{address}: {_first_line(error)}")
    # huggingface-hub changed its HTTP library more than once, and reads whatever the server says as what it should
    # be: which classes its errors have is not ours to say.
    return ToolFailed(f"{address}: {what}: {_first_line(error)}", hint)


def _in_time(ask: Callable[[], list[LfsRecord]]) -> list[LfsRecord]:
    """What the Hub answers; when it says that it was asked too often, when it says to come again."""
    keep_redirects_in()
    waited = 0.0
    while True:
        pace.hold(endpoint())
        try:
            return within(LOOKUP_SECONDS, ask)
        except Exception as error:
            answer = getattr(error, "response", None)
            if getattr(answer, "status_code", 0) != 429:
                raise
            wait = pace.asked({str(k).lower(): str(v) for k, v in dict(getattr(answer, "headers", {})).items()})
            waited += max(wait, 1.0)
            if waited > pace.patience():
                raise
            pace.close(endpoint(), wait)


def _first_line(error: Exception) -> str:
    """What the Hub itself says, else the line of the message that says most."""
    if said := getattr(error, "server_message", None):
        return without_login(str(said))
    lines = [line.strip() for line in without_login(str(error)).splitlines() if line.strip()]
    useful = [line for line in lines if "Request ID" not in line and " Error for url" not in line]
    return (useful or lines or [type(error).__name__])[0]


def hub_records(spec: str, paths: Sequence[str]) -> dict[str, LfsRecord]:
    """What the Hub records of local files, matched by name.

    Args:
        spec: ``hf://owner/repo`` (files are looked for by their names), or ``hf://owner/repo/file`` for one file.
        paths: the local files.

    Raises:
        UsageError: several files for one record.
        MissingFile, ToolFailed: as `listing`.
    """
    address = parse(spec, endpoint())
    if isinstance(address, WebAddress) and address.hub is not None:
        address = address.hub
    spec = without_login(spec)
    if not isinstance(address, HubAddress):
        raise UsageError(f"{spec}: not an address on the Hub", "write hf://owner/repo")
    if address.path:
        if len(paths) != 1 and address.path.rpartition("/")[2] not in {os.path.basename(p) for p in paths}:
            raise UsageError(
                f"{spec} names one file, here are {len(paths)}", f"name the repository: hf://{address.repo}"
            )
        record = lfs_record(address)
        same = [p for p in paths if os.path.basename(p) == address.path.rpartition("/")[2]]
        return dict.fromkeys(same or paths, record)
    records = {record.path.rpartition("/")[2]: record for record in listing(address)}
    return {path: records[os.path.basename(path)] for path in paths if os.path.basename(path) in records}


def repositories(owner: str) -> list[str]:
    """Repositories of an owner that hold GGUF files, as the Hub tags them.

    Raises:
        ToolFailed: the network or the Hub failed.
    """
    from huggingface_hub.hf_api import HfApi

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        return [LfsRecord(model.id, 0, None) for model in api.list_models(author=owner, filter="gguf")]

    return [record.path for record in _asked(HubAddress(owner), ask)]
