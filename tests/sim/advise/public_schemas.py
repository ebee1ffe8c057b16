#!/usr/bin/env python3
"""Holds what `sim advise --format` prints against the public schema of each system, which is fetched and not kept.

  public_schemas.py SIM [--from DIR]    DIR: git directories that are there already, OWNER+NAME/repo; else they are cloned

YAML is held against the Go structures that read it (device plugin, DRA driver, mig-parted: a key must be a field's) and against
Kubernetes' JSON schemas (kubernetes-validate, of PyPI); annotations and resources of KAI and HAMi must stand in their sources; keys of
Slurm's files and options of sbatch in its manual pages (Debian's slurm-client). A source that cannot be fetched is skipped;
exit code 77 where none could be. Left out: nvidia-smi and nvidia-cuda-mps-control, of which no schema is public.
"""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

TRACE = {
    "corun_trace": 1, "name": "formats", "gpu": "h200", "run": {"duration_ns": 5_000_000},
    "kernels": [{"name": "k", "grid": [264, 1, 1], "block": [256, 1, 1], "solo_time_ns": 100_000}],
    "programs": [{"name": "p", "ops": [{"launch": "k"}]}],
}
GO = {"device-plugin": ("NVIDIA/k8s-device-plugin", "api/config/v1"), "dra": ("NVIDIA/k8s-dra-driver-gpu", "api/nvidia.com/resource/v1beta1"),
      "mig-parted": ("NVIDIA/mig-parted", "api/spec/v1")}


class Sources:
    def __init__(self, folder, have):
        self.folder, self.have, self.known = folder, have, {}

    def git(self, repository, *arguments):
        """What git prints of a repository; None: it is not to be had."""
        if repository not in self.known:
            path = os.path.join(self.have, repository.replace("/", "+"), "repo") if self.have else os.path.join(self.folder, repository.replace("/", "+"))
            if not self.have:
                subprocess.run(["git", "clone", "-q", "--bare", "--depth", "1", f"https://github.com/{repository}", path], stderr=subprocess.DEVNULL,
                               env=os.environ | {"GIT_TERMINAL_PROMPT": "0"}, timeout=300)
            self.known[repository] = path if os.path.isdir(path) else None
        path = self.known[repository]
        if path is None:
            return None
        return subprocess.run(["git", "-C", path, *arguments], stdout=subprocess.PIPE, text=True).stdout

    def fields(self, name):
        """{structure: {key: type}} of a folder of Go."""
        repository, folder = GO[name]
        files = self.git(repository, "ls-tree", "--name-only", "HEAD", folder + "/")
        if not files:
            return None
        found, embedded = {}, {}
        for file in files.split():
            if not file.endswith(".go") or file.endswith("_test.go"):
                continue
            for structure, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", self.git(repository, "show", "HEAD:" + file), re.M | re.S):
                found[structure] = {key: kind.lstrip("*[]") for kind, key in re.findall(r'^\s*\w*\s*([\w.*\[\]{}]+)\s+`json:"([\w-]+)', body, re.M)}
                embedded[structure] = re.findall(r'^\s+(\w+)(?:\s+`json:",inline.*)?$', body, re.M)
        for structure, others in embedded.items():
            for other in others:
                found[structure].update(found.get(other, {}))
        return found

    def kubernetes(self):
        target = os.path.join(self.folder, "pypi")
        ran = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", target, "kubernetes-validate"], stderr=subprocess.DEVNULL)
        return target if ran.returncode == 0 else None

    def manual(self, package, page):
        if subprocess.run(["apt-get", "download", "-qq", package], cwd=self.folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode != 0:
            return None
        deb = next(f for f in os.listdir(self.folder) if f.startswith(package) and f.endswith(".deb"))
        subprocess.run(["dpkg-deb", "-x", deb, package], cwd=self.folder, check=True)
        for root, _, files in os.walk(os.path.join(self.folder, package)):
            for file in files:
                if file.startswith(page) and file.endswith(".gz"):
                    return gzip.open(os.path.join(root, file), "rt").read().replace("\\-", "-")
        return None


def expect(holds, what):
    if not holds:
        raise AssertionError(what)


def check_fields(value, structure, fields):
    """Each key is one of the structure's; what is no structure of this folder is not looked into."""
    for key, inner in value.items():
        expect(key in fields[structure], f"{structure} has no {key}: {sorted(fields[structure])}")
        kind = fields[structure][key]
        for one in inner if isinstance(inner, list) else [inner]:
            if kind in fields and isinstance(one, dict):
                check_fields(one, kind, fields)


def clients(count):
    made = [{"name": f"c{i}", "program": "p", "class": "best_effort" if i else "real_time", "process": f"c{i}"} for i in range(count)]
    made[0]["arrivals"] = {"type": "periodic", "period_ns": 1_000_000}
    return made


def printed(sim, folder, format_name, modes, count=2, memory=0):
    """What is to be pasted; None where the system cannot express what is named."""
    trace = TRACE | {"clients": clients(count)}
    for client in trace["clients"]:
        client["memory_bytes"] = memory
    path = os.path.join(folder, "trace.json")
    with open(path, "w") as file:
        json.dump(trace, file)
    ran = subprocess.run([sim, "advise", "--modes", modes, "--format", format_name, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if ran.returncode == 2 and "cannot express" in ran.stderr:
        return None
    expect(ran.returncode == 0, ran.stderr)
    return ran.stdout


def all_printed(sim, folder, format_name):
    """Everything that this format can express of a few questions."""
    found = []
    for modes in ("time-slicing", "mps", "priority", "percentages", "mig"):
        for count in (1, 2, 3):
            for memory in (0, 10**9):
                text = printed(sim, folder, format_name, modes, count, memory)
                if text is not None:
                    found.append(text)
    expect(found, f"{format_name} expresses nothing")
    return found


def main(sim, have, folder):
    sources, passed, skipped = Sources(folder, have), 0, 0
    target = sources.kubernetes()  # which brings PyYAML
    sys.path.insert(0, target or folder)
    try:
        import yaml
    except ImportError:
        print("skipped  all: PyYAML cannot be fetched")
        return 77

    def documents(text):
        return [d for d in yaml.safe_load_all(text) if d is not None]

    def check(name, source, look):
        nonlocal passed, skipped
        if source is None:
            skipped += 1
            print(f"skipped  {name}: its schema cannot be fetched")
            return
        texts = all_printed(sim, folder, name.split(",")[0])
        for text in texts:
            try:
                look(text, source)
            except AssertionError as error:
                sys.exit(f"{name}: {error}\n{text}")
        passed += 1
        print(f"holds    {name}: {len(texts)} configurations")

    def plugin(text, fields):
        for document in documents(text):
            expect(document["version"] == "v1", "the version")
            check_fields(document, "Config", fields)

    def operator(text, fields):
        for document in documents(text):
            data = document["data"]
            if "shared" in data:
                check_fields(yaml.safe_load(data["shared"]), "Config", fields)

    def parted(text, fields):
        for document in documents(text):
            if "config.yaml" in document["data"]:
                config = yaml.safe_load(document["data"]["config.yaml"])
                expect(set(config) == set(fields["Spec"]), f"{set(config)} is not {set(fields['Spec'])}")
                for one in config["mig-configs"].values():
                    for spec in one:
                        check_fields(spec, "MigConfigSpec", fields)

    def claims(text, fields):
        for document in documents(text):
            for config in document.get("spec", {}).get("devices", {}).get("config", []):
                parameters = dict(config["opaque"]["parameters"])
                expect(parameters.pop("apiVersion") == "resource.nvidia.com/v1beta1", "the version")
                check_fields(parameters, parameters.pop("kind"), fields)

    def of_kubernetes(text, _):
        import kubernetes_validate
        for document in documents(text):
            try:
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
            except kubernetes_validate.ValidationError as error:
                raise AssertionError(error.message)

    def words(pattern, repository):
        def look(text, _):
            for word in sorted(set(re.findall(pattern, text))):
                # A resource of MIG has its profile behind the prefix.
                wanted = re.sub(r"mig-.*", "mig-", word)
                expect(sources.git(repository, "grep", "-l", "-F", wanted, "HEAD"), f"{wanted} stands nowhere in {repository}")
        return look

    def of_slurm(text, pages):
        gres, batch = pages
        section = ""
        for line in text.splitlines():
            if line.startswith("#"):
                section = line if re.match(r"# (gres.conf|slurm.conf|jobs|on the node)", line) else section
            elif "gres.conf" in section:
                for key in re.findall(r"(\w+)=", line):
                    expect(re.search(rf"\\fB{key}", gres), f"gres.conf has no {key}")
            elif "jobs" in section:
                for option in re.findall(r"(--[\w-]+)=", line):
                    expect(option in batch, f"sbatch has no {option}")

    check("k8s-device-plugin", sources.fields("device-plugin"), plugin)
    check("gpu-operator", sources.fields("device-plugin"), operator)
    check("gpu-operator, instances", sources.fields("mig-parted"), parted)
    check("dra", sources.fields("dra"), claims)
    for name in ("dra", "kai", "hami", "gpu-operator"):
        check(name + ", Kubernetes", target, of_kubernetes)
    for name, pattern, repository in (("kai, words", r"gpu-fraction|gpu-memory|kai\.scheduler/queue|kai-scheduler", "NVIDIA/KAI-Scheduler"),
                                      ("hami, words", r"nvidia\.com/[\w.-]+", "Project-HAMi/HAMi")):
        check(name, sources.git(repository, "rev-parse", "HEAD"), words(pattern, repository))
    gres, batch = sources.manual("slurm-client", "gres.conf.5"), sources.manual("slurm-client", "sbatch.1")
    check("slurm", (gres, batch) if gres and batch else None, of_slurm)
    print(f"{passed} passed, 0 failed, {skipped} skipped")
    return 0 if passed else 77


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[3] if len(sys.argv) > 3 else None, temporary))
