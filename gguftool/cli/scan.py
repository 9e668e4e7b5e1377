"""``gguftool scan``: many models at once, one row each."""

from __future__ import annotations

from typing import Any

import click

from gguftool.cli.builds import build_options
from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.output_file import output_option
from gguftool.cli.scan_emit import ScanCommand, emit_options, unused
from gguftool.cli.values import MODEL
from gguftool.files.patterns import spread


@command(
    cls=ScanCommand,
    examples="""
    gguftool scan ~/models
    gguftool scan --fail-on error --format markdown /srv/models > models.md
    gguftool scan --resume scan.jsonl /mnt/archive
    gguftool scan --format html --exclude old ~/models > models.html
    gguftool scan --format json ~/models > known.json
    gguftool scan --baseline known.json --fail-on warning ~/models
                                                        only what is new
    gguftool scan hf://owner/repo hf://owner
    gguftool scan --format cyclonedx ~/models > bom.json  a bill of materials (or spdx)
    gguftool scan --build b8179 ~/models                which models will that llama.cpp not load?
    gguftool scan --stores                              all models of this machine, and what frees room
    gguftool scan --watch --format jsonl /srv/models    check what lands, as it lands
    gguftool scan --emit preset --ctx 16384 ~/models > models.ini
    """,
)
@click.argument("paths", type=MODEL, metavar="PATH...", nargs=-1)
@option("--stores", is_flag=True, help="What Hugging Face, Ollama, LM Studio, llama.cpp, jan and GPT4All keep here.")
@option("--hash", is_flag=True, help="With --stores: read the data of files that may be the same, to prove it.")
@option("--jobs", type=click.IntRange(1), help="Models at a time; the number of processors when left out.")
@option("--scheduler", metavar="ADDRESS", help="Let the workers of a Dask cluster look: tcp://HOST:8786, tls://….")
@build_options
@option("--no-lint", is_flag=True, help="Facts and integrity only.")
@option(
    "--resume",
    type=MODEL,
    metavar="FILE",
    help="Keep rows in this file; models that did not change are taken from it.",
)
@option(
    "--fail-on",
    type=click.Choice(["error", "warning", "broken", "never"]),
    help="What makes the exit code 1: lint findings of that severity, or only models that are not whole.  "
    "[default: broken]",
)
@option("--select", multiple=True, metavar="RULE|FAMILY", help="Only these rules; comma separated or given again.")
@option("--ignore", multiple=True, metavar="RULE|FAMILY", help="All rules but these.")
@option("--policy", type=click.Path(), metavar="FILE", help="Demands of your own, as TOML.")
@option("--baseline", type=click.Path(), metavar="FILE", help="Leave out the findings of a saved JSON report.")
@option("--config", "config_file", type=click.Path(), metavar="FILE", help="Settings instead of gguftool.toml.")
@option("--no-config", is_flag=True, help="Look for no gguftool.toml or pyproject.toml.")
@option("--include", multiple=True, metavar="GLOB", help="Of folders only files like this, in place of *.gguf.")
@option("--exclude", multiple=True, metavar="GLOB", help="Of folders no file and no folder like this: old, */tmp.")
@emit_options
@option("--statistics", is_flag=True, help="Also how often each rule found something.")
@option("--show-settings", is_flag=True, help="Show which settings are in force, and who said so; look at nothing.")
@output_option
@option("--watch", is_flag=True, help="Go on: check what lands in these folders, as it lands, until a signal ends it.")
@option(
    "--settle",
    type=click.FloatRange(0),
    default=2,
    show_default=True,
    help="With --watch: seconds that a model's files must have stood still.",
)
@option(
    "--patience",
    type=click.FloatRange(0),
    default=600,
    show_default=True,
    help="With --watch: seconds after which a model that is not whole, and does not grow, is told.",
)
@option(
    "--every",
    type=click.FloatRange(0.1),
    default=60,
    show_default=True,
    help="With --watch: seconds after which folders are looked through even if nothing was heard of them.",
)
@option("--for", type=click.FloatRange(0), metavar="SECONDS", help="With --watch: end after so long.")
@option(
    "--metrics",
    type=click.Path(),
    metavar="FILE",
    help="Numbers of the scan for Prometheus, in its text format; FILE is replaced in one step.",
)
@option("--no-hash", is_flag=True, help="With cyclonedx and spdx: do not read the files whole for their SHA-256.")
@format_option("text", "json", "jsonl", "markdown", "html", "cyclonedx", "spdx")
@pass_session
def scan(session: Session, /, paths: tuple[str, ...], **options: Any) -> int:
    """Facts, integrity and lint of all models in files and folders (their subfolders too), in a repository of the Hub,
    or in all repositories of an owner.

    A set of shards is one row, written when it is done; JSON is one object, sorted. Headers are read, tensor data is
    not. A model that cannot be read is a row that says so.
    With --stores it looks at the folders of the programs that keep models on this machine (PATHs are further folders),
    finds what is there twice, unused or half there, and prints the commands that free it; nothing is deleted.
    With --emit it prints one configuration for all models that load, each planned for this machine.
    With --watch it writes a row whenever a model has come, changed or gone; one that is being written waits until it is
    whole. SIGTERM and Ctrl-C end it with 0.
    With a llama.cpp named (--build and the like) a model that it refuses makes the exit code 1, too.
    """
    if options["scheduler"] and any(options[name] for name in ("jobs", "stores", "emit", "watch")):
        raise click.UsageError("--scheduler has no --jobs (the cluster has its workers), --stores, --emit or --watch.")
    ways = [way for way in ("--emit", "--stores", "--watch") if options[way.removeprefix("--")]]
    if len(ways) > 1:
        raise click.UsageError(f"{ways[0]} and {ways[1]} do not go together: take one.")
    unused(ways[0] if ways else "")
    from gguftool.lint.config import chosen

    config = options["config"] = chosen(options["config_file"], options["no_config"])
    if options["show_settings"]:
        from gguftool.cli.show_settings import show

        return show(session, options, config, scan=True)
    paths = tuple(spread(paths))
    options["fail_on"] = options["fail_on"] or config.scan_fail_on or "broken"
    if options["stores"]:
        from gguftool.cli import scan_stores

        return scan_stores.run(session, paths, options)
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    if options["emit"]:
        from gguftool.cli import scan_emit

        return scan_emit.run(session, paths, options)
    if options["watch"]:
        from gguftool.cli import scan_watch

        return scan_watch.run(session, paths, options)
    from gguftool.cli.scan_rows import run

    return run(session, paths, options)
