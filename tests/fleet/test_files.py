"""The files that docs/scan.md hands out: valid for what reads them, and run as far as they can be here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.build import llama

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "fleet"


def documents() -> list[dict]:
    return list(yaml.safe_load_all((FIXTURES / "dask-cluster.yaml").read_text()))


def test_the_manifests_of_kubernetes():
    validate = pytest.importorskip("kubernetes_validate").validate
    cluster, job = documents()
    assert (cluster["apiVersion"], cluster["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    validate(job, "1.33", strict=True)
    # The operator makes these of it; all of it was valid for the schema of its resource (dask_kubernetes 2026.3.0).
    for part in ("worker", "scheduler"):
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": part}, "spec": cluster["spec"][part]["spec"]}
        validate(pod, "1.33", strict=True)
    service = cluster["spec"]["scheduler"]["service"]
    validate({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": service}, "1.33", strict=True)
    assert service["selector"]["dask.org/cluster-name"] == cluster["metadata"]["name"]


def test_its_pods_see_the_same_and_the_command_is_ours(cli):
    cluster, job = documents()
    specs = [cluster["spec"]["worker"]["spec"], job["spec"]["template"]["spec"]]
    mounts = [mount for spec in specs for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "models"]
    assert mounts[0] == mounts[1]
    container = specs[1]["containers"][0]
    words = [*container["command"][1:], *container["args"]]
    address = words[words.index("--scheduler") + 1]
    assert (
        address
        == f"tcp://{cluster['metadata']['name']}-scheduler:{cluster['spec']['scheduler']['service']['ports'][0]['port']}"
    )
    # As far as it goes without a cluster: its folder is not here.
    done = cli(*words)
    assert (done.code, "/models" in done.err) == (2, True)


@pytest.mark.parametrize("queue", [True, False], ids=["script", "run"])
def test_slurm(tmp_path: Path, queue: bool):
    # Only in processes of its own: dask-jobqueue takes SIGINT for itself as soon as it is imported.
    if find_spec("dask_jobqueue") is None:
        pytest.skip("no dask-jobqueue")
    if queue:
        code = "import slurm\nwith slurm.cluster(local=False) as made:\n    print(made.job_script())"
        made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=FIXTURES)
        assert made.returncode == 0, made.stderr
        script = made.stdout
        assert "#SBATCH -p cpu" in script
        assert f"{sys.executable} -m distributed.cli.dask_worker" in script
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
        return
    llama().write(tmp_path / "good.gguf")
    llama().truncate(-500).write(tmp_path / "cut.gguf")
    argv = [sys.executable, str(FIXTURES / "slurm.py"), "--local", str(tmp_path), "--no-lint", "--format", "jsonl"]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=os.getcwd())
    assert done.returncode == 1, done.stderr
    assert {Path(row["path"]).name: row["ok"] for row in map(json.loads, done.stdout.splitlines())} == {
        "good.gguf": True,
        "cut.gguf": False,
    }
