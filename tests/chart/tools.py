"""Checks by other programs: checkov for the objects, promtool for the rules, Grafana's types for dashboards."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

import yaml

from chart import CHART, HERE, ROOT, value_sets
from rendering import SNAPSHOT


def check_checkov(helm3):
    """Checks that checkov finds exactly the exceptions that exceptions.yaml explains."""
    exceptions = yaml.safe_load((HERE / "exceptions.yaml").read_text())
    met = set()
    with tempfile.TemporaryDirectory() as folder:
        for name, values in value_sets().items():
            text = yaml.safe_dump_all(helm3.render(values, SNAPSHOT))
            (pathlib.Path(folder) / f"{name}.yaml").write_text(text)
        command = [str(pathlib.Path(sys.executable).parent / "checkov"), "--framework", "kubernetes"]
        command += ["--skip-download", "--quiet", "--compact", "--output", "json", "--directory", folder]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    if report["summary"]["parsing_errors"] or report["summary"]["resource_count"] < 50:
        yield f"checkov could not parse all files: {report['summary']}"
    for finding in report["results"]["failed_checks"]:
        check, kind = finding["check_id"], finding["resource"].split(".")[0]
        if kind in exceptions.get(check, {"kinds": []})["kinds"]:
            met.add((check, kind))
        else:
            yield f"{finding['file_path']}: {finding['resource']}: {check}: {finding['check_name']}"
    for check, exception in exceptions.items():
        for kind in exception["kinds"]:
            if (check, kind) not in met:
                yield f"exceptions.yaml: {check} is not found at any {kind}: remove it"


def ran(command):
    """Returns the output of a command if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return "" if done.returncode == 0 else f"{' '.join(command[:3])}: {done.stdout}{done.stderr}"


def check_rules(helm3):
    """Checks the rules with promtool, as files and as an object of the chart, and runs their tests."""
    files = sorted(str(path) for path in (CHART / "rules").glob("*.yaml"))
    tests = sorted(str(path) for path in (HERE / "rules").glob("*.yaml"))
    values = value_sets()["cluster-autoscaled"]
    objects = helm3.render(values, SNAPSHOT)
    groups = next(it for it in objects if it["kind"] == "PrometheusRule")["spec"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as rendered:
        yaml.safe_dump(groups, rendered)
        rendered.flush()
        for complaint in (
            ran(["promtool", "check", "rules", "--lint=all", "--lint-fatal", *files]),
            ran(["promtool", "check", "rules", "--lint-fatal", rendered.name]),
            ran(["promtool", "test", "rules", *tests]),
        ):
            if complaint:
                yield complaint
    plain = [rule for file in files for g in yaml.safe_load(open(file))["groups"] for rule in g["rules"]]
    wrapped = [rule for group in groups["groups"] for rule in group["rules"]]
    base = values["monitoring"]["prometheusRule"]["runbookUrl"]
    for rule in plain:
        if "alert" in rule:
            url = rule["annotations"]["runbook_url"]
            rule["annotations"]["runbook_url"] = f"{base}#{url.split('#')[1]}"
        if rule not in wrapped:
            yield f"the PrometheusRule lacks {rule.get('alert') or rule['record']}, or changes it"
    if len(plain) != len(wrapped):
        yield f"the PrometheusRule has {len(wrapped)} rules, the files have {len(plain)}"


def check_types(modules):
    """Checks that the dashboards match Grafana's types."""
    files = sorted(str(path) for path in (CHART / "dashboards").glob("*.json"))
    complaint = ran(["node", str(HERE / "dashboards/types.mjs"), str(modules), *files])
    if complaint:
        yield complaint


def check_wrapped_dashboards(helm3):
    """Checks that the ConfigMaps contain the dashboards, each under its own name."""
    objects = helm3.render(value_sets()["cluster-autoscaled"], SNAPSHOT)
    held = {
        json.dumps(json.loads(text))
        for it in objects
        if it["kind"] == "ConfigMap" and it["metadata"]["labels"].get("grafana_dashboard") == "1"
        for text in it["data"].values()
    }
    for path in (CHART / "dashboards").glob("*.json"):
        if json.dumps(json.loads(path.read_text())) not in held:
            yield f"no ConfigMap holds {path.name}"


def check_compose(program):
    """Checks the Compose file: the files that it names, and the configuration of Prometheus and the service."""
    folder = ROOT / "charts/compose"
    text = (folder / "compose.yaml").read_text()
    compose = yaml.safe_load(text)
    volumes = set(compose["volumes"])
    for name, service in compose["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            there = (folder / source).exists() if source.startswith(".") else source in volumes
            # Otherwise the comment at the head of the file must say how to create it.
            there = there or f"mkdir {source.removeprefix('./')} " in text
            if not there:
                yield f"compose.yaml: {name}: there is no {source}"
        for other in service.get("depends_on", {}):
            if other not in compose["services"]:
                yield f"compose.yaml: {name}: there is no service {other}"
    complaint = ran(["promtool", "check", "config", "--syntax-only", str(folder / "prometheus.yml")])
    if complaint:
        yield complaint
    scraped = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"][0]
    targets = {it.split(":")[0] for it in scraped["static_configs"][0]["targets"]}
    replicas = {name for name, it in compose["services"].items() if it.get("command") == ["serve"]}
    if targets != replicas or len(replicas) != 3:
        yield f"compose.yaml has the replicas {sorted(replicas)}, Prometheus scrapes {sorted(targets)}"
    for name in sorted(replicas):
        env = {"PATH": os.environ["PATH"]} | compose["services"][name]["environment"]
        with tempfile.TemporaryDirectory() as place:
            key = pathlib.Path(place) / "key"
            key.write_text("k1:" + "A" * 43 + "=\n")
            key.chmod(0o600)
            env = {k: str(key) if k.endswith("KEYS_FILE") else v for k, v in env.items()}
            done = subprocess.run(
                [program, "config"], env=env, cwd=place, capture_output=True, text=True, check=False
            )
        if done.returncode != 0 or done.stderr:
            yield f"compose.yaml: {name}: the service says: {done.stderr}"
