"""What administrators are given: a Kubernetes example, Slurm's prolog and epilog, alerts."""
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest

yaml = pytest.importorskip("yaml")
PACKAGING = pathlib.Path(__file__).parents[2] / "packaging"
SIM = os.environ["CORUN_SIM"]


# --- Kubernetes ---

POD = {"nodeSelector", "runtimeClassName", "hostIPC", "hostPID", "terminationGracePeriodSeconds", "securityContext", "initContainers", "containers", "volumes"}
CONTAINER = {"name", "image", "command", "env", "readinessProbe", "volumeMounts", "securityContext"}


def documents():
    return list(yaml.safe_load_all((PACKAGING / "kubernetes.yaml").read_text()))


def pods():
    return [d["spec"]["template"]["spec"] if d["kind"] == "DaemonSet" else d["spec"] for d in documents()]


def containers():
    return [c for pod in pods() for c in pod.get("initContainers", []) + pod["containers"]]


def test_the_example_keeps_to_the_schemas():
    kinds = {(d["apiVersion"], d["kind"]) for d in documents()}
    assert kinds == {("apps/v1", "DaemonSet"), ("v1", "Pod")}
    for pod in pods():
        assert set(pod) <= POD
    for container in containers():
        assert set(container) <= CONTAINER
        assert all(isinstance(word, str) for word in container["command"]), "numbers are no words"
        assert all(isinstance(e["value"], str) for e in container.get("env", []))
    daemon = documents()[0]["spec"]
    assert daemon["selector"]["matchLabels"] == daemon["template"]["metadata"]["labels"]
    try:
        import kubernetes_validate  # of PyPI: the schemas of each version
    except ImportError:
        return
    for document in documents():
        kubernetes_validate.validate(document, "1.32", strict=True)


def test_the_services_pod_and_the_programs_have_one_user_and_one_folder():
    assert {pod["securityContext"]["runAsUser"] for pod in pods()} == {1000}
    assert all(pod["hostIPC"] and pod["nodeSelector"] == pods()[0]["nodeSelector"] for pod in pods())
    folders = set()
    for pod in pods():
        paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
        for container in pod.get("initContainers", []) + pod["containers"]:
            assert [(paths[m["name"]], m["mountPath"]) for m in container["volumeMounts"]] == [("/run/corun", "/run/corun")]
            folders |= {word for word in container["command"] if word.startswith("/run/corun/")}
    assert len(folders) == 1
    made = pods()[0]["initContainers"][0]
    assert made["command"][:7] == ["install", "-d", "-m", "0700", "-o", "1000", "-g"] and made["securityContext"]["runAsUser"] == 0


def commands_of_sim():
    for container in containers():
        for command in (container["command"], container.get("readinessProbe", {}).get("exec", {}).get("command", [])):
            if command[:1] == ["sim"]:
                yield command
    for script in PACKAGING.glob("slurm/*.sh"):
        for found in re.findall(r"\bsim (?:serve|top|run)\b[^|>&]*", re.sub(r"(?m)^#(?!   ?sim).*", "", script.read_text())):
            yield found.split()


def test_each_option_is_one_of_sims():
    seen = 0
    for command in commands_of_sim():
        own = command[: command.index("--")] if "--" in command else command
        said = subprocess.run([SIM, command[1], "--help"], capture_output=True, text=True, check=True).stdout
        for word in own[2:]:
            if word.startswith("--"):
                assert re.search(rf"{word.split('=')[0]}\b", said), command
                seen += 1
    assert seen >= 8


# --- Slurm ---

SCRIPTS = sorted(PACKAGING.glob("slurm/*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda s: s.name)
def test_a_script_is_bash_without_faults(script):
    assert script.stat().st_mode & stat.S_IXUSR
    subprocess.run(["bash", "-n", script], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", script], check=True)


FAKE_SIM = r"""#!/bin/bash
command=$1; while [ $# -gt 0 ]; do [ "$1" = --at ] && at=$2; shift; done
case $command in
  top) [ -s "$at/alive" ] && kill -0 "$(cat "$at/alive")" ;;
  serve)
    [ -z "${FAKE_FAILS:-}" ] || { echo "sim: it fails" >&2; exit 2; }
    echo "$at $CUDA_VISIBLE_DEVICES" >>"$FAKE_LOG"
    trap 'rm -f "$at/alive"; exit 0' TERM
    sleep 0.2; echo $$ >"$at/alive"
    while :; do sleep 0.05; done ;;
esac
"""


class Node:
    def __init__(self, folder):
        self.folder, self.log, path = folder, folder / "log", folder / "bin"
        path.mkdir()
        self.user = 65534 if os.getuid() == 0 else os.getuid()
        # setpriv, and who the user is, are played: the folder of a test is not everybody's.
        for name, text in (("sim", FAKE_SIM), ("nvidia-smi", "#!/bin/sh\necho GPU-of-$4\n"), ("setpriv", '#!/bin/sh\necho "$1" >>"$FAKE_LOG.users"\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')):
            (path / name).write_text(text)
            (path / name).chmod(0o755)
        self.environment = dict(os.environ, PATH=f"{path}:{os.environ['PATH']}", CORUN_FOLDER=str(folder / "run"), FAKE_LOG=str(self.log))

    def run(self, script, job, gpus, **more):
        began = time.time()
        done = subprocess.run([PACKAGING / "slurm" / script], capture_output=True, text=True, timeout=60,
                              env=self.environment | {"SLURM_JOB_ID": str(job), "SLURM_JOB_UID": str(self.user), "SLURM_JOB_USER": "somebody", "SLURM_JOB_GPUS": gpus} | more)
        assert done.returncode == 0, done.stderr  # else Slurm drains the node
        assert time.time() - began < 20, "it waits for the service's end"
        return done.stderr

    def services(self):
        return [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def alive(self):
        return sorted(int(f.parent.name) for f in self.folder.glob("run/*/*/alive"))

    def until(self, condition):
        for _ in range(200):
            if condition():
                return True
            time.sleep(0.05)
        return False

    def end(self):
        for file in self.folder.glob("run/*/*/alive"):
            os.kill(int(file.read_text()), signal.SIGTERM)


@pytest.fixture
def node(tmp_path):
    node = Node(tmp_path)
    yield node
    node.end()


def test_jobs_of_a_user_share_a_service_a_gpu_which_ends_with_the_last(node):
    assert node.run("prolog.sh", 1, "0,3") == ""
    assert node.alive() == [0, 3]
    node.run("prolog.sh", 2, "3")
    assert [(at.rsplit("/", 1)[1], gpu) for at, gpu in node.services()] == [("0", "GPU-of-0"), ("3", "GPU-of-3")]
    folder = node.folder / "run" / str(node.user) / "3"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.stat().st_uid == node.user
    assert set((node.folder / "log.users").read_text().split()) == {f"--reuid={node.user}"}
    node.run("epilog.sh", 1, "0,3")
    assert node.until(lambda: node.alive() == [3])
    node.run("epilog.sh", 2, "3")
    assert node.until(lambda: node.alive() == [])
    assert not list(node.folder.glob("run/*/*.pid"))


def test_a_job_runs_where_no_service_starts(node):
    assert "no service for GPU 0: sim: it fails" in node.run("prolog.sh", 1, "0", FAKE_FAILS="1")
    node.run("epilog.sh", 1, "0")


def test_a_job_without_gpus_and_a_job_of_root_start_nothing(node):
    node.run("prolog.sh", 1, "")
    node.run("prolog.sh", 2, "0", SLURM_JOB_UID="0")
    assert node.services() == []


def test_another_process_of_the_number_of_a_service_is_left_alone(node):
    node.run("prolog.sh", 1, "0")
    other = subprocess.Popen(["sleep", "60"])
    file = node.folder / "run" / str(node.user) / "0.pid"
    service = int(file.read_text())
    file.write_text(str(other.pid))
    node.run("epilog.sh", 1, "0")
    assert other.poll() is None
    other.kill()
    other.wait()
    os.kill(service, signal.SIGTERM)


# --- alerts ---


def test_the_alerts_have_what_prometheus_asks_of_rules():
    (group,) = yaml.safe_load((PACKAGING / "corun.rules.yaml").read_text())["groups"]
    assert set(group) == {"name", "rules"} and len(group["rules"]) == 2
    for rule in group["rules"]:
        assert set(rule) == {"alert", "expr", "for", "annotations"}
        assert re.fullmatch(r"\d+m", rule["for"]) and rule["expr"].count("(") == rule["expr"].count(")")
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "rules", PACKAGING / "corun.rules.yaml"], check=True)
