#!/usr/bin/env python3
"""Checks the manifests in deploy/kubernetes against the schemas of Kubernetes, and against each other.

  kubernetes_test.py FOLDER [CONVOY]    with the program: also the options in the manifests
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "golden"))
import packages  # noqa: E402

packages.add()
import kubernetes_validate  # noqa: E402
import yaml  # noqa: E402

VERSIONS = ("1.31", "1.37")
problems = []


def check(good, what):
    if not good:
        problems.append(what)


def name_of(item):
    return f"{item['kind']} {item['metadata']['name']}"


def validate(items):
    for version in VERSIONS:
        for item in items:
            try:
                kubernetes_validate.validate(item, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                path = ".".join(str(part) for part in error.path)
                problems.append(f"{name_of(item)}: {path}: {error.message} (Kubernetes {version})")


def pod_of(item):
    return item["spec"].get("template", {}).get("spec")


def labels_of(item):
    return item["spec"]["template"]["metadata"]["labels"]


def check_references(items):
    """What a schema doesn't know: that names lead somewhere."""
    namespaces = {item["metadata"].get("namespace") for item in items}
    check(len(namespaces) == 1, f"several namespaces: {namespaces}")
    claims = {"convoy-data"} | {i["metadata"]["name"] for i in items
                                if i["kind"] == "PersistentVolumeClaim"}
    workloads = [item for item in items if pod_of(item)]
    for item in items:
        selector = item["spec"].get("selector")
        if selector and item["kind"] in ("Service", "PodDisruptionBudget", "StatefulSet"):
            wanted = selector.get("matchLabels", selector).items()
            chosen = [w for w in workloads if wanted <= labels_of(w).items()]
            check(len(chosen) == 1, f"{name_of(item)} selects {[name_of(w) for w in chosen]}")
        if item["kind"] == "StatefulSet":
            services = {i["metadata"]["name"] for i in items if i["kind"] == "Service"}
            check(item["spec"]["serviceName"] in services, f"{name_of(item)}: no such service")
    for item in workloads:
        pod = pod_of(item)
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        volumes |= {v["metadata"]["name"] for v in item["spec"].get("volumeClaimTemplates", [])}
        for volume in pod.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            check(claim is None or claim in claims, f"{name_of(item)}: no claim {claim}")
        for container in pod["containers"]:
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            check(mounted <= volumes, f"{name_of(item)} mounts {mounted - volumes}")
            check(volumes <= mounted, f"{name_of(item)} does not mount {volumes - mounted}")
            ports = {port["name"] for port in container.get("ports", [])}
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                port = container.get(probe, {}).get("tcpSocket", {}).get("port")
                check(port is None or port in ports, f"{name_of(item)}: {probe}: no port {port}")
            for rule in item["spec"].get("podFailurePolicy", {}).get("rules", []):
                named = rule.get("onExitCodes", {}).get("containerName", container["name"])
                check(named == container["name"], f"{name_of(item)}: no container {named}")


def commands_of(items):
    """The command lines of convoy in the manifests, as lists of words."""
    for item in items:
        for container in (pod_of(item) or {}).get("containers", []):
            lines = [container["command"] + container.get("args", [])]
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                lines.append(container.get(probe, {}).get("exec", {}).get("command", []))
            for line in lines:
                if line[:2] == ["sh", "-c"]:
                    # The shell's own words, with what it would run printed: no shell lets a function be called exec.
                    said = line[2].replace("exec convoy", "say convoy")
                    check(said != line[2], f"{name_of(item)}: sh -c without 'exec convoy'")
                    text = subprocess.run(
                        ["sh", "-c", "say() { printf '%s\\n' \"$@\"; }; HOSTNAME=convoy-server-1; " + said],
                        capture_output=True, text=True, check=True).stdout
                    line = text.splitlines()
                if line:
                    yield name_of(item), line


def check_options(items, convoy):
    helps = {}
    for name, line in commands_of(items):
        check(line[0] == "convoy", f"{name} starts {line[0]}")
        command = line[1]
        if command not in helps:
            helps[command] = subprocess.run([convoy, command, "--help"], capture_output=True,
                                            text=True, check=False)
            check(helps[command].returncode == 0, f"{name}: there is no convoy {command}")
        for word in line[2:]:
            option = word.split("=")[0]
            if option.startswith("--"):
                known = helps[command].stdout.replace(",", " ").split()
                check(option in known, f"{name}: convoy {command} has no option {option}")


def main():
    files = sorted(pathlib.Path(sys.argv[1]).glob("*.yaml"))
    check(files, f"no manifests in {sys.argv[1]}")
    for file in files:
        items = list(yaml.safe_load_all(file.read_text()))
        items = [item for item in items if item]
        validate(items)
        check_references(items)
        if len(sys.argv) > 2:
            check_options(items, sys.argv[2])
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(files)} files are good for Kubernetes {' and '.join(VERSIONS)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
