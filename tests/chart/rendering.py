"""Checks that both Helms render the value sets as in the snapshots, valid for all versions of Kubernetes."""

import functools
import json

import kubernetes_validate
import yaml

from chart import HERE, Helm4, Refused, merged, value_sets

# The Kubernetes version of the snapshots, and all versions that the chart supports.
SNAPSHOT = "1.34.0"
VERSIONS = [f"1.{minor}.0" for minor in range(28, 38)]
# Kinds that are not built into Kubernetes, so it has no schemas for them.
OTHERS = {"HTTPRoute", "PrometheusRule", "ServiceMonitor"}
MIN_SETS = 8


def snapshot(objects, notes):
    """Returns objects as text, without the long texts that other tests check."""
    for item in objects:
        if item["kind"] == "Pod":
            item["spec"]["containers"][0]["args"] = ["(charts/punctual/scripts/helm-test.sh)"]
        if item["kind"] == "ConfigMap":
            for key in item["data"]:
                if key.endswith(".json"):
                    item["data"][key] = "(the file of this name in charts/punctual/dashboards)"
        if item["kind"] == "PrometheusRule":
            for group in item["spec"]["groups"]:
                names = [rule.get("alert") or rule["record"] for rule in group["rules"]]
                group["rules"] = [f"(the rule {name})" for name in names]
    text = yaml.safe_dump_all(objects, sort_keys=False, width=110, allow_unicode=True)
    return text + "---\n" + "".join(f"# {line}".rstrip() + "\n" for line in notes.splitlines())


def check_snapshots(helm3, write):
    """Checks that both Helms render the snapshot of each set; `write` replaces the snapshots."""
    sets = value_sets()
    if len(sets) < MIN_SETS:
        yield f"only {len(sets)} value sets"
    for name, values in sets.items():
        # Helm 3 gets the version by an option and by a value; the value must take precedence.
        objects = helm3.render(merged(values, {"kubeVersion": SNAPSHOT}), SNAPSHOT)
        if objects != Helm4().render(values, SNAPSHOT):
            yield f"{name}: Helm 3 and Helm 4 render different objects"
        text = snapshot(objects, Helm4().notes(values, SNAPSHOT))
        path = HERE / "snapshots" / f"{name}.yaml"
        if write:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            yield f"{name}: differs from {path.name}; write it with `tests/run chart-snapshots`, and review the difference"
    for path in (HERE / "snapshots").glob("*.yaml"):
        if path.stem not in sets:
            yield f"{path.name} belongs to no value set"


def check_schemas(helm3):
    """Checks that each set is valid for each version, by the strict schemas of that version."""
    # Otherwise each object takes the time to parse all definitions of its version.
    library = kubernetes_validate.utils
    library.schema_contents = functools.cache(library.schema_contents)
    valid = set()
    for name, values in value_sets().items():
        for version in VERSIONS:
            for helm in (helm3, Helm4()):
                for item in helm.render(values, version):
                    text = json.dumps(item)
                    if item["kind"] in OTHERS or (version, text) in valid:
                        continue
                    valid.add((version, text))
                    try:
                        kubernetes_validate.validate(item, version, strict=True)
                    except kubernetes_validate.ValidationError as error:
                        what = f"{item['kind']} {item['metadata']['name']}"
                        yield f"{name}, {helm.name}, {version}: {what}: {error.message}"


def check_lint(helm3):
    """Checks that `helm lint` has no complaint about any set."""
    for name, values in value_sets().items():
        complaint = helm3.lint(values)
        if complaint:
            yield f"{name}: {complaint}"


def check_refusals(helm3):
    """Checks that both Helms refuse bad values with the expected sentence."""
    sets = value_sets()
    for case in yaml.safe_load((HERE / "refused.yaml").read_text()):
        values = merged(sets[case.get("set", "embedded")], case["values"])
        for helm in (helm3, Helm4()):
            try:
                helm.render(values, SNAPSHOT)
                yield f"{case['why']}: {helm.name} takes it"
            except Refused as refusal:
                said = " ".join(str(refusal).split())
                if case["says"] not in said:
                    yield f"{case['why']}: {helm.name} says: {said}"
