"""Checks that the chart accepts the settings of the service, except those that it sets itself.

`python3 tests/chart/settings.py` writes them into the chart's schema; the test only compares.
"""

import json
import pathlib
import re
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "charts/punctual/values.schema.json"
DEFAULTS = ROOT / "src/config/default.toml"
PLANS = ROOT / "src/config/plans.rs"

# The settings that the chart sets, from other values.
OWN = {
    "roles",
    "data_dir",
    "log_format",
    "http.listen",
    "ops.listen",
    "store.url",
    "store.password_file",
    "store.migrate",
    "queue.url",
    "queue.password_file",
    "queue.ca_file",
    "cluster.url",
    "cluster.password_file",
    "cluster.ca_file",
    "outbound.allow",
    "canary.enabled",
    "oidc.client_secret",
    "oidc.client_secret_file",
    "mail.password_file",
    "mail.ca_file",
    "secrets.keys",
    "secrets.keys_file",
    "shutdown.grace_seconds",
    "shutdown.drain_seconds",
}


def type_of(default):
    """Returns the schema of a setting with this default. The service itself checks ranges at its start."""
    if isinstance(default, bool):
        return {"type": "boolean"}
    if isinstance(default, int):
        return {"type": "integer"}
    if isinstance(default, float):
        return {"type": "number"}
    if isinstance(default, list):
        numbers = bool(default) and all(isinstance(item, int) for item in default)
        return {"type": "array", "items": {"type": "integer" if numbers else "string"}}
    return {"type": "string"}


def expected():
    """Returns the schema of `settings`."""
    defaults = tomllib.loads(DEFAULTS.read_text())
    properties = {}
    for key, value in defaults.items():
        if not isinstance(value, dict):
            if key not in OWN:
                properties[key] = type_of(value)
            continue
        fields = {
            name: type_of(default)
            for name, default in value.items()
            if f"{key}.{name}" not in OWN
        }
        if fields:
            properties[key] = {
                "type": "object",
                "additionalProperties": False,
                "properties": fields,
            }
    return {"type": "object", "additionalProperties": False, "properties": properties}


def limits():
    """Returns the limits that a plan can have, according to the service."""
    listed = re.search(r"const LIMITS: .*?\[\n(.*?)\];", PLANS.read_text(), re.DOTALL)
    return set(re.findall(r'"(\w+)"', listed.group(1)))


def check():
    """Yields the faults, as sentences."""
    properties = json.loads(SCHEMA.read_text())["properties"]
    in_schema = set(properties["plans"]["additionalProperties"]["properties"])
    for limit in sorted(limits() ^ in_schema):
        yield f"values.schema.json: plans.*.{limit} is in one of the schema and {PLANS.name} alone"
    if properties["settings"] != expected():
        yield (
            "values.schema.json: settings are not those of src/config/default.toml: "
            "run python3 tests/chart/settings.py"
        )


def dump(schema):
    """Returns the text of the schema file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    schema = json.loads(SCHEMA.read_text())
    schema["properties"]["settings"] = expected()
    SCHEMA.write_text(dump(schema))
