"""Checks the queries of dashboards and rules: their syntax, and the names of metrics and labels."""

import json
import re
import subprocess

import yaml

from chart import CHART, HERE, ROOT

METRICS = ROOT / "src/telemetry/metrics"
# The names that a scrape, Kubernetes, the rules and Prometheus itself add.
FOREIGN_LABELS = {"namespace", "job", "instance", "pod", "le", "__name__", "alertname", "alertstate"}
FOREIGN_METRICS = {"ALERTS"}
# The series that the exposition adds to a histogram.
PARTS = ("_bucket", "_sum", "_count")


def table():
    """Returns the metrics of the source by name: `True` for a histogram."""
    found = {}
    entry = re.compile(r'^\s*[A-Z_]+:\s*(\w+)[^=;]*=\s*"(punctual_\w+)"', re.MULTILINE)
    for kind, name in entry.findall((METRICS / "mod.rs").read_text()):
        found[name] = kind == "Histogram"
    process = re.findall(r'"(process_\w+)"', (METRICS / "process.rs").read_text())
    return found | {name: False for name in process}


def rules():
    """Returns the rules with the name of their file."""
    for path in sorted((CHART / "rules").glob("*.yaml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield path.name, rule


def dashboards():
    """Returns the dashboards by the name of their file."""
    return {path.name: json.loads(path.read_text()) for path in (CHART / "dashboards").glob("*.json")}


def queries():
    """Returns all expressions by their place."""
    found = {}
    for file, rule in rules():
        found[f"{file}: {rule.get('alert') or rule['record']}"] = rule["expr"]
    for file, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                found[f"{file}: {panel['title']} {target['refId']}"] = target["expr"]
        for annotation in dashboard["annotations"]["list"]:
            found[f"{file}: annotation {annotation['name']}"] = annotation["expr"]
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                inner = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                found[f"{file}: variable {variable['name']}"] = inner[1]
    return found


def check_queries(modules):
    """Checks that every query is PromQL and uses only metrics and labels of the source."""
    known, labels = table(), label_names()
    recorded = {rule["record"] for _, rule in rules() if "record" in rule}
    done = subprocess.run(
        ["node", str(HERE / "dashboards/queries.mjs"), str(modules)],
        input=json.dumps(queries()),
        capture_output=True,
        text=True,
        check=True,
    )
    for place, read in json.loads(done.stdout).items():
        for error in read["errors"]:
            yield f"{place}: not PromQL: {error}"
        if not read["metrics"]:
            yield f"{place}: names no metric"
        for label in read["labels"]:
            if label not in labels | FOREIGN_LABELS:
                yield f"{place}: no metric has a label {label}"
        for metric in read["metrics"]:
            base = next((metric.removesuffix(it) for it in PARTS if metric.endswith(it)), metric)
            if metric in recorded | FOREIGN_METRICS:
                continue
            if metric in known:
                if known[metric]:
                    yield f"{place}: {metric} is a histogram: take {', '.join(PARTS)}"
            elif not known.get(base, False):
                yield f"{place}: there is no metric {metric}"


def label_names():
    """Returns the labels that the source gives to metrics."""
    sources = "\n".join(path.read_text() for path in sorted(METRICS.glob("*.rs")))
    named = r'(?:NAME: &\'static str =|, )\s*"([a-z_]+)"\s*[{;]'
    return set(re.findall(named, sources)) | set(re.findall(r'from_static_parts\("([a-z_]+)"', sources))


def check_dashboards():
    """Checks the panels: titles that are questions, units, thresholds, and no overlap."""
    seen = set()
    for file, dashboard in dashboards().items():
        if dashboard["uid"] in seen:
            yield f"{file}: another dashboard has the uid {dashboard['uid']}"
        seen.add(dashboard["uid"])
        ids, taken = set(), set()
        for panel in dashboard["panels"]:
            if panel["id"] in ids:
                yield f"{file}: the id {panel['id']} comes twice"
            ids.add(panel["id"])
            if panel["type"] != "row":
                if not panel["title"].endswith("?"):
                    yield f"{file}: the title {panel['title']!r} is no question"
                defaults = panel["fieldConfig"]["defaults"]
                if not defaults.get("unit") or not defaults["thresholds"]["steps"]:
                    yield f"{file}: {panel['title']} has no unit or no thresholds"
            at = panel["gridPos"]
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            if cells & taken or at["x"] + at["w"] > 24:
                yield f"{file}: {panel['title']} overlaps another panel"
            taken |= cells


def kebab(name):
    """Returns the anchor of a heading in the runbook."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", name).lower()


def check_alerts():
    """Checks that each alert has a severity, a summary, a description and a runbook, and is tested both ways."""
    tested = {}
    for path in (HERE / "rules").glob("*.yaml"):
        for test in yaml.safe_load(path.read_text())["tests"]:
            for case in test["alert_rule_test"]:
                tested.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    runbook = ROOT / "docs/operations.md"
    text = runbook.read_text()
    for file, rule in rules():
        if "alert" not in rule:
            continue
        name = rule["alert"]
        place = f"{file}: {name}"
        if rule["labels"].get("severity") not in ("critical", "warning"):
            yield f"{place}: the severity is neither critical nor warning"
        if not rule["annotations"].get("summary") or not rule["annotations"].get("description"):
            yield f"{place}: has no summary or no description"
        if rule["annotations"].get("runbook_url") != f"docs/operations.md#{kebab(name)}":
            yield f"{place}: the runbook is not docs/operations.md#{kebab(name)}"
        if not has_heading(text, kebab(name)):
            yield f"{place}: docs/operations.md has no heading for it"
        if tested.pop(name, set()) != {True, False}:
            yield f"{place}: not tested both ways, when it fires and when it is quiet"
    for name in tested:
        yield f"a test names an alert that does not exist: {name}"


def has_heading(text, anchor):
    """Returns `True` if a link with this anchor leads to a heading."""
    for line in text.splitlines():
        if line.startswith("#"):
            words = re.sub(r"[^\w\s-]", "", line.lstrip("#").strip().lower())
            if anchor in (words.replace(" ", "-"), kebab(line.lstrip("#").strip().strip("`"))):
                return True
    return False
