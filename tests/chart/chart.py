"""The chart, rendered by Helm 3 and by Helm 4."""

import pathlib
import subprocess

import helm_python
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/chart"
CHART = ROOT / "charts/punctual"
RELEASE = {"name": "punctual", "namespace": "cron"}


class Refused(Exception):
    """The chart, or its schema, refuses the values."""


class Strict(yaml.CSafeLoader):
    """A YAML loader that refuses a map with the same key twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise ValueError(f"{node.start_mark}: twice: {', '.join(twice)}")
        return super().construct_mapping(node, deep)


def documents(text):
    """Returns the objects in a text."""
    return [document for document in yaml.load_all(text, Strict) if document]


def value_sets():
    """Returns the sets of values by name."""
    paths = sorted((HERE / "values").glob("*.yaml"))
    return {path.stem: yaml.load(path.read_text(), Strict) or {} for path in paths}


def merged(values, more):
    """Returns the values, overridden by others as Helm merges them."""
    result = dict(values)
    for key, value in more.items():
        old = result.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        result[key] = merged(old, value) if both else value
    return result


def ordered(objects):
    """Returns the objects sorted by kind and name, so that two renderings can be compared."""
    return sorted(objects, key=lambda it: (it["kind"], it["metadata"]["name"]))


class Helm3:
    """The command line of Helm 3."""

    name = "Helm 3"

    def __init__(self, program):
        self.program = program

    def render(self, values, version):
        """Returns the objects for a version of Kubernetes."""
        command = [self.program, "template", RELEASE["name"], str(CHART)]
        command += ["--namespace", RELEASE["namespace"], "--kube-version", version, "--values", "-"]
        text = yaml.safe_dump(values)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Refused(done.stderr)
        return ordered(documents(done.stdout))

    def lint(self, values):
        """Returns the complaints of `helm lint --strict`."""
        command = [self.program, "lint", "--strict", str(CHART), "--values", "-"]
        text = yaml.safe_dump(values)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else done.stdout + done.stderr


class Helm4:
    """The library of Helm 4. It has no option for the version of Kubernetes, so the values name it."""

    name = "Helm 4"

    def files(self, values, version):
        """Returns the text of each template."""
        values = merged(values, {"kubeVersion": version})
        try:
            with helm_python.Chart.load(str(CHART)) as chart:
                return chart.render(values, **RELEASE)
        except helm_python.HelmError as error:
            raise Refused(str(error)) from error

    def render(self, values, version):
        """Returns the objects for a version of Kubernetes."""
        texts = self.files(values, version)
        manifests = [text for name, text in texts.items() if name.endswith(".yaml")]
        return ordered([document for text in manifests for document in documents(text)])

    def notes(self, values, version):
        """Returns the notes that are shown after an install."""
        texts = self.files(values, version)
        return next(text for name, text in texts.items() if name.endswith("NOTES.txt"))


def pods(objects):
    """Returns the Pod templates with their objects."""
    for item in objects:
        if item["kind"] == "Pod":
            yield item, item
        elif "template" in item.get("spec", {}):
            yield item, item["spec"]["template"]
