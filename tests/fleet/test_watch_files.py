"""The units and the CronJob of fixtures/watch: valid for what reads them, and their very commands run."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.build import llama

FIXTURES = Path(__file__).parents[2] / "fixtures" / "watch"
UNITS = ("gguftool-watch.service", "gguftool-scan.service", "gguftool-scan.path")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_the_units_are_valid(tmp_path: Path):
    for name in UNITS:
        (tmp_path / name).write_text((FIXTURES / name).read_text().replace("/usr/local/bin/gguftool", "/bin/true"))
    words = ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in UNITS)]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", [name for name in UNITS if name.endswith(".service")])
def test_the_command_of_a_unit(cli, tmp_path: Path, name: str):
    pytest.importorskip("watchfiles")
    (line,) = (line for line in (FIXTURES / name).read_text().splitlines() if line.startswith("ExecStart="))
    words = shlex.split(line.partition("=")[2])
    assert words[0] == "/usr/local/bin/gguftool"
    (models := tmp_path / "models").mkdir()
    (state := tmp_path / "state" / "metrics").mkdir(parents=True)
    llama().write(models / "m.gguf")
    here = [w.replace("/srv/models", str(models)).replace("/var/lib/gguftool", str(state.parent)) for w in words[1:]]
    # For a moment only, in place of for ever or ten seconds.
    done = cli(*here, "--for", "0", "--settle", "0")
    assert (done.code, done.err) == (0, "")
    [row] = map(json.loads, done.out.splitlines())
    assert (row["event"], row["ok"]) == ("found", True)
    assert 'state="whole"} 1' in Path(here[here.index("--metrics") + 1]).read_text()
    # What was told is not told again.
    assert cli(*here, "--for", "0", "--settle", "0").out == ""


def test_the_cronjob(cli, tmp_path: Path):
    job = yaml.safe_load((FIXTURES / "cronjob.yaml").read_text())
    pytest.importorskip("kubernetes_validate").validate(job, "1.33", strict=True)
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert sorted(mounted.values()) == sorted(volume["name"] for volume in spec["volumes"])
    words = [*container["command"], *container["args"]]
    for place in mounted:
        (tmp_path / place[1:]).mkdir()
        words = [str(tmp_path / word[1:]) if word.startswith(place) else word for word in words]
    llama().write(tmp_path / "models" / "m.gguf")
    llama().truncate(-100).write(tmp_path / "models" / "cut.gguf")
    for _ in range(2):
        done = cli(*words[1:])
        assert (done.code, done.err) == (1, "")
        assert {Path(row["path"]).name: row["ok"] for row in map(json.loads, done.out.splitlines())} == {
            "m.gguf": True,
            "cut.gguf": False,
        }
    assert 'state="broken"} 1' in (tmp_path / "metrics" / "models.prom").read_text()
